"""Flat layout of small indexes: codes in order of insertion, all scored by NumPy.

Scores equal those of the compiled traversal of inverted lists to the bit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Union

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, Ints
from acqh.index.checks import frozen, read_array, read_count, require
from acqh.index.search import ResidualCodebooks, Target, TopRows, check_scales
from acqh.index.snapshot import Snapshot, pack_bits

if TYPE_CHECKING:
    from acqh.index.inverted import InvertedSegment

# An index of up to this many items is flat. Measured: one query over 16,384 codes of 4 or 8 bytes
# takes as long here, 0.10 or 0.17 ms, as in compiled inverted lists.
FLAT_MAX_ROWS = 16_384
# Scores that one call computes with NumPy, in 0.1 s. Longer batches load the compiled search.
FLAT_MAX_SCORES = 2 * 10**7
_N_BLOCKS = 64


@dataclass(frozen=True, eq=False)
class Planes:
    """An immutable block of codes: all first bytes together, then all second bytes, and so on."""

    planes: Array  # (n_bytes, n_rows) uint8

    @property
    def n_rows(self) -> int:
        return int(self.planes.shape[1])

    @property
    def nbytes(self) -> int:
        return self.planes.nbytes

    def codes(self, start: int = 0, stop: int | None = None) -> Array:
        """Return the codes of consecutive rows, of all by default: (n, n_bytes) uint8."""
        return np.ascontiguousarray(self.planes[:, start:stop].T)


def planes_of(codes: Array) -> Array:
    """Return codes, (n_rows, n_bytes) uint8, as byte planes."""
    return frozen(codes.T.copy())


def join_planes(segments: Sequence[Planes], keep: Sequence[Bools | None]) -> Array:
    """Concatenate the rows to keep of several segments; a mask of None keeps all."""
    planes = [
        segment.planes if mask is None else segment.planes[:, mask]
        for segment, mask in zip(segments, keep, strict=True)
    ]
    return frozen(np.concatenate(planes, axis=1))


@dataclass(frozen=True, eq=False)
class FlatSegment(Planes):
    """Additive codes of a small index.

    Examples
    --------
    >>> codes = np.array([[1, 0], [0, 2]], dtype=np.uint8)
    >>> FlatSegment(planes_of(codes), codebook_size=3).codes(1)
    array([[0, 2]], dtype=uint8)
    """

    codebook_size: int
    residuals: ResidualCodebooks | None = None  # of the codebooks; not stored

    @classmethod
    def join(
        cls, segments: Sequence[Any], keep: Sequence[Bools | None]
    ) -> Union[Self, "InvertedSegment"]:
        """Merge segments, flat or inverted; a small result stays flat."""
        n_rows = sum(
            segment.n_rows if mask is None else int(np.count_nonzero(mask))
            for segment, mask in zip(segments, keep, strict=True)
        )
        is_flat = all(isinstance(segment, FlatSegment) for segment in segments)
        if n_rows > FLAT_MAX_ROWS or not is_flat:
            from acqh.index.inverted import InvertedSegment

            return InvertedSegment.join(segments, keep)
        return cls(join_planes(segments, keep), segments[0].codebook_size, segments[0].residuals)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of codebooks, and of codewords in each."""
        return len(self.planes), self.codebook_size

    @cached_property
    def inverted(self) -> "InvertedSegment":
        """The same rows as inverted lists: for early stops, long batches, and large indexes."""
        from acqh.index.inverted import InvertedSegment

        return InvertedSegment.of(self.codes(), self.codebook_size, self.residuals)

    def items(self, keep: Bools | None = None) -> Iterator[tuple[Array, Ints]]:
        """Yield the codes and the rows of the items to keep."""
        rows = np.arange(self.n_rows) if keep is None else np.flatnonzero(keep)
        yield self.codes()[rows], rows

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {"planes": self.planes}, {"codebook_size": self.codebook_size}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Array], info: Mapping[str, Any]
    ) -> Union[Self, "InvertedSegment"]:
        """Return the segment of `to_arrays`, of either layout; check all codewords if flat."""
        if "planes" not in arrays:
            from acqh.index.inverted import InvertedSegment

            return InvertedSegment.from_arrays(arrays, info)
        planes = read_array(arrays, "planes", np.uint8)
        size = read_count(info, "codebook_size")
        require(planes.ndim == 2 and planes.size > 0 and planes.shape[1] <= FLAT_MAX_ROWS, "planes")
        require(int(planes.max()) < size, "codebook_size")
        return cls(planes, size)

    def verify(self) -> None:
        """Every codeword was read when the file was opened."""


def flat_targets(snapshot: Snapshot[Any], masks: Sequence[Bools] | None) -> list[Target]:
    """Return the planes of all parts, with their allowed rows."""
    return [
        Target(
            part.segment.planes,
            int(snapshot.first_rows[number]),
            part.live if masks is None else pack_bits(masks[number]),
        )
        for number, part in enumerate(snapshot.parts)
    ]


def search_flat(tables: Floats, targets: Sequence[Target], k: int, compiled: Any) -> TopRows:
    """Find each query's k best rows of all targets together by scoring all rows.

    `tables`: (n_queries, n_codebooks, codebook_size) float32. `targets`: in order of row.
    `compiled`: the module `compiled.tables`, or None for NumPy.
    """
    planes, rows = allowed_rows(targets, tables.shape[1])
    score = table_scores if compiled is None else compiled.table_scores
    if compiled is None:
        planes = planes.astype(np.intp)  # once; `take` would convert them for every query
    top = TopRows.none(len(tables), k)
    fill_best(top, (score(table, planes) for table in tables), rows, k)
    return top


def tables_of(codewords: Floats, queries: Floats) -> Floats:
    """Return look-up tables, (n_queries, n_codebooks, codebook_size) float32.

    Products are summed over dimensions from first to last.

    `codewords`: (n_codebooks, n_components, codebook_size) float32. `queries`: (n_queries,
    n_components) float32. Raises InvalidInputError: scores of a query may overflow.
    """
    tables = np.empty((len(queries), len(codewords), codewords.shape[2]), dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for table, query in zip(tables, queries, strict=True):
            # (n_codebooks, n_components, codebook_size): rows are added one after the other.
            products = np.multiply(codewords, query[:, None], order="C")
            if codewords.shape[2] > 1:
                np.add.reduce(products, axis=1, initial=np.float32(0), out=table)
            else:
                table[:] = np.add.accumulate(products, axis=1)[:, -1]
        check_scales((np.abs(tables.max(axis=2)) + np.abs(tables.min(axis=2))).sum(axis=1))
    return tables


def allowed_rows(targets: Sequence[Target], n_planes: int) -> tuple[Array, Ints | None]:
    """Return the allowed codes, (n_planes, n_rows) uint8, and their row numbers.

    None stands for all rows of an index of one part.
    """
    if len(targets) == 1 and not targets[0].allowed.size:
        return targets[0].arrays, None
    columns = [np.empty((n_planes, 0), dtype=np.uint8)]
    rows = [np.empty(0, dtype=np.int64)]
    for planes, first_row, allowed in targets:
        if allowed.size:
            bits = np.unpackbits(allowed, count=planes.shape[1], bitorder="little")
            rows.append(np.flatnonzero(bits) + first_row)
            columns.append(planes[:, rows[-1] - first_row])
        else:
            rows.append(np.arange(first_row, first_row + planes.shape[1]))
            columns.append(planes)
    every = columns[1] if len(columns) == 2 else np.concatenate(columns, axis=1)
    return every, np.concatenate(rows)


def table_scores(table: Floats, planes: Array) -> Floats:
    """Return the scores of codes: the sums of their entries in one query's table."""
    scores = np.zeros(planes.shape[1], dtype=np.float32)
    for entries, column in zip(table, planes, strict=True):
        scores += entries.take(column, mode="clip")
    return scores


def fill_best(top: TopRows, scores: Iterable[Floats], rows: Ints | None, k: int) -> None:
    """Fill in the k best rows of each query, by its scores of all rows; see `allowed_rows`."""
    for i, row_scores in enumerate(scores):
        best = best_rows(row_scores, k)
        top.tallies[i], top.counts[i] = len(row_scores), len(best)
        top.rows[i, : len(best)] = best if rows is None else rows[best]
        top.scores[i, : len(best)] = row_scores[best]


def best_rows(scores: Floats, k: int) -> Ints:
    """Return the k best rows of one query: higher score first, then lower row."""
    width = len(scores) // _N_BLOCKS
    if k < width:  # the k-th best maximum of all groups is a threshold that k scores reach
        best = scores[: _N_BLOCKS * width].reshape(_N_BLOCKS, width).max(axis=0)
        candidates = np.flatnonzero(scores >= np.partition(best, -k)[-k])
    elif k < len(scores):
        candidates = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    else:
        candidates = np.arange(len(scores))
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]

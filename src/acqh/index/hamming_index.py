"""HammingIndex: exact search over binary codes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, Ints, check_positive_int, to_numpy
from acqh._core.runtime import run_blocks, suggest_keywords
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.index.base import BaseIndex
from acqh.index.checks import as_queries, as_thread_count, read_array, read_count, require
from acqh.index.flat import (
    Planes,
    allowed_rows,
    fill_best,
    flat_targets,
    join_planes,
    planes_of,
    table_scores,
)
from acqh.index.search import SearchResult, Target, TopRows, block_size, check_scales

# Distances are counted in two bytes.
MAX_BITS = 65_528
_LARGEST = float(np.finfo(np.float32).max)
# From this many codes on, tables of two bytes are faster: 1.4 ms, not 2.0, for 200,000 codes of
# 64 bits.
_PAIRED_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class HammingSegment(Planes):
    """Binary codes; bits beyond the last are 0.

    Examples
    --------
    >>> codes = np.packbits([[1, 0, 0], [1, 1, 1]], axis=1)
    >>> HammingSegment(planes_of(codes), n_bits=3).codes()
    array([[128],
           [224]], dtype=uint8)
    """

    n_bits: int

    @classmethod
    def join(cls, segments: Sequence[Self], keep: Sequence[Bools | None]) -> Self:
        return cls(join_planes(segments, keep), segments[0].n_bits)

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {"planes": self.planes}, {"n_bits": self.n_bits}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Self:
        """Return the segment of `to_arrays`; arrays may be memory-mapped and are not copied.

        Raises CorruptBundleError: the arrays are inconsistent.
        """
        n_bits, planes = read_count(info, "n_bits"), read_array(arrays, "planes", np.uint8)
        require(n_bits >= 1 and planes.ndim == 2 and len(planes) == -(-n_bits // 8), "planes")
        return cls(planes, n_bits)

    def verify(self) -> None:
        """Read every value.

        Raises CorruptBundleError: a bit beyond the last is set.
        """
        if (self.planes[-1] & _spare_bits(self.n_bits)).any():
            raise CorruptBundleError(f"a code has more than {self.n_bits} bits")


def _spare_bits(n_bits: int) -> int:
    """Return the mask of the bits of the last byte that no code uses.

    Examples
    --------
    >>> _spare_bits(6), _spare_bits(8)
    (3, 0)
    """
    return (1 << -n_bits % 8) - 1


class HammingIndex(BaseIndex[HammingSegment]):
    """Exact search over items stored as bits.

    Codes are packed, 8 bits per byte, as ``np.packbits(bits, axis=1)`` gives them. An item's
    vector is +1 where its bit is 1 and -1 where it is 0; its score is the inner product with the
    query. For a binary query that is ``n_bits - 2 * distance``, so the items of
    highest score are the nearest by Hamming distance. Equal scores are ordered by insertion.

    Searching is safe while another thread changes the index: a search uses the state at its start,
    and never waits.

    Parameters
    ----------
    n_bits : int
        Bits of a code, at most 65,528.

    Raises
    ------
    InvalidInputError
        The number of bits is not a whole number in that range.

    Examples
    --------
    >>> bits = np.array([[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
    >>> index = HammingIndex(4).add(np.packbits(bits, axis=1), ids=["a", "b", "c"])
    >>> result = index.search(np.packbits([[1, 1, 1, 0]], axis=1), k=2)
    >>> result.ids, index.distances(result.scores)
    (array([['b', 'c']], dtype=object), array([[1, 1]]))
    >>> index.search([[0.5, -1.0, -1.0, 0.1]], k=1).ids
    array([['a']], dtype=object)
    """

    _kind = "hamming-index"
    _segment_type = HammingSegment

    def __init__(self, n_bits: int) -> None:
        self._n_bits = check_positive_int(n_bits, "n_bits")
        super().__init__(-(-self._n_bits // 8))
        if self._n_bits > MAX_BITS:
            raise InvalidInputError(f"n_bits must be at most {MAX_BITS}, got {n_bits}")

    def __repr__(self) -> str:
        return f"<HammingIndex: {len(self)} items, {self._n_bits} bits>"

    @property
    def n_bits(self) -> int:
        """Bits of a code."""
        return self._n_bits

    @suggest_keywords
    def search(
        self,
        queries: Any,
        k: int,
        filter: Any = None,  # noqa: A002
        n_threads: int | None = None,
    ) -> SearchResult:
        """Find the items of highest score.

        Parameters
        ----------
        queries : (n_queries, ceil(n_bits / 8)) uint8, or (n_queries, n_bits) floats
            Packed bits, or real vectors in float32. For a torch tensor, or an array of CuPy or JAX,
            the result has arrays of the same library.
        k : int
            Number of items per query, at least 1.
        filter : callable, (n_items,) bool, or iterable of ids, optional
            Items that may be returned: a mask in the order of `ids`, a callable that gets the array
            of all ids and returns such a mask, or ids. Unknown ids are ignored.
        n_threads : int, optional
            Threads that share the queries. Default: one per core.

        Returns
        -------
        SearchResult
            Exact.

        Raises
        ------
        InvalidInputError
            Queries of the wrong shape or type, not finite, or so large that scores overflow; k or
            n_threads is below 1; the filter does not fit the index.
        """
        queries, from_numpy = to_numpy(queries)
        queries = np.asarray(queries)
        if queries.dtype.kind == "f":
            queries = as_queries(queries, self._n_bits)
            check_scales(np.abs(queries).sum(axis=1, dtype=np.float64), limit=_LARGEST)
        else:
            queries = self._check_codes(queries)
        k = check_positive_int(k, "k")
        n_threads = as_thread_count(n_threads, len(queries))
        snapshot = self._snapshot
        masks = None if filter is None else snapshot.rows_allowed(filter)
        top = search_planes(flat_targets(snapshot, masks), queries, k, self._n_bits, n_threads)
        return SearchResult._from_rows(snapshot.take_ids(top.rows), top)._as_kind(from_numpy)

    def distances(self, scores: Floats) -> Ints:
        """Return the Hamming distances of scores of a search with packed bits.

        Parameters
        ----------
        scores : array of floats
            Of any shape.

        Returns
        -------
        int64, same shape
            -1 where there is no item.
        """
        scores = np.asarray(scores, dtype=np.float64)
        is_hit = np.isfinite(scores)
        distances = (self._n_bits - np.where(is_hit, scores, 0)) / 2
        return np.where(is_hit, distances, -1).astype(np.int64)

    def reconstruct(self, identifier: Any) -> Floats:
        """Return an item's reconstruction: (n_bits,) float32 of +1 and -1.

        Raises
        ------
        UnknownIdError
            No item has this id.
        """
        part, row = self._locate(identifier)
        bits = np.unpackbits(part.segment.codes(row, row + 1), count=self._n_bits)
        return np.where(bits, np.float32(1), np.float32(-1))

    def _segment_of(self, codes: Array) -> HammingSegment:
        return HammingSegment(planes_of(codes), self._n_bits)

    def _settings(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {}, {"n_bits": self._n_bits}

    @classmethod
    def _of_settings(cls, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Self:  # noqa: ARG003
        try:
            return cls(read_count(info, "n_bits"))
        except InvalidInputError as error:
            raise CorruptBundleError(f"stored {error}") from error

    def _take_segment(self, segment: HammingSegment) -> HammingSegment:
        require(segment.n_bits == self._n_bits, "n_bits")
        return segment

    def _check_codes(self, codes: Any) -> Array:
        codes, n_bytes = np.asarray(codes), self._bytes_per_code
        is_empty = codes.size == 0
        if codes.ndim != 2 or codes.shape[1] != n_bytes or not (is_empty or _are_bytes(codes)):
            raise InvalidInputError(
                f"codes have dtype {codes.dtype} and shape {codes.shape}; give {n_bytes} bytes per "
                f"item, packed by np.packbits(bits, axis=1) from {self._n_bits} bits"
            )
        packed = np.ascontiguousarray(codes, dtype=np.uint8)
        if (packed[:, -1] & _spare_bits(self._n_bits)).any():
            raise InvalidInputError(
                f"a code has a bit set beyond its {self._n_bits} bits; pack {self._n_bits} bits"
            )
        return packed


def _are_bytes(codes: Array) -> bool:
    """Whether all values are integers from 0 to 255; uint8 needs no check of values."""
    if codes.dtype.kind not in "iu":
        return False
    return codes.dtype == np.uint8 or bool(codes.min() >= 0 and codes.max() <= 255)


_BYTE_VALUES = 256


def search_planes(
    targets: Sequence[Target], queries: Array, k: int, n_bits: int, n_threads: int
) -> TopRows:
    """Find each query's k rows of highest inner product with the signs of their bits.

    `targets`: in order of row. `queries`: packed bits, (n_queries, n_bytes) uint8, for Hamming
    distance; or (n_queries, n_bits) float32.
    """
    top = TopRows.none(len(queries), k)
    planes, rows = allowed_rows(targets, -(-n_bits // 8))
    is_paired = queries.dtype != np.uint8 and planes.shape[1] >= _PAIRED_ROWS
    if is_paired:
        planes = _paired(planes)

    def search(block: slice) -> None:
        scores: Iterable[Floats]
        if queries.dtype == np.uint8:
            scores = (_hamming_scores(query, planes, n_bits) for query in queries[block])
        else:
            score = _pair_scores if is_paired else table_scores
            scores = (score(table, planes) for table in byte_tables(queries[block]))
        fill_best(top.part(block), scores, rows, k)

    n_rows = block_size(len(queries), 2 * k + 32 * n_bits, n_threads)
    run_blocks(search, len(queries), n_rows, n_threads)
    return top


def _paired(planes: Array) -> Array:
    """Return two bytes of each code as one number, (ceil(n_bytes / 2), n_rows) uint16."""
    pairs = planes[0::2].astype(np.uint16) << 8
    pairs[: len(planes) // 2] |= planes[1::2]
    return pairs


def _pair_scores(table: Floats, pairs: Array) -> Floats:
    """Return the scores of codes by half as many tables, of two bytes each."""
    scores = np.zeros(pairs.shape[1], dtype=np.float32)
    for i, column in enumerate(pairs):
        entries = table[2 * i, :, np.newaxis] + table[2 * i + 1 : 2 * i + 2].sum(axis=0)
        scores += entries.ravel().take(column, mode="clip")
    return scores


def _hamming_scores(query: Array, planes: Array, n_bits: int) -> Floats:
    """Return ``n_bits - 2 * distance`` for the Hamming distance of a packed query to each code."""
    distances: Ints = np.zeros(planes.shape[1], np.uint8 if n_bits < 256 else np.uint16)
    for byte, plane in zip(query, planes, strict=True):
        distances += np.bitwise_count(plane ^ byte)
    return np.float32(n_bits) - 2 * distances.astype(np.float32)


def byte_tables(queries: Floats) -> Floats:
    """Return the look-up tables of queries: the score of each value of each byte of a code.

    `queries`: (n_queries, n_bits) float32. Returns (n_queries, n_bytes, 256) float32: sums of the
    query's values with the signs of the bits, first bit first.

    Examples
    --------
    >>> byte_tables(np.array([[1, 2, 4]], dtype=np.float32))[0, 0, 0b101 << 5]
    np.float32(3.0)
    """
    n_queries, n_bits = queries.shape
    n_bytes = -(-n_bits // 8)
    components = np.zeros((n_queries, 8 * n_bytes), dtype=np.float32)
    components[:, :n_bits] = queries
    signs = np.unpackbits(np.arange(_BYTE_VALUES, dtype=np.uint8)[:, None], axis=1) * 2.0 - 1
    tables = np.zeros((n_queries, n_bytes, _BYTE_VALUES), dtype=np.float32)
    for bit in range(8):
        tables += components[:, bit::8, None] * signs[:, bit].astype(np.float32)
    return tables

"""Arguments of the search kernels, limits of a search, and the flat search in NumPy.

NumPy computes what the compiled loops do, bit for bit the same.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, check_positive_int
from acqh.errors import InvalidInputError

# Scores of larger magnitude could overflow float32 when bounds are added to them.
MAX_SCALE = 2.0**124
_BLOCK = 64


class InvertedLists(NamedTuple):
    """An inverted multi-index: codes sorted by their codewords, with the rows that have them.

    An entry is an item or, if codes repeat, a distinct code. Entries with the same prefix, their
    first ``n_prefix_a + n_prefix_b`` codewords, form an inverted list. Prefixes are not stored: the
    number of a list has its prefix as digits in base ``codebook_size``.
    """

    codebook_size: int
    # How many codewords make up each half of a list's number; 0 and 0 for a single list.
    n_prefix_a: int
    n_prefix_b: int
    n_rows: int  # rows are 0 to ``n_rows - 1``, in order of insertion
    # (n_lists + 1,) uint32: where each list starts among the entries, and the end of the last.
    starts: Array
    # (n_entries, n_codebooks - n_prefix_a - n_prefix_b) uint8: the other codewords of each entry.
    suffixes: Array
    rows: Array  # (n_entries,) uint32: row of each item; empty where codes are grouped
    # (n_entries + 1,) uint32: where each code's list of rows starts in `gaps`; empty where codes
    # are not grouped.
    gap_starts: Array
    gaps: Array  # (n_bytes,) uint8: lists of rows as ``_layout`` writes them
    # (n_lists,) uint8: bound of the residual norms of each list's items, see `ResidualCodebooks`;
    # empty if bounds would not help.
    norm_bounds: Array


# More than any number of codes.
NO_LIMIT = 2**62


class SearchLimits(NamedTuple):
    """When a search may stop before its answer is proven."""

    limit: int  # how many codes a query may have looked at when it is done with the segment
    misses: float  # how many of the k best may be missed, as expected; below 0 for none


class Query(NamedTuple):
    """One query over one segment: its tables and bounds, the rows it may find, its best so far."""

    table: Array  # (n_codebooks, TABLE_WIDTH) float32
    # (n_suffix + 1,) float32: the most that the codewords from each place of a suffix on can add,
    # with rounding.
    suffix_max: Array
    # A suffix adds at most ``base`` plus ``span`` times the norm bound of its list.
    base: float
    span: float
    lists: InvertedLists
    allowed: Array  # (n_bytes,) uint8
    first_row: int
    k: int
    keys: Array  # (capacity,) uint64
    # (2,) int64, increased: number of codes visited, and of codes scored to the last codeword.
    tally: Array


class Traversal(NamedTuple):
    """State of a best-first traversal: scores of both halves of the prefixes, in falling order."""

    scores_a: Array
    scores_b: Array
    order_a: Array
    order_b: Array
    bounds_a: Array
    bounds_b: Array
    visited: Array
    # (2,) int64: how many of each half are in order so far; the others come later.
    ordered: Array
    chosen: Array
    buckets: Array
    bucket_starts: Array


A = TypeVar("A")


class Target(NamedTuple, Generic[A]):
    """A segment to search."""

    arrays: A  # as the kernels take them
    first_row: int  # what to add to its row numbers
    # (n_bytes,) uint8: a bit for each row that may be found, lowest bit first; empty where all may.
    allowed: Array


class TopRows(NamedTuple):
    """The best rows of each query, best first."""

    rows: Ints  # (n_queries, k) int64: -1 where there are fewer than k
    scores: Floats  # (n_queries, k) float32: minus infinity where there are fewer than k
    counts: Ints  # (n_queries,) int64
    # (n_queries, 2) int64: number of codes visited, and of codes scored to the last codeword.
    tallies: Ints
    # (n_queries,) float32: upper bound of the scores of unvisited items if it is not below the last
    # score, else minus infinity.
    ceilings: Floats

    @classmethod
    def none(cls, n_queries: int, k: int) -> "TopRows":
        """Return room for k rows of each query, with none found yet."""
        return cls(
            np.full((n_queries, k), -1, dtype=np.int64),
            np.full((n_queries, k), -np.inf, dtype=np.float32),
            np.zeros(n_queries, dtype=np.int64),
            np.zeros((n_queries, 2), dtype=np.int64),
            np.full(n_queries, -np.inf, dtype=np.float32),
        )

    def part(self, queries: slice) -> "TopRows":
        """Return views for some of the queries."""
        return TopRows._make(array[queries] for array in self)


class StopRule(NamedTuple):
    """When a search may end before its answer is proven; by default never."""

    budget: int | None = None  # how many codes each query may look at
    recall: float = 1.0  # what share of the k best is to be found, as expected

    def limits(
        self, targets: Sequence[Target[InvertedLists]], k: int
    ) -> Sequence[SearchLimits | None]:
        """Return the limits of each target, in proportion to its codes."""
        if self is EXHAUSTIVE:
            return [None] * len(targets)
        ends = np.cumsum([len(target.arrays.suffixes) for target in targets])
        limits, before = [], 0
        for end in ends.tolist():
            share = (end - before) / max(int(ends[-1]), 1)
            limit = NO_LIMIT
            if self.budget is not None:
                limit = -(-self.budget * end // max(int(ends[-1]), 1))
            misses = (1 - self.recall) * k * share if self.recall < 1 else -1.0
            limits.append(SearchLimits(limit, misses))
            before = end
        return limits


EXHAUSTIVE = StopRule()


def as_stop_rule(budget: Any, recall: Any) -> StopRule:
    """Check when a search may stop; raise InvalidInputError.

    Examples
    --------
    >>> as_stop_rule(budget=100, recall=0.9)
    StopRule(budget=100, recall=0.9)
    """
    recall = 1.0 if recall is None else recall
    if not isinstance(recall, int | float | np.number) or not 0 < recall <= 1:
        raise InvalidInputError(f"recall must be above 0 and at most 1, got {recall!r}")
    budget = None if budget is None else check_positive_int(budget, "budget")
    stop = StopRule(budget, float(recall))
    return EXHAUSTIVE if stop == EXHAUSTIVE else stop


def tables_of(codebooks: Floats, queries: Floats) -> Floats:
    """Return (n_queries, n_codebooks, codebook_size), summed over components from first to last.

    `codebooks`: (n_codebooks, n_components, codebook_size) float32. `queries`: (n_queries,
    n_components) float32. Raises InvalidInputError: scores of a query may overflow.
    """
    tables = np.empty((len(queries), len(codebooks), codebooks.shape[2]), dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for table, query in zip(tables, queries, strict=True):
            # (n_codebooks, n_components, codebook_size): rows are added one after the other.
            products = np.multiply(codebooks, query[:, None], order="C")
            if codebooks.shape[2] > 1:
                np.add.reduce(products, axis=1, initial=np.float32(0), out=table)
            else:
                table[:] = np.add.accumulate(products, axis=1)[:, -1]
        check_scales((np.abs(tables.max(axis=2)) + np.abs(tables.min(axis=2))).sum(axis=1))
    return tables


def best_rows(scores: Floats, k: int) -> Ints:
    """Return the k best rows of one query: higher score first, then lower row."""
    kept, n_blocks = np.arange(len(scores)), len(scores) // _BLOCK
    if k < n_blocks:  # k of the best are at least the k-th best of the best of each block
        best = scores[: n_blocks * _BLOCK].reshape(n_blocks, _BLOCK).max(axis=1)
        kept = np.flatnonzero(scores >= np.partition(best, -k)[-k])
    elif k < len(scores):
        kept = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    return kept[np.argsort(-scores[kept], kind="stable")[:k]]


def best_columns(scores: Floats, k: int) -> Ints:
    """Return the columns of the k highest scores of each row; of equal scores, the first ones."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def check_scales(scales: Floats, first: int = 0, *, limit: float = MAX_SCALE) -> None:
    """Refuse queries whose scores may overflow.

    `scales`: (n_queries,); bounds of the magnitude of any score; NaN where there is none. `first`:
    number of the first query. `limit`: what a magnitude must be below.
    """
    too_large = ~(scales < limit)
    if too_large.any():
        number = first + int(np.argmax(too_large))
        raise InvalidInputError(f"query {number} is too large: its scores overflow; scale it down")


def search_flat(tables: Floats, targets: Sequence[Target[Array]], k: int) -> TopRows:
    """Find each query's k best rows of all targets together, as `search_targets` does.

    `tables`: (n_queries, n_codebooks, at least codebook_size) float32. `targets`: with the
    codewords of their rows, (n_codebooks, n_rows) uint8.
    """
    planes, rows = allowed_rows(targets, tables.shape[1])
    top = TopRows.none(len(tables), k)
    fill_best(top, (table_scores(table, planes) for table in tables), rows, k)
    return top


def allowed_rows(targets: Sequence[Target[Array]], n_planes: int) -> tuple[Array, Ints]:
    """Return the codes that may be found, (n_planes, n_rows) uint8, and their row numbers."""
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


def fill_best(top: TopRows, scores: Iterable[Floats], rows: Ints, k: int) -> None:
    """Fill in the k best rows of each query, by its scores of all rows."""
    top.tallies[:] = len(rows)
    for i, row_scores in enumerate(scores):
        best = best_rows(row_scores, k)
        top.counts[i] = len(best)
        top.rows[i, : len(best)], top.scores[i, : len(best)] = rows[best], row_scores[best]

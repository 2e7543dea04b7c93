"""What searches hand around together, when they may stop, and how NumPy does it.

NumPy computes what the compiled loops do, bit for bit the same.
"""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, check_positive_int
from acqh.errors import InvalidInputError

# Scores of larger magnitude could overflow float32 when bounds are added to them.
MAX_SCALE = 2.0**124
_BLOCK = 64


class Runs(NamedTuple):
    """Codes sorted by their words, first word first, with the rows they belong to.

    An entry is an item, or, where codes repeat, a distinct code. Entries with the same first
    ``digits_a + digits_b`` words are a run; those words are not stored, only where each run
    starts. A run's number has the words as digits in base ``codebook_size``.
    """

    codebook_size: int
    # How many words make up each half of a run's number; 0 and 0 for a single run.
    digits_a: int
    digits_b: int
    n_rows: int  # rows are 0 to ``n_rows - 1``, in order of insertion
    # (n_runs + 1,) uint32: where each run starts among the entries, and the end of the last.
    starts: Array
    # (n_entries, n_codebooks - digits_a - digits_b) uint8: the other words of each entry.
    tails: Array
    rows: Array  # (n_entries,) uint32: row of each item; empty where codes are grouped
    # (n_entries + 1,) uint32: where each code's list of rows starts in `gaps`; empty where codes
    # are not grouped.
    gap_starts: Array
    gaps: Array  # (n_bytes,) uint8: lists of rows as ``_layout`` writes them
    # (n_runs,) uint8: how far the other words of each run's items reach, see `Rests`; empty where
    # it is not known or would not help.
    reaches: Array


# More than any number of codes.
NO_LIMIT = 2**62


class Effort(NamedTuple):
    """When a search may stop before its answer is proven."""

    limit: int  # how many codes a query may have looked at when it is done with the segment
    misses: float  # how many of the k best may be missed, as expected; below 0 for none


class Query(NamedTuple):
    """One query over one segment: its tables and bounds, the rows it may find, its best so far."""

    table: Array  # (n_codebooks, TABLE_WIDTH) float32
    # (n_tail + 1,) float32: what the words from each place of a tail on can add at most, rounding
    # included.
    after: Array
    # A tail adds at most ``base`` and ``span`` times its run's reach.
    base: float
    span: float
    runs: Runs
    allowed: Array  # (n_bytes,) uint8
    first_row: int
    k: int
    keys: Array  # (capacity,) uint64
    # (2,) int64: how many codes were looked at, and how many of them were scored to the last word;
    # raised.
    tally: Array


class Heads(NamedTuple):
    """Both halves of the heads of all runs, in falling order, and how far each was visited."""

    values_a: Array
    values_b: Array
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
    # (n_queries, 2) int64: how many codes were looked at, and how many scored to the last word.
    tallies: Ints
    # (n_queries,) float32: what an item that was left out can score at most, where it is no less
    # than the last score; minus infinity where there is none.
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


class Stop(NamedTuple):
    """When a search may end before its answer is proven; by default never."""

    budget: int | None = None  # how many codes each query may look at
    recall: float = 1.0  # what share of the k best is to be found, as expected

    def efforts(self, targets: Sequence[Target[Runs]], k: int) -> Sequence[Effort | None]:
        """Return what each target may cost, in proportion to its codes."""
        if self is TO_THE_END:
            return [None] * len(targets)
        ends = np.cumsum([len(target.arrays.tails) for target in targets])
        efforts, before = [], 0
        for end in ends.tolist():
            share = (end - before) / max(int(ends[-1]), 1)
            limit = NO_LIMIT
            if self.budget is not None:
                limit = -(-self.budget * end // max(int(ends[-1]), 1))
            misses = (1 - self.recall) * k * share if self.recall < 1 else -1.0
            efforts.append(Effort(limit, misses))
            before = end
        return efforts


TO_THE_END = Stop()


def as_stop(budget: Any, recall: Any) -> Stop:
    """Check when a search may stop; raise InvalidInputError.

    Examples
    --------
    >>> as_stop(budget=100, recall=0.9)
    Stop(budget=100, recall=0.9)
    """
    recall = 1.0 if recall is None else recall
    if not isinstance(recall, int | float | np.number) or not 0 < recall <= 1:
        raise InvalidInputError(f"recall must be above 0 and at most 1, got {recall!r}")
    budget = None if budget is None else check_positive_int(budget, "budget")
    stop = Stop(budget, float(recall))
    return TO_THE_END if stop == TO_THE_END else stop


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


def search_few(tables: Floats, targets: Sequence[Target[Array]], k: int) -> TopRows:
    """Find each query's k best rows of all targets together, as `search_targets` does.

    `tables`: (n_queries, n_codebooks, at least codebook_size) float32. `targets`: with the words of
    their rows, (n_codebooks, n_rows) uint8.
    """
    columns = [np.empty((tables.shape[1], 0), dtype=np.uint8)]
    rows = [np.empty(0, dtype=np.int64)]
    for words_of_rows, first_row, allowed in targets:
        if allowed.size:
            bits = np.unpackbits(allowed, count=words_of_rows.shape[1], bitorder="little")
            rows.append(np.flatnonzero(bits) + first_row)
            columns.append(words_of_rows[:, rows[-1] - first_row])
        else:
            rows.append(np.arange(first_row, first_row + words_of_rows.shape[1]))
            columns.append(words_of_rows)
    every = columns[1] if len(columns) == 2 else np.concatenate(columns, axis=1)
    row_of = np.concatenate(rows)
    top = TopRows.none(len(tables), k)
    top.tallies[:] = len(row_of)
    for i, table in enumerate(tables):
        scores = np.zeros(len(row_of), dtype=np.float32)
        for entries, column in zip(table, every, strict=True):
            scores += entries.take(column, mode="clip")
        best = best_rows(scores, k)
        top.counts[i] = len(best)
        top.rows[i, : len(best)], top.scores[i, : len(best)] = row_of[best], scores[best]
    return top

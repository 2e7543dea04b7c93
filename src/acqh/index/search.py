"""Best-first search of inverted lists: arguments of the compiled traversal, bounds, batches."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, check_positive_int, slices
from acqh.errors import InvalidInputError
from acqh.index.checks import frozen

# Scores of larger magnitude could overflow float32 when bounds are added to them.
MAX_SCALE = 2.0**124
# Larger than the key of any item: that of a score of minus infinity in the last row.
NO_KEY = np.uint64(0xFF800000FFFFFFFF)
# More than any number of codes.
NO_LIMIT = 2**62
# Look-up tables always have this width: any stored byte is a valid index.
TABLE_WIDTH = 256
_MAGNITUDE = np.uint32(0x7FFFFFFF)
# Spare places for candidates beyond twice k: more mean fewer selections of the best.
_SPARE_KEYS = 32
# Queries whose tables are filled at a time.
_TABLES_AT_ONCE = 4
# Numbers of 8 bytes in memory for all queries of a block.
_MAX_NUMBERS = 4_000_000


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
    # (n_entries, n_bytes) uint8: row of each item, lowest byte first, in as many bytes as the
    # largest needs; empty if codes are grouped.
    rows: Array
    # (n_entries + 1,) uint32: where each code's list of rows starts in `gaps`; empty if codes
    # are not grouped.
    gap_starts: Array
    gaps: Array  # (n_bytes,) uint8: lists of rows as `compiled.layout` writes them
    # (n_lists,) uint8: bound of the residual norms of each list's items, see `ResidualCodebooks`;
    # empty if bounds would not help.
    norm_bounds: Array

    @property
    def n_prefix(self) -> int:
        """Number of codewords in a prefix."""
        return self.n_prefix_a + self.n_prefix_b


class SearchLimits(NamedTuple):
    """When the search of one segment may stop before its result is proven exact."""

    limit: int  # how many codes a query may have scanned when it leaves the segment
    misses: float  # expected number of the k best that may be missed; below 0 for none


class Query(NamedTuple):
    """One query over one segment: look-up table, bounds, allowed rows, best keys so far."""

    table: Array  # (n_codebooks, TABLE_WIDTH) float32
    # (n_suffix + 1,) float32: upper bound of the scores of a suffix from each codebook on, with
    # rounding.
    suffix_max: Array
    # A suffix adds at most ``base`` plus ``span`` times the norm bound of its list.
    base: float
    span: float
    lists: InvertedLists
    allowed: Array  # (n_bytes,) uint8
    first_row: int
    k: int
    keys: Array  # (capacity,) uint64
    # (2,) int64, increased: number of codes scanned, and of codes scored to the last codeword.
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
    # (2,) int64: number of prefixes of each half that are sorted so far.
    ordered: Array
    chosen: Array
    buckets: Array
    bucket_starts: Array


class Target(NamedTuple):
    """A segment to search."""

    arrays: Any  # `InvertedLists`, or the byte planes of a flat segment
    first_row: int  # what to add to its row numbers
    # (n_bytes,) uint8: a bit for each allowed row, lowest bit first; empty if all are allowed.
    allowed: Array


class TopRows(NamedTuple):
    """The best rows of each query, best first."""

    rows: Ints  # (n_queries, k) int64: -1 where there are fewer than k
    scores: Floats  # (n_queries, k) float32: minus infinity where there are fewer than k
    counts: Ints  # (n_queries,) int64
    # (n_queries, 2) int64: number of codes scanned, and of codes scored to the last codeword.
    tallies: Ints
    # (n_queries,) float32: upper bound of the scores of unvisited items if it is not below the last
    # score, else minus infinity.
    ceilings: Floats

    @classmethod
    def none(cls, n_queries: int, k: int) -> "TopRows":
        """Return k empty places for each query."""
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
    """When a search may stop before its result is proven exact; by default never."""

    budget: int | None = None  # number of codes that each query may scan
    recall: float = 1.0  # expected recall of the k best

    def limits(self, targets: Sequence[Target], k: int) -> Sequence[SearchLimits | None]:
        """Return the limits of each target, in proportion to its codes."""
        if self == EXHAUSTIVE:
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
    """Check `budget` and `recall`; raise InvalidInputError.

    Examples
    --------
    >>> as_stop_rule(budget=100, recall=0.9)
    StopRule(budget=100, recall=0.9)
    """
    recall = 1.0 if recall is None else recall
    if not isinstance(recall, int | float | np.number) or not 0 < recall <= 1:
        raise InvalidInputError(f"recall must be above 0 and at most 1, got {recall!r}")
    budget = None if budget is None else check_positive_int(budget, "budget")
    return StopRule(budget, float(recall))


def search_inverted(
    codewords: Floats,
    residuals: "ResidualCodebooks",
    targets: Sequence[Target],
    queries: Floats,
    k: int,
    n_items: int,
    n_threads: int,
    stop: StopRule = EXHAUSTIVE,
) -> TopRows:
    """Find each query's k best rows of all targets together: exactly, or until a rule stops it.

    Parameters
    ----------
    codewords : (n_codebooks, n_components, codebook_size) float32
    residuals : ResidualCodebooks
    targets : sequence of Target
    queries : (n_queries, n_components) float32
    k : int
        At least 1.
    n_items : int
        Number of items of all targets.
    n_threads : int
    stop : StopRule, optional

    Raises
    ------
    InvalidInputError
        Scores of a query may overflow.
    """
    from acqh.index.compiled.search import search_lists  # loads the compiler
    from acqh.index.compiled.tables import fill_tables

    top = TopRows.none(len(queries), k)
    k = min(k, n_items)
    target_limits = stop.limits(targets, k)
    capacity = min(2 * k + _SPARE_KEYS, n_items + 1)

    def search(block: slice) -> None:
        block_queries, mine = queries[block], top.part(block)
        n_queries = len(block_queries)
        # For one segment a few queries at a time: their tables stay in the L1 cache.
        n_tables = min(n_queries, _TABLES_AT_ONCE) if len(targets) == 1 else n_queries
        tables = np.zeros((n_tables, len(codewords), TABLE_WIDTH), dtype=np.float32)
        tops = np.empty((n_queries, len(codewords)), dtype=np.float32)
        scales = np.zeros(n_queries, dtype=np.float32)
        keys = np.empty((n_queries, capacity), dtype=np.uint64)
        best = (keys, mine.counts, np.full(n_queries, NO_KEY), mine.tallies, mine.ceilings)
        to_fill = codewords
        for (lists, first_row, allowed), limits in zip(targets, target_limits, strict=True):
            bases = spans = np.zeros(n_queries, dtype=np.float32)  # unused without norm bounds
            if len(lists.norm_bounds):
                bases, spans = residuals.bounds(block_queries, lists.n_prefix)
            bounds = (tops, scales, bases, spans)
            rows = (first_row, allowed)
            search_lists((to_fill, block_queries), tables, bounds, lists, rows, k, limits, best)
            to_fill = codewords[:0]
        if not targets:
            fill_tables(codewords, block_queries, tables, tops, scales)
        check_scales(scales, block.start)
        _unpack_keys(keys, mine, k)

    # Tables have single precision, two entries to a number.
    in_blocks(search, len(queries), capacity + len(codewords) * TABLE_WIDTH // 2, n_threads)
    top.ceilings[top.counts == n_items] = -np.inf  # every item is in the result
    return top


def check_scales(scales: Floats, first: int = 0, *, limit: float = MAX_SCALE) -> None:
    """Raise InvalidInputError for queries whose scores may overflow.

    `scales`: (n_queries,); bounds of the magnitude of any score; NaN where there is none. `first`:
    number of the first query. `limit`: exclusive upper limit of the magnitude.
    """
    too_large = ~(scales < limit)
    if too_large.any():
        number = first + int(np.argmax(too_large))
        raise InvalidInputError(f"the scores of query {number} overflow; scale the query down")


def in_blocks(
    search: Callable[[slice], None], n_queries: int, n_numbers: int, n_threads: int
) -> None:
    """Search a batch in blocks of queries, one or more per thread, in bounded memory.

    `n_numbers`: how many numbers of 8 bytes a search keeps for each query.
    """
    step = max(1, min(-(-n_queries // n_threads), _MAX_NUMBERS // n_numbers))
    blocks = slices(n_queries, step)
    if n_threads == 1:
        for block in blocks:
            search(block)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(search, blocks))


def _unpack_keys(keys: Array, top: TopRows, k: int) -> None:
    """Sort the keys and fill in their rows and scores.

    A key has the row in its lower half and, in its upper, the bits of the score, changed so that
    higher scores give lower numbers.
    """
    is_hit = np.arange(k) < top.counts[:, None]
    ordered = np.sort(np.where(is_hit, keys[:, :k], NO_KEY), axis=1)
    bits = (ordered >> 32).astype(np.uint32)
    np.subtract(_MAGNITUDE, bits, out=bits, where=bits <= _MAGNITUDE)
    np.copyto(top.rows[:, :k], ordered.astype(np.uint32), where=is_hit)
    np.copyto(top.scores[:, :k], bits.view(np.float32), where=is_hit)


# A norm bound is stored as a byte.
_MAX_STEPS = 255
# Suffixes of fewer codewords are bounded well enough by the largest entries of their tables.
_MIN_SUFFIX = 3
# Relative rounding error of one float32 operation, doubled.
_ROUNDING = 2.0**-23
# Above the sum of all products that underflow in float32.
_TINY = 1e-38


@dataclass(frozen=True, slots=True, eq=False)
class ResidualCodebooks:
    """Centred codebooks, which bound the score of a suffix by the norm of its residual.

    The codewords of a suffix sum to a residual vector. By Cauchy-Schwarz it adds to a score at most
    the norm of its distance to the mean residual times the norm of the query, plus the product of
    mean and query. Each list stores the largest such norm among its items as a byte, in steps.
    """

    # (n_codebooks, codebook_size, n_components) float32: the codebooks, each less its mean.
    codewords: Floats
    means: Floats  # (n_codebooks, n_components) float64: means of the codebooks
    radii: Floats  # (n_codebooks,) float64: length of the longest of `codewords`
    lengths: Floats  # (n_codebooks,) float64: length of the longest codeword before centring

    @classmethod
    def of(cls, codebooks: Floats) -> Self:
        """Centre codebooks, (n_codebooks, codebook_size, n_components) float32."""
        means = codebooks.mean(axis=1, dtype=np.float64)
        with np.errstate(over="ignore"):
            codewords = (codebooks - means[:, np.newaxis]).astype(np.float32)
        radii, lengths = (
            np.sqrt(np.square(values, dtype=np.float64).sum(axis=2).max(axis=1))
            for values in (codewords, codebooks)
        )
        return cls(frozen(codewords), frozen(means), frozen(radii), frozen(lengths))

    def norm_bounds(self, starts: Array, suffixes: Array) -> Array:
        """Return the norm bound of each list, (n_lists,) uint8; empty if bounds would not help.

        `starts`: (n_lists + 1,) uint32. `suffixes`: (n_entries, n_suffix) uint8; codewords of the
        last codebooks, below the codebook size.
        """
        n_suffix = suffixes.shape[1]
        if n_suffix < _MIN_SUFFIX or len(starts) == 2 or not np.isfinite(self.radii).all():
            return frozen(np.empty(0, dtype=np.uint8))
        from acqh.index.compiled.layout import measure_norm_bounds

        step = self._step(len(self.codewords) - n_suffix)
        return frozen(measure_norm_bounds(starts, suffixes, self.codewords[-n_suffix:], step))

    def bounds(self, queries: Floats, n_prefix: int) -> tuple[Floats, Floats]:
        """Return the bounds of suffix scores: a base, and a span per step of a norm bound.

        `queries`: (n_queries, n_components) float32. Returns `bases`, `spans`: (n_queries,)
        float32, rounding errors included; infinity and 0 if there is no bound.
        """
        exact = queries.astype(np.float64)
        norms = np.sqrt(np.square(exact).sum(axis=1))
        mean = exact @ self.means[n_prefix:].sum(axis=0)
        spans = norms * self._step(n_prefix)  # NaN if codebooks exceed float32
        n_terms = queries.shape[1] + 4 * len(self.codewords) + 64
        bases = mean + 2 * n_terms * _ROUNDING * norms * self.lengths.sum() + _TINY
        bases += 8 * _ROUNDING * (np.abs(mean) + _MAX_STEPS * spans)
        with np.errstate(over="ignore"):
            upper = [np.nextafter(x.astype(np.float32), np.float32(np.inf)) for x in (bases, spans)]
        usable = np.isfinite(upper).all(axis=0)
        return np.where(usable, upper[0], np.float32(np.inf)), np.where(usable, upper[1], 0)

    def _step(self, n_prefix: int) -> float:
        """Return the norm that one step of a stored norm bound stands for."""
        return float(self.radii[n_prefix:].sum()) * (1 + 1e-4) / _MAX_STEPS

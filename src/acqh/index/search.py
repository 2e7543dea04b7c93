"""Best-first search of inverted lists: compiled arguments, norm bounds, batches, results."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np

from acqh._core.arrays import (
    Array,
    Bools,
    Floats,
    FromNumpy,
    Ints,
    check_positive_int,
    to_numpy,
)
from acqh._core.imports import require
from acqh._core.runtime import run_blocks
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
    n_numbers = capacity + len(codewords) * TABLE_WIDTH // 2
    run_blocks(search, len(queries), block_size(len(queries), n_numbers, n_threads), n_threads)
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


def block_size(n_queries: int, n_numbers: int, n_threads: int) -> int:
    """Return the number of queries of a block: one or more blocks per thread, in bounded memory.

    `n_numbers`: how many numbers of 8 bytes a search keeps for each query.
    """
    return max(1, min(-(-n_queries // n_threads), _MAX_NUMBERS // n_numbers))


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


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The best items of each query, best first.

    Parameters
    ----------
    ids : (n_queries, k) int64, or object for texts
        Ids of the items; padded with -1, or None for texts, if there are fewer than k items.
    scores : (n_queries, k) float32
        In falling order; padded with minus infinity.
    counts : (n_queries,) int64
        Number of items of each query.
    n_scored : (n_queries,) int64
        Number of codes scored in full; a code that several items share counts once.
    n_scanned : (n_queries,) int64, optional
        Number of codes scanned: those scored in full, and those pruned after some of their
        codewords. Codes pruned with their whole inverted list do not count. Default: `n_scored`.
    exact : (n_queries,) bool, optional
        Whether the result is proven exact. Default: all are.
    bound : (n_queries,) float32, optional
        Upper bound of the scores of items missing from the result. Default: the last score, or
        minus infinity if there are fewer than k items, as for every exact result.

    Examples
    --------
    >>> import acqh
    >>> index = acqh.HammingIndex(8).add([[7], [9]], ids=["a", "b"])
    >>> result = index.search([[7]], k=2)
    >>> result.ids.tolist(), result.scores.tolist(), result.counts.tolist()
    ([['a', 'b']], [[8.0, 2.0]], [2])
    """

    ids: Array
    scores: Floats
    counts: Ints
    n_scored: Ints
    n_scanned: Ints = None  # type: ignore[assignment]
    exact: Bools = None  # type: ignore[assignment]
    bound: Floats = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        names = ("n_scanned", "exact", "bound")
        if not (missing := [name for name in names if getattr(self, name) is None]):
            return
        n_queries, k = self.scores.shape
        values = {
            "n_scanned": self.n_scored,
            "exact": np.ones(n_queries, dtype=bool),
            "bound": self.scores[:, -1] if k else np.full(n_queries, -np.inf, dtype=np.float32),
        }
        for name in missing:
            object.__setattr__(self, name, values[name])

    def _as_kind(self, from_numpy: FromNumpy | None) -> Self:
        """Return the result with arrays of another library; text ids stay as they are."""
        if from_numpy is None:
            return self
        values = (getattr(self, field.name) for field in fields(self))
        return type(self)(*(v if v.dtype == object else from_numpy(v) for v in values))

    @classmethod
    def _from_rows(cls, ids: Array, top: TopRows) -> Self:
        """Return the result of the best rows, with their ids."""
        last = top.scores[:, -1]
        exact = (top.ceilings < last) | (top.ceilings == -np.inf)
        bound = np.maximum(top.ceilings, last)
        n_scanned, n_scored = top.tallies.T
        return cls(ids, top.scores, top.counts, n_scored, n_scanned, exact, bound)

    @classmethod
    def merge(cls, results: Sequence["SearchResult"], k: int) -> "SearchResult":
        """Merge the results of several indexes for the same queries into the k best.

        Equal scores stay in the order of the results, as if all items were in one index.

        Parameters
        ----------
        results : sequence of SearchResult
            At least one; of indexes with comparable scores, such as shards of one model.
        k : int

        Returns
        -------
        SearchResult
            Its ``n_scored`` and ``n_scanned`` are the sums over all.

        Examples
        --------
        >>> one = SearchResult(np.array([[7, 3]]), np.array([[0.9, 0.5]]), np.array([2]),
        ...                    np.array([2]))
        >>> other = SearchResult(np.array([[4, 8]]), np.array([[0.7, 0.5]]), np.array([2]),
        ...                      np.array([2]))
        >>> SearchResult.merge([one, other], 3).ids.tolist()
        [[7, 4, 3]]
        """
        scores = np.concatenate([result.scores for result in results], axis=1)
        ids = np.concatenate([result.ids for result in results], axis=1)
        # Padding is minus infinity, and comes last.
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(scores, best, axis=1)
        last = scores[:, -1]
        # An item missing from a shard's result does not matter if it scores below the last hit.
        is_exact = [result.exact | (result.bound < last) for result in results]
        return cls(
            np.take_along_axis(ids, best, axis=1),
            scores,
            np.minimum(np.sum([result.counts for result in results], axis=0), k),
            np.sum([result.n_scored for result in results], axis=0),
            np.sum([result.n_scanned for result in results], axis=0),
            np.all(is_exact, axis=0),
            np.max([last, *(np.where(r.exact, last, r.bound) for r in results)], axis=0),
        )

    def to_pandas(self) -> Any:
        """Return one row per hit, as a ``pandas.DataFrame``.

        Returns
        -------
        DataFrame
            Columns ``query`` (row of the queries), ``rank`` (from 1), ``id`` and ``score``.

        Raises
        ------
        MissingExtraError
            pandas is not installed.

        Examples
        --------
        >>> result = SearchResult(
        ...     np.array([[7, 3], [5, -1]]),
        ...     np.array([[0.9, 0.5], [0.25, -np.inf]], dtype=np.float32),
        ...     counts=np.array([2, 1]),
        ...     n_scored=np.array([3, 3]),
        ... )
        >>> result.to_pandas()
           query  rank  id  score
        0      0     1   7   0.90
        1      0     2   3   0.50
        2      1     1   5   0.25
        """
        return require("pandas").DataFrame(self._columns())

    def to_arrow(self) -> Any:
        """Return one row per hit, as a ``pyarrow.Table`` with the columns of `to_pandas`.

        Raises
        ------
        MissingExtraError
            pyarrow is not installed.
        """
        return require("pyarrow").table(self._columns())

    def _columns(self) -> dict[str, Array]:
        ids, scores, counts = (to_numpy(x)[0] for x in (self.ids, self.scores, self.counts))
        listed = np.arange(ids.shape[1]) < counts[:, np.newaxis]
        queries, places = np.nonzero(listed)
        return {"query": queries, "rank": places + 1, "id": ids[listed], "score": scores[listed]}

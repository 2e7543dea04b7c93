"""Compiled helpers of the best-first traversal of inverted lists.

- Keys: a score and a row packed into one number; the k best of them.
- Order of the inverted lists by the score of their prefix.
- Scores of suffixes, and rows of a code.
- Expected recall of a search that stops early.

Numba's cache does not detect changes across files: a change here has to touch `search.py` too.
"""

import math
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import kernel
from acqh.index.compiled.tables import extent
from acqh.index.search import InvertedLists, Query, Traversal

_LOWEST = np.float32(-np.inf)
_HIGHEST = np.float32(np.inf)
# Values that differ by less are not sorted: their bucket width would overflow.
_MIN_SPREAD = np.float32(1e-30)
_HALF = np.uint64(32)
_SIGN = np.uint32(31)
_MAGNITUDE = np.uint32(0x7FFFFFFF)


@kernel(inline="always")
def pack_key(score: Any, row: Any) -> Any:
    """Pack score and row so that smaller keys rank first: higher score, then lower row."""
    bits = np.float32(score).view(np.uint32)
    if bits >> _SIGN == 0:
        bits = np.uint32(_MAGNITUDE - bits)
    return (np.uint64(bits) << _HALF) | np.uint64(np.uint32(row))


@kernel(inline="always")
def key_score(key: Any) -> Any:
    """Return the score that was packed into a key."""
    bits = np.uint32(key >> _HALF)
    if bits >> _SIGN == 0:
        bits = np.uint32(_MAGNITUDE - bits)
    return np.uint32(bits).view(np.float32)


@kernel()
def select_smallest(keys: Array, count: int, k: int) -> None:
    """Move the k smallest of the first `count` keys to the front, in any order."""
    low, high = 0, count - 1
    while low < high:
        a, b, c = keys[low], keys[(low + high) >> 1], keys[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            return


@kernel()
def keep_best(keys: Array, count: int, k: int) -> Any:
    """Keep the k best keys in front and return the worst of them."""
    if count > k:
        select_smallest(keys, count, k)
    worst = keys[0]
    for i in range(1, k):
        worst = max(worst, keys[i])
    return worst


@kernel(inline="always")
def is_allowed(allowed: Array, row: Any) -> Any:
    """Whether a row's bit is set; no bits at all allow every row."""
    byte = np.uint64(row) >> np.uint64(3)
    if byte >= np.uint64(allowed.shape[0]):
        return allowed.shape[0] == 0
    return (allowed[byte] >> np.uint8(row & 7)) & 1 != 0


@kernel(inline="always")
def read_row(rows: Array, entry: Any) -> Any:
    """Return the row number of an entry, stored in one to four bytes, lowest first."""
    # Without a loop, which takes twice as long.
    n_bytes, row = rows.shape[1], np.int64(rows[entry, 0])
    if n_bytes > 1:
        row |= np.int64(rows[entry, 1]) << 8
    if n_bytes > 2:
        row |= np.int64(rows[entry, 2]) << 16
    if n_bytes > 3:
        row |= np.int64(rows[entry, 3]) << 24
    return row


@kernel(inline="always")
def keep_key(keys: Array, k: int, key: Any, count: Any, worst: Any) -> Any:
    """Append a candidate better than the worst; if the buffer is full, keep the best k."""
    if key < worst:
        keys[count] = key
        count += 1
        if count == keys.shape[0]:
            worst = keep_best(keys, count, k)
            count = k
    return count, worst


@kernel()
def new_traversal(n_a: int, n_b: int) -> Any:
    n = max(n_a, n_b)
    return Traversal(
        np.empty(n_a, dtype=np.float32),
        np.empty(n_b, dtype=np.float32),
        np.empty(n_a, dtype=np.uint32),
        np.empty(n_b, dtype=np.uint32),
        np.empty(n_a + 1, dtype=np.float32),
        np.empty(n_b + 1, dtype=np.float32),
        np.empty(n_a, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
        np.empty(n + 1, dtype=np.uint32),
        np.empty(n, dtype=np.uint32),
        np.empty(n + 1, dtype=np.uint32),
    )


@kernel()
def sum_tables(table: Array, first: int, n_codebooks: int, size: int, prefix: Array) -> None:
    """Sum the tables of `n_codebooks` codebooks from `first` on, for every combination."""
    prefix[0] = np.float32(0.0)
    filled = 1
    for s in range(first, first + n_codebooks):
        # Backwards: the extensions of a prefix overwrite the prefixes after it.
        for a in range(filled - 1, -1, -1):
            start = prefix[a]
            for j in range(size):
                prefix[a * size + j] = start + table[s, j]
        filled *= size


@kernel()
def _bucket_sort(values: Array, chosen: Array, order: Array, buckets: Array, starts: Array) -> None:
    """Sort the chosen places by falling value into buckets; values within a bucket are unsorted."""
    n = chosen.shape[0]
    high, low = values[chosen[0]], values[chosen[0]]
    for i in range(n):
        value = values[chosen[i]]
        high = value if value > high else high
        low = value if value < low else low
    width = np.float32(n - 0.5) / max(high - low, _MIN_SPREAD)
    starts[: n + 1] = 0
    for i in range(n):
        buckets[i] = np.uint32(np.int32((high - values[chosen[i]]) * width))
    for i in range(n):
        starts[buckets[i] + np.uint32(1)] += np.uint32(1)
    for i in range(n):
        starts[i + 1] += starts[i]
    for i in range(n):
        place = starts[buckets[i]]
        starts[buckets[i]] = place + np.uint32(1)
        order[place] = chosen[i]


@kernel()
def _choose(values: Array, other: Any, floor: Any, above: Any, chosen: Array) -> Any:
    """List the values whose sum with the other half's highest is at least `floor`.

    If `above` is finite, list those whose sum is below it instead. The loops have no branches.
    """
    n = np.int64(0)
    if above == _HIGHEST:
        for i in range(values.shape[0]):
            chosen[n] = i
            n += values[i] + other >= floor
    else:
        for i in range(values.shape[0]):
            chosen[n] = i
            n += not values[i] + other >= above
    return n


@kernel()
def restart(traversal: Traversal) -> Any:
    """Reset the traversal; return the highest scores of both halves, the spread of their sums."""
    traversal.ordered[:] = 0
    traversal.visited[:] = 0
    high_a, low_a = extent(traversal.scores_a)
    high_b, low_b = extent(traversal.scores_b)
    return high_a, high_b, high_a + high_b - low_a - low_b


@kernel()
def order_prefixes(
    traversal: Traversal, highs: Any, floor: Any, above: Any, as_stored: bool
) -> None:
    """Append the prefixes of both halves that reach the floor to the sorted ones.

    Prefixes that reach `above` are sorted already; infinity if none is. The sort is approximate, or
    skipped (`as_stored`). Therefore `bounds` holds the maximum from each place on.
    """
    for half in range(2):
        values = traversal.scores_b if half else traversal.scores_a
        order = traversal.order_b if half else traversal.order_a
        bounds = traversal.bounds_b if half else traversal.bounds_a
        other, first = highs[1 - half], traversal.ordered[half]
        n = _choose(values, other, floor, above, traversal.chosen)
        if n == 0:
            continue
        chosen, places = traversal.chosen[:n], order[first : first + n]
        if as_stored:
            for i in range(n):
                places[i] = chosen[i]
        else:
            _bucket_sort(values, chosen, places, traversal.buckets, traversal.bucket_starts)
        traversal.ordered[half] = first + n
        bound = _LOWEST
        bounds[first + n] = bound
        for i in range(first + n - 1, first - 1, -1):
            bound = max(bound, values[order[i]])
            bounds[i] = bound


@kernel(inline="always")
def prefix_score(table: Array, lists: InvertedLists, score: Any, b: Any) -> Any:
    """Add the second half's codewords one by one, in the order that defines a score."""
    if lists.n_prefix_b == 1:
        return score + table[lists.n_prefix_a, b]
    unit = lists.codebook_size ** max(lists.n_prefix_b - 1, 0)
    for s in range(lists.n_prefix_a, lists.n_prefix_a + lists.n_prefix_b):
        score += table[s, b // unit]
        b %= unit
        unit //= lists.codebook_size
    return score


# Suffixes of this many codewords are filtered by their first codeword before they are scored.
MIN_GROUPED = 3


@kernel(inline="always")
def suffix_score(
    tables: Array, suffixes: Array, suffix_max: Array, entry: Any, start: Any, score: Any, low: Any
) -> Any:
    """Add the table entries of a suffix's codewords from `start` on.

    Stops, and returns minus infinity, as soon as the bound of the score is below `low`.
    """
    n_suffix = suffixes.shape[1]
    if n_suffix == 2:  # unrolled, because the usual four codebooks leave two
        return (score + tables[0, suffixes[entry, 0]]) + tables[1, suffixes[entry, 1]]
    # "Not below", because `low` is NaN until there are k keys.
    while start < n_suffix and not score + suffix_max[start] < low:
        stop = min(start + 2, n_suffix)
        for c in range(start, stop):
            score += tables[c, suffixes[entry, c]]
        start = stop
    return score if start >= n_suffix else _LOWEST


@kernel(inline="always")
def choose(chosen: Array, table: Array, suffixes: Array, start: Any, end: Any, need: Any) -> Any:
    """List the entries whose first codeword adds at least `need`; without branches."""
    n = np.int64(0)
    for entry in range(start, end):
        chosen[n] = entry
        n += not table[suffixes[entry, 0]] < need
    return n


@kernel(inline="always")
def list_bound(bounds: Any, norm_bounds: Array, cell: Any, prefix: Any) -> Any:
    """Return an upper bound of the scores of a list's items.

    `bounds`: the most that a suffix adds in any list, and the query's base and span.
    """
    most, base, span = bounds
    if norm_bounds.shape[0] > 0:
        norm_bound = base + span * np.float32(norm_bounds[cell])
        most = norm_bound if norm_bound < most else most
    return prefix + most


_ONE = np.uint64(1)


@kernel()
def drop_rows(query: Query, count: int) -> Any:
    """Drop the keys of rows of this segment; return the number of the others."""
    n_others = 0
    for i in range(count):
        row = np.int64(np.uint32(query.keys[i])) - query.first_row
        if row < 0 or row >= query.lists.n_rows:
            query.keys[n_others] = query.keys[i]
            n_others += 1
    return n_others


@kernel()
def visit_rows(query: Query, entry: Any, score: Any, count: Any, worst: Any) -> Any:
    """Keep the first k allowed rows of one code; the others cannot be among the best."""
    starts, gaps = query.lists.gap_starts, query.lists.gaps
    allowed, keys = query.allowed, query.keys
    row, gap, shift, n_rows = np.uint64(0), np.uint64(0), np.uint64(0), 0
    # Not checked when a file is opened: there may be hundreds of millions of starts.
    stop = min(np.uint64(starts[entry + _ONE]), np.uint64(gaps.shape[0]))
    for place in range(min(np.uint64(starts[entry]), stop), stop):
        byte = np.uint64(gaps[place])
        gap |= (byte & np.uint64(127)) << shift
        shift = (shift + np.uint64(7)) & np.uint64(31)
        if byte >= np.uint64(128):
            continue
        row += gap
        if is_allowed(allowed, row):
            key = pack_key(score, query.first_row + np.int64(row))
            count, worst = keep_key(keys, query.k, key, count, worst)
            n_rows += 1
            if n_rows == query.k:
                worst = min(worst, key)
            if key >= worst:
                break  # later rows have larger keys
        row += _ONE
        gap, shift = np.uint64(0), np.uint64(0)
    return count, worst


# Lists are visited in this many levels of falling bound: more levels order better and cost more.
N_LEVELS = 32
BINS_PER_LEVEL = 4
# The distribution of prefix scores is estimated from at most this many lists.
_SAMPLED_LISTS = 4096
# Codewords of items are not independent, so suffix scores have a larger standard deviation.
_SPREAD_FACTOR = 1.15


@kernel()
def count_codes_by_score(query: Query, traversal: Traversal, best: Any, spread: Any) -> Any:
    """Return a histogram of the prefix scores of codes, estimated from a sample of the lists."""
    n_bins = N_LEVELS * BINS_PER_LEVEL
    counts = np.zeros(n_bins + 1, dtype=np.float64)
    starts, scores_a, scores_b = query.lists.starts, traversal.scores_a, traversal.scores_b
    n_b, n_lists = scores_b.shape[0], starts.shape[0] - 1
    step = max(1, n_lists // _SAMPLED_LISTS) | 1  # odd: all codewords of the second half occur
    scale = np.float32(n_bins) / max(spread, np.float32(1e-30))
    for cell in range(0, n_lists, step):
        drop = best - scores_a[cell // n_b] - scores_b[cell % n_b]
        n_codes = np.int64(starts[cell + 1] - starts[cell])
        counts[np.int64(min(drop * scale, n_bins))] += step * n_codes
    return counts


@kernel()
def suffix_spread(query: Query) -> Any:
    """Return mean and standard deviation of the scores of random suffixes."""
    mean, variance, size = 0.0, 0.0, query.lists.codebook_size
    for s in range(query.lists.n_prefix_a + query.lists.n_prefix_b, query.table.shape[0]):
        first, second = 0.0, 0.0
        for j in range(size):
            first += query.table[s, j]
            second += np.float64(query.table[s, j]) ** 2
        mean += first / size
        variance += second / size - (first / size) ** 2
    return mean, _SPREAD_FACTOR * math.sqrt(max(variance, 1e-60))


@kernel()
def expected_misses(counts: Array, level: int, width: Any, need: Any, deviation: Any) -> Any:
    """Return the expected number of later items that reach the k-th best score.

    Assumes normal suffix scores. `need`: what a suffix has to add to the highest prefix score to
    reach the k-th best, less the mean suffix score.
    """
    missed = 0.0
    for part in range(level * BINS_PER_LEVEL, counts.shape[0]):
        if counts[part] > 0:
            away = (need + (part + 0.5) * width) / deviation
            missed += counts[part] * 0.5 * math.erfc(away / math.sqrt(2.0))
    return missed

"""Compiled best-first search of an inverted multi-index: pruning by norm bounds, the best k.

An item's score adds its table entries over the codebooks from first to last, in float32. No loop
may reorder that sum (no ``fastmath``). So every path computes the same bits, on one thread or many,
and so do the NumPy implementations in ``tests/index``.

A damaged file may cause wrong results, never a read outside an array. Look-up tables have an entry
for every byte; a segment checks the starts of its lists when it is loaded; row numbers are checked
before use.

Named tuples group the arguments. Their arrays are assigned to local variables before the loops over
lists and items: numba counts references at each access, which costs more than the loop body.
"""

import math
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import kernel
from acqh.index.compiled.tables import extent, fill_tables
from acqh.index.search import (
    MAX_SCALE,
    NO_KEY,
    NO_LIMIT,
    InvertedLists,
    Query,
    SearchLimits,
    Traversal,
)

# Once one code in this many was scanned, a full scan in storage order is cheaper than going on.
FULL_SCAN_FRACTION = 4
# Entries of a list that are filtered at a time.
_CHUNK: Any = np.uint64(64)
# Scoring this many suffixes of two codewords costs as much as estimating the recall.
_ESTIMATE_AFTER = 4096
_NO_ENTRY: Any = np.uint64(0xFFFFFFFFFFFFFFFF)

# Prefixes of this many levels are ordered at first.
_FIRST_LEVELS = 4

_LOWEST = np.float32(-np.inf)
_HIGHEST = np.float32(np.inf)
# Relative rounding error of one float32 operation, doubled.
_ROUNDING = np.float32(2.0**-23)
_ONE = np.uint64(1)
_MAX_SCALE = np.float32(MAX_SCALE)
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


@kernel()
def read_row(rows: Array, entry: Any) -> Any:
    """Return the row number of an entry, stored in one to four bytes, lowest first."""
    row = np.uint32(rows[entry, 0])
    if rows.shape[1] == 3:  # unrolled: the usual number of bytes
        row |= np.uint32(rows[entry, 1]) << np.uint32(8)
        return np.int64(row | (np.uint32(rows[entry, 2]) << np.uint32(16)))
    for i in range(1, rows.shape[1]):
        row |= np.uint32(rows[entry, i]) << np.uint32(8 * i)
    return np.int64(row)


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


@kernel()
def _best_entry(query: Query, traversal: Traversal, max_residual: Any) -> Any:
    """Return an entry of the highest score, that score, and whether it is tied."""
    lists, suffix_max, tally = query.lists, query.suffix_max, query.tally
    starts, suffixes, norm_bounds = lists.starts, lists.suffixes, lists.norm_bounds
    bounds = (suffix_max[0], query.base, query.span)
    tables = query.table[lists.n_prefix_a + lists.n_prefix_b :]
    order_a, scores_a, bounds_a = traversal.order_a, traversal.scores_a, traversal.bounds_a
    order_b, bounds_b = traversal.order_b, traversal.bounds_b
    n_b, deep = order_b.shape[0], suffixes.shape[1] >= MIN_GROUPED
    best, highest, tied = _NO_ENTRY, _LOWEST, False
    for place in range(order_a.shape[0]):
        if bounds_a[place] + bounds_b[0] < highest - max_residual:
            break
        a = order_a[place]
        for next_b in range(n_b):
            if scores_a[a] + bounds_b[next_b] < highest - max_residual:
                break
            b = order_b[next_b]
            cell = np.uint64(a) * np.uint64(n_b) + np.uint64(b)
            start, stop = np.uint64(starts[cell]), np.uint64(starts[cell + _ONE])
            prefix = prefix_score(query.table, lists, scores_a[a], b)
            if start == stop or list_bound(bounds, norm_bounds, cell, prefix) < highest:
                continue
            for entry in range(start, stop):
                score, first = prefix, 0
                if deep:
                    score, first = prefix + tables[0, suffixes[entry, 0]], 1
                    if score + suffix_max[1] < highest:
                        continue
                tally[0] += 1
                score = suffix_score(tables, suffixes, suffix_max, entry, first, score, highest)
                if score == _LOWEST:
                    continue
                tally[1] += 1
                if score >= highest:
                    tied = score == highest
                    best, highest = entry, score
    return best, highest, tied


@kernel()
def _visit_above(
    query: Query,
    traversal: Traversal,
    limits: SearchLimits | None,
    lows: Any,
    done: Any,
    count: Any,
    worst: Any,
) -> Any:
    """Visit unvisited lists whose prefix score reaches the floor and can reach the threshold.

    The entry `done` is skipped. `lows` are the floor and the most that a suffix can add. Returns
    the number of keys, the worst of them, and the number of entries in the visited lists.
    """
    floor, max_residual = lows
    lists, allowed, keys, k = query.lists, query.allowed, query.keys, query.k
    starts, suffixes, suffix_max = lists.starts, lists.suffixes, query.suffix_max
    rows, norm_bounds = lists.rows, lists.norm_bounds
    bounds = (suffix_max[0], query.base, query.span)
    tables = query.table[lists.n_prefix_a + lists.n_prefix_b :]
    order_a, scores_a, bounds_a = traversal.order_a, traversal.scores_a, traversal.bounds_a
    order_b, bounds_b, visited = traversal.order_b, traversal.bounds_b, traversal.visited
    grouped, has_bounds = lists.gap_starts.shape[0] > 0, norm_bounds.shape[0] > 0
    n_b, (last_a, last_b) = order_b.shape[0], (traversal.ordered[0], traversal.ordered[1])
    # Long suffixes are pruned by the score of their first codeword.
    deep = suffixes.shape[1] >= MIN_GROUPED
    n_scanned, n_abandoned, left = np.int64(0), np.int64(0), NO_LIMIT
    n_listed, chosen = np.int64(0), np.empty(_CHUNK, dtype=np.uint64)
    first_table = tables[0] if deep else query.table[0]
    limited = False
    if limits is not None:
        limited = True
        left = limits.limit - query.tally[0]
    # The usual four codebooks leave suffixes of two codewords, in lists of one or two entries.
    direct = suffixes.shape[1] == 2 and not (limited or grouped)
    threshold = key_score(worst)
    low = max(floor, threshold - max_residual)
    for place in range(last_a):
        if bounds_a[place] + bounds_b[0] < low or (limited and n_scanned >= left):
            break
        a = order_a[place]
        next_b = visited[place]
        while next_b < last_b and scores_a[a] + bounds_b[next_b] >= low:
            if limited and n_scanned >= left:
                break
            b = order_b[next_b]
            next_b += 1
            cell = np.uint64(a) * np.uint64(n_b) + np.uint64(b)
            prefix = prefix_score(query.table, lists, scores_a[a], b)
            if has_bounds and list_bound(bounds, norm_bounds, cell, prefix) < threshold:
                continue
            start, stop = np.uint64(starts[cell]), np.uint64(starts[cell + _ONE])
            if start == stop:
                continue
            n_listed += np.int64(stop - start)
            if direct:
                n_scanned += np.int64(stop - start)
                for item in range(start, stop):
                    score = prefix + tables[0, suffixes[item, 0]]
                    score += tables[1, suffixes[item, 1]]
                    if score < threshold:
                        continue
                    row = read_row(rows, item)
                    if is_allowed(allowed, row):
                        key = pack_key(score, query.first_row + row)
                        count, worst = keep_key(keys, k, key, count, worst)
                        threshold = key_score(worst)
                start = stop
            while start < stop:
                end, n = stop, np.int64(stop - start)
                if deep:
                    end = min(start + _CHUNK, stop)
                    need = (threshold - suffix_max[1]) - prefix
                    n = choose(chosen, first_table, suffixes, start, end, need)
                if n > left - n_scanned:  # scan some entries; the list counts as unvisited
                    n, stop = left - n_scanned, end
                    next_b -= 1
                n_scanned += n
                for i in range(np.uint64(n)):
                    entry = chosen[i] if deep else start + i
                    if deep:
                        start_score = prefix + tables[0, suffixes[entry, 0]]
                        score = suffix_score(
                            tables, suffixes, suffix_max, entry, 1, start_score, threshold
                        )
                        n_abandoned += score == _LOWEST
                    else:
                        score = suffix_score(
                            tables, suffixes, suffix_max, entry, 0, prefix, threshold
                        )
                    if score < threshold:
                        continue
                    if grouped:
                        if entry == done:
                            continue
                        count, worst = visit_rows(query, entry, score, count, worst)
                    else:
                        row = read_row(rows, entry)
                        if is_allowed(allowed, row):
                            key = pack_key(score, query.first_row + row)
                            count, worst = keep_key(keys, k, key, count, worst)
                    threshold = key_score(worst)
                start = end
            low = max(floor, threshold - max_residual)
        visited[place] = next_b
    query.tally[0] += n_scanned
    query.tally[1] += n_scanned - n_abandoned
    return count, worst, n_listed


@kernel()
def _bound_of_unvisited(
    query: Query, traversal: Traversal, max_residual: Any, threshold: Any, ceiling: Any
) -> Any:
    """Return the highest bound of unvisited lists, or `ceiling` if that is higher."""
    starts, norm_bounds = query.lists.starts, query.lists.norm_bounds
    bounds = (query.suffix_max[0], query.base, query.span)
    order_a, scores_a, bounds_a = traversal.order_a, traversal.scores_a, traversal.bounds_a
    order_b, bounds_b, visited = traversal.order_b, traversal.bounds_b, traversal.visited
    n_b = order_b.shape[0]
    for place in range(traversal.ordered[0]):
        if bounds_a[place] + bounds_b[0] + max_residual < max(threshold, ceiling):
            break
        a = order_a[place]
        for next_b in range(visited[place], traversal.ordered[1]):
            if scores_a[a] + bounds_b[next_b] + max_residual < max(threshold, ceiling):
                break
            b = order_b[next_b]
            cell = np.uint64(a) * np.uint64(n_b) + np.uint64(b)
            if starts[cell] != starts[cell + _ONE]:
                prefix = prefix_score(query.table, query.lists, scores_a[a], b)
                bound = list_bound(bounds, norm_bounds, cell, prefix)
                ceiling = bound if bound > ceiling else ceiling
    return ceiling


@kernel()
def _search_one(
    query: Query,
    traversal: Traversal,
    max_residual: Any,
    limits: SearchLimits | None,
    count: Any,
    worst: Any,
) -> Any:
    """Visit lists best first, by levels of prefix score, until no other can hold a top-k item.

    Stops earlier at the limits. Returns the number of keys, the worst of them, and an upper bound
    of the scores of unvisited items, if it is not below the worst.
    """
    n_entries = query.lists.suffixes.shape[0]
    limit, misses = NO_LIMIT, -1.0
    if limits is not None:
        limit, misses = limits.limit, limits.misses
    limited = limit < NO_LIMIT or misses >= 0
    full_scan = query.k * FULL_SCAN_FRACTION > query.lists.n_rows and not limited
    grouped = query.lists.gap_starts.shape[0] > 0
    high_a, high_b, spread = restart(traversal)
    highs, best = (high_a, high_b), high_a + high_b
    # A search that ends early needs few sorted prefixes; the others are sorted when needed.
    reached = best - spread * np.float32(_FIRST_LEVELS / N_LEVELS)
    if full_scan or (grouped and not limited):
        reached = _LOWEST
    order_prefixes(traversal, highs, reached, _HIGHEST, full_scan)
    done, last_level, ceiling = _NO_ENTRY, N_LEVELS, _LOWEST
    if grouped and not full_scan and not limited:
        # The rows of the best code raise the threshold, and may already be the best k.
        done, score, tied = _best_entry(query, traversal, max_residual)
        if done != _NO_ENTRY:
            count, worst = visit_rows(query, done, score, count, worst)
        if worst != NO_KEY:
            if count == query.k and not tied and key_score(worst) >= score:
                return count, worst, ceiling
            last_level = 0
    histogram, mean, deviation = np.zeros(0, dtype=np.float64), 0.0, 1.0
    # With short suffixes, going on is cheaper than an estimate until many codes were scanned.
    estimate_from = query.tally[0] + (_ESTIMATE_AFTER if query.lists.suffixes.shape[1] <= 2 else 0)
    n_listed, proven = np.int64(0), False
    for level in range(1, N_LEVELS + 2):
        floor = _LOWEST
        if level <= last_level and not full_scan:
            floor = best - spread * np.float32(level / N_LEVELS)
        if floor < reached:
            order_prefixes(traversal, highs, _LOWEST, reached, full_scan)
            reached = _LOWEST
        count, worst, n_more = _visit_above(
            query, traversal, limits, (floor, max_residual), done, count, worst
        )
        n_listed += n_more
        if count >= query.k:
            count, worst = query.k, keep_best(query.keys, count, query.k)
        threshold = key_score(worst)
        if query.tally[0] >= limit:
            break
        if floor == _LOWEST or threshold - max_residual >= floor:
            proven = True
            break
        if misses >= 0 and worst != NO_KEY and query.tally[0] >= estimate_from:
            if histogram.shape[0] == 0:
                histogram = count_codes_by_score(query, traversal, best, spread)
                mean, deviation = suffix_spread(query)
            width, need = spread / (N_LEVELS * BINS_PER_LEVEL), threshold - best - mean
            if expected_misses(histogram, level, width, need, deviation) <= misses:
                break
        full_scan = not limited and n_listed * FULL_SCAN_FRACTION > n_entries
        if full_scan:
            # Restart in storage order, with the threshold of the worst key.
            count, worst = drop_rows(query, count), worst + _ONE
            done = _NO_ENTRY
            restart(traversal)
            order_prefixes(traversal, highs, _LOWEST, _HIGHEST, full_scan)
            reached = _LOWEST
    if limits is not None and not proven:
        ceiling = _bound_of_unvisited(query, traversal, max_residual, key_score(worst), ceiling)
        if reached + max_residual >= max(key_score(worst), ceiling):
            order_prefixes(traversal, highs, _LOWEST, reached, full_scan)
            ceiling = _bound_of_unvisited(query, traversal, max_residual, key_score(worst), ceiling)
    return count, worst, ceiling


@kernel()
def search_lists(
    codebooks_and_queries: Any,
    tables: Array,
    bounds: Any,
    lists: InvertedLists,
    rows: Any,
    k: int,
    limits: SearchLimits | None,
    best: Any,
) -> None:
    """Update each query's k best with the items of one segment.

    Parameters
    ----------
    codebooks_and_queries : (codewords, queries)
        (n_codebooks, n_components, codebook_size) and (n_queries, n_components) float32. No
        codebooks if `tables` has the look-up tables of all queries.
    tables : (n_tables, n_codebooks, TABLE_WIDTH) float32
        Look-up tables, filled for a few queries at a time so that they stay in the cache.
    bounds : (tops, scales, bases, spans)
        The first two from `fill_tables`; queries whose scores may overflow are skipped. A suffix
        adds at most a query's base plus its span times the norm bound of the list, both
        (n_queries,) float32.
    lists : InvertedLists
        The segment.
    rows : (int, (n_bytes,) uint8)
        Offset of row numbers, and a bit for each allowed row, lowest bit first; empty for all.
    k : int
    limits : SearchLimits or None
        None for exact search, for which numba compiles a separate loop.
    best : (keys, counts, worsts, tallies, ceilings)
        State of each query, updated.

        - keys, (capacity,) uint64: the best keys in any order, see `pack_key`; capacity above k.
        - count, int64: number of keys, at most k.
        - worst, uint64: upper bound of the k-th best key; `NO_KEY` at first.
        - tally, (2,) int64: number of codes scanned, and of codes scored to the last codeword.
        - ceiling, float32: upper bound of the scores of unvisited items.
    """
    codewords, queries = codebooks_and_queries
    tops, scales, bases, spans = bounds
    keys, counts, worsts, tallies, ceilings = best
    size, n_prefix = lists.codebook_size, lists.n_prefix_a + lists.n_prefix_b
    n_entries = len(lists.suffixes)
    first_row, allowed = rows
    traversal = new_traversal(size**lists.n_prefix_a, size**lists.n_prefix_b)
    suffix_max = np.empty(tops.shape[1] - n_prefix + 1, dtype=np.float32)
    has_bounds, largest = lists.norm_bounds.shape[0] > 0, np.uint8(0)
    for cell in range(lists.norm_bounds.shape[0]):
        largest = max(largest, lists.norm_bounds[cell])
    max_norm_bound = np.float32(largest)
    for i in range(queries.shape[0]):
        place = i % tables.shape[0]
        if place == 0 and codewords.shape[0] > 0:
            some = slice(i, i + tables.shape[0])
            fill_tables(codewords, queries[some], tables, tops[some], scales[some])
        if not scales[i] < _MAX_SCALE:
            continue
        table = tables[place]
        # Rounding of bounds and of scores: a few units per codebook each.
        suffix_max[-1] = scales[i] * np.float32(2 * tops.shape[1] + 8) * _ROUNDING
        for s in range(tops.shape[1] - 1, n_prefix - 1, -1):
            suffix_max[s - n_prefix] = suffix_max[s - n_prefix + 1] + tops[i, s]
        sum_tables(table, 0, lists.n_prefix_a, size, traversal.scores_a)
        sum_tables(table, lists.n_prefix_a, lists.n_prefix_b, size, traversal.scores_b)
        tally, before = tallies[i], tallies[i, 0]
        query = Query(
            table, suffix_max, bases[i], spans[i], lists, allowed, first_row, k, keys[i], tally
        )
        max_residual = suffix_max[0]
        if has_bounds and bases[i] + spans[i] * max_norm_bound < max_residual:
            max_residual = bases[i] + spans[i] * max_norm_bound
        counts[i], worsts[i], ceiling = _search_one(
            query, traversal, max_residual, limits, counts[i], worsts[i]
        )
        ceilings[i] = max(ceilings[i], ceiling)
        # Codes scanned twice, once by `_best_entry`, count once.
        tally[0] = min(tally[0], before + n_entries)
        tally[1] = min(tally[1], tally[0])

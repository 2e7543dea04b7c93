"""Compiled search over the runs of a segment: pruning, scores, the best k.

An item's score adds its table entries over the codebooks from first to last, in float32. No loop
may reorder that sum (no ``fastmath``), so every path gives the same bits, on one thread or many,
and so do the NumPy twins in ``_twins``.

Stored arrays are read without trusting their values: tables have a place for every byte, bounds of
runs are checked when a segment is made, those of lists and row numbers before they are used. So a
damaged file may give wrong answers, never a read outside an array.

What belongs together travels in named tuples, but arrays are taken out of them before the loops
over runs and items: numba counts references each time, which costs more than the work. Helpers
without an underscore are also compiled into ``_hamming._kernels``; numba's cache does not see such
changes across files, so a change here has to touch that file as well.
"""

from typing import Any

import numpy as np
from numba import njit

from acqh._core.arrays import Array
from acqh.index._search._types import Heads, Query, Runs

# Runs are visited in this many waves of falling bound: more waves order them better but cost more.
N_WAVES = 32
# Once one part in this many was looked at, a pass in storage order is cheaper than going on.
PLAIN_PASS_PART = 4
# Larger than the key of any item: that of a score of minus infinity in the last row.
NO_KEY = np.uint64(0xFF800000FFFFFFFF)
_NO_ENTRY: Any = np.uint64(0xFFFFFFFFFFFFFFFF)

_COMPILE: dict[str, Any] = {"cache": True, "nogil": True}
_INLINE: dict[str, Any] = {"inline": "always", **_COMPILE}
_LOWEST = np.float32(-np.inf)
# Values that differ by less are not worth ordering, and would overflow the bucket width.
_FLAT = np.float32(1e-30)
# Relative rounding error of one float32 operation, doubled.
_ROUNDING = np.float32(2.0**-23)
_ONE = np.uint64(1)
_HALF = np.uint64(32)
_SIGN = np.uint32(31)
_MAGNITUDE = np.uint32(0x7FFFFFFF)


@njit(**_INLINE)
def pack_key(score: Any, row: Any) -> Any:
    """Pack score and row so that smaller keys rank first: higher score, then lower row."""
    bits = np.float32(score).view(np.uint32)
    if bits >> _SIGN == 0:
        bits = np.uint32(_MAGNITUDE - bits)
    return (np.uint64(bits) << _HALF) | np.uint64(np.uint32(row))


@njit(**_INLINE)
def key_score(key: Any) -> Any:
    """Return the score that was packed into a key."""
    bits = np.uint32(key >> _HALF)
    if bits >> _SIGN == 0:
        bits = np.uint32(_MAGNITUDE - bits)
    return np.uint32(bits).view(np.float32)


@njit(**_COMPILE)
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


@njit(**_COMPILE)
def keep_best(keys: Array, count: int, k: int) -> Any:
    """Keep the k best keys in front and return the worst of them."""
    if count > k:
        select_smallest(keys, count, k)
    worst = keys[0]
    for i in range(1, k):
        worst = max(worst, keys[i])
    return worst


@njit(**_COMPILE)
def _forget_rows(query: Query, count: int) -> Any:
    """Drop the keys that came from this segment; return how many are left."""
    left = 0
    for i in range(count):
        row = np.int64(np.uint32(query.keys[i])) - query.first_row
        if row < 0 or row >= query.runs.n_rows:
            query.keys[left] = query.keys[i]
            left += 1
    return left


@njit(**_COMPILE)
def _new_heads(n_a: int, n_b: int) -> Any:
    n = max(n_a, n_b)
    return Heads(
        np.empty(n_a, dtype=np.float32),
        np.empty(n_b, dtype=np.float32),
        np.empty(n_a, dtype=np.uint32),
        np.empty(n_b, dtype=np.uint32),
        np.empty(n_a + 1, dtype=np.float32),
        np.empty(n_b + 1, dtype=np.float32),
        np.empty(n_a, dtype=np.int64),
        np.empty(n, dtype=np.uint32),
        np.empty(n + 1, dtype=np.uint32),
    )


@njit(**_COMPILE)
def _fill_head(table: Array, first: int, digits: int, size: int, head: Array) -> None:
    """Sum the tables of `digits` codebooks from `first` on, for every combination of words."""
    head[0] = np.float32(0.0)
    filled = 1
    for s in range(first, first + digits):
        # Backwards, because the extensions of a word take the places of the words after it.
        for a in range(filled - 1, -1, -1):
            start = head[a]
            for j in range(size):
                head[a * size + j] = start + table[s, j]
        filled *= size


@njit(**_COMPILE)
def _bucket_sort(values: Array, order: Array, buckets: Array, starts: Array) -> None:
    """Order by falling value up to the width of a bucket."""
    n = values.shape[0]
    high, low = values[0], values[0]
    for i in range(n):
        high = values[i] if values[i] > high else high
        low = values[i] if values[i] < low else low
    width = np.float32(n - 0.5) / max(high - low, _FLAT)
    starts[: n + 1] = 0
    for i in range(n):
        buckets[i] = np.uint32(np.int32((high - values[i]) * width))
    for i in range(n):
        starts[buckets[i] + np.uint32(1)] += np.uint32(1)
    for i in range(n):
        starts[i + 1] += starts[i]
    for i in range(n):
        place = starts[buckets[i]]
        starts[buckets[i]] = place + np.uint32(1)
        order[place] = i


@njit(**_COMPILE)
def _order_heads(heads: Heads, as_stored: bool) -> None:
    """Order both halves, nearly, and bound the values at each place and later ones.

    The bounds make it harmless that the order is not quite falling, or is that of storage.
    """
    heads.visited[:] = 0
    for values, order, bounds in (
        (heads.values_a, heads.order_a, heads.bounds_a),
        (heads.values_b, heads.order_b, heads.bounds_b),
    ):
        n = values.shape[0]
        if as_stored:
            for i in range(n):
                order[i] = i
        else:
            _bucket_sort(values, order, heads.buckets, heads.bucket_starts)
        bound = _LOWEST
        bounds[n] = bound
        for i in range(n - 1, -1, -1):
            value = values[order[i]]
            bound = value if value > bound else bound
            bounds[i] = bound


@njit(**_INLINE)
def _head_score(table: Array, runs: Runs, score: Any, b: Any) -> Any:
    """Add the second half's words one by one, in the order that defines a score."""
    if runs.digits_b == 1:
        return score + table[runs.digits_a, b]
    unit = runs.codebook_size ** max(runs.digits_b - 1, 0)
    for s in range(runs.digits_a, runs.digits_a + runs.digits_b):
        score += table[s, b // unit]
        b %= unit
        unit //= runs.codebook_size
    return score


@njit(**_INLINE)
def is_allowed(allowed: Array, row: Any) -> Any:
    """Whether a row's bit is set; no bits at all allow every row."""
    byte = np.uint64(row) >> np.uint64(3)
    if byte >= np.uint64(allowed.shape[0]):
        return allowed.shape[0] == 0
    return (allowed[byte] >> np.uint8(row & 7)) & 1 != 0


@njit(**_INLINE)
def keep_key(keys: Array, k: int, key: Any, count: Any, worst: Any) -> Any:
    """Add a candidate better than the worst; when there is no room left, keep the best k."""
    if key < worst:
        keys[count] = key
        count += 1
        if count == keys.shape[0]:
            worst = keep_best(keys, count, k)
            count = k
    return count, worst


@njit(**_COMPILE)
def _visit_rows(query: Query, entry: Any, score: Any, count: Any, worst: Any) -> Any:
    """Keep the first k allowed rows of one code; the others cannot be among the best."""
    starts, gaps = query.runs.gap_starts, query.runs.gaps
    allowed, keys = query.allowed, query.keys
    row, gap, shift, kept = np.uint64(0), np.uint64(0), np.uint64(0), 0
    # Where lists start is not checked when a file is opened: there may be hundreds of millions.
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
            kept += 1
            if kept == query.k:
                worst = min(worst, key)
            if key >= worst:
                break  # later rows have larger keys
        row += _ONE
        gap, shift = np.uint64(0), np.uint64(0)
    return count, worst


@njit(**_INLINE)
def _tail_score(tables: Array, tails: Array, entry: Any, score: Any) -> Any:
    """Add the table entries of the words that are not part of the head."""
    start = 0
    if tails.shape[1] >= 2:  # unrolled, because the usual four codebooks leave two
        score = (score + tables[0, tails[entry, 0]]) + tables[1, tails[entry, 1]]
        start = 2
    for c in range(start, tails.shape[1]):
        score += tables[c, tails[entry, c]]
    return score


@njit(**_COMPILE)
def _best_entry(query: Query, heads: Heads, rest: Any) -> Any:
    """Return an entry of the highest score, that score, if it is tied, and how many were scored."""
    runs = query.runs
    starts, tails = runs.starts, runs.tails
    tables = query.table[runs.digits_a + runs.digits_b :]
    order_a, values_a, bounds_a = heads.order_a, heads.values_a, heads.bounds_a
    order_b, bounds_b = heads.order_b, heads.bounds_b
    n_b = order_b.shape[0]
    best, highest, tied, seen = _NO_ENTRY, _LOWEST, False, np.int64(0)
    for place in range(order_a.shape[0]):
        if bounds_a[place] + bounds_b[0] < highest - rest:
            break
        a = order_a[place]
        for next_b in range(n_b):
            if values_a[a] + bounds_b[next_b] < highest - rest:
                break
            b = order_b[next_b]
            run = np.uint64(a) * np.uint64(n_b) + np.uint64(b)
            start, stop = np.uint64(starts[run]), np.uint64(starts[run + _ONE])
            seen += np.int64(stop - start)
            head = _head_score(query.table, runs, values_a[a], b)
            for entry in range(start, stop):
                score = _tail_score(tables, tails, entry, head)
                if score >= highest:
                    tied = score == highest
                    best, highest = entry, score
    return best, highest, tied, seen


@njit(**_COMPILE)
def _visit_above(
    query: Query, heads: Heads, floor: Any, rest: Any, done: Any, count: Any, worst: Any
) -> Any:
    """Visit the runs not yet visited whose head reaches the floor and can reach the threshold.

    Of codes with many rows, the entry `done` is left out.
    """
    runs, allowed, keys, k = query.runs, query.allowed, query.keys, query.k
    starts, tails, rows = runs.starts, runs.tails, runs.rows
    tables = query.table[runs.digits_a + runs.digits_b :]
    order_a, values_a, bounds_a = heads.order_a, heads.values_a, heads.bounds_a
    order_b, bounds_b, visited = heads.order_b, heads.bounds_b, heads.visited
    grouped = runs.gap_starts.shape[0] > 0
    n_b = order_b.shape[0]
    seen = np.int64(0)
    threshold = key_score(worst)
    low = max(floor, threshold - rest)
    for place in range(order_a.shape[0]):
        if bounds_a[place] + bounds_b[0] < low:
            break
        a = order_a[place]
        next_b = visited[place]
        while next_b < n_b and values_a[a] + bounds_b[next_b] >= low:
            b = order_b[next_b]
            next_b += 1
            run = np.uint64(a) * np.uint64(n_b) + np.uint64(b)
            start, stop = np.uint64(starts[run]), np.uint64(starts[run + _ONE])
            if start == stop:
                continue
            seen += np.int64(stop - start)
            head = _head_score(query.table, runs, values_a[a], b)
            for entry in range(start, stop):
                score = _tail_score(tables, tails, entry, head)
                if score < threshold:
                    continue
                if grouped:
                    if entry == done:
                        continue
                    count, worst = _visit_rows(query, entry, score, count, worst)
                elif is_allowed(allowed, rows[entry]):
                    key = pack_key(score, query.first_row + np.int64(rows[entry]))
                    count, worst = keep_key(keys, k, key, count, worst)
                threshold = key_score(worst)
            low = max(floor, threshold - rest)
        visited[place] = next_b
    return count, worst, seen


@njit(**_COMPILE)
def _search_one(query: Query, heads: Heads, rest: Any, count: Any, worst: Any) -> Any:
    """Visit runs in waves of falling head score until no other run can hold one of the best.

    Returns how many keys there are, the worst of them, and how many codes were scored.
    """
    plain = query.k * PLAIN_PASS_PART > query.runs.n_rows
    _order_heads(heads, plain)
    done, last_wave, scored = _NO_ENTRY, N_WAVES, np.int64(0)
    if query.runs.gap_starts.shape[0] > 0 and not plain:
        # The rows of the best code alone may be enough, and then they leave little to look at.
        done, score, tied, scored = _best_entry(query, heads, rest)
        if done != _NO_ENTRY:
            count, worst = _visit_rows(query, done, score, count, worst)
        if worst != NO_KEY:
            if count == query.k and not tied and key_score(worst) >= score:
                return count, worst, scored
            last_wave = 0
    best = heads.bounds_a[0] + heads.bounds_b[0]
    spread = best - heads.values_a[heads.order_a[-1]] - heads.values_b[heads.order_b[-1]]
    seen = 0
    for wave in range(1, N_WAVES + 2):
        floor = _LOWEST
        if wave <= last_wave and not plain:
            floor = best - spread * np.float32(wave / N_WAVES)
        count, worst, looked_at = _visit_above(query, heads, floor, rest, done, count, worst)
        scored += looked_at
        if count >= query.k:
            count, worst = query.k, keep_best(query.keys, count, query.k)
        if floor == _LOWEST or key_score(worst) - rest >= floor:
            break
        seen += looked_at
        plain = seen * PLAIN_PASS_PART > query.runs.tails.shape[0]
        if plain:
            # Start again, in storage order, for all that is no worse than the worst found.
            count, worst = _forget_rows(query, count), worst + _ONE
            done = _NO_ENTRY
            _order_heads(heads, plain)
    return count, worst, scored


@njit(**_COMPILE)
def search_runs(
    tables: Array,
    tops: Array,
    scales: Array,
    runs: Runs,
    rows: Any,
    k: int,
    keys: Array,
    counts: Array,
    worsts: Array,
    scored: Array,
) -> None:
    """Add what one segment holds of each query's k best.

    Parameters
    ----------
    tables, tops, scales
        From `fill_tables`.
    runs : Runs
        The segment.
    rows : (int, (n_bytes,) uint8)
        What to add to row numbers, and a bit for each row that may be found, lowest bit first;
        an empty array allows all.
    k : int
    keys : (n_queries, capacity) uint64
        The best so far, in any order; see `pack_key`. Capacity is above k.
    counts : (n_queries,) int64
        How many keys each query has, at most k.
    worsts : (n_queries,) uint64
        A key that each query's k-th best is known not to exceed; `NO_KEY` at first.
    scored : (n_queries,) int64
        Raised by how many codes were looked at.
    """
    size = runs.codebook_size
    first_row, allowed = rows
    heads = _new_heads(size**runs.digits_a, size**runs.digits_b)
    for i in range(tables.shape[0]):
        # For the rounding of bounds and of scores, a few units each a codebook.
        rest = scales[i] * np.float32(2 * tops.shape[1] + 8) * _ROUNDING
        for s in range(runs.digits_a + runs.digits_b, tops.shape[1]):
            rest += tops[i, s]
        _fill_head(tables[i], 0, runs.digits_a, size, heads.values_a)
        _fill_head(tables[i], runs.digits_a, runs.digits_b, size, heads.values_b)
        query = Query(tables[i], runs, allowed, first_row, k, keys[i])
        counts[i], worsts[i], seen = _search_one(query, heads, rest, counts[i], worsts[i])
        # Some are scored twice, once to find the best code: they were looked at once.
        scored[i] += min(seen, np.int64(runs.tails.shape[0]))

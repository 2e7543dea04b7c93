"""Compiled helpers for runs: scores of heads and tails, the rows of a code, what may be missed."""

import math
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import kernel
from acqh.index.compiled.keys import is_allowed, keep_key, pack_key
from acqh.index.compiled.tables import extent
from acqh.index.search.plain import Heads, Query, Runs

_LOWEST = np.float32(-np.inf)
_HIGHEST = np.float32(np.inf)
# Values that differ by less are not worth ordering, and would overflow the bucket width.
_FLAT = np.float32(1e-30)


@kernel()
def new_heads(n_a: int, n_b: int) -> Any:
    n = max(n_a, n_b)
    return Heads(
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
def fill_head(table: Array, first: int, digits: int, size: int, head: Array) -> None:
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


@kernel()
def _bucket_sort(values: Array, chosen: Array, order: Array, buckets: Array, starts: Array) -> None:
    """Write the places chosen by falling value, up to the width of a bucket; at least one."""
    n = chosen.shape[0]
    high, low = values[chosen[0]], values[chosen[0]]
    for i in range(n):
        value = values[chosen[i]]
        high = value if value > high else high
        low = value if value < low else low
    width = np.float32(n - 0.5) / max(high - low, _FLAT)
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
    """List the places of values that, with the other half's highest, lie from a floor to `above`.

    Without branches, and so quick. Sums are those that heads are compared by.
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
def begin_heads(heads: Heads) -> Any:
    """Forget what was ordered and visited; return the highest and the lowest score of heads."""
    heads.ordered[:] = 0
    heads.visited[:] = 0
    high_a, low_a = extent(heads.values_a)
    high_b, low_b = extent(heads.values_b)
    return high_a, high_b, high_a + high_b - low_a - low_b


@kernel()
def order_heads(heads: Heads, highs: Any, floor: Any, above: Any, as_stored: bool) -> None:
    """Order of both halves what was not yet, nearly, and can make a head that reaches a floor.

    What is in order already can reach `above`, infinity where nothing is. The bounds, of the values
    at each place and later ones, make it harmless that the order is not quite falling, or is that
    of storage.
    """
    for half in range(2):
        values = heads.values_b if half else heads.values_a
        order = heads.order_b if half else heads.order_a
        bounds = heads.bounds_b if half else heads.bounds_a
        other, first = highs[1 - half], heads.ordered[half]
        n = _choose(values, other, floor, above, heads.chosen)
        if n == 0:
            continue
        chosen, places = heads.chosen[:n], order[first : first + n]
        if as_stored:
            for i in range(n):
                places[i] = chosen[i]
        else:
            _bucket_sort(values, chosen, places, heads.buckets, heads.bucket_starts)
        heads.ordered[half] = first + n
        bound = _LOWEST
        bounds[first + n] = bound
        for i in range(first + n - 1, first - 1, -1):
            bound = max(bound, values[order[i]])
            bounds[i] = bound


@kernel(inline="always")
def head_score(table: Array, runs: Runs, score: Any, b: Any) -> Any:
    """Add the second half's words one by one, in the order that defines a score."""
    if runs.digits_b == 1:
        return score + table[runs.digits_a, b]
    unit = runs.codebook_size ** max(runs.digits_b - 1, 0)
    for s in range(runs.digits_a, runs.digits_a + runs.digits_b):
        score += table[s, b // unit]
        b %= unit
        unit //= runs.codebook_size
    return score


# Tails of this many words are looked at by groups: those with the same head and first word.
MIN_GROUPED = 3

_LOWEST = np.float32(-np.inf)


@kernel(inline="always")
def tail_score(
    tables: Array, tails: Array, after: Array, entry: Any, start: Any, score: Any, low: Any
) -> Any:
    """Add the table entries of a tail's words from `start` on.

    Gives up, and returns a score below `low`, as soon as the other words cannot make up for it.
    """
    n_tail = tails.shape[1]
    if n_tail == 2:  # unrolled, because the usual four codebooks leave two
        return (score + tables[0, tails[entry, 0]]) + tables[1, tails[entry, 1]]
    # "Not below", because `low` is not a number while no k-th best is known.
    while start < n_tail and not score + after[start] < low:
        stop = min(start + 2, n_tail)
        for c in range(start, stop):
            score += tables[c, tails[entry, c]]
        start = stop
    return score if start >= n_tail else _LOWEST


@kernel(inline="always")
def choose(chosen: Array, table: Array, tails: Array, start: Any, end: Any, need: Any) -> Any:
    """List the entries whose first word adds what is needed; without branches, and so quick."""
    n = np.int64(0)
    for entry in range(start, end):
        chosen[n] = entry
        n += not table[tails[entry, 0]] < need
    return n


@kernel(inline="always")
def run_bound(bounds: Any, reaches: Array, run: Any, head: Any) -> Any:
    """Return what an item of a run can score at most.

    `bounds` are what a tail adds at most in any run, and the query's base and span.
    """
    most, base, span = bounds
    if reaches.shape[0] > 0:
        reach = base + span * np.float32(reaches[run])
        most = reach if reach < most else most
    return head + most


_ONE = np.uint64(1)


@kernel()
def forget_rows(query: Query, count: int) -> Any:
    """Drop the keys that came from this segment; return how many are left."""
    left = 0
    for i in range(count):
        row = np.int64(np.uint32(query.keys[i])) - query.first_row
        if row < 0 or row >= query.runs.n_rows:
            query.keys[left] = query.keys[i]
            left += 1
    return left


@kernel()
def visit_rows(query: Query, entry: Any, score: Any, count: Any, worst: Any) -> Any:
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


# Runs are visited in this many waves of falling bound: more waves order them better but cost more.
N_WAVES = 32
BINS_A_WAVE = 4
# Of more runs, some are taken to say how heads are distributed.
_SAMPLED_RUNS = 4096
# The words of items are not drawn at random, so the tails of the best spread wider.
_WIDER = 1.15


@kernel()
def count_heads(query: Query, heads: Heads, best: Any, spread: Any) -> Any:
    """Return how many codes have a head in each part of a wave, estimated from some of the runs."""
    n_bins = N_WAVES * BINS_A_WAVE
    counts = np.zeros(n_bins + 1, dtype=np.float64)
    starts, values_a, values_b = query.runs.starts, heads.values_a, heads.values_b
    n_b, n_runs = values_b.shape[0], starts.shape[0] - 1
    step = max(1, n_runs // _SAMPLED_RUNS) | 1  # odd, so that all words of the second half occur
    scale = np.float32(n_bins) / max(spread, np.float32(1e-30))
    for run in range(0, n_runs, step):
        drop = best - values_a[run // n_b] - values_b[run % n_b]
        counts[np.int64(min(drop * scale, n_bins))] += step * np.int64(
            starts[run + 1] - starts[run]
        )
    return counts


@kernel()
def tail_spread(query: Query) -> Any:
    """Return the mean and the standard deviation of what tails add, words being drawn at random."""
    mean, variance, size = 0.0, 0.0, query.runs.codebook_size
    for s in range(query.runs.digits_a + query.runs.digits_b, query.table.shape[0]):
        first, second = 0.0, 0.0
        for j in range(size):
            first += query.table[s, j]
            second += np.float64(query.table[s, j]) ** 2
        mean += first / size
        variance += second / size - (first / size) ** 2
    return mean, _WIDER * math.sqrt(max(variance, 1e-60))


@kernel()
def expected_misses(counts: Array, wave: int, width: Any, need: Any, deviation: Any) -> Any:
    """Return how many items of waves to come reach the k-th best, were tails normal.

    `need` is what a tail has to add to the highest head, beyond its mean.
    """
    missed = 0.0
    for part in range(wave * BINS_A_WAVE, counts.shape[0]):
        if counts[part] > 0:
            away = (need + (part + 0.5) * width) / deviation
            missed += counts[part] * 0.5 * math.erfc(away / math.sqrt(2.0))
    return missed

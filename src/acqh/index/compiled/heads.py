"""Compiled helpers for the heads of runs: their scores in two halves, in nearly falling order."""

from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import kernel
from acqh.index.compiled.tables import extent
from acqh.index.search.types import Heads, Runs

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
            places[:] = chosen
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

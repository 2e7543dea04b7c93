"""Compiled helpers for the heads of runs: their scores in two halves, in nearly falling order."""

from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.kernels import kernel
from acqh.index._search._types import Heads, Runs

_LOWEST = np.float32(-np.inf)
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


@kernel()
def order_heads(heads: Heads, as_stored: bool) -> None:
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

"""Compiled helpers for keys: score and row of a candidate in one number, and the best k of them.

They are compiled into the kernels of both kinds of search; numba's cache does not see changes
across files, so a change here has to touch those files as well.
"""

from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import kernel

# Larger than the key of any item: that of a score of minus infinity in the last row.
NO_KEY = np.uint64(0xFF800000FFFFFFFF)

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
def keep_key(keys: Array, k: int, key: Any, count: Any, worst: Any) -> Any:
    """Add a candidate better than the worst; when there is no room left, keep the best k."""
    if key < worst:
        keys[count] = key
        count += 1
        if count == keys.shape[0]:
            worst = keep_best(keys, count, k)
            count = k
    return count, worst

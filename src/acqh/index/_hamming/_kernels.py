"""Compiled loops of the Hamming index: distances by counting bits.

Codes lie byte by byte: ``planes[s, i]`` is byte s of item i. So one instruction compares a byte of
many items with a byte of the query, and any number of bits takes the same loops.

Items are visited in the order they were added, a block of items for all queries before the next.
An item is taken only if it is nearer than the k-th nearest so far: of equals the first stays.
"""

from typing import Any

import numpy as np
from numba import njit
from numba.extending import intrinsic

from acqh._core.arrays import Array, Ints

_COMPILE: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Items compared with all queries before the next; 8 bytes of each fit level-1 cache.
_BLOCK_ITEMS = 2048
# Items of which only the nearest is looked at, unless it is near enough to look at each.
_GROUP_ITEMS = 128


@njit(**_COMPILE)
def nearest(
    planes: Array, n_items: int, queries: Array, allowed: Array, far: Array, rows: Ints, found: Ints
) -> Any:
    """Find the nearest items of each query by Hamming distance.

    Parameters
    ----------
    planes : (n_bytes, capacity) uint8
    n_items : int
        Columns of `planes` in use.
    queries : (n_queries, n_bytes) uint8
    allowed : (ceil(n_items / 8),) uint8, or empty for all
        One bit an item, lowest first; items whose bit is 0 are passed over.
    far : (1,) uint8 or uint16
        A number above every distance; its type is the one distances are counted in.
    rows : (n_queries, k) int64; filled
        Columns of `planes`, nearest first, of equals the lowest first.
    found : (n_queries, k) int64; filled
        Their distances.

    Returns
    -------
    (n_queries,) int64
        How many are filled for each query.
    """
    n_queries, k = rows.shape
    # Twice as many as wanted, so that throwing out the worst is seldom needed.
    room = min(2 * k, n_items)
    near_rows = np.empty((n_queries, room), dtype=np.int64)
    near = np.empty((n_queries, room), dtype=far.dtype)
    tallies = np.zeros((n_queries, np.int64(far[0]) + 1), dtype=np.int64)
    states = np.zeros((n_queries, 3), dtype=np.int64)
    states[:, 0] = far[0]
    distances = np.empty(_BLOCK_ITEMS, dtype=far.dtype)
    hidden = np.empty(_BLOCK_ITEMS, dtype=far.dtype)
    for start in range(0, n_items, _BLOCK_ITEMS):
        block = distances[: min(_BLOCK_ITEMS, n_items - start)]
        if allowed.size:
            _mark_hidden(allowed, start, far[0], hidden[: block.size])
        for i in range(n_queries):
            block[:] = 0
            for s in range(planes.shape[0]):
                _add_distances(planes[s, start : start + block.size], queries[i, s], block)
            if allowed.size:
                _raise_to(hidden, block)
            for first in range(0, block.size, _GROUP_ITEMS):
                group = block[first : first + _GROUP_ITEMS]
                if _minimum(group) < states[i, 0]:
                    _take(group, start + first, k, near_rows[i], near[i], tallies[i], states[i])
    for i in range(n_queries):
        count = states[i, 2]
        _sort(near_rows[i, :count], near[i, :count], tallies[i], rows[i], found[i])
    return np.minimum(states[:, 2], k)


@intrinsic
def _count_bits(_typing: Any, value: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return value(value), code


@njit(**_COMPILE)
def _add_distances(plane: Array, byte: Any, distances: Array) -> None:
    for i in range(plane.size):
        distances[i] += _count_bits(np.uint8(plane[i] ^ byte))


@njit(**_COMPILE)
def _mark_hidden(allowed: Array, start: int, far: Any, hidden: Array) -> None:
    for i in range(hidden.size):
        bit = (allowed[(start + i) >> 3] >> ((start + i) & 7)) & 1
        hidden[i] = 0 if bit else far


@njit(**_COMPILE)
def _raise_to(floor: Array, values: Array) -> None:
    for i in range(values.size):
        values[i] = max(values[i], floor[i])


@njit(**_COMPILE)
def _minimum(values: Array) -> Any:
    lowest = values[0]
    for i in range(values.size):
        lowest = min(lowest, values[i])
    return lowest


@njit(**_COMPILE)
def _take(
    group: Array, first_row: int, k: int, rows: Ints, distances: Array, tally: Ints, state: Ints
) -> None:
    """Take the items of a group that are nearer than the limit, and lower the limit.

    `state` holds the limit (the distance of the k-th nearest so far), how many have been taken
    below it, which is always fewer than k, and how many are kept; `tally` counts by distance.
    """
    limit, below, count = state
    for i in range(group.size):
        distance = np.int64(group[i])
        if distance < limit:
            if count == rows.size:
                count = _throw_out(rows, distances, limit, k - below)
            rows[count] = first_row + i
            distances[count] = distance
            count += 1
            tally[distance] += 1
            below += 1
            while below >= k:
                limit -= 1
                below -= tally[limit]
    state[0], state[1], state[2] = limit, below, count


@njit(**_COMPILE)
def _throw_out(rows: Ints, distances: Array, limit: int, n_at_limit: int) -> int:
    """Keep what is below the limit and the first `n_at_limit` at it; return how many are kept."""
    count = 0
    for j in range(rows.size):
        if distances[j] == limit:
            n_at_limit -= 1
        if distances[j] < limit or (distances[j] == limit and n_at_limit >= 0):
            rows[count] = rows[j]
            distances[count] = distances[j]
            count += 1
    return count


@njit(**_COMPILE)
def _sort(near_rows: Ints, near: Array, tally: Ints, rows: Ints, found: Ints) -> None:
    """Sort by distance, keeping the order of equals; write as many as there is room for."""
    tally[:] = 0
    for distance in near:
        tally[distance] += 1
    place = 0
    for distance in range(tally.size):
        place, tally[distance] = place + tally[distance], place
    for j in range(near.size):
        distance = np.int64(near[j])
        place = tally[distance]
        tally[distance] = place + 1
        if place < rows.size:
            rows[place] = near_rows[j]
            found[place] = distance

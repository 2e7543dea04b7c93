"""Compiled loops of the Hamming index: distances by counting bits, scores by adding table entries.

Codes lie byte by byte: ``planes[s, i]`` is byte s of item i. So one instruction compares a byte of
many items with a byte of the query, and any number of bits takes the same loops.

Items are visited in the order they were added, a block of items for all queries before the next.
An item is taken only if it is better than the k-th best so far: of equals the first stays.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import intrinsic

from acqh._core.arrays import Array
from acqh._core.runtime import kernel
from acqh.index.compiled.keys import NO_KEY, is_allowed, keep_best, keep_key, key_score, pack_key

# Items compared with all queries before the next; 8 bytes of each fit level-1 cache.
_BLOCK_ITEMS = 2048
# Items of which only the nearest is looked at, unless it is near enough to look at each.
_GROUP_ITEMS = 128


class Candidates(NamedTuple):
    """The nearest items of each query so far; made by `no_candidates`."""

    rows: Array  # (n_queries, room) int64
    # (n_queries, room) uint8 or uint16: in order of row; counted in the smaller type where it holds
    # every distance.
    distances: Array
    tallies: Array  # (n_queries, n_bits + 2) int64: how many items were taken at each distance
    # (n_queries, 3) int64: the limit, which is the distance of the k-th nearest so far; how many
    # items were taken below it, always fewer than k; how many are kept.
    states: Array


class Best(NamedTuple):
    """The items of highest score of each query so far."""

    keys: Array  # (n_queries, room) uint64: scores and rows packed; more room than k
    counts: Array  # (n_queries,) int64: how many keys there are; after each segment at most k
    thresholds: Array  # (n_queries,) float32: only items above are of use


def no_candidates(n_queries: int, k: int, n_bits: int) -> Candidates:
    """Return room for the k nearest of each query, with none taken yet."""
    # Twice as many as wanted, so that throwing out the farthest is seldom needed.
    rows = np.empty((n_queries, 2 * k), dtype=np.int64)
    far = n_bits + 1
    distances = np.empty(rows.shape, dtype=np.uint8 if far <= np.iinfo(np.uint8).max else np.uint16)
    states = np.zeros((n_queries, 3), dtype=np.int64)
    states[:, 0] = far
    return Candidates(rows, distances, np.zeros((n_queries, far + 1), dtype=np.int64), states)


@kernel(error_model="numpy")
def take_nearest(
    planes: Array, first_row: int, allowed: Array, queries: Array, k: int, candidates: Candidates
) -> None:
    """Take the items of a segment that are among the k nearest; call it in order of row.

    Parameters
    ----------
    planes : (n_bytes, n_items) uint8
    first_row : int
        What to add to the number of an item.
    allowed : (ceil(n_items / 8),) uint8, or empty for all
        One bit per item, lowest first; items whose bit is 0 are passed over.
    queries : (n_queries, n_bytes) uint8
    k : int
    candidates : Candidates
    """
    rows, near, tallies, states = candidates
    n_items = planes.shape[1]
    far = tallies.shape[1] - 1
    distances = np.empty(_BLOCK_ITEMS, dtype=near.dtype)
    hidden = np.empty(_BLOCK_ITEMS, dtype=near.dtype)
    for start in range(0, n_items, _BLOCK_ITEMS):
        block = distances[: min(_BLOCK_ITEMS, n_items - start)]
        if allowed.size:
            _mark_hidden(allowed, start, far, hidden[: block.size])
        for i in range(queries.shape[0]):
            block[:] = 0
            for s in range(planes.shape[0]):
                _add_distances(planes[s, start : start + block.size], queries[i, s], block)
            if allowed.size:
                _raise_to(hidden, block)
            for first in range(0, block.size, _GROUP_ITEMS):
                group = block[first : first + _GROUP_ITEMS]
                if _minimum(group) < states[i, 0]:
                    row = first_row + start + first
                    _take(group, row, k, rows[i], near[i], tallies[i], states[i])


def sort_nearest(candidates: Candidates, rows: Array, distances: Array, counts: Array) -> None:
    """Sort each query's candidates by distance, then by row.

    `rows`, `distances`: (n_queries, k) int64; filled from the left. `counts`: (n_queries,) int64;
    filled with how many.
    """
    near, kept = candidates.distances.copy(), candidates.states[:, 2]
    near[np.arange(near.shape[1]) >= kept[:, np.newaxis]] = candidates.tallies.shape[1] - 1
    order = near.argsort(axis=1, kind="stable")[:, : rows.shape[1]]
    counts[:] = np.minimum(kept, rows.shape[1])
    found = np.arange(rows.shape[1]) < counts[:, np.newaxis]
    np.copyto(rows, np.take_along_axis(candidates.rows, order, axis=1), where=found)
    np.copyto(distances, np.take_along_axis(near, order, axis=1), where=found)


@kernel(error_model="numpy")
def take_best(
    planes: Array, first_row: int, allowed: Array, tables: Array, k: int, best: Best
) -> None:
    """Take the items of a segment that are among the k of highest score; call it in order of row.

    A score adds an entry of each table, first byte first, in float32.

    `planes`, `first_row`, `allowed`, `k`: as for `take_nearest`. `tables`: (n_queries, n_bytes,
    256) float32.
    """
    n_items = planes.shape[1]
    scores = np.empty(_BLOCK_ITEMS, dtype=np.float32)
    for start in range(0, n_items, _BLOCK_ITEMS):
        block = scores[: min(_BLOCK_ITEMS, n_items - start)]
        for i in range(tables.shape[0]):
            block[:] = 0
            for s in range(planes.shape[0]):
                _add_entries(planes[s, start : start + block.size], tables[i, s], block)
            for first in range(0, block.size, _GROUP_ITEMS):
                group = block[first : first + _GROUP_ITEMS]
                if _maximum(group) > best.thresholds[i]:
                    _push(group, first_row, start + first, allowed, k, i, best)
    for i in range(tables.shape[0]):
        if best.counts[i] > k:
            best.thresholds[i] = key_score(keep_best(best.keys[i], best.counts[i], k))
            best.counts[i] = k


@kernel(error_model="numpy")
def _push(
    group: Array, first_row: int, first: int, allowed: Array, k: int, i: int, best: Best
) -> None:
    """Push the allowed items of a group that are above the threshold, and raise the threshold."""
    keys, count, threshold = best.keys[i], best.counts[i], best.thresholds[i]
    for j in range(group.size):
        place = first + j
        if group[j] > threshold and is_allowed(allowed, place):
            key = pack_key(group[j], first_row + place)
            count, worst = keep_key(keys, k, key, count, NO_KEY)
            if worst < NO_KEY:
                threshold = key_score(worst)
    best.counts[i], best.thresholds[i] = count, threshold


@kernel(error_model="numpy")
def _add_entries(plane: Array, table: Array, scores: Array) -> None:
    for i in range(plane.size):
        scores[i] += table[plane[i]]


@kernel(error_model="numpy")
def _maximum(values: Array) -> Any:
    highest = values[0]
    for i in range(values.size):
        highest = max(highest, values[i])
    return highest


@intrinsic
def _count_bits(_typing: Any, value: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return value(value), code


@kernel(error_model="numpy")
def _add_distances(plane: Array, byte: Any, distances: Array) -> None:
    for i in range(plane.size):
        distances[i] += _count_bits(np.uint8(plane[i] ^ byte))


@kernel(error_model="numpy")
def _mark_hidden(allowed: Array, start: int, far: Any, hidden: Array) -> None:
    for i in range(hidden.size):
        hidden[i] = 0 if is_allowed(allowed, start + i) else far


@kernel(error_model="numpy")
def _raise_to(floor: Array, values: Array) -> None:
    for i in range(values.size):
        values[i] = max(values[i], floor[i])


@kernel(error_model="numpy")
def _minimum(values: Array) -> Any:
    lowest = values[0]
    for i in range(values.size):
        lowest = min(lowest, values[i])
    return lowest


@kernel(error_model="numpy")
def _take(
    group: Array, first_row: int, k: int, rows: Array, distances: Array, tally: Array, state: Array
) -> None:
    """Take the items of a group that are nearer than the limit, and lower the limit."""
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


@kernel(error_model="numpy")
def _throw_out(rows: Array, distances: Array, limit: int, n_at_limit: int) -> int:
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

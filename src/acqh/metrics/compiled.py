"""Compiled loops over one query's ranking; tests hold a NumPy twin of each."""

import numpy as np

from acqh._core.arrays import Bools, Floats, Ints
from acqh._core.runtime import kernel

DIGIT_BITS = 11
DIVIDE_BY_HITS, DIVIDE_BY_CUTOFF, DIVIDE_BY_ALL = 0, 1, 2


@kernel()
def fill_keys(bits: Ints, is_signed: bool, is_float: bool, descending: bool, keys: Ints) -> None:
    """Write unsigned keys that are smallest for the item to rank first.

    Parameters
    ----------
    bits : (n_items,) uint32 or uint64
        The scores' own bits. Floats must be free of NaN.
    is_signed, is_float : bool
        What the bits stand for; neither means unsigned integers.
    descending : bool
        Whether the largest score ranks first.
    keys : (n_items,), dtype of `bits`
        Filled. Equal scores get equal keys, 0.0 and -0.0 included.
    """
    sign = np.uint64(1) << np.uint64(8 * bits.itemsize - 1)
    for i in range(bits.size):
        key = np.uint64(bits[i])
        if is_float:
            if key == sign:
                key = np.uint64(0)
            # A negative float's magnitude grows with its bits, so its order is reversed.
            key = ~key if key & sign else key | sign
        elif is_signed:
            key ^= sign
        keys[i] = ~key if descending else key


@kernel()
def argsort_keys(keys: Ints, order: Ints, spare_keys: Ints, spare_order: Ints) -> tuple[Ints, Ints]:
    """Sort keys and the item numbers with them, stably, by radix from the lowest digit.

    A digit that is the same in every key costs one read, so small integers such as Hamming
    distances are sorted by a single counting pass.

    `keys`, `spare_keys`: (n_items,) uint32 or uint64; both are overwritten. `order`, `spare_order`:
    (n_items,) int32; both are overwritten.
    """
    n_items = keys.size
    n_buckets = 1 << DIGIT_BITS
    mask = np.uint64(n_buckets - 1)
    starts = np.empty(n_buckets, np.int64)
    for i in range(n_items):
        order[i] = i
    for lowest in range(0, 8 * keys.itemsize, DIGIT_BITS):
        shift = np.uint64(lowest)
        starts[:] = 0
        for i in range(n_items):
            starts[(np.uint64(keys[i]) >> shift) & mask] += 1
        if n_items == 0 or starts[(np.uint64(keys[0]) >> shift) & mask] == n_items:
            continue
        total = 0
        for bucket in range(n_buckets):
            count = starts[bucket]
            starts[bucket] = total
            total += count
        for i in range(n_items):
            digit = (np.uint64(keys[i]) >> shift) & mask
            place = starts[digit]
            starts[digit] = place + 1
            spare_keys[place] = keys[i]
            spare_order[place] = order[i]
        keys, spare_keys = spare_keys, keys
        order, spare_order = spare_order, order
    return keys, order


@kernel()
def fill_tie_blocks(
    keys: Ints, order: Ints, relevant: Bools, separate: bool, sizes: Ints, hits: Ints
) -> int:
    """Cut a ranking into blocks of equal keys; count items and hits in each.

    Parameters
    ----------
    keys, order : (n_items,)
        As `argsort_keys` returns them.
    relevant : (n_items,) bool
        In database order.
    separate : bool
        Make every item a block of its own: the order of `order` is to be kept.
    sizes, hits : (n_items,) int32
        Filled.

    Returns
    -------
    int
        How many blocks were filled.
    """
    n_blocks = 0
    start = 0
    while start < keys.size:
        end = start
        hits[n_blocks] = 0
        while end < keys.size and (end == start or (not separate and keys[end] == keys[start])):
            hits[n_blocks] += relevant[order[end]]
            end += 1
        sizes[n_blocks] = end - start
        n_blocks += 1
        start = end
    return n_blocks


@kernel()
def average_precision(
    sizes: Ints, hits: Ints, n_relevant: int, cutoff: int, denominator: int
) -> float:
    """Return the expected average precision over all orders within the blocks.

    Parameters
    ----------
    sizes, hits : (n_blocks,) int32
        Items and relevant items of each tie block, best block first.
    n_relevant : int
        Relevant items in the database; 0 gives NaN.
    cutoff : int
        How many of the first places count.
    denominator : int
        One of the ``DIVIDE_BY`` constants.
    """
    if n_relevant == 0:
        return np.nan
    n_ranked = 0
    n_hits = 0
    total = 0.0
    for block in range(sizes.size):
        size = int(sizes[block])
        hit = int(hits[block])
        places = min(size, cutoff - n_ranked)
        if places < size and denominator == DIVIDE_BY_HITS:
            return float(_expected_ratio(total, n_ranked, n_hits, size, hit, places))
        if hit > 0:
            total += _precision_sum(n_ranked, n_hits, size, hit, places)
        n_ranked += places
        n_hits += hit
        if n_ranked == cutoff:
            break
    if denominator == DIVIDE_BY_HITS:
        return total / n_hits if n_hits > 0 else 0.0
    if denominator == DIVIDE_BY_CUTOFF:
        return total / min(cutoff, n_relevant)
    return total / n_relevant


@kernel()
def _precision_sum(n_ranked: int, n_hits: int, size: int, hit: int, places: int) -> float:
    """Return the expected sum of the precisions at the hits in a block's first places.

    A place holds a hit with probability hit / size; given that, each of the i places of the
    block before it does with probability (hit - 1) / (size - 1).
    """
    step = (hit - 1) / (size - 1) if size > 1 else 0.0
    total = 0.0
    for i in range(places):
        total += (n_hits + 1 + i * step) / (n_ranked + i + 1)
    return total * hit / size


@kernel()
def _expected_ratio(
    total: float, n_ranked: int, n_hits: int, size: int, hit: int, places: int
) -> float:
    """Return the expected AP where the cut-off splits a block and AP divides by hits above it.

    The number h of the block's hits in its first places is hypergeometric. Given h, those
    places are a block of their own whose order is uniform, so the sum of precisions has the
    same closed form, and the denominator n_hits + h is fixed.
    """
    first = 0.0
    later = 0.0
    for i in range(places):
        first += (n_hits + 1) / (n_ranked + i + 1)
        later += i / (n_ranked + i + 1)
    if places > 1:
        later /= places - 1
    lowest = max(0, places - (size - hit))
    highest = min(places, hit)
    # Weights are relative to the most likely h, so that none that matters underflows.
    mode = min(max((places + 1) * (hit + 1) // (size + 2), lowest), highest)
    weight_sum = 0.0
    ratio_sum = 0.0
    for direction in (1, -1):
        weight = 1.0
        h = mode
        while lowest <= h <= highest and weight > 0.0:
            if direction == 1 or h != mode:
                weight_sum += weight
                if n_hits + h > 0:
                    gained = h / places * (first + (h - 1) * later)
                    ratio_sum += weight * (total + gained) / (n_hits + h)
            if direction == 1:
                weight *= (hit - h) * (places - h) / ((h + 1) * (size - hit - places + h + 1))
            else:
                weight *= h * (size - hit - places + h) / ((hit - h + 1) * (places - h + 1))
            h += direction
    return ratio_sum / weight_sum


@kernel()
def fill_hits_by_rank(sizes: Ints, hits: Ints, expected: Floats) -> None:
    """Fill the expected number of hits in the first 1, 2, ... places.

    `sizes`, `hits`: (n_blocks,) int32. `expected`: (n_ranks,) float64; filled; ranks past the last
    block keep its count.
    """
    place = 0
    n_hits = 0
    for block in range(sizes.size):
        size = sizes[block]
        for i in range(1, size + 1):
            if place == expected.size:
                return
            expected[place] = n_hits + hits[block] * i / size
            place += 1
        n_hits += hits[block]
    expected[place:] = n_hits

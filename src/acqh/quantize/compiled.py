"""Compiled code search, distances and sums; `tests/quantize` holds the NumPy twins.

With ``linear[s, j]`` the cost of word j of codebook s for an item on its own, and
``pairs[s, j, t, k]`` twice the inner product of two words, a code costs

    sum_s linear[s, a_s]  +  sum_{s < t} pairs[s, a_s, t, a_t].

So one more word costs one row of `pairs` for each word chosen before: additions, no products.

Costs are compared as the integers that their bits make, since compilers turn minima of integers
into vector instructions, but not minima of floats. `_ordered` makes bits order as their floats
do, and undoes it.

Sums of rows by word and of words by row are added in order, in float64, so that results are those
of the twins to the bit.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from acqh._core.arrays import Floats, Ints
from acqh._core.runtime import kernel

# Distances of this many points at a time stay in the nearest cache.
_DISTANCE_BLOCK = 1024


class Work(NamedTuple):
    """Memory that kernels work in."""

    costs: Floats  # (n_rows, codebook_size)
    keys: Ints  # the same memory, seen as integers
    top: Any  # the largest of these: it lies above every cost, and marks a word as taken
    sign: Any  # the place of their sign bit


def make_work(n_rows: int, n_words: int, dtype: DTypeLike) -> Work:
    """Return memory to work in, in the precision of a search."""
    costs: Floats = np.empty((n_rows, n_words), dtype=dtype)
    key = np.dtype(f"i{costs.itemsize}").type
    return Work(costs, costs.view(key), key(np.iinfo(key).max), key(8 * costs.itemsize - 1))


@kernel()
def search(
    targets: Floats,
    products: Floats,
    norms: Floats,
    pairs: Floats,
    codes: Ints,
    beam_width: int,
    max_sweeps: int,
    work: Work,
) -> None:
    """Search a code for each item: by beam, then word by word from where that led.

    Parameters
    ----------
    targets : (n_items, n_components)
    products : (n_components, n_codebooks * codebook_size)
        Words times minus two, components first.
    norms : (n_codebooks * codebook_size,)
        Squared norms of the words.
    pairs : (n_codebooks, codebook_size, n_codebooks, codebook_size)
    codes : (n_items, n_codebooks) uint8
        Overwritten; the start of the search word by word if `beam_width` is 0.
    beam_width : int
        Codes kept from codebook to codebook; 1 is greedy, 0 is no beam search.
    max_sweeps : int
        Most rounds over the codebooks word by word; 0 is none.
    work : Work
        Of max(beam_width, 1) rows.
    """
    n_codebooks, n_words = pairs.shape[:2]
    flat = np.empty(len(norms), dtype=norms.dtype)
    linear = flat.reshape(n_codebooks, n_words)
    n_beams = len(work.costs)
    beams: Ints = np.zeros((n_beams, n_codebooks), dtype=np.int64)
    grown: Ints = np.zeros((n_beams, n_codebooks), dtype=np.int64)
    beam_costs = np.empty(n_beams, dtype=work.costs.dtype)
    lows = np.empty(n_beams, dtype=work.keys.dtype)
    for i in range(len(targets)):
        _fill_linear(targets, i, products, norms, flat)
        if beam_width > 0:
            live = 1
            beam_costs[0] = 0
            for s in range(n_codebooks):
                # Of the last codebook only the best word is wanted.
                kept = 1 if s == n_codebooks - 1 else beam_width
                live = _extend(
                    linear, pairs, s, s, live, kept, beams, grown, beam_costs, lows, work
                )
                beams, grown = grown, beams
            for s in range(n_codebooks):
                codes[i, s] = beams[0, s]
        if max_sweeps > 0:
            _conditional_modes(linear, pairs, codes, i, max_sweeps, work)


@kernel()
def extend_beams(
    targets: Floats,
    products: Floats,
    norms: Floats,
    pairs: Floats,
    kept: Ints,
    kept_costs: Floats,
    longer: Ints,
    longer_costs: Floats,
    work: Work,
) -> None:
    """Add a word of one more codebook to the best codes of each item, and keep the best of these.

    Parameters
    ----------
    targets : (n_items, n_components)
    products : (n_components, codebook_size)
    norms : (codebook_size,)
        As in `search`, of the codebook added.
    pairs : (n_before, codebook_size, 1, codebook_size)
        Of words before with those of the codebook added.
    kept : (n_items, n_kept, n_before) uint8
    kept_costs : (n_items, n_kept)
    longer : (n_items, n_longer, n_before + 1) uint8
        Overwritten with the best codes, best first; there must be as many.
    longer_costs : (n_items, n_longer)
        Overwritten.
    work : Work
        Of a row for each code kept.
    """
    n_kept, n_before = kept.shape[1:]
    n_longer = longer.shape[1]
    n_beams = max(n_kept, n_longer)
    flat = np.empty(len(norms), dtype=norms.dtype)
    linear = flat.reshape(1, len(norms))
    beams = np.zeros((n_beams, n_before + 1), dtype=np.int64)
    grown = np.zeros((n_beams, n_before + 1), dtype=np.int64)
    beam_costs = np.empty(n_beams, dtype=work.costs.dtype)
    lows = np.empty(n_beams, dtype=work.keys.dtype)
    for i in range(len(targets)):
        _fill_linear(targets, i, products, norms, flat)
        for b in range(n_kept):
            beam_costs[b] = kept_costs[i, b]
            for t in range(n_before):
                beams[b, t] = kept[i, b, t]
        _extend(linear, pairs, n_before, 0, n_kept, n_longer, beams, grown, beam_costs, lows, work)
        for b in range(n_longer):
            longer_costs[i, b] = beam_costs[b]
            for t in range(n_before + 1):
                longer[i, b, t] = grown[b, t]


@kernel()
def _fill_linear(
    targets: Floats, item: int, products: Floats, norms: Floats, linear: Floats
) -> None:
    n_components, n_words = products.shape
    for j in range(n_words):
        linear[j] = norms[j]
    # Four components at a time: a quarter of the traffic to `linear`.
    whole = n_components - n_components % 4
    for k in range(0, whole, 4):
        a, b = targets[item, k], targets[item, k + 1]
        c, d = targets[item, k + 2], targets[item, k + 3]
        for j in range(n_words):
            linear[j] += (
                a * products[k, j]
                + b * products[k + 1, j]
                + c * products[k + 2, j]
                + d * products[k + 3, j]
            )
    for k in range(whole, n_components):
        a = targets[item, k]
        for j in range(n_words):
            linear[j] += a * products[k, j]


@kernel()
def _extend(
    linear: Floats,
    pairs: Floats,
    length: int,
    column: int,
    live: int,
    wanted: int,
    beams: Ints,
    grown: Ints,
    beam_costs: Floats,
    lows: Ints,
    work: Work,
) -> int:
    """Write beams longer by a word, best first; ties go to beam, then to word.

    `length` words are there, of `live` beams; `column` is the place of the new codebook in
    `linear` and `pairs`. Returns how many beams there are, `wanted` at most.
    """
    costs, keys, top, sign = work
    n_words: int = linear.shape[1]
    for b in range(live):
        base = beam_costs[b]
        for j in range(n_words):
            costs[b, j] = linear[column, j] + base
        for t in range(length):
            word = beams[b, t]
            for j in range(n_words):
                costs[b, j] += pairs[t, word, column, j]
        lows[b] = _order_row(work, b)
    kept = min(wanted, live * n_words)
    for rank in range(kept):
        b = 0
        for other in range(1, live):
            if lows[other] < lows[b]:
                b = other
        j = _position(keys, b, lows[b])
        for t in range(length):
            grown[rank, t] = beams[b, t]
        grown[rank, length] = j
        keys[b, j] = _ordered(keys[b, j], top, sign)
        beam_costs[rank] = costs[b, j]
        keys[b, j] = top
        lows[b] = _lowest(work, b)
    return kept


@kernel()
def _conditional_modes(
    linear: Floats,
    pairs: Floats,
    codes: Ints,
    item: int,
    max_sweeps: int,
    work: Work,
) -> None:
    """Give each codebook in turn its best word, the others held, until none changes."""
    costs, keys = work.costs, work.keys
    n_codebooks, n_words = linear.shape
    unchanged = 0
    step = 0
    while unchanged < n_codebooks and step < max_sweeps * n_codebooks:
        s = step % n_codebooks
        for j in range(n_words):
            costs[0, j] = linear[s, j]
        for t in range(n_codebooks):
            if t != s:
                word = codes[item, t]
                for j in range(n_words):
                    costs[0, j] += pairs[t, word, s, j]
        low = _order_row(work, 0)
        if low < keys[0, codes[item, s]]:
            codes[item, s] = _position(keys, 0, low)
            unchanged = 0
        unchanged += 1
        step += 1


@kernel()
def _ordered(bits: int, top: int, sign: int) -> int:
    """Map the bits of a float to an integer of the same order, or back."""
    return bits ^ ((bits >> sign) & top)


@kernel()
def _order_row(work: Work, row: int) -> Any:
    """Turn a row of costs into ordered keys; return the lowest."""
    _, keys, top, sign = work
    low = top
    for j in range(keys.shape[1]):
        key = _ordered(keys[row, j], top, sign)
        keys[row, j] = key
        low = min(low, key)
    return low


@kernel()
def _lowest(work: Work, row: int) -> Any:
    low = work.top
    for j in range(work.keys.shape[1]):
        low = min(low, work.keys[row, j])
    return low


@kernel()
def _position(keys: Ints, row: int, key: int) -> int:
    """Return the first place of a key; a minimum of places, so that it too is vectorised."""
    n_words: int = keys.shape[1]
    first = n_words
    for j in range(n_words):
        first = min(first, j if keys[row, j] == key else n_words)
    return first


@kernel()
def nearest(norms: Floats, work: Work, codes: Ints) -> None:
    """Write the nearest word of each point, the first of those equally near.

    `norms`: (n_words,). `work`: a row for each point, with its products with the words times minus
    two. `codes`: (n_points,).
    """
    for i in range(len(codes)):
        for j in range(len(norms)):
            work.costs[i, j] += norms[j]
        codes[i] = _position(work.keys, i, _order_row(work, i))


@kernel()
def seed(columns: Floats, weights: Floats, draws: Floats, chosen: Ints) -> int:
    """Choose points to start k-means from, the best of several draws each (greedy k-means++).

    Parameters
    ----------
    columns : (n_components, n_items)
        The points, components first, so that inner loops run along memory.
    weights : (n_items,)
    draws : (n_words, n_trials)
        Uniform in [0, 1). A draw falls on a point with probability proportional to its weight
        times its squared distance from the points chosen before.
    chosen : (n_words,)
        Overwritten with the points of the draws that leave the lowest error.

    Returns
    -------
    int
        How many were chosen before no error was left.
    """
    n_words, n_trials = draws.shape
    n_items = len(weights)
    closest = np.full(n_items, np.inf, dtype=columns.dtype)
    tried = np.empty(n_items, dtype=columns.dtype)
    best = np.empty(n_items, dtype=columns.dtype)
    mass = np.cumsum(weights)
    for word in range(n_words):
        if not mass[-1] > 0:
            return word
        lowest = np.inf
        for trial in range(n_trials):
            place = np.searchsorted(mass, draws[word, trial] * mass[-1], side="right")
            point = min(place, n_items - 1)  # rounding could reach the end
            error = _shrink(columns, point, weights, closest, tried)
            if error < lowest:
                lowest = error
                chosen[word] = point
                best, tried = tried, best
        closest, best = best, closest
        mass = np.cumsum(weights * closest)
    return len(chosen)


@kernel()
def _shrink(
    columns: Floats, centre: int, weights: Floats, closest: Floats, shrunk: Floats
) -> float:
    """Write squared distances with one more centre; return their weighted sum."""
    n_components, n_items = columns.shape
    error = 0.0
    for start in range(0, n_items, _DISTANCE_BLOCK):
        # Loops over whole slices are vectorised; loops from start to stop are not.
        rows = slice(start, min(start + _DISTANCE_BLOCK, n_items))
        block, nearest, weight = shrunk[rows], closest[rows], weights[rows]
        block[:] = 0.0
        for k in range(n_components):
            column = columns[k, rows]
            value = columns[k, centre]
            for i in range(len(block)):
                difference = column[i] - value
                block[i] += difference * difference
        for i in range(len(block)):
            block[i] = min(block[i], nearest[i])
            error += weight[i] * block[i]
    return error


@kernel()
def sum_rows(rows: Floats, weights: Floats, codes: Ints, sums: Floats) -> None:
    """Write the weighted sum of the rows that use each word, from the first row to the last.

    Parameters
    ----------
    rows : (n_items, n_components)
    weights : (n_items,) float64
    codes : (n_items, n_codebooks)
        Of words that there are.
    sums : (n_codebooks, codebook_size, n_components) float64
    """
    n_items, n_codebooks = codes.shape
    sums[:] = 0.0
    for i in range(n_items):
        row, weight = rows[i], weights[i]
        for s in range(n_codebooks):
            total = sums[s, codes[i, s]]
            for k in range(len(row)):
                total[k] += row[k] * weight


@kernel()
def leave_over(
    targets: Floats, items: Ints, codes: Ints, codebooks: Floats, points: Floats
) -> None:
    """Write what codes leave over of their items.

    Parameters
    ----------
    targets : (n_items, n_components) float64
    items : (n_points,)
        Whose code it is.
    codes : (n_points, n_codebooks)
        Of words that there are; at least one codebook.
    codebooks : (n_codebooks, codebook_size, n_components) float64
    points : (n_points, n_components)
    """
    n_points, n_codebooks = codes.shape
    vector = codebooks[0, 0].copy()
    for i in range(n_points):
        vector[:] = codebooks[0, codes[i, 0]]
        for s in range(1, n_codebooks):
            word = codebooks[s, codes[i, s]]
            for k in range(len(vector)):
                vector[k] += word[k]
        target, point = targets[items[i]], points[i]
        for k in range(len(vector)):
            point[k] = target[k] - vector[k]


@kernel()
def normal_product(codes: Ints, weights: Floats, words: Floats, product: Floats) -> None:
    """Write ``A^T W A`` times words, with A the 0/1 matrix of chosen words.

    `codes`: (n_items, n_codebooks). `weights`: (n_items,). `words`, `product`: (n_codebooks,
    codebook_size, n_components).
    """
    n_items, n_codebooks = codes.shape
    n_components = words.shape[2]
    vector = np.empty(n_components)
    product[:] = 0.0
    for i in range(n_items):
        vector[:] = 0.0
        for s in range(n_codebooks):
            word = words[s, codes[i, s]]
            for k in range(n_components):
                vector[k] += word[k]
        weight = weights[i]
        for k in range(n_components):
            vector[k] *= weight
        for s in range(n_codebooks):
            total = product[s, codes[i, s]]
            for k in range(n_components):
                total[k] += vector[k]

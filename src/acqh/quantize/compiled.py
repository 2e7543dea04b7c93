"""Compiled code search, distances and sums; `plain` does the same in NumPy, to the bit.

With ``linear[s, j]`` the cost of codeword j of codebook s for an item on its own, and
``pairs[s, j, t, k]`` twice the inner product of two codewords, a code costs

    sum_s linear[s, a_s]  +  sum_{s < t} pairs[s, a_s, t, a_t].

So one more codeword costs one row of `pairs` for each codeword chosen before: additions, no
products.

Costs are compared as the integers that their bits make, since compilers turn minima of integers
into vector instructions, but not minima of floats. `_ordered` makes bits order as their floats
do, and undoes it.

All sums are added in order. Arrays are copied by loops: the error that numba compiles for slices of
unequal lengths takes longer than all of the rest.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from acqh._core.arrays import Floats, Ints
from acqh._core.runtime import kernel

# Distances of this many points at a time stay in the nearest cache.
_DISTANCE_BLOCK = 1024


class Work(NamedTuple):
    """Memory that loops over codewords work in."""

    costs: Floats  # (n_rows, codebook_size)
    keys: Ints  # the same memory, seen as integers
    lows: Ints  # (n_rows,): the lowest key of each row
    top: Any  # the largest key: above every cost, it marks a codeword as taken
    sign: Any  # the place of the sign bit of a key


def _make_work(n_rows: int, n_words: int, dtype: DTypeLike) -> Work:
    """Return memory to work in, in the precision of a search."""
    return _work_in(np.empty((n_rows, n_words), dtype=dtype))


def _work_in(costs: Floats) -> Work:
    key: Any
    key, sign = (np.int32, 31) if costs.itemsize == 4 else (np.int64, 63)
    lows = np.empty(len(costs), dtype=key)
    return Work(costs, costs.view(key), lows, key(2**sign - 1), key(sign))


@kernel()
def fill_linear(targets: Floats, products: Floats, norms: Floats, linear: Floats) -> None:
    """Write what every codeword costs each item on its own.

    Parameters
    ----------
    targets : (n_items, n_components)
    products : (n_components, n_words)
        Codewords times minus two, components first.
    norms : (n_words,)
        Squared norms of the codewords.
    linear : (n_items, n_words)
        Overwritten.
    """
    n_components, n_words = products.shape
    # Four components at a time: a quarter of the traffic to `linear`.
    n_unrolled = n_components - n_components % 4
    for i in range(len(targets)):
        costs, target = linear[i], targets[i]
        for j in range(n_words):
            costs[j] = norms[j]
        for k in range(0, n_unrolled, 4):
            a, b, c, d = target[k], target[k + 1], target[k + 2], target[k + 3]
            for j in range(n_words):
                costs[j] += (
                    a * products[k, j]
                    + b * products[k + 1, j]
                    + c * products[k + 2, j]
                    + d * products[k + 3, j]
                )
        for k in range(n_unrolled, n_components):
            a = target[k]
            for j in range(n_words):
                costs[j] += a * products[k, j]


def extend(linear: Floats, pairs: Floats, column: int, beams_before: Any, longer: Any) -> None:
    """Extend the best partial codes of each item by one codeword, and keep the best of these.

    Ties go to the better code before, then to the codeword.

    Parameters
    ----------
    linear : (n_items, n_codebooks, codebook_size)
    pairs : (n_before or more, codebook_size, n_codebooks, codebook_size)
    column : int
        The codebook added, in both.
    beams_before : Beams
        Of the codebooks before: (n_items, n_kept, n_before) uint8, and what they cost.
    longer : Beams
        Overwritten with the best codes, best first; there must be as many.
    """
    work = _make_work(beams_before.codes.shape[1], linear.shape[2], linear.dtype)
    tables, beams = (linear, pairs, column), (beams_before.codes, beams_before.costs)
    _extend(tables, beams, longer.codes, longer.costs, work)


@kernel()
def _extend(tables: Any, beams: Any, longer: Ints, longer_costs: Floats, work: Work) -> None:
    linear, pairs, column = tables
    beams_before, costs_before = beams
    costs, keys, lows, top, sign = work
    n_items, n_kept, n_before = beams_before.shape
    n_words: int = linear.shape[2]
    n_longer: int = longer.shape[1]
    for i in range(n_items):
        for b in range(n_kept):
            base = costs_before[i, b]
            for j in range(n_words):
                costs[b, j] = linear[i, column, j] + base
            # Two codewords at a time: half of the traffic to `costs`.
            for t in range(0, n_before - 1, 2):
                codeword, other = beams_before[i, b, t], beams_before[i, b, t + 1]
                for j in range(n_words):
                    cost = costs[b, j] + pairs[t, codeword, column, j]
                    costs[b, j] = cost + pairs[t + 1, other, column, j]
            if n_before % 2:
                t = n_before - 1
                codeword = beams_before[i, b, t]
                for j in range(n_words):
                    costs[b, j] += pairs[t, codeword, column, j]
            lows[b] = _order_row(work, b)
        for rank in range(n_longer):
            best: Any = np.int64(0)  # not a literal, for which helpers would be compiled again
            for other in range(1, n_kept):
                if lows[other] < lows[best]:
                    best = other
            j = _position(keys, best, lows[best])
            for t in range(n_before):
                longer[i, rank, t] = beams_before[i, best, t]
            longer[i, rank, n_before] = j
            keys[best, j] = _ordered(keys[best, j], top, sign)
            longer_costs[i, rank] = costs[best, j]
            if rank == n_longer - 1:
                break
            keys[best, j] = top
            low = top
            for j in range(n_words):
                low = min(low, keys[best, j])
            lows[best] = low


def improve(linear: Floats, pairs: Floats, codes: Ints, max_sweeps: int) -> None:
    """Give each codebook in turn its best codeword, the others held, until none changes.

    `linear`, `pairs`: as in `extend`. `codes`: (n_items, n_codebooks) uint8; where to start from,
    overwritten. `max_sweeps`: most rounds over the codebooks.
    """
    _improve(linear, pairs, codes, max_sweeps, _make_work(1, linear.shape[2], linear.dtype))


@kernel()
def _improve(linear: Floats, pairs: Floats, codes: Ints, max_sweeps: int, work: Work) -> None:
    costs, keys = work.costs, work.keys
    n_items, n_codebooks, n_words = linear.shape
    row: Any = np.int64(0)  # not a literal, for which helpers would be compiled again
    for i in range(n_items):
        unchanged = 0
        step = 0
        while unchanged < n_codebooks and step < max_sweeps * n_codebooks:
            s = step % n_codebooks
            for j in range(n_words):
                costs[row, j] = linear[i, s, j]
            for t in range(n_codebooks):
                if t != s:
                    codeword = codes[i, t]
                    for j in range(n_words):
                        costs[row, j] += pairs[t, codeword, s, j]
            low = _order_row(work, row)
            if low < keys[row, codes[i, s]]:
                codes[i, s] = _position(keys, row, low)
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
    keys, top, sign = work.keys, work.top, work.sign
    low = top
    for j in range(keys.shape[1]):
        keys[row, j] = _ordered(keys[row, j], top, sign)
        low = min(low, keys[row, j])
    return low


@kernel()
def _position(keys: Ints, row: int, key: int) -> int:
    """Return the first place of a key; a minimum of places, so that it too is vectorised."""
    n_words: int = keys.shape[1]
    first = n_words
    for j in range(n_words):
        first = min(first, j if keys[row, j] == key else n_words)
    return first


def nearest(costs: Floats, norms: Floats, codes: Ints) -> None:
    """Write the nearest codeword of each point, the first of those equally near.

    `costs`: (n_points, n_words); products of points and codewords times minus two, overwritten.
    `norms`: (n_words,); squared norms of the codewords. `codes`: (n_points,); overwritten.
    """
    _nearest(_work_in(costs), norms, codes)


@kernel()
def _nearest(work: Work, norms: Floats, codes: Ints) -> None:
    for i in range(len(codes)):
        for j in range(len(norms)):
            work.costs[i, j] += norms[j]
        codes[i] = _position(work.keys, i, _order_row(work, i))


@kernel()
def shrink_distances(
    columns: Floats, centres: Ints, closest: Floats, weights: Floats, shrunk: Floats, errors: Floats
) -> None:
    """Write squared distances from the nearest seed, for each of some candidates as one more seed.

    Parameters
    ----------
    columns : (n_components, n_items)
        The points, components first, so that inner loops run along memory.
    centres : (n_centres,)
        Rows of the candidates.
    closest : (n_items,)
        Squared distances from the seeds so far.
    weights : (n_items,)
    shrunk : (n_centres, n_items)
        Overwritten.
    errors : (n_centres,)
        Overwritten with the weighted sums of the distances.
    """
    n_components, n_items = columns.shape
    for c in range(len(centres)):
        error = 0.0
        for start in range(0, n_items, _DISTANCE_BLOCK):
            # Loops over n_unrolled slices are vectorised; loops from start to stop are not.
            rows = slice(start, min(start + _DISTANCE_BLOCK, n_items))
            block, least, weight = shrunk[c, rows], closest[rows], weights[rows]
            for i in range(len(block)):
                block[i] = 0
            for k in range(n_components):
                column = columns[k, rows]
                value = columns[k, centres[c]]
                for i in range(len(block)):
                    difference = column[i] - value
                    block[i] += difference * difference
            for i in range(len(block)):
                block[i] = min(block[i], least[i])
                error += weight[i] * block[i]
        errors[c] = error


@kernel()
def sum_rows(rows: Floats, weights: Floats, codes: Ints, sums: Floats) -> None:
    """Add the weighted sum of its rows to each codeword, from the first row to the last.

    Parameters
    ----------
    rows : (n_items, n_components)
    weights : (n_items,) float64
    codes : (n_items, n_codebooks)
        Of codewords that there are.
    sums : (n_codebooks, codebook_size, n_components) float64
        Zeros at first.
    """
    n_items, n_codebooks = codes.shape
    for i in range(n_items):
        row, weight = rows[i], weights[i]
        for s in range(n_codebooks):
            total = sums[s, codes[i, s]]
            for k in range(len(row)):
                total[k] += row[k] * weight


@kernel()
def normal_product(codes: Ints, weights: Floats, codewords: Floats, product: Floats) -> None:
    """Add ``A^T W A`` times codewords, with A the 0/1 matrix of chosen codewords.

    `codes`: (n_items, n_codebooks). `weights`: (n_items,). `codewords`, `product`: (n_codebooks,
    codebook_size, n_components); the product is zero at first.
    """
    n_items, n_codebooks = codes.shape
    n_components = codewords.shape[2]
    vector = np.empty(n_components)
    for i in range(n_items):
        for k in range(n_components):
            vector[k] = 0
        for s in range(n_codebooks):
            codeword = codewords[s, codes[i, s]]
            for k in range(n_components):
                vector[k] += codeword[k]
        weight = weights[i]
        for k in range(n_components):
            vector[k] *= weight
        for s in range(n_codebooks):
            total = product[s, codes[i, s]]
            for k in range(n_components):
                total[k] += vector[k]

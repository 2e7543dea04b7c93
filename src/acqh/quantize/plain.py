"""The loops of `compiled` in NumPy, to the bit, for data so small that compiling takes longer."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Floats, Ints, slices

# Distances of this many points at a time stay in a near cache.
_DISTANCE_BLOCK = 1024


def fill_linear(targets: Floats, products: Floats, norms: Floats, linear: Floats) -> None:
    """Write what every codeword costs each item on its own; see `compiled.fill_linear`."""
    linear[:] = norms
    n_components = len(products)
    n_unrolled = n_components - n_components % 4
    for group in slices(n_unrolled, 4):
        total, *rest = (
            target[:, np.newaxis] * product
            for target, product in zip(targets.T[group], products[group], strict=True)
        )
        for product in rest:
            total += product
        linear += total
    for k in range(n_unrolled, n_components):
        linear += targets[:, k, np.newaxis] * products[k]


def extend(linear: Floats, pairs: Floats, column: int, beams_before: Any, longer: Any) -> None:
    """Add a codeword of one more codebook to the best codes of each item; see `compiled.extend`."""
    (n_items, n_kept, n_before), n_words = beams_before.codes.shape, linear.shape[2]
    n_longer = longer.codes.shape[1]
    costs = linear[:, np.newaxis, column] + beams_before.costs[:, :, np.newaxis]
    for t in range(n_before):
        costs += pairs[t, :, column][beams_before.codes[:, :, t]]
    flat = costs.reshape(n_items, n_kept * n_words)
    if n_longer == 1:
        places = flat.argmin(axis=1)[:, np.newaxis]
    else:
        # The first of all candidates that cost at most the bound.
        least = costs.min(axis=1) if n_longer <= n_words else flat
        bound = np.partition(least, n_longer - 1, axis=1)[:, n_longer - 1]
        bound = np.where(np.isnan(bound), np.inf, bound)[:, np.newaxis]
        rows, candidates = np.nonzero(~(flat > bound))
        order = np.lexsort((flat[rows, candidates], rows))
        firsts = np.searchsorted(rows, np.arange(n_items))
        places = candidates[order[firsts[:, np.newaxis] + np.arange(n_longer)]]
    beams = (places // n_words)[:, :, np.newaxis]
    longer.codes[:, :, :n_before] = np.take_along_axis(beams_before.codes, beams, axis=1)
    longer.codes[:, :, n_before] = places % n_words
    longer.costs[:] = np.take_along_axis(flat, places, axis=1)


def improve(linear: Floats, pairs: Floats, codes: Ints, max_sweeps: int) -> None:
    """Give each codebook in turn its best codeword, the others held; see `compiled.improve`."""
    n_items, n_codebooks, _ = linear.shape
    unchanged, moving = np.zeros(n_items, dtype=np.int64), np.arange(n_items)
    for step in range(max_sweeps * n_codebooks):
        s = step % n_codebooks
        costs = linear[moving, s]
        for t in range(n_codebooks):
            if t != s:
                costs += pairs[t, :, s][codes[moving, t]]
        codewords, rows = costs.argmin(axis=1), np.arange(len(moving))
        better = costs[rows, codewords] < costs[rows, codes[moving, s]]
        codes[moving[better], s] = codewords[better]
        unchanged[moving] += 1
        unchanged[moving[better]] = 1
        moving = moving[unchanged[moving] < n_codebooks]
        if not moving.size:
            return


def nearest(costs: Floats, norms: Floats, codes: Ints) -> None:
    """Write the nearest codeword of each point; see `compiled.nearest`."""
    costs += norms
    codes[:] = costs.argmin(axis=1)


def shrink_distances(
    columns: Floats, centres: Ints, closest: Floats, weights: Floats, shrunk: Floats, errors: Floats
) -> None:
    """Write squared distances from the points chosen; see `compiled.shrink_distances`."""
    for rows in slices(columns.shape[1], _DISTANCE_BLOCK):
        differences = columns[:, np.newaxis, rows] - columns[:, centres, np.newaxis]
        differences *= differences
        np.add.reduce(differences, axis=0, out=shrunk[:, rows])
    np.minimum(shrunk, closest, out=shrunk)
    errors[:] = np.cumsum(weights * shrunk, axis=1)[:, -1]


def sum_rows(rows: Floats, weights: Floats, codes: Ints, sums: Floats) -> None:
    """Add to each codeword the weighted sum of the rows that use it; see `compiled.sum_rows`."""
    chosen = _chosen_words(codes, sums.shape[1])
    sums += (chosen.T @ (rows * weights[:, np.newaxis])).reshape(sums.shape)


def normal_product(codes: Ints, weights: Floats, codewords: Floats, product: Floats) -> None:
    """Add ``A^T W A`` times codewords; A: chosen codewords. See `compiled.normal_product`."""
    chosen = _chosen_words(codes, codewords.shape[1])
    vectors = chosen @ codewords.reshape(-1, codewords.shape[2])
    product += (chosen.T @ (vectors * weights[:, np.newaxis])).reshape(codewords.shape)


def _chosen_words(codes: Ints, n_words: int) -> sp.csr_array:
    """Return the 0/1 matrix of the codewords that codes choose."""
    n_items, n_codebooks = codes.shape
    columns = codes + np.arange(0, n_codebooks * n_words, n_words, dtype=np.int32)
    starts = np.arange(0, codes.size + 1, n_codebooks, dtype=np.int32)
    shape = n_items, n_codebooks * n_words
    return sp.csr_array((np.ones(codes.size), columns.ravel(), starts), shape=shape)

"""Compiled sums of rows by word and of words by row; `tests/quantize` holds the NumPy twins.

Every sum is added in order, in float64, so that results are those of the twins to the bit.
"""

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh._core.runtime import kernel


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

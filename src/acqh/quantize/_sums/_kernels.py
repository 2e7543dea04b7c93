"""Compiled sums of rows by word and of words by row; `tests/quantize` holds the NumPy twins.

Every sum is added in order, in float64, so that results are those of the twins to the bit.
"""

from acqh._core.arrays import Floats, Ints
from acqh._core.kernels import kernel


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
def subtract_words(rows: Floats, codes: Ints, codebooks: Floats) -> None:
    """Take what its code stands for off each row.

    Parameters
    ----------
    rows : (n_items, n_components) float64
    codes : (n_items, n_codebooks)
        Of words that there are; at least one codebook.
    codebooks : (n_codebooks, codebook_size, n_components) float64
    """
    n_items, n_codebooks = codes.shape
    vector = codebooks[0, 0].copy()
    for i in range(n_items):
        vector[:] = codebooks[0, codes[i, 0]]
        for s in range(1, n_codebooks):
            word = codebooks[s, codes[i, s]]
            for k in range(len(vector)):
                vector[k] += word[k]
        row = rows[i]
        for k in range(len(vector)):
            row[k] -= vector[k]

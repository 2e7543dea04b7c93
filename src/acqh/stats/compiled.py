"""Compiled sums over the rows of a block; `plain` does the same in NumPy."""

import numpy as np

from acqh._core.arrays import Array, Floats, Ints
from acqh._core.runtime import kernel


@kernel()
def add_rows_by_set(block: Array, sets: Ints, sums: Floats) -> None:
    """Add row i of a dense block to ``sums[sets[i]]``, in float64."""
    for i in range(block.shape[0]):
        row = sets[i]
        for j in range(block.shape[1]):
            sums[row, j] += block[i, j]


@kernel()
def add_sparse_rows_by_set(
    indptr: Ints, indices: Ints, data: Array, sets: Ints, sums: Floats
) -> None:
    """Add row i of a CSR block to ``sums[sets[i]]``, in float64."""
    for i in range(len(indptr) - 1):
        row = sets[i]
        for k in range(indptr[i], indptr[i + 1]):
            sums[row, indices[k]] += data[k]


@kernel()
def add_sparse_gram(indptr: Ints, indices: Ints, data: Array, upper: Floats) -> None:
    """Add ``X^T X`` of a CSR block to the upper triangle, touching only stored entries."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            column = indices[k]
            # In numba, float() of a single-precision number stays one.
            value = np.float64(data[k])
            for other in range(indptr[i], indptr[i + 1]):
                if indices[other] >= column:
                    upper[column, indices[other]] += value * np.float64(data[other])


@kernel()
def add_mixed_product(
    indptr: Ints, indices: Ints, data: Array, block: Array, product: Floats
) -> None:
    """Add ``X^T Y`` of a CSR block and a dense one to a product in float64."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            column = indices[k]
            value = np.float64(data[k])
            for j in range(block.shape[1]):
                product[column, j] += value * np.float64(block[i, j])


@kernel(inline="always")
def _mix(word: np.uint64) -> np.uint64:
    """Spread the bits of a 64-bit word over all of it."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel()
def add_row_hashes(block: Array, salts: Ints, hashes: Ints) -> None:
    """Add to ``hashes[i]`` a number that depends on every value of row i, and on its column.

    Zeros count for nothing, so that a sparse row has the number of the same row made dense.
    """
    row = np.empty(block.shape[1])
    words = row.view(np.uint64)
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            row[j] = block[i, j]
        total = hashes[i]
        for j in range(block.shape[1]):
            word = words[j]
            if word << np.uint64(1) != np.uint64(0):
                total += _mix(word ^ salts[j])
        hashes[i] = total


@kernel()
def add_sparse_row_hashes(
    indptr: Ints, indices: Ints, words: Ints, salts: Ints, hashes: Ints
) -> None:
    """Add to ``hashes[i]`` what `add_row_hashes` adds, for the rows of a CSR block."""
    for i in range(len(indptr) - 1):
        total = hashes[i]
        for k in range(indptr[i], indptr[i + 1]):
            word = words[k]
            if word << np.uint64(1) != np.uint64(0):
                total += _mix(word ^ salts[indices[k]])
        hashes[i] = total

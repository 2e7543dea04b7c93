"""Compiled sums over the rows of a block; `tests/stats` holds their NumPy twins."""

from numba import njit

from acqh._core.arrays import Array, Floats, Ints


@njit(cache=True, nogil=True)
def add_rows_by_set(block: Array, sets: Ints, sums: Floats) -> None:
    """Add row i of a dense block to ``sums[sets[i]]``, in float64."""
    for i in range(block.shape[0]):
        row = sets[i]
        for j in range(block.shape[1]):
            sums[row, j] += block[i, j]


@njit(cache=True, nogil=True)
def add_sparse_rows_by_set(
    indptr: Ints, indices: Ints, data: Array, sets: Ints, sums: Floats
) -> None:
    """Add row i of a CSR block to ``sums[sets[i]]``, in float64."""
    for i in range(len(indptr) - 1):
        row = sets[i]
        for k in range(indptr[i], indptr[i + 1]):
            sums[row, indices[k]] += data[k]


@njit(cache=True, nogil=True)
def add_sparse_gram(indptr: Ints, indices: Ints, data: Array, upper: Floats) -> None:
    """Add ``X^T X`` of a CSR block to the upper triangle, touching only stored entries."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            column = indices[k]
            value = float(data[k])
            for other in range(indptr[i], indptr[i + 1]):
                if indices[other] >= column:
                    upper[column, indices[other]] += value * float(data[other])

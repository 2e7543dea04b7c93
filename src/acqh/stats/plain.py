"""The loops of `compiled` in NumPy, for rows so few that they would wait for it.

Sums are added in the same order, so that they are the same to the bit; but products of sparse rows
with others are made apart and then added.
"""

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Floats, Ints


def add_rows_by_set(block: Array, sets: Ints, sums: Floats) -> None:
    """Add row i of a dense block to ``sums[sets[i]]``, in float64."""
    places = sets[:, np.newaxis] * sums.shape[1] + np.arange(sums.shape[1])
    np.add.at(sums.reshape(-1), places.ravel(), np.asarray(block, dtype=np.float64).ravel())


def add_sparse_rows_by_set(
    indptr: Ints, indices: Ints, data: Array, sets: Ints, sums: Floats
) -> None:
    """Add row i of a CSR block to ``sums[sets[i]]``, in float64."""
    places = np.repeat(sets, np.diff(indptr)) * sums.shape[1] + indices
    np.add.at(sums.reshape(-1), places, data.astype(np.float64, copy=False))


def add_sparse_gram(indptr: Ints, indices: Ints, data: Array, upper: Floats) -> None:
    """Add ``X^T X`` of a CSR block to the upper triangle."""
    rows = _csr(indptr, indices, data, len(upper))
    upper += sp.triu(rows.T @ rows).toarray()


def add_mixed_product(
    indptr: Ints, indices: Ints, data: Array, block: Array, product: Floats
) -> None:
    """Add ``X^T Y`` of a CSR block and a dense one to a product in float64."""
    rows = slice(indptr[0], indptr[-1])
    sparse = _csr(indptr - indptr[0], indices[rows], data[rows], len(product))
    product += sparse.T @ block.astype(np.float64, copy=False)


def _csr(indptr: Ints, indices: Ints, data: Array, n_columns: int) -> sp.csr_array:
    shape = len(indptr) - 1, n_columns
    return sp.csr_array((data.astype(np.float64, copy=False), indices, indptr), shape=shape)


def add_row_hashes(block: Array, salts: Ints, hashes: Ints) -> None:
    """Add to ``hashes[i]`` a number that depends on every value of row i; see `compiled`."""
    words = np.ascontiguousarray(block, dtype=np.float64).view(np.uint64)
    hashes += _mixed(words, salts).sum(axis=1)


def add_sparse_row_hashes(
    indptr: Ints, indices: Ints, words: Ints, salts: Ints, hashes: Ints
) -> None:
    """Add to ``hashes[i]`` what `add_row_hashes` adds, for the rows of a CSR block."""
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(words, salts[indices]))])
    hashes += sums[indptr[1:]] - sums[indptr[:-1]]


def _mixed(words: Ints, salts: Ints) -> Ints:
    return np.where(words << np.uint64(1) != 0, mix(words ^ salts), np.uint64(0))


def mix(words: Ints) -> Ints:
    """Spread the bits of each word over all of it."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))

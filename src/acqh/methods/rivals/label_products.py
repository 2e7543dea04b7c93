"""Similarity of items by their labels, as a factorisation: no N x N matrix is ever made."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh.methods.rivals.rows import dense, squared_norm


@dataclass(frozen=True)
class LabelSimilarity:
    """The symmetric matrix ``S = scale F Fᵀ + shift 1 1ᵀ`` of all items, kept as its parts.

    Examples
    --------
    >>> labels = np.array([[1, 0], [1, 1]])
    >>> LabelSimilarity.signed(labels) @ np.array([[1.0], [0.0]])
    array([[1.        ],
           [0.41421356]])
    """

    # (n_items, n_labels), dense or CSR: F: the labels, or the labels with rows of unit norm.
    factor: Matrix
    scale: float = 1.0
    shift: float = 0.0

    @classmethod
    def cosine(cls, labels: Matrix) -> "LabelSimilarity":
        """Return ``L̂ L̂ᵀ``: the cosine of two items' labels, from 0 to 1."""
        return cls(unit_label_rows(labels))

    @classmethod
    def signed(cls, labels: Matrix) -> "LabelSimilarity":
        """Return ``2 L̂ L̂ᵀ - 1 1ᵀ``: the cosine stretched to -1 to 1."""
        return cls(unit_label_rows(labels), 2.0, -1.0)

    def __matmul__(self, right: Floats) -> Floats:
        """Return ``S right`` in O(n_items n_labels n_columns)."""
        product = self.scale * dense(self.factor @ dense(self.factor.T @ right))
        return product + self.shift * right.sum(axis=0) if self.shift else product

    def squared_norm(self) -> float:
        """Return ``||S||²``."""
        n_items = int(self.factor.shape[0])
        total = self.scale**2 * squared_norm(dense(self.factor.T @ self.factor))
        column_sums = np.asarray(self.factor.sum(axis=0))
        total += 2.0 * self.scale * self.shift * squared_norm(column_sums)
        return total + (self.shift * n_items) ** 2

    def distance_to_product(self, scale: float, left: Floats, right: Floats) -> float:
        """Return ``||scale S - left rightᵀ||²`` for sides of shape (n_items, n_columns)."""
        inner = np.vdot(left, self @ right)
        product = np.vdot(left.T @ left, right.T @ right)
        return scale**2 * self.squared_norm() - 2.0 * scale * float(inner) + float(product)


def unit_label_rows(labels: Matrix) -> Matrix:
    """Return labels as float64 with rows of unit norm; rows of zeros stay zero.

    Examples
    --------
    >>> unit_label_rows(np.array([[1, 1], [0, 0]])).round(3)
    array([[0.707, 0.707],
           [0.   , 0.   ]])
    """
    counts = np.asarray(labels.sum(axis=1), dtype=np.float64).ravel()
    scales = 1.0 / np.sqrt(np.maximum(counts, 1.0))
    if is_sparse(labels):
        return sp.csr_array(labels.astype(np.float64).multiply(scales[:, np.newaxis]))
    return labels * scales[:, np.newaxis]

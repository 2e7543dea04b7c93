"""Ridge regression with an absolute penalty, for dense and sparse features."""

import numpy as np

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh._core.linalg import factor_spd


class RidgeSolver:
    """Ridge regression from fixed features to many targets; the Gram matrix is factored once.

    Parameters
    ----------
    features : (n_items, n_features), dense or CSR
    penalty : float
        At least zero.

    Examples
    --------
    >>> solver = RidgeSolver(np.array([[1.0], [2.0]]), 5.0)
    >>> solver.solve(np.array([[2.0], [4.0]]))
    array([[1.]])
    """

    def __init__(self, features: Matrix, penalty: float) -> None:
        self.features = features
        self.penalty = penalty
        gram = gram_matrix(features)
        gram[np.diag_indices_from(gram)] += penalty
        self._solve = factor_spd(gram)

    def solve(self, targets: Floats) -> Floats:
        """Minimise ``||targets - features P||² + penalty ||P||²`` for P."""
        return self._solve(dense(self.features.T @ targets))


def ridge(features: Matrix, targets: Matrix, penalty: float) -> Floats:
    """Return ``(FᵀF + penalty I)⁻¹ Fᵀ targets``, (n_features, n_targets).

    Parameters
    ----------
    features : (n_items, n_features), dense or CSR
    targets : (n_items, n_targets), dense or CSR
    penalty : float
        At least zero; at zero the solution of least norm.

    Examples
    --------
    >>> ridge(np.eye(2), np.array([[1.0], [3.0]]), 1.0)
    array([[0.5],
           [1.5]])
    """
    return RidgeSolver(features, penalty).solve(targets)


def ridge_loss(features: Matrix, targets: Floats, coefficients: Floats, penalty: float) -> float:
    """Return ``||targets - features P||² + penalty ||P||²``, which `ridge` minimises."""
    residual = np.asarray(targets - features @ coefficients)
    return squared_norm(residual) + penalty * squared_norm(coefficients)


def gram_matrix(features: Matrix) -> Floats:
    """Return ``FᵀF`` as a dense float64 matrix, (n_features, n_features)."""
    return dense(features.T @ features).astype(np.float64)


def dense(matrix: Matrix) -> Floats:
    """Return a small matrix as an ndarray."""
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


def squared_norm(matrix: Floats) -> float:
    """Return the squared Frobenius norm of a dense matrix."""
    flat = np.ravel(matrix)
    return float(flat @ flat)

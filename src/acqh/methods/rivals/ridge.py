"""Ridge regression with an absolute penalty, for dense and sparse features."""

from collections.abc import Mapping

import numpy as np

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh._core.linalg import factor_spd


class FeatureRidge:
    """Ridge regression from fixed features to many targets; the Gram matrix is factored once.

    `features`: (n_items, n_features), dense or CSR. `penalty`: at least zero.

    Examples
    --------
    >>> solver = FeatureRidge(np.array([[1.0], [2.0]]), 5.0)
    >>> solver.solve(np.array([[2.0], [4.0]]))
    array([[1.]])
    """

    def __init__(self, features: Matrix, penalty: float) -> None:
        self.features = features
        self.penalty = penalty
        gram = gram_matrix(features)
        gram[np.diag_indices_from(gram)] += penalty
        self._solve = factor_spd(gram)

    def solve(self, targets: Matrix) -> Floats:
        """Minimise ``||targets - features P||² + penalty ||P||²`` for P."""
        return self._solve(dense(self.features.T @ targets))


class ViewRidge:
    """Hash functions of all views, regressed on the same codes.

    They minimise ``μ Σ_v (||B - F_v P_v||² + ρ ||P_v||²)``.

    `features`: each (n_items, n_features), dense or CSR; F_v. `weight`: μ. `penalty`:
    ρ.

    Examples
    --------
    >>> views = ViewRidge({"image": np.eye(2)}, 0.5, 1.0)
    >>> projections = views.solve(np.array([[1.0], [-1.0]]))
    >>> views.predict(projections)
    array([[ 0.25],
           [-0.25]])
    """

    def __init__(self, features: Mapping[str, Matrix], weight: float, penalty: float) -> None:
        self.weight = weight
        self._solvers = {view: FeatureRidge(F, penalty) for view, F in features.items()}

    def solve(self, codes: Floats) -> dict[str, Floats]:
        """Return P_v for every view, (n_features, n_bits): the minimum for fixed codes."""
        return {view: solver.solve(codes) for view, solver in self._solvers.items()}

    def predict(self, projections: Mapping[str, Floats]) -> Floats:
        """Return ``μ Σ_v F_v P_v``, (n_items, n_bits)."""
        terms = [
            self.weight * dense(self._solvers[view].features @ P) for view, P in projections.items()
        ]
        return np.asarray(np.sum(terms, axis=0))

    def loss(self, projections: Mapping[str, Floats], codes: Floats) -> float:
        """Return the weighted sum of all views' ridge losses."""
        return sum(
            self.weight
            * ridge_loss(self._solvers[view].features, codes, P, self._solvers[view].penalty)
            for view, P in projections.items()
        )


def ridge(features: Matrix, targets: Matrix, penalty: float) -> Floats:
    """Return ``(FᵀF + penalty I)⁻¹ Fᵀ targets``, (n_features, n_targets).

    `features`: (n_items, n_features), dense or CSR. `targets`: (n_items, n_targets), dense or CSR.
    `penalty`: at least zero; at zero the solution of least norm.

    Examples
    --------
    >>> ridge(np.eye(2), np.array([[1.0], [3.0]]), 1.0)
    array([[0.5],
           [1.5]])
    """
    return FeatureRidge(features, penalty).solve(targets)


def ridge_loss(features: Matrix, targets: Matrix, coefficients: Floats, penalty: float) -> float:
    """Return ``||targets - features P||² + penalty ||P||²``, which `ridge` minimises.

    `features`: (n_items, n_features), dense or CSR. `targets`: (n_items, n_targets), dense or CSR;
    sparse targets are not made dense. `coefficients`: (n_features, n_targets).
    """
    shrinkage = penalty * squared_norm(coefficients)
    if not is_sparse(targets):
        return squared_norm(targets - features @ coefficients) + shrinkage
    products = dense(features.T @ targets)
    fitted = np.vdot(coefficients, gram_matrix(features) @ coefficients)
    residual = squared_norm(targets.data) - 2.0 * np.vdot(products, coefficients) + fitted
    return float(residual) + shrinkage


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

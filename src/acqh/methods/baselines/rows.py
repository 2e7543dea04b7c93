"""Features and labels of items as matrices that are never formed; sparse rows stay sparse."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from acqh._core.arrays import Floats, Matrix, is_sparse, unit_rows
from acqh._core.linalg import factor_spd

# Share of the mean square below which a variance is what rounding leaves of none.
_ROUNDING = 1e-13


class Rows:
    """A matrix as it is, minus its column means, or with columns of one variance; never formed.

    `rows`: float64 (n_items, n_features), dense or CSR. `centre`: whether means are subtracted.
    `scale`: the deviation of every column, centred too; constant ones stay zero. `mean`:
    (n_features,); what is subtracted. `factors`: (n_features, 1); what columns are multiplied by.

    Examples
    --------
    >>> rows = Rows(np.array([[1.0], [2.0]]))
    >>> rows.ridge(5.0)(np.array([[2.0], [4.0]]))
    array([[1.]])
    """

    def __init__(self, rows: Matrix, *, centre: bool = False, scale: float | None = None) -> None:
        self._rows = rows
        self.factors = np.ones((rows.shape[1], 1))
        self.mean = np.zeros(rows.shape[1])
        # What still has to be subtracted from the rows that are kept.
        self._offset = self.mean
        if centre or scale is not None:
            self.mean = np.asarray(rows.mean(axis=0)).ravel()
            if is_sparse(rows):
                self._offset = self.mean
            else:
                self._rows = rows - self.mean
        if scale is not None:
            variances = self._variances()
            varying = variances > 0
            self.factors[~varying] = 0.0
            self.factors[varying, 0] = scale / np.sqrt(variances[varying])

    @property
    def n_items(self) -> int:
        """The number of rows."""
        return int(self._rows.shape[0])

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self._rows.shape[1])

    @cached_property
    def squared_norm(self) -> float:
        """Of the whole matrix."""
        squares = self._mean_squares() - self._offset**2
        return float(self.n_items * (squares @ np.square(self.factors[:, 0])))

    def times(self, right: Floats) -> Floats:
        """Return the matrix times one of shape (n_features, k) or (n_features,)."""
        right = right * (self.factors if right.ndim > 1 else self.factors[:, 0])
        return np.asarray(self._rows @ right - self._offset @ right)

    def transpose_times(self, right: Matrix) -> Floats:
        """Return the transpose times (n_items, k), dense or CSR, or (n_items,)."""
        shift = np.multiply.outer(self._offset, right.sum(axis=0))
        product = dense(self._rows.T @ right) - shift
        return np.asarray(product * (self.factors if product.ndim > 1 else self.factors[:, 0]))

    def cross(self, other: "Rows") -> Floats:
        """Return the sum over items of this row times the other's, (n_features, n_others)."""
        product = dense(self._rows.T @ other._rows)
        product = product - np.outer(self._rows.sum(axis=0), other._offset)
        return np.asarray(self.factors * product * other.factors.T)

    def gram(self) -> Floats:
        """Return the sum over items of a row times itself, (n_features, n_features)."""
        product = self.cross(self)
        return np.asarray((product + product.T) / 2.0)

    def ridge(self, penalty: float) -> Callable[[Matrix], Floats]:
        """Return what minimises ``||targets - F P||² + penalty ||P||²`` for P, for any targets.

        At a penalty of zero the solution of least norm.
        """
        solve = factor_spd(self.gram() + penalty * np.eye(self.n_features))
        return lambda targets: solve(self.transpose_times(targets))

    def ridge_loss(self, targets: Matrix, coefficients: Floats, penalty: float) -> float:
        """Return ``||targets - F P||² + penalty ||P||²``; sparse targets are not made dense."""
        shrinkage = penalty * squared_norm(coefficients)
        if not is_sparse(targets):
            return squared_norm(targets - self.times(coefficients)) + shrinkage
        fitted = np.vdot(coefficients, self.gram() @ coefficients)
        agreement = np.vdot(self.transpose_times(targets), coefficients)
        return squared_norm(targets.data) - 2.0 * float(agreement) + float(fitted) + shrinkage

    def residual_norm(self, left: Floats, right: Floats) -> float:
        """Return ``||F - left right||²``, never forming the difference."""
        agreement = np.vdot(self.transpose_times(left).T, right)
        return float(self.squared_norm - 2.0 * agreement + np.vdot(left.T @ left, right @ right.T))

    def _mean_squares(self) -> Floats:
        squares = self._rows.multiply(self._rows) if is_sparse(self._rows) else self._rows**2
        return np.asarray(squares.sum(axis=0)).ravel() / self.n_items

    def _variances(self) -> Floats:
        """Return the variance of every column; exactly zero where it is only rounding."""
        mean_squares = self._mean_squares()
        variances = mean_squares - self._offset**2
        return np.where(variances > _ROUNDING * (mean_squares + self.mean**2), variances, 0.0)


class ViewRidge:
    """Hash functions of all views, regressed on the same codes.

    They minimise ``μ Σ_v (||B - F_v P_v||² + ρ ||P_v||²)``.

    `rows`: F_v. `weight`: μ. `penalty`: ρ. `projections`: P_v of every view, (n_features, n_bits).

    Examples
    --------
    >>> views = ViewRidge({"image": Rows(np.eye(2))}, 0.5, 1.0)
    >>> views.fit(np.array([[1.0], [-1.0]])).pull
    array([[ 0.25],
           [-0.25]])
    """

    def __init__(self, rows: Mapping[str, Rows], weight: float, penalty: float) -> None:
        self.rows, self.weight, self.penalty = rows, weight, penalty
        self._solvers = {view: view_rows.ridge(penalty) for view, view_rows in rows.items()}

    def fit(self, codes: Floats) -> "ViewRidge":
        """Take the projections that are the minimum for fixed codes."""
        return self.use({view: solve(codes) for view, solve in self._solvers.items()})

    def use(self, projections: Mapping[str, Floats]) -> "ViewRidge":
        """Take other projections."""
        self.projections = projections
        self._predicted = {view: self.rows[view].times(P) for view, P in projections.items()}
        return self

    @property
    def pull(self) -> Floats:
        """``μ Σ_v F_v P_v``, (n_items, n_bits)."""
        return self.weight * np.asarray(reduce(np.add, self._predicted.values()))

    def loss(self, codes: Floats) -> float:
        """Return the weighted sum of all views' ridge losses."""
        return self.weight * sum(
            squared_norm(codes - self._predicted[view]) + self.penalty * squared_norm(P)
            for view, P in self.projections.items()
        )


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
        return cls(unit_rows(labels.astype(np.float64)))

    @classmethod
    def signed(cls, labels: Matrix) -> "LabelSimilarity":
        """Return ``2 L̂ L̂ᵀ - 1 1ᵀ``: the cosine stretched to -1 to 1."""
        return cls(unit_rows(labels.astype(np.float64)), 2.0, -1.0)

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


def dense(matrix: Matrix) -> Floats:
    """Return a small matrix as an ndarray."""
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


def squared_norm(matrix: Floats) -> float:
    """Return the squared Frobenius norm of a dense matrix."""
    flat = np.ravel(matrix)
    return float(flat @ flat)

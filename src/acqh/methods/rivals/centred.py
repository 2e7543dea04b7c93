"""Centred features, whose sparse rows stay sparse."""

from collections.abc import Callable

import numpy as np

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh._core.linalg import factor_spd
from acqh.methods.rivals.ridge import dense, squared_norm

# Share of the mean square below which a variance is what rounding leaves of none.
_ROUNDING = 1e-13


class CentredRows:
    """A matrix minus its column means; one that is sparse stays so.

    `rows`: float64 (n_items, n_features), dense or CSR. `mean`: (n_features,) float64.
    `squared_norm`: of the whole centred matrix.
    """

    mean: Floats
    squared_norm: float

    def __init__(self, rows: Matrix) -> None:
        self.mean = np.asarray(rows.mean(axis=0)).ravel()
        self._rows = rows if is_sparse(rows) else rows - self.mean
        # What still has to be subtracted from the rows that are kept.
        self._offset = self.mean if is_sparse(rows) else np.zeros_like(self.mean)
        kept = self._rows.data if is_sparse(rows) else self._rows
        self.squared_norm = squared_norm(kept) - self.n_items * squared_norm(self._offset)

    @property
    def n_items(self) -> int:
        """The number of rows."""
        return int(self._rows.shape[0])

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self._rows.shape[1])

    def times(self, right: Floats) -> Floats:
        """Return the centred matrix times one of shape (n_features, k) or (n_features,)."""
        return np.asarray(self._rows @ right - self._offset @ right)

    def transpose_times(self, right: Matrix) -> Floats:
        """Return the transpose times (n_items, k), dense or CSR, or (n_items,)."""
        shift = np.multiply.outer(self._offset, right.sum(axis=0))
        return np.asarray(dense(self._rows.T @ right) - shift)

    def cross(self, other: "CentredRows") -> Floats:
        """Return the sum over items of this row times the other's, (n_features, n_others)."""
        product = dense(self._rows.T @ other._rows)
        return product - np.outer(self._rows.sum(axis=0), other._offset)

    def gram(self) -> Floats:
        """Return the sum over items of a row times itself, (n_features, n_features)."""
        product = self.cross(self)
        return np.asarray((product + product.T) / 2.0)

    def ridge(self, penalty: float) -> Callable[[Floats], Floats]:
        """Return what minimises ``||targets - F P||² + penalty ||P||²`` for P, for any targets."""
        solve = factor_spd(self.gram() + penalty * np.eye(self.n_features))
        return lambda targets: solve(self.transpose_times(targets))

    def variances(self) -> Floats:
        """Return the variance of every column; exactly zero where it is only rounding."""
        squares = self._rows.multiply(self._rows) if is_sparse(self._rows) else self._rows**2
        mean_squares = np.asarray(squares.sum(axis=0)).ravel() / self.n_items
        found = mean_squares - self._offset**2
        rounding = _ROUNDING * (mean_squares + self.mean**2)
        return np.where(found > rounding, found, 0.0)

    def residual_norm(self, left: Floats, right: Floats) -> float:
        """Return ``||F - left right||²``, never forming the difference."""
        agreement = np.vdot(self.transpose_times(left).T, right)
        return float(self.squared_norm - 2.0 * agreement + np.vdot(left.T @ left, right @ right.T))

    def weighted_gram(self, weights: Floats) -> Floats:
        """Return the sum over items of a weight times a row times itself."""
        by_weight = np.asarray(self._rows.T @ weights)
        shift = np.outer(by_weight - weights.sum() / 2.0 * self._offset, self._offset)
        column = weights[:, np.newaxis]
        weighted = self._rows.multiply(column) if is_sparse(self._rows) else column * self._rows
        return dense(self._rows.T @ weighted) - shift - shift.T

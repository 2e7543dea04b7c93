"""Features in the space that a few rows span, for data with more features than items."""

from typing import ClassVar

import numpy as np

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh._core.linalg import whiten
from acqh.features.base import FeatureMap


class RowSpace(FeatureMap):
    """Coordinates of rows in the space that the fitted rows span; orthonormal, so exact for ridge.

    A ridge regression has its coefficients in the span of its rows, and what new rows have beside
    that span meets only zeros. So with more features than items nothing is lost by solving in at
    most as many coordinates as there are items: the dual problem. Methods put this map behind a
    view's own where it is needed.

    Attributes
    ----------
    basis_ : (n_features, n_directions)
        Orthonormal columns; at most as many as rows were fitted.

    Examples
    --------
    >>> from acqh.features import RowSpace
    >>> rows = np.array([[3.0, 0.0, 0.0, 4.0], [3.0, 0.0, 0.0, 4.0]])
    >>> RowSpace().fit(rows).transform(rows).shape
    (2, 1)
    >>> float(np.linalg.norm(RowSpace().fit(rows).transform(rows[:1])).round(6))
    5.0
    """

    _state_axes: ClassVar[dict[str, tuple[str, ...]]] = {"basis_": ("n_features", "n_directions")}
    basis_: Floats

    def _learn(self, X: Matrix) -> None:
        rows = X.astype(np.float64)
        products = rows @ rows.T
        directions = whiten(products.toarray() if is_sparse(products) else products)
        # Rows that are all zero have no direction, but a map has to have one.
        self.basis_ = (
            np.asarray(rows.T @ directions) if directions.size else np.zeros((X.shape[1], 1))
        )

    def _map(self, X: Matrix) -> Floats:
        return np.asarray(X @ self.basis_.astype(X.dtype, copy=False))

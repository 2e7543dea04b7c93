"""Maps that need nothing but the row: a bias, and signed roots."""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import OneToOneFeatureMixin

from acqh._core.arrays import Array, Matrix, is_sparse
from acqh.features._base import FeatureMap, with_data


class _RowMap(OneToOneFeatureMixin, FeatureMap):
    """A map that learns nothing but the width of rows."""

    def fit(self, X: Matrix, y: Any = None) -> Self:  # noqa: ARG002
        """Remember the width.

        Parameters
        ----------
        X : (n_items, n_features)
        y : ignored

        Returns
        -------
        self
        """
        self._check_fit(X)
        return self


class Bias(_RowMap):
    """Append a column of ones, so that a linear map of the result has an intercept.

    Sparse input stays sparse.

    Examples
    --------
    >>> from acqh.features import Bias
    >>> Bias().fit_transform([[2.0], [3.0]])
    array([[2., 1.],
           [3., 1.]])
    """

    def transform(self, X: Matrix) -> Matrix:
        """Return the rows with a one appended.

        Parameters
        ----------
        X : (n_items, n_features)

        Returns
        -------
        (n_items, n_features + 1)
        """
        X = self._check_transform(X)
        ones = np.ones((X.shape[0], 1), dtype=X.dtype)
        if is_sparse(X):
            return sp.hstack([X, sp.csr_array(ones)], format="csr")
        return np.hstack([X, ones])

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the input columns, then ``"bias"``."""
        names = super().get_feature_names_out(input_features)
        return np.append(names, "bias").astype(object)


class SignedRoot(_RowMap):
    """Take the square root of every value's size, and keep its sign.

    Euclidean distances of rooted histograms are Hellinger distances, which suit counts and
    proportions. Sparse input stays sparse.

    Examples
    --------
    >>> from acqh.features import SignedRoot
    >>> SignedRoot().fit_transform([[4.0, -9.0]])
    array([[ 2., -3.]])
    """

    def transform(self, X: Matrix) -> Matrix:
        """Return the roots.

        Parameters
        ----------
        X : (n_items, n_features)

        Returns
        -------
        (n_items, n_features)
        """
        X = self._check_transform(X)
        if is_sparse(X):
            return with_data(X, np.sign(X.data) * np.sqrt(np.abs(X.data)))
        return np.sign(X) * np.sqrt(np.abs(X))

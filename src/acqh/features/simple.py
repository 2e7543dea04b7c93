"""Maps that need nothing but the row: a bias, and signed roots."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import OneToOneFeatureMixin

from acqh._core.arrays import Array, Matrix, is_sparse
from acqh.features.base import FeatureMap, with_data


class Bias(OneToOneFeatureMixin, FeatureMap):
    """Append a column of ones, so that a linear map of the result has an intercept.

    Sparse input stays sparse.

    Examples
    --------
    >>> from acqh.features import Bias
    >>> Bias().fit_transform([[2.0], [3.0]])
    array([[2., 1.],
           [3., 1.]])
    """

    def _map(self, X: Matrix) -> Matrix:
        ones = np.ones((X.shape[0], 1), dtype=X.dtype)
        if is_sparse(X):
            return sp.hstack([X, sp.csr_array(ones)], format="csr")
        return np.hstack([X, ones])

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the input columns, then ``"bias"``."""
        names = super().get_feature_names_out(input_features)
        return np.append(names, "bias").astype(object)


class SignedRoot(OneToOneFeatureMixin, FeatureMap):
    """Take the square root of every value's size, and keep its sign.

    Euclidean distances of rooted histograms are Hellinger distances, which suit counts and
    proportions. Sparse input stays sparse.

    Examples
    --------
    >>> from acqh.features import SignedRoot
    >>> SignedRoot().fit_transform([[4.0, -9.0]])
    array([[ 2., -3.]])
    """

    def _map(self, X: Matrix) -> Matrix:
        if is_sparse(X):
            return with_data(X, np.sign(X.data) * np.sqrt(np.abs(X.data)))
        return np.sign(X) * np.sqrt(np.abs(X))

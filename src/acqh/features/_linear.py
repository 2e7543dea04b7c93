"""Maps of single columns and rows: bias, root, centring, standardisation, unit norm."""

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import OneToOneFeatureMixin

from acqh._core.arrays import Array, Matrix, is_sparse
from acqh.errors import ViewError
from acqh.features._base import FeatureMap, column_moments, unit_rows, with_data


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


class UnitNorm(OneToOneFeatureMixin, FeatureMap):
    """Scale every row to Euclidean norm one; rows of zeros stay zero.

    Examples
    --------
    >>> from acqh.features import UnitNorm
    >>> UnitNorm().fit_transform([[3.0, 4.0], [0.0, 0.0]])
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

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

    def transform(self, X: Matrix) -> Matrix:
        """Return the scaled rows, sparse where the input is.

        Parameters
        ----------
        X : (n_items, n_features)

        Returns
        -------
        (n_items, n_features)
        """
        return unit_rows(self._check_transform(X))


class Center(OneToOneFeatureMixin, FeatureMap):
    """Subtract the mean of the training rows from every column.

    Dense input only: a centred sparse matrix has no zeros left.

    Attributes
    ----------
    mean_ : (n_features,) float64

    Examples
    --------
    >>> from acqh.features import Center
    >>> Center().fit([[1.0], [3.0]]).transform([[5.0]])
    array([[3.]])
    """

    _state_axes: ClassVar = {"mean_": ("n_features",)}

    def fit(self, X: Matrix, y: Any = None) -> Self:  # noqa: ARG002
        """Compute the column means.

        Parameters
        ----------
        X : (n_items, n_features)
        y : ignored

        Returns
        -------
        self
        """
        _refuse_sparse(X, "leave the centring out")
        X = self._check_fit(X)
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        return self

    def transform(self, X: Matrix) -> Matrix:
        """Return the rows less the training mean.

        Parameters
        ----------
        X : (n_items, n_features)

        Returns
        -------
        (n_items, n_features)
        """
        _refuse_sparse(X, "leave the centring out")
        X = self._check_transform(X)
        return X - self.mean_.astype(X.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


class Standardize(OneToOneFeatureMixin, FeatureMap):
    """Bring every column to variance one, and to mean zero where `with_mean` is true.

    A column that is constant over the training rows is not scaled.

    Parameters
    ----------
    with_mean : bool, default True
        Subtract the mean of the training rows. Sparse input needs False (scaling keeps zeros,
        centring does not) and is refused otherwise.

    Attributes
    ----------
    mean_ : (n_features,) float64
        Of the training rows; zero where `with_mean` is false.
    scale_ : (n_features,) float64
        Standard deviation of the training rows about their mean; one for constant columns.

    Examples
    --------
    >>> from acqh.features import Standardize
    >>> Standardize().fit([[1.0, 7.0], [3.0, 7.0]]).transform([[5.0, 8.0]])
    array([[3., 1.]])
    """

    _state_axes: ClassVar = {"mean_": ("n_features",), "scale_": ("n_features",)}

    def __init__(self, *, with_mean: bool = True) -> None:
        self.with_mean = with_mean

    def fit(self, X: Matrix, y: Any = None) -> Self:  # noqa: ARG002
        """Compute mean and standard deviation of the columns.

        Parameters
        ----------
        X : (n_items, n_features)
        y : ignored

        Returns
        -------
        self
        """
        self._refuse_centring(X)
        X = self._check_fit(X)
        mean, variance = column_moments(X)
        # The rounding error of a constant column's variance; such a column carries no scale.
        noise = np.square(X.shape[0] * np.finfo(np.float64).eps * mean)
        self.scale_ = np.sqrt(np.where(variance <= noise, 1.0, variance))
        self.mean_ = mean if self.with_mean else np.zeros_like(mean)
        return self

    def transform(self, X: Matrix) -> Matrix:
        """Return the rows, centred and scaled with what the training rows gave.

        Parameters
        ----------
        X : (n_items, n_features)

        Returns
        -------
        (n_items, n_features)
        """
        self._refuse_centring(X)
        X = self._check_transform(X)
        scale = self.scale_.astype(X.dtype)
        if is_sparse(X):
            return with_data(X, X.data / scale[X.indices])
        return (X - self.mean_.astype(X.dtype)) / scale

    def _refuse_centring(self, X: Any) -> None:
        if self.with_mean:
            _refuse_sparse(X, "use Standardize(with_mean=False)")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.with_mean
        return tags


def _refuse_sparse(X: Any, remedy: str) -> None:
    if is_sparse(X):
        raise ViewError(f"centring would make the sparse input dense; {remedy}")

"""Simple feature maps: bias, signed square roots, SVD, row space, centring."""

from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin
from sklearn.utils.extmath import randomized_svd

from acqh._core.arrays import Array, Floats, Matrix, check_positive_int, is_sparse, is_tensor
from acqh._core.device import to_tensor
from acqh._core.linalg import centering_offset, fix_signs, whiten
from acqh._core.runtime import RandomState, check_rng
from acqh.features.base import FeatureMap, row_blocks

# Up to this many rows or columns the SVD is exact, from the smaller Gram matrix.
_MAX_GRAM = 3000
# Singular values below this share of the largest are rounding noise of the Gram matrix.
_RANK_TOLERANCE = 1e-6
_POWER_ITERATIONS = 7


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
    """Take the square root of the magnitude of every value, with its sign.

    Euclidean distances of rooted histograms are Hellinger distances, which suit counts and
    proportions. Sparse input stays sparse.

    Examples
    --------
    >>> from acqh.features import SignedRoot
    >>> SignedRoot().fit_transform([[4.0, -9.0]])
    array([[ 2., -3.]])
    """

    def _map(self, X: Matrix) -> Matrix:
        return signed_root(X)


def signed_root(X: Matrix) -> Matrix:
    """Return ``sign(x) * sqrt(abs(x))`` of an array, CSR or tensor."""
    if is_tensor(X):
        return X.sign() * X.abs().sqrt()
    if is_sparse(X):
        return sp.csr_array((signed_root(X.data), X.indices, X.indptr), shape=X.shape)
    return np.sign(X) * np.sqrt(np.abs(X))


class TagSVD(ClassNamePrefixFeaturesOutMixin, FeatureMap):
    """Project onto the leading right singular vectors of the training rows, without centring.

    This computes the 500-dimensional text features of MIRFlickr from its tags. Sparse input gives
    dense output. The SVD is exact if the training matrix has at most 3,000 rows or columns,
    otherwise randomized with seven power iterations.

    Parameters
    ----------
    n_components : int, default 500
        At most the rank of the training matrix is used.
    random_state : int, Generator or None
        Used by the randomised decomposition only.

    Attributes
    ----------
    components_ : (n_used, n_features) float64
        Orthonormal rows; the largest entry of each is positive.
    singular_values_ : (n_used,) float64
        In descending order.

    Examples
    --------
    >>> from acqh.features import TagSVD
    >>> TagSVD(n_components=1).fit([[2.0, 0.0], [0.0, 1.0]]).transform([[3.0, 5.0]])
    array([[3.]])
    """

    _state_axes: ClassVar = {
        "components_": ("n_components", "n_features"),
        "singular_values_": ("n_components",),
    }

    def __init__(self, n_components: int = 500, *, random_state: RandomState = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def _check_params(self) -> None:
        check_positive_int(self.n_components, "n_components")

    def _learn(self, X: Matrix) -> None:
        n_components = min(self.n_components, *X.shape)
        if min(X.shape) <= _MAX_GRAM:
            values, components = _exact_svd(X, n_components)
        else:
            seed = int(check_rng(self.random_state).integers(2**31))
            # LAPACK's divide and conquer, the default, once did not converge.
            _, values, components = randomized_svd(
                X,
                n_components,
                n_iter=_POWER_ITERATIONS,
                random_state=seed,
                svd_lapack_driver="gesvd",
            )
        keep = values > _RANK_TOLERANCE * values[0]
        keep[0] = True  # a matrix of zeros still gets one column
        self.components_ = fix_signs(components[keep].astype(np.float64).T).T
        self.singular_values_ = values[keep].astype(np.float64)

    def _map(self, X: Matrix) -> Floats:
        components = self.components_
        if is_sparse(X) and 4 * X.nnz < X.shape[1]:
            # A query has few words; casting the components of all others would take far longer.
            used = np.unique(X.indices)
            X, components = X[:, used], components[:, used]
        return np.asarray(X @ components.T.astype(X.dtype, order="C"))

    @property
    def n_components_(self) -> int:
        """Number of components in use."""
        return len(self.components_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def _exact_svd(X: Matrix, n_components: int) -> tuple[Floats, Floats]:
    """Leading singular values and right vectors from the Gram matrix of the smaller side."""
    n_rows, width = X.shape
    tall = width <= n_rows
    gram = _gram(X) if tall else _gram(X.T.tocsr() if is_sparse(X) else X.T)
    side = len(gram)
    eigenvalues, vectors = scipy.linalg.eigh(
        gram, subset_by_index=[side - n_components, side - 1], check_finite=False
    )
    values = np.sqrt(np.maximum(eigenvalues[::-1], 0))
    vectors = vectors[:, ::-1].T
    if tall:
        return values, vectors
    right = np.asarray(X.T.astype(np.float64) @ vectors.T).T
    return values, right / np.where(values > 0, values, 1)[:, np.newaxis]


def _gram(X: Matrix) -> Floats:
    """X^T X in float64; never a dense copy of more than a block of rows."""
    if is_sparse(X):
        X = X.astype(np.float64)
        return np.asarray((X.T @ X).toarray())
    total = np.zeros((X.shape[1], X.shape[1]))
    for block in row_blocks(*X.shape):
        rows = X[block].astype(np.float64, copy=False)
        total += rows.T @ rows
    return total


class RowSpace(FeatureMap):
    """Coordinates of rows in the space that the fitted rows span; orthonormal, so exact for ridge.

    The coefficients of a ridge regression lie in the span of its rows, so parts of new rows outside
    that span do not change predictions. With more features than items, the problem can therefore be
    solved exactly in at most as many coordinates as there are items (the dual problem). Methods
    append this map to the feature map of a view if necessary.

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

    _state_axes: ClassVar = {"basis_": ("n_features", "n_directions")}
    basis_: Floats

    def _learn(self, X: Matrix) -> None:
        rows = X.astype(np.float64)
        products = rows @ rows.T
        directions = whiten(products.toarray() if is_sparse(products) else products)
        # If all rows are zero there is no direction, but a map needs at least one.
        self.basis_ = (
            np.asarray(rows.T @ directions) if directions.size else np.zeros((X.shape[1], 1))
        )

    def _map(self, X: Matrix) -> Floats:
        return np.asarray(X @ self.basis_.astype(X.dtype, copy=False))


class ConditionalCentering(OneToOneFeatureMixin, FeatureMap):
    """Centre features whose mean is too large for precise sums of squares; others pass unchanged.

    A dense view is centred if its mean exceeds 1,000 times its standard deviation; sparse rows are
    not changed. Methods append this map to the feature map of a view if necessary. Raises ViewError
    if the largest number of a view is above 1e60 or below 1e-60.

    Attributes
    ----------
    origin_ : (n_features,)
        Subtracted from every row; zeros if features pass unchanged.

    Examples
    --------
    >>> from acqh.features import ConditionalCentering
    >>> ConditionalCentering().fit_transform([[1e8], [1e8 + 2.0]])
    array([[-1.],
           [ 1.]])
    >>> ConditionalCentering().fit_transform([[1.0], [2.0]])
    array([[1.],
           [2.]])
    """

    _state_axes: ClassVar = {"origin_": ("n_features",)}
    takes_tensors = True
    origin_: Floats

    def _learn(self, X: Matrix) -> None:
        self.origin_ = centering_offset(X)

    @property
    def is_needed(self) -> bool:
        """Whether the map changes anything."""
        return bool(self.origin_.any())

    def _map(self, X: Matrix) -> Matrix:
        if is_sparse(X):
            return X
        # In double precision: the origin may have more digits than float32 rows.
        if is_tensor(X):
            moved = X.double() - to_tensor(self.origin_, X.device)
            return moved.to(X.dtype) if X.dtype.is_floating_point else moved
        return (X.astype(np.float64) - self.origin_).astype(X.dtype, copy=False)

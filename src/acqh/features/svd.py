"""The truncated SVD of tags and words, cut at its rank, which scikit-learn's is not."""

from typing import ClassVar

import numpy as np
import scipy.linalg
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.extmath import randomized_svd

from acqh._core.arrays import Floats, Matrix, check_positive_int, is_sparse
from acqh._core.linalg import fix_signs
from acqh._core.runtime import RandomState, check_rng
from acqh.features.base import FeatureMap, row_blocks

# Up to this many rows or columns the SVD is exact, from the smaller Gram matrix.
_MAX_GRAM = 3000
# Singular values below this share of the largest are rounding noise of the Gram matrix.
_RANK_TOLERANCE = 1e-6
_POWER_ITERATIONS = 7


class TagSVD(ClassNamePrefixFeaturesOutMixin, FeatureMap):
    """Project onto the leading right singular vectors of the training rows, without centring.

    This makes the 500-dimensional text of MIRFlickr from its tags. Sparse rows are multiplied as
    they are; the result is dense. The decomposition is exact where the training matrix has no
    more than 3,000 rows or columns, and a randomised one with seven power iterations beyond.

    Parameters
    ----------
    n_components : int, default 500
        The rank of the training matrix is used where that is less.
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
        wanted = min(self.n_components, *X.shape)
        if min(X.shape) <= _MAX_GRAM:
            values, components = _exact_svd(X, wanted)
        else:
            seed = int(check_rng(self.random_state).integers(2**31))
            _, values, components = randomized_svd(
                X, wanted, n_iter=_POWER_ITERATIONS, random_state=seed
            )
        keep = values > _RANK_TOLERANCE * values[0]
        keep[0] = True  # a matrix of zeros still gets one column
        self.components_ = fix_signs(components[keep].astype(np.float64).T).T
        self.singular_values_ = values[keep].astype(np.float64)

    def _map(self, X: Matrix) -> Floats:
        components = self.components_
        if is_sparse(X) and 4 * X.nnz < X.shape[1]:
            # A query has few words: to cast the components of all others would take far longer.
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

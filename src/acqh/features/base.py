"""FeatureMap: the base class of feature maps, with input validation."""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import scipy.sparse as sp
from sklearn import exceptions
from sklearn.base import BaseEstimator, TransformerMixin

from acqh._core.arrays import Matrix, is_sparse, is_tensor, slices, validated_rows
from acqh._core.device import check_rows
from acqh.errors import NotFittedError, ViewError

# Blocks of rows are sized so that one dense float64 block takes about 32 MB.
_BLOCK_VALUES = 1 << 22


class UnfittedMapError(NotFittedError, exceptions.NotFittedError):
    """A feature map or encoder was used before ``fit``; also a scikit-learn NotFittedError."""


class FeatureMap(TransformerMixin, BaseEstimator):
    """Base class of maps from one feature matrix to another.

    A subclass fits in ``_learn`` and transforms in ``_map``; both get validated rows. It lists its
    fitted attributes in ``_state_axes``, with a name for each axis or a type, for serialization.

    Examples
    --------
    >>> import numpy as np
    >>> class Halved(FeatureMap):
    ...     def _learn(self, X):
    ...         pass
    ...     def _map(self, X):
    ...         return X / 2
    >>> Halved().fit_transform(np.ones((2, 3)))[0]
    array([0.5, 0.5, 0.5])
    """

    _state_axes: ClassVar[dict[str, Any]] = {"n_features_in_": int}
    # Whether rows to map may be a tensor, which stays on its device.
    takes_tensors: ClassVar[bool] = False

    def fit(self, X: Matrix, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the map to training rows.

        Parameters
        ----------
        X : (n_items, n_features)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A parameter is out of its range.
        ViewError
            Invalid rows, such as those with NaN.
        """
        self._check_params()
        self._learn(self._check_fit(X))
        return self

    def transform(self, X: Matrix) -> Matrix:
        """Return the mapped rows.

        Parameters
        ----------
        X : (n_items, n_features)

        Returns
        -------
        (n_items, n_features_out)
            Of the dtype of the input.

        Raises
        ------
        ViewError
            Invalid rows, or another number of features than in ``fit``.
        """
        return self._map(self._check_transform(X))

    def _check_fit(self, X: Any) -> Matrix:
        """Return checked training rows; those of tensors on the host, where maps are fitted."""
        return _checked(self, X, reset=True)

    def _check_transform(self, X: Any) -> Matrix:
        self._require_fitted()
        if self.takes_tensors and is_tensor(X):
            check_rows(X, "input", self.n_features_in_)
            return X
        return _checked(self, X, reset=False)

    def _require_fitted(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise UnfittedMapError(
                f"this {type(self).__name__} is not fitted; call fit with training rows first"
            )

    def _check_params(self) -> None:
        """Raise InvalidInputError for a parameter out of its range."""

    def _learn(self, X: Matrix) -> None:
        """Fit to validated training rows; by default only their width is stored."""

    def _map(self, X: Matrix) -> Matrix:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def row_blocks(n_rows: int, width: int, n_values: int = _BLOCK_VALUES) -> Iterator[slice]:
    """Yield slices of rows for dense blocks of `width` columns.

    A block has at most `n_values` numbers, or one row.

    Examples
    --------
    >>> list(row_blocks(3, 10))
    [slice(0, 3, None)]
    """
    return slices(n_rows, max(1, n_values // max(1, width)))


def _checked(estimator: Any, X: Any, *, reset: bool) -> Matrix:
    """Return checked rows, sparse ones in canonical form; raise ViewError."""
    n_rows = 1 if reset else 0  # chunks may be empty
    options: dict[str, Any] = {"accept_sparse": "csr", "ensure_min_samples": n_rows}
    X = validated_rows(estimator, X, reset=reset, error=ViewError, **options)
    if not is_sparse(X):
        return X
    X = sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X

"""What every feature map shares: checked input, a fitted width, and state as named arrays."""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn import exceptions
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from acqh._core.arrays import Array, Floats, Matrix, as_rows, first_bad_row, is_sparse
from acqh.errors import InvalidInputError, NotFittedError, ViewError

# Blocks of rows are sized so that one dense float64 block takes about 32 MB.
_BLOCK_VALUES = 1 << 22
_WIDTH = "n_features_in"
_CSR_PARTS = ("data", "indices", "indptr", "shape")


class UnfittedMapError(NotFittedError, exceptions.NotFittedError):
    """A feature map or encoder was used before ``fit``; also scikit-learn's own error."""


class StateMixin:
    """Give and take what ``fit`` learnt as named arrays, so that nothing is ever pickled.

    A class lists its fitted attributes in ``_state_axes`` with a name for each axis; axes of one
    name must have one length, and ``"n_features"`` is the width that was fitted. An attribute
    without axes is a number, stored as an array of one entry. A sparse attribute is stored as its
    four CSR pieces.
    """

    _state_axes: ClassVar[dict[str, tuple[str, ...]]] = {}

    def get_state(self) -> dict[str, Array]:
        """Return the fitted attributes as arrays that can be stored as they are.

        Returns
        -------
        dict of str to ndarray
            Constructor arguments are not in it; they come from ``get_params``.

        Raises
        ------
        NotFittedError
            ``fit`` has not been called.
        """
        require_fitted(self)
        state: dict[str, Array] = {_WIDTH: np.array([self.n_features_in_])}
        for attribute in self._state_axes:
            value, name = getattr(self, attribute), attribute.removesuffix("_")
            if is_sparse(value):
                parts = (value.data, value.indices, value.indptr, np.asarray(value.shape))
                state.update(zip((f"{name}.{part}" for part in _CSR_PARTS), parts, strict=True))
            else:
                state[name] = np.atleast_1d(value)
        return state

    def set_state(self, arrays: dict[str, Array]) -> Self:
        """Become fitted with what `get_state` gave.

        Parameters
        ----------
        arrays : dict of str to ndarray

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A name is missing or unknown, or the shapes do not fit one another.
        """
        left = dict(arrays)
        owner = type(self).__name__
        width = int(_number(_take(left, _WIDTH, owner), _WIDTH, owner))
        sizes = {"n_features": width}
        values: dict[str, Any] = {}
        for attribute, axes in self._state_axes.items():
            name = attribute.removesuffix("_")
            value = _take_value(left, name, owner)
            if axes:
                _check_axes(value, axes, sizes, f"{name!r} of {owner}")
            values[attribute] = value if axes else _number(value, name, owner)
        if left:
            raise InvalidInputError(f"state of {owner} has unknown arrays: {sorted(left)}")
        self.n_features_in_ = width
        for attribute, value in values.items():
            setattr(self, attribute, value)
        return self


class FeatureMap(StateMixin, TransformerMixin, BaseEstimator):
    """Base of the maps from one feature matrix to another."""

    def _check_fit(self, X: Any) -> Matrix:
        return _checked(self, X, reset=True)

    def _check_transform(self, X: Any) -> Matrix:
        require_fitted(self)
        return _checked(self, X, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def require_fitted(estimator: Any) -> None:
    """Raise unless ``fit`` or ``set_state`` has been called."""
    if not hasattr(estimator, "n_features_in_"):
        raise UnfittedMapError(
            f"this {type(estimator).__name__} is not fitted; call fit with training rows first"
        )


def row_blocks(n_rows: int, width: int) -> Iterator[slice]:
    """Yield slices that cover the rows, each small enough for a dense block of `width` columns.

    Examples
    --------
    >>> list(row_blocks(3, 10))
    [slice(0, 3, None)]
    """
    step = max(1, _BLOCK_VALUES // max(1, width))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def squared_row_norms(X: Matrix) -> Floats:
    """Return the squared Euclidean norm of every row in float64; (n_items,)."""
    if is_sparse(X):
        squares = np.square(X.data, dtype=np.float64)
        return np.asarray(np.bincount(_entry_rows(X), squares, X.shape[0]), dtype=np.float64)
    norms = np.empty(X.shape[0])
    for block in row_blocks(*X.shape):
        rows = X[block].astype(np.float64, copy=False)
        np.einsum("ij,ij->i", rows, rows, out=norms[block])
    return norms


def unit_rows(X: Matrix) -> Matrix:
    """Return the matrix with rows of Euclidean norm one; rows of zeros stay zero."""
    norms = np.sqrt(squared_row_norms(X)).astype(X.dtype)
    norms[norms == 0] = 1
    if is_sparse(X):
        return with_data(X, X.data / norms[_entry_rows(X)])
    return X / norms[:, np.newaxis]


def column_moments(X: Matrix) -> tuple[Floats, Floats]:
    """Return mean and variance of every column, accumulated in float64 in two passes.

    Parameters
    ----------
    X : (n_items, n_features)
        Dense or canonical CSR; CSR costs time in proportion to what it stores.

    Returns
    -------
    mean : (n_features,)
    variance : (n_features,)
        About the mean, divided by the number of rows.

    Examples
    --------
    >>> column_moments(np.array([[1.0, 2.0], [3.0, 2.0]]))
    (array([2., 2.]), array([1., 0.]))
    """
    n_rows, width = X.shape
    if is_sparse(X):
        mean = np.bincount(X.indices, weights=X.data, minlength=width) / n_rows
        spread = np.square(X.data - mean[X.indices])
        stored = np.bincount(X.indices, minlength=width)
        total = np.bincount(X.indices, weights=spread, minlength=width)
        return mean, (total + (n_rows - stored) * np.square(mean)) / n_rows
    mean = X.mean(axis=0, dtype=np.float64)
    total = np.zeros(width)
    for block in row_blocks(n_rows, width):
        total += np.square(X[block] - mean).sum(axis=0)
    return mean, total / n_rows


def with_data(X: Matrix, data: Array) -> Matrix:
    """Return a CSR matrix with the pattern of `X` and other values."""
    return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)


def _entry_rows(X: Matrix) -> Array:
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def _checked(estimator: Any, X: Any, *, reset: bool) -> Matrix:
    """Check through scikit-learn, which owns the wording; raise our own kind, name a bad row."""
    if is_sparse(X) or np.ma.isMaskedArray(X):
        X = as_rows(X, "input")
    try:
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=1 if reset else 0,  # an empty chunk is no mistake
        )
    except ValueError as error:
        raise ViewError(str(error)) from error
    row = first_bad_row(X)
    if row is not None:
        raise ViewError(f"input has a NaN or infinite value in row {row}; remove or impute it")
    if not is_sparse(X):
        return X
    X = sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _take(arrays: dict[str, Array], name: str, owner: str) -> Array:
    if name not in arrays:
        raise InvalidInputError(f"state of {owner} lacks the array {name!r}")
    return np.asarray(arrays.pop(name))


def _number(array: Array, name: str, owner: str) -> Any:
    if array.size != 1 or array.dtype.kind not in "iuf":
        raise InvalidInputError(f"{name!r} of {owner} must be one number, got {array!r}")
    return array.item()


def _take_value(arrays: dict[str, Array], name: str, owner: str) -> Any:
    if f"{name}.indptr" not in arrays:
        return _take(arrays, name, owner)
    data, indices, indptr, shape = (_take(arrays, f"{name}.{part}", owner) for part in _CSR_PARTS)
    try:
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise InvalidInputError(f"{name!r} of {owner} is no CSR matrix: {error}") from error
    return matrix


def _check_axes(value: Any, axes: tuple[str, ...], sizes: dict[str, int], name: str) -> None:
    if value.ndim != len(axes):
        raise InvalidInputError(f"{name} has {value.ndim} dimensions, not {len(axes)}")
    for axis, length in zip(axes, value.shape, strict=True):
        expected = sizes.setdefault(axis, length)
        if expected != length:
            raise InvalidInputError(f"{name} has {length} entries along {axis}, not {expected}")

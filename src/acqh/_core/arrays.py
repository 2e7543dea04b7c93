"""Array types and the checks every room makes on matrices that users hand in."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from acqh.errors import InvalidInputError, ViewError

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Ints: TypeAlias = npt.NDArray[np.integer[Any]]
Bools: TypeAlias = npt.NDArray[np.bool_]
# A matrix of a view: dense (n_items, n_features), or CSR of the same shape.
Matrix: TypeAlias = Any

_NAN_CHECK_ROWS = 65_536


def is_sparse(matrix: Any) -> bool:
    """Whether the argument is any SciPy sparse matrix or array."""
    return bool(sp.issparse(matrix))


def as_matrix(value: Any, name: str) -> Matrix:
    """Check one view and return it as a 2-d array or CSR, without copying where possible.

    Parameters
    ----------
    value : array-like or sparse, (n_items, n_features)
        Numbers; booleans and integers are kept as they are.
    name : str
        What to call it in an error, such as ``"view 'image'"``.

    Returns
    -------
    ndarray or csr_array, (n_items, n_features)

    Raises
    ------
    ViewError
        Not two-dimensional, not numbers, or a value is NaN or infinite; the row is named.

    Examples
    --------
    >>> as_matrix([[1.0, 2.0]], "view 'image'").shape
    (1, 2)
    """
    if is_sparse(value):
        matrix = sp.csr_array(value)
        values = matrix.data
    else:
        matrix = np.asarray(value)
        values = matrix
    if matrix.ndim != 2:
        raise ViewError(
            f"{name} has {matrix.ndim} dimensions; give a matrix of shape (items, features)"
        )
    if values.dtype.kind not in "buif":
        raise ViewError(f"{name} has dtype {values.dtype}; give numbers")
    if matrix.shape[1] == 0:
        raise ViewError(f"{name} has no columns")
    if values.dtype.kind == "f":
        row = first_bad_row(matrix)
        if row is not None:
            raise ViewError(f"{name} has a NaN or infinite value in row {row}; remove or impute it")
    return matrix


def first_bad_row(matrix: Matrix) -> int | None:
    """Return the first row with a value that is not finite, or None; reads blocks of rows."""
    if is_sparse(matrix):
        bad = np.flatnonzero(~np.isfinite(matrix.data))
        return (
            None if bad.size == 0 else int(np.searchsorted(matrix.indptr, bad[0], side="right") - 1)
        )
    for start in range(0, matrix.shape[0], _NAN_CHECK_ROWS):
        block = matrix[start : start + _NAN_CHECK_ROWS]
        # Quicker than to look at each: a sum is finite only if all are. It may overflow, too.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum()):
                continue
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            return start + int(np.argmin(finite))
    return None


def check_width(matrix: Matrix, expected: int, name: str) -> None:
    """Raise ViewError unless the matrix has the number of columns that was fitted."""
    if matrix.shape[1] != expected:
        raise ViewError(f"{name} has {matrix.shape[1]} columns, but {expected} were fitted")


def check_positive_int(value: Any, name: str, *, minimum: int = 1) -> int:
    """Return the value as an int; refuse what is not a whole number of at least `minimum`.

    Examples
    --------
    >>> check_positive_int(3, "k")
    3
    """
    if (
        isinstance(value, bool | np.bool_)
        or not isinstance(value, int | np.integer)
        or value < minimum
    ):
        raise InvalidInputError(
            f"{name} must be a whole number of at least {minimum}, got {value!r}"
        )
    return int(value)

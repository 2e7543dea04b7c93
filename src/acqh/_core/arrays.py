"""Array types, and validation of matrices."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from acqh._core.imports import require
from acqh.errors import AcqhError, InvalidInputError, ViewError

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Ints: TypeAlias = npt.NDArray[np.integer[Any]]
Bools: TypeAlias = npt.NDArray[np.bool_]
# A matrix of a view: dense (n_items, n_features), or CSR of the same shape.
Matrix: TypeAlias = Any

# Rows that are mapped and summed at a time.
CHUNK_ROWS = 16_384
_NAN_CHECK_ROWS = 65_536
# Half precision is summed in single: its largest number is 65,504.
_SUMS = {np.dtype(np.float16): np.dtype(np.float32)}


class NotFiniteError(ViewError):
    """A value is NaN or infinite; `args` are the name of its array, its row, and its file or ""."""

    def __init__(self, name: str, row: int, file: str = "") -> None:
        super().__init__(name, row, file)

    def __str__(self) -> str:
        name, row, file = self.args
        where = f"{file}: " if file else ""
        return f"{where}{name} has a NaN or infinite value in row {row}; remove or impute it"


def is_sparse(matrix: Any) -> bool:
    """Whether the argument is any SciPy sparse matrix or array."""
    # No sparse matrix exists before the module is imported, which takes longer than a query.
    issparse = getattr(sys.modules.get("scipy.sparse"), "issparse", None)
    return issparse is not None and bool(issparse(matrix))


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor; does not import torch.

    Examples
    --------
    >>> is_tensor([1.0])
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def device_of(views: Any, labels: Any = None) -> Any:
    """Return the device of the first tensor among views and labels, None if all are arrays."""
    matrices = [*views.values()] if isinstance(views, Mapping) else []
    return next((value.device for value in [*matrices, labels] if is_tensor(value)), None)


def as_matrix(value: Any, name: str) -> Matrix:
    """Check one view and return it as a 2-d array or CSR, without copying where possible.

    Parameters
    ----------
    value : array-like or sparse, (n_items, n_features)
        Numbers; booleans and integers are not converted.
    name : str
        Its name in errors, such as ``"view 'image'"``.

    Returns
    -------
    ndarray or csr_array, (n_items, n_features)
        In native byte order; floats wider than 64 bits become float64.

    Raises
    ------
    ViewError
        Not two-dimensional, not numbers, or a value is masked, NaN or infinite; the row is named.
        A sparse matrix whose indices lie outside it.

    Examples
    --------
    >>> as_matrix([[1.0, 2.0]], "view 'image'").shape
    (1, 2)
    """
    matrix = as_rows(value, name)
    values = matrix.data if is_sparse(matrix) else matrix
    if matrix.ndim != 2:
        raise ViewError(f"{name} has {matrix.ndim} dimensions; give a matrix (n_items, n_features)")
    if values.dtype.kind not in "buif":
        raise ViewError(f"{name} has dtype {values.dtype}; give numbers")
    if matrix.shape[1] == 0:
        raise ViewError(f"{name} has no columns; give at least one feature")
    if values.dtype.kind == "f":
        row = first_bad_row(matrix)
        if row is not None:
            raise NotFiniteError(name, row)
    return matrix


def as_rows(value: Any, name: str, error: type[AcqhError] = ViewError) -> Matrix:
    """Return an array or CSR; reject values that would be misread as numbers.

    Parameters
    ----------
    value : array-like or sparse
        Or an array of another library, on any device; see `to_numpy`.
    name : str
        Its name in errors.
    error : type of AcqhError
        Type of errors.

    Returns
    -------
    ndarray or csr_array
        In native byte order; floats wider than 64 bits become float64.

    Raises
    ------
    error
        Entries are masked; a sparse matrix is inconsistent; the rows differ in length.

    Examples
    --------
    >>> as_rows([[1, 2]], "view 'image'")
    array([[1, 2]])
    """
    if is_sparse(value):
        return _as_csr(value, name, error)
    if np.ma.isMaskedArray(value) and np.ma.getmask(value).any():
        row = int(np.argwhere(np.ma.getmaskarray(value))[0][0])
        raise error(
            f"{name} has a masked entry in row {row}; fill or drop it (if items lack a view, fill "
            "its rows with 0 and pass present=)"
        )
    try:
        array = np.asarray(to_numpy(value)[0])
    except ValueError as wrong:
        raise error(f"{name} is not an array of numbers: {wrong}") from wrong
    with np.errstate(over="ignore"):  # overflow becomes infinity, which the caller rejects
        return array.astype(_native_dtype(array.dtype), copy=False)


def _native_dtype(dtype: "np.dtype[Any]") -> "np.dtype[Any]":
    """Return the dtype in native byte order, no wider than float64."""
    if dtype.kind == "f" and dtype.itemsize > 8:
        return np.dtype(np.float64)
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def _as_csr(value: Any, name: str, error: type[AcqhError]) -> Matrix:
    """Return CSR with all indices in range, as compiled loops require."""
    import scipy.sparse as sp

    try:
        # SciPy does not check indices by itself, and accesses memory out of bounds.
        if value.format in ("csr", "csc", "bsr"):
            kind = type(value)
            value = kind((value.data, value.indices, value.indptr), shape=value.shape)
            value.check_format(full_check=True)
        elif value.format == "coo":
            value = type(value)((value.data, value.coords), shape=value.shape)
        matrix = sp.csr_array(value)
        matrix.check_format(full_check=True)
    except ValueError as wrong:
        raise error(f"{name} is not a valid sparse matrix: {wrong}; create it again") from wrong
    dtype = _native_dtype(matrix.dtype)
    return matrix if matrix.dtype == dtype else matrix.astype(dtype)


def first_bad_row(matrix: Matrix) -> int | None:
    """Return the first row with a value that is not finite, or None; reads blocks of rows."""
    if is_sparse(matrix):
        bad = np.flatnonzero(~np.isfinite(matrix.data))
        return (
            None if bad.size == 0 else int(np.searchsorted(matrix.indptr, bad[0], side="right") - 1)
        )
    for start in range(0, matrix.shape[0], _NAN_CHECK_ROWS):
        block = matrix[start : start + _NAN_CHECK_ROWS]
        # Faster than checking each value: a finite sum has finite terms. It may also overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum(dtype=_SUMS.get(block.dtype))):
                continue
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            return start + int(np.argmin(finite))
    return None


def validated_rows(
    estimator: Any, X: Any, *, reset: bool, error: type[AcqhError], **options: Any
) -> Matrix:
    """Return the rows of an estimator as scikit-learn checks them, in single or double precision.

    `reset`: whether their width is fitted, or compared. `options`: of ``validate_data``. Raises
    `error`: with the message of scikit-learn, or with the first row that is not finite.
    """
    from sklearn.utils.validation import validate_data

    X = as_rows(X, "input", error) if is_sparse(X) or np.ma.isMaskedArray(X) else to_numpy(X)[0]
    dtypes = [np.float64, np.float32]
    try:
        X = validate_data(
            estimator, X, reset=reset, dtype=dtypes, ensure_all_finite=False, **options
        )
    except ValueError as wrong:
        raise error(str(wrong)) from wrong
    row = first_bad_row(X)
    if row is not None:
        raise error(f"input has a NaN or infinite value in row {row}; remove or impute it")
    return X


def unit_rows(rows: Any) -> Any:
    """Return rows (dense, CSR or tensor) scaled to unit length; rows of zeros stay zero.

    Arrays equal scikit-learn's ``normalize`` to the bit, except dense rows too short for it.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    if is_tensor(rows):
        norms = (rows * rows).sum(dim=1, keepdim=True).sqrt()
        return rows / norms.masked_fill(norms == 0, 1.0)
    if is_sparse(rows):
        from sklearn.preprocessing import normalize

        return normalize(rows)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    short = lengths < 10 * np.finfo(lengths.dtype).eps
    lengths[short] = 1.0
    units = np.asarray(rows / lengths[:, np.newaxis])
    if short.any():
        # Their squares may underflow.
        largest = np.abs(rows[short]).max(axis=1, keepdims=True)
        near_one = rows[short] / np.where(largest > 0, largest, 1.0)
        units[short] = near_one / np.maximum(np.linalg.norm(near_one, axis=1, keepdims=True), 1.0)
    return units


def check_width(matrix: Matrix, expected: int, name: str) -> None:
    """Raise ViewError unless the matrix has the number of features of ``fit``."""
    if matrix.shape[1] != expected:
        raise ViewError(f"{name} has {matrix.shape[1]} features, expected {expected} as in fit")


def check_name(widths: Mapping[str, int], view: str) -> None:
    """Raise ViewError for a view that was not fitted."""
    if view not in widths:
        raise ViewError(f"unknown view {view!r}; the model was fitted with {sorted(widths)}")


def check_view(widths: Mapping[str, int], X: Any, view: str) -> Matrix:
    """Return rows of a fitted view as a matrix; reject another view or width."""
    check_name(widths, view)
    matrix = as_matrix(X, f"view '{view}'")
    check_width(matrix, widths[view], f"view '{view}'")
    return matrix


def count_paired(views: Mapping[str, Any], labels: Any = None) -> int:
    """Return the number of rows of all views and the labels; raise ViewError if they differ."""
    lengths = {f"view '{name}'": matrix.shape[0] for name, matrix in views.items()}
    if labels is not None:
        lengths["the labels"] = labels.shape[0]
    if len(set(lengths.values())) > 1:
        rows = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ViewError(f"views and labels differ in their number of rows ({rows})")
    return int(next(iter(lengths.values())))


def slices(n_rows: int, size: int) -> Iterator[slice]:
    """Yield the slices of blocks of rows; the last block may be smaller.

    Examples
    --------
    >>> [*slices(5, 2)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def group_rows(masks: Mapping[str, Bools], rows: Ints) -> Iterator[tuple[tuple[str, ...], Ints]]:
    """Yield each combination of masks and the rows for which exactly these masks are True.

    Rows without any mask are skipped.

    Examples
    --------
    >>> masks = {"image": np.array([True, True]), "text": np.array([True, False])}
    >>> [(names, rows.tolist()) for names, rows in group_rows(masks, np.arange(2))]
    [(('image',), [1]), (('image', 'text'), [0])]
    """
    names = np.array(list(masks))
    chosen = np.stack([mask[rows] for mask in masks.values()])
    first = chosen[:, :1]
    if (chosen == first).all():  # one combination, the usual case: faster than np.unique
        if first.any() or not len(rows):
            yield tuple(names[first.all(axis=1)].tolist()), rows
        return
    patterns, inverse = np.unique(chosen, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        if pattern.any():
            yield tuple(names[pattern].tolist()), rows[inverse.ravel() == number]


def take_rows(matrix: Matrix, rows: Ints) -> Matrix:
    """Return rows, in rising order; a view without a copy if they are consecutive."""
    if len(rows) == matrix.shape[0]:
        return matrix
    is_consecutive = len(rows) == rows[-1] - rows[0] + 1
    return matrix[rows[0] : rows[-1] + 1] if is_consecutive else matrix[rows]


def upcast_half(matrix: Matrix) -> Matrix:
    """Return float16 as float32; other dtypes unchanged."""
    return matrix.astype(np.float32) if matrix.dtype == np.float16 else matrix


def map_features(feature_maps: Mapping[str, Any], matrix: Matrix, view: str) -> Matrix:
    """Return a view's rows through its feature map, if it has one."""
    matrix = upcast_half(matrix)
    if view not in feature_maps:
        return matrix
    if not matrix.shape[0]:  # maps of scikit-learn reject matrices without rows
        return feature_maps[view].transform(np.zeros((1, matrix.shape[1])))[:0]
    return feature_maps[view].transform(matrix)


def mapped_blocks(
    feature_maps: Mapping[str, Any], matrix: Matrix, view: str
) -> Iterator[tuple[slice, Matrix]]:
    """Yield blocks of rows of a checked view through its feature map."""
    for rows in slices(matrix.shape[0], CHUNK_ROWS):
        yield rows, map_features(feature_maps, matrix[rows], view)


def check_positive(value: float | None, name: str) -> None:
    """Raise InvalidInputError for a number that is not finite or not above zero; None is fine."""
    if value is not None and not (np.isfinite(value) and value > 0):
        raise InvalidInputError(f"{name} must be a positive number, got {value!r}")


def as_numbers(value: Any, name: str, shape: str) -> Array:
    """Return an array of numbers with the number of axes of a shape, or raise InvalidInputError.

    Examples
    --------
    >>> as_numbers([[1, 2]], "vectors", "(n_items, n_components)").shape
    (1, 2)
    """
    array = as_rows(value, name, InvalidInputError)
    if array.ndim != 1 + shape.count(",") or array.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"{name} must be numbers of shape {shape}, got {array.dtype} of shape {array.shape}"
        )
    return cast(Array, array)


def check_positive_int(value: Any, name: str, *, minimum: int = 1) -> int:
    """Return the value as an int; raise unless it is a whole number of at least `minimum`.

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


# Converts a NumPy array to the array library and device of an argument.
FromNumpy: TypeAlias = Callable[[Array], Any]


def to_numpy(value: Any) -> tuple[Any, FromNumpy | None]:
    """Return an array of any library for NumPy, and a function that converts results back.

    Copies torch tensors, on any device, and arrays of libraries that follow the array API (CuPy,
    JAX) to the host if necessary. Returns other values unchanged, with None: results stay NumPy
    arrays.

    Examples
    --------
    >>> to_numpy([[1.0]])
    ([[1.0]], None)
    """
    if isinstance(value, np.ndarray | list | tuple):
        return value, None
    if hasattr(value, "detach") and hasattr(value, "new_tensor"):  # torch, without importing it
        return _torch_to_numpy(value)
    if hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):
        # CuPy arrays have no namespace attribute, and reject implicit conversion to NumPy.
        return value.get(), partial(_to_library, sys.modules[type(value).__module__.split(".")[0]])
    if hasattr(value, "__array_namespace__") and hasattr(value, "__dlpack__"):
        return np.asarray(value), partial(_to_library, value.__array_namespace__())
    return value, None


def _to_library(namespace: Any, array: Array) -> Any:
    """Return an array of a library; JAX has no 64-bit types by default."""
    converted = namespace.asarray(np.ascontiguousarray(array))
    is_cut = array.dtype == np.int64 and array.size > 0 and "int32" in str(converted.dtype)
    if is_cut and max(int(array.max()), -int(array.min())) >= 2**31:
        raise InvalidInputError(
            "ids do not fit the 32-bit integers of the queries' array library; enable 64 bits "
            "there, or pass queries as a NumPy array"
        )
    return converted


def _torch_to_numpy(tensor: Any) -> tuple[Array, FromNumpy]:
    host = tensor.detach().to("cpu")
    if host.is_floating_point() and host.element_size() < 4:  # NumPy has no bfloat16
        host = host.float()

    def from_numpy(array: Array) -> Any:
        torch = require("torch")
        return torch.from_numpy(np.array(array)).to(tensor.device)  # a writable copy

    return host.numpy(), from_numpy


def pack_texts(texts: Iterable[str], name: str = "id") -> tuple[Array, Ints]:
    """Return the UTF-8 bytes of texts, uint8 (n_bytes,), and their starts and the end of the last.

    `name`: of a text in errors. Raises InvalidInputError: a text is not valid Unicode.

    Examples
    --------
    >>> pack_texts(["ab", "", "c"])
    (array([97, 98, 99], dtype=uint8), array([0, 2, 2, 3]))
    """
    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{name} {error.object!r} is not valid text: {error.reason}"
        ) from error
    starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), starts

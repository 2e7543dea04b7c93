"""Check the arguments of MultiViewData once, on construction; errors name the wrong value."""

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Bools, Ints, Matrix, as_matrix, as_rows, is_sparse, slices
from acqh._core.labels import as_label_matrix
from acqh.data.splits import name_part
from acqh.errors import DuplicateIdError, InvalidInputError, LabelError, ViewError

_BLOCK_ROWS = 16_384


def check_views(
    views: Mapping[str, Any], present: Mapping[str, Any], n_items: int | None = None
) -> tuple[dict[str, Matrix], dict[str, Bools]]:
    """Return the views as matrices with one row per item, and for each the rows that have it."""
    if not isinstance(views, Mapping):
        raise ViewError(
            f"views must be a mapping of names to matrices, got {type(views).__name__}; "
            "give {'image': X, 'text': Y}"
        )
    if not views:
        raise ViewError("there are no views; give at least one, such as {'image': X}")
    for name in views:
        if not isinstance(name, str) or not name:
            raise ViewError(f"view names must be non-empty strings, got {name!r}")
    for name in present:
        if name not in views:
            raise ViewError(f"present names the view {name!r}, but the views are {list(views)}")
    raw = {name: as_rows(value, f"view {name!r}") for name, value in views.items()}
    n_rows = _check_paired(raw, n_items)
    masks = {
        name: _check_mask(present[name], name, n_rows) if name in present else np.ones(n_rows, bool)
        for name in raw
    }
    matrices = {
        name: as_matrix(_zero_absent(matrix, masks[name]), f"view {name!r}")
        for name, matrix in raw.items()
    }
    return matrices, masks


def _check_paired(raw: Mapping[str, Any], n_items: int | None) -> int:
    """Return the common number of rows of all views, which must equal `n_items` if it is set."""
    first = next(iter(raw))
    for name, matrix in raw.items():
        if matrix.ndim != 2:
            as_matrix(matrix, f"view {name!r}")  # raises with the expected shape
        n_rows, expected = matrix.shape[0], raw[first].shape[0] if n_items is None else n_items
        if n_rows != expected:
            other = (
                f"{first!r} has {expected}" if n_items is None else f"there are {expected} items"
            )
            raise ViewError(f"view {name!r} has {n_rows} rows, {other}; views are paired by row")
    if raw[first].shape[0] == 0:
        raise ViewError("the views have no rows; give at least one item")
    return int(raw[first].shape[0])


def _check_mask(present: Any, name: str, n_rows: int) -> Bools:
    mask = np.array(present)
    if mask.dtype != bool:
        raise ViewError(
            f"present of view {name!r} has dtype {mask.dtype}; give one True or False per row"
        )
    if mask.shape != (n_rows,):
        raise ViewError(
            f"present of view {name!r} has shape {mask.shape}, but the view has {n_rows} rows; "
            "give one True or False per row"
        )
    return mask


def check_items_have_views(present: Mapping[str, Bools], ids: Array) -> None:
    """Raise ViewError for an item without any view."""
    has_view = np.logical_or.reduce(list(present.values()))
    if not has_view.all():
        row = int(np.argmin(has_view))
        raise ViewError(
            f"the item in row {row} (id {ids[row]}) is in no view; "
            "every item needs at least one, remove it"
        )


def _zero_absent(matrix: Matrix, present: Bools) -> Matrix:
    """Set absent rows to zero; copy only if one of them is not zero."""
    if present.all():
        return matrix
    if not is_sparse(matrix):
        # In blocks, since the absent rows of a mapped file may not fit into memory.
        blocks = slices(len(matrix), _BLOCK_ROWS)
        if any(np.any(matrix[rows][~present[rows]]) for rows in blocks):
            matrix = matrix.copy()
            matrix[~present] = 0
        return matrix
    lengths = np.diff(matrix.indptr)
    if not lengths[~present].any():
        return matrix
    keep = np.repeat(present, lengths)
    indptr = np.concatenate([[0], np.cumsum(np.where(present, lengths, 0))])
    return sp.csr_array((matrix.data[keep], matrix.indices[keep], indptr), shape=matrix.shape)


def check_labels(
    labels: Any, names: Sequence[str] | None, n_items: int
) -> tuple[Matrix | None, tuple[str, ...]]:
    """Return labels as a 0/1 matrix with one row per item, and the names of its columns."""
    if labels is None:
        if names is not None:
            raise LabelError("label_names were given without labels; give both or neither")
        return None, ()
    matrix, checked = as_label_matrix(labels, names)
    if matrix.shape[0] != n_items:
        raise LabelError(f"labels have {matrix.shape[0]} rows, but the views have {n_items}")
    return matrix, checked


def check_ids(ids: Any, n_items: int) -> Array:
    """Return ids as int64 or strings, one per item, all different; 0, 1, 2, ... by default."""
    if ids is None:
        return np.arange(n_items, dtype=np.int64)
    array = np.asarray(ids)
    if array.dtype == object and all(isinstance(value, str) for value in array.flat):
        array = array.astype(str)
    if array.dtype.kind not in "iuU":
        raise InvalidInputError(f"ids have dtype {array.dtype}; give whole numbers or strings")
    if array.shape != (n_items,):
        raise InvalidInputError(f"ids have shape {array.shape}; give one id for each of {n_items}")
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InvalidInputError(f"id {array.max()} does not fit in 64 signed bits; use strings")
    if array.dtype.kind != "U":
        array = array.astype(np.int64, copy=False)
    check_unique_ids(array)
    return array


def check_unique_ids(ids: Array) -> None:
    """Raise DuplicateIdError for an id that occurs twice; name it and its rows."""
    order = np.argsort(ids, kind="stable")
    ranked = ids[order]
    again = np.flatnonzero(ranked[1:] == ranked[:-1])
    if again.size:
        first = again[0]
        raise DuplicateIdError(
            f"id {ranked[first].item()!r} occurs more than once "
            f"(rows {order[first]} and {order[first + 1]}); ids must differ"
        )


def check_items(items: Mapping[str, Any] | None, n_items: int) -> dict[str, Array]:
    """Return the item table, an entry per item and column: numbers as arrays, others as objects."""
    table = {}
    for name, values in (items or {}).items():
        column = _as_column(values)
        if column.ndim == 0 or len(column) != n_items:
            size = "a single value" if column.ndim == 0 else f"{len(column)} entries"
            raise InvalidInputError(
                f"column {name!r} of the item table has {size}, but there are {n_items} items"
            )
        table[str(name)] = column
    return table


def _as_column(values: Any) -> Array:
    # Strings of a list become objects: a NumPy string array pads every text to the longest.
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        return np.asarray(values)
    entries = list(values)
    if entries and all(isinstance(entry, Number | np.bool_) for entry in entries):
        return np.asarray(entries)
    return np.fromiter(entries, dtype=object, count=len(entries))


def check_splits(splits: Mapping[str, Any] | None, n_items: int) -> dict[str, Ints]:
    """Return named sets of rows: inside the data, without repeats, those of one split disjoint."""
    checked: dict[str, Ints] = {}
    used_rows: dict[str, Bools] = {}
    for name, rows in (splits or {}).items():
        array = np.asarray(rows)
        if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0:
            raise InvalidInputError(f"split {name!r} must be a non-empty list of row numbers")
        if array.min() < 0 or array.max() >= n_items:
            raise InvalidInputError(
                f"split {name!r} has row numbers from {array.min()} to {array.max()}, "
                f"but rows go from 0 to {n_items - 1}"
            )
        others = used_rows.setdefault(name_part(str(name))[0], np.zeros(n_items, dtype=bool))
        if len(np.unique(array)) != len(array) or others[array].any():
            raise InvalidInputError(
                f"split {name!r} repeats a row, or shares one with another part of the same split"
            )
        others[array] = True
        checked[str(name)] = array.astype(np.int64, copy=False)
    return checked


def check_rows(rows: Any, n_items: int) -> slice | Ints:
    """Return a selection of rows as a slice or as row numbers from 0 to n_items - 1."""
    if isinstance(rows, slice):
        if len(range(*rows.indices(n_items))) == 0:
            raise InvalidInputError(f"{rows} selects no rows of {n_items}")
        return rows
    array = np.asarray(rows)
    if array.ndim != 1:
        raise InvalidInputError(
            f"rows have {array.ndim} dimensions; give row numbers, a mask or a slice"
        )
    if array.dtype == bool:
        if len(array) != n_items:
            raise InvalidInputError(f"the row mask has {len(array)} entries for {n_items} items")
        array = np.flatnonzero(array)
    if array.size == 0:
        raise InvalidInputError("no rows were selected; select at least one")
    if array.dtype.kind not in "iu":
        raise InvalidInputError(f"row numbers have dtype {array.dtype}; give whole numbers")
    wrong = (array < -n_items) | (array >= n_items)
    if wrong.any():
        raise InvalidInputError(
            f"row {array[np.argmax(wrong)]} does not exist; there are {n_items} items"
        )
    return np.where(array < 0, array + n_items, array).astype(np.int64)

"""Labels in any accepted form, converted to a 0/1 matrix with named columns."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Matrix, as_rows, is_sparse, to_numpy
from acqh.errors import InvalidInputError, LabelError

# Class ids and label sets become a dense matrix up to this many classes, CSR above.
MAX_DENSE_CLASSES = 256


def as_label_matrix(
    labels: Any, names: Sequence[str] | None = None
) -> tuple[Matrix, tuple[str, ...]]:
    """Return labels of any accepted form as a 0/1 matrix, and the names of its columns.

    Parameters
    ----------
    labels : array-like or sequence of sets
        A 0/1 matrix (n_items, n_labels), dense or sparse. Or class ids (n_items,), integers or
        strings. Or n_items sets or lists of label names.
    names : sequence of str, optional
        Column names of a matrix; the classes, in order, of ids or sets. Required if a subset of the
        data must have the same columns as all data.

    Returns
    -------
    matrix : uint8 ndarray or csr_array, (n_items, n_labels)
    names : tuple of str

    Raises
    ------
    LabelError
        Values other than 0 and 1, wrong number of names, an id or name not in `names`, no labels.

    Examples
    --------
    >>> matrix, names = as_label_matrix([{"dog"}, {"cat", "dog"}])
    >>> names
    ('cat', 'dog')
    >>> matrix
    array([[0, 1],
           [1, 1]], dtype=uint8)
    """
    if names is None and getattr(labels, "ndim", 1) == 2 and hasattr(labels, "columns"):
        names = [str(column) for column in labels.columns]  # of a data frame
    if is_sparse(labels):
        return _from_sparse(labels, names)
    labels, _ = to_numpy(labels)
    if _is_list_of_sets(labels):
        return _from_sets(labels, names)
    array = as_rows(labels, "labels", LabelError)
    if array.ndim == 1:
        return _from_class_ids(array, names)
    if array.ndim != 2:
        raise LabelError(
            f"labels have {array.ndim} dimensions; give a 0/1 matrix, class ids or sets of names"
        )
    _check_zero_one(array, array)
    return np.ascontiguousarray(array, dtype=np.uint8), _column_names(array.shape[1], names)


def _is_list_of_sets(labels: Any) -> bool:
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return False
    if not isinstance(labels, Iterable) or isinstance(labels, str | bytes):
        raise LabelError("labels must be a 0/1 matrix, class ids, or a sequence of sets of names")
    items = list(labels)
    if any(isinstance(item, set | frozenset) for item in items):
        return True
    return any(
        isinstance(item, list | tuple) and (not item or isinstance(item[0], str)) for item in items
    )


def _column_names(n_labels: int, names: Sequence[str] | None) -> tuple[str, ...]:
    if n_labels == 0:
        raise LabelError("labels have no columns; give at least one label")
    if names is None:
        return tuple(str(column) for column in range(n_labels))
    if len(names) != n_labels:
        raise LabelError(f"{len(names)} label names for {n_labels} label columns; give one each")
    if len(set(names)) != len(names):
        raise LabelError("a label name occurs more than once; make label names unique")
    return tuple(str(name) for name in names)


def _check_zero_one(values: Any, shown: Any) -> None:
    if values.dtype.kind not in "buif":
        raise LabelError(
            f"labels have dtype {values.dtype}; give 0/1 numbers, class ids or sets of names"
        )
    wrong = ~((values == 0) | (values == 1))
    if wrong.any():
        where = np.argwhere(wrong)[0]
        raise LabelError(f"labels must be 0 or 1, got {shown[tuple(where)]} at row {where[0]}")


def _from_sparse(labels: Any, names: Sequence[str] | None) -> tuple[Matrix, tuple[str, ...]]:
    matrix = as_rows(labels, "labels", LabelError)
    wrong = np.flatnonzero(~((matrix.data == 0) | (matrix.data == 1)))
    if wrong.size:
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right") - 1)
        raise LabelError(f"labels must be 0 or 1, got {matrix.data[wrong[0]]} at row {row}")
    matrix = matrix.astype(np.uint8)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.nnz and matrix.data.max() > 1:
        raise LabelError("labels must be 0 or 1, but a sparse entry is stored more than once")
    return matrix, _column_names(matrix.shape[1], names)


def _from_class_ids(ids: Any, names: Sequence[str] | None) -> tuple[Matrix, tuple[str, ...]]:
    if ids.dtype.kind not in "iuUbO":
        if ids.dtype.kind == "f" and np.all(np.isfinite(ids)) and np.all(ids == np.round(ids)):
            ids = ids.astype(np.int64)
        else:
            raise LabelError(f"class ids have dtype {ids.dtype}; give whole numbers or strings")
    ids = ids.astype(str) if ids.dtype.kind in "UO" else ids
    classes, rows, column = np.unique(ids, return_index=True, return_inverse=True)
    texts = [str(value) for value in classes.tolist()]
    one_each = range(len(texts) + 1)
    matrix, checked = _one_hot(texts, one_each, texts if names is None else names, rows)
    return matrix[column.ravel()], checked


def _from_sets(labels: Any, names: Sequence[str] | None) -> tuple[Matrix, tuple[str, ...]]:
    sets = list(labels)
    flat = [str(name) for item in sets for name in item]
    names = sorted(set(flat)) if names is None else names
    return _one_hot(flat, np.cumsum([0, *map(len, sets)]), names, range(len(sets)))


def _one_hot(
    flat: list[str], indptr: Any, names: Sequence[str], rows: Any
) -> tuple[Matrix, tuple[str, ...]]:
    """Return a row for each set of labels, in CSR layout; `rows`: their numbers in errors."""
    checked = _column_names(len(names), names)
    column = {name: j for j, name in enumerate(checked)}
    indices = np.fromiter((column.get(name, -1) for name in flat), np.int32, len(flat))
    if indices.size and indices.min() < 0:
        at = int(np.argmin(indices))
        row = rows[int(np.searchsorted(indptr, at, side="right")) - 1]
        raise LabelError(f"label {flat[at]!r} in row {row} is not among the label names; add it")
    values = np.ones(len(indices), np.uint8)
    matrix = sp.csr_array((values, indices, indptr), shape=(len(rows), len(checked)))
    matrix.sum_duplicates()
    matrix.data[:] = 1  # a name may occur twice
    return (matrix.toarray() if len(checked) <= MAX_DENSE_CLASSES else matrix), checked


def split_labels(text: str, separator: str | None = None) -> list[str]:
    """Split a text into labels.

    `separator`: default ``|``; then a text with a comma or semicolon but without ``|`` is ambiguous
    and raises. Raises InvalidInputError: an ambiguous text, or an empty separator.

    Examples
    --------
    >>> split_labels("sea | sky"), split_labels("sea, sky", ",")
    (['sea', 'sky'], ['sea', 'sky'])
    """
    if separator is None:
        separator = "|"
        if separator not in text and ("," in text or ";" in text):
            raise InvalidInputError(
                f"the labels {text!r:.200} have a comma or semicolon but no '|'; set "
                "label_separator=',' for several labels, label_separator='|' for one"
            )
    if not separator:
        raise InvalidInputError("label_separator is empty; give a character, such as '|'")
    return [name for part in text.split(separator) if (name := part.strip())]

"""Columns of an Arrow table as the parts of MultiViewData."""

from typing import Any

import numpy as np

from acqh._core.arrays import Array, Bools, Matrix
from acqh._core.imports import require
from acqh.data.readers.classes import Classes
from acqh.errors import InvalidInputError, LabelError, ViewError


def is_list(kind: Any) -> bool:
    """Whether a column of this Arrow type holds a list in each row."""
    types = require("pyarrow").types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_text(kind: Any) -> bool:
    """Whether a column of this Arrow type holds texts."""
    types = require("pyarrow").types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def is_number(kind: Any) -> bool:
    """Whether a column of this Arrow type holds numbers, or truth values."""
    types = require("pyarrow").types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def is_vector(kind: Any) -> bool:
    """Whether a column of this Arrow type holds a list of numbers in each row."""
    return is_list(kind) and is_number(kind.value_type)


def is_multi_hot(kind: Any) -> bool:
    """Whether a label column of this Arrow type holds a row of 0 and 1: its width is fixed."""
    return bool(require("pyarrow").types.is_fixed_size_list(kind)) and is_vector(kind)


def list_lengths(column: Any) -> Array:
    """Return the lengths of the lists that are not null."""
    lengths = require("pyarrow.compute").list_value_length(column).drop_null()
    return np.asarray(lengths.to_numpy(zero_copy_only=False))


class ViewRows:
    """Rows of a view, put in their place as they come: no more than these are in memory at once.

    `n_rows`: how many there will be. `width`: numbers in each. `where`: what to call the column in
    an error. `first_row`: number of the first in the whole table.

    `matrix`: ndarray, (n_rows, width); null rows are zero. `present`: bool ndarray, (n_rows,).
    """

    def __init__(self, n_rows: int, width: int, where: str, first_row: int) -> None:
        self.matrix: Array = np.empty((0, width))
        self.present: Bools = np.empty(n_rows, dtype=bool)
        self._describe = (width, where)
        self._first_row = first_row
        self._n_done = 0

    def add(self, column: Any) -> None:
        """Take the next rows, a pyarrow.Array of lists, or a matrix.

        Raises ViewError: a list of another length, or with a null inside; the row is named.
        """
        n_rows = len(self.present)
        found, present = column, np.ones(len(column), dtype=bool)
        if not isinstance(column, np.ndarray):
            found, present = _chunk_matrix(column, *self._describe, self._first_row + self._n_done)
        rows = slice(self._n_done, self._n_done + len(column))
        if len(column) == n_rows:
            self.matrix = found
        else:
            if self._n_done == 0:
                self.matrix = np.empty((n_rows, found.shape[1]), found.dtype)
            self.matrix[rows] = found
        self.present[rows] = present
        self._n_done = rows.stop


def _chunk_matrix(column: Any, width: int, where: str, first_row: int) -> tuple[Array, Bools]:
    present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    rows = first_row + np.flatnonzero(present)
    lengths = list_lengths(column)
    ragged = np.flatnonzero(lengths != width)
    if ragged.size:
        at = ragged[0]
        raise ViewError(
            f"{where} has {lengths[at]} numbers in row {rows[at]}, but {width} elsewhere; "
            "every row of a view needs as many"
        )
    values = column.flatten()
    if values.null_count:
        missing = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise ViewError(
            f"{where} has a null among its numbers in row {rows[missing // width]}; make the whole "
            "list null where the view is absent"
        )
    numbers = values.to_numpy(zero_copy_only=False).reshape(len(lengths), width)
    if present.all():
        return numbers, present
    matrix = np.zeros((len(present), width), dtype=numbers.dtype)
    matrix[present] = numbers
    return matrix, present


def column_of(batch: Any, name: str) -> Any:
    """Return a column of a record batch; an array is its only one."""
    return batch if isinstance(batch, np.ndarray) else batch.column(name)


def join(pieces: list[Any]) -> Any:
    """Put pieces of a column under one another: arrays, or those of Arrow."""
    if not isinstance(pieces[0], np.ndarray):
        return require("pyarrow").chunked_array(pieces)
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def label_values(column: Any, classes: Classes, where: str, first_row: int) -> Any:
    """Return labels as MultiViewData takes them: of an array, or of a column of any known type."""
    if isinstance(column, np.ndarray):
        return classes.named(column)
    if is_multi_hot(column.type):
        return label_matrix(column, where, first_row)
    return label_sets(column, classes, where, first_row)


def label_sets(column: Any, classes: Classes, where: str, first_row: int) -> list[list[str]]:
    """Return a column of names or numbers, or of lists of them, as names; null means none.

    Raises LabelError: a null inside a list; the row is named.
    """
    sets = []
    for row, value in enumerate(column.to_pylist()):
        names = value if isinstance(value, list) else [] if value is None else [value]
        if any(name is None for name in names):
            raise LabelError(f"{where} has a null in the list of row {first_row + row}")
        sets.append([str(name) for name in (classes.named(names) if names else names)])
    return sets


def label_matrix(column: Any, where: str, first_row: int) -> Matrix:
    """Return a column of fixed-size lists of 0 and 1 as a matrix; null means no labels."""
    rows = ViewRows(len(column), column.type.list_size, where, first_row)
    try:
        for chunk in column.chunks:
            rows.add(chunk)
    except ViewError as error:
        raise LabelError(str(error)) from error
    return rows.matrix


def id_values(column: Any, where: str, first_row: int) -> Array:
    """Return a column of whole numbers or strings, none of them null, or an array as it is."""
    if isinstance(column, np.ndarray):
        return column
    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy()))
        raise InvalidInputError(f"{where} is null in row {row}; every item needs an id")
    if require("pyarrow").types.is_integer(column.type):
        return np.asarray(column.to_numpy())
    if not is_text(column.type):
        raise InvalidInputError(f"{where} is {column.type}; ids are whole numbers or strings")
    return np.asarray(column.to_pylist(), dtype=str)


def item_values(column: Any) -> Array:
    """Return any column: numbers without nulls as they are, everything else as objects."""
    if not column.null_count and is_number(column.type):
        return np.asarray(column.to_numpy())
    return np.fromiter(column.to_pylist(), dtype=object, count=len(column))

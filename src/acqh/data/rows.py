"""Selections of rows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Ints, Matrix
from acqh.errors import InvalidInputError


class TakesRows:
    """What scikit-learn asks of a table that it splits: rows by number."""

    def subset(self, rows: Any) -> Any:
        """Return some rows; defined by the class that has them."""
        raise NotImplementedError

    def take(self, rows: Any, axis: int = 0) -> Any:  # noqa: ARG002
        """Return some rows, by number: `subset`, under the name that scikit-learn calls."""
        return self.subset(rows)

    @property
    def iloc(self) -> Self:
        """The data itself: its presence tells scikit-learn that `take` gives rows."""
        return self


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


def take_each(columns: Mapping[str, Matrix], rows: slice | Ints) -> Mapping[str, Matrix]:
    """Select the same rows of every matrix or column."""
    return MappingProxyType({name: values[rows] for name, values in columns.items()})

"""The label columns of class ids, settled once for all rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh.errors import LabelError

# Labels looked at together when their names are collected.
_SCAN_ROWS = 2**20


@dataclass(frozen=True)
class Classes:
    """Names of the label columns, and from where class numbers count them, unless they are them."""

    names: tuple[str, ...] | None = None
    first: int | None = None

    def named(self, labels: Any) -> Any:
        """Return labels as they are, or the names that class numbers count."""
        if self.first is None:
            return labels
        return np.asarray(self.names)[np.asarray(labels).astype(np.int64) - self.first]


def find_classes(
    take: Callable[[int, int], Any],
    n_rows: int,
    names: Sequence[str] | None,
    where: str,
    first: int = 0,
) -> Classes:
    """Collect the class ids that are in use, and compare them with names if there are any.

    `take`: gives class ids, from one row up to, not including, another; a block is in memory at a
    time. `names`: names of the label columns. `where`: what to call the file in an error. `first`:
    from where ids may count the names; a 0 among them is the first in any case. Raises LabelError:
    the ids neither are the names nor count them.
    """
    found: Array = np.unique(take(0, min(_SCAN_ROWS, n_rows)))
    for start in range(_SCAN_ROWS, n_rows, _SCAN_ROWS):
        found = np.union1d(found, take(start, min(start + _SCAN_ROWS, n_rows)))
    return settle_classes(found, names, where, first)


def settle_classes(
    found: Array, names: Sequence[str] | None, where: str, first: int = 0
) -> Classes:
    """Compare the class ids in use, in rising order, with names if there are any.

    The rest as in `find_classes`; whole numbers may be stored as floats.
    """
    if found.dtype.kind == "f" and np.all(found == np.round(found)):
        found = found.astype(np.int64)
    as_names = tuple(str(value) for value in found.tolist())
    if names is None:
        return Classes(as_names)
    given = tuple(str(name) for name in names)
    if set(as_names) <= set(given):
        return Classes(given)
    if found.dtype.kind in "iu":
        first = min(first, max(int(found[0]), 0))
        if found[0] >= first and found[-1] - first < len(given):
            return Classes(given, first)
    raise LabelError(
        f"the class ids of {where} go from {found[0]} to {found[-1]} and neither are nor count the "
        f"{len(given)} label names"
    )

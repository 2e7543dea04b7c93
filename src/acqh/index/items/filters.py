"""Turn the ``filter`` of a search into the rows that may be found."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Bools, take_in
from acqh.errors import InvalidInputError
from acqh.index.items.ids import read_ids
from acqh.index.items.snapshot import S, Snapshot, check_kind


def rows_allowed(snapshot: Snapshot[S], filter_: Any) -> list[Bools]:
    """Read a filter.

    Parameters
    ----------
    snapshot : Snapshot
    filter_ : callable, (n_items,) bool, or iterable of ids
        A callable gets all ids, in order of insertion, and returns such a mask. A mask says which
        of the items, in order of insertion, may be found. Ids that are not there are ignored.

    Returns
    -------
    list of (n_rows,) bool
        For each part, which rows may be found; never a removed one.

    Raises
    ------
    InvalidInputError
        A mask of the wrong length or type, or ids of the wrong kind.
    """
    given = read_mask(filter_, snapshot.ids, len(snapshot))
    if given is not None:
        return _rows_of_mask(snapshot, given)
    wanted = read_ids(filter_)
    check_kind(snapshot.kind, wanted, "the filter has")
    allowed = [np.zeros(part.segment.n_rows, dtype=bool) for part in snapshot.parts]
    rows = snapshot.find(wanted) if len(wanted) else np.empty(0, dtype=np.int64)
    for mask, found in zip(allowed, snapshot.split_rows(rows[rows >= 0]), strict=True):
        mask[found] = True
    return allowed


def read_mask(filter_: Any, ids: Callable[[], Array], n_items: int) -> Bools | None:
    """Return the mask that a filter is, or gives of all ids, one boolean per item; None of ids.

    Raises InvalidInputError: a filter of another kind, or a mask of another length or type.
    """
    if isinstance(filter_, Mapping):
        raise InvalidInputError(
            "an index knows ids, not labels or columns: give ids, a mask or a function of ids as "
            "filter; a collection takes conditions, as where"
        )
    mask = np.asarray(take_in(filter_(ids()))[0]) if callable(filter_) else _as_mask(filter_)
    if mask is None:
        return None
    if mask.dtype != bool:
        raise InvalidInputError(
            f"a filter that is called must return booleans, got dtype {mask.dtype}; it is "
            "called once, with the array of all ids"
        )
    if mask.shape != (n_items,):
        raise InvalidInputError(
            f"the filter's mask has shape {mask.shape}, the index has {n_items} items; a mask says "
            "of each item, in the order of 'ids', whether it may be found"
        )
    return mask


def _as_mask(filter_: Any) -> Bools | None:
    """Return an array or column of booleans, of whatever library, as an array; None of others."""
    filter_, _ = take_in(filter_)
    if isinstance(filter_, list | tuple):
        is_mask = len(filter_) > 0 and all(isinstance(it, bool | np.bool_) for it in filter_)
        return np.asarray(filter_) if is_mask else None
    if not hasattr(filter_, "__array__"):
        return None
    array = np.asarray(filter_)
    return array if array.dtype == bool else None


def _rows_of_mask(snapshot: Snapshot[S], mask: Bools) -> list[Bools]:
    allowed, first = [], 0
    for part in snapshot.parts:
        rows = part.live_rows()
        rows[rows] = mask[first : first + part.n_live]
        first += part.n_live
        allowed.append(rows)
    return allowed

"""Several data sets put under one another."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Bools, Matrix, is_sparse
from acqh.data.checks import check_ids
from acqh.errors import InvalidInputError, ViewError

if TYPE_CHECKING:
    from acqh.data.multiview import MultiViewData


def concat_fields(parts: Sequence["MultiViewData"], ids: Any) -> dict[str, Any]:
    """Return the checked fields of the parts put together."""
    if not parts:
        raise InvalidInputError("there is nothing to put together; give at least one part")
    views, present = _stack_views(parts)
    labels, label_names = _stack_labels(parts)
    return {
        "views": views,
        "labels": labels,
        "label_names": label_names,
        "ids": check_ids(_stack_ids(parts) if ids is None else ids, sum(map(len, parts))),
        "items": _stack_items(parts),
        "present": present,
    }


def _stack_views(
    parts: Sequence["MultiViewData"],
) -> tuple[Mapping[str, Matrix], Mapping[str, Bools]]:
    """Stack every view that some part has; the rows of a part without it are absent."""
    names = list(dict.fromkeys(name for part in parts for name in part.views))
    views = {name: _stack_view(name, parts) for name in names}
    present = {
        name: np.concatenate(
            [part.present.get(name, np.zeros(len(part), dtype=bool)) for part in parts]
        )
        for name in names
    }
    return MappingProxyType(views), MappingProxyType(present)


def _stack_view(name: str, parts: Sequence["MultiViewData"]) -> Matrix:
    having = [part.views[name] for part in parts if name in part.views]
    width, dtype = having[0].shape[1], np.result_type(*(matrix.dtype for matrix in having))
    for matrix in having:
        if matrix.shape[1] != width:
            raise ViewError(
                f"view {name!r} has {width} columns in one part and {matrix.shape[1]} in another"
            )
    sparse = any(is_sparse(matrix) for matrix in having)
    pieces = [
        part.views[name] if name in part.views else _zeros((len(part), width), dtype, sparse)
        for part in parts
    ]
    return stack(pieces)


def _stack_labels(parts: Sequence["MultiViewData"]) -> tuple[Matrix | None, tuple[str, ...]]:
    """Stack labels by column name; the rows of a part without labels have none."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.label_names))
    if not names:
        return None, ()
    sparse = any(is_sparse(part.labels) for part in parts)
    column = {name: j for j, name in enumerate(names)}
    pieces = []
    for part in parts:
        shape = (len(part), len(names))
        if part.labels is None:
            pieces.append(_zeros(shape, np.dtype(np.uint8), sparse))
        elif part.label_names == names:
            pieces.append(part.labels)
        else:
            pieces.append(_spread(part.labels, [column[name] for name in part.label_names], shape))
    return stack(pieces), names


def _spread(labels: Matrix, columns: list[int], shape: tuple[int, int]) -> Matrix:
    """Move the columns of a label matrix to their places in a wider one."""
    if is_sparse(labels):
        moved = np.asarray(columns)[labels.indices]
        wide = sp.csr_array((labels.data, moved, labels.indptr), shape=shape)
        wide.sort_indices()
        return wide
    dense = np.zeros(shape, dtype=np.uint8)
    dense[:, columns] = labels
    return dense


def _zeros(shape: tuple[int, int], dtype: "np.dtype[np.generic]", sparse: bool) -> Matrix:
    return sp.csr_array(shape, dtype=dtype) if sparse else np.zeros(shape, dtype=dtype)


def stack(pieces: Sequence[Matrix]) -> Matrix:
    """Put matrices under one another."""
    if len(pieces) == 1:
        return pieces[0]
    # One sparse piece makes the whole sparse: the other way round could fill the memory.
    if any(is_sparse(piece) for piece in pieces):
        return sp.csr_array(sp.vstack([sp.csr_array(piece) for piece in pieces], format="csr"))
    return np.concatenate(pieces)


def _stack_ids(parts: Sequence["MultiViewData"]) -> Array:
    """Join the ids of the parts; all numbers or all strings."""
    if len({part.ids.dtype.kind for part in parts}) > 1:
        raise InvalidInputError("some parts have numbers as ids, others strings; give new ids")
    return np.concatenate([part.ids for part in parts])


def _stack_items(parts: Sequence["MultiViewData"]) -> Mapping[str, Array]:
    """Stack the item tables, which must have the same columns."""
    columns = list(parts[0].items)
    for part in parts:
        if set(part.items) != set(columns):
            raise InvalidInputError(
                f"the item tables differ: one part has the columns {sorted(columns)}, "
                f"another {sorted(part.items)}"
            )
    return MappingProxyType(
        {name: _stack_column([part.items[name] for part in parts]) for name in columns}
    )


def _stack_column(pieces: Sequence[Array]) -> Array:
    kinds = {piece.dtype.kind for piece in pieces}
    if len(kinds) > 1 and not kinds <= set("uifc"):
        # NumPy would write numbers and truth values as the texts, or numbers, beside them.
        pieces = [piece.astype(object) for piece in pieces]
    return np.concatenate(pieces)

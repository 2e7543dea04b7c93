"""Concatenate data sets by rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Matrix, is_sparse
from acqh.data.checks import check_ids
from acqh.errors import InvalidInputError, ViewError

if TYPE_CHECKING:
    from acqh.data.multiview import MultiViewData


def concat_fields(parts: Sequence["MultiViewData"], ids: Any) -> dict[str, Any]:
    """Return the checked fields of the concatenated parts."""
    if not parts:
        raise InvalidInputError("no data sets to concatenate; give at least one")
    if ids is None:
        if len({part.ids.dtype.kind for part in parts}) > 1:
            raise InvalidInputError("some parts have numbers as ids, others strings; give new ids")
        ids = np.concatenate([part.ids for part in parts])
    lengths = [len(part) for part in parts]
    names = list(dict.fromkeys(name for part in parts for name in part.views))
    views = {name: [part.views.get(name) for part in parts] for name in names}
    label_names = tuple(dict.fromkeys(name for part in parts for name in part.label_names))
    labels = [_spread(part, label_names) for part in parts]
    return {
        # The rows of a part without a view are absent from it; those without labels have none.
        "views": {
            name: _stack(matrices, lengths, f"view {name!r}") for name, matrices in views.items()
        },
        "present": {
            name: np.concatenate(
                [part.present.get(name, np.zeros(len(part), bool)) for part in parts]
            )
            for name in names
        },
        "labels": _stack(labels, lengths, "labels") if label_names else None,
        "label_names": label_names,
        "ids": check_ids(ids, sum(lengths)),
        "items": _stack_items(parts),
    }


def _stack(matrices: Sequence[Matrix | None], lengths: Sequence[int], where: str) -> Matrix:
    """Stack matrices of one width; None stands for a block of zero rows."""
    stored = [matrix for matrix in matrices if matrix is not None]
    width, dtype = stored[0].shape[1], np.result_type(*(matrix.dtype for matrix in stored))
    for matrix in stored:
        if matrix.shape[1] != width:
            raise ViewError(
                f"{where} has {width} columns in one part, {matrix.shape[1]} in another"
            )
    empty = sp.csr_array if any(map(is_sparse, stored)) else np.zeros
    pairs = zip(matrices, lengths, strict=True)
    return stack([empty((n, width), dtype=dtype) if m is None else m for m, n in pairs])


def _spread(part: "MultiViewData", names: tuple[str, ...]) -> Matrix | None:
    """Return the labels of a part in the columns of all parts."""
    if part.labels is None or part.label_names == names:
        return part.labels
    column = {name: j for j, name in enumerate(names)}
    columns, shape = [column[name] for name in part.label_names], (len(part), len(names))
    if is_sparse(part.labels):
        moved = np.asarray(columns)[part.labels.indices]
        wide = sp.csr_array((part.labels.data, moved, part.labels.indptr), shape=shape)
        wide.sort_indices()
        return wide
    dense = np.zeros(shape, dtype=np.uint8)
    dense[:, columns] = part.labels
    return dense


def stack(matrices: Sequence[Matrix]) -> Matrix:
    """Stack matrices vertically."""
    if len(matrices) == 1:
        return matrices[0]
    # One sparse matrix makes the result sparse: a dense result could fill the memory.
    if any(is_sparse(matrix) for matrix in matrices):
        return sp.csr_array(sp.vstack([sp.csr_array(matrix) for matrix in matrices], format="csr"))
    return np.concatenate(matrices)


def _stack_items(parts: Sequence["MultiViewData"]) -> dict[str, Array]:
    """Stack the item tables, which must have the same columns."""
    columns = list(parts[0].items)
    for part in parts:
        if set(part.items) != set(columns):
            raise InvalidInputError(
                f"the item tables differ: one part has the columns {sorted(columns)}, "
                f"another {sorted(part.items)}"
            )
    return {name: _stack_column([part.items[name] for part in parts]) for name in columns}


def _stack_column(columns: Sequence[Array]) -> Array:
    kinds = {column.dtype.kind for column in columns}
    if len(kinds) > 1 and not kinds <= set("uifc"):
        # NumPy would convert numbers to texts, and booleans to numbers.
        columns = [column.astype(object) for column in columns]
    return np.concatenate(columns)

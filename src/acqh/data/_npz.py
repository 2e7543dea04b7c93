"""Arrays of the data sets' .npz files; sparse matrices are stored as their CSR pieces."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Matrix
from acqh.data._multiview import MultiViewData


def read(
    path: Path,
    *,
    views: Mapping[str, str],
    label_names: Sequence[str] | None = None,
    extra: bool = False,
) -> MultiViewData:
    """Read views, labels, ids and official split; with `extra` also the incomplete items."""
    with np.load(path, allow_pickle=False) as arrays:
        names = arrays["label_names"].tolist() if "label_names" in arrays else label_names
        data = _build(arrays, "", views, names)
        if extra:
            data = MultiViewData.concat([data, _build(arrays, "extra_", views, names)])
    return data


def _build(
    arrays: Any, prefix: str, views: Mapping[str, str], names: Sequence[str] | None
) -> MultiViewData:
    labels = arrays.get(f"{prefix}labels", None)
    found = {view: _matrix(arrays, prefix + name) for view, name in views.items()}
    parts = {part: f"{prefix}{part}_idx" for part in ("train", "test")}
    return MultiViewData(
        {view: matrix for view, matrix in found.items() if matrix is not None},
        labels,
        ids=arrays.get(f"{prefix}image_id", None),
        label_names=None if labels is None else names,
        splits={part: arrays[name] for part, name in parts.items() if name in arrays},
    )


def _matrix(arrays: Any, name: str) -> Matrix | None:
    if name in arrays:
        return arrays[name]
    if f"{name}_indptr" not in arrays:
        return None
    data, indices, indptr, shape = (
        arrays[f"{name}_{piece}"] for piece in ("data", "indices", "indptr", "shape")
    )
    return sp.csr_array((data, indices.astype(np.int32), indptr), shape=tuple(shape))

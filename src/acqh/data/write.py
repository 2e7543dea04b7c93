"""Write MultiViewData to .npz files."""

import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, is_sparse, pack_texts
from acqh._core.files import atomic_write
from acqh.data.multiview import MultiViewData
from acqh.data.readers.arrays import CSR_SUFFIXES, TEXT_SUFFIXES
from acqh.data.readers.columns import (
    ID_NAMES,
    ITEM_PREFIX,
    LABEL_NAMES,
    LIKELY_LABELS,
    PRESENT_PREFIX,
    SPLIT_SUFFIX,
)
from acqh.errors import InvalidInputError


def save_npz(data: MultiViewData, path: str | PathLike[str], *, compress: bool = True) -> None:
    """Write data to a .npz file atomically; `read` restores it unchanged.

    The file has one array per dense view and four per sparse view (CSR). Further arrays are
    ``labels``, ``label_names``, ``ids``, ``present_VIEW``, ``item_COLUMN`` and ``SPLIT_idx``.

    Parameters
    ----------
    data : MultiViewData
    path : str or path
        Ends in ``.npz``; an existing file is replaced.
    compress : bool
        Without compression the file is larger, and chunks are memory-mapped.

    Raises
    ------
    InvalidInputError
        A view or column has a reserved name, or a column of the item table has values other than
        numbers or texts.

    Examples
    --------
    >>> import tempfile
    >>> from acqh.data import MultiViewData, read
    >>> data = MultiViewData({"image": np.eye(2)}, labels=["cat", "dog"], ids=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_npz(data, f"{folder}/pets.npz")
    ...     read(f"{folder}/pets.npz")
    MultiViewData('pets': 2 items; image 2 float64; 2 labels)
    """
    target = Path(path)
    if target.suffix != ".npz":
        raise InvalidInputError(f"the file name must end in .npz, got {target.name!r}")
    arrays = _arrays(data)
    with atomic_write(target) as scratch, scratch.open("xb") as handle:
        _write_zip(handle, arrays, compress)


def _write_zip(handle: Any, arrays: dict[str, Array], compress: bool) -> None:
    packing = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(handle, "w", packing) as archive:
        for name, array in arrays.items():
            # A fixed date: the same data give the same bytes.
            info = zipfile.ZipInfo(f"{name}.npy")
            info.compress_type = packing
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _arrays(data: MultiViewData) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for view, matrix in data.views.items():
        _check_name(view, "view")
        if data.labels is None and view.lower() in LIKELY_LABELS:
            raise InvalidInputError(
                f"the view {view!r} of data without labels would be read as labels; rename it"
            )
        arrays.update(_matrix_arrays(view, matrix))
        if not data.present[view].all():
            arrays[PRESENT_PREFIX + view] = data.present[view]
    if data.labels is not None:
        arrays.update(_matrix_arrays("labels", data.labels))
        arrays["label_names"] = _fixed_strings(data.label_names)
    arrays["ids"] = data.ids
    for part, rows in data.splits.items():
        _check_name(part, "split")
        arrays[part + SPLIT_SUFFIX] = rows
    for column, values in data.items.items():
        _check_name(column, "item column", prefixed=True)
        arrays.update(_column_arrays(column, values))
    return arrays


def _check_name(name: str, kind: str, *, prefixed: bool = False) -> None:
    """Reject a name that `read` would interpret as another kind of array."""
    reserved = not prefixed and (
        name.lower() in {*LABEL_NAMES, *ID_NAMES, "label_names"}
        or name.startswith((ITEM_PREFIX, PRESENT_PREFIX))
        or name.endswith(SPLIT_SUFFIX)
    )
    if reserved or name.endswith((*CSR_SUFFIXES, *TEXT_SUFFIXES)):
        raise InvalidInputError(
            f"the {kind} {name!r} has a name that is reserved in .npz files; rename it"
        )
    if not name or any(character in name for character in "/\\:\0"):
        raise InvalidInputError(f"the {kind} {name!r} cannot be a file name; rename it")


def _matrix_arrays(name: str, matrix: Any) -> dict[str, Array]:
    if not is_sparse(matrix):
        return {name: np.asarray(matrix)}
    arrays = (matrix.data, matrix.indices, matrix.indptr, np.asarray(matrix.shape, np.int64))
    return dict(zip((name + suffix for suffix in CSR_SUFFIXES), arrays, strict=True))


def _column_arrays(column: str, values: Array) -> dict[str, Array]:
    name = ITEM_PREFIX + column
    if values.dtype != object:
        return {name: values}
    if values.ndim != 1 or not all(isinstance(value, str) for value in values):
        odd = next((type(value).__name__ for value in values.flat if type(value) is not str), "")
        raise InvalidInputError(
            f"column {column!r} of the item table holds {odd or 'nested'} objects; a .npz file "
            "can keep numbers and texts, so convert or drop the column"
        )
    arrays = pack_texts(values, f"in column {column!r} of the item table,")
    return dict(zip((name + suffix for suffix in TEXT_SUFFIXES), arrays, strict=True))


def _fixed_strings(names: tuple[str, ...]) -> Array:
    array = np.asarray(names, dtype=str)
    if tuple(array.tolist()) != names:
        raise InvalidInputError("a label name ends in a NUL character, which cannot be stored")
    return array

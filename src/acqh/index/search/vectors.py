"""Full vectors on disk, to rank again what a search over codes found."""

from os import PathLike
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from acqh._core.arrays import Array, Floats, as_numbers, slices
from acqh.errors import CorruptBundleError, InvalidInputError, UnknownIdError
from acqh.index.items.ids import read_ids, table_from_arrays
from acqh.index.items.new_ids import NewIds
from acqh.index.items.snapshot import Snapshot
from acqh.index.items.stored import frozen, read_array, read_count, require
from acqh.io import read_bundle, write_bundle

_KIND = "vectors"
_MEMBER = "vectors"
_CHUNK = 65_536
_LEVELS = 127


@runtime_checkable
class VectorReader(Protocol):
    """Anything that gives the vectors of items by their ids; `VectorFile` is one."""

    def take(self, ids: Array) -> Floats:
        """Return the vectors of these items, (n, n_components) floats; an id may occur twice."""


class VectorFile:
    """Vectors of items on disk, mapped into memory, read as they are asked for.

    Parameters
    ----------
    path : path-like
        What `VectorFile.write` made.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptBundleError
        It is damaged.

    Examples
    --------
    >>> import tempfile
    >>> vectors = np.array([[1.0, 0.0], [0.5, -0.25]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     VectorFile.write(f"{folder}/full", vectors, ids=["a", "b"], dtype="int8")
    ...     VectorFile(f"{folder}/full").take(["b"]).round(2)
    array([[ 0.5 , -0.25]], dtype=float32)
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        bundle = read_bundle(path, kind=_KIND)
        arrays = bundle.arrays(_MEMBER)
        self._n, self._width = (read_count(bundle.info, name) for name in ("n_items", "width"))
        dtype = bundle.info.get("dtype")
        if dtype not in ("float16", "int8") or not isinstance(bundle.info.get("ids"), dict):
            raise CorruptBundleError(f"{bundle.path} does not describe vectors")
        self._vectors = read_array(arrays, "vectors", np.dtype(dtype))
        self._scales = read_array(arrays, "scales", np.float32)
        require(self._vectors.shape == (self._n, self._width), "vectors")
        require(self._scales.shape == ((self._n,) if dtype == "int8" else (0,)), "scales")
        self._ids = table_from_arrays(arrays, bundle.info["ids"], self._n)

    @classmethod
    def write(
        cls,
        path: str | PathLike[str],
        vectors: Any,
        ids: Any = None,
        *,
        dtype: Literal["float16", "int8"] = "float16",
    ) -> None:
        """Write the vectors of items.

        Parameters
        ----------
        path : path-like
            A directory, created if it does not exist.
        vectors : (n_items, n_components) floats
            May be mapped from a file; read a part at a time. What is written is in memory whole.
        ids : iterable of n whole numbers or of n str, optional
            The ids of the items in the index; 0, 1, 2 and so on if not given.
        dtype : {"float16", "int8"}
            Two bytes per component, or one and a scale for each vector.

        Raises
        ------
        InvalidInputError
            Vectors that are no matrix of finite numbers within float16, other ids than vectors.
        DuplicateIdError
            An id occurs twice.
        """
        if dtype not in ("float16", "int8"):
            raise InvalidInputError(f"dtype must be 'float16' or 'int8', got {dtype!r}")
        matrix = as_numbers(vectors, "vectors", "(n_items, n_components)")
        table = NewIds(Snapshot()).take(ids, len(matrix))
        stored = np.empty(matrix.shape, dtype=dtype)
        scales = np.empty(len(matrix) if dtype == "int8" else 0, dtype=np.float32)
        for part in slices(len(matrix), _CHUNK):
            stored[part] = _pack(matrix[part], scales[part])
        id_arrays, id_info = table.to_arrays()
        info = {"n_items": len(matrix), "width": matrix.shape[1], "dtype": dtype, "ids": id_info}
        arrays = {"vectors": frozen(stored), "scales": frozen(scales), **id_arrays}
        write_bundle(path, kind=_KIND, info=info, arrays={_MEMBER: arrays})

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"<VectorFile: {self._n} vectors of {self._width} components, {self._vectors.dtype}>"

    @property
    def bytes_per_item(self) -> float:
        """Bytes on disk for each vector, without its id."""
        return (self._vectors.nbytes + self._scales.nbytes) / max(self._n, 1)

    def take(self, ids: Any) -> Floats:
        """Return the vectors of some items.

        Parameters
        ----------
        ids : iterable of n whole numbers or of n str

        Returns
        -------
        (n, n_components) float32

        Raises
        ------
        UnknownIdError
            An item has no vector here.
        """
        wanted = read_ids(ids)
        rows = self._ids.find(wanted)
        if (rows < 0).any():
            unknown = wanted[rows < 0][:1].tolist()[0]
            raise UnknownIdError(f"there is no vector of the item {unknown!r}")
        if (rows >= self._n).any():
            raise CorruptBundleError("the ids of the vectors contradict each other")
        vectors = self._vectors[rows].astype(np.float32)
        return vectors * self._scales[rows, np.newaxis] if len(self._scales) else vectors


def _pack(vectors: Floats, scales: Floats) -> Array:
    """Return vectors as they are stored, and fill in their scales where there are any."""
    with np.errstate(over="ignore"):
        small = vectors.astype(np.float16 if len(scales) == 0 else np.float32)
    if not np.isfinite(small).all():
        raise InvalidInputError("vectors have a value that is NaN, infinite or too large to store")
    if len(scales) == 0:
        return small
    scales[:] = np.abs(small).max(axis=1, initial=0) / _LEVELS
    steps = small / np.where(scales > 0, scales, 1)[:, np.newaxis]
    return np.asarray(np.rint(steps).clip(-_LEVELS, _LEVELS), dtype=np.int8)

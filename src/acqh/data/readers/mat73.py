"""The variables of a Matlab file of version 7.3, which is HDF5."""

from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Matrix
from acqh.data.readers.arrays import make_csc
from acqh.data.readers.columns import check_unpacked_size
from acqh.data.readers.hdf5 import HDF5_MAGIC, list_nodes, open_hdf5, reading, refuse_foreign
from acqh.data.readers.mat5 import NUMBER_KINDS, MatFile, Variable

# HDF5 allows a foreign head of these sizes; Matlab's has 512 bytes.
_OFFSETS = (0, 512, 1024, 2048)
_EMPTY = np.empty(0, dtype=np.int64)


def is_hdf5(path: Path) -> bool:
    """Whether a file is HDF5, as Matlab's are since version 7.3."""
    with path.open("rb") as handle:
        head = handle.read(_OFFSETS[-1] + len(HDF5_MAGIC))
    return any(head.startswith(HDF5_MAGIC, at) for at in _OFFSETS)


class Mat73File(MatFile):
    """A file of version 7.3, opened; HDF5 has Matlab's dimensions in reverse order.

    `max_bytes`: how much the variables may take; see `check_unpacked_size`. Raises
    CorruptBundleError: it is damaged. Raises MissingExtraError: h5py is not installed.
    """

    def __init__(self, path: Path, max_bytes: int | None) -> None:
        self._path = path
        self.variables: dict[str, Variable] = {}
        self._file = open_hdf5(path)
        try:
            with reading(path):
                declared = self._list(self._file, "")
            check_unpacked_size(path, declared, path.stat().st_size, max_bytes)
        except BaseException:
            self._file.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _list(self, group: Any, prefix: str) -> int:
        """List a group's variables, and one level down the fields of structs; return bytes."""
        declared = 0
        for key, node in list_nodes(group, self._path, prefix):
            # Names with '#' are Matlab's own stores of cells and objects.
            if key.startswith("#"):
                continue
            if hasattr(node, "shape"):
                declared += self._add_dataset(prefix + key, node)
            elif "MATLAB_sparse" in node.attrs:
                declared += self._add_sparse(prefix + key, node)
            else:
                self.variables[prefix + key] = Variable((1, 1), "struct")
                declared += self._list(node, f"{prefix}{key}.") if not prefix else 0
        return declared

    def _add_dataset(self, name: str, node: Any) -> int:
        kind = node.attrs.get("MATLAB_class", b"")
        kind = kind.decode() if isinstance(kind, bytes) else str(kind)
        numeric = node.dtype.kind in "buif" and "MATLAB_empty" not in node.attrs
        if not numeric or kind in ("cell", "char", "function_handle"):
            self.variables[name] = Variable(node.shape[::-1], kind or "unknown")
            return 0
        # A list has no second dimension in HDF5; Matlab would show a column.
        shape = (*node.shape[::-1], 1) if node.ndim == 1 else node.shape[::-1]
        self.variables[name] = Variable(shape, kind if kind in NUMBER_KINDS else "double")
        return int(node.nbytes)

    def _add_sparse(self, name: str, node: Any) -> int:
        pieces = [node[piece] for piece in ("data", "ir", "jc") if piece in node]
        for piece in pieces:
            refuse_foreign(name, piece, self._path)
        n_rows, n_columns = int(node.attrs["MATLAB_sparse"]), node["jc"].shape[0] - 1
        self.variables[name] = Variable((n_rows, n_columns), "sparse")
        return sum(int(piece.nbytes) for piece in pieces)

    def load(self, name: str) -> Matrix:
        """Return a whole array."""
        with reading(self._path):
            node = self._file[name.replace(".", "/")]
            if not hasattr(node, "shape"):
                return self._load_sparse(name, node)
            values: Array = node[()]
        return values.reshape(-1, 1) if values.ndim == 1 else values.T

    def _load_sparse(self, name: str, node: Any) -> Matrix:
        rows, columns = self.variables[name].shape
        pointers = node["jc"][()]
        # Matlab leaves the other two out of a matrix without entries.
        indices, data = (node[key][()] if key in node else _EMPTY for key in ("ir", "data"))
        where = f"variable {name!r} of {self._path.name}"
        return make_csc(where, [pointers, indices, data], (rows, columns))

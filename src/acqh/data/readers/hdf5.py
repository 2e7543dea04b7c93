"""The arrays of an HDF5 file, such as ``train`` and ``test`` of ann-benchmarks."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.imports import require
from acqh.data.readers.arrays import ArrayTable, Header
from acqh.data.readers.columns import check_unpacked_size, guarded
from acqh.errors import InvalidInputError

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# Names of items and queries in files of ann-benchmarks.
_ITEMS, _QUERIES = "train", "test"


class Hdf5File(ArrayTable):
    """The arrays at the root of an HDF5 file, read by ranges of rows.

    Raises CorruptBundleError for a damaged file, MissingExtraError without h5py.
    """

    title, suffixes, magics = "HDF5", (".hdf5", ".h5"), (HDF5_MAGIC,)

    def _open(self) -> None:
        h5py, options = require("h5py"), self.options
        with reading(self.path):
            file = self.opened.enter_context(h5py.File(self.path, "r"))
            self._nodes: dict[str, Any] = dict(list_nodes(file, self.path))
            self.headers = {
                name: self._header(node)
                for name, node in self._nodes.items()
                if hasattr(node, "shape") and node.shape
            }
        self.list_entries()
        if options.views is None and {_ITEMS, _QUERIES} <= self.entries.keys():
            self.options = replace(options, views={_ITEMS: _ITEMS})

    def _header(self, node: Any) -> Header:
        is_text = require("h5py").check_string_dtype(node.dtype) is not None
        return Header(tuple(node.shape), np.dtype("U1") if is_text else node.dtype)

    def values(self, name: str, start: int, stop: int) -> Array:
        """Return rows of an array."""
        node, header = self._nodes[name], self.headers[name]
        n_rows = max(min(stop, node.shape[0]) - start, 0)
        declared = n_rows * (node.nbytes // max(node.shape[0], 1))
        check_unpacked_size(self.path, declared, self.path.stat().st_size, self.options.max_bytes)
        with reading(self.path):
            if header.dtype.kind == "U":
                return np.asarray(node.asstr()[start:stop], dtype=object)
            return np.asarray(node[start:stop])


def reading(path: Path) -> AbstractContextManager[None]:
    """Run h5py in a block and raise its errors as CorruptBundleError."""
    return guarded(path.name, problem="is not an HDF5 file, or is damaged")


def list_nodes(group: Any, path: Path, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays and groups of a group; raise InvalidInputError for links."""
    h5py = require("h5py")
    for key in group:
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise InvalidInputError(
                f"variable {prefix + key!r} of {path.name} is a link, which acqh does not follow; "
                "store the array in the file"
            )
        node = group[key]
        if isinstance(node, h5py.Dataset):
            reject_external(prefix + key, node, path)
        yield key, node


def reject_external(name: str, node: Any, path: Path) -> None:
    """Raise InvalidInputError for an array with values in other files."""
    if node.external or node.is_virtual:
        raise InvalidInputError(
            f"variable {name!r} of {path.name} has its values in other files, which acqh does not "
            "open; store the array in the file"
        )

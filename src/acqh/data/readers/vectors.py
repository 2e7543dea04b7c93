"""Files of one matrix: .npy, files of nearest-neighbour benchmarks, Faiss indexes."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.imports import require
from acqh.data.readers.arrays import map_rows, read_file_header, reject_objects
from acqh.data.readers.columns import Entry, Table
from acqh.errors import CorruptBundleError, InvalidInputError, ViewError

# Every row starts with its length, four bytes.
_VECS = {".fvecs": "<f4", ".bvecs": "u1", ".ivecs": "<i4"}
# The file starts with the numbers of rows and columns, four bytes each.
_BIN = {".fbin": "<f4", ".u8bin": "u1", ".i8bin": "i1", ".ibin": "<i4"}
_BIN_HEADER_BYTES = 8

# Shape and dtype of a matrix, and a function that reads its rows from `start` to `stop`.
_Opened = tuple[tuple[int, ...], str, Callable[[int, int], Array]]


class VectorFile(Table):
    """A file of one matrix; its declared size is checked before rows are read."""

    title, suffixes = "vector", (".npy", *_VECS, *_BIN, ".faiss", ".index")
    magics = (b"IxF2", b"IxFI")  # of flat Faiss indexes

    def _open(self) -> None:
        path, suffix = self.path, self.path.suffix.lower()
        if suffix == ".npy":
            opened = {"vectors": _open_npy(path)}
        elif suffix in _VECS:
            opened = {"vectors": _open_vecs(path, np.dtype(_VECS[suffix]))}
        elif is_ground_truth(path):
            codes = {"neighbors": "<u4", "distances": "<f4"}
            opened = {name: _open_bin(path, code, 2) for name, code in codes.items()}
        elif suffix in _BIN:
            opened = {"vectors": _open_bin(path, _BIN[suffix])}
        else:
            opened = {"vectors": _open_faiss(path)}
        self.entries = {name: Entry(name, *matrix[:2]) for name, matrix in opened.items()}
        self._rows = {name: matrix[2] for name, matrix in opened.items()}

    def take(self, entry: Entry, start: int, stop: int) -> Array:
        """Return some rows."""
        return self._rows[entry.name](start, stop)


def _open_npy(path: Path) -> _Opened:
    header = read_file_header(path)
    reject_objects(header, path.name)
    if len(header.shape) != 2:
        raise ViewError(
            f"{path.name} has {len(header.shape)} dimensions; give a matrix of shape "
            "(items, features)"
        )
    rows = partial(map_rows, path, header, header.offset, where=path.name)
    return header.shape, header.dtype.kind, lambda start, stop: rows(start=start, stop=stop)


def _open_vecs(path: Path, dtype: "np.dtype[Any]") -> _Opened:
    with path.open("rb") as handle:
        head = handle.read(4)
    n_columns = int.from_bytes(head, "little", signed=True)
    # A damaged first length must not become the size of an array.
    row_bytes = 4 + n_columns * dtype.itemsize
    n_bytes = path.stat().st_size
    if not head:
        raise ViewError(f"{path.name} has no rows; give at least one item")
    if n_columns <= 0 or n_bytes % row_bytes:
        raise CorruptBundleError(
            f"{path.name} has {n_bytes:,} bytes, which rows of {n_columns} numbers, as its first "
            f"has, do not fill; it is cut off or no {path.suffix} file"
        )
    row = np.dtype([("length", "<i4"), ("values", dtype, (n_columns,))])

    def take(start: int, stop: int) -> Array:
        rows = np.memmap(path, row, "r", start * row_bytes, (stop - start,))
        wrong = np.flatnonzero(rows["length"] != n_columns)
        if wrong.size:
            at = int(wrong[0])
            raise CorruptBundleError(
                f"{path.name} has {rows['length'][at]} numbers in row {start + at}, but "
                f"{n_columns} before; it is damaged"
            )
        return np.ascontiguousarray(rows["values"])

    return (n_bytes // row_bytes, n_columns), dtype.kind, take


def is_ground_truth(path: Path) -> bool:
    """Whether a file has the size of ids and distances of neighbours, as those of big-ann."""
    sizes = np.fromfile(path, "<u4", 2).tolist()
    n_values = math.prod(sizes) if len(sizes) == 2 else 0
    return n_values > 0 and path.stat().st_size == _BIN_HEADER_BYTES + 8 * n_values


def _open_bin(path: Path, code: str, n_matrices: int = 1) -> _Opened:
    """Open a matrix after its header; ground truth has a second matrix, of floats, at the end."""
    dtype, n_bytes = np.dtype(code), path.stat().st_size
    if n_bytes < _BIN_HEADER_BYTES:
        raise CorruptBundleError(f"{path.name} has {n_bytes} bytes; even its header has more")
    n_rows, n_columns = np.fromfile(path, "<u4", 2).tolist()
    row_bytes = n_columns * dtype.itemsize
    expected = _BIN_HEADER_BYTES + n_matrices * n_rows * row_bytes
    if n_bytes != expected:
        raise CorruptBundleError(
            f"{path.name} has {n_bytes:,} bytes, but {n_rows:,} rows of {n_columns:,} numbers take "
            f"{expected:,}; it is cut off or damaged"
        )
    first = _BIN_HEADER_BYTES
    if n_matrices == 2 and dtype.kind == "f":
        first += n_rows * row_bytes

    def take(start: int, stop: int) -> Array:
        return np.memmap(path, dtype, "r", first + start * row_bytes, (stop - start, n_columns))

    return (n_rows, n_columns), dtype.kind, take


def _open_faiss(path: Path) -> _Opened:
    faiss = require("faiss")
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
    except RuntimeError:
        try:  # not every type of index can be mapped
            index = faiss.read_index(str(path))
        except RuntimeError as error:
            reason = str(error).strip().rsplit("\n", 1)[-1]
            raise CorruptBundleError(
                f"{path.name} is not an index that Faiss reads: {reason}"
            ) from error
    if hasattr(index, "make_direct_map"):
        index.make_direct_map()

    def take(start: int, stop: int) -> Array:
        try:
            return np.asarray(index.reconstruct_n(start, stop - start))
        except RuntimeError as error:
            raise InvalidInputError(
                f"{path.name} is a Faiss {type(index).__name__}, which cannot give its vectors "
                "back; save them with numpy.save"
            ) from error

    return (int(index.ntotal), int(index.d)), "f", take

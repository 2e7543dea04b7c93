"""Read files of one matrix: .npy, those of the nearest-neighbour benchmarks, Faiss indexes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.imports import require
from acqh.data.multiview import MultiViewData
from acqh.data.readers.arrays import Rows, file_rows, read_file_header
from acqh.data.readers.limits import check_any_rows
from acqh.data.readers.pieces import ReadRows, RowSource
from acqh.errors import CorruptBundleError, InvalidInputError, ViewError

FAISS_SUFFIXES = (".faiss", ".index")
# Every row has its length, four bytes, before its values.
_VECS: dict[str, "np.dtype[Any]"] = {
    ".fvecs": np.dtype("<f4"),
    ".bvecs": np.dtype("u1"),
    ".ivecs": np.dtype("<i4"),
}
# The numbers of rows and of columns, four bytes each, come before all values.
_BIN: dict[str, "np.dtype[Any]"] = {
    ".fbin": np.dtype("<f4"),
    ".u8bin": np.dtype("u1"),
    ".i8bin": np.dtype("i1"),
    ".ibin": np.dtype("<i4"),
}
VECTOR_SUFFIXES = (".npy", *_VECS, *_BIN, *FAISS_SUFFIXES)
_INT = np.dtype("<i4")
_BIN_HEADER_BYTES = 8


@dataclass(frozen=True)
class VectorOptions:
    """What a caller may say about a file of one matrix: what to call its view."""

    view: str = "vectors"


@dataclass(frozen=True)
class VectorRows(RowSource):
    """The rows of a file of one matrix."""

    n_columns: int
    view: str  # what the matrix is called

    @contextmanager
    def open(self) -> Iterator[ReadRows]:
        """Open the file for its rows."""
        shape, take = _open(self.path)
        if shape != (self.n_rows, self.n_columns):
            raise CorruptBundleError(f"{self.path.name} has changed since it was listed")

        def read(start: int, stop: int) -> MultiViewData:
            return MultiViewData(
                {self.view: take(start, stop)}, ids=np.arange(start, stop), name=self.path.stem
            )

        yield read


def find_vector_rows(path: Path, _: int, options: VectorOptions) -> VectorRows:
    """Look at the size of a matrix, without reading its rows."""
    (n_rows, n_columns), _take = _open(path)
    return VectorRows(path, n_rows, n_columns, options.view)


def _open(path: Path) -> tuple[tuple[int, int], Rows]:
    """Return the shape of a file's matrix, and what gives some of its rows."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _open_npy(path)
    if suffix in _VECS:
        return _open_vecs(path, _VECS[suffix])
    if suffix in _BIN:
        return _open_bin(path, _BIN[suffix])
    return _open_faiss(path)


def _open_npy(path: Path) -> tuple[tuple[int, int], Rows]:
    header = read_file_header(path)
    if len(header.shape) != 2:
        raise ViewError(
            f"{path.name} has {len(header.shape)} dimensions; give a matrix of shape "
            "(items, features)"
        )
    return (header.shape[0], header.shape[1]), file_rows(path, header)


def _open_vecs(path: Path, dtype: "np.dtype[Any]") -> tuple[tuple[int, int], Rows]:
    with path.open("rb") as handle:
        head = handle.read(_INT.itemsize)
    check_any_rows(len(head), path)
    n_columns = int(np.frombuffer(head.ljust(4, b"\0"), _INT)[0])
    # A damaged first length must not become the size of an array.
    row_bytes = _INT.itemsize + n_columns * dtype.itemsize
    n_bytes = path.stat().st_size
    if n_columns <= 0 or n_bytes % row_bytes:
        raise CorruptBundleError(
            f"{path.name} has {n_bytes:,} bytes, which rows of {n_columns} numbers, as its first "
            f"has, do not fill; it is cut off or no {path.suffix} file"
        )
    row = np.dtype([("length", _INT), ("values", dtype, (n_columns,))])
    n_rows = n_bytes // row_bytes

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

    return (n_rows, n_columns), take


def _open_bin(path: Path, dtype: "np.dtype[Any]") -> tuple[tuple[int, int], Rows]:
    with path.open("rb") as handle:
        head = handle.read(_BIN_HEADER_BYTES)
    n_bytes = path.stat().st_size
    if len(head) < _BIN_HEADER_BYTES:
        raise CorruptBundleError(f"{path.name} has {n_bytes} bytes; even its header has more")
    n_rows, n_columns = (int(value) for value in np.frombuffer(head, "<u4"))
    row_bytes = n_columns * dtype.itemsize
    expected = _BIN_HEADER_BYTES + n_rows * row_bytes
    if n_bytes != expected:
        raise CorruptBundleError(
            f"{path.name} has {n_bytes:,} bytes, but {n_rows:,} rows of {n_columns:,} numbers take "
            f"{expected:,}; it is cut off or damaged"
        )

    def take(start: int, stop: int) -> Array:
        offset = _BIN_HEADER_BYTES + start * row_bytes
        return np.memmap(path, dtype, "r", offset, (stop - start, n_columns))

    return (n_rows, n_columns), take


def _open_faiss(path: Path) -> tuple[tuple[int, int], Rows]:
    faiss = require("faiss")
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
    except RuntimeError:
        try:  # not every kind can be mapped
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

    return (int(index.ntotal), int(index.d)), take

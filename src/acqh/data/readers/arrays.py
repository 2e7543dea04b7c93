"""Named arrays in .npz files and folders of .npy files; checks sizes before it allocates."""

import itertools
import math
import os
import struct
import sys
import zipfile
import zlib
from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Matrix
from acqh.data.readers.columns import (
    Entry,
    FileRows,
    Table,
    chain_files,
    check_unpacked_size,
    data_files,
    guarded,
    parts_of,
)
from acqh.errors import CorruptBundleError, InvalidInputError

CSR_SUFFIXES = ("_data", "_indices", "_indptr", "_shape")
TEXT_SUFFIXES = ("_utf8", "_offsets")
# Columns of several arrays: the endings of two arrays that show the form, and all endings.
_FORMS = {"csr": ("_indptr", "_indices", CSR_SUFFIXES), "text": (*TEXT_SUFFIXES, TEXT_SUFFIXES)}
# No deflated stream can unpack to more than about 1,032 times its size.
DEFLATE_RATIO = 1_040
_LOCAL_HEADER_BYTES = 30
_READ_BYTES = 2**20


@dataclass(frozen=True)
class Header:
    """Header of a .npy file: shape, dtype, order, and offset of the values."""

    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    fortran: bool = False
    offset: int = 0

    @property
    def row(self) -> tuple[Any, ...]:
        """Shape and dtype of a row; arrays of equal rows can be concatenated."""
        return len(self.shape), self.shape[1:], self.dtype

    @property
    def n_bytes(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


class ArrayTable(Table):
    """Arrays by name; groups the arrays of sparse matrices and of texts into columns."""

    own_options: ClassVar[tuple[str, ...]] = ("splits",)
    headers: dict[str, Header]

    @abstractmethod
    def values(self, name: str, start: int, stop: int) -> Array:
        """Return rows of a stored array."""

    def list_entries(self) -> None:
        """Set `entries` in file order; the arrays of a CSR matrix or of texts make one entry."""
        owner, forms = {name: name for name in self.headers}, dict[str, str]()
        for form, (first, second, suffixes) in _FORMS.items():
            for name in self.headers:
                stem = name.removesuffix(first)
                if stem == name or stem + second not in self.headers:
                    continue
                parts = [stem + suffix for suffix in suffixes]
                if missing := [part for part in parts if part not in self.headers]:
                    raise CorruptBundleError(
                        f"the sparse matrix {stem!r} of {self.path.name} lacks {', '.join(missing)}"
                    )
                if stem in self.headers:
                    raise CorruptBundleError(
                        f"{self.path.name} has {stem!r} both whole and as separate arrays"
                    )
                owner |= dict.fromkeys(parts, stem)
                forms[stem] = form
        self.entries = {stem: self._entry(stem, forms.get(stem, "")) for stem in owner.values()}

    def _entry(self, name: str, form: str) -> Entry:
        if form == "csr":
            return Entry(name, self._csr_shape(name), self.headers[f"{name}_data"].dtype.kind, form)
        if form == "text":
            n_offsets = math.prod(self.headers[f"{name}_offsets"].shape)
            return Entry(name, (max(n_offsets - 1, 0),), "U", form)
        return Entry(name, self.headers[name].shape, self.headers[name].dtype.kind)

    def _csr_shape(self, stem: str) -> tuple[int, int]:
        name = f"{stem}_shape"
        header = self.headers[name]
        if header.shape != (2,) or header.dtype.kind not in "iu":
            raise CorruptBundleError(f"{name} of {self.path.name} must be two whole numbers")
        rows, columns = self.values(name, 0, 2).tolist()
        if not (0 <= rows < 2**62 and 0 <= columns < 2**62):
            raise CorruptBundleError(f"{name} of {self.path.name} is {rows} x {columns}")
        return rows, columns

    def take(self, entry: Entry, start: int, stop: int) -> Any:
        """Return rows as an array, a csr_array, or an array of str objects."""
        if entry.form == "csr":
            return self._take_csr(entry, start, stop)
        if entry.form == "text":
            return self._take_texts(entry, start, stop)
        return self.values(entry.name, start, stop)

    def _pointers(self, name: str, n_rows: int, start: int, stop: int, n_stored: int) -> Array:
        """Return the offsets of rows, with the end of the last."""
        header, where = self.headers[name], f"{name!r} of {self.path.name}"
        if header.dtype.kind not in "iu" or header.shape != (n_rows + 1,):
            raise _bad_pointers(where, header, n_rows + 1)
        pointers = self.values(name, start, stop + 1).astype(np.int64)
        check_pointers(where, pointers, n_stored, start, n_rows + 1)
        return pointers

    def _take_csr(self, entry: Entry, start: int, stop: int) -> Matrix:
        n_rows, columns = entry.shape
        where = f"{entry.name!r} of {self.path.name}"
        counts = [self.headers[entry.name + suffix] for suffix in CSR_SUFFIXES[:2]]
        if counts[0].shape != counts[1].shape or len(counts[0].shape) != 1:
            raise CorruptBundleError(
                f"{where} is damaged: its data have shape {counts[0].shape}, its indices "
                f"{counts[1].shape}"
            )
        pointers = self._pointers(f"{entry.name}_indptr", n_rows, start, stop, counts[0].shape[0])
        first, last = int(pointers[0]), int(pointers[-1])
        data = self.values(f"{entry.name}_data", first, last)
        indices = self.values(f"{entry.name}_indices", first, last)
        check_indices(where, indices, columns)
        parts = _as_indices(columns, indices, pointers - first)
        return sp.csr_array((data, *parts), shape=(stop - start, columns))

    def _take_texts(self, entry: Entry, start: int, stop: int) -> Array:
        where = f"{entry.name!r} of {self.path.name}"
        header = self.headers[f"{entry.name}_utf8"]
        if len(header.shape) != 1 or header.dtype != np.uint8:
            raise CorruptBundleError(f"{where} is damaged: its text is not bytes")
        ends = self._pointers(f"{entry.name}_offsets", entry.shape[0], start, stop, header.shape[0])
        buffer = self.values(f"{entry.name}_utf8", int(ends[0]), int(ends[-1])).tobytes()
        ends -= ends[0]
        with guarded(where, UnicodeDecodeError):
            texts = [buffer[a:b].decode("utf-8") for a, b in itertools.pairwise(ends.tolist())]
        return np.fromiter(texts, dtype=object, count=stop - start)


class NpyFolder(ArrayTable):
    """The .npy files of a folder, memory-mapped; or its subfolders, each one array in files.

    The files of a subfolder are concatenated in the order of their names.
    """

    pattern = "*.npy"

    def _open(self) -> None:
        files = self.parts or {
            name: _list_rows(files) for name, files in npy_files(self.path).items()
        }
        files = {name: rows for name, rows in files.items() if rows}
        if any(len(rows) > 1 or rows[0].path.parent != self.path for rows in files.values()):
            self.parts = files
        self._files = files
        self.headers = {}
        for name, (first, *rest) in files.items():
            header, last = read_file_header(first.path), rest[-1] if rest else first
            n_rows = last.first_row + last.n_rows
            shape = (n_rows, *header.shape[1:]) if header.shape else ()
            self.headers[name] = Header(shape, header.dtype)
        self.list_entries()

    def values(self, name: str, start: int, stop: int) -> Array:
        """Return rows as a read-only memory map, or as a copy if they span several files."""
        blocks, like = [], self.headers[name]
        files = self._files[name]
        for file in (
            files if len(files) == 1 else parts_of({"": files}, start, stop)[""] or files[:1]
        ):
            header, first = read_file_header(file.path), file.first_row
            reject_objects(header, file.path.name)
            if (header.shape[:1] or (1,)) != (file.n_rows,) or header.row != like.row:
                raise CorruptBundleError(f"{file.path.name} has changed since it was listed")
            begin, end = max(start - first, 0), min(stop - first, file.n_rows)
            rows = map_rows(file.path, header, header.offset, begin, end, file.path.name)
            blocks.append(rows)
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def npy_files(folder: Path) -> dict[str, list[Path]]:
    """Return the .npy files of a folder by name, or else those of its subfolders."""
    files = data_files(folder.iterdir(), (".npy",))
    if files:
        return {file.stem: [file] for file in files}
    inner = sorted(path for path in folder.iterdir() if path.is_dir())
    shown = (directory for directory in inner if not directory.name.startswith((".", "_")))
    by_folder = {directory.name: data_files(directory.iterdir(), (".npy",)) for directory in shown}
    return {name: files for name, files in by_folder.items() if files}


def _list_rows(files: list[Path]) -> tuple[FileRows, ...]:
    """Return the files with their row ranges; all must have rows of one shape and dtype."""
    headers = [read_file_header(file) for file in files]
    first = headers[0]
    for file, header in zip(files, headers, strict=True):
        if header.row != first.row:
            raise InvalidInputError(
                f"{file} has rows of shape {header.shape[1:]} and dtype {header.dtype}, "
                f"{files[0].name} of {first.shape[1:]} and {first.dtype}; all files of a folder "
                "must have the same"
            )
    n_rows = (header.shape[0] if header.shape else 1 for header in headers)
    return chain_files(zip(files, n_rows, strict=True))


class NpzFile(ArrayTable):
    """The arrays of a .npz file; checks every declared size against the file when opened.

    Memory-maps rows of an uncompressed array; unpacks a compressed array as a whole.
    """

    suffixes, magics = (".npz",), (b"PK\x03\x04",)

    def _open(self) -> None:
        self.headers = {}
        self._unpacked: dict[str, Array] = {}
        broken = (zipfile.BadZipFile, ValueError, NotImplementedError)
        with guarded(
            self.path.name, *broken, problem="is not a readable .npz file (a zip of arrays)"
        ):
            self._zip = self.opened.enter_context(zipfile.ZipFile(self.path))
        self._read_headers(self.path.stat().st_size)
        self.list_entries()

    def _read_headers(self, file_size: int) -> None:
        members = [info for info in self._zip.infolist() if info.filename.endswith(".npy")]
        if sum(info.compress_size for info in members) > file_size:
            raise CorruptBundleError(f"{self.path.name} is damaged: its members overlap")
        names = [info.filename.removesuffix(".npy") for info in members]
        for name, count in Counter(names).items():
            if count > 1:
                raise CorruptBundleError(f"{self.path.name} has two arrays named {name!r}")
        for info in members:
            self._check_packing(info)
        declared = sum(info.file_size for info in members)
        check_unpacked_size(self.path, declared, file_size, self.options.max_bytes)
        for name, info in zip(names, members, strict=True):
            with self._member(info.filename) as handle:
                where = f"{info.filename} in {self.path.name}"
                self.headers[name] = read_header(handle, where, info.file_size)

    def _check_packing(self, info: zipfile.ZipInfo) -> None:
        where = f"{info.filename} in {self.path.name}"
        numpy_methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if info.flag_bits & 1 or info.compress_type not in numpy_methods:
            raise InvalidInputError(
                f"{where} is encrypted or uses an unsupported compression; save it with "
                "numpy.savez or numpy.savez_compressed"
            )
        if info.file_size > DEFLATE_RATIO * info.compress_size:
            raise CorruptBundleError(
                f"{where} is damaged: {info.compress_size:,} bytes cannot unpack to "
                f"{info.file_size:,}"
            )

    def _member(self, member: str) -> IO[bytes]:
        broken = (zipfile.BadZipFile, OSError, ValueError, RuntimeError, struct.error)
        with guarded(f"{member} in {self.path.name}", *broken, problem="cannot be read"):
            return self._zip.open(member)

    def values(self, name: str, start: int, stop: int) -> Array:
        """Return rows of an array; reading all of them also verifies the checksum."""
        header, where = self.headers[name], f"array {name!r} of {self.path.name}"
        reject_objects(header, where)
        info = self._zip.getinfo(f"{name}.npy")
        is_part = bool(header.shape) and (start, stop) != (0, header.shape[0])
        if is_part and info.compress_type == zipfile.ZIP_STORED:
            offset = self._data_offset(info) + header.offset
            return map_rows(self.path, header, offset, start, stop, where)
        if name not in self._unpacked:
            array = self._load(name, header, where)
            if not is_part:
                return array
            self._unpacked[name] = array
        return self._unpacked[name][start:stop]

    def _load(self, name: str, header: Header, where: str) -> Array:
        values = np.empty(math.prod(header.shape), header.dtype)
        room = values.view(np.uint8) if values.size else np.empty(0, np.uint8)
        done = 0
        with self._member(f"{name}.npy") as handle:
            handle.read(header.offset)
            while done < len(room):
                with guarded(where, zipfile.BadZipFile, zlib.error, EOFError, OSError):
                    n_read = handle.readinto(room[done : done + _READ_BYTES])  # type: ignore[attr-defined]
                if n_read == 0:
                    raise CorruptBundleError(f"{where} ends too early")
                done += n_read
        order: Literal["C", "F"] = "F" if header.fortran else "C"
        return native(values, where).reshape(header.shape, order=order)

    def _data_offset(self, info: zipfile.ZipInfo) -> int:
        # The local header repeats name and extra fields, whose lengths may differ from the
        # directory's; the array starts after them.
        with self.path.open("rb") as handle:
            handle.seek(info.header_offset)
            local = handle.read(_LOCAL_HEADER_BYTES)
            name_length, extra_length = struct.unpack("<HH", local[26:30])
            start = info.header_offset + _LOCAL_HEADER_BYTES + name_length + extra_length
            if start + info.file_size > os.fstat(handle.fileno()).st_size:
                raise CorruptBundleError(f"{info.filename} in {self.path.name} is cut off")
        return int(start)


def read_header(handle: IO[bytes], where: str, n_bytes: int) -> Header:
    """Read the header of a .npy file and compare it with the size of the file.

    Never executes content. Raises CorruptBundleError for another format or a truncated file.
    """
    # NumPy parses the header as a Python literal, so errors are of many kinds.
    with guarded(where, problem="is not a readable NumPy array"):
        version = np.lib.format.read_magic(handle)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(handle)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(handle)
        else:
            raise ValueError(f"version {version} is only for arrays of records")
    if any(size < 0 for size in shape) or dtype.itemsize == 0:
        raise CorruptBundleError(f"{where} declares the shape {shape} and the dtype {dtype}")
    header = Header(shape, dtype, fortran, handle.tell())
    expected = header.offset + header.n_bytes
    if not dtype.hasobject and n_bytes != expected:
        raise CorruptBundleError(
            f"{where} has {n_bytes:,} bytes, but its header declares {expected:,}; it is cut off "
            "or damaged"
        )
    return header


def read_file_header(file: Path) -> Header:
    """Read and check the header of a .npy file."""
    with file.open("rb") as handle:
        return read_header(handle, file.name, file.stat().st_size)


def reject_objects(header: Header, where: str) -> None:
    """Raise InvalidInputError for an array of pickled objects."""
    if header.dtype.hasobject:
        raise InvalidInputError(
            f"{where} holds pickled Python objects, which acqh never loads because that can run "
            "any code; save numbers or strings (dtype 'U') instead"
        )


def native(array: Array, where: str) -> Array:
    """Return an array in native byte order; raise CorruptBundleError for invalid Unicode."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind == "U" and array.size:
        letters = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
        if letters.max() > sys.maxunicode:
            raise CorruptBundleError(f"{where} is damaged: its texts are not Unicode")
    return array


def map_rows(path: Path, header: Header, offset: int, start: int, stop: int, where: str) -> Array:
    """Memory-map rows of an array in a file, with a new map on each call.

    Pages stay resident as long as their map. One map of the whole file would end up in memory.
    """
    shape = header.shape
    if not header.fortran and shape:
        shape = (min(stop, shape[0]) - start, *shape[1:])
        offset += start * math.prod(shape[1:]) * header.dtype.itemsize
    if math.prod(shape) == 0:
        return np.empty(shape, header.dtype)
    order: Literal["C", "F"] = "F" if header.fortran else "C"
    mapped = np.memmap(path, header.dtype, mode="r", offset=offset, shape=shape, order=order)
    return native(mapped[start:stop] if header.fortran else mapped, where)


def check_pointers(
    where: str, pointers: Array, n_stored: int, start: int = 0, n_pointers: int | None = None
) -> None:
    """Check that the pointers from row `start` on increase from 0 to the number of values."""
    falling = np.flatnonzero(pointers[1:] < pointers[:-1])
    if falling.size:
        raise CorruptBundleError(
            f"{where} is damaged: its pointers fall after row {start + falling[0]}"
        )
    first, last = int(pointers[0]), int(pointers[-1])
    at_end = n_pointers is None or start + len(pointers) == n_pointers
    fits = (start > 0 or first == 0) and (not at_end or last == n_stored)
    if not fits or first < 0 or last > n_stored:
        raise CorruptBundleError(
            f"{where} is damaged: its pointers go from {first} to {last}, but {n_stored} values "
            "are stored"
        )


def check_indices(where: str, indices: Array, n_minor: int) -> None:
    """Check that the indices of a sparse matrix are within its shape."""
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise CorruptBundleError(
            f"{where} is damaged: its indices have dtype {indices.dtype} and {indices.ndim} "
            "dimensions, expected a list of whole numbers"
        )
    if indices.size and (indices.min() < 0 or indices.max() >= n_minor):
        wrong = indices.max() if indices.max() >= n_minor else indices.min()
        raise CorruptBundleError(
            f"{where} is damaged: it has an index {wrong}, but indices go from 0 to {n_minor - 1}"
        )


def _bad_pointers(where: str, pointers: Any, n_expected: int) -> CorruptBundleError:
    return CorruptBundleError(
        f"{where} is damaged: its pointers have dtype {pointers.dtype} and shape {pointers.shape}, "
        f"expected {n_expected} whole numbers"
    )


def make_csc(where: str, arrays: list[Array], shape: tuple[int, int]) -> Matrix:
    """Make a sparse matrix from checked pointers, row numbers and values."""
    pointers, indices, values = arrays
    if pointers.dtype.kind not in "iu" or pointers.shape != (shape[1] + 1,):
        raise _bad_pointers(where, pointers, shape[1] + 1)
    check_pointers(where, pointers, len(indices))
    if len(indices) != len(values):
        raise CorruptBundleError(
            f"{where} is damaged: {len(indices)} indices but {len(values)} values"
        )
    check_indices(where, indices, shape[0])
    return sp.csc_array((values, *_as_indices(max(shape), indices, pointers)), shape=shape)


def _as_indices(n_minor: int, *parts: Array) -> list[Array]:
    # SciPy would keep a wide dtype, and needs the same dtype for indices and pointers.
    fits = max(n_minor, len(parts[0])) < np.iinfo(np.int32).max
    return [part.astype(np.int32 if fits else np.int64, copy=False) for part in parts]

"""Named arrays in a .npz file or in a folder of .npy files, checked before they are allocated."""

import math
import os
import struct
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import numpy as np

from acqh._core.arrays import Array
from acqh.data.readers.limits import DEFLATE_RATIO, check_unpacked_size
from acqh.errors import CorruptBundleError, InvalidInputError

_LOCAL_HEADER_BYTES = 30
_READ_BYTES = 2**20
# Rows of a compressed array that are unpacked at a time only to get past them.
_SKIP_ROWS = 1024

# Gives the rows of an array from the first number up to, not including, the second.
Rows = Callable[[int, int], Any]


@dataclass(frozen=True)
class Header:
    """What the header of a .npy file says: shape, dtype, order, and where the values start."""

    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    fortran: bool
    offset: int

    @property
    def n_bytes(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


class ArrayStore(Protocol):
    """Named arrays that can be loaded whole or taken rows at a time."""

    path: Path
    headers: dict[str, Header]

    def load(self, name: str) -> Array:
        """Return a whole array."""

    def rows(self, name: str) -> Rows:
        """Return a function that gives some rows of an array."""


def read_header(handle: IO[bytes], where: str, n_bytes: int) -> Header:
    """Read the header of a .npy file, and compare what it promises with the size of the file.

    Nothing of it is executed. Raises CorruptBundleError: it is not a .npy file, or is cut off.
    """
    try:
        version = np.lib.format.read_magic(handle)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(handle)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(handle)
        else:
            raise ValueError(f"version {version} is only for arrays of records")
    except Exception as error:  # of many kinds: NumPy takes the header for a Python literal
        raise CorruptBundleError(f"{where} is not a readable NumPy array: {error}") from error
    if any(size < 0 for size in shape) or dtype.itemsize == 0:
        raise CorruptBundleError(f"{where} declares the shape {shape} and the dtype {dtype}")
    header = Header(shape, dtype, fortran, handle.tell())
    expected = header.offset + header.n_bytes
    if not dtype.hasobject and n_bytes != expected:
        raise CorruptBundleError(
            f"{where} has {n_bytes:,} bytes, but its header promises {expected:,}; it is cut off "
            "or damaged"
        )
    return header


def read_file_header(file: Path) -> Header:
    """Read and check the header of a .npy file."""
    with file.open("rb") as handle:
        return read_header(handle, file.name, file.stat().st_size)


def refuse_objects(header: Header, where: str) -> None:
    """Refuse what could only be unpickled."""
    if header.dtype.hasobject:
        raise InvalidInputError(
            f"{where} holds Python objects, which would have to be unpickled; that can run any "
            "code, so it is never done: save numbers or strings (dtype 'U') instead"
        )


def native(array: Array, where: str) -> Array:
    """Return an array in this machine's byte order; texts must be Unicode."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind == "U" and array.size:
        letters = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
        if letters.max() > sys.maxunicode:
            raise CorruptBundleError(f"{where} is damaged: its texts are not Unicode")
    return array


def _map(path: Path, header: Header, offset: int) -> Array:
    if header.n_bytes == 0:
        return np.empty(header.shape, header.dtype)
    order: Literal["C", "F"] = "F" if header.fortran else "C"
    shape = header.shape
    return np.memmap(path, header.dtype, mode="r", offset=offset, shape=shape, order=order)


def _mapped_rows(path: Path, header: Header, offset: int, where: str) -> Rows:
    """Return a function that maps some rows, afresh each time.

    What of a file has been read stays mapped as long as the map: one map of the whole would, in the
    end, have all of it in memory.
    """

    def take(start: int, stop: int) -> Array:
        stop = min(stop, header.shape[0])
        if header.fortran:
            return native(_map(path, header, offset)[start:stop], where)
        row = Header((1, *header.shape[1:]), header.dtype, False, 0).n_bytes
        block = Header((stop - start, *header.shape[1:]), header.dtype, False, 0)
        return native(_map(path, block, offset + start * row), where)

    return take


def file_rows(path: Path, header: Header) -> Rows:
    """Return a function that gives some rows of a .npy file."""
    refuse_objects(header, path.name)
    return _mapped_rows(path, header, header.offset, path.name)


class NpyFolder:
    """The .npy files of a folder, memory-mapped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.headers: dict[str, Header] = {}
        for file in sorted(path.glob("*.npy")):
            self.headers[file.stem] = read_file_header(file)

    def load(self, name: str) -> Array:
        """Return an array as a read-only memory map."""
        header = self.headers[name]
        refuse_objects(header, f"{name}.npy")
        file = self.path / f"{name}.npy"
        return native(_map(file, header, header.offset), file.name)

    def rows(self, name: str) -> Rows:
        """Return a function that gives some rows of an array."""
        return file_rows(self.path / f"{name}.npy", self.headers[name])


class NpzStore(AbstractContextManager["NpzStore"]):
    """The arrays of a .npz file, every declared size checked against the file when opened.

    `max_bytes`: how much the arrays may take; see `check_unpacked_size`.
    """

    def __init__(self, path: Path, max_bytes: int | None = None) -> None:
        self.path = path
        self.headers: dict[str, Header] = {}
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise CorruptBundleError(
                f"{path.name} is not a readable .npz file (a zip archive of arrays): {error}"
            ) from error
        with ExitStack() as opened:
            opened.enter_context(self._zip)
            self._read_headers(path.stat().st_size, max_bytes)
            self._streams = opened.pop_all()

    def __exit__(self, *_: object) -> None:
        self._streams.close()

    def _read_headers(self, file_size: int, max_bytes: int | None) -> None:
        members = [info for info in self._zip.infolist() if info.filename.endswith(".npy")]
        if sum(info.compress_size for info in members) > file_size:
            raise CorruptBundleError(f"{self.path.name} is damaged: its members overlap")
        names = [info.filename.removesuffix(".npy") for info in members]
        for name, count in Counter(names).items():
            if count > 1:
                raise CorruptBundleError(f"{self.path.name} has two arrays called {name!r}")
        for info in members:
            self._check_packing(info)
        check_unpacked_size(self.path, sum(i.file_size for i in members), file_size, max_bytes)
        for name, info in zip(names, members, strict=True):
            with self._open(info.filename) as handle:
                where = f"{info.filename} in {self.path.name}"
                self.headers[name] = read_header(handle, where, info.file_size)

    def _check_packing(self, info: zipfile.ZipInfo) -> None:
        where = f"{info.filename} in {self.path.name}"
        if info.flag_bits & 1 or info.compress_type not in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ):
            raise InvalidInputError(
                f"{where} is encrypted or packed in a way NumPy never uses; save it with "
                "numpy.savez or numpy.savez_compressed"
            )
        if info.file_size > DEFLATE_RATIO * info.compress_size:
            raise CorruptBundleError(
                f"{where} cannot be real: {info.compress_size:,} bytes cannot unpack to "
                f"{info.file_size:,}"
            )

    def _open(self, member: str) -> IO[bytes]:
        try:
            return self._zip.open(member)
        except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, struct.error) as error:
            raise CorruptBundleError(
                f"{member} in {self.path.name} cannot be read: {error}"
            ) from error

    def _where(self, name: str) -> str:
        return f"array {name!r} of {self.path.name}"

    def _header(self, name: str) -> Header:
        refuse_objects(self.headers[name], self._where(name))
        return self.headers[name]

    def load(self, name: str) -> Array:
        """Return a whole array, its checksum verified."""
        header = self._header(name)
        with self._open(f"{name}.npy") as handle:
            handle.read(header.offset)
            values = self._take_values(handle, header, name, math.prod(header.shape))
        return values.reshape(header.shape, order="F" if header.fortran else "C")

    def rows(self, name: str) -> Rows:
        """Return a function that gives some rows of an array.

        A stored array is memory-mapped; a compressed one is unpacked up to the rows, from where the
        last ones ended if that is before. Only an array that is compressed with its columns one
        after another has to be loaded whole.
        """
        header = self._header(name)
        info = self._zip.getinfo(f"{name}.npy")
        if info.compress_type == zipfile.ZIP_STORED:
            offset = self._data_offset(info) + header.offset
            return _mapped_rows(self.path, header, offset, self._where(name))
        if header.fortran and len(header.shape) > 1:
            whole = self.load(name)
            return lambda start, stop: whole[start:stop]
        return self._unpacked_rows(name, header)

    def _unpacked_rows(self, name: str, header: Header) -> Rows:
        row_shape = header.shape[1:]
        row_values = math.prod(row_shape)
        handle: IO[bytes] | None = None
        position = 0

        def take(start: int, stop: int) -> Array:
            nonlocal handle, position
            if handle is None or start < position:
                handle = self._streams.enter_context(self._open(f"{name}.npy"))
                handle.read(header.offset)
                position = 0
            while position < start:
                n_skipped = min(start - position, _SKIP_ROWS)
                self._take_values(handle, header, name, n_skipped * row_values)
                position += n_skipped
            values = self._take_values(handle, header, name, (stop - start) * row_values)
            position = stop
            return values.reshape(stop - start, *row_shape)

        return take

    def _take_values(self, handle: IO[bytes], header: Header, name: str, count: int) -> Array:
        values = np.empty(count, header.dtype)
        room = values.view(np.uint8) if count else np.empty(0, np.uint8)
        done = 0
        while done < len(room):
            try:
                n_read = handle.readinto(room[done : done + _READ_BYTES])  # type: ignore[attr-defined]
            except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
                raise CorruptBundleError(f"{self._where(name)} is damaged: {error}") from error
            if n_read == 0:
                raise CorruptBundleError(f"{self._where(name)} ends too early")
            done += n_read
        return native(values, self._where(name))

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

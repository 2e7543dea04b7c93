"""The variables of Matlab files of version 7.3 (HDF5) and version 5.

``save`` and ``save -v7`` write version 5. acqh does not use SciPy's reader, since a single damaged
byte can crash its compiled part and the process. This reader supports only matrices of numbers,
and checks every length before it is used.
"""

import math
import struct
import zlib
from abc import abstractmethod
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Matrix
from acqh._core.imports import require
from acqh.data.readers.arrays import DEFLATE_RATIO, make_csc
from acqh.data.readers.columns import check_unpacked_size
from acqh.data.readers.hdf5 import HDF5_MAGIC, list_nodes, reading, reject_external
from acqh.errors import CorruptBundleError

_HEAD_BYTES = 128
# Bytes of a variable that contain its class, size and name.
_PEEK_BYTES = 4_096
_SIZE_ELEMENT, _CLASS_ELEMENT, _MATRIX, _COMPRESSED = 5, 6, 14, 15
# Stored type of values: element type -> NumPy's code.
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
_STORED |= {12: "i8", 13: "u8"}
# Matlab class: class number -> NumPy's code for numbers, or the name of the class.
_NUMBERS = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4"}
_NUMBERS |= {14: "i8", 15: "u8"}
_OTHERS = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 16: "function"}
_STRUCT, _SPARSE = 2, 5
_COMPLEX_FLAG, _LOGICAL_FLAG = 0x08, 0x02


_FLOATS = {"float64": "double", "float32": "single", "bool": "logical"}


def _matlab_kind(dtype: "np.dtype[Any]") -> str:
    """Return the Matlab name of a numeric type."""
    return _FLOATS.get(dtype.name, dtype.name)


# Cells, texts, functions and objects are listed in errors but never read.
NUMBER_KINDS = frozenset(_matlab_kind(np.dtype(code)) for code in "?bBhHiIqQfd") | {"sparse"}


@dataclass(frozen=True)
class Variable:
    """Size and class of a variable in Matlab."""

    shape: tuple[int, ...]
    kind: str

    @property
    def is_scalar(self) -> bool:
        """Whether it has at most one entry, such as a counter of a saved workspace."""
        return math.prod(self.shape) <= 1

    @property
    def is_matrix(self) -> bool:
        """Whether it is a dense or sparse matrix of numbers with more than one entry."""
        return self.kind in NUMBER_KINDS and len(self.shape) == 2 and not self.is_scalar


class MatFile(AbstractContextManager["MatFile"]):
    """Variables by name; names of struct fields are ``struct.field``."""

    variables: dict[str, Variable]

    @abstractmethod
    def load(self, name: str) -> Matrix:
        """Return a matrix of numbers as Matlab shows it, dense or CSC."""


class _DamageError(Exception):
    """The contents of the file are inconsistent."""


@dataclass(frozen=True)
class _Head:
    """Header of a variable."""

    code: int
    flags: int
    shape: tuple[int, ...]
    name: str
    body: int  # where the values start

    @property
    def kind(self) -> str:
        name = _OTHERS.get(self.code, "unknown")
        if self.code in _NUMBERS:
            name = _matlab_kind(np.dtype(_NUMBERS[self.code]))
        if self.flags & _COMPLEX_FLAG:
            return f"complex {name}"
        return "logical" if self.flags & _LOGICAL_FLAG and self.code in _NUMBERS else name

    @property
    def n_bytes(self) -> int:
        """Bytes of the values in memory."""
        return math.prod(self.shape) * np.dtype(_NUMBERS.get(self.code, "V0")).itemsize


@dataclass(frozen=True)
class _Place:
    """Location of the bytes of a variable: in the file, or in memory as a field of a struct."""

    head: _Head
    start: int = 0
    n_stored: int = 0
    n_unpacked: int = 0
    content: memoryview | None = None


class Mat5File(MatFile):
    """An open file of version 5.

    `max_bytes`: limit of the size of variables; see `check_unpacked_size`. Raises
    CorruptBundleError: the file is damaged or of another format.
    """

    def __init__(self, path: Path, max_bytes: int | None) -> None:
        self._path = path
        self._handle = path.open("rb")
        self._places: dict[str, _Place] = {}
        try:
            self._order = self._read_order()
            declared = self._list(path.stat().st_size)
            check_unpacked_size(path, declared, path.stat().st_size, max_bytes)
            for place in list(self._places.values()):
                if place.head.code == _STRUCT and math.prod(place.head.shape) == 1:
                    self._add_fields(place)
        except BaseException as error:
            self._handle.close()
            if isinstance(error, _DamageError):
                raise self._corrupt(error) from error
            raise
        self.variables = {
            name: Variable(place.head.shape, place.head.kind)
            for name, place in self._places.items()
        }

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def _corrupt(self, error: object) -> CorruptBundleError:
        return CorruptBundleError(
            f"{self._path.name} is not a Matlab file of version 5 or 7, or is damaged: {error}"
        )

    def load(self, name: str) -> Matrix:
        """Return an array."""
        place = self._places[name]
        try:
            content = self._content(place)
            if place.head.code == _SPARSE:
                where = f"variable {name!r} of {self._path.name}"
                return _sparse_values(content, place.head, self._order, where)
            return _dense_values(content, place.head, self._order)
        except _DamageError as error:
            raise self._corrupt(f"variable {name!r}: {error}") from error

    def _read_order(self) -> str:
        head = self._handle.read(_HEAD_BYTES)
        order = {b"IM": "<", b"MI": ">"}.get(head[126:128])
        if order is None or len(head) < _HEAD_BYTES:
            raise _DamageError("it does not start as one")
        return order

    def _list(self, file_size: int) -> int:
        """List the variables; return their total size in bytes."""
        declared = 0
        start = _HEAD_BYTES
        while start < file_size:
            self._handle.seek(start)
            tag = self._handle.read(8)
            if len(tag) < 8:
                raise _DamageError("it is cut off")
            kind, n_stored = struct.unpack(f"{self._order}II", tag)
            if start + 8 + n_stored > file_size:
                raise _DamageError(f"a variable of {n_stored:,} bytes goes beyond the end")
            declared += self._add(kind, start + 8, n_stored)
            start += 8 + n_stored
        return declared

    def _add(self, kind: int, start: int, n_stored: int) -> int:
        if kind not in (_MATRIX, _COMPRESSED):
            raise _DamageError(f"an element of type {kind} where a variable should be")
        peek = self._handle.read(min(n_stored, _PEEK_BYTES))
        n_unpacked = 0
        if kind == _COMPRESSED:
            peek = _unpack(peek, _PEEK_BYTES)
            if len(peek) < 8:
                raise _DamageError("a packed variable is empty")
            inner, n_unpacked = struct.unpack(f"{self._order}II", peek[:8])
            if inner != _MATRIX or n_unpacked > DEFLATE_RATIO * n_stored:
                raise _DamageError("a packed variable is not one")
            peek = peek[8:]
        head = _read_head(memoryview(peek), self._order)
        # An unnamed variable is Matlab's internal store of functions.
        if head.name:
            self._places[head.name] = _Place(head, start, n_stored, n_unpacked)
        return max(n_stored, n_unpacked, head.n_bytes)

    def _content(self, place: _Place) -> memoryview:
        """Return the bytes of a variable, unpacked."""
        if place.content is not None:
            return place.content
        self._handle.seek(place.start)
        stored = self._handle.read(place.n_stored)
        if place.n_unpacked == 0:
            return memoryview(stored)
        return memoryview(_unpack_whole(stored, place.n_unpacked + 8))[8:]

    def _add_fields(self, place: _Place) -> None:
        """List the fields of a struct, one level deep."""
        content = self._content(place)
        _, length, at = _element(content, place.head.body, self._order)
        _, names, at = _element(content, at, self._order)
        size = int.from_bytes(length[:4], "little" if self._order == "<" else "big")
        if size == 0:
            raise _DamageError("a struct has field names without length")
        for start in range(0, len(names), size):
            field = bytes(names[start : start + size]).partition(b"\0")[0].decode("latin1")
            kind, inner, at = _element(content, at, self._order)
            # An empty field may have no header.
            if kind == _MATRIX and len(inner):
                head = _read_head(inner, self._order)
                self._places[f"{place.head.name}.{field}"] = _Place(head, content=inner)


def _unpack(stored: bytes, limit: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(stored, limit)
    except zlib.error as error:
        raise _DamageError(str(error)) from error


def _unpack_whole(stored: bytes, n_bytes: int) -> bytes:
    """Return exactly this many unpacked bytes, and verify the checksum after them."""
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(stored, n_bytes)
        beyond = unpacker.decompress(unpacker.unconsumed_tail, 1)
    except zlib.error as error:
        raise _DamageError(str(error)) from error
    if len(content) != n_bytes or beyond or not unpacker.eof:
        raise _DamageError("a packed variable has another size than it says")
    return content


def _element(view: memoryview, at: int, order: str) -> tuple[int, memoryview, int]:
    """Return the type and bytes of the element at an offset, and the offset of the next one."""
    if at + 8 > len(view):
        raise _DamageError("it ends inside a variable")
    kind, size = struct.unpack_from(f"{order}II", view, at)
    if kind >> 16:
        # Up to four bytes are stored in the tag itself; its first half then has the size.
        kind, size = kind & 0xFFFF, kind >> 16
        start, room = at + 4, 4
    else:
        start, room = at + 8, len(view) - at - 8
    if size > room:
        raise _DamageError("an element is longer than the variable it is in")
    end = start + size
    return kind, view[start:end], end + (at - end) % 8


def _numbers(kind: int, content: memoryview, order: str) -> Array:
    if kind not in _STORED:
        raise _DamageError(f"values of the unknown type {kind}")
    dtype = np.dtype(order + _STORED[kind])
    if len(content) % dtype.itemsize:
        raise _DamageError("values are cut off")
    return np.frombuffer(content, dtype)


def _read_head(view: memoryview, order: str) -> _Head:
    kind, content, at = _element(view, 0, order)
    if kind != _CLASS_ELEMENT or len(content) != 8:
        raise _DamageError("a variable does not start with its class")
    flags = struct.unpack(f"{order}I", content[:4])[0]
    kind, content, at = _element(view, at, order)
    if kind != _SIZE_ELEMENT:
        raise _DamageError("a variable has no size")
    shape = tuple(_numbers(kind, content, order).tolist())
    if len(shape) < 2 or any(size < 0 for size in shape):
        raise _DamageError(f"a variable has the size {shape}")
    _, content, at = _element(view, at, order)
    name = bytes(content).decode("latin1")
    return _Head(flags & 0xFF, flags >> 8 & 0xFF, shape, name, at)


def _dense_values(view: memoryview, head: _Head, order: str) -> Array:
    kind, content, _ = _element(view, head.body, order)
    stored = _numbers(kind, content, order)
    if len(stored) != math.prod(head.shape):
        raise _DamageError(f"{len(stored)} values for the size {head.shape}")
    dtype: Any = np.bool_ if head.flags & _LOGICAL_FLAG else np.dtype(_NUMBERS[head.code])
    return stored.astype(dtype, copy=False).reshape(head.shape, order="F")


def _sparse_values(view: memoryview, head: _Head, order: str, where: str) -> Matrix:
    elements = []
    at = head.body
    for _ in range(3):
        kind, content, at = _element(view, at, order)
        elements.append(_numbers(kind, content, order))
    indices, pointers, values = elements
    # Matlab may allocate unused space after the last entry.
    n_used = int(pointers[-1]) if len(pointers) and pointers.dtype.kind in "iu" else 0
    indices, values = indices[: max(n_used, 0)], values[: max(n_used, 0)]
    dtype: Any = np.bool_ if head.flags & _LOGICAL_FLAG else np.float64
    return make_csc(
        where, [pointers, indices, values.astype(dtype)], (head.shape[0], head.shape[1])
    )


# HDF5 allows a user block of these sizes; that of Matlab has 512 bytes.
_OFFSETS = (0, 512, 1024, 2048)
_EMPTY = np.empty(0, dtype=np.int64)


def is_hdf5(path: Path) -> bool:
    """Whether a file is HDF5, the format of Matlab since version 7.3."""
    with path.open("rb") as handle:
        head = handle.read(_OFFSETS[-1] + len(HDF5_MAGIC))
    return any(head.startswith(HDF5_MAGIC, at) for at in _OFFSETS)


class Mat73File(MatFile):
    """An open file of version 7.3; HDF5 has the dimensions in reverse order.

    `max_bytes`: limit of the size of variables; see `check_unpacked_size`. Raises
    CorruptBundleError: the file is damaged. Raises MissingExtraError: h5py is not installed.
    """

    def __init__(self, path: Path, max_bytes: int | None) -> None:
        self._path = path
        self.variables: dict[str, Variable] = {}
        h5py = require("h5py")
        with ExitStack() as opened, reading(path):
            self._file = opened.enter_context(h5py.File(path, "r"))
            declared = self._list(self._file, "")
            check_unpacked_size(path, declared, path.stat().st_size, max_bytes)
            opened.pop_all()

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _list(self, group: Any, prefix: str) -> int:
        """List the variables of a group and the fields of structs; return their size in bytes."""
        declared = 0
        for key, node in list_nodes(group, self._path, prefix):
            # Names with '#' are Matlab's internal stores of cells and objects.
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
        nodes = [node[part] for part in ("data", "ir", "jc") if part in node]
        for part in nodes:
            reject_external(name, part, self._path)
        n_rows, n_columns = int(node.attrs["MATLAB_sparse"]), node["jc"].shape[0] - 1
        self.variables[name] = Variable((n_rows, n_columns), "sparse")
        return sum(int(part.nbytes) for part in nodes)

    def load(self, name: str) -> Matrix:
        """Return an array."""
        with reading(self._path):
            node = self._file[name.replace(".", "/")]
            if not hasattr(node, "shape"):
                return self._load_sparse(name, node)
            values: Array = node[()]
        return values.reshape(-1, 1) if values.ndim == 1 else values.T

    def _load_sparse(self, name: str, node: Any) -> Matrix:
        rows, columns = self.variables[name].shape
        pointers = node["jc"][()]
        # Matlab omits the other two arrays of a matrix without entries.
        indices, data = (node[key][()] if key in node else _EMPTY for key in ("ir", "data"))
        where = f"variable {name!r} of {self._path.name}"
        return make_csc(where, [pointers, indices, data], (rows, columns))

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Matrix
from acqh._core.imports import require
from acqh.data.readers.arrays import DEFLATE_RATIO, make_csc
from acqh.data.readers.columns import check_unpacked_size, guarded
from acqh.data.readers.groups import HDF5_MAGIC, list_nodes, reading, reject_external

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
    """An open file: `variables` by name; names of struct fields are ``struct.field``.

    `max_bytes`: limit of the size of variables; see `check_unpacked_size`. Raises
    CorruptBundleError: the file is damaged or of another format.
    """

    def __init__(self, path: Path, max_bytes: int | None) -> None:
        self.path = path
        self.variables: dict[str, Any] = {}
        with ExitStack() as opened, self._guarded():
            self._file = opened.enter_context(self._open())
            declared = self._list()
            check_unpacked_size(path, declared, path.stat().st_size, max_bytes)
            self._list_fields()
            opened.pop_all()

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @abstractmethod
    def _open(self) -> Any:
        """Open the file."""

    @abstractmethod
    def _guarded(self) -> AbstractContextManager[None]:
        """Raise errors of reading as CorruptBundleError."""

    @abstractmethod
    def _list(self) -> int:
        """List the variables; return their total size in bytes."""

    def _list_fields(self) -> None:
        """List the fields of structs that `_list` has not read."""

    @abstractmethod
    def load(self, name: str) -> Matrix:
        """Return a matrix of numbers as Matlab shows it, dense or CSC."""


def open_mat(path: Path, max_bytes: int | None) -> MatFile:
    """Open a Matlab file of any version; see `MatFile`."""
    return (Mat73File if _is_hdf5(path) else Mat5File)(path, max_bytes)


class _DamageError(Exception):
    """The contents of the file are inconsistent."""


@dataclass(frozen=True)
class _Stored(Variable):
    """A variable of version 5, whose bytes are in the file, or in memory as a field of a struct."""

    name: str
    code: int
    is_logical: bool
    body: int  # where the values start
    start: int = 0
    n_stored: int = 0
    n_unpacked: int = 0
    content: memoryview | None = None


class Mat5File(MatFile):
    """An open file of version 5."""

    def _open(self) -> Any:
        return self.path.open("rb")

    def _guarded(self) -> AbstractContextManager[None]:
        problem = "is not a Matlab file of version 5 or 7, or is damaged"
        return guarded(self.path.name, _DamageError, zlib.error, problem=problem)

    def load(self, name: str) -> Matrix:
        """Return an array."""
        variable = self.variables[name]
        with self._guarded():
            content = self._content(variable)
            if variable.code != _SPARSE:
                return _dense_values(content, variable, self._order)
            where = f"variable {name!r} of {self.path.name}"
            return _sparse_values(content, variable, self._order, where)

    def _list(self) -> int:
        head = self._file.read(_HEAD_BYTES)
        orders = {b"IM": "<", b"MI": ">"}
        if head[126:] not in orders:
            raise _DamageError("it does not start as one")
        self._order = orders[head[126:]]
        declared, start, file_size = 0, _HEAD_BYTES, self.path.stat().st_size
        while start < file_size:
            self._file.seek(start)
            tag = self._file.read(8)
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
        peek = self._file.read(min(n_stored, _PEEK_BYTES))
        n_unpacked = 0
        if kind == _COMPRESSED:
            peek = zlib.decompressobj().decompress(peek, _PEEK_BYTES)
            if len(peek) < 8:
                raise _DamageError("a packed variable is empty")
            inner, n_unpacked = struct.unpack(f"{self._order}II", peek[:8])
            if inner != _MATRIX or n_unpacked > DEFLATE_RATIO * n_stored:
                raise _DamageError("a packed variable is not one")
            peek = peek[8:]
        variable = _read_head(memoryview(peek), self._order)
        # An unnamed variable is Matlab's internal store of functions.
        if variable.name:
            self.variables[variable.name] = replace(
                variable, start=start, n_stored=n_stored, n_unpacked=n_unpacked
            )
        item_bytes = np.dtype(_NUMBERS.get(variable.code, "V0")).itemsize
        return max(n_stored, n_unpacked, math.prod(variable.shape) * item_bytes)

    def _content(self, variable: _Stored) -> memoryview:
        """Return the bytes of a variable, unpacked; verify the checksum after packed ones."""
        if variable.content is not None:
            return variable.content
        self._file.seek(variable.start)
        stored = self._file.read(variable.n_stored)
        if variable.n_unpacked == 0:
            return memoryview(stored)
        unpacker, n_bytes = zlib.decompressobj(), variable.n_unpacked + 8
        content = unpacker.decompress(stored, n_bytes)
        beyond = unpacker.decompress(unpacker.unconsumed_tail, 1)
        if len(content) != n_bytes or beyond or not unpacker.eof:
            raise _DamageError("a packed variable has another size than it says")
        return memoryview(content)[8:]

    def _list_fields(self) -> None:
        """List the fields of structs, one level deep."""
        structs = [one for one in self.variables.values() if one.code == _STRUCT]
        for variable in (one for one in structs if math.prod(one.shape) == 1):
            content = self._content(variable)
            _, length, at = _element(content, variable.body, self._order)
            _, names, at = _element(content, at, self._order)
            size = int.from_bytes(length[:4], "little" if self._order == "<" else "big")
            if size == 0:
                raise _DamageError("a struct has field names without length")
            for start in range(0, len(names), size):
                field = bytes(names[start : start + size]).partition(b"\0")[0].decode("latin1")
                kind, inner, at = _element(content, at, self._order)
                # An empty field may have no header.
                if kind == _MATRIX and len(inner):
                    stored = replace(_read_head(inner, self._order), content=inner)
                    self.variables[f"{variable.name}.{field}"] = stored


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


def _numbers(view: memoryview, at: int, order: str) -> tuple[Array, int]:
    """Return the numbers of the element at an offset, and the offset of the next one."""
    kind, content, end = _element(view, at, order)
    if kind not in _STORED:
        raise _DamageError(f"values of the unknown type {kind}")
    dtype = np.dtype(order + _STORED[kind])
    if len(content) % dtype.itemsize:
        raise _DamageError("values are cut off")
    return np.frombuffer(content, dtype), end


def _read_head(view: memoryview, order: str) -> _Stored:
    kind, content, at = _element(view, 0, order)
    if kind != _CLASS_ELEMENT or len(content) != 8:
        raise _DamageError("a variable does not start with its class")
    (flags,) = struct.unpack(f"{order}I", content[:4])
    if _element(view, at, order)[0] != _SIZE_ELEMENT:
        raise _DamageError("a variable has no size")
    sizes, at = _numbers(view, at, order)
    shape = tuple(sizes.tolist())
    if len(shape) < 2 or any(size < 0 for size in shape):
        raise _DamageError(f"a variable has the size {shape}")
    _, content, body = _element(view, at, order)
    code, is_logical = flags & 0xFF, bool(flags >> 8 & _LOGICAL_FLAG)
    name = _OTHERS.get(code, "unknown")
    if code in _NUMBERS:
        name = "logical" if is_logical else _matlab_kind(np.dtype(_NUMBERS[code]))
    if flags >> 8 & _COMPLEX_FLAG:
        name = f"complex {name}"
    return _Stored(shape, name, bytes(content).decode("latin1"), code, is_logical, body)


def _dense_values(view: memoryview, variable: _Stored, order: str) -> Array:
    stored, _ = _numbers(view, variable.body, order)
    if len(stored) != math.prod(variable.shape):
        raise _DamageError(f"{len(stored)} values for the size {variable.shape}")
    dtype: Any = np.bool_ if variable.is_logical else np.dtype(_NUMBERS[variable.code])
    return stored.astype(dtype, copy=False).reshape(variable.shape, order="F")


def _sparse_values(view: memoryview, variable: _Stored, order: str, where: str) -> Matrix:
    indices, at = _numbers(view, variable.body, order)
    pointers, at = _numbers(view, at, order)
    values, _ = _numbers(view, at, order)
    # Matlab may allocate unused space after the last entry.
    n_used = int(pointers[-1]) if len(pointers) and pointers.dtype.kind in "iu" else 0
    indices, values = indices[: max(n_used, 0)], values[: max(n_used, 0)]
    dtype: Any = np.bool_ if variable.is_logical else np.float64
    shape = variable.shape[0], variable.shape[1]
    return make_csc(where, [pointers, indices, values.astype(dtype)], shape)


# HDF5 allows a user block of these sizes; that of Matlab has 512 bytes.
_OFFSETS = (0, 512, 1024, 2048)
_EMPTY = np.empty(0, dtype=np.int64)


def _is_hdf5(path: Path) -> bool:
    """Whether a file is HDF5, the format of Matlab since version 7.3."""
    with path.open("rb") as handle:
        head = handle.read(_OFFSETS[-1] + len(HDF5_MAGIC))
    return any(head.startswith(HDF5_MAGIC, at) for at in _OFFSETS)


class Mat73File(MatFile):
    """An open file of version 7.3; HDF5 has the dimensions in reverse order.

    Raises MissingExtraError: h5py is not installed.
    """

    def _open(self) -> Any:
        return require("h5py").File(self.path, "r")

    def _guarded(self) -> AbstractContextManager[None]:
        return reading(self.path)

    def _list(self) -> int:
        return self._list_group(self._file, "")

    def _list_group(self, group: Any, prefix: str) -> int:
        """List the variables of a group and the fields of structs; return their size in bytes."""
        declared = 0
        for key, node in list_nodes(group, self.path, prefix):
            # Names with '#' are Matlab's internal stores of cells and objects.
            if key.startswith("#"):
                continue
            if hasattr(node, "shape"):
                declared += self._add_dataset(prefix + key, node)
            elif "MATLAB_sparse" in node.attrs:
                declared += self._add_sparse(prefix + key, node)
            else:
                self.variables[prefix + key] = Variable((1, 1), "struct")
                declared += self._list_group(node, f"{prefix}{key}.") if not prefix else 0
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
            reject_external(name, part, self.path)
        n_rows, n_columns = int(node.attrs["MATLAB_sparse"]), node["jc"].shape[0] - 1
        self.variables[name] = Variable((n_rows, n_columns), "sparse")
        return sum(int(part.nbytes) for part in nodes)

    def load(self, name: str) -> Matrix:
        """Return an array."""
        with self._guarded():
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
        where = f"variable {name!r} of {self.path.name}"
        return make_csc(where, [pointers, indices, data], (rows, columns))

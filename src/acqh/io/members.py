"""Members: named arrays in one file of the safetensors format.

A file consists of the length of its header (8 bytes, little-endian), the header (JSON: name to
dtype, shape and offsets), and the arrays without gaps. The reader does not trust files: it checks
every number against the size of the file before it creates an array.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core import files
from acqh._core.arrays import Array, slices
from acqh.errors import CorruptBundleError, InvalidInputError

# No booleans: NumPy has undefined behaviour for bytes other than 0 and 1, as in a damaged file.
_DTYPES = {
    "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_CODES = {np.dtype(dtype): code for code, dtype in _DTYPES.items()}

_LENGTH_BYTES = 8
MAX_HEADER_BYTES = 1 << 20
_MAX_DIMENSIONS = 8
_MAX_ELEMENTS = 1 << 56
# Arrays start at a multiple of this in the file; so they do in memory when it is mapped.
_ALIGNMENT = 64
_CHUNK_BYTES = 1 << 23
_METADATA = "__metadata__"


def member_header(arrays: Mapping[str, Array]) -> bytes:
    """Return the first bytes of a member, header length included.

    Raises InvalidInputError: a dtype or name that cannot be stored, or too many arrays.
    """
    header: dict[str, Any] = {}
    start = 0
    for name, array in ordered(arrays):
        dtype = array.dtype.newbyteorder("<")
        if dtype not in _CODES:
            raise InvalidInputError(
                f"array {name!r} has dtype {array.dtype}; bundles hold integers and floats of 1 to "
                "8 bytes (store booleans as uint8, text as UTF-8 bytes)"
            )
        if not isinstance(name, str) or name in ("", _METADATA):
            raise InvalidInputError(f"{name!r} is not a valid array name; use another string")
        if array.ndim > _MAX_DIMENSIONS:
            raise InvalidInputError(
                f"array {name!r} has {array.ndim} dimensions; use at most {_MAX_DIMENSIONS}"
            )
        header[name] = {
            "dtype": _CODES[dtype],
            "shape": list(array.shape),
            "data_offsets": [start, start + array.nbytes],
        }
        start += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-(len(text) + _LENGTH_BYTES) % _ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES:
        raise InvalidInputError(
            f"{len(arrays)} arrays are too many for one member; use several members"
        )
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def ordered(arrays: Mapping[str, Array]) -> list[tuple[str, Array]]:
    """Return the arrays in the order of the file: widest dtype first, so that all are aligned."""
    return sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)


def write_member(path: Path, arrays: Mapping[str, Array]) -> tuple[int, str]:
    """Write and sync a member in bounded memory; the path must not exist.

    Returns the number of bytes and the SHA-256.
    """
    digest = hashlib.sha256()
    n_bytes = 0
    with files.create(path) as file:
        for chunk in _stream(arrays):
            digest.update(chunk)
            files.write(file, chunk)
            n_bytes += chunk.nbytes
        files.sync(file)
    return n_bytes, digest.hexdigest()


def _stream(arrays: Mapping[str, Array]) -> Iterator[memoryview]:
    yield memoryview(member_header(arrays))
    for _, array in ordered(arrays):
        if array.size == 0:
            continue
        rows = array.reshape(-1) if array.flags.c_contiguous else array
        step = max(1, _CHUNK_BYTES // (rows.nbytes // len(rows)))
        for part in slices(len(rows), step):
            chunk = np.ascontiguousarray(rows[part], dtype=array.dtype.newbyteorder("<"))
            yield chunk.reshape(-1).view(np.uint8).data


def member_arrays(content: Array, where: str) -> dict[str, Array]:
    """Return the arrays of a member as views of its bytes.

    `content`: (n_bytes,) uint8; the file, usually memory-mapped; arrays are read-only if it is.
    `where`: name of the file in errors. Raises CorruptBundleError: the bytes are not a member.
    """
    header, data = _split(content, where)
    arrays: dict[str, Array] = {}
    end = 0
    for name, entry in header.items():
        dtype, shape, start, stop = _check_entry(name, entry, where)
        if start != end or stop > data.size:
            raise CorruptBundleError(f"{where}: the offsets of array {name!r} are not contiguous")
        end = stop
        arrays[name] = _view(data[start:stop], dtype, shape)
    if end != data.size:
        raise CorruptBundleError(
            f"{where} contains {data.size} bytes of arrays, expected {end} from its header"
        )
    return arrays


def _view(data: Array, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    if data.ctypes.data % dtype.itemsize:
        # acqh aligns arrays; other writers may not.
        data = data.copy()
        data.flags.writeable = False
    return data.view(dtype).reshape(shape)


def _split(content: Array, where: str) -> tuple[dict[str, Any], Array]:
    if content.size < _LENGTH_BYTES:
        raise CorruptBundleError(f"{where} is truncated: it has {content.size} bytes")
    length = int.from_bytes(content[:_LENGTH_BYTES].tobytes(), "little")
    stop = _LENGTH_BYTES + length
    if length > MAX_HEADER_BYTES or stop > content.size:
        raise CorruptBundleError(
            f"{where} has a header length of {length} bytes, but the file has {content.size}"
        )
    try:
        header = files.parse_json(content[_LENGTH_BYTES:stop].tobytes().decode("utf-8"))
    except ValueError as error:
        raise CorruptBundleError(f"{where} has a header that is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise CorruptBundleError(f"{where} has a header that is not a JSON object")
    header.pop(_METADATA, None)
    return header, content[stop:]


def _check_entry(
    name: str, entry: Any, where: str
) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    match entry:
        case {
            "dtype": str(code),
            "shape": list(shape),
            "data_offsets": [int(start), int(stop)],
            **others,
        } if not others and code in _DTYPES:
            pass
        case _:
            raise CorruptBundleError(
                f"{where}: array {name!r} has an invalid entry: {entry!r:.200}"
            )
    if (
        len(shape) > _MAX_DIMENSIONS
        or not all(type(length) is int and 0 <= length < _MAX_ELEMENTS for length in shape)
        # NumPy multiplies the lengths even if one of them is zero.
        or math.prod(length or 1 for length in shape) > _MAX_ELEMENTS
    ):
        raise CorruptBundleError(f"{where}: array {name!r} has the invalid shape {shape!r:.200}")
    dtype = np.dtype(_DTYPES[code])
    if not 0 <= start <= stop or stop - start != math.prod(shape) * dtype.itemsize:
        raise CorruptBundleError(
            f"{where}: array {name!r} of shape {tuple(shape)} and dtype {dtype} does not fit its "
            f"{stop - start} bytes"
        )
    return dtype, tuple(shape), start, stop

"""Headers of ONNX files: which other files have the weights, and how wide the output is.

ONNX Runtime reads whatever a file names, so names are checked first. Field numbers are those of
``onnx.proto``, which never change.
"""

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from acqh.errors import InvalidInputError

T = TypeVar("T")
# Fields that lead to tensors: message -> field number -> message.
_FIELDS = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor",
                  23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {13: "external data"},
}  # fmt: skip


def external_files(path: Path) -> list[str]:
    """Return the names of the files that have weights of a network, relative to its folder.

    Raises InvalidInputError: a name leads out of the folder, or the file is not an ONNX file.
    """
    names = sorted(_read(path, lambda model: set(_locations(model, "model"))))
    for name in names:
        place = PurePosixPath(name.replace("\\", "/"))
        if place.is_absolute() or ".." in place.parts or ":" in name or not place.parts:
            raise InvalidInputError(f"{path} takes weights from {name!r}, outside its folder")
    return names


def output_width(path: Path, names: tuple[str, ...]) -> int | None:
    """Return the last dimension of the output with one of the names; None if it is not stated."""

    def width(model: memoryview) -> int | None:
        outputs = {_text(entry, 1): entry for entry in _find(model, 7, 12)}
        name = next((name for name in names if name in outputs), next(iter(outputs), ""))
        dimensions = list(_find(outputs.get(name, memoryview(b"")), 2, 1, 2, 1))
        sizes = [value for value in _find(dimensions[-1], 1) if value] if dimensions else []
        return int(sizes[0]) if sizes else None

    return _read(path, width)


def _read(path: Path, read: Callable[[memoryview], T]) -> T:
    """Call a function with the content of a file, which is mapped into memory."""
    try:
        with path.open("rb") as file:
            # Closed when its last view is gone, which an error may hold.
            return read(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise InvalidInputError(f"{path} is not an ONNX file: {error}") from error


def _locations(message: memoryview, kind: str) -> Iterator[str]:
    if kind == "external data":
        if _text(message, 1) == "location":
            yield _text(message, 2)
        return
    for number, value in _fields(message):
        if number in _FIELDS[kind]:
            yield from _locations(value, _FIELDS[kind][number])


def _text(message: memoryview, number: int) -> str:
    return b"".join(list(_find(message, number))[-1:]).decode()


def _find(message: Any, number: int, *inner: int) -> Iterator[Any]:
    """Yield the values of a field, or of fields inside it, by their numbers."""
    for other, value in _fields(message):
        if other == number:
            yield from _find(value, *inner) if inner else (value,)


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: their numbers, and integers or bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        n_bytes, at = _varint(message, at) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], at)
        if at + n_bytes > len(message):
            raise ValueError("it is cut off")
        yield tag >> 3, message[at : at + n_bytes]
        at += n_bytes


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number is too long")

"""How the attributes of a fitted method lie in its bundle: JSON that names a kind, and arrays."""

from collections import ChainMap
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, TypeVar

from acqh._core.arrays import Array
from acqh._core.store import unpack
from acqh.encoders.named import STORED as _ENCODERS
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.features.named import STORED as _MAPS
from acqh.io import Bundle, read_bundle

KIND = "method"
MEMBER = "fitted"
_SEPARATOR = "/"
# Encoders and feature maps that can be stored, those of users included.
HOMES = ChainMap(_ENCODERS, _MAPS)
# Classes whose objects are stored as JSON and named arrays, by the kind that files call them.
STORABLE: dict[str, type[Any]] = {}

_Class = TypeVar("_Class", bound=type)


def storable(kind: str) -> Callable[[_Class], _Class]:
    """Return a class decorator: its objects can be parameters and attributes of saved methods.

    The class has ``to_state``, which returns JSON and named arrays, and the class method
    ``from_state``, which takes them.
    """

    def enter(cls: _Class) -> _Class:
        cls.stored_as = kind  # type: ignore[attr-defined]
        STORABLE[kind] = cls
        return cls

    return enter


def unpack_map(described: Any, arrays: dict[str, Array]) -> Any:
    """Return a fitted encoder or feature map, of which these are all the arrays."""
    return unpack(described, arrays, HOMES)


def read_method(path: str | PathLike[str]) -> Bundle:
    """Read the bundle of a fitted method, every byte of it checked."""
    return read_bundle(path, kind=KIND, mmap=False, verify=True)


def join(name: str, key: str) -> str:
    """Return what a part of an attribute is called among the arrays."""
    return f"{name}{_SEPARATOR}{key}" if key else name


def take(prefix: str, arrays: dict[str, Array]) -> dict[str, Array]:
    """Take out the arrays whose names start with the prefix, under the rest of their names."""
    start = prefix + _SEPARATOR
    names = [name for name in arrays if name.startswith(start)]
    return {name.removeprefix(start): arrays.pop(name) for name in names}


def restore_numbers(name: str, entry: Mapping[str, Any], arrays: dict[str, Array]) -> Any:
    """Return an attribute of numbers and texts; takes its arrays out of `arrays`."""
    match entry["kind"]:
        case "json":
            return entry["value"]
        case "tuple":
            return tuple(entry["value"])
        case "array":
            return arrays.pop(name)
        case "arrays":
            return {key: arrays.pop(join(name, key)) for key in entry["keys"]}
    raise CorruptBundleError(f"attribute {name!r} is of the unknown kind {entry['kind']!r}")


def check_sizes(fitted: Mapping[str, Any], n_codebooks: int, n_norms: int = 0) -> None:
    """Refuse codebooks and projections whose sizes contradict one another or the parameters.

    Some methods store one more codebook and component, for norms.
    """
    books = fitted.get("codebooks_")
    if books is None:
        return
    if books.ndim != 3 or len(books) != n_codebooks + n_norms:
        raise InvalidInputError(f"codebooks of shape {books.shape} for {n_codebooks}")
    for view, matrix in fitted.get("projections_", {}).items():
        if matrix.ndim != 2 or matrix.shape[1] != books.shape[2] - n_norms:
            raise InvalidInputError(f"projections of shape {matrix.shape} for view {view!r}")

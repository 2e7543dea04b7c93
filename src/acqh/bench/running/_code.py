"""A fingerprint of the code that a method's figures come from."""

import ast
import hashlib
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from acqh.errors import InvalidInputError

# What figures depend on; other modules are not followed.
_ROOMS = ("acqh.features", "acqh.methods", "acqh.metrics", "acqh.quantize", "acqh.stats")
_MODULES = ("acqh._core.linalg",)
# Encoders of raw items, and what only names or stores things.
_SKIPPED = frozenset(
    {
        "acqh.features._efficientnet",
        "acqh.features._hog",
        "acqh.features._images",
        "acqh.features._minilm",
        "acqh.features._network",
        "acqh.features._networks",
        "acqh.features._plain",
        "acqh.features._text",
        "acqh.features._words",
        "acqh.methods._entries",
        "acqh.methods._state",
        "acqh.methods.registry",
    }
)
# Besides a method's own: what measures it.
_MEASURED_BY = ("acqh.metrics._evaluator", "acqh.metrics._relevance")


@cache
def fingerprint_code(cls: type) -> str:
    """Return a text that changes when the code of a method or of what it computes with does.

    Covered are the file of the class and every module of the package that it uses for
    computing, followed through their imports, without comments and docstrings.

    Gives 64 hexadecimal digits. Raises InvalidInputError: the source of the class cannot be found.

    Examples
    --------
    >>> from acqh.methods import CVH, DCH
    >>> fingerprint_code(CVH) == fingerprint_code(DCH)
    False
    """
    try:
        own = Path(inspect.getsourcefile(cls) or "")
        digests = {own.name: _read(own)}
    except (OSError, TypeError):
        raise InvalidInputError(f"the source of {cls.__name__} cannot be found") from None
    left = [*digests[own.name].imports, *_MEASURED_BY]
    while left:
        name = left.pop()
        if name not in digests:
            digests[name] = _read(_file(name))
            left += digests[name].imports
    lines = "\n".join(f"{name} {digests[name].sha256}" for name in sorted(digests))
    return hashlib.sha256(lines.encode()).hexdigest()


@dataclass(frozen=True)
class _Module:
    """The digest of what a module says, and the modules that it takes names from."""

    sha256: str
    imports: tuple[str, ...]


@cache
def _read(path: Path) -> _Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:]
    found = (
        home
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for home in _homes(node.module, [alias.name for alias in node.names])
    )
    imports = tuple(dict.fromkeys(filter(_is_followed, found)))
    return _Module(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imports)


def _is_followed(module: str) -> bool:
    inside = module.startswith(tuple(f"{room}." for room in _ROOMS))
    return module in _MODULES or (inside and module not in _SKIPPED)


def _homes(module: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the modules that define names which are imported from a module or a room."""
    if module not in _ROOMS:
        yield module
        return
    given = _given_by(module)
    yield from (given.get(name) or f"{module}.{name}" for name in names)


@cache
def _given_by(room: str) -> dict[str, str]:
    """Return where the names come from that a room offers."""
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(ast.parse(_file(room).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


def _file(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise InvalidInputError(f"the source of {module} cannot be found")
    return Path(spec.origin)

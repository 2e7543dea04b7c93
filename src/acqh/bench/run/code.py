"""A fingerprint of the code that figures come from."""

import hashlib
import inspect
from functools import cache
from pathlib import Path

from acqh.errors import InvalidInputError

_PACKAGE = Path(__file__).parents[2]
# What no figure of a cell comes from; all else counts.
APART = (
    "bench/report", "cli", "collection", "deep", "export", "integrations", "scale", "serve",
)  # fmt: skip


@cache
def fingerprint_code(cls: type) -> str:
    """Return a text that changes when code changes that the figures of a method may come from.

    Covered are the file of the class and all rooms of the package that cells may use.

    Gives 64 hexadecimal digits. Raises InvalidInputError: the source of the class cannot be found.

    Examples
    --------
    >>> from acqh.methods import CVH
    >>> len(fingerprint_code(CVH))
    64
    """
    try:
        own = Path(inspect.getsourcefile(cls) or "").read_bytes()
    except (OSError, TypeError):
        raise InvalidInputError(f"the source of {cls.__name__} cannot be found") from None
    return hashlib.sha256(own + digest_rooms(_PACKAGE)).hexdigest()


def digest_rooms(package: Path) -> bytes:
    """Return a digest of every source file of a package that does not stand apart."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(tuple(f"{room}/" for room in APART)):
            digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.digest()

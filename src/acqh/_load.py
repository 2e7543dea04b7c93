"""Open anything acqh has saved."""

import os
from importlib import import_module
from typing import Any

from acqh._core.errors import InvalidInputError
from acqh.io import kind_of

# Kind of bundle -> the room that reads it, and how.
_READERS = {
    "code-index": ("acqh.index", "CodeIndex.load"),
    "hamming-index": ("acqh.index", "HammingIndex.load"),
    "method": ("acqh.methods", "load_method"),
}


def load(path: str | os.PathLike[str]) -> Any:
    """Open a bundle that acqh has saved, whatever it holds.

    Indexes are mapped, not read, so that opening is quick at any size.

    Parameters
    ----------
    path : path-like
        The bundle's directory.

    Returns
    -------
    CodeIndex, HammingIndex, or a fitted method

    Raises
    ------
    FileNotFoundError
        There is no bundle at the path.
    CorruptBundleError
        The bundle is damaged or of a newer version.
    InvalidInputError
        It holds something else.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     acqh.HammingIndex(8).add([[7], [9]]).save(folder + "/bits.acqh")
    ...     acqh.load(folder + "/bits.acqh")
    <HammingIndex: 2 items, 8 bits>
    """
    kind = kind_of(path)
    if kind not in _READERS:
        raise InvalidInputError(
            f"{os.fspath(path)} holds a {kind!r}, not one of {', '.join(sorted(_READERS))}"
        )
    room, name = _READERS[kind]
    reader: Any = import_module(room)
    for attribute in name.split("."):
        reader = getattr(reader, attribute)
    return reader(path)

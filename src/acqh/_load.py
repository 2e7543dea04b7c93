"""Open or check anything acqh has saved."""

import os
from dataclasses import replace
from importlib import import_module
from typing import Any

from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io import BundleReport, kind_of, verify_bundle

# Kind of bundle -> the room that reads it, how, and how to have it check every value.
_READERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "collection": ("acqh.collection", "Collection.open", {"verify": True}),
    "code-index": ("acqh.index", "CodeIndex.load", {"verify": True}),
    "code-parts": ("acqh.scale", "CodeParts", {"verify": True}),
    "code-shards": ("acqh.scale", "ShardedIndex.load", {"verify": True}),
    "hamming-index": ("acqh.index", "HammingIndex.load", {"verify": True}),
    "search-parts": ("acqh.scale", "SearchParts", {"verify": True}),
    "vectors": ("acqh.index", "VectorFile", {}),
    "method": ("acqh.methods", "load_method", {}),
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
    CodeIndex, ShardedIndex, HammingIndex, CodeParts, SearchParts, Collection, or a fitted method

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
    return _reader(kind)(path)


def verify(path: str | os.PathLike[str]) -> BundleReport:
    """Check every byte of a bundle, and that what it holds makes sense.

    Parameters
    ----------
    path : path-like
        The bundle's directory.

    Returns
    -------
    BundleReport
        Its `problems` name all that is damaged. What a bundle of unknown kind holds is not
        looked at, only its bytes.

    Raises
    ------
    FileNotFoundError
        There is no bundle at the path.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     acqh.HammingIndex(8).add([[7], [9]]).save(folder + "/bits.acqh")
    ...     verify(folder + "/bits.acqh").problems
    ()
    """
    report = verify_bundle(path)
    if not report.ok or report.kind not in _READERS:
        return report
    try:
        _reader(report.kind)(path, **_READERS[report.kind][2])
    except CorruptBundleError as error:
        return replace(report, problems=(str(error),))
    return report


def _reader(kind: str) -> Any:
    room, name, _ = _READERS[kind]
    reader: Any = import_module(room)
    for attribute in name.split("."):
        reader = getattr(reader, attribute)
    return reader

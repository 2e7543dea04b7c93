"""Open or check anything acqh has saved."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar, overload

import acqh
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io import BundleReport, verify_bundle
from acqh.io.read import kind_of

Path: TypeAlias = str | os.PathLike[str]
_T = TypeVar("_T")


def _open_index(path: Path, check: bool) -> "acqh.CodeIndex | acqh.scale.Compressed":
    index = acqh.index.CodeIndex.load(path, verify=check)
    if not index.info:  # an index without a quantizer opens without importing `scale`
        return index
    from acqh.scale.compressed import Compressed, has_quantizer

    return Compressed.from_index(index) if has_quantizer(index) else index


# How each kind is opened, by a subpackage that is imported then; methods always check all.
_OPEN: dict[str, Callable[[Path, bool], Any]] = {
    "code-index": _open_index,
    "code-parts": lambda path, check: acqh.scale.parts.load_parts(path, verify=check),
    "collection": lambda path, check: acqh.collection.Collection.open(path, verify=check),
    "hamming-index": lambda path, check: acqh.index.HammingIndex.load(path, verify=check),
    "method": lambda path, _: acqh.methods.load_method(path),
}


@overload
def load(path: Path) -> Any: ...
@overload
def load(path: Path, kind: type[_T]) -> _T: ...
def load(path: Path, kind: type[Any] | None = None) -> Any:
    """Open anything that acqh has saved: an index, a collection or a fitted method.

    Indexes are memory-mapped, so opening is quick at any size.

    Parameters
    ----------
    path : path-like
        The folder that was saved.
    kind : type, optional
        The class that is expected, such as `CodeIndex`: type checkers then know what is returned,
        and anything else is an error.

    Returns
    -------
    CodeIndex, Compressed, HammingIndex, CodeParts, Collection, or a fitted method
        An instance of `kind` if that is passed. What `compress` saved is a `Compressed`, which
        takes vectors in `add`; pass ``kind=CodeIndex`` for its index alone.

    Raises
    ------
    FileNotFoundError
        There is no bundle at the path.
    CorruptBundleError
        The bundle is damaged or of a newer version.
    InvalidInputError
        The folder holds something else.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     acqh.HammingIndex(8).add([[7], [9]]).save(folder + "/bits.acqh")
    ...     acqh.load(folder + "/bits.acqh", acqh.HammingIndex)
    <HammingIndex: 2 items, 8 bits>
    """
    stored_kind = kind_of(path)
    if stored_kind not in _OPEN:
        kinds = ", ".join(sorted(_OPEN))
        raise InvalidInputError(f"{os.fspath(path)} holds a {stored_kind!r}, not one of {kinds}")
    loaded = _OPEN[stored_kind](path, False)
    if stored_kind == "code-index" and kind is acqh.index.CodeIndex:
        return getattr(loaded, "index", loaded)
    if kind is not None and not isinstance(loaded, kind):
        if hasattr(loaded, "close"):
            loaded.close()
        raise InvalidInputError(
            f"{os.fspath(path)} holds a {type(loaded).__name__}, not a {kind.__name__}"
        )
    return loaded


def verify(path: Path) -> "BundleReport | acqh.collection.CollectionReport":
    """Check every byte of anything acqh has saved, and that what it holds makes sense.

    What ``acqh verify`` does.

    Parameters
    ----------
    path : path-like
        The bundle's directory.

    Returns
    -------
    BundleReport or, of a collection, CollectionReport
        ``ok``, and `problems`, which name all that is damaged. Of a bundle of unknown kind only
        the bytes are checked, not the content.

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
    ...     acqh.verify(folder + "/bits.acqh").ok
    True
    """
    report = verify_bundle(path)
    if report.kind == "collection":
        from acqh.collection.verify import verify_collection

        return verify_collection(path)
    if not report.ok or report.kind not in _OPEN:
        return report
    try:
        _OPEN[report.kind](path, True)
    except CorruptBundleError as error:
        return replace(report, problems=(str(error),))
    return report

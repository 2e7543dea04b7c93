"""Open or check anything acqh has saved."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io import BundleReport, kind_of, verify_bundle

if TYPE_CHECKING:
    from acqh.collection import CollectionReport

Path: TypeAlias = str | os.PathLike[str]


_KINDS = (
    "code-index",
    "code-parts",
    "code-shards",
    "collection",
    "documents",
    "hamming-index",
    "method",
)


def _open(kind: str, path: Path, *, verify: bool = False) -> Any:
    """Open a bundle of a known kind; each imports what it needs, and nothing else."""
    match kind:
        case "collection":
            from acqh.collection import Collection

            return Collection.open(path, verify=verify)
        case "code-index" | "hamming-index":
            from acqh.index import CodeIndex, HammingIndex

            return (CodeIndex if kind == "code-index" else HammingIndex).load(path, verify=verify)
        case "code-shards":
            from acqh.scale import open_shards

            return open_shards(path, verify=verify)
        case "code-parts":
            from acqh.scale import CodeParts

            return CodeParts(path, verify=verify)
        case "documents":
            from acqh.integrations import DocumentStore

            return DocumentStore.load(path)  # which always checks all
        case "method":
            from acqh.methods import load_method

            return load_method(path)  # which always checks all
    raise InvalidInputError(f"{os.fspath(path)} holds a {kind!r}, not one of {', '.join(_KINDS)}")


def load(path: Path) -> Any:
    """Open a bundle that acqh has saved, whatever it holds.

    Indexes are mapped, not read, so that opening is quick at any size.

    Parameters
    ----------
    path : path-like
        The bundle's directory.

    Returns
    -------
    CodeIndex, HammingIndex, CodeParts, Collection,
    DocumentStore (of `acqh.integrations`), or a fitted method
        Anything, to a type checker; `CodeIndex.load`, `Collection.open` and the like are typed.

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
    return _open(kind_of(path), path)


def verify(path: Path) -> "BundleReport | CollectionReport":
    """Check every byte of anything acqh has saved, and that what it holds makes sense.

    What ``acqh verify`` does.

    Parameters
    ----------
    path : path-like
        The bundle's directory.

    Returns
    -------
    BundleReport or, of a collection, CollectionReport
        ``ok``, and `problems`, which name all that is damaged. What a bundle of unknown kind
        holds is not looked at, only its bytes.

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
        from acqh.collection import verify_collection

        return verify_collection(path)
    if not report.ok or report.kind not in _KINDS:
        return report
    try:
        _open(report.kind, path, verify=True)
    except CorruptBundleError as error:
        return replace(report, problems=(str(error),))
    return report

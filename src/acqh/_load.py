"""Open or check anything acqh has saved."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io import BundleReport, kind_of, verify_bundle

if TYPE_CHECKING:
    from acqh.collection import CollectionReport

Path: TypeAlias = str | os.PathLike[str]


def _open_collection(path: Path, verify: bool) -> Any:
    from acqh.collection import Collection

    return Collection.open(path, verify=verify)


def _open_code_index(path: Path, verify: bool) -> Any:
    from acqh.index import CodeIndex

    return CodeIndex.load(path, verify=verify)


def _open_hamming_index(path: Path, verify: bool) -> Any:
    from acqh.index import HammingIndex

    return HammingIndex.load(path, verify=verify)


def _open_shards(path: Path, verify: bool) -> Any:
    from acqh.scale import ShardedIndex

    return ShardedIndex.load(path, verify=verify)


def _open_code_parts(path: Path, verify: bool) -> Any:
    from acqh.scale import CodeParts

    return CodeParts(path, verify=verify)


def _open_search_parts(path: Path, verify: bool) -> Any:
    from acqh.scale import SearchParts

    return SearchParts(path, verify=verify)


def _open_documents(path: Path, verify: bool) -> Any:  # noqa: ARG001
    from acqh.integrations import DocumentStore

    return DocumentStore.load(path)  # which always checks all


def _open_vectors(path: Path, verify: bool) -> Any:  # noqa: ARG001
    from acqh.index import VectorFile

    return VectorFile(path)


def _open_method(path: Path, verify: bool) -> Any:  # noqa: ARG001
    from acqh.methods import load_method

    return load_method(path)  # which always checks all


# Kind of bundle -> what opens it; imported when called, so that nothing loads what it needs not.
_READERS: dict[str, Callable[[Path, bool], Any]] = {
    "collection": _open_collection,
    "code-index": _open_code_index,
    "code-parts": _open_code_parts,
    "code-shards": _open_shards,
    "documents": _open_documents,
    "hamming-index": _open_hamming_index,
    "search-parts": _open_search_parts,
    "vectors": _open_vectors,
    "method": _open_method,
}


def load(path: Path) -> Any:
    """Open a bundle that acqh has saved, whatever it holds.

    Indexes are mapped, not read, so that opening is quick at any size.

    Parameters
    ----------
    path : path-like
        The bundle's directory.

    Returns
    -------
    CodeIndex, ShardedIndex, HammingIndex, CodeParts, SearchParts, VectorFile, Collection,
    DocumentStore (of `acqh.integrations`), or a fitted method

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
    return _READERS[kind](path, False)


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
    if not report.ok or report.kind not in _READERS:
        return report
    try:
        _READERS[report.kind](path, True)
    except CorruptBundleError as error:
        return replace(report, problems=(str(error),))
    return report

"""Searching for all queries of a source, chunk by chunk."""

import hashlib
from collections.abc import Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Floats, check_positive_int
from acqh._core.runtime import Progress
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, ViewError
from acqh.index import CodeIndex
from acqh.io import kind_of
from acqh.methods import fingerprint
from acqh.scale.chunks import counter
from acqh.scale.make_parts import make_parts, reporter
from acqh.scale.part_folder import PartFolder
from acqh.scale.search_parts import SearchPart, SearchParts, SearchPlan
from acqh.scale.search_shards import project_chunk, search_on
from acqh.scale.sharded import ShardedIndex, ShardFolder
from acqh.scale.sources import Source, cut_on, cut_source
from acqh.scale.vectors import list_vector_pieces
from acqh.scale.workers import slim

Index: TypeAlias = (
    CodeIndex | ShardedIndex | str | PathLike[str] | Sequence[str | PathLike[str] | CodeIndex]
)


def search_parts(
    model: Any,
    index: Index,
    source: Source,
    out: str | PathLike[str],
    *,
    view: str | None = None,
    k: int = 10,
    chunk_size: int = 8_192,
    client: Any = None,
    progress: Progress | None = None,
) -> SearchParts:
    """Search for all queries of a source and write what is found into a folder, part by part.

    The answers are those of one search for all queries. A part is there whole or not at all. Run
    again after whatever stopped it, with the same arguments, this searches only for the queries
    whose part is not there yet. What is in memory depends on the chunk size, not on the number of
    queries.

    Parameters
    ----------
    model : BaseMethod, or None
        Fitted; its codebooks are those of the index. None: queries are vectors of the index's own
        space, as of an index that `acqh.compress` made.
    index : CodeIndex, ShardedIndex, path-like, or sequence of path-like or CodeIndex
        Several are searched as one.
    source : path-like, sequence of Piece, MultiViewData, or iterable of MultiViewData
        The queries: a path that `acqh.data.list_pieces` takes, pieces, or chunks, each of which
        becomes a part.
    out : path-like
        The folder; created if it does not exist. Its parent must exist.
    view : str, optional
        The view of the queries to search by; needed with a model, and where there are several.
    k : int, default 10
        How many items to find for each query.
    chunk_size : int, default 8,192
        Queries of a part; not used where the source comes in chunks.
    client : distributed.Client, optional
        Whose workers search, each chunk of queries in each shard a task; they must see the index,
        the source and the folder under the same paths. The index is then one path or several, and
        the source what `acqh.scale.fit` takes with a client.
    progress : callable, optional
        Called after each part with the number of queries done, their number (None: not known), and
        a text.

    Returns
    -------
    SearchParts

    Raises
    ------
    InvalidInputError
        There are no queries; the model and the index have other codebooks; or the folder was begun
        with another model, index, view, k, chunk size or source. An index that is not a path is
        known by its codebooks and its number of items only.
    ViewError
        Queries without the view, or that the model cannot project.
    CorruptBundleError
        The index, or a part that is there, is damaged.
    FileExistsError
        The folder has something else in it.
    ClusterError
        The cluster cannot do the work, or has lost it.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data)
    >>> index = acqh.CodeIndex(model.codebooks_).add(model.encode(data), data.ids)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     search_parts(model, index, data, folder + "/answers", view="text", chunk_size=20)
    <SearchParts: 50 queries in 3 parts, 10 items each>
    """
    check_positive_int(k, "k")
    opened = open_index(index)
    if model is None:
        made_by = _digest(opened.codebooks)
        if isinstance(source, str | PathLike):
            source = list_vector_pieces(source, view, chunk_size)
    else:
        made_by = fingerprint(model)
        check_codebooks(model, opened)
        if view not in model.n_features_in_:
            raise ViewError(
                f"the model knows the views {', '.join(model.n_features_in_)}, not {view!r}"
            )
    view = view or ""
    if client is None:
        cut = cut_source(source, chunk_size)
    else:
        shards = _shard_paths(index, opened)
        cut, chunks = cut_on(client, source, chunk_size)
    plan = SearchPlan(
        model=made_by,
        index=_index_fingerprint(index),
        view=view,
        k=k,
        chunk_size=cut.chunk_size,
        source=cut.fingerprint,
    )
    folder = Path(out).absolute()
    if client is None:
        make = partial(search_chunk, model, opened, view=view, k=k)
        report = reporter(progress, cut.n_items, "queries answered")
        make_parts(PartFolder(folder, plan), cut.chunks, make, report)
    else:
        done = counter(chunks, progress, "answered", "queries")
        sent = None if model is None else slim(model)
        search_on(client, folder, plan, chunks, sent, shards, done)
    return SearchParts(folder)


def search_chunk(
    model: Any, index: CodeIndex | ShardedIndex, queries: MultiViewData, *, view: str, k: int
) -> SearchPart:
    """Search for some queries.

    Parameters
    ----------
    model : BaseMethod
        Fitted.
    index : CodeIndex or ShardedIndex
    queries : MultiViewData
    view : str
        The view to search by; every query must have it.
    k : int
        How many items to find for each query.

    Returns
    -------
    SearchPart

    Raises
    ------
    ViewError
        There is no such view, a query lacks it, or the model cannot project it.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data)
    >>> index = acqh.CodeIndex(model.codebooks_).add(model.encode(data), data.ids)
    >>> search_chunk(model, index, data, view="image", k=3).ids.shape
    (50, 3)
    """
    projected = project_chunk(model, queries, view)
    found = index.search(projected.vectors, k=k)
    return SearchPart(queries.ids, found.ids, found.scores, found.counts)


def open_index(index: Index) -> CodeIndex | ShardedIndex:
    """Open an index of one or several paths, mapped.

    Raises FileNotFoundError: there is nothing at a path. Raises InvalidInputError: a path holds
    something else, or indexes do not fit together. Raises CorruptBundleError: an index is damaged.
    """
    if isinstance(index, CodeIndex | ShardedIndex):
        return index
    if not isinstance(index, str | PathLike):
        return ShardedIndex(index)
    kind = kind_of(index, "index")
    if kind == "code-shards":
        return ShardedIndex.load(index)
    return CodeIndex.load(index)


def _shard_paths(index: Index, opened: CodeIndex | ShardedIndex) -> list[Path]:
    """Return where the shards are that workers are to open; those without items are left out."""
    paths: list[Any]
    if isinstance(index, CodeIndex | ShardedIndex):
        paths = [index]
    elif not isinstance(index, str | PathLike):
        paths = list(index)
    else:
        paths = [index] if isinstance(opened, CodeIndex) else ShardFolder.read(Path(index)).paths
    if not all(isinstance(path, str | PathLike) for path in paths):
        raise InvalidInputError("workers open an index by its path: save it, and give the path")
    absolute = [Path(path).absolute() for path in paths]
    shards = (opened,) if isinstance(opened, CodeIndex) else opened.shards
    filled = [path for path, shard in zip(absolute, shards, strict=True) if len(shard)]
    return filled or absolute[:1]


def check_codebooks(model: Any, index: CodeIndex | ShardedIndex) -> None:
    """Refuse a model whose codes are not those of the index."""
    codebooks = getattr(model, "codebooks_", None)
    if codebooks is None or not np.array_equal(codebooks.astype(np.float32), index.codebooks):
        raise InvalidInputError(
            "the model has other codebooks than the index, so its queries find nothing sensible; "
            "give the model that made the codes"
        )


def _digest(codebooks: Floats, more: str = "") -> str:
    return hashlib.sha256(np.ascontiguousarray(codebooks).tobytes() + more.encode()).hexdigest()


def _index_fingerprint(index: Index) -> str:
    """Return a hash of the manifests of an index, or of what an index in memory is known by."""
    if isinstance(index, CodeIndex | ShardedIndex):
        return _digest(index.codebooks, str(len(index)))
    running = hashlib.sha256()
    if isinstance(index, str | PathLike):
        for manifest in sorted(Path(index).rglob("manifest.json")):
            running.update(manifest.read_bytes())
    else:
        for each in index:
            running.update(_index_fingerprint(each).encode())
    return running.hexdigest()

"""Search an index with all queries of a source, and write the hits as a table."""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import check_positive_int
from acqh._core.files import atomic_write, check_target
from acqh._core.imports import require
from acqh._core.runtime import Progress
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, ViewError
from acqh.index import CodeIndex
from acqh.io.read import kind_of
from acqh.scale.chunks import (
    Source,
    check_view,
    chunk_source,
    list_vector_chunks,
    vectors_of,
)
from acqh.scale.cluster import slim
from acqh.scale.parts import KIND, CodeParts, open_index, part_path

_COLUMNS = ("query", "rank", "id", "score")


def search_table(
    model: Any,
    index: Any,
    source: Source,
    out: str | PathLike[str],
    *,
    view: str | None = None,
    k: int = 10,
    rerank: str | PathLike[str] | None = None,
    rerank_k: int | None = None,
    chunk_size: int = 8_192,
    overwrite: bool = False,
    client: Any = None,
    progress: Progress | None = None,
) -> int:
    """Search an index with all queries of a source and write the hits as a table.

    The hits equal those of one search with all queries. Memory depends on the chunk size, not on
    the number of queries. The file is written atomically at the end.

    Parameters
    ----------
    model : BaseMethod, or None
        A fitted model with the codebooks of the index. None: queries are vectors in the space of
        the index, as for an index of `acqh.compress`.
    index : CodeIndex, path-like, or sequence of either
        Several indexes, or a folder of `build_shards`, are searched as one.
    source : path-like, sequence of Chunk, MultiViewData, or iterable of MultiViewData
        The queries: a path for `acqh.data.list_chunks`, or chunks.
    out : path-like
        A new file, ``.csv`` or ``.parquet``, with a row for each hit: ``query`` (id of the query),
        ``rank`` (from 1), ``id`` and ``score``.
    view : str, optional
        View of the queries; required with a model, and if there are several views.
    k : int, default 10
        Number of hits for each query.
    rerank : path-like, optional
        A ``.npy`` file of the items' vectors in the order of the ids, to re-rank by; see
        `keep_vectors`.
    rerank_k : int, optional
        Number of items to re-rank; see `CodeIndex.search`.
    chunk_size : int, default 8,192
        Number of queries in a batch; ignored if the source consists of chunks.
    overwrite : bool, default False
        Replace the file if it exists.
    client : distributed.Client, optional
        Its workers read queries and search. They must see the source and the index under the same
        paths; the index must then be a path.
    progress : callable, optional
        Called after each chunk with the number of queries done, their number (None: not known), and
        a text.

    Returns
    -------
    int
        Number of queries.

    Raises
    ------
    InvalidInputError
        There are no queries, the model and the index have different codebooks, or the extension of
        the file is unknown.
    ViewError
        Queries lack the view, or the model cannot project it.
    FileExistsError
        The file exists, and `overwrite` is False.
    CorruptBundleError
        The index is damaged.
    ClusterError
        The cluster failed or was lost.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data)
    >>> index = acqh.CodeIndex(model.codebooks_).add(model.encode(data), data.ids)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = search_table(model, index, data, folder + "/hits.csv", view="text", k=2)
    ...     Path(folder, "hits.csv").read_text().splitlines()[:3]
    ['query,rank,id,score', '0,1,..., '0,2,...]
    """
    check_positive_int(k, "k")
    target = check_target(out, overwrite=overwrite)
    if target.suffix not in (".csv", ".parquet"):
        raise InvalidInputError(f"{target} must end in .csv or .parquet")
    opened = open_index(index)
    if model is None and isinstance(source, str | PathLike):
        source = list_vector_chunks(source, view, chunk_size)
    if model is not None:
        _check_model(model, opened, view)
    chunked = chunk_source(source, chunk_size, client, progress)
    sent = opened if client is None else _paths_of(index)
    # Arrays of more hits than items would be padding.
    how: dict[str, Any] = {"k": min(k, max(len(opened), 1)), "rerank_k": rerank_k}
    how["rerank"] = rerank and Path(rerank).absolute()
    work = partial(_answer, model if client is None else slim(model), sent, view, how)
    with atomic_write(target) as file, _table(file, target.suffix) as write:
        for columns in chunked.map(work, "queries answered"):
            write(columns)
        if chunked.n_done == 0:
            raise InvalidInputError("there are no queries: the source is empty")
    return chunked.n_done


def _check_model(model: Any, index: CodeIndex, view: str | None) -> None:
    codebooks = getattr(model, "codebooks_", None)
    if codebooks is None or not np.array_equal(codebooks.astype(np.float32), index.codebooks):
        raise InvalidInputError(
            "the model has other codebooks than the index, so its queries find nothing sensible; "
            "give the model that made the codes"
        )
    if view not in model.n_features_in_:
        raise ViewError(
            f"the model knows the views {', '.join(model.n_features_in_)}, not {view!r}"
        )


def _paths_of(index: Any) -> list[Path]:
    """Return the paths from which workers open an index or its shards."""
    is_one = isinstance(index, str | PathLike | CodeIndex)
    listed: list[Any] = [index] if is_one else list(index)
    if not all(isinstance(path, str | PathLike) for path in listed):
        raise InvalidInputError("workers cannot read an index in memory; save it and pass its path")
    if len(listed) == 1 and kind_of(listed[0]) == KIND:
        parts = CodeParts(listed[0])
        listed = [part_path(parts.path, number) for number in range(parts.n_parts)]
    return [Path(path).absolute() for path in listed]


def _answer(
    model: Any,
    index: Any,
    view: str | None,
    how: dict[str, Any],
    queries: MultiViewData,
    _: None,
) -> dict[str, Any]:
    """Return the number of queries, and the columns of their table."""
    if model is None:
        vectors = vectors_of(queries, view, "queries", "`view`")
    else:
        view = view or ""
        check_view(queries, view, "queries")
        vectors = model.project(queries.views[view], view=view)
    if not isinstance(index, CodeIndex):  # ids were checked before the index was sent here
        index = CodeIndex.from_shards([CodeIndex.load(path) for path in index], check_ids=False)
    columns = index.search(vectors, **how)._columns()
    return {**columns, "query": queries.ids[columns["query"]]}


@contextmanager
def _table(path: Path, suffix: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that appends columns of rows to a new file."""
    if suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(_COLUMNS)
            # The fewest digits that identify a float32.
            yield lambda columns: writer.writerows(
                zip(
                    *(columns[name].tolist() for name in _COLUMNS[:3]),
                    map(str, columns["score"]),
                    strict=True,
                )
            )
        return
    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    writers: list[Any] = []

    def write(columns: dict[str, Any]) -> None:
        table = arrow.table({name: arrow.array(columns[name]) for name in _COLUMNS})
        if not writers:
            writers.append(parquet.ParquetWriter(path, table.schema))
        writers[0].write_table(table)

    try:
        yield write
    finally:
        for table_writer in writers:
            table_writer.close()

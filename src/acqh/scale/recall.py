"""Recall of saved indexes against exact search, and of codes of several sizes."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.imports import require
from acqh.data import read, read_chunks
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.metrics.recall import Metric, Recall, as_queries, check_lengths, compare, search_all
from acqh.scale.chunks import list_vector_chunks, read_queries, vectors_of
from acqh.scale.compress import compress
from acqh.scale.compressed import CompressionReport
from acqh.scale.parts import open_index

# A size is enough if the next one, of about twice the bytes, gains less than this in recall@10.
_MIN_GAIN = 0.05


def recall_of_files(
    indexes: Sequence[str | PathLike[str]],
    items: str | PathLike[str],
    queries: str | PathLike[str],
    k: Sequence[int] = (1, 10, 100),
    *,
    view: str | None = None,
    query_view: str | None = None,
    metric: Metric = "ip",
    chunk_size: int = 16_384,
) -> dict[str, Recall]:
    """Compare saved indexes of the same items with exact search.

    Parameters
    ----------
    indexes : sequence of path
        What ``acqh compress`` or ``acqh index`` made, files of Faiss (``.faiss``, ``.index``), or
        tables of ids: any file of one matrix of whole numbers, a row of answers for each query.
    items, queries : path
        What `acqh.data.read` takes. The ids of items are the index's.
    k : sequence of int
        Lengths of answers.
    view, query_view : str, optional
        Which view to take of a file that has several.
    metric : {"ip", "cosine", "l2"}
    chunk_size : int, default 16,384
        Items in memory at a time.

    Returns
    -------
    dict of str to Recall
        By the name of each index.

    Raises
    ------
    InvalidInputError, ViewError, CorruptBundleError
        A file that cannot be understood, or does not fit the others.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> items = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/items.npy", items)
    ...     acqh.compress(items, bytes_per_item=2).save(folder + "/small.acqh")
    ...     path = folder + "/items.npy"
    ...     list(recall_of_files([folder + "/small.acqh"], path, path, k=[1]))
    ['small.acqh']
    """
    lengths, searched = check_lengths(k), as_queries(read_queries(queries, query_view))
    opened = {path.name: _open(path) for path in map(Path, indexes)}
    answers = [
        search_all(index, searched, max(lengths), n_bytes=n_bytes)
        for index, n_bytes in opened.values()
    ]
    chunks = (
        (rows.ids, vectors_of(rows, view, "items"))
        for rows in read_chunks(list_vector_chunks(items, view, chunk_size))
    )
    recalls = compare(answers, chunks, searched, lengths, metric=metric)
    return dict(zip(opened, recalls, strict=True))


def _open(path: Path) -> tuple[Any, int | None]:
    """Return an index or a table of ids, and its bytes where only the file says them."""
    if path.is_dir():
        return open_index(path), None
    if path.suffix.lower() not in (".faiss", ".index"):
        table = next(iter(read(path).views.values()))
        if table.dtype.kind not in "iu" and np.any(table != np.round(table)):
            raise InvalidInputError(f"{path.name} is neither an index nor a table of ids")
        return np.asarray(table, dtype=np.int64), None
    faiss = require("faiss")
    try:
        return faiss.read_index(str(path)), path.stat().st_size
    except RuntimeError as error:
        raise CorruptBundleError(f"{path.name} is not an index that Faiss reads") from error


def sweep(
    items: Any, queries: Any = None, sizes: Sequence[int] = (2, 4, 8, 16), **settings: Any
) -> tuple[dict[int, CompressionReport], int]:
    """Compress vectors to several sizes, and say which is enough.

    Parameters
    ----------
    items, queries
        As `compress` takes them.
    sizes : sequence of int
        Bytes per item.
    **settings
        Of `compress`.

    Returns
    -------
    reports : dict of int to CompressionReport
        By size.
    enough : int
        The smallest size after which the next one adds less than 0.05 to recall@10.

    Raises
    ------
    InvalidInputError, ViewError, CorruptBundleError
        As `compress` does.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> reports, enough = sweep(rng.normal(size=(300, 8)), sizes=(1, 2))
    >>> sorted(reports), enough in reports
    ([1, 2], True)
    """
    if not sizes:
        raise InvalidInputError("sizes is empty; give at least one size, such as 4")
    reports = {
        size: compress(items, queries, size, **settings).report for size in sorted(set(sizes))
    }
    return reports, enough_bytes({size: report.recall[10] for size, report in reports.items()})


def enough_bytes(recalls: Mapping[int, float]) -> int:
    """Return the smallest size that the next one hardly improves on, by recall and size."""
    sizes = sorted(recalls)
    for size, larger in pairwise(sizes):
        if max(recalls[n] for n in sizes if n >= larger) - recalls[size] < _MIN_GAIN:
            return size
    return sizes[-1]

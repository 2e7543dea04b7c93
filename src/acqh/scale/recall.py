"""Recall of saved indexes against exact search, and of codes of several sizes."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.imports import require
from acqh._core.metric import Metric
from acqh._core.runtime import Progress
from acqh.data import read, read_chunks
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.index import CodeIndex
from acqh.index.checks import check_bytes_per_item
from acqh.metrics.index_recall import (
    Recall,
    as_queries,
    check_lengths,
    compare,
    search_all,
    stored_metric,
)
from acqh.quantize import AdditiveQuantizer
from acqh.scale.chunks import (
    list_vector_chunks,
    read_queries,
    read_vectors,
    vector_source,
    vectors_of,
)
from acqh.scale.compressed import CompressionReport
from acqh.scale.compression import LONG_SECONDS, compress
from acqh.scale.parts import open_index

_logger = logging.getLogger(__name__)
# Sweeps over codebooks in training; docs/benchmarks/compression.md has the loss of recall.
_MAX_ITER = 3
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
    metric: Metric | None = None,
    rerank: str | PathLike[str] | None = None,
    rerank_k: int | None = None,
    chunk_size: int = 16_384,
) -> dict[str, Recall]:
    """Compare saved indexes of the same items with exact search.

    Parameters
    ----------
    indexes : sequence of path
        Indexes from ``acqh compress`` or ``acqh index``, files of Faiss (``.faiss``, ``.index``),
        or files with one matrix of integers: the ids that an index returned, a row per query.
    items, queries : path
        Files for `acqh.data.read`. The ids of items must be those of the indexes.
    k : sequence of int
        Values of k for recall@k.
    view, query_view : str, optional
        View of a file that has several.
    metric : {"ip", "cosine", "l2"}, optional
        Default: that of the indexes, or ``"ip"`` if none has one.
    rerank : path, optional
        A ``.npy`` file of the items' vectors, see `keep_vectors`. Indexes of acqh are also measured
        with re-ranking; their size then includes the file.
    rerank_k : int, optional
        Number of items to re-rank; see `CodeIndex.search`.
    chunk_size : int, default 16,384
        Number of items in memory at a time.

    Returns
    -------
    dict of str to Recall
        The recall of each index, by its name.

    Raises
    ------
    InvalidInputError, ViewError, CorruptBundleError
        A file cannot be read, or does not fit the others.

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
    if rerank is not None:
        for name, (index, _) in list(opened.items()):
            if isinstance(index, CodeIndex):
                search = partial(index.search, rerank=rerank, rerank_k=rerank_k)
                n_bytes = index.memory_bytes + Path(rerank).stat().st_size
                opened[f"{name}, re-ranked"] = search, n_bytes
    answers = [
        search_all(index, searched, max(lengths), n_bytes=n_bytes)
        for index, n_bytes in opened.values()
    ]
    chunks = (
        (rows.ids, vectors_of(rows, view, "items"))
        for rows in read_chunks(list_vector_chunks(items, view, chunk_size))
    )
    metric = metric or _stored_metric(opened)
    recalls = compare(answers, chunks, searched, lengths, metric=metric)
    return dict(zip(opened, recalls, strict=True))


def _stored_metric(opened: Mapping[str, tuple[Any, int | None]]) -> Metric:
    """Return the metric of indexes; raise InvalidInputError if they have several."""
    stored = {name: stored_metric(index) for name, (index, _) in opened.items()}
    metrics = {name: metric for name, metric in stored.items() if metric is not None}
    if len(set(metrics.values())) > 1:
        listed = ", ".join(f"{name} has {metric}" for name, metric in metrics.items())
        raise InvalidInputError(f"the indexes have several metrics: {listed}; choose one (metric=)")
    return next(iter(metrics.values()), "ip")


def _open(path: Path) -> tuple[Any, int | None]:
    """Return an index or a table of ids, and the size of the file if the index has no size."""
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
    """Compress vectors to several sizes, and recommend one.

    Training is shorter than that of `compress`, see `max_iter`, so recall is a little lower.

    Parameters
    ----------
    items, queries
        See `compress`.
    sizes : sequence of int
        Bytes per item.
    **settings
        Further arguments of `compress`.

    Returns
    -------
    reports : dict of int to CompressionReport
        The report of each size.
    enough : int
        The smallest size whose recall@10 no larger size improves by 0.05 or more.

    Raises
    ------
    InvalidInputError, ViewError, CorruptBundleError
        See `compress`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> reports, enough = sweep(rng.normal(size=(300, 8)), sizes=(1, 2))
    >>> sorted(reports), enough in reports
    ([1, 2], True)
    """
    if not sizes:
        raise InvalidInputError("sizes is empty; give at least one size, such as 4")
    settings = {"max_iter": _MAX_ITER, **settings}
    reports, ordered = {}, sorted(set(map(check_bytes_per_item, sizes)))
    _announce(items, ordered, settings)
    for number, size in enumerate(ordered, start=1):
        if (progress := settings.get("progress")) is not None:
            name = f"size {number} of {len(ordered)}, {size} bytes per item"
            named = partial(_report_size, progress, name)
        how = settings if progress is None else {**settings, "progress": named}
        reports[size] = compress(items, queries, size, **how).report
    return reports, enough_bytes({size: report.recall[10] for size, report in reports.items()})


def _announce(items: Any, sizes: Sequence[int], settings: Mapping[str, Any]) -> None:
    """Log about how long training in all sizes takes, if it is long."""
    view, chunk_size = settings.get("view"), settings.get("chunk_size", 16_384)
    source = vector_source(items, view, None, chunk_size, None, None)
    if not source.n_items:
        return
    _, first = read_vectors(next(iter(source.chunks)).read(), view)
    how = {name: settings[name] for name in ("max_iter", "n_train") if name in settings}
    quantizers = (AdditiveQuantizer(size, **how) for size in sizes)
    seconds = sum(quantizer.expected_seconds(first, source.n_items) for quantizer in quantizers)
    if seconds > LONG_SECONDS:
        _logger.warning("training in %d sizes takes about %.0f s", len(sizes), seconds)


def _report_size(progress: Progress, size: str, done: int, total: int | None, text: str) -> None:
    progress(done, total, f"{size}: {text}")


def enough_bytes(recalls: Mapping[int, float]) -> int:
    """Return the smallest size whose recall no larger size improves by 0.05 or more."""
    sizes = sorted(recalls)
    for size, larger in pairwise(sizes):
        if max(recalls[n] for n in sizes if n >= larger) - recalls[size] < _MIN_GAIN:
            return size
    return sizes[-1]

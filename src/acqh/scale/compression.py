"""Compress vectors: sample, train a quantizer, encode chunk by chunk, index, measure recall."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, check_positive_int
from acqh._core.metric import Metric, MetricMap, check_metric
from acqh._core.runtime import (
    Progress,
    RandomState,
    check_rng,
    default_threads,
    limit_threads,
    suggest_keywords,
)
from acqh.errors import InvalidInputError, ViewError
from acqh.index import CodeIndex
from acqh.index.checks import check_bytes_per_item
from acqh.index.flat import best_rows
from acqh.index.rerank import as_vectors
from acqh.quantize import AdditiveQuantizer, Drift
from acqh.quantize.drift import MIN_ADDED
from acqh.scale.chunks import (
    device_argument,
    read_queries,
    read_vectors,
    vector_source,
)
from acqh.scale.compressed import RECALL_AT, RERANKED_AT, RERANKED_K, Compressed, CompressionReport

_logger = logging.getLogger(__name__)
# One in this many queries is held out for the report, and one in this many items to measure the
# drift of later items against, both up to a maximum.
_HELD_OUT_PART, _HELD_OUT_ITEMS = 5, 128
_MAX_HELD_OUT = 500
# Number of items to find for a query; one may be the query itself.
_N_BEST = max(RECALL_AT) + 1
# Training of fewer seconds is not announced.
LONG_SECONDS = 20


@suggest_keywords
def compress(
    items: Any,
    queries: Any = None,
    bytes_per_item: int = 8,
    metric: Metric = "ip",
    *,
    ids: Any = None,
    view: str | None = None,
    query_view: str | None = None,
    rerank: Any = None,
    n_train: int = 65_536,
    max_iter: int = 10,
    chunk_size: int = 16_384,
    random_state: RandomState = 0,
    n_threads: int | None = None,
    device: str | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> Compressed:
    """Compress vectors to a few bytes each, index them, and measure the recall.

    Trains an `AdditiveQuantizer` on a sample of the items, encodes all items in chunks, indexes the
    codes, and measures the recall of held-out queries against exact search. The quantizer is
    query-aware if `queries` improve the recall.

    Parameters
    ----------
    items : (n_items, n_components) array-like, path-like, Chunks, or MultiViewData
        A path in a format of `acqh.data.list_chunks`: ``.npy``, ``.npz``, Parquet, Arrow,
        ``.fvecs``, ``.fbin``, a Faiss index and others. Items are read twice, in chunks.
    queries : (n_queries, n_components) array-like, or path-like, optional
        A sample of the queries, such as text vectors if items are images. Default: the quantizer
        minimizes the mean squared error, and recall is measured with items as queries, each of them
        excluded from its own result.
    bytes_per_item : int, default 8
        From 1 to 64.
    metric : {"ip", "cosine", "l2"}, default "ip"
        What queries and items are compared by: inner product, cosine similarity or Euclidean
        distance. Scores of ``"l2"`` are negative squared distances.
    ids : (n_items,), optional
        Ids of the items of an array. Default: those of the file, or row numbers.
    view, query_view : str, optional
        View, column or array of a file that has several.
    rerank : (n_items, n_components) array, or path of a .npy file, optional
        Vectors by which the report measures re-ranking, such as those of `keep_vectors`. Default:
        the items themselves.
    n_train : int, default 65,536
        Maximal number of training items; drawn at random.
    max_iter : int, default 10
        Sweeps over all codebooks in training, at most; with 3, training takes half as long.
    chunk_size : int, default 16,384
        Items in memory at a time.
    random_state : int, Generator or None, default 0
    n_threads : int, optional
        Threads of this call, those of BLAS included. Default: one per core.
    device : str, optional
        Torch device for encoding, such as ``"cuda"``; not with a client.
    client : distributed.Client, optional
        Its workers read files and encode items.
    progress : callable, optional
        Called with the number of items done, their number, and a text.

    Returns
    -------
    Compressed
        With `codes`, `index`, `quantizer` and `report`.

    Raises
    ------
    InvalidInputError
        `bytes_per_item` out of range, an unknown metric, or queries of another width than items.
    ViewError
        Items or queries are not a matrix of finite numbers, or have several views and none is
        chosen.
    CorruptBundleError
        A file is damaged.
    DeviceError
        The device is not available.

    Examples
    --------
    >>> import acqh
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> items = rng.normal(size=(2000, 16)).astype(np.float32)
    >>> queries = rng.normal(size=(100, 16)) * np.linspace(2, 0.1, 16)
    >>> small = acqh.compress(items, queries=queries, bytes_per_item=4)
    >>> small.codes.shape, small.codes.dtype
    ((2000, 4), dtype('uint8'))
    >>> small.search(queries, k=3).ids.shape
    (100, 3)
    >>> sorted(small.report.recall)
    [1, 10, 100]
    """
    n_bytes = check_bytes_per_item(bytes_per_item)
    check_positive_int(n_train, "n_train")
    check_metric(metric)
    if n_threads is not None:
        check_positive_int(n_threads, "n_threads")
    rng, seconds = check_rng(random_state), dict[str, float]()
    on_device = device_argument(AdditiveQuantizer.encode, device, client)
    source = vector_source(items, view, ids, chunk_size, client, progress)
    starts = np.cumsum([0, *map(len, source.chunks)])
    n_items = int(starts[-1])
    with limit_threads(n_threads or default_threads()):
        with _timed(seconds, "read"):
            rows, others = sample_rows(n_items, n_train, rng)
            read_rows = np.union1d(rows, others)
            by_chunk = np.split(read_rows, np.searchsorted(read_rows, starts[1:-1]))
            tasks = zip(source.chunks, map(np.subtract, by_chunk, starts), strict=True)
            blocks = [*source.map(partial(_take_rows, view), "items read", tasks)]
            vectors, is_sample = np.concatenate(blocks), np.isin(read_rows, rows)
            sample, unseen = vectors[is_sample], vectors[~is_sample]
            n_components, metric_map = sample.shape[1], MetricMap.fit(metric, sample)
            full = None if rerank is None else as_vectors(rerank, n_items, n_components)
            fitted, held_out, n_queries = _split_queries(queries, query_view, n_components, rng)
        if held_out is None:  # items as queries, each excluded from its own result
            chosen = rng.permutation(len(sample))[:_MAX_HELD_OUT]
            held_out = sample[chosen]
        if fitted is None and metric == "l2":
            # The metric of queries weights norms and vectors. Recall@10 of new queries, 8 bytes:
            # 0.665, against 0.621 with a byte for the norm (6,000 features of MIRFlickr).
            fitted = sample
        # The mean squared distance from the mean; 1 if all items are equal.
        unit = metric_map.map_items(sample)[:, :n_components]
        spread = float(np.square(unit - unit.mean(axis=0, dtype=np.float64)).sum(axis=1).mean())
        sample, unseen = map(metric_map.map_items, (sample, unseen))
        # If all items but those held out are in the sample, the codebooks need not generalize.
        is_whole = n_items <= n_train
        ridge = 0.0 if is_whole else None
        quantizer = AdditiveQuantizer(
            n_bytes, ridge=ridge, n_train=n_train, max_iter=max_iter, random_state=rng
        )
        with _timed(seconds, "fit"):
            if fitted is not None:
                fitted = metric_map.map_queries(fitted)
            if (expected := quantizer.expected_seconds(sample)) > LONG_SECONDS:
                subject = f"{len(sample):,} items in {n_bytes} bytes each"
                _logger.warning("training on %s takes about %.0f s", subject, expected)
            quantizer.fit(sample, queries=fitted, progress=progress)
        encoded, error, best = [], 0.0, None
        with _timed(seconds, "encode"):
            mapped = metric_map.map_queries(held_out)
            encode = partial(_encode, view, metric_map, quantizer, mapped, on_device)
            start = None
            if is_whole:
                start = np.empty((n_items, n_bytes), np.uint8)
                start[rows] = quantizer.training_codes_
                start[others] = quantizer.encode(unseen) if len(unseen) else 0
            arguments = ((a, None if start is None else start[a:b]) for a, b in pairwise(starts))
            tasks, source.n_done = zip(source.chunks, arguments, strict=True), 0
            for ids_and_codes, more_error, hits in source.map(encode, "items encoded", tasks):
                encoded.append(ids_and_codes)
                error += more_error
                # Only the best so far are kept: memory grows by codes and ids alone.
                best = hits if best is None else merge_best(best, hits)
        if best is None:
            raise ViewError("the source changed between the two passes: it is empty now")
        with _timed(seconds, "index"):
            ids, codes = map(np.concatenate, zip(*encoded, strict=True))
            index = CodeIndex(quantizer.codebooks_, metric_map).add(codes, ids)
        with _timed(seconds, "drift"):
            # The expected error of items added later, if their distribution is the same.
            is_enough = len(unseen) >= MIN_ADDED
            drift = Drift(
                quantizer.relative_error(unseen) if is_enough else quantizer.held_out_error(sample)
            )
        with _timed(seconds, "evaluate"):
            query_ids = None if queries is not None else index.ids[rows[chosen]]
            recall, reranked = _measure_recall(index, held_out, best[0], query_ids, full)
    query_metric = quantizer.metric_
    size = index.memory_bytes + index.codebooks.nbytes + quantizer.history_.nbytes
    size += metric_map.origin.nbytes + (0 if query_metric is None else query_metric.nbytes)
    report = CompressionReport(
        n_items=n_items,
        n_components=n_components,
        bytes_per_item=n_bytes,
        metric=metric,
        index_bytes_per_item=index.bytes_per_item,
        n_bytes=size,
        compression=4 * n_components * n_items / size,
        n_trained=len(sample),
        n_queries=n_queries,
        n_held_out=len(held_out),
        shrinkage=quantizer.shrinkage_,
        recall=recall,
        reranked_recall=reranked,
        error=error / n_items / (spread or 1.0),
        seconds=seconds,
    )
    return Compressed(index, quantizer, report, drift)


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[step] = time.perf_counter() - started


def sample_rows(n_items: int, n_train: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return training rows and rows held out, both sorted; needs no memory per item."""
    if n_items == 0:
        raise ViewError("items is empty; give at least one item")
    n_held = min(n_items // _HELD_OUT_ITEMS, _MAX_HELD_OUT)
    n_train = min(n_train, n_items - (n_held if n_held >= MIN_ADDED else 0))
    if n_items == n_train:
        return np.arange(n_items), np.empty(0, np.int64)
    rows = np.sort(rng.choice(n_items, n_train, replace=False))
    n_others = n_items - n_train
    others = np.random.default_rng(0).choice(n_others, min(n_others, _MAX_HELD_OUT), replace=False)
    # Number n of the rows outside the sample is n plus the rows of the sample before it.
    others.sort()
    return rows, others + np.searchsorted(rows - np.arange(n_train), others, "right")


def _take_rows(view: str | None, chunk: Any, rows: Ints) -> Floats:
    return np.ascontiguousarray(read_vectors(chunk, view)[1][rows])


def _split_queries(
    queries: Any, view: str | None, n_components: int, rng: np.random.Generator
) -> tuple[Floats | None, Floats | None, int]:
    """Return the training queries, the held-out queries, and their total number."""
    if queries is None:
        return None, None, 0
    vectors = read_queries(queries, view)
    n = len(vectors)
    if n == 0:
        raise InvalidInputError("queries is empty; give at least one query")
    if vectors.shape[1] != n_components:
        raise InvalidInputError(
            f"queries have shape {vectors.shape}, but items have {n_components} dimensions; give "
            "queries of the items' encoder"
        )
    order = rng.permutation(n)
    held_out, fitted = np.split(order, [min(max(n // _HELD_OUT_PART, 1), _MAX_HELD_OUT)])
    return vectors[fitted] if len(fitted) else None, vectors[held_out], n


def _encode(
    view: str | None,
    metric_map: MetricMap,
    quantizer: AdditiveQuantizer,
    queries: Floats,
    on_device: dict[str, str],
    chunk: Any,
    argument: tuple[int, Ints | None],
) -> tuple[tuple[Array, Array], float, tuple[Ints, Floats]]:
    """Return ids and codes of a chunk, its squared error, and the exact best of the queries.

    `argument`: the first row of the chunk, and codes from training to improve on.
    """
    first_row, start = argument
    ids, vectors = read_vectors(chunk, view)
    mapped = metric_map.map_items(vectors)
    codes = quantizer.encode(mapped, start=start, **on_device)
    residuals = (mapped - quantizer.decode(codes))[:, : vectors.shape[1]]
    errors = np.square(residuals, dtype=np.float64)
    return (ids, codes), float(errors.sum()), exact_best(queries, mapped, first_row, _N_BEST)


def exact_best(queries: Floats, vectors: Floats, first_row: int, k: int) -> tuple[Ints, Floats]:
    """Return rows and scores of the best items of each query by inner product, best first.

    Both are (n_queries, k), or fewer columns. Ties go to the first row.
    """
    # In double precision, so that equal vectors have equal scores wherever they are.
    scores = (queries.astype(np.float64) @ vectors.T).astype(np.float32)
    rows = np.stack([best_rows(query_scores, k) for query_scores in scores])
    return rows + first_row, np.take_along_axis(scores, rows, axis=1)


def merge_best(
    best: tuple[Ints, Floats], later: tuple[Ints, Floats], k: int = _N_BEST
) -> tuple[Ints, Floats]:
    """Return the best of two results of `exact_best`; ties go to the first."""
    rows, scores = (np.concatenate(both, axis=1) for both in zip(best, later, strict=True))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def _measure_recall(
    index: CodeIndex, queries: Floats, true_rows: Ints, query_ids: Array | None, rerank: Any
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the recall by k, and that of re-ranking by the number of candidates.

    `true_rows`: of the exact best items. `query_ids`: of queries that are items.
    """
    true_ids = _without(index.ids[true_rows], query_ids)

    def search(k: int, **how: Any) -> Array:
        n_hits = min(k + (query_ids is not None), len(index))
        return _without(index.search(queries, n_hits, **how).ids, query_ids)[:, :k]

    hit_ids = search(max(RERANKED_AT))
    recall = {k: share_found(true_ids[:, :k], hit_ids[:, :k]) for k in RECALL_AT}
    reranked = {}
    for n in RERANKED_AT:
        # By the items themselves, those of the best that are among the candidates are found.
        candidates = hit_ids[:, :n]
        if rerank is not None:
            candidates = search(RERANKED_K, rerank=rerank, rerank_k=n + 1)
        reranked[n] = share_found(true_ids[:, :RERANKED_K], candidates)
    return recall, reranked


def _without(ids: Array, query_ids: Array | None) -> Array:
    """Return hits without the item that was the query, or without the last if it is missing.

    `ids`: (n_queries, k). `query_ids`: (n_queries,), or None if queries are not items. Returns
    (n_queries, k - 1), or `ids`.
    """
    if query_ids is None:
        return ids
    others = ids != query_ids[:, np.newaxis]
    others[others.all(axis=1), -1] = False
    return np.asarray(ids[others].reshape(len(ids), -1))


def share_found(true_ids: Array, hit_ids: Array) -> float:
    """Return the mean share of the true items, (n_queries, k), among the hits; 1 without any."""
    both = zip(true_ids.tolist(), hit_ids.tolist(), strict=True)
    shares = [len(set(true) & set(hits)) / len(true) if true else 1.0 for true, hits in both]
    return float(np.mean(shares))

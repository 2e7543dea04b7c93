"""Recall of any index against exact search, with its time per query and bytes per item."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import (
    Array,
    Bools,
    Floats,
    Ints,
    as_matrix,
    as_rows,
    check_positive_int,
    is_sparse,
    slices,
    unit_rows,
)
from acqh._core.metric import METRICS, Metric, check_metric
from acqh.errors import InvalidInputError

# Items and queries scored at a time: 16 MB of scores.
_N_ITEMS, _N_QUERIES = 16_384, 256
# Values gathered at a time to score single answers: 8 MB.
_N_GATHERED = 2_000_000
# Error of a score in single precision, relative to the norms of query and item. Measured: equal
# vectors of 2 to 4,096 components have scores at most 1.1 eps apart.
_ROUNDING = 4 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Recall:
    """Recall of an index against exact search; what `recall` returns.

    Attributes
    ----------
    recall : mapping of int to float or None
        By k: the share of the first k answers that are as good as the exact best k. None if the
        index returned fewer than k answers for each query.
    n_items, n_queries : int
    metric : str
        Of the exact search.
    seconds_per_query : float or None
        All queries in one call. None if `searcher` was an array of ids.
    bytes_per_item : float or None
        None if the size of the index is unknown.
    """

    recall: Mapping[int, float | None]
    n_items: int
    n_queries: int
    metric: Metric
    seconds_per_query: float | None
    bytes_per_item: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; `recall` has keys such as ``"10"``."""
        return {**asdict(self), "recall": {str(k): value for k, value in self.recall.items()}}


def recall(
    searcher: Any,
    items: Any,
    queries: Any,
    k: int | Sequence[int] = 10,
    *,
    ids: Any = None,
    metric: Metric | None = None,
    truth: Any = None,
    n_bytes: int | None = None,
) -> Recall:
    """Measure the recall of an index against exact search.

    A hit counts if its exact score is at least that of the k-th best item, so items with equal
    vectors are equally good. A repeated hit counts once.

    Parameters
    ----------
    searcher : index, callable, or (n_queries, n) array of ids
        An object with ``search(queries, k)``, such as a `CodeIndex` or an index of Faiss or
        usearch; a function of the same arguments, such as hnswlib's ``knn_query``; or ids of hits,
        best first. A pair is (scores, ids), as Faiss returns it; if only the second of them is
        floating-point, (ids, scores), as hnswlib returns it. -1, NaN and None mark missing hits,
        which count as misses.
    items : (n_items, n_components) array-like, or iterable of such
        The indexed vectors, whole or in chunks.
    queries : (n_queries, n_components) array-like
    k : int or sequence of int, default 10
        Number of hits per query.
    ids : (n_items,), optional
        The ids of the items in the index. Default: their rows.
    metric : {"ip", "cosine", "l2"}, optional
        Inner product, cosine similarity or Euclidean distance. Default: that of the index, or
        ``"ip"`` if it has none.
    truth : (n_queries, n) integers, optional
        Rows of the exact best items under `metric`, at least as many as the largest k. Default:
        computed by exact search.
    n_bytes : int, optional
        Size of the index. Default: as the index reports it.

    Returns
    -------
    Recall

    Raises
    ------
    InvalidInputError
        No items or queries; items and queries of different widths; hits or true neighbours that
        are ragged, or that are not among the items.

    Examples
    --------
    >>> import acqh
    >>> import numpy as np
    >>> items, queries = np.random.default_rng(0).normal(size=(2, 500, 8))
    >>> small = acqh.compress(items, queries, bytes_per_item=4)
    >>> measured = recall(small.index, items, queries, k=(1, 10))
    >>> sorted(measured.recall), measured.n_queries
    ([1, 10], 500)
    >>> recall(lambda queries, k: np.argsort(-queries @ items.T)[:, :k], items, queries).recall
    {10: 1.0}
    """
    lengths, searched = check_lengths(k), as_queries(queries)
    answers = search_all(searcher, searched, max(lengths), n_bytes=n_bytes)
    metric = metric or stored_metric(searcher) or "ip"
    item_ids = None if ids is None else _as_table([ids], "ids", 1)[0]
    true_ids = None if truth is None else _read_truth(truth, item_ids, len(searched))
    chunks = _with_ids(items, item_ids)
    return compare([answers], chunks, searched, lengths, metric=metric, true_ids=true_ids)[0]


def stored_metric(searcher: Any) -> Metric | None:
    """Return the metric of an index of acqh; None for others."""
    metric = getattr(searcher, "metric", None)
    return metric if isinstance(metric, str) and metric in METRICS else None


@dataclass(frozen=True)
class Answers:
    """The hits of an index, with its search time and size if known."""

    ids: Array  # (n_queries, k) int64, or object for texts
    seconds: float | None
    n_bytes: int | None


def search_all(searcher: Any, queries: Floats, k: int, *, n_bytes: int | None = None) -> Answers:
    """Search an index for all queries, and measure the time.

    Raises InvalidInputError: the result is not one row of ids per query.
    """
    search, result, seconds = getattr(searcher, "search", searcher), searcher, None
    if callable(search):
        search(queries, k)  # the first call may load and compile
        started = time.perf_counter()
        result = search(queries, k)
        seconds = time.perf_counter() - started
    if n_bytes is None:
        n_bytes = getattr(searcher, "memory_bytes", getattr(searcher, "memory_usage", None))
    result = getattr(result, "ids", getattr(result, "keys", result))
    if isinstance(result, tuple):
        is_float = [np.asarray(array).dtype.kind == "f" for array in result]
        result = result[is_float.index(False) if is_float.count(False) == 1 else -1]
    return Answers(_as_table(result, "answers", len(queries))[:, :k], seconds, n_bytes)


def compare(
    answers: Sequence[Answers],
    chunks: Iterable[tuple[Array, Any]],
    queries: Floats,
    lengths: Sequence[int],
    *,
    metric: Metric = "ip",
    true_ids: Array | None = None,
) -> list[Recall]:
    """Return the recall of several indexes of the same items, in one scan of the items.

    `chunks`: ids and vectors of items. `true_ids`: of the exact best items; computed if None.
    Raises the errors of `recall`.
    """
    check_metric(metric)
    lookups = [_Lookup(hits.ids, "answers") for hits in answers]
    truth = None if true_ids is None else _Lookup(true_ids, "truth")
    n_items, offset = 0, np.zeros(queries.shape[1], np.float32)
    best = np.full((len(queries), max(lengths)), -np.inf, np.float32)
    for ids, vectors in _blocks(chunks, queries.shape[1]):
        if n_items == 0 and metric == "l2":  # distances keep more digits near the origin
            offset = vectors.mean(axis=0)
            queries = queries - offset
        vectors = unit_rows(vectors) if metric == "cosine" else vectors - offset
        halves = np.einsum("ij,ij->i", vectors, vectors) / 2 if metric == "l2" else np.zeros(1)
        halves = np.broadcast_to(halves.astype(np.float32), len(vectors))
        for lookup in lookups if truth is None else [*lookups, truth]:
            lookup.add(ids, vectors, queries, halves)
        if truth is None:
            _keep_best(best, vectors, queries, halves)
        n_items += len(vectors)
    if n_items == 0:
        raise InvalidInputError("items is empty; give at least one item")
    scores_of = [lookup.checked_scores() for lookup in lookups]
    if truth is None:
        best = -np.sort(-best, axis=1)
    else:
        best = np.minimum.accumulate(truth.checked_scores(), axis=1)
        if best.shape[1] < min(max(lengths), n_items):
            raise InvalidInputError(
                f"truth has {best.shape[1]} columns; for k={max(lengths)} give at least as many"
            )
    return [
        _recall_of(hits, scores, best, n_items, lengths, metric)
        for hits, scores in zip(answers, scores_of, strict=True)
    ]


def _keep_best(best: Floats, vectors: Floats, queries: Floats, halves: Floats) -> None:
    """Update the best scores of each query, (n_queries, k) in any order, by those of items."""
    k = best.shape[1]
    for rows in slices(len(queries), _N_QUERIES):
        scores = queries[rows] @ vectors.T
        scores -= halves
        if len(vectors) > k:
            scores.partition(len(vectors) - k, axis=1)
        both = np.hstack([best[rows], scores[:, -k:]])
        both.partition(both.shape[1] - k, axis=1)
        best[rows] = both[:, -k:]


class _Lookup:
    """Computes exact scores of the hits of an index while the items are scanned."""

    def __init__(self, ids: Array, name: str) -> None:
        is_present = ids != np.array(None) if ids.dtype == object else ids != -1
        self._name = name
        self._unique, places = np.unique(ids[is_present], return_inverse=True)
        self._is_known = np.zeros(len(self._unique), bool)
        self._scores = np.full(ids.shape, -np.inf, np.float32)
        # The index of each hit in `_unique`; one beyond the end for missing and repeated ones.
        self._places = np.full(ids.shape, len(self._unique))
        self._places[is_present] = places
        self._places[_is_repeated(self._places)] = len(self._unique)

    def add(self, ids: Array, vectors: Floats, queries: Floats, halves: Floats) -> None:
        """Score the hits that are among these items.

        Raises InvalidInputError: ids are numbers here and texts there.
        """
        if not len(self._unique):
            return
        if (ids.dtype == object) != (self._unique.dtype == object):
            raise InvalidInputError(
                f"{self._name} has ids such as {self._unique[0]!r}, the items such as {ids[0]!r}; "
                "give the ids under which the items were indexed"
            )
        at = np.searchsorted(self._unique, ids).clip(max=len(self._unique) - 1)
        is_hit = self._unique[at] == ids
        self._is_known[at[is_hit]] = True
        row_of = np.full(len(self._unique) + 1, -1)
        row_of[at[is_hit]] = np.flatnonzero(is_hit)
        rows = row_of[self._places]
        query, place = np.nonzero(rows >= 0)
        item = rows[query, place]
        for pairs in slices(len(item), max(_N_GATHERED // vectors.shape[1], 1)):
            q, x, half = queries[query[pairs]], vectors[item[pairs]], halves[item[pairs]]
            norms = np.linalg.norm(q, axis=1) * np.linalg.norm(x, axis=1)
            scores = np.einsum("ij,ij->i", q, x) - half + _ROUNDING * (norms + half)
            self._scores[query[pairs], place[pairs]] = scores

    def checked_scores(self) -> Floats:
        """Return the scores; raise InvalidInputError for ids that are not among the items."""
        unknown = self._unique[~self._is_known].tolist()
        if unknown:
            raise InvalidInputError(
                f"{len(unknown):,} of {len(self._unique):,} ids in {self._name} are not among the "
                f"items, such as {unknown[0]!r}; give the indexed items, with the ids of the index"
            )
        return self._scores


def _recall_of(
    answers: Answers,
    scores: Floats,
    best: Floats,
    n_items: int,
    lengths: Sequence[int],
    metric: Metric,
) -> Recall:
    shares: dict[int, float | None] = {}
    for k in lengths:
        cut = min(k, n_items)
        if scores.shape[1] < cut:
            shares[k] = None
            continue
        n_right = (scores[:, :cut] >= best[:, cut - 1 : cut]).sum(axis=1)
        shares[k] = float(np.mean(n_right / cut))
    return Recall(
        recall=shares,
        n_items=n_items,
        n_queries=len(scores),
        metric=metric,
        seconds_per_query=None if answers.seconds is None else answers.seconds / len(scores),
        bytes_per_item=None if answers.n_bytes is None else answers.n_bytes / n_items,
    )


def _with_ids(items: Any, ids: Array | None) -> Iterator[tuple[Array, Any]]:
    """Yield ids and vectors of items: a matrix, or an iterable of chunks."""
    start = 0
    for chunk in [items] if hasattr(items, "shape") or isinstance(items, Sequence) else items:
        matrix = as_matrix(chunk, "items")
        stop = start + matrix.shape[0]
        yield np.arange(start, stop) if ids is None else ids[start:stop], matrix
        start = stop
    if ids is not None and len(ids) != start:
        raise InvalidInputError(f"{len(ids)} ids for {start} items; give one id per item")


def _blocks(chunks: Iterable[tuple[Array, Any]], width: int) -> Iterator[tuple[Array, Floats]]:
    """Yield blocks of ids and vectors, as float32."""
    for ids, matrix in chunks:
        ids = ids.astype(object) if ids.dtype.kind == "U" else ids
        if matrix.shape[1] != width:
            raise InvalidInputError(
                f"items have {matrix.shape[1]} dimensions, but queries have {width}; use one "
                "encoder for both"
            )
        for rows in slices(matrix.shape[0], _N_ITEMS):
            block = matrix[rows].toarray() if is_sparse(matrix) else matrix[rows]
            if len(ids[rows]) == len(block):  # `_with_ids` raises at the end if there are fewer
                yield ids[rows], np.asarray(block, dtype=np.float32)


def check_lengths(k: int | Iterable[int]) -> list[int]:
    """Return k as a list; raise InvalidInputError if it is empty or a value is below 1."""
    lengths = list(k) if isinstance(k, Iterable) else [k]
    if not lengths:
        raise InvalidInputError("k is empty; give at least one number, such as 10")
    return [check_positive_int(length, "k") for length in lengths]


def as_queries(queries: Any) -> Floats:
    """Return queries as float32; raise InvalidInputError if there are none."""
    matrix = as_matrix(queries, "queries")
    if matrix.shape[0] == 0:
        raise InvalidInputError("queries is empty; give at least one query")
    return np.ascontiguousarray(matrix.toarray() if is_sparse(matrix) else matrix, np.float32)


def _as_table(values: Any, name: str, n_rows: int) -> Array:
    """Return rows of ids, (n_rows, n) int64, or object for texts; raise InvalidInputError."""
    table: Array = as_rows(values, name, InvalidInputError)
    if table.ndim != 2 or len(table) != n_rows:
        raise InvalidInputError(
            f"{name} have shape {table.shape}; give a row of ids for each of {n_rows} queries"
        )
    if table.dtype.kind in "OU":
        return table.astype(object)
    if table.dtype.kind == "f":
        table = np.where(np.isnan(table), -1, table)
    if table.dtype.kind not in "iuf" or not np.array_equal(table, np.trunc(table)):
        raise InvalidInputError(f"{name} must be ids: integers or texts, got {table.dtype}")
    return table.astype(np.int64)


def _read_truth(truth: Any, ids: Array | None, n_queries: int) -> Array:
    """Return the ids of the true neighbours from their rows."""
    rows = _as_table(truth, "truth", n_queries)
    n_items = np.inf if ids is None else len(ids)
    if rows.dtype == object or (rows < 0).any() or (rows >= n_items).any():
        raise InvalidInputError("truth must contain row numbers of items: integers from 0")
    if _is_repeated(rows).any():
        raise InvalidInputError("truth repeats an item for one query; give distinct rows")
    return rows if ids is None else ids[rows]


def _is_repeated(rows: Ints) -> Bools:
    """Return where a row of the table repeats an earlier value of the same row."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    repeated = np.zeros(rows.shape, bool)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return repeated

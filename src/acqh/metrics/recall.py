"""Recall of any index against exact search, with what it takes in time and bytes."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, as_matrix, check_positive_int
from acqh.errors import InvalidInputError

Metric: TypeAlias = Literal["ip", "cosine", "l2"]
METRICS = ("ip", "cosine", "l2")
# Items and queries compared at a time.
_N_ITEMS, _N_QUERIES = 16_384, 1_024


@dataclass(frozen=True)
class Recall:
    """How much of what exact search finds an index finds; what `recall` returns.

    Attributes
    ----------
    recall : mapping of int to float
        By k: the share of the exact best k items that are among the first k found.
    n_items, n_queries : int
    seconds_per_query : float or None
        All queries asked at once; None where answers were given.
    bytes_per_item : float or None
        None where the index does not say.
    """

    recall: Mapping[int, float]
    n_items: int
    n_queries: int
    seconds_per_query: float | None
    bytes_per_item: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it; `recall` has keys such as ``"10"``."""
        return {**asdict(self), "recall": {str(k): value for k, value in self.recall.items()}}


def recall(
    searcher: Any,
    items: Any,
    queries: Any,
    k: int | Sequence[int] = 10,
    *,
    ids: Any = None,
    metric: Metric = "ip",
    truth: Any = None,
    n_bytes: int | None = None,
) -> Recall:
    """Compare what an index finds with what exact search finds.

    Parameters
    ----------
    searcher : index, callable, or (n_queries, n) array of ids
        Anything with ``search(queries, k)``, such as a `CodeIndex` or an index of Faiss or usearch;
        a function of the same arguments, such as hnswlib's ``knn_query``; or answers, best first.
    items : (n_items, n_components) array-like, or iterable of such
        What was indexed, whole or in chunks.
    queries : (n_queries, n_components) array-like
    k : int or sequence of int, default 10
        Lengths of answers.
    ids : (n_items,), optional
        By which the index calls items; by default their rows.
    metric : {"ip", "cosine", "l2"}
        What the best items are nearest by.
    truth : (n_queries, n) whole numbers, optional
        The rows of the exact best items, where they are known: at least as many as the largest k.
    n_bytes : int, optional
        What the index takes; by default as it says.

    Returns
    -------
    Recall

    Raises
    ------
    InvalidInputError
        Queries and items of different widths, too few true neighbours, or no answers.

    Examples
    --------
    >>> import acqh
    >>> import numpy as np
    >>> items, queries = np.random.default_rng(0).normal(size=(2, 500, 8))
    >>> small = acqh.compress(items, queries, bytes_per_item=4)
    >>> found = recall(small.index, items, queries, k=(1, 10))
    >>> sorted(found.recall), found.n_queries
    ([1, 10], 500)
    >>> recall(lambda queries, k: np.argsort(-queries @ items.T)[:, :k], items, queries).recall
    {10: 1.0}
    """
    lengths = [k] if isinstance(k, int) else list(k)
    for each in lengths:
        check_positive_int(each, "k")
    asked = np.ascontiguousarray(as_matrix(queries, "queries"), np.float32)
    if truth is None:
        n_items, best = exact_neighbors(items, asked, max(lengths), metric=metric)
    else:
        n_items, best = len(items), np.asarray(truth)[:, : max(lengths)]
        if best.shape != (len(asked), min(max(lengths), n_items)):
            raise InvalidInputError(
                f"truth has shape {np.shape(truth)}; for {len(asked)} queries and k={max(lengths)} "
                "give as many rows and at least as many columns"
            )
    found, seconds = _ask(searcher, asked, best.shape[1])
    true_ids = best if ids is None else np.asarray(ids)[best]
    if n_bytes is None:
        n_bytes = getattr(searcher, "memory_bytes", getattr(searcher, "memory_usage", None))
    return Recall(
        recall=shares_found(true_ids, found, lengths),
        n_items=n_items,
        n_queries=len(asked),
        seconds_per_query=None if seconds is None else seconds / len(asked),
        bytes_per_item=None if n_bytes is None else n_bytes / n_items,
    )


def exact_neighbors(
    items: Any, queries: Floats, k: int, *, metric: Metric = "ip"
) -> tuple[int, Ints]:
    """Return how many items there are, and the rows of the best k of each query, best first."""
    if metric not in METRICS:
        raise InvalidInputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    asked = _unit(queries) if metric == "cosine" else queries
    scores: Floats = np.empty((len(asked), 0), np.float32)
    rows: Ints = np.empty((len(asked), 0), np.int64)
    n_items = 0
    for chunk in _chunks(items):
        if chunk.shape[1] != asked.shape[1]:
            raise InvalidInputError(
                f"items have {chunk.shape[1]} components, queries {asked.shape[1]}; both must come "
                "from one space"
            )
        vectors = _unit(chunk) if metric == "cosine" else chunk
        added = np.empty((len(asked), len(chunk)), np.float32)
        for start in range(0, len(asked), _N_QUERIES):
            added[start : start + _N_QUERIES] = asked[start : start + _N_QUERIES] @ vectors.T
        if metric == "l2":
            added -= np.square(vectors).sum(axis=1) / 2
        scores = np.hstack([scores, added])
        numbers = np.broadcast_to(np.arange(n_items, n_items + len(chunk)), added.shape)
        rows = np.hstack([rows, numbers])
        if scores.shape[1] > k:
            kept = np.argpartition(-scores, k - 1, axis=1)[:, :k]
            kept.sort(axis=1)
            scores = np.take_along_axis(scores, kept, axis=1)
            rows = np.take_along_axis(rows, kept, axis=1)
        n_items += len(chunk)
    order = np.argsort(-scores, axis=1, kind="stable")  # of equal ones the first row
    return n_items, np.take_along_axis(rows, order, axis=1)


def _chunks(items: Any) -> Iterable[Floats]:
    is_whole = hasattr(items, "shape") or isinstance(items, Sequence)
    for matrix in [items] if is_whole else items:
        vectors = as_matrix(matrix, "items")
        for start in range(0, vectors.shape[0], _N_ITEMS):
            yield np.asarray(vectors[start : start + _N_ITEMS], dtype=np.float32)


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1))


def _ask(searcher: Any, queries: Floats, k: int) -> tuple[Array, float | None]:
    """Return ids, (n_queries, n), and the seconds that it took; None where they were given."""
    search = getattr(searcher, "search", searcher)
    if not callable(search):
        return _as_ids(searcher, len(queries)), None
    search(queries, k)  # what is loaded or compiled once is not counted
    started = time.perf_counter()
    found = search(queries, k)
    return _as_ids(found, len(queries)), time.perf_counter() - started


def _as_ids(found: Any, n_queries: int) -> Array:
    """Return the ids of an answer: ours, usearch's keys, or of a pair the whole numbers."""
    found = getattr(found, "ids", getattr(found, "keys", found))
    if isinstance(found, tuple):
        found = next((each for each in found if np.asarray(each).dtype.kind in "iu"), found[-1])
    ids = np.asarray(found)
    if ids.shape[:1] != (n_queries,) or ids.ndim != 2:
        raise InvalidInputError(
            f"answers have shape {ids.shape}; give a row of ids for each of {n_queries} queries"
        )
    return ids


def shares_found(true_ids: Array, found_ids: Array, lengths: Iterable[int]) -> dict[int, float]:
    """Return the recall at each length of answers; both are (n_queries, n), best first.

    With fewer items than the length, all of them are looked for; of no items, all are found.
    """
    shares = {}
    for k in lengths:
        cut = min(k, true_ids.shape[1])
        both = zip(true_ids[:, :cut].tolist(), found_ids[:, :cut].tolist(), strict=True)
        each = [len(set(true) & set(found)) / cut if cut else 1.0 for true, found in both]
        shares[k] = float(np.mean(each))
    return shares

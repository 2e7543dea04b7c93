"""Fit a method on one split and measure it in every direction."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any, get_args

import numpy as np

from acqh._core.arrays import Array, Floats, Matrix
from acqh._core.errors import InvalidInputError
from acqh.bench._split import Split, SplitParts
from acqh.data import MultiViewData
from acqh.methods import BaseMethod
from acqh.methods.registry import DatabaseMode
from acqh.metrics import RetrievalMetrics, relevance

# Scores of a block of queries are kept under this many values.
_BLOCK_VALUES = 1 << 23


@dataclass(frozen=True)
class ResultRow:
    """One method, one split, one direction.

    Attributes
    ----------
    dataset, protocol, method, database, direction : str
        `database` says what items were coded from: ``"learnt"`` (labels), ``"hashed"`` (the
        view that is searched) or ``"unified"`` (all views).
    n_components : int
        Length of a query vector.
    bytes_per_item : int
    seed : int
    map_all, map_50, map_100 : float
        Mean average precision over the whole ranking, the first 50 and the first 100 items;
        over the number of relevant items within the cut-off, ties in expectation.
    fit_seconds, encode_seconds, query_seconds : float
        For the whole training set, the whole database, and all queries (projection and scores).
    n_train, n_query, n_database, n_codes : int
        `n_codes` is the number of distinct codes in the database.
    """

    dataset: str
    protocol: str
    method: str
    database: str
    n_components: int
    bytes_per_item: int
    seed: int
    direction: str
    map_all: float
    map_50: float
    map_100: float
    fit_seconds: float
    encode_seconds: float
    query_seconds: float
    n_train: int
    n_query: int
    n_database: int
    n_codes: int


def evaluate(
    method: BaseMethod, data: MultiViewData, split: Split, *, database: DatabaseMode | None = None
) -> list[ResultRow]:
    """Fit a method on the training rows of a split and measure it in every direction.

    Parameters
    ----------
    method : BaseMethod
        Fitted here; give a fresh one.
    data : MultiViewData
    split : Split
        Of these data.
    database : {"learnt", "hashed", "unified"}, optional
        What database items are coded from. By default, where the protocol gives their labels,
        the way of the method's own paper; elsewhere the searched view alone.

    Returns
    -------
    list of ResultRow
        One for each ordered pair of views.

    Raises
    ------
    InvalidInputError
        Labels are asked of a database that has none.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(300, n_labels=3, random_state=0)
    >>> split = acqh.bench.make_split(data, "unlabelled", seed=0)
    >>> rows = evaluate(acqh.methods.get("label-ridge")(), data, split)
    >>> [row.direction for row in rows]
    ['image->text', 'text->image']
    """
    parts = split.parts(data)
    if database is None:
        database = method.info.modes[0] if parts.database.labels is not None else "hashed"
    if database not in get_args(DatabaseMode):
        raise InvalidInputError(f"database must be learnt, hashed or unified, not {database!r}")
    if database == "learnt" and parts.database.labels is None:
        raise InvalidInputError(
            "this protocol hides the labels of the database: use database='hashed' or 'unified'"
        )
    started = time.perf_counter()
    method.fit(parts.train.views, parts.train.labels)
    fit_seconds = time.perf_counter() - started
    return [
        _measure(method, split, parts, pair, database, fit_seconds)
        for pair in permutations(data.views, 2)
    ]


def _measure(
    method: BaseMethod,
    split: Split,
    parts: SplitParts,
    pair: tuple[str, str],
    database: DatabaseMode,
    fit_seconds: float,
) -> ResultRow:
    query_view, database_view = pair
    started = time.perf_counter()
    codes = _encode(method, parts.database, database, database_view)
    encode_seconds = time.perf_counter() - started
    distinct, inverse = np.unique(codes, axis=0, return_inverse=True)
    metrics = RetrievalMetrics((None, 50, 100))
    query_seconds = 0.0
    queries = parts.query.views[query_view]
    labels: Matrix = parts.query.labels
    for rows in _blocks(len(parts.query), len(codes)):
        started = time.perf_counter()
        projected = method.embed_queries(queries[rows], view=query_view)
        scores = score_codes(method, projected, distinct, inverse.ravel())
        query_seconds += time.perf_counter() - started
        metrics.update(scores, relevance(labels[rows], parts.database_labels))
    found = metrics.result().mean_average_precision
    return ResultRow(
        dataset=split.dataset,
        protocol=split.protocol,
        method=method.info.name,
        database=database,
        n_components=int(projected.shape[1]),
        bytes_per_item=method.bytes_per_item,
        seed=split.seed,
        direction=f"{query_view}->{database_view}",
        map_all=found[None],
        map_50=found[50],
        map_100=found[100],
        fit_seconds=fit_seconds,
        encode_seconds=encode_seconds,
        query_seconds=query_seconds,
        n_train=len(split.train),
        n_query=len(split.query),
        n_database=len(split.database),
        n_codes=len(distinct),
    )


def _encode(method: BaseMethod, items: MultiViewData, database: DatabaseMode, view: str) -> Array:
    if database == "learnt":
        return method.encode({view: items.views[view]}, labels=items.labels, mode="learnt")
    views = dict(items.views) if database == "unified" else {view: items.views[view]}
    return method.encode(views, mode=database)


def score_codes(method: BaseMethod, projected: Floats, distinct: Array, inverse: Array) -> Matrix:
    """Return the scores of all items from the distinct codes among them.

    Equal codes get equal scores to the last bit, which a product with all items would not
    promise: matrix products round by position.

    Parameters
    ----------
    projected : (n_queries, n_components)
    distinct : (n_codes, ...)
    inverse : (n_items,)
        Which distinct code each item has.

    Returns
    -------
    (n_queries, n_items) float32
    """
    scores: Any = projected @ method.decode(distinct).T
    return np.asarray(scores[:, inverse], dtype=np.float32)


def _blocks(n_queries: int, n_items: int) -> Iterator[slice]:
    size = max(1, _BLOCK_VALUES // max(1, n_items))
    return (slice(start, start + size) for start in range(0, n_queries, size))

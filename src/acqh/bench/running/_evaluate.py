"""Fit a method on one split and measure it in every direction."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, get_args

import numpy as np

from acqh._core.arrays import Array, Floats, Matrix
from acqh.bench.running._split import Split, SplitParts
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError
from acqh.methods import BaseMethod
from acqh.methods.registry import DatabaseMode
from acqh.metrics import RetrievalMetrics, RetrievalResult, relevance

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
    database = check_database(method, parts, database)
    started = time.perf_counter()
    method.fit(parts.train.views, parts.train.labels)
    fit_seconds = time.perf_counter() - started
    return [found.row for found in measure(method, split, parts, database, fit_seconds)]


def check_database(
    method: BaseMethod, parts: SplitParts, database: DatabaseMode | None
) -> DatabaseMode:
    """Return what database items are coded from: as asked, or as is usual for the protocol."""
    if database is None:
        database = method.info.modes[0] if parts.database.labels is not None else "hashed"
    if database not in get_args(DatabaseMode):
        raise InvalidInputError(f"database must be learnt, hashed or unified, not {database!r}")
    if database == "learnt" and parts.database.labels is None:
        raise InvalidInputError(
            "this protocol hides the labels of the database: use database='hashed' or 'unified'"
        )
    return database


@dataclass(frozen=True, eq=False)
class Measured:
    """One direction: the row of the table, and what it was made from, curves included."""

    row: ResultRow
    result: RetrievalResult


@dataclass(frozen=True, eq=False)
class _Coded:
    """A database as its distinct codes, which of them each item has, and the time that took."""

    distinct: Array
    inverse: Array
    seconds: float


def measure(
    method: BaseMethod,
    split: Split,
    parts: SplitParts,
    database: DatabaseMode,
    fit_seconds: float,
    *,
    top_n: Sequence[int] = (),
    curve: bool = False,
) -> list[Measured]:
    """Measure a fitted method in every direction.

    Parameters
    ----------
    method : BaseMethod
        Fitted on the training part.
    split : Split
    parts : SplitParts
        Of this split.
    database : {"learnt", "hashed", "unified"}
    fit_seconds : float
        For the rows.
    top_n : sequence of int
        Where to measure precision.
    curve : bool
        Whether to measure precision and recall at every rank.

    Returns
    -------
    list of Measured
        One for each ordered pair of views.
    """
    coded: dict[str, _Coded] = {}
    found = []
    for query_view, searched in permutations(parts.query.views, 2):
        # One code of all views serves every direction.
        source = "" if database == "unified" else searched
        if source not in coded:
            coded[source] = _code(method, parts.database, database, searched)
        metrics = RetrievalMetrics((None, 50, 100), top_n=top_n, curve=curve)
        width, query_seconds = _rank(method, parts, query_view, coded[source], metrics)
        result = metrics.result()
        row = ResultRow(
            dataset=split.dataset,
            protocol=split.protocol,
            method=method.info.name,
            database=database,
            n_components=width,
            bytes_per_item=method.bytes_per_item,
            seed=split.seed,
            direction=f"{query_view}->{searched}",
            map_all=result.mean_average_precision[None],
            map_50=result.mean_average_precision[50],
            map_100=result.mean_average_precision[100],
            fit_seconds=fit_seconds,
            encode_seconds=coded[source].seconds,
            query_seconds=query_seconds,
            n_train=len(split.train),
            n_query=len(split.query),
            n_database=len(split.database),
            n_codes=len(coded[source].distinct),
        )
        found.append(Measured(row, result))
    return found


def _code(method: BaseMethod, items: MultiViewData, database: DatabaseMode, view: str) -> _Coded:
    started = time.perf_counter()
    if database == "learnt":
        codes = method.encode({view: items.views[view]}, labels=items.labels, mode="learnt")
    else:
        views = dict(items.views) if database == "unified" else {view: items.views[view]}
        codes = method.encode(views, mode=database)
    seconds = time.perf_counter() - started
    distinct, inverse = np.unique(codes, axis=0, return_inverse=True)
    return _Coded(distinct, inverse.ravel(), seconds)


def _rank(
    method: BaseMethod, parts: SplitParts, view: str, coded: _Coded, metrics: RetrievalMetrics
) -> tuple[int, float]:
    """Rank the database for all queries of a view; return their width and the seconds taken."""
    seconds = 0.0
    width = 0
    queries = parts.query.views[view]
    labels: Matrix = parts.query.labels
    for rows in _blocks(len(parts.query), len(coded.inverse)):
        started = time.perf_counter()
        projected = method.embed_queries(queries[rows], view=view)
        scores = score_codes(method, projected, coded.distinct, coded.inverse)
        seconds += time.perf_counter() - started
        width = int(projected.shape[1])
        metrics.update(scores, relevance(labels[rows], parts.database_labels))
    return width, seconds


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
    scores: Any = np.asarray(projected @ method.decode(distinct).T, dtype=np.float32)
    # Rounded first, so that what is copied for every item is no wider than what is returned.
    return np.take(scores, inverse, axis=1)


def _blocks(n_queries: int, n_items: int) -> Iterator[slice]:
    size = max(1, _BLOCK_VALUES // max(1, n_items))
    return (slice(start, start + size) for start in range(0, n_queries, size))

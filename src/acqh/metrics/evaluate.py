"""Figures of what a search returned, by the ids of the items."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from acqh._core.arrays import Array, Ints, slices
from acqh.errors import InvalidInputError
from acqh.metrics.evaluator import RetrievalMetrics, RetrievalResult
from acqh.metrics.inputs import Denominator, Empty
from acqh.metrics.relevance import label_pair, relevance

# Pairs of a query and an item whose relevance is held at a time.
_PAIRS_AT_ONCE = 1 << 24


class Found(Protocol):
    """What a search returned; `acqh.index.SearchResult` is one."""

    @property
    def ids(self) -> Array:
        """Ids of items, (n_queries, k), best first."""

    @property
    def counts(self) -> Ints:
        """How many of them were found, (n_queries,)."""


def evaluate(
    result: Found,
    query_labels: Any,
    database_labels: Any,
    *,
    ids: Sequence[Any] | Array | None = None,
    cutoffs: Sequence[int] | None = None,
    top_n: Sequence[int] = (),
    denominator: Denominator = "hits",
    empty: Empty = "skip",
) -> RetrievalResult:
    """Return the figures of a search: an item answers a query if they share a label.

    The order within ties is that of the result.

    Parameters
    ----------
    result : SearchResult
        Of all queries, in the order of `query_labels`.
    query_labels, database_labels
        As for `relevance`.
    ids : sequence of n_database ids, optional
        Under which the items of `database_labels` were added, in the same order; by default
        their row numbers.
    cutoffs : sequence of int, optional
        Where to cut average precision; by default at the length of the result's lists.
    top_n : sequence of int
        Where to measure precision.
    denominator, empty
        As for `RetrievalMetrics`.

    Returns
    -------
    RetrievalResult

    Raises
    ------
    InvalidInputError
        A cut-off is beyond the lists, numbers of queries or items differ, an id is given twice,
        or the result holds an id that is not among `ids`.
    LabelError
        The labels cannot be read.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(300, n_labels=5, random_state=0)
    >>> train, query = data.split(test_size=20, random_state=0)
    >>> model = acqh.ACQH(8, random_state=0).fit(train.views, train.labels)
    >>> index = acqh.CodeIndex(model.codebooks_)
    >>> index = index.add(model.encode(labels=train.labels), ids=train.ids)
    >>> hits = index.search(model.project(query.views["text"], view="text"), k=10)
    >>> found = acqh.metrics.evaluate(hits, query.labels, train.labels, ids=train.ids)
    >>> found.mean_average_precision[10] > 0.5
    True
    """
    queries, database = label_pair(query_labels, database_labels)
    n_queries, n_database = queries.shape[0], database.shape[0]
    rows = _rows(result, n_queries, n_database, ids)
    n_listed = rows.shape[1]
    for place in (*(cutoffs or ()), *top_n):
        if n_listed < min(place, n_database):
            raise InvalidInputError(
                f"the result lists {n_listed} items per query, which says nothing of the first "
                f"{place}; search with k={place}"
            )
    metrics = RetrievalMetrics(
        (n_listed,) if cutoffs is None else cutoffs,
        top_n=top_n,
        denominator=denominator,
        ties="stable",
        empty=empty,
        kind="ranking",
    )
    step = max(1, _PAIRS_AT_ONCE // n_database)
    for block in slices(n_queries, step):
        metrics.update(rows[block], relevance(queries[block], database))
    return metrics.result()


def _rows(result: Found, n_queries: int, n_database: int, ids: Any) -> Ints:
    """Return the database rows of what was found, -1 beyond the end of a list."""
    if len(result.ids) != n_queries:
        raise InvalidInputError(
            f"the result is of {len(result.ids)} queries, but {n_queries} have labels"
        )
    names = range(n_database) if ids is None else np.asarray(ids).tolist()
    row_of = {name: row for row, name in enumerate(names)}
    if len(names) != n_database or len(row_of) != n_database:
        raise InvalidInputError(
            f"ids must name each of the {n_database} items of database_labels once, got "
            f"{len(row_of)} different ids"
        )
    listed = np.arange(result.ids.shape[1]) < np.asarray(result.counts)[:, np.newaxis]
    found = result.ids[listed].tolist()
    unknown = next((name for name in found if name not in row_of), None)
    if unknown is not None:
        raise InvalidInputError(
            f"the result holds the id {unknown!r}, which is not among ids; give the ids that the "
            "items were added under, in the order of database_labels"
        )
    rows = np.full(result.ids.shape, -1, dtype=np.int64)
    rows[listed] = [row_of[name] for name in found]
    return rows

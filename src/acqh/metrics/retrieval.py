"""Every metric by rank at once: from blocks of queries, or from what a search returned."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, get_args

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, slices
from acqh._core.runtime import suggest_keywords
from acqh.errors import InvalidInputError
from acqh.metrics import compiled
from acqh.metrics.curves import PrecisionRecallCurve, check_top_n, hits_by_rank
from acqh.metrics.rankings import (
    MAX_DATABASE,
    PAIRS_AT_ONCE,
    Denominator,
    Empty,
    Kind,
    Ties,
    check_block,
    check_choice,
    check_cutoff,
    count_queries,
    iter_tie_blocks,
    label_pair,
    relevance,
)


@dataclass(frozen=True, eq=False)
class RetrievalResult:
    """Results of `RetrievalMetrics`, with the settings of the measurement.

    Attributes
    ----------
    mean_average_precision : dict of float
        By cut-off; the key None is the whole database.
    average_precision : dict of (n_queries,) float64
        By cut-off; NaN for empty queries.
    top_n : tuple of int
    precision : (len(top_n),) float64
        Mean precision among the first N.
    curve : PrecisionRecallCurve or None
        By rank, if requested.
    n_queries, n_empty, n_database : int
        `n_empty` counts the queries without a relevant item in the database.
    denominator, ties, empty : str
        The choices made, to be printed with the results.

    Examples
    --------
    >>> import acqh
    >>> metrics = acqh.metrics.RetrievalMetrics(cutoffs=(None,))
    >>> result = metrics.update([[3, 2, 1]], [[1, 0, 0]]).result()
    >>> result.mean_average_precision, result.ties
    ({None: 1.0}, 'expected')
    """

    mean_average_precision: dict[int | None, float]
    average_precision: dict[int | None, Floats] = field(repr=False)
    top_n: tuple[int, ...]
    precision: Floats
    curve: PrecisionRecallCurve | None = field(repr=False)
    n_queries: int
    n_empty: int
    n_database: int
    denominator: Denominator
    ties: Ties
    empty: Empty


class RetrievalMetrics:
    """Average precision, topN precision and the precision-recall curve, in blocks of queries.

    Each ranking is made once, whatever is measured on it, and nothing as large as queries
    times items is kept.

    Parameters
    ----------
    cutoffs : sequence of int or None
        Where to cut average precision; None is the whole database.
    top_n : sequence of int
        Where to measure precision.
    curve : bool
        Whether to measure precision and recall at every rank.
    denominator, ties, kind
        As for `average_precision`.
    empty : {"skip", "zero"}
        Leave queries without a relevant item in the database out of every mean, or count them
        as 0.

    Raises
    ------
    InvalidInputError
        An unknown choice, or a cut-off or N below 1.

    Examples
    --------
    >>> metrics = RetrievalMetrics(cutoffs=(None, 1), top_n=(1, 2))
    >>> for scores, relevant in [([[3, 2, 1]], [[1, 0, 0]]), ([[3, 2, 1]], [[0, 1, 0]])]:
    ...     metrics = metrics.update(scores, relevant)
    >>> result = metrics.result()
    >>> result.mean_average_precision, result.precision, result.n_queries
    ({None: 0.75, 1: 0.5}, array([0.5, 0.5]), 2)
    """

    def __init__(
        self,
        cutoffs: Sequence[int | None] = (None,),
        *,
        top_n: Sequence[int] = (),
        curve: bool = False,
        denominator: Denominator = "hits",
        ties: Ties = "expected",
        empty: Empty = "skip",
        kind: Kind = "scores",
    ) -> None:
        for cutoff in cutoffs:
            check_cutoff(cutoff, MAX_DATABASE)
        check_choice(denominator, Denominator, "denominator")
        check_choice(ties, Ties, "ties")
        check_choice(empty, Empty, "empty")
        check_choice(kind, Kind, "kind")
        self.cutoffs = tuple(cutoffs)
        self.top_n = tuple(int(n) for n in check_top_n(top_n, MAX_DATABASE)) if len(top_n) else ()
        self.curve = curve
        self.denominator = denominator
        self.ties = ties
        self.empty = empty
        self.kind = kind
        self._shape = (0, 0)
        self._average_precision: list[Floats] = []
        self._n_empty = 0
        self._hits = self._recall = np.empty(0)

    def update(self, scores: Any, relevant: Any) -> Self:
        """Add a block of queries.

        Parameters
        ----------
        scores : (n_queries, n_database) or (n_database,)
            Or distances or a ranking, as `kind` says.
        relevant : bool (n_queries, n_database) or (n_database,)

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            As `average_precision`; or the number of items is not that of earlier blocks.
            Nothing of the block is counted then.
        """
        checked, relevant_rows = check_block(scores, relevant, self.kind)
        self._start(relevant_rows.shape[1], checked.shape[1])
        divide_by = get_args(Denominator).index(self.denominator)
        places = [check_cutoff(cutoff, relevant_rows.shape[1]) for cutoff in self.cutoffs]
        counts = relevant_rows.sum(axis=1)
        values = np.empty((len(checked), len(places)))
        rankings = iter_tie_blocks(checked, relevant_rows, self.kind, self.ties)
        for query, (blocks, count) in enumerate(zip(rankings, counts.tolist(), strict=True)):
            for column, place in enumerate(places):
                values[query, column] = compiled.average_precision(
                    blocks.sizes, blocks.hits, count, place, divide_by
                )
            if self._hits.size:
                hits = hits_by_rank(blocks, self._hits.size)
                self._hits += hits
                self._recall += hits / max(count, 1)
        self._average_precision.append(values)
        self._n_empty += int((counts == 0).sum())
        return self

    def _start(self, n_database: int, n_listed: int) -> None:
        if self._shape == (0, 0):
            self._shape = n_database, n_listed
            longest = int(check_top_n(self.top_n, n_database).max()) if self.top_n else 0
            n_ranks = max(longest, n_listed if self.curve else 0)
            self._hits, self._recall = np.zeros((2, n_ranks))
        elif self._shape != (n_database, n_listed):
            raise InvalidInputError(
                f"this block has {n_listed} columns for {n_database} items, earlier ones had "
                f"{self._shape[1]} for {self._shape[0]}; every query needs the same database"
            )

    def result(self) -> RetrievalResult:
        """Return the results over all queries so far.

        Raises
        ------
        InvalidInputError
            No query was given, or all are empty and empty ones are skipped.
        """
        n_queries, n_counted = self._counts()
        n_database, _ = self._shape
        average_precision = self._by_cutoff()
        ranks = np.minimum(np.array(self.top_n, dtype=np.int64), n_database)
        return RetrievalResult(
            mean_average_precision={
                cutoff: float(np.nansum(column) / n_counted)
                for cutoff, column in average_precision.items()
            },
            average_precision=average_precision,
            top_n=self.top_n,
            precision=self._hits[ranks - 1] / ranks / n_counted,
            curve=self._mean_curve() if self.curve else None,
            n_queries=n_queries,
            n_empty=self._n_empty,
            n_database=n_database,
            denominator=self.denominator,
            ties=self.ties,
            empty=self.empty,
        )

    def _by_cutoff(self) -> dict[int | None, Floats]:
        """Return the average precisions of all queries so far, by cut-off; NaN for empty ones."""
        values = np.concatenate(self._average_precision)
        return dict(zip(self.cutoffs, values.T, strict=True))

    def _counts(self) -> tuple[int, int]:
        n_queries = sum(map(len, self._average_precision))
        return n_queries, count_queries(n_queries, self._n_empty, self.empty)

    def _mean_curve(self) -> PrecisionRecallCurve:
        n_queries, n_counted = self._counts()
        _, n_listed = self._shape
        ranks = np.arange(1, n_listed + 1)
        return PrecisionRecallCurve(
            precision=self._hits[:n_listed] / ranks / n_counted,
            recall=self._recall[:n_listed] / n_counted,
            n_queries=n_queries,
            n_empty=self._n_empty,
        )


def precision_recall_curve(
    scores: Any,
    relevant: Any,
    *,
    ties: Ties = "expected",
    empty: Empty = "skip",
    kind: Kind = "scores",
) -> PrecisionRecallCurve:
    """Return precision and recall at every rank, each averaged over queries.

    Recall is relative to the relevant items of the whole database.

    Parameters
    ----------
    scores, relevant, ties, kind
        As for `average_precision`.
    empty : {"skip", "zero"}
        Leave queries without a relevant item in the database out, or count both as 0.

    Returns
    -------
    PrecisionRecallCurve
        Entry i of its arrays belongs to the first i + 1 items; ``interpolate`` gives the
        precision at chosen levels of recall.

    Raises
    ------
    InvalidInputError
        As `mean_average_precision`.

    See Also
    --------
    RetrievalMetrics : the same in blocks of queries.
    precision_recall_by_radius : by Hamming radius.

    Examples
    --------
    >>> curve = precision_recall_curve([[3, 2, 1]], [[True, False, True]])
    >>> curve.precision.round(3), curve.recall
    (array([1.   , 0.5  , 0.667]), array([0.5, 0.5, 1. ]))
    """
    metrics = RetrievalMetrics((), curve=True, ties=ties, empty=empty, kind=kind)
    return metrics.update(scores, relevant)._mean_curve()


class Hits(Protocol):
    """Ids and numbers of hits per query, such as those of a `SearchResult`."""

    @property
    def ids(self) -> Array:
        """Ids, (n_queries, k)."""

    @property
    def counts(self) -> Ints:
        """Number of hits, (n_queries,)."""


@suggest_keywords
def evaluate(
    result: Hits,
    query_labels: Any,
    database_labels: Any,
    *,
    ids: Sequence[Any] | Array | None = None,
    cutoffs: Sequence[int] | None = None,
    top_n: Sequence[int] = (),
    denominator: Denominator = "hits",
    empty: Empty = "skip",
) -> RetrievalResult:
    """Return the metrics of a search: an item answers a query if they share a label.

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
    step = max(1, PAIRS_AT_ONCE // n_database)
    for block in slices(n_queries, step):
        metrics.update(rows[block], relevance(queries[block], database))
    return metrics.result()


def _rows(result: Hits, n_queries: int, n_database: int, ids: Any) -> Ints:
    """Return the database rows of the hits, -1 beyond the end of a list."""
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
    hits = result.ids[listed].tolist()
    unknown = next((name for name in hits if name not in row_of), None)
    if unknown is not None:
        raise InvalidInputError(
            f"the result holds the id {unknown!r}, which is not among ids; give the ids that the "
            "items were added under, in the order of database_labels"
        )
    rows = np.full(result.ids.shape, -1, dtype=np.int64)
    rows[listed] = [row_of[name] for name in hits]
    return rows


def average_precision(
    scores: Any,
    relevant: Any,
    *,
    cutoff: int | None = None,
    denominator: Denominator = "hits",
    ties: Ties = "expected",
    kind: Kind = "scores",
) -> Floats | np.float64:
    """Return the average precision of each query.

    The sum of the precisions at the ranks of relevant items within the cut-off, divided as
    `denominator` says. With ``cutoff=None`` the three denominators are the same number.

    Parameters
    ----------
    scores : (n_queries, n_database) or (n_database,)
        Integers or floats; infinite values are allowed, NaN is not. See `kind`.
    relevant : bool (n_queries, n_database) or (n_database,)
        Whether the item answers the query; `relevance` makes it from labels.
    cutoff : int, optional
        How many of the first places count, R. None, or more than there are items, means all.
    denominator : {"hits", "cutoff", "all"}
        The number of relevant items among the first R; the smaller of R and the number in the
        database, which is what a perfect ranking would find; or the number in the database.
    ties : {"expected", "stable"}
        The exact mean over all orders of tied items, or database order within ties.
    kind : {"scores", "distances", "ranking"}
        Larger ranks first; smaller ranks first; or `scores` are database rows in ranked order,
        (n_queries, n_listed), lists shorter than others filled up with -1.

    Returns
    -------
    (n_queries,) float64, or one float64 for one query
        NaN for a query without a relevant item in the database. A query that has some, but
        none within the cut-off, has average precision 0.

    Raises
    ------
    InvalidInputError
        Shapes differ, a score is NaN, a ranking repeats an item, or a choice is unknown.

    Examples
    --------
    >>> average_precision([0.9, 0.8, 0.7], [True, False, True]).round(4)
    np.float64(0.8333)
    >>> average_precision([0.5, 0.5, 0.5], [True, False, True]).round(4)
    np.float64(0.8056)
    """
    metrics = RetrievalMetrics((cutoff,), denominator=denominator, ties=ties, kind=kind)
    values = metrics.update(scores, relevant)._by_cutoff()[cutoff]
    return values if np.ndim(scores) == 2 else np.float64(values[0])


def mean_average_precision(
    scores: Any,
    relevant: Any,
    *,
    cutoff: int | None = None,
    denominator: Denominator = "hits",
    ties: Ties = "expected",
    empty: Empty = "skip",
    kind: Kind = "scores",
) -> float:
    """Return the mean of `average_precision` over queries.

    Parameters
    ----------
    scores, relevant, cutoff, denominator, ties, kind
        As for `average_precision`.
    empty : {"skip", "zero"}
        Leave queries without a relevant item in the database out of the mean, or count them 0.

    Returns
    -------
    float

    Raises
    ------
    InvalidInputError
        As `average_precision`; or every query is empty and they are to be skipped.

    See Also
    --------
    RetrievalMetrics : the same in blocks of queries, at several cut-offs, with counts.

    Examples
    --------
    >>> scores = [[3, 2, 1], [3, 2, 1], [3, 2, 1]]
    >>> relevant = [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    >>> mean_average_precision(scores, relevant)
    0.75
    >>> mean_average_precision(scores, relevant, empty="zero")
    0.5
    """
    metrics = RetrievalMetrics(
        (cutoff,), denominator=denominator, ties=ties, empty=empty, kind=kind
    )
    return metrics.update(scores, relevant).result().mean_average_precision[cutoff]

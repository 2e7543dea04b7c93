"""Average precision: exact expectations over ties, every choice an argument."""

from typing import Any

import numpy as np

from acqh._core.arrays import Floats
from acqh.metrics.evaluate import RetrievalMetrics
from acqh.metrics.rankings import Denominator, Empty, Kind, Ties


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

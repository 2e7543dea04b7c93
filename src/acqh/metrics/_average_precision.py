"""Average precision: exact expectations over ties, every choice an argument."""

from typing import Any

import numpy as np

from acqh._core.arrays import Bools, Floats
from acqh.metrics import _kernels
from acqh.metrics._inputs import (
    Denominator,
    Empty,
    Kind,
    Ties,
    as_relevant,
    check_block,
    check_choice,
    check_cutoff,
    count_queries,
)
from acqh.metrics._tie_blocks import TieBlocks, iter_tie_blocks

_DIVIDE_BY = {
    "hits": _kernels.DIVIDE_BY_HITS,
    "cutoff": _kernels.DIVIDE_BY_CUTOFF,
    "all": _kernels.DIVIDE_BY_ALL,
}


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
    checked, relevant_rows = check_relevance_block(scores, relevant, kind)
    check_choice(ties, Ties, "ties")
    divide_by = check_denominator(denominator)
    places = check_cutoff(cutoff, relevant_rows.shape[1])
    values = np.array(
        [
            average_precision_of(blocks, int(row.sum()), places, divide_by)
            for blocks, row in zip(
                iter_tie_blocks(checked, relevant_rows, kind, ties), relevant_rows, strict=True
            )
        ]
    )
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
    values = average_precision(
        scores, relevant, cutoff=cutoff, denominator=denominator, ties=ties, kind=kind
    )
    return mean_over_queries(np.atleast_1d(values), empty)


def mean_over_queries(values: Floats, empty: Empty) -> float:
    """Average the values of queries, of which the empty ones are NaN."""
    n_counted = count_queries(values.size, int(np.isnan(values).sum()), empty)
    return float(np.nansum(values) / n_counted)


def check_relevance_block(scores: Any, relevant: Any, kind: Kind) -> tuple[Any, Bools]:
    """Check scores and relevance; see `check_block`."""
    checked, values = check_block(scores, relevant, kind, "relevant")
    return checked, as_relevant(values)


def check_denominator(denominator: Denominator) -> int:
    """Return the kernels' constant for a denominator."""
    check_choice(denominator, Denominator, "denominator")
    return _DIVIDE_BY[denominator]


def average_precision_of(blocks: TieBlocks, n_relevant: int, cutoff: int, divide_by: int) -> float:
    """Return the average precision of one ranking already cut into tie blocks."""
    return float(
        _kernels.average_precision(blocks.sizes, blocks.totals, n_relevant, cutoff, divide_by)
    )

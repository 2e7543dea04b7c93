"""Precision at given ranks, and curves of precision against recall, by rank or radius."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Floats, check_positive_int
from acqh.errors import InvalidInputError
from acqh.metrics.compiled import fill_hits_by_rank
from acqh.metrics.rankings import (
    Empty,
    Kind,
    TieBlocks,
    Ties,
    check_block,
    check_choice,
    count_queries,
    iter_tie_blocks,
)

Interpolation: TypeAlias = Literal["linear", "max"]
Average: TypeAlias = Literal["micro", "macro"]
NoResult: TypeAlias = Literal["zero", "skip"]


@dataclass(frozen=True, eq=False)
class PrecisionRecallCurve:
    """Precision against recall.

    Attributes
    ----------
    precision, recall : (n_points,) float64
        Entry i belongs to rank i + 1, or to Hamming radius i; recall never falls.
    n_queries : int
        Queries given.
    n_empty : int
        Those among them without a relevant item in the database.

    Examples
    --------
    >>> import acqh
    >>> curve = acqh.metrics.precision_recall_curve([[3, 2, 1]], [[True, False, True]])
    >>> curve.precision.round(3), curve.recall, curve.n_queries
    (array([1.   , 0.5  , 0.667]), array([0.5, 0.5, 1. ]), 1)
    """

    precision: Floats
    recall: Floats
    n_queries: int
    n_empty: int

    def interpolate(self, levels: Any, *, how: Interpolation = "linear") -> Floats:
        """Return the precision at given levels of recall.

        Parameters
        ----------
        levels : (n_levels,)
            Such as ``np.linspace(0, 1, 11)``.
        how : {"linear", "max"}
            On the straight line between neighbouring points, of points with the same recall
            the first; or the highest precision at this recall or any above.

        Returns
        -------
        (n_levels,) float64
            Below the first point its precision (linear); above the highest recall NaN.

        Examples
        --------
        >>> precision, recall = np.array([1.0, 0.5, 0.6]), np.array([0.2, 0.2, 0.4])
        >>> curve = PrecisionRecallCurve(precision, recall, n_queries=1, n_empty=0)
        >>> curve.interpolate([0.1, 0.3, 0.5])
        array([1. , 0.8, nan])
        >>> curve.interpolate([0.1, 0.3, 0.5], how="max")
        array([1. , 0.6, nan])
        """
        check_choice(how, Interpolation, "how")
        levels = np.asarray(levels, dtype=np.float64)
        is_defined = ~np.isnan(self.precision)
        recall, precision = self.recall[is_defined], self.precision[is_defined]
        if how == "linear":
            recall, first = np.unique(recall, return_index=True)
            at_levels = np.interp(levels, recall, precision[first], right=np.nan)
        else:
            best_from = np.maximum.accumulate(precision[::-1])[::-1]
            at_levels = np.append(best_from, np.nan)[np.searchsorted(recall, levels)]
        return np.asarray(at_levels, dtype=np.float64)


def precision_at(
    scores: Any,
    relevant: Any,
    top_n: int | Sequence[int],
    *,
    ties: Ties = "expected",
    kind: Kind = "scores",
) -> Floats | np.float64:
    """Return the share of relevant items among the first N, for each query.

    Parameters
    ----------
    scores, relevant, ties, kind
        As for `average_precision`.
    top_n : int or sequence of int
        One N or several; more than there are items means all of them.

    Returns
    -------
    (n_queries,) or (n_queries, len(top_n)) float64; without the first axis for one query
        0 for a query without relevant items.

    Raises
    ------
    InvalidInputError
        As `average_precision`; or an N below 1.

    Examples
    --------
    >>> precision_at([[0.9, 0.5, 0.5]], [[True, True, False]], [1, 2, 3]).round(3)
    array([[1.   , 0.75 , 0.667]])
    """
    checked, relevant_rows = check_block(scores, relevant, kind)
    check_choice(ties, Ties, "ties")
    ranks = check_top_n(top_n, relevant_rows.shape[1])
    values = np.stack(
        [
            hits_by_rank(blocks, int(ranks.max()))[ranks - 1] / ranks
            for blocks in iter_tie_blocks(checked, relevant_rows, kind, ties)
        ]
    )
    if np.ndim(top_n) == 0:
        values = values[:, 0]
    return values if np.ndim(scores) == 2 else values[0]


def check_top_n(top_n: Any, n_database: int) -> Any:
    """Return the ranks as an int64 array, none above the number of items."""
    ranks = [top_n] if np.ndim(top_n) == 0 else list(top_n)
    if not ranks:
        raise InvalidInputError("top_n is empty; give at least one N")
    return np.array(
        [min(check_positive_int(n, "top_n"), n_database) for n in ranks], dtype=np.int64
    )


def hits_by_rank(blocks: TieBlocks, n_ranks: int) -> Floats:
    """Return the expected number of hits in the first 1, 2, ..., n_ranks places."""
    expected = np.empty(n_ranks)
    fill_hits_by_rank(blocks.sizes, blocks.hits, expected)
    return expected


def precision_recall_by_radius(
    distances: Any,
    relevant: Any,
    n_bits: int,
    *,
    average: Average = "micro",
    no_result: NoResult = "zero",
    empty: Empty = "skip",
) -> PrecisionRecallCurve:
    """Return precision and recall of the items within each Hamming radius 0, 1, ..., n_bits.

    Parameters
    ----------
    distances : integer (n_queries, n_database) or (n_database,)
        From 0 to `n_bits`; uint8 takes the least memory.
    relevant : bool, same shape
    n_bits : int
        Code length.
    average : {"micro", "macro"}
        Pool the pairs of all queries, or average the queries' own precision and recall.
    no_result : {"zero", "skip"}
        Precision of a query without items within the radius: 0, or skipped in the mean (NaN if all
        queries are skipped).
    empty : {"skip", "zero"}
        Skip queries without a relevant item in the database, or include them: all their items count
        as wrong and, in the macro average, their recall as 0.

    Returns
    -------
    PrecisionRecallCurve
        Entry r of its arrays belongs to radius r.

    Raises
    ------
    InvalidInputError
        Shapes differ, distances are not whole numbers from 0 to `n_bits`, a choice is unknown, or
        no query counts.

    Examples
    --------
    >>> curve = precision_recall_by_radius([[0, 1, 2]], [[True, False, True]], 2)
    >>> curve.precision.round(3), curve.recall
    (array([1.   , 0.5  , 0.667]), array([0.5, 0.5, 1. ]))
    """
    checked, relevant_rows = check_block(distances, relevant, "distances")
    n_radii = check_positive_int(n_bits, "n_bits") + 1
    check_choice(average, Average, "average")
    check_choice(no_result, NoResult, "no_result")
    if checked.dtype.kind not in "ui":
        raise InvalidInputError(f"Hamming distances must be integers, got dtype {checked.dtype}")
    if checked.min() < 0 or checked.max() > n_bits:
        raise InvalidInputError(
            f"Hamming distances of {n_bits} bits lie between 0 and {n_bits}, "
            f"got {checked.min()} to {checked.max()}"
        )
    n_relevant = relevant_rows.sum(axis=1)
    n_empty = int((n_relevant == 0).sum())
    count_queries(len(checked), n_empty, empty)
    counted_queries = np.flatnonzero((n_relevant > 0) | (empty == "zero"))
    retrieved, hits = np.zeros((2, len(counted_queries), n_radii))
    for place, query in enumerate(counted_queries):
        row = checked[query].astype(np.int64)
        retrieved[place] = np.bincount(row, minlength=n_radii).cumsum()
        hits[place] = np.bincount(row[relevant_rows[query]], minlength=n_radii).cumsum()
    answers = np.broadcast_to(n_relevant[counted_queries, np.newaxis], hits.shape)
    nothing = 0.0 if no_result == "zero" else np.nan
    if average == "micro":
        precision = _ratio(hits.sum(axis=0), retrieved.sum(axis=0), nothing)
        recall = _ratio(hits.sum(axis=0), answers.sum(axis=0), 0.0)
    else:
        counted = (retrieved > 0) | (no_result == "zero")
        precision = _ratio(_ratio(hits, retrieved, 0.0).sum(axis=0), counted.sum(axis=0), nothing)
        recall = _ratio(hits, answers, 0.0).mean(axis=0)
    return PrecisionRecallCurve(precision, recall, len(checked), n_empty)


def _ratio(top: Floats, bottom: Array, otherwise: float) -> Floats:
    return np.divide(top, bottom, out=np.full_like(top, otherwise), where=bottom > 0)

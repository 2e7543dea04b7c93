"""Precision and recall of everything within a Hamming radius."""

from typing import Any, Literal, Self, TypeAlias

import numpy as np

from acqh._core.arrays import Floats, Ints, check_positive_int
from acqh.errors import InvalidInputError
from acqh.metrics.curves import PrecisionRecallCurve
from acqh.metrics.inputs import Empty, check_choice, check_relevance_block, count_queries

Average: TypeAlias = Literal["micro", "macro"]
NoResult: TypeAlias = Literal["zero", "skip"]


class RadiusMetrics:
    """Precision-recall curve by Hamming radius, from blocks of queries.

    Parameters
    ----------
    n_bits : int
        Code length; the curve has a point for each radius 0, 1, ..., n_bits.
    average : {"micro", "macro"}
        Pool the pairs of all queries, or average the queries' own precision and recall.
    no_result : {"zero", "skip"}
        What precision is where nothing lies within the radius: 0, or left out of the mean
        (NaN where that leaves nothing).
    empty : {"skip", "zero"}
        Leave queries without a relevant item in the database out altogether, or keep them:
        what they retrieve counts as wrong and, in the macro average, their recall as 0.

    Raises
    ------
    InvalidInputError
        An unknown choice, or `n_bits` below 1.

    Examples
    --------
    >>> curve = RadiusMetrics(2).update([[0, 1, 2]], [[True, False, True]]).result()
    >>> curve.precision.round(3), curve.recall
    (array([1.   , 0.5  , 0.667]), array([0.5, 0.5, 1. ]))
    """

    def __init__(
        self,
        n_bits: int,
        *,
        average: Average = "micro",
        no_result: NoResult = "zero",
        empty: Empty = "skip",
    ) -> None:
        self.n_bits = check_positive_int(n_bits, "n_bits")
        check_choice(average, Average, "average")
        check_choice(no_result, NoResult, "no_result")
        check_choice(empty, Empty, "empty")
        self.average = average
        self.no_result = no_result
        self.empty = empty
        self._n_queries = self._n_empty = 0
        # Sums over queries of numerators and denominators, by radius.
        self._sums = np.zeros((4, self.n_bits + 1))

    def update(self, distances: Any, relevant: Any) -> Self:
        """Add a block of queries.

        Parameters
        ----------
        distances : integer (n_queries, n_database) or (n_database,)
            From 0 to `n_bits`.
        relevant : bool, same shape

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            Shapes differ, or distances are not whole numbers from 0 to `n_bits`. Nothing of
            the block is counted then.
        """
        checked, relevant_rows = check_relevance_block(distances, relevant, "distances")
        if checked.dtype.kind not in "ui":
            raise InvalidInputError(
                f"Hamming distances must be integers, got dtype {checked.dtype}"
            )
        if checked.min() < 0 or checked.max() > self.n_bits:
            raise InvalidInputError(
                f"Hamming distances of {self.n_bits} bits lie between 0 and {self.n_bits}, "
                f"got {checked.min()} to {checked.max()}"
            )
        for row, row_relevant in zip(checked, relevant_rows, strict=True):
            self._add(row.astype(np.int64), row_relevant)
        return self

    def _add(self, row: Ints, relevant: Any) -> None:
        n_relevant = int(relevant.sum())
        self._n_queries += 1
        self._n_empty += n_relevant == 0
        if n_relevant == 0 and self.empty == "skip":
            return
        retrieved = np.bincount(row, minlength=self.n_bits + 1).cumsum()
        hits = np.bincount(row[relevant], minlength=self.n_bits + 1).cumsum()
        precision_top, precision_bottom, recall_top, recall_bottom = self._sums
        if self.average == "micro":
            precision_top += hits
            precision_bottom += retrieved
            recall_top += hits
            recall_bottom += n_relevant
        else:
            precision_top += hits / np.maximum(retrieved, 1)
            precision_bottom += (retrieved > 0) | (self.no_result == "zero")
            recall_top += hits / max(n_relevant, 1)
            recall_bottom += 1

    def result(self) -> PrecisionRecallCurve:
        """Return the curve over all queries so far.

        Raises
        ------
        InvalidInputError
            No query was given, or none that counts.
        """
        count_queries(self._n_queries, self._n_empty, self.empty)
        precision_top, precision_bottom, recall_top, recall_bottom = self._sums
        nothing = 0.0 if self.no_result == "zero" else np.nan
        return PrecisionRecallCurve(
            precision=_ratio(precision_top, precision_bottom, nothing),
            recall=_ratio(recall_top, recall_bottom, 0.0),
            n_queries=self._n_queries,
            n_empty=self._n_empty,
        )


def _ratio(top: Floats, bottom: Floats, otherwise: float) -> Floats:
    return np.divide(top, bottom, out=np.full_like(top, otherwise), where=bottom > 0)


def precision_recall_by_radius(
    distances: Any,
    relevant: Any,
    n_bits: int,
    *,
    average: Average = "micro",
    no_result: NoResult = "zero",
    empty: Empty = "skip",
) -> PrecisionRecallCurve:
    """Return precision and recall of the items within each Hamming radius.

    Parameters
    ----------
    distances : integer (n_queries, n_database) or (n_database,)
    relevant : bool, same shape
    n_bits, average, no_result, empty
        As for `RadiusMetrics`, which takes blocks of queries.

    Returns
    -------
    PrecisionRecallCurve
        Entry r of its arrays belongs to radius r.

    Raises
    ------
    InvalidInputError
        As `RadiusMetrics`.

    Examples
    --------
    >>> precision_recall_by_radius([[0, 1, 2]], [[True, False, True]], 2).recall
    array([0.5, 0.5, 1. ])
    """
    metrics = RadiusMetrics(n_bits, average=average, no_result=no_result, empty=empty)
    return metrics.update(distances, relevant).result()

"""Every metric by rank at once, from blocks of queries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Floats
from acqh.errors import InvalidInputError
from acqh.metrics import compiled
from acqh.metrics.curves import PrecisionRecallCurve, check_top_n, hits_by_rank
from acqh.metrics.inputs import (
    MAX_DATABASE,
    Denominator,
    Empty,
    Kind,
    Ties,
    check_choice,
    check_cutoff,
    check_relevance_block,
    count_queries,
)
from acqh.metrics.rankings import iter_tie_blocks

_DIVIDE_BY = {
    "hits": compiled.DIVIDE_BY_HITS,
    "cutoff": compiled.DIVIDE_BY_CUTOFF,
    "all": compiled.DIVIDE_BY_ALL,
}


@dataclass(frozen=True, eq=False)
class RetrievalResult:
    """What `RetrievalMetrics` measured, and under which choices.

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
        By rank, where it was asked for.
    n_queries, n_empty, n_database : int
        `n_empty` counts the queries without a relevant item in the database.
    denominator, ties, empty : str
        The choices made, to be printed beside the figures.
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
        checked, relevant_rows = check_relevance_block(scores, relevant, self.kind)
        self._start(relevant_rows.shape[1], checked.shape[1])
        places = [check_cutoff(cutoff, relevant_rows.shape[1]) for cutoff in self.cutoffs]
        counts = relevant_rows.sum(axis=1)
        values = np.empty((len(checked), len(places)))
        rankings = iter_tie_blocks(checked, relevant_rows, self.kind, self.ties)
        for query, (blocks, count) in enumerate(zip(rankings, counts.tolist(), strict=True)):
            for column, place in enumerate(places):
                values[query, column] = compiled.average_precision(
                    blocks.sizes, blocks.totals, count, place, _DIVIDE_BY[self.denominator]
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
        """Return the figures over all queries so far.

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

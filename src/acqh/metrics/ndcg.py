"""Normalised discounted cumulative gain on graded relevance."""

from typing import Any, Literal, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh.errors import InvalidInputError
from acqh.metrics.compiled import discounted_gain
from acqh.metrics.inputs import Kind, Ties, check_block, check_choice, check_cutoff
from acqh.metrics.rankings import iter_tie_blocks

Gain: TypeAlias = Literal["linear", "exponential"]

# 2 to this, times any number of items, is still a float64.
_MAX_EXPONENT = 900.0


def ndcg(
    scores: Any,
    grades: Any,
    *,
    cutoff: int | None = None,
    gain: Gain = "linear",
    ties: Ties = "expected",
    kind: Kind = "scores",
) -> Floats | np.float64:
    """Return the normalised discounted cumulative gain of each query.

    The sum over the first places i of gain / log2(i + 1), divided by what the best possible
    ranking would reach.

    Parameters
    ----------
    scores : (n_queries, n_database) or (n_database,)
        See `kind`.
    grades : (n_queries, n_database) or (n_database,)
        How relevant each item is, from 0; `shared_labels` counts labels in common.
    cutoff : int, optional
        How many of the first places count. None, or more than there are items, means all.
    gain : {"linear", "exponential"}
        The grade itself, or 2^grade - 1.
    ties : {"expected", "stable"}
        The exact mean over all orders of tied items, or database order within ties.
    kind : {"scores", "distances", "ranking"}
        As for `average_precision`.

    Returns
    -------
    (n_queries,) float64, or one float64 for one query
        NaN for a query whose grades are all 0.

    Raises
    ------
    InvalidInputError
        Shapes differ, a score is NaN, or a grade is negative or not finite.

    Examples
    --------
    >>> ndcg([3, 2, 1], [2, 0, 1]).round(4)
    np.float64(0.9502)
    """
    checked, graded = check_block(scores, grades, kind, "grades")
    check_choice(ties, Ties, "ties")
    check_choice(gain, Gain, "gain")
    places = check_cutoff(cutoff, graded.shape[1])
    gains = _as_gains(graded, gain)
    discounts = 1.0 / np.log2(np.arange(2, places + 2))
    values = np.empty(len(checked))
    rankings = iter_tie_blocks(checked, gains, kind, ties)
    for query, (blocks, row) in enumerate(zip(rankings, gains, strict=True)):
        best = np.sort(row)[::-1][:places] @ discounts
        reached = discounted_gain(blocks.sizes, blocks.totals, discounts)
        values[query] = reached / best if best > 0 else np.nan
    return values if np.ndim(scores) == 2 else np.float64(values[0])


def _as_gains(grades: Array, gain: Gain) -> Floats:
    if grades.dtype.kind not in "buif":
        raise InvalidInputError(f"grades have dtype {grades.dtype}; give numbers from 0")
    gains = grades.astype(np.float64)
    if not (np.isfinite(gains) & (gains >= 0)).all():
        raise InvalidInputError("grades must be finite numbers from 0")
    if gain == "linear":
        return gains
    if gains.max() > _MAX_EXPONENT:
        raise InvalidInputError(
            f"a grade of {gains.max():g} is too large for gain='exponential'; use 'linear'"
        )
    return np.asarray(np.exp2(gains) - 1.0)

"""What queries look like: the metric in which code vectors are to be near their targets."""

import numpy as np

from acqh._core.arrays import Floats, slices
from acqh.quantize.query_metric import expected_error

# Shares of the real queries in the metric that are tried; the rest are those of training rows.
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.9)
# Points that are weighted at a time.
_BLOCK_ROWS = 1024


def weighted_gram(points: Floats, weights: Floats) -> Floats:
    """Return the sum of points times themselves, by their weights: (n_dimensions, n_dimensions)."""
    total = np.zeros((points.shape[1], points.shape[1]))
    for rows in slices(len(points), _BLOCK_ROWS):
        scaled = points[rows] * np.sqrt(weights[rows])[:, None]
        total += scaled.T @ scaled  # a product with itself takes half the time
    return total


def second_moment(queries: Floats, weights: Floats) -> Floats:
    """Return the second moment of queries, scaled to a trace of one.

    `queries`: (n_queries, n_dimensions). `weights`: (n_queries,). Gives (n_dimensions,
    n_dimensions).
    """
    moment = weighted_gram(queries, weights)
    return np.asarray(moment / max(np.trace(moment), np.finfo(float).tiny))


def blend_metric(
    usual: Floats, queries: Floats, weights: Floats, moment: Floats, n_bits: int
) -> tuple[Floats, float]:
    """Return the metric of real queries, blended with the usual one, and their share.

    The share is chosen on queries held out: half of them make the metric, the others judge it,
    and the other way round. What is judged is the error of scores that codes of that many bits must
    at least make, which has a closed form.

    Parameters
    ----------
    usual : (n_dimensions, n_dimensions)
        The metric of training rows, of trace one.
    queries : (n_queries, n_dimensions)
        Blocks of real queries.
    weights : (n_queries,)
        How often each was asked.
    moment : (n_dimensions, n_dimensions)
        Mean of the items' blocks times themselves.
    n_bits : int
        Of a code.

    Returns
    -------
    metric : (n_dimensions, n_dimensions)
    share : float
    """
    share = 0.0
    if len(queries) > 1:
        moments = [second_moment(queries[half::2], weights[half::2]) for half in (0, 1)]
        errors = [
            sum(
                expected_error(
                    (1 - share) * usual + share * moments[fold], moments[1 - fold], moment, n_bits
                )
                for fold in (0, 1)
            )
            for share in _SHARES
        ]
        share = _SHARES[int(np.argmin(errors))]
    return (1 - share) * usual + share * second_moment(queries, weights), share

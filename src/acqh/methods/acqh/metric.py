"""What queries look like: the metric in which code vectors are to be near their targets."""

import numpy as np

from acqh._core.arrays import Floats, slices
from acqh.methods.acqh.spectral import Components

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


def expected_error(metric: Floats, judge: Floats, moment: Floats, n_bits: int) -> float:
    """Return the error that codes made in one metric have in another, at best.

    The points are taken as normal; bits go to the principal components in the metric so that what
    is left is the same for all of them, or their whole spread (reverse water-filling).

    `metric`: (n_dimensions, n_dimensions); in which codes are made. `judge`: (n_dimensions,
    n_dimensions); in which they are judged. `moment`: (n_dimensions, n_dimensions); second moment
    of the points.

    Examples
    --------
    >>> flat, skewed = np.eye(2), np.diag([1.0, 0.1])
    >>> good = expected_error(skewed, skewed, moment=np.eye(2), n_bits=2)
    >>> good < expected_error(flat, skewed, moment=np.eye(2), n_bits=2)
    True
    """
    values, vectors, _, inverse_root = Components.of_moment(moment, metric)
    if len(values) == 0:
        return 0.0
    left = _water_fill(values, n_bits)
    back = inverse_root @ vectors
    seen = back.T @ judge @ back
    # What the metric does not see at all is lost whole.
    kept = (back * values) @ back.T
    lost = float(np.sum(judge * (moment - kept)))
    return float(np.sum(np.diag(seen) * left)) + max(lost, 0.0)


def _water_fill(variances: Floats, n_bits: int) -> Floats:
    """Return the least squared errors of normal components, given bits for all of them."""
    for n_used in range(len(variances), 0, -1):
        used = variances[:n_used]
        level = np.exp(np.mean(np.log(used)) - 2.0 * np.log(2.0) * n_bits / n_used)
        if level <= used[-1]:
            return np.concatenate([np.full(n_used, level), variances[n_used:]])
    return variances

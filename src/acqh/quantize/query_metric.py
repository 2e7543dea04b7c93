"""The metric that queries ask for: what of an error they see, and how far to trust them."""

from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Floats

# Weights of the plain metric that are tried, the plain one first.
SHRINKAGES = (1.0, 0.6, 0.3, 0.1)
# The plainest metric is taken whose error is above the least by no more than this share: less does
# not show in what these queries find, and others, and new items, are served better.
_ENOUGH = 0.07
# Directions that queries see less of than this, relative to what they see most, are left out.
_UNSEEN = 1e-9


@dataclass(frozen=True)
class Root:
    """A root of a metric: in its coordinates, the metric is the plain one."""

    forward: Floats  # (n_components, rank): ``forward @ forward.T`` is the metric
    back: Floats  # (rank, n_components): its pseudo-inverse

    def words(self, codebooks: Floats, mean: Floats) -> Floats:
        """Return codebooks in the coordinates of the items.

        Parameters
        ----------
        codebooks : (n_codebooks, codebook_size, rank)
        mean : (n_components,)
            Of the items. What no query sees of it goes to the first codebook: vectors that codes
            stand for then are near the items, also where this changes no score.
        """
        words: Floats = codebooks @ self.back
        words[0] += mean - (mean @ self.forward) @ self.back
        return words


def second_moment(queries: Floats) -> Floats:
    """Return the mean of ``q q^T``, scaled to the trace of the identity; (K, K) float64."""
    queries = np.asarray(queries, dtype=np.float64)
    moment = queries.T @ queries
    trace = float(np.trace(moment))
    n_components = len(moment)
    return moment * (n_components / trace) if trace > 0 else np.eye(n_components)


def metric_root(moment: Floats, shrinkage: float = 0.0) -> Root:
    """Return a root of ``(1 - shrinkage) moment + shrinkage I``.

    `moment`: (n_components, n_components); of the trace of the identity. `shrinkage`: from 0 to 1.
    """
    values, vectors = np.linalg.eigh(_blend(moment, shrinkage))
    seen = values > _UNSEEN * values[-1]
    roots, vectors = np.sqrt(values[seen]), vectors[:, seen]
    return Root(vectors * roots, (vectors / roots).T)


def _blend(moment: Floats, shrinkage: float) -> Floats:
    return (1 - shrinkage) * moment + shrinkage * np.eye(len(moment))


def choose_shrinkage(items: Floats, weights: Floats, queries: Floats, n_bits: float) -> float:
    """Choose the weight of the plain metric by queries held out, without training a quantizer.

    Half of the queries make the metric and the others judge it, and the other way round, by the
    error of scores that codes must at least make.

    `items`: (n_items, n_components). `weights`: (n_items,). `queries`: (n_queries, n_components);
    of a single one none can be held out, and the plain metric, 1, is taken. `n_bits`: of a code.
    """
    halves = queries[::2], queries[1::2]
    if len(halves[1]) == 0:
        return 1.0
    centred = items - np.average(items, axis=0, weights=weights)
    moment = (centred.T * weights) @ centred / weights.sum()
    first, second = (second_moment(half) for half in halves)
    errors = [
        sum(
            expected_error(_blend(own, weight), other, moment, n_bits)
            for own, other in ((first, second), (second, first))
        )
        for weight in SHRINKAGES
    ]
    close = np.asarray(errors) <= (1 + _ENOUGH) * min(errors)
    return SHRINKAGES[int(np.argmax(close))]


def expected_error(metric: Floats, judge: Floats, moment: Floats, n_bits: float) -> float:
    """Return the error that codes made in one metric have in another, at best.

    The points are taken as normal; bits go to the principal components in the metric so that what
    is left is the same for all of them, or their whole spread (reverse water-filling).

    `metric`: (n_components, n_components); in which codes are made. `judge`: the same; in which
    they are judged. `moment`: the same; second moment of the points. `n_bits`: of a code.

    Examples
    --------
    >>> flat, skewed = np.eye(2), np.diag([1.0, 0.1])
    >>> good = expected_error(skewed, skewed, moment=np.eye(2), n_bits=2)
    >>> good < expected_error(flat, skewed, moment=np.eye(2), n_bits=2)
    True
    """
    root = metric_root(metric)
    values, vectors = np.linalg.eigh(root.forward.T @ moment @ root.forward)
    values, vectors = values[::-1], vectors[:, ::-1]
    spread = values > _UNSEEN * max(values[0], np.finfo(float).tiny)
    values, back = values[spread], vectors[:, spread].T @ root.back
    # What the metric does not see at all is lost whole.
    lost = float(np.sum(judge * (moment - (back.T * values) @ back)))
    seen = np.einsum("ij,ij->i", back @ judge, back)
    return float(seen @ _water_fill(values, n_bits)) + max(lost, 0.0)


def _water_fill(variances: Floats, n_bits: float) -> Floats:
    """Return the least squared errors of normal components, falling, given bits for all."""
    for n_used in range(len(variances), 0, -1):
        used = variances[:n_used]
        level = np.exp(np.mean(np.log(used)) - 2.0 * np.log(2.0) * n_bits / n_used)
        if level <= used[-1]:
            return np.concatenate([np.full(n_used, level), variances[n_used:]])
    return variances

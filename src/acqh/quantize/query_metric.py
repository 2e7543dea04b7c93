"""Query-aware metric: second moment of the queries, and its shrinkage to the Euclidean metric."""

from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Floats

# Candidate weights of the Euclidean metric, the Euclidean metric itself first.
SHRINKAGES = (1.0, 0.6, 0.3, 0.1)
# The largest weight is chosen whose error exceeds the smallest by at most this share: recall of
# these queries does not change, and other queries and new items gain.
_TOLERANCE = 0.07
# Directions of a smaller eigenvalue, relative to the largest, are dropped.
_RANK_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Root:
    """A root of a metric: in its coordinates, the metric is Euclidean."""

    forward: Floats  # (n_components, rank): ``forward @ forward.T`` is the metric
    back: Floats  # (rank, n_components): its pseudo-inverse

    def codewords(self, codebooks: Floats, mean: Floats) -> Floats:
        """Return codebooks in the coordinates of the items.

        Parameters
        ----------
        codebooks : (n_codebooks, codebook_size, rank)
        mean : (n_components,)
            Of the items. Its part outside the range of the metric is added to the first codebook:
            reconstructions are then near the items, also in directions that change no score.
        """
        codewords: Floats = codebooks @ self.back
        codewords[0] += mean - (mean @ self.forward) @ self.back
        return codewords


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
    keep = values > _RANK_TOLERANCE * values[-1]
    roots, vectors = np.sqrt(values[keep]), vectors[:, keep]
    return Root(vectors * roots, (vectors / roots).T)


def _blend(moment: Floats, shrinkage: float) -> Floats:
    return (1 - shrinkage) * moment + shrinkage * np.eye(len(moment))


def choose_shrinkage(items: Floats, weights: Floats, queries: Floats, n_bits: float) -> float:
    """Choose the weight of the Euclidean metric on held-out queries, without training a quantizer.

    Two-fold cross-validation: the metric of one half of the queries is evaluated on the other half,
    by a lower bound of the error of scores.

    `items`: (n_items, n_components). `weights`: (n_items,). `queries`: (n_queries, n_components);
    with a single one, the result is 1, the Euclidean metric. `n_bits`: of a code.
    """
    halves = queries[::2], queries[1::2]
    if len(halves[1]) == 0:
        return 1.0
    centred = items - np.average(items, axis=0, weights=weights)
    moment = (centred.T * weights) @ centred / weights.sum()
    first, second = (second_moment(half) for half in halves)
    errors = [
        sum(
            expected_error(_blend(train, weight), test, moment, n_bits)
            for train, test in ((first, second), (second, first))
        )
        for weight in SHRINKAGES
    ]
    close = np.asarray(errors) <= (1 + _TOLERANCE) * min(errors)
    return SHRINKAGES[int(np.argmax(close))]


def expected_error(metric: Floats, judge: Floats, moment: Floats, n_bits: float) -> float:
    """Return a lower bound of the error in one metric of codes that minimize another.

    Assumes normal points. Bits are allocated to the principal components by reverse water-filling.

    `metric`: (n_components, n_components); minimized by the codes. `judge`: the same; of the error.
    `moment`: the same; second moment of the points. `n_bits`: of a code.

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
    spread = values > _RANK_TOLERANCE * max(values[0], np.finfo(float).tiny)
    values, back = values[spread], vectors[:, spread].T @ root.back
    # Directions outside the range of the metric are lost completely.
    lost = float(np.sum(judge * (moment - (back.T * values) @ back)))
    judge_weights = np.einsum("ij,ij->i", back @ judge, back)
    return float(judge_weights @ _water_fill(values, n_bits)) + max(lost, 0.0)


def _water_fill(variances: Floats, n_bits: float) -> Floats:
    """Return the squared errors of reverse water-filling; `variances`: falling."""
    for n_used in range(len(variances), 0, -1):
        used = variances[:n_used]
        level = np.exp(np.mean(np.log(used)) - 2.0 * np.log(2.0) * n_bits / n_used)
        if level <= used[-1]:
            return np.concatenate([np.full(n_used, level), variances[n_used:]])
    return variances

"""The metric that queries ask for: what of an error they see, and how far to trust them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Floats

# Weights of the plain metric that are tried, the plain one first.
SHRINKAGES = (1.0, 0.6, 0.3, 0.1)
# Directions that queries see less of than this, relative to what they see most, are left out.
_UNSEEN = 1e-9
# Of the queries, one in this many is held out to choose the weight, and not more than this many.
_HELD_OUT_PART = 4
MAX_HELD_OUT = 500
# Neighbours that the choice looks at.
_N_NEIGHBOURS = 10


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


def metric_root(moment: Floats, shrinkage: float) -> Root:
    """Return a root of ``(1 - shrinkage) moment + shrinkage I``.

    `moment`: (n_components, n_components); of the trace of the identity. `shrinkage`: from 0 to 1.
    """
    metric = (1 - shrinkage) * moment + shrinkage * np.eye(len(moment))
    values, vectors = np.linalg.eigh(metric)
    seen = values > _UNSEEN * values[-1]
    roots, vectors = np.sqrt(values[seen]), vectors[:, seen]
    return Root(vectors * roots, (vectors / roots).T)


def recall_of(queries: Floats, items: Floats, decoded: Floats, k: int) -> Floats:
    """Return, for each query, the share of its `k` best items that are among the `k` best decoded.

    `queries`: (n_queries, n_components). `items`, `decoded`: (n_items, n_components). `k`: at most
    n_items are looked at.
    """
    k = min(k, len(items))
    true, found = queries @ items.T, queries @ decoded.T
    # A tie with the last of the best counts: equal items are equally good.
    border = np.partition(true, -k, axis=1)[:, -k, np.newaxis]
    best = np.argsort(-found, axis=1, kind="stable")[:, :k]
    share: Floats = (np.take_along_axis(true, best, axis=1) >= border).mean(axis=1)
    return share


def choose_shrinkage(
    items: Floats, queries: Floats, code: Callable[[Root], Floats], rng: np.random.Generator
) -> tuple[float, Mapping[float, float]]:
    """Choose the weight of the plain metric by the recall of queries held out.

    Parameters
    ----------
    items : (n_items, n_components)
        A sample.
    queries : (n_queries, n_components)
    code : callable
        From the root of a metric to what the sample's codes stand for under it.
    rng : Generator
        Draws which queries are held out.

    Returns
    -------
    shrinkage : float
        That of the highest recall; but 1, the plain metric, unless another is better by more than
        the standard error of the difference.
    recalls : mapping of float to float
        Recall@10 by weight.
    """
    order = rng.permutation(len(queries))
    n_held_out = min(len(queries) // _HELD_OUT_PART, MAX_HELD_OUT)
    if n_held_out == 0:
        return 1.0, {}
    held_out, rest = queries[order[:n_held_out]], queries[order[n_held_out:]]
    moment = second_moment(rest)
    shares = {
        weight: recall_of(held_out, items, code(metric_root(moment, weight)), _N_NEIGHBOURS)
        for weight in SHRINKAGES
    }
    recalls = {weight: float(share.mean()) for weight, share in shares.items()}
    best = max(recalls, key=lambda weight: recalls[weight])
    difference = shares[best] - shares[1.0]
    noise = float(difference.std() / np.sqrt(n_held_out))
    return (best if difference.mean() > noise else 1.0), recalls

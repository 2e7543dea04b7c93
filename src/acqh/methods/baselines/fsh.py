"""Fusion similarity hashing: codes that follow a graph of anchors fused from two views."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances

from acqh._core.arrays import Floats, Matrix
from acqh.methods.baselines.binary import (
    LinearBinaryMethod,
    keep_sign,
    linear_functions,
    random_signs,
)
from acqh.methods.baselines.rows import ViewRidge
from acqh.methods.baselines.training import Training, share_weights
from acqh.methods.registry import register


def link_to_nearest(distances: Floats, n_neighbors: int) -> Matrix:
    """Return the graph that joins every row to its nearest columns, each with the same weight.

    Parameters
    ----------
    distances : (n_rows, n_anchors)
    n_neighbors : int
        At most n_anchors; the first of equally near anchors are taken.

    Returns
    -------
    (n_rows, n_anchors) CSR, with rows that sum to one
    """
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :n_neighbors]
    ends = np.arange(0, nearest.size + 1, n_neighbors)
    weights = np.full(nearest.size, 1.0 / n_neighbors)
    return sp.csr_array((weights, nearest.ravel(), ends), shape=distances.shape)


def fuse_views(
    to_anchors: Sequence[Floats],
    among_anchors: Sequence[Floats],
    shares: Sequence[float],
    n_neighbors: int,
) -> Floats:
    """Return the fused similarity of items and anchors.

    The similarity of item i and anchor j compares the anchors near i in one view with the anchors
    near j in the other: ``D = Σ_v η_v N_v E_v M_uᵀ`` with u the other view. N and M join items and
    anchors to their nearest anchors, and ``E = exp(-distance / 2)``.

    Parameters
    ----------
    to_anchors : two of (n_items, n_anchors)
        Distances of items, by view.
    among_anchors : two of (n_anchors, n_anchors)
        Distances of anchors, by view.
    shares : two of float
        η_v.
    n_neighbors : int

    Returns
    -------
    (n_items, n_anchors)
    """
    fused = np.zeros(to_anchors[0].shape)
    for v, share in enumerate(shares):
        items = link_to_nearest(to_anchors[v], n_neighbors)
        anchors = link_to_nearest(among_anchors[1 - v], n_neighbors)
        fused += share * (items @ (np.exp(-among_anchors[v] / 2.0) @ anchors.T))
    return fused


@register(name="fsh")
@dataclass(eq=False, repr=False, kw_only=True)
class FSH(LinearBinaryMethod):
    """Codes that follow a graph of anchors fused from two views, and the views' predictions.

    Maximises ``tr(Bᵀ D B_s) - λ Σ_v (||B - F_v W_v||² + ε ||W_v||²)`` over the signs B of the
    items, the signs B_s of the anchors and the hash functions W_v. D is the similarity of items
    and anchors by their nearest anchors, in one view for the item and in the other for the
    anchor. F_v are centred features.

    What is known of the method is a demonstration that its author calls a rewrite; with its
    large λ the graph hardly matters. Its update of the views' shares is mistaken, so shares are
    fixed here.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        F_v before centring; for some views or, not as a mapping, for all of them.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    n_anchors : int
        Training items that serve as anchors, the same in both views.
    n_neighbors : int
        Number of nearest anchors of items and anchors.
    view_weights : mapping of str to float, or None
        Weight of the graph of a view, scaled to sum to one; None: both
        the same.
    feature_weight : float
        λ. Where it is small, all items get the same code.
    feature_ridge : float
        ε.
    max_iter : int
        Sweeps over B, B_s and W; fewer where B stays the same.

    Attributes
    ----------
    projections_ : dict of str to (n_mapped_features, n_bits)
        W_v.
    objective_ : list of float
        The negative of what is maximised, after each sweep; never rises.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("fsh")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    view_range: ClassVar = (2, 2)
    feature_maps: Any = "unit_norm"
    n_anchors: int = 50
    n_neighbors: int = 10
    view_weights: Mapping[str, float] | None = None
    feature_weight: float = 300.0
    feature_ridge: float = 1e-6
    max_iter: int = 100

    def _learn(self, data: Training) -> dict[str, Any]:
        shares = share_weights(self.view_weights, data.features)
        n_anchors = min(self.n_anchors, data.n_items)
        anchors = np.sort(data.rng.choice(data.n_items, n_anchors, replace=False))
        D = fuse_views(
            [
                pairwise_distances(features, features[anchors])
                for features in data.features.values()
            ],
            [pairwise_distances(features[anchors]) for features in data.features.values()],
            list(shares.values()),
            min(self.n_neighbors, n_anchors),
        )
        rows = data.rows(centre=True)
        hashing = ViewRidge(rows, self.feature_weight, self.feature_ridge).use(
            {
                view: data.rng.normal(size=(view_rows.n_features, self.n_bits))
                for view, view_rows in rows.items()
            }
        )
        B = random_signs(data.rng, (len(D), self.n_bits))
        B_s = keep_sign(hashing.pull[anchors], B[anchors])
        history: list[float] = []
        for _ in range(self.max_iter):
            previous, B = B, keep_sign(D @ B_s + 2.0 * hashing.pull, B)
            B_s = keep_sign(D.T @ B, B_s)
            history.append(hashing.fit(B).loss(B) - float(np.vdot(B, D @ B_s)))
            if np.array_equal(B, previous):
                break
        return linear_functions(hashing.projections, rows=rows, codes=B, history=history)

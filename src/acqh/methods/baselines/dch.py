"""Discriminative binary codes: labels regressed on codes, codes found bit by bit."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Floats, Matrix
from acqh.methods.baselines.binary import (
    LinearBinaryMethod,
    descend_bits,
    linear_functions,
    random_signs,
)
from acqh.methods.baselines.rows import Rows, ViewRidge, dense
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register


def update_codes(B: Floats, labels: Matrix, W: Floats, predicted: Floats) -> Floats:
    """Lower ``||L - B W||² + Σ_v μ_v ||B - F_v P_v||²`` over the signs B, bit by bit.

    Parameters
    ----------
    B : (n_items, n_bits)
        The codes so far.
    labels : (n_items, n_labels)
    W : (n_bits, n_labels)
    predicted : (n_items, n_bits)
        ``Σ_v μ_v F_v P_v``.
    """
    return descend_bits(B, W @ W.T, dense(labels @ W.T) + predicted)


def objective(
    B: Floats, labels: Matrix, W: Floats, label_ridge: float, views: ViewRidge, P: dict[str, Floats]
) -> float:
    """Return ``||L - B W||² + λ ||W||² + Σ_v μ (||B - F_v P_v||² + ρ ||P_v||²)``."""
    return Rows(B).ridge_loss(labels, W, label_ridge) + views.loss(P, B)


@register(name="dch")
@dataclass(eq=False, repr=False, kw_only=True)
class DCH(LinearBinaryMethod):
    """Codes from which a linear classifier tells the labels, shared by all views.

    Minimises ``||L - B W||² + λ ||W||² + Σ_v μ (||B - F_v P_v||² + ρ ||P_v||²)`` over the label
    classifier W, the hash functions P_v and the codes B, which stay binary throughout.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        F_v; for some views or, not as a mapping, for all of them. The default scales rows to
        unit norm before the RBF map, unlike public code.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    n_anchors : int
        Anchors of a feature map that is given by the name of an RBF variant.
    label_ridge : float
        λ.
    feature_weight : float
        μ. With the tiny default the labels alone decide the codes.
    feature_ridge : float
        ρ.
    max_iter : int
        Sweeps over W, P and B; fewer where B stays the same.

    Attributes
    ----------
    projections_ : dict of str to (n_mapped_features, n_bits)
        P_v.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("dch")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    feature_maps: Any = "rbf_fixed"
    n_anchors: int = 1000
    label_ridge: float = 1.0
    feature_weight: float = 1e-5
    feature_ridge: float = 1e-2
    max_iter: int = 5

    def _learn(self, data: Training) -> dict[str, Any]:
        hashing = ViewRidge(data.features, self.feature_weight, self.feature_ridge)
        B = random_signs(data.rng, (data.n_items, self.n_bits))
        history: list[float] = []
        for _ in range(self.max_iter):
            W = Rows(B).ridge(self.label_ridge)(data.labels)
            P = hashing.solve(B)
            previous, B = B, update_codes(B, data.labels, W, hashing.predict(P))
            history.append(objective(B, data.labels, W, self.label_ridge, hashing, P))
            if np.array_equal(B, previous):
                break
        return linear_functions(hashing.solve(B), codes=B, history=history)

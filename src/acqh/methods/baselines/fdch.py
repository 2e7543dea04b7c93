"""Fast discrete hashing: codes regressed on labels, so that all bits are found at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Floats
from acqh.methods.baselines.binary import (
    LinearBinaryMethod,
    keep_sign,
    linear_functions,
    random_signs,
)
from acqh.methods.baselines.rows import Rows, ViewRidge, dense, squared_norm
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register


def update_drift(B: Floats, fitted: Floats) -> Floats:
    """Minimise ``||B - fitted - drift||²`` over one number per bit, (1, n_bits).

    `B`, `fitted`: (n_items, n_bits); the codes, and ``L M``.
    """
    return np.asarray((B - fitted).mean(axis=0, keepdims=True))


def update_codes(B: Floats, fitted: Floats, drift: Floats, predicted: Floats) -> Floats:
    """Minimise ``||B - L M - drift||² + Σ_v μ_v ||B - F_v P_v||²`` over the signs B.

    All bits at once: ``||B||²`` is the same for all signs, so what is left is linear in B.

    Parameters
    ----------
    B : (n_items, n_bits)
        The codes so far, kept where both signs are as good.
    fitted : (n_items, n_bits)
        ``L M``.
    drift : (1, n_bits)
    predicted : (n_items, n_bits)
        ``Σ_v μ_v F_v P_v``.
    """
    return keep_sign(fitted + drift + predicted, B)


def objective(
    B: Floats, fitted: Floats, drift: Floats, M: Floats, label_ridge: float, in_views: float
) -> float:
    """Return ``||B - L M - drift||² + ν ||M||²`` and the views' loss ``in_views``."""
    return squared_norm(B - fitted - drift) + label_ridge * squared_norm(M) + in_views


@register(name="fdch")
@dataclass(eq=False, repr=False, kw_only=True)
class FDCH(LinearBinaryMethod):
    """Codes regressed on labels, with a drift: one number per bit, shared by all items.

    Minimises ``||B - L M - drift||² + ν ||M||² + Σ_v μ (||B - F_v P_v||² + ρ ||P_v||²)`` over the
    label codes M, the drift, the hash functions P_v and the codes B. Regressing from labels to
    codes, rather than back, makes the step over B a single sign.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        F_v; for some views or, not as a mapping, for all of them.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    n_anchors : int
        Anchors of a feature map that is given by the name of an RBF variant.
    label_ridge : float
        ν.
    feature_weight : float
        μ.
    feature_ridge : float
        ρ.
    max_iter : int
        Sweeps over P, M, the drift and B; fewer where B stays the same.

    Attributes
    ----------
    projections_ : dict of str to (n_mapped_features, n_bits)
        P_v.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("fdch")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    feature_maps: Any = "rbf_mean2"
    n_anchors: int = 500
    label_ridge: float = 0.1
    feature_weight: float = 1e-5
    feature_ridge: float = 1e-2
    max_iter: int = 10

    def _learn(self, data: Training) -> dict[str, Any]:
        hashing = ViewRidge(data.features, self.feature_weight, self.feature_ridge)
        label_codes = Rows(data.labels).ridge(self.label_ridge)
        B = random_signs(data.rng, (data.n_items, self.n_bits))
        drift: Floats = np.zeros((1, self.n_bits))
        history: list[float] = []
        for _ in range(self.max_iter):
            P = hashing.solve(B)
            M = label_codes(B - drift)
            fitted = dense(data.labels @ M)
            drift = update_drift(B, fitted)
            previous, B = B, update_codes(B, fitted, drift, hashing.predict(P))
            history.append(objective(B, fitted, drift, M, self.label_ridge, hashing.loss(P, B)))
            if np.array_equal(B, previous):
                break
        return linear_functions(hashing.solve(B), codes=B, history=history)

"""Asymmetric discrete cross-modal hashing: real latent vectors against binary codes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Floats, Matrix
from acqh._core.linalg import solve_spd
from acqh.methods.baselines.binary import (
    LinearBinaryMethod,
    descend_bits,
    linear_functions,
    random_signs,
)
from acqh.methods.baselines.rows import LabelSimilarity, Rows, dense, squared_norm
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register


def update_latent(
    features: Mapping[str, Matrix],
    U: Mapping[str, Floats],
    B: Floats,
    similarity: LabelSimilarity,
    weight: float,
    penalty: float,
) -> Floats:
    """Minimise ``Σ_v a ||F_v - V U_v||² + β ||K S - V Bᵀ||² + γ ||V||²`` over the real V.

    Parameters
    ----------
    features : mapping of str to (n_items, n_features)
        F_v, each of weight a = 1 / number of views.
    U : mapping of str to (n_bits, n_features)
    B : (n_items, n_bits)
    similarity : LabelSimilarity
        S.
    weight, penalty : float
        β and γ.
    """
    share, n_bits = 1.0 / len(features), B.shape[1]
    left = weight * (B.T @ B) + penalty * np.eye(n_bits)
    right = weight * n_bits * (similarity @ B)
    for view, F in features.items():
        left += share * (U[view] @ U[view].T)
        right += share * dense(F @ U[view].T)
    return solve_spd(left, right.T).T


def update_codes(B: Floats, V: Floats, similarity: LabelSimilarity) -> Floats:
    """Lower ``||K S - V Bᵀ||²`` over the signs B, bit by bit: ``H = VᵀV``, ``Q = K Sᵀ V``."""
    return descend_bits(B, V.T @ V, B.shape[1] * (similarity @ V))


def objective(
    features: Mapping[str, Matrix],
    U: Mapping[str, Floats],
    V: Floats,
    B: Floats,
    similarity: LabelSimilarity,
    weight: float,
    penalty: float,
) -> float:
    """Return ``Σ_v (a ||F_v - V U_v||² + γ ||U_v||²) + β ||K S - V Bᵀ||² + γ ||V||²``."""
    share = 1.0 / len(features)
    total = weight * similarity.distance_to_product(float(B.shape[1]), V, B)
    total += penalty * squared_norm(V)
    return total + sum(
        share * Rows(V).ridge_loss(F, U[view], penalty / share) for view, F in features.items()
    )


@register(name="adch")
@dataclass(eq=False, repr=False, kw_only=True)
class ADCH(LinearBinaryMethod):
    """Latent vectors of all views that, against binary codes, give the similarity of labels.

    Minimises ``Σ_v (a ||F_v - V U_v||² + γ ||U_v||²) + β ||K S - V Bᵀ||² + γ ||V||²`` over the
    bases U_v, the real latent vectors V and the codes B; a is one over the number of views, and
    S the cosine of two items' labels, stretched to -1 to 1. Hash functions are then regressed
    on B.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        F_v; for some views or, not as a mapping, for all of them.
    random_state : int, Generator, SeedSequence or None
        Draws the first codes, which are the first latent vectors too, and the anchors.
    n_anchors : int
        Anchors of a feature map that is given by the name of an RBF variant.
    similarity_weight : float
        β.
    penalty : float
        γ; positive.
    feature_ridge : float
        Of the hash functions.
    max_iter : int
        Sweeps over U, V and B.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("adch")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    feature_maps: Any = "rbf_mean2"
    n_anchors: int = 500
    similarity_weight: float = 1.0
    penalty: float = 1e-2
    feature_ridge: float = 1e-2
    max_iter: int = 15

    def _learn(self, data: Training) -> dict[str, Any]:
        similarity = LabelSimilarity.signed(data.labels)
        weights = self.similarity_weight, self.penalty
        basis_ridge = self.penalty * len(data.features)
        B = random_signs(data.rng, (data.n_items, self.n_bits))
        V, history = B, []
        for _ in range(self.max_iter):
            U = {view: Rows(V).ridge(basis_ridge)(F) for view, F in data.features.items()}
            V = update_latent(data.features, U, B, similarity, *weights)
            B = update_codes(B, V, similarity)
            history.append(objective(data.features, U, V, B, similarity, *weights))
        projections = {
            view: Rows(F).ridge(self.feature_ridge)(B) for view, F in data.features.items()
        }
        return linear_functions(projections, codes=B, history=history)

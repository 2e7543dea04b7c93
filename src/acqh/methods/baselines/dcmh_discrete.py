"""Discrete cross-modal hashing: codes of two views that reproduce the similarity of labels."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Floats, Matrix
from acqh.methods.baselines.binary import (
    LinearBinaryMethod,
    descend_bits,
    linear_functions,
    random_signs,
)
from acqh.methods.baselines.rows import LabelSimilarity, Rows, ViewRidge, dense
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register


def update_codes(
    B: Floats,
    other: Floats,
    similarity: LabelSimilarity,
    labelled: Floats,
    predicted: Floats,
    classifier: Floats,
) -> Floats:
    """Lower the objective over the codes B of one view, bit by bit, for those of the other.

    Minimises ``||K S - B Oᵀ||² + α ||L - B W||² + ν ||B - F P||²`` with ``H = OᵀO + α W Wᵀ`` and
    ``Q = K S O + α L Wᵀ + ν F P``.

    Parameters
    ----------
    B, other : (n_items, n_bits)
        The codes of this view so far, and O, those of the other.
    similarity : LabelSimilarity
        S.
    labelled : (n_items, n_bits)
        ``α L Wᵀ``.
    predicted : (n_items, n_bits)
        ``ν F P``.
    classifier : (n_bits, n_bits)
        ``α W Wᵀ``.
    """
    n_bits = B.shape[1]
    return descend_bits(
        B, other.T @ other + classifier, n_bits * (similarity @ other) + labelled + predicted
    )


@register(name="dcmh-discrete")
@dataclass(eq=False, repr=False, kw_only=True)
class DiscreteCMH(LinearBinaryMethod):
    """Codes of two views whose products are the similarity of labels.

    Minimises ``||K S - B_x B_yᵀ||² + α Σ_v (||L - B_v W_v||² + λ ||W_v||²) + ν Σ_v (||B_v - F_v
    P_v||² + ρ ||P_v||²)`` over the codes B_v of the two views, the label classifiers W_v and the
    hash functions P_v; S is the cosine of two items' labels, stretched to -1 to 1.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        F_v; for some views or, not as a mapping, for all of them.
    random_state : int, Generator, SeedSequence or None
        Draws the first codes, the same for both views, and the anchors.
    n_anchors : int
        Anchors of a feature map that is given by the name of an RBF variant.
    label_weight : float
        α.
    label_ridge : float
        λ.
    feature_weight : float
        ν.
    feature_ridge : float
        ρ.
    max_iter : int
        Sweeps over W, P and B; fewer where both codes stay the same.

    Attributes
    ----------
    training_codes_ : dict of str to uint8 (n_train, ceil(n_bits / 8))
        One code per item and view.
    projections_ : dict of str to (n_mapped_features, n_bits)
        P_v.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("dcmh-discrete")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    view_range: ClassVar[tuple[int, int | None]] = (2, 2)
    feature_maps: Any = "rbf_mean2"
    n_anchors: int = 500
    label_weight: float = 1.0
    label_ridge: float = 1.0
    feature_weight: float = 1e-2
    feature_ridge: float = 1e-2
    max_iter: int = 10

    def _learn(self, data: Training) -> dict[str, Any]:
        hashing = {
            view: ViewRidge({view: F}, self.feature_weight, self.feature_ridge)
            for view, F in data.features.items()
        }
        start = random_signs(data.rng, (data.n_items, self.n_bits))
        codes = dict.fromkeys(data.features, start)
        similarity = LabelSimilarity.signed(data.labels)
        history: list[float] = []
        for _ in range(self.max_iter):
            previous, losses = dict(codes), 0.0
            for view, other in zip(codes, reversed(codes), strict=True):
                codes[view], loss = self._update_view(
                    data.labels, hashing[view], similarity, codes[view], codes[other]
                )
                losses += loss
            paired = similarity.distance_to_product(float(self.n_bits), *codes.values())
            history.append(paired + losses)
            if all(np.array_equal(B, previous[view]) for view, B in codes.items()):
                break
        P = {view: regression.solve(codes[view])[view] for view, regression in hashing.items()}
        return linear_functions(P, codes=codes, history=history)

    def _update_view(
        self,
        labels: Matrix,
        hashing: ViewRidge,
        similarity: LabelSimilarity,
        B: Floats,
        other: Floats,
    ) -> tuple[Floats, float]:
        """Return the new codes of one view and its own terms of the objective."""
        W = Rows(B).ridge(self.label_ridge)(labels)
        P = hashing.solve(B)
        B = update_codes(
            B,
            other,
            similarity,
            self.label_weight * dense(labels @ W.T),
            hashing.predict(P),
            self.label_weight * (W @ W.T),
        )
        loss = self.label_weight * Rows(B).ridge_loss(labels, W, self.label_ridge)
        return B, loss + hashing.loss(P, B)

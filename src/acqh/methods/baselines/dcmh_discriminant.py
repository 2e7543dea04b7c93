"""Discriminant cross-modal hashing: DCH with linear features and rounded codes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Floats, Matrix
from acqh._core.linalg import solve_spd
from acqh.methods.baselines.binary import (
    LinearBinaryMethod,
    keep_sign,
    linear_functions,
    random_signs,
)
from acqh.methods.baselines.rows import Rows, dense
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register


def update_codes(B: Floats, labels: Matrix, W: Floats, ridge_strength: float) -> Floats:
    """Round the minimum of ``||L - Z W||² + ridge ||Z||²`` over real Z to signs.

    Parameters
    ----------
    B : (n_items, n_bits)
        The codes so far, kept where Z is zero.
    labels : (n_items, n_labels)
    W : (n_bits, n_labels)
    ridge_strength : float
        Positive: W has at most as many independent rows as there are labels.

    Notes
    -----
    The rounding may raise the objective of the codes.
    """
    gram = W @ W.T + ridge_strength * np.eye(len(W))
    # Every item with the same labels gets the same code: solve for the labels, then add up.
    return keep_sign(dense(labels @ solve_spd(gram, W).T), B)


@register(name="dcmh-discriminant")
@dataclass(eq=False, repr=False, kw_only=True)
class DiscriminantCMH(LinearBinaryMethod):
    """Codes from which a linear classifier tells the labels, found by rounding.

    In turn, ``W = argmin ||L - B W||² + λ ||W||²`` and B, the signs of the real Z that minimises
    ``||L - Z W||² + κ ||Z||²``; then a linear hash function per view, by ridge regression on B.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them. Mapped features are centred, as in
        the public code; there is no other intercept.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    n_anchors : int
        Anchors of a feature map that is given by the name of an RBF variant.
    label_ridge : float
        λ.
    code_ridge : float
        κ; positive.
    feature_ridge : float
        Of the hash functions.
    max_iter : int
        Sweeps over W and B; fewer where B stays the same.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("dcmh-discriminant")(3, random_state=0)
    >>> method = method.fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    n_anchors: int = 1000
    label_ridge: float = 1.0
    code_ridge: float = 1e-2
    feature_ridge: float = 1e-2
    max_iter: int = 5

    def _learn(self, data: Training) -> dict[str, Any]:
        B = random_signs(data.rng, (data.n_items, self.n_bits))
        n_iter, previous = 0, np.zeros_like(B)
        while n_iter < self.max_iter and not np.array_equal(B, previous):
            W = Rows(B).ridge(self.label_ridge)(data.labels)
            previous, B = B, update_codes(B, data.labels, W, self.code_ridge)
            n_iter += 1
        rows = data.centred()
        projections = {
            view: view_rows.ridge(self.feature_ridge)(B) for view, view_rows in rows.items()
        }
        return {**linear_functions(projections, rows=rows, codes=B), "n_iter_": n_iter}

"""Generalized semantic preserving hashing: relaxed codes of two views, bit by bit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Floats, Matrix, slices
from acqh.methods.baselines.binary import (
    BLOCK_ROWS,
    LinearBinaryMethod,
    linear_functions,
    random_signs,
)
from acqh.methods.baselines.logistic import fit_logistic_views
from acqh.methods.baselines.rows import LabelSimilarity
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register


def update_factor(A: Floats, other: Floats, target: Floats) -> Floats:
    """Lower ``||K S - A Oᵀ||²`` over A with entries from -1 to 1, one column after another.

    Column k becomes ``clip((K S o_k - Σ_{j≠k} a_j (o_jᵀ o_k)) / (o_kᵀ o_k), -1, 1)``, its exact
    minimum for the other columns as they are.

    Parameters
    ----------
    A, other : (n_items, n_bits)
        This view's relaxed codes so far, and O, those of the other view.
    target : (n_items, n_bits)
        ``K S O``.
    """
    gram = other.T @ other
    squares = np.diag(gram).copy()
    np.fill_diagonal(gram, 0.0)
    updated = np.array(A)
    for rows in slices(len(A), BLOCK_ROWS):
        block, goal = np.array(A[rows], order="F"), target[rows]
        for k in np.flatnonzero(squares > 0):
            block[:, k] = np.clip((goal[:, k] - block @ gram[:, k]) / squares[k], -1.0, 1.0)
        updated[rows] = block
    return updated


@register(name="gsph")
@dataclass(eq=False, repr=False, kw_only=True)
class GSPH(LinearBinaryMethod):
    """Codes of two views whose products are the cosine of labels, and kernel hash functions.

    Minimises ``||K S - A Bᵀ||²`` over A and B with entries from -1 to 1, which are then rounded;
    S is the cosine of two items' labels. Kernel logistic regression learns the bits of A from
    the first view and those of B from the second.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    n_anchors : int
        Anchors of a feature map that is given by the name of an RBF variant.
    logistic_penalty : float
        Strength of the penalty of the logistic regressions: on the norm in the space of the
        kernel with ``"rbf_mean"``, on that of the weights with any other feature map.
    max_iter : int
        Sweeps over A and B. That they end here, rather than by `tol`, is usual with several
        labels per item and no cause for a warning: the authors' own limit is part of the method.
    tol : float
        Sweeps end when the objective falls by no more than this share.

    Attributes
    ----------
    training_codes_ : dict of str to uint8 (n_train, ceil(n_bits / 8))
        One code per item and view.
    projections_ : dict of str to (n_mapped_features, n_bits)
        Log odds of a bit are the mapped features times these.
    objective_ : list of float
        After each sweep, before rounding; never rises.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("gsph")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    view_range: ClassVar[tuple[int, int | None]] = (2, 2)
    feature_maps: Any = "rbf_mean"
    n_anchors: int = 500
    logistic_penalty: float = 1e-2
    max_iter: int = 100
    tol: float = 1e-6

    def _learn(self, data: Training) -> dict[str, Any]:
        similarity, n_bits = LabelSimilarity.cosine(data.labels), self.n_bits
        A, B = (random_signs(data.rng, (data.n_items, n_bits)) for _ in range(2))
        history: list[float] = []
        for _ in range(self.max_iter):
            A = update_factor(A, B, n_bits * (similarity @ B))
            B = update_factor(B, A, n_bits * (similarity @ A))
            history.append(similarity.distance_to_product(float(n_bits), A, B))
            if len(history) > 1 and history[-2] - history[-1] <= self.tol * abs(history[-2]):
                break
        codes = {
            view: np.where(relaxed >= 0, 1.0, -1.0)
            for view, relaxed in zip(data.features, (A, B), strict=True)
        }
        functions = fit_logistic_views(data, codes, self.logistic_penalty)
        return linear_functions(functions, codes=codes, history=history)

    def _unify(self, views: Mapping[str, Matrix]) -> Floats:
        # The mean over views of 2 p - 1, p the probability of a bit: that is tanh of half the
        # log odds.
        odds = [self._project(matrix, view) for view, matrix in views.items()]
        return np.asarray(np.mean([np.tanh(logits / 2.0) for logits in odds], axis=0))

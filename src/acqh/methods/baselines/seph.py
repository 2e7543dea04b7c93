"""Semantics-preserving hashing: codes whose distances follow the distribution of labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import logit

from acqh._core.arrays import Floats, Matrix
from acqh.methods.baselines.binary import LinearBinaryMethod, linear_functions
from acqh.methods.baselines.logistic import fit_logistic_views
from acqh.methods.baselines.rows import dense, unit_label_rows
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register

# The authors' descent: step length, momentum, and how a coordinate's own step length changes.
_RATE = 500.0
_MOMENTUM = 0.5
_GAIN_UP, _GAIN_DOWN, _GAIN_FLOOR = 0.2, 0.8, 0.01
_START_SCALE = 1e-4
# Pairs of items whose similarities are held at a time.
_BLOCK_PAIRS = 1 << 18


def divergence(H: Floats, unit_labels: Matrix) -> tuple[float, Floats]:
    """Return ``KL(P || Q)``, less a constant, and its gradient, from blocks of rows.

    P is the cosine of labels without its diagonal, divided by its sum; Q is ``n_ij = (1 + ¼
    ||h_i - h_j||²)⁻¹``, likewise. The gradient is ``Σ_j (p_ij - q_ij) n_ij (h_i - h_j)``. The
    omitted constant is ``Σ p_ij log p_ij``.

    Parameters
    ----------
    H : (n_items, n_bits)
    unit_labels : (n_items, n_labels), dense or CSR
        With rows of unit norm.

    Returns
    -------
    value : float
    gradient : (n_items, n_bits)
    """
    n_items = len(H)
    norms = np.einsum("ij,ij->i", H, H)
    attraction, repulsion = np.empty_like(H), np.empty_like(H)
    total_p = total_q = expected = 0.0
    size = max(1, _BLOCK_PAIRS // n_items)
    for start in range(0, n_items, size):
        rows = slice(start, min(start + size, n_items))
        diagonal = np.arange(rows.stop - start), np.arange(start, rows.stop)
        p = dense(unit_labels[rows] @ unit_labels.T)
        p[diagonal] = 0.0
        inverse = H[rows] @ H.T
        inverse *= -0.5
        inverse += 0.25 * norms + (1.0 + 0.25 * norms[rows, np.newaxis])
        np.maximum(inverse, 1.0, out=inverse)  # rounding may leave a distance below zero
        expected += float(np.vdot(p, np.log(inverse)))
        n = np.reciprocal(inverse, out=inverse)
        n[diagonal] = 0.0
        total_p += float(p.sum())
        total_q += float(n.sum())
        p *= n
        attraction[rows] = p.sum(axis=1, keepdims=True) * H[rows] - p @ H
        np.square(n, out=n)
        repulsion[rows] = n.sum(axis=1, keepdims=True) * H[rows] - n @ H
    if total_q == 0.0:  # a single item has no pairs
        return 0.0, np.zeros_like(H)
    share = 1.0 / total_p if total_p > 0 else 0.0
    return share * expected + float(np.log(total_q)), share * attraction - repulsion / total_q


def quantization(H: Floats, weight: float) -> tuple[float, Floats]:
    """Return ``weight / (N K) || |H| - 1 ||²`` and its gradient."""
    excess = np.abs(H) - 1.0
    scale = weight / H.size
    return scale * float(np.vdot(excess, excess)), 2.0 * scale * excess * np.sign(H)


def update_step(gradient: Floats, step: Floats, gain: Floats) -> tuple[Floats, Floats]:
    """Return the next step of the descent and the gains of all coordinates.

    A coordinate that keeps its direction gets a longer step, one that turns a shorter one.
    """
    keeps_on = np.sign(gradient) != np.sign(step)
    gain = np.maximum(np.where(keeps_on, gain + _GAIN_UP, gain * _GAIN_DOWN), _GAIN_FLOOR)
    return _MOMENTUM * step - _RATE * gain * gradient, gain


@register(name="seph")
@dataclass(eq=False, repr=False, kw_only=True)
class SePH(LinearBinaryMethod):
    """Codes whose Hamming distances follow the distribution of label similarities.

    Minimises ``KL(P || Q) + α / (N K) || |H| - 1 ||²`` over real H, whose signs are the codes: P
    is the cosine of labels over all pairs of items, Q falls with the distance of codes. Kernel
    logistic regression then learns the bits from each view, and the views of a database item
    vote with their probabilities.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them. The authors' variant with k-means
        anchors is ``RBFAnchors(500, variant="rbf_mean", anchors="kmeans")``; any map but
        ``"rbf_mean"``, such as ``"bias"``, gives linear logistic regression of its features.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    n_anchors : int
        Anchors of a feature map that is given by the name of an RBF variant.
    quantization_weight : float
        α.
    logistic_penalty : float
        Strength of the penalty of the logistic regressions.
    max_train : int
        Where there are more items, this many are drawn to learn from: a step takes time
        quadratic in their number.
    max_iter : int
        Steps of gradient descent with momentum; the best H is kept.

    Attributes
    ----------
    projections_ : dict of str to (n_mapped_features, n_bits)
        Log odds of a bit are the mapped features times these.
    prior_log_odds_ : (n_bits,)
        Of each bit among the training codes.
    divergence_ : float
        The lowest value of the objective, less the entropy of P.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("seph")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    feature_maps: Any = "rbf_mean"
    n_anchors: int = 500
    quantization_weight: float = 1e-2
    logistic_penalty: float = 1e-2
    max_train: int = 5000
    max_iter: int = 100
    prior_log_odds_: Floats = field(init=False)

    def _learn(self, data: Training) -> dict[str, Any]:
        unit_labels = unit_label_rows(data.labels)
        H: Floats = _START_SCALE * data.rng.standard_normal((data.n_items, self.n_bits))
        step, gain = np.zeros_like(H), np.ones_like(H)
        best, lowest = H, np.inf
        for _ in range(self.max_iter):
            value, gradient = divergence(H, unit_labels)
            extra, slope = quantization(H, self.quantization_weight)
            if value + extra < lowest:
                best, lowest = H, value + extra
            step, gain = update_step(gradient + slope, step, gain)
            H = H + step
            H -= H.mean(axis=0)
        signs = np.where(best >= 0, 1.0, -1.0)
        projections = fit_logistic_views(
            data, dict.fromkeys(data.features, signs), self.logistic_penalty
        )
        # A bit that all items share has no finite odds: count half an item on the other side.
        least = 0.5 / data.n_items
        return {
            **linear_functions(projections),
            "prior_log_odds_": logit(np.clip((signs > 0).mean(axis=0), least, 1.0 - least)),
            "divergence_": float(lowest),
        }

    def _unify(self, views: Mapping[str, Matrix]) -> Floats:
        # Bayes: views are independent given the bit, and each odds contain the prior once.
        odds = sum(self._project(matrix, view) for view, matrix in views.items())
        return np.asarray(odds - (len(views) - 1) * self.prior_log_odds_)

"""Methods whose codes follow distances of labels, with logistic hash functions: SePH, GSPH."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.optimize
from scipy.special import logit

from acqh._core.arrays import Floats, Matrix, slices, unit_rows
from acqh._core.linalg import whiten
from acqh.features import RBFAnchors
from acqh.methods.baselines.binary import (
    BLOCK_ROWS,
    LinearBinaryMethod,
    linear_functions,
    random_signs,
)
from acqh.methods.baselines.rows import LabelSimilarity, Rows, dense
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register

# Largest entry of the gradient, in the scale where the Hessian is at most one, that is left.
_GRADIENT_TOLERANCE = 1e-3
_MAX_ITER = 500


def fit_logistic(features: Matrix, signs: Floats, penalty: Floats) -> Floats:
    """Fit one logistic regression per bit, all of them to their joint minimum.

    Minimises ``Σ_i log(1 + exp(-y_i f_iᵀw)) + wᵀ penalty w`` for every column y of `signs`.

    Parameters
    ----------
    features : (n_items, n_features), dense or CSR
        Without intercept; append a column of ones to have one.
    signs : (n_items, n_bits)
        Of -1 and 1.
    penalty : (n_features, n_features)
        Symmetric and positive semi-definite: a multiple of the kernel of the anchors for kernel
        logistic regression, of the identity for the linear one.

    Returns
    -------
    (n_features, n_bits) float64

    Notes
    -----
    The sum over bits is minimised at once by L-BFGS, from zero, so that every evaluation is a
    matrix product. Its variables are scaled by the bound ``¼ FᵀF + 2 penalty`` of the Hessian,
    which kernels need: their Gram matrices are close to singular.
    """
    scaling = whiten(0.25 * Rows(features).gram() + 2.0 * penalty)
    shape = (scaling.shape[1], signs.shape[1])
    scaled_penalty = scaling.T @ penalty @ scaling

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(shape)
        margins = signs * dense(features @ (scaling @ weights))
        shrunk = scaled_penalty @ weights
        losses, slopes = log_loss(margins)
        slopes *= signs
        gradient = scaling.T @ dense(features.T @ slopes) + 2.0 * shrunk
        return float(losses.sum() + np.vdot(weights, shrunk)), gradient.ravel()

    options: dict[str, Any] = {"maxiter": _MAX_ITER, "gtol": _GRADIENT_TOLERANCE, "ftol": 0.0}
    solution = scipy.optimize.minimize(
        loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B", options=options
    )
    return np.asarray(scaling @ solution.x.reshape(shape))


def log_loss(margins: Floats) -> tuple[Floats, Floats]:
    """Return ``log(1 + exp(-margin))`` and its derivative, both from one exponential.

    Examples
    --------
    >>> losses, slopes = log_loss(np.array([0.0, -1000.0]))
    >>> losses.round(3), slopes
    (array([6.93e-01, 1.00e+03]), array([-0.5, -1. ]))
    """
    small = np.exp(-np.abs(margins))
    losses = np.log1p(small)
    losses -= np.minimum(margins, 0.0)
    slopes = np.where(margins >= 0.0, -small, -1.0)
    slopes /= 1.0 + small
    return losses, slopes


def fit_logistic_views(
    training: Training, codes: Mapping[str, Floats], strength: float
) -> dict[str, Floats]:
    """Fit the hash functions of all views to their codes, (n_mapped_features, n_bits) each.

    `codes`: each (n_items, n_bits); of -1 and 1, for each view. `strength`: of the
    penalty; see `logistic_penalty`.
    """
    return {
        view: fit_logistic(
            F, codes[view], logistic_penalty(training.feature_maps.get(view), F.shape[1], strength)
        )
        for view, F in training.features.items()
    }


def logistic_penalty(feature_map: Any, n_features: int, strength: float) -> Floats:
    """Return the penalty matrix that belongs to a feature map.

    `n_features`: columns that the map gives. Gives (n_features, n_features); `strength` times the
    kernel of the anchors where the map is the plain kernel ``"rbf_mean"``, times the identity for
    every other map.
    """
    if isinstance(feature_map, RBFAnchors) and feature_map.variant == "rbf_mean":
        return strength * np.asarray(feature_map.transform(feature_map.anchors_), np.float64)
    return strength * np.eye(n_features)


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
        unit_labels = unit_rows(data.labels)
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

"""Methods that fit codes to labels: DCH, FDCH, ADCH and both DCMH."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Floats, Matrix
from acqh._core.linalg import solve_spd
from acqh.methods.baselines.binary import (
    LinearBinaryMethod,
    descend_bits,
    keep_sign,
    linear_functions,
    random_signs,
)
from acqh.methods.baselines.rows import LabelSimilarity, Rows, ViewRidge, dense, squared_norm
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register


def update_dch_codes(B: Floats, labels: Matrix, W: Floats, predicted: Floats) -> Floats:
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
        hashing = ViewRidge(data.rows(), self.feature_weight, self.feature_ridge)
        B = random_signs(data.rng, (data.n_items, self.n_bits))
        history: list[float] = []
        for _ in range(self.max_iter):
            W = Rows(B).ridge(self.label_ridge)(data.labels)
            previous, B = B, update_dch_codes(B, data.labels, W, hashing.fit(B).pull)
            labels_loss = Rows(B).ridge_loss(data.labels, W, self.label_ridge)
            history.append(labels_loss + hashing.loss(B))
            if np.array_equal(B, previous):
                break
        return linear_functions(hashing.fit(B).projections, codes=B, history=history)


def update_fdch_drift(B: Floats, fitted: Floats) -> Floats:
    """Minimise ``||B - fitted - drift||²`` over one number per bit, (1, n_bits).

    `B`, `fitted`: (n_items, n_bits); the codes, and ``L M``.
    """
    return np.asarray((B - fitted).mean(axis=0, keepdims=True))


def update_fdch_codes(B: Floats, fitted: Floats, drift: Floats, predicted: Floats) -> Floats:
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
        hashing = ViewRidge(data.rows(), self.feature_weight, self.feature_ridge)
        label_codes = Rows(data.labels).ridge(self.label_ridge)
        B = random_signs(data.rng, (data.n_items, self.n_bits))
        drift: Floats = np.zeros((1, self.n_bits))
        history: list[float] = []
        for _ in range(self.max_iter):
            hashing.fit(B)
            M = label_codes(B - drift)
            fitted = dense(data.labels @ M)
            drift = update_fdch_drift(B, fitted)
            previous, B = B, update_fdch_codes(B, fitted, drift, hashing.pull)
            labels_loss = squared_norm(B - fitted - drift) + self.label_ridge * squared_norm(M)
            history.append(labels_loss + hashing.loss(B))
            if np.array_equal(B, previous):
                break
        return linear_functions(hashing.fit(B).projections, codes=B, history=history)


def round_codes(B: Floats, labels: Matrix, W: Floats, ridge_strength: float) -> Floats:
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
            previous, B = B, round_codes(B, data.labels, W, self.code_ridge)
            n_iter += 1
        rows = data.rows(centre=True)
        projections = {view: F.ridge(self.feature_ridge)(B) for view, F in rows.items()}
        return {**linear_functions(projections, rows=rows, codes=B), "n_iter_": n_iter}


def update_view_codes(
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
            for view, F in data.rows().items()
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
        P = {view: views.fit(codes[view]).projections[view] for view, views in hashing.items()}
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
        hashing.fit(B)
        B = update_view_codes(
            B,
            other,
            similarity,
            self.label_weight * dense(labels @ W.T),
            hashing.pull,
            self.label_weight * (W @ W.T),
        )
        loss = self.label_weight * Rows(B).ridge_loss(labels, W, self.label_ridge)
        return B, loss + hashing.loss(B)


def update_adch_latent(
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


def update_adch_codes(B: Floats, V: Floats, similarity: LabelSimilarity) -> Floats:
    """Lower ``||K S - V Bᵀ||²`` over the signs B, bit by bit: ``H = VᵀV``, ``Q = K Sᵀ V``."""
    return descend_bits(B, V.T @ V, B.shape[1] * (similarity @ V))


def adch_objective(
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
            V = update_adch_latent(data.features, U, B, similarity, *weights)
            B = update_adch_codes(B, V, similarity)
            history.append(adch_objective(data.features, U, V, B, similarity, *weights))
        projections = {view: F.ridge(self.feature_ridge)(B) for view, F in data.rows().items()}
        return linear_functions(projections, codes=B, history=history)

"""Discriminative binary codes: labels regressed on codes, codes found bit by bit."""

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from acqh._core.arrays import Floats, Matrix
from acqh._core.random import RandomState, check_rng
from acqh._core.validation import Interval
from acqh.methods._binary import LinearBinaryMethod, pack_signs
from acqh.methods._discrete import descend_bits, random_signs
from acqh.methods._ridge import ViewRidge, dense, ridge, ridge_loss
from acqh.methods._training import read_training
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
    return ridge_loss(B, labels, W, label_ridge) + views.loss(P, B)


@register(
    name="dch",
    title="Discriminative binary codes (DCH)",
    reference="Xu, Shen, Yang, Shen and Li, Learning discriminative binary codes for large-scale "
    "cross-modal retrieval, IEEE Transactions on Image Processing 2017",
    year=2017,
    supervised=True,
    code="binary",
    modes=("learnt", "hashed", "unified"),
    reconstruction="The weight of the views in the codes is that of supervised discrete hashing; "
    "the paper's own was not found. Mode 'unified' is the mean of the views' projections.",
)
class DCH(LinearBinaryMethod):
    """Codes from which a linear classifier tells the labels, shared by all views.

    Minimises ``||L - B W||² + λ ||W||² + Σ_v μ (||B - F_v P_v||² + ρ ||P_v||²)`` over the label
    classifier W, the hash functions P_v and the codes B, which stay binary throughout.

    Parameters
    ----------
    n_bits : int
    feature_maps : mapping of str to feature map, feature map, or None
        F_v; for some views or, not as a mapping, for all of them.
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
    random_state : int, Generator, SeedSequence or None
        Draws the first codes and the anchors.

    Attributes
    ----------
    training_codes_ : uint8 (n_train, ceil(n_bits / 8))
    projections_ : dict of str to (n_mapped_features, n_bits)
        P_v.
    objective_ : list of float
        After each sweep; never rises.
    n_iter_ : int

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("dch")(16, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearBinaryMethod._parameter_constraints,
        "label_ridge": [Interval(Real, 0, None, closed="left")],
        "feature_weight": [Interval(Real, 0, None, closed="left")],
        "feature_ridge": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 32,
        *,
        feature_maps: Any = "rbf_fixed",
        n_anchors: int = 1000,
        label_ridge: float = 1.0,
        feature_weight: float = 1e-5,
        feature_ridge: float = 1e-2,
        max_iter: int = 5,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.feature_maps = feature_maps
        self.n_anchors = n_anchors
        self.label_ridge = label_ridge
        self.feature_weight = feature_weight
        self.feature_ridge = feature_ridge
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, views: Any, labels: Any = None) -> Self:
        """Learn codes of the training items and the hash functions of the views.

        Parameters
        ----------
        views : mapping of str to matrix, MultiViewData, or iterable of MultiViewData
        labels : optional
            With a mapping of views only.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError, LabelError, ViewError
        """
        self._check_parameters()
        rng = check_rng(self.random_state)
        data = read_training(self, views, labels, rng)
        hashing = ViewRidge(
            data.features,
            dict.fromkeys(data.features, self.feature_weight),
            dict.fromkeys(data.features, self.feature_ridge),
        )
        B = random_signs(rng, (data.n_items, self.n_bits))
        history: list[float] = []
        for _ in range(self.max_iter):
            W = ridge(B, data.labels, self.label_ridge)
            P = hashing.solve(B)
            previous, B = B, update_codes(B, data.labels, W, hashing.predict(P))
            history.append(objective(B, data.labels, W, self.label_ridge, hashing, P))
            if np.array_equal(B, previous):
                break
        data.keep_in(self)
        self.n_bits_ = self.n_bits
        self.projections_ = hashing.solve(B)
        self.training_codes_ = pack_signs(B)
        self.objective_ = history
        self.n_iter_ = len(history)
        return self

"""Collective reconstructive embeddings: inner products of codes rebuild those of the views."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from sklearn.preprocessing import normalize

from acqh._core.arrays import Floats, Matrix
from acqh._core.linalg import RANK_TOLERANCE
from acqh.methods.baselines.binary import (
    LinearBinaryMethod,
    keep_sign,
    linear_functions,
    random_signs,
)
from acqh.methods.baselines.rows import Rows, ViewRidge
from acqh.methods.baselines.training import Training, share_weights
from acqh.methods.registry import register


@dataclass(frozen=True)
class Affinity:
    """``A = Σ_v θ_v X̄_v X̄_vᵀ``, kept as its factors: rows of unit norm, centred, scaled."""

    factors: Sequence[Rows]
    scales: Sequence[float]  # θ_v over the mean squared norm of the centred rows

    @classmethod
    def of(cls, views: Mapping[str, Matrix], weights: Mapping[str, float]) -> "Affinity":
        """Return the affinity of items by all their views."""
        factors = [Rows(normalize(_near_one(matrix)), centre=True) for matrix in views.values()]
        tiny = np.finfo(float).tiny
        return cls(
            factors,
            [
                weights[view] * factor.n_items / max(factor.squared_norm, tiny)
                for view, factor in zip(views, factors, strict=True)
            ],
        )

    def __matmul__(self, right: Floats) -> Floats:
        """Return ``A right`` in O(n_items n_features n_columns)."""
        products = [
            scale * factor.times(factor.transpose_times(right))
            for factor, scale in zip(self.factors, self.scales, strict=True)
        ]
        return np.asarray(np.sum(products, axis=0))


def _near_one(matrix: Matrix) -> Matrix:
    """Return a matrix by a power of two, so that squares neither overflow nor vanish.

    Rows of unit norm are the same to the last bit.
    """
    rows = matrix.astype(np.float64)
    exponent = int(np.frexp(abs(rows).max())[1])
    for half in (exponent // 2, exponent - exponent // 2):  # one factor alone could overflow
        rows = rows * 2.0**-half
    return rows


def balance(M: Floats, spare: Floats) -> Floats:
    """Maximise ``tr(Zᵀ M)`` over Z with ``Zᵀ 1 = 0`` and ``Zᵀ Z = N I``.

    The polar factor of M with centred columns, times the root of N. Where M leaves directions
    open, they are taken from `spare`; where there are fewer items than columns, as far as
    items go.

    Parameters
    ----------
    M : (n_items, n_bits)
    spare : (n_items, n_bits)
        A random matrix; its first columns fill the open directions.
    """
    u, values, vt = scipy.linalg.svd(M - M.mean(axis=0), full_matrices=False, check_finite=False)
    rank = int(np.sum(values > np.sqrt(RANK_TOLERANCE) * np.linalg.norm(M)))
    # Centred columns span one dimension less than there are items.
    n_open = min(M.shape[1], len(M) - 1) - rank
    basis = u[:, :rank]
    fresh = spare[:, :n_open] - spare[:, :n_open].mean(axis=0)
    fresh, _ = np.linalg.qr(fresh - basis @ (basis.T @ fresh))
    return np.asarray(np.sqrt(len(M)) * np.hstack([basis, fresh]) @ vt[: rank + n_open])


def update_codes(B: Floats, A: Affinity, Z: Floats, balance_weight: float, pull: Floats) -> Floats:
    """Maximise ``tr(Bᵀ (A Z + ρ Z + pull))`` over the signs B.

    Parameters
    ----------
    B : (n_items, n_bits)
        The codes so far, kept where it makes no difference.
    A : Affinity
    Z : (n_items, n_bits)
    balance_weight : float
        ρ.
    pull : (n_items, n_bits)
        ``ν Σ_v F_v W_v``.
    """
    return keep_sign(A @ Z + balance_weight * Z + pull, B)


@register(name="cre")
@dataclass(eq=False, repr=False, kw_only=True)
class CRE(LinearBinaryMethod):
    """Codes whose inner products rebuild those of the views, balanced and uncorrelated.

    Minimises ``-tr(Zᵀ A B) - ρ tr(Bᵀ Z) + ν/2 Σ_v (||B - F_v W_v||² + ε ||W_v||²)`` over signs
    B, real Z with ``Zᵀ 1 = 0`` and ``Zᵀ Z = N I``, and hash functions W_v, where A adds up the
    inner products of every view's rows, scaled to unit norm and centred, and F_v are the mapped
    features. For balanced and uncorrelated codes that is ``||K A - B Bᵀ||²`` up to constants.

    The objective is our reconstruction from the paper's description, and so is its solution:
    the paper reconstructs cosines for text and Euclidean distances for images, which are one
    and the same for rows of unit norm.

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
    view_weights : mapping of str to float, or None
        Share of each view in A, scaled to sum to one; None: all the same.
    balance_weight : float
        ρ.
    feature_weight : float
        ν.
    feature_ridge : float
        ε.
    max_iter : int
        Sweeps over W, Z and B; fewer where B stays the same.

    Attributes
    ----------
    projections_ : dict of str to (n_mapped_features, n_bits)
        W_v.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("cre")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    view_range: ClassVar = (2, None)
    feature_maps: Any = "rbf_mean2"
    n_anchors: int = 300
    view_weights: Mapping[str, float] | None = None
    balance_weight: float = 1.0
    feature_weight: float = 1.0
    feature_ridge: float = 0.01
    max_iter: int = 20

    def _learn(self, data: Training) -> dict[str, Any]:
        A = Affinity.of(data.views, share_weights(self.view_weights, data.views))
        hashing = ViewRidge(data.rows(), self.feature_weight, self.feature_ridge)
        shape = (data.n_items, self.n_bits)
        B, spare = random_signs(data.rng, shape), data.rng.normal(size=shape)
        history: list[float] = []
        for _ in range(self.max_iter):
            Z = balance(A @ B + self.balance_weight * B, spare)
            previous, B = B, update_codes(B, A, Z, self.balance_weight, hashing.fit(B).pull)
            fit = float(np.vdot(Z, A @ B + self.balance_weight * B))
            history.append(hashing.loss(B) / 2.0 - fit)
            if np.array_equal(B, previous):
                break
        return linear_functions(hashing.fit(B).projections, codes=B, history=history)

"""Quantised correlation hashing: correlated across views, close to binary within each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats
from acqh._core.linalg import mean_diagonal, whiten
from acqh.methods.baselines.binary import LinearBinaryMethod, linear_functions
from acqh.methods.baselines.directions import (
    limit_bits,
    paired_directions,
    semantic_cross,
)
from acqh.methods.baselines.rows import Rows, squared_norm
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register

# Directions with less than this share of the mean variance are dropped, not whitened.
_VARIANCE_FLOOR = 1e-6


def quantise(Z: Floats, W: Floats) -> Floats:
    """Minimise ``||B - Z W||²`` over the signs B."""
    return np.where(Z @ W >= 0, 1.0, -1.0)


def update_rotation(Z: Floats, B: Floats, pull: Floats, correlation_weight: float) -> Floats:
    """Minimise ``||B - Z W||² - 2 λ tr(Wᵀ pull)`` over W with orthonormal columns.

    Exact, because ``||Z W||²`` does not depend on W where ``Zᵀ Z`` is a multiple of the
    identity: what is left is ``tr(Wᵀ (Zᵀ B + λ pull))``, largest at the polar factor.

    Parameters
    ----------
    Z : (n_items, n_features)
        Whitened.
    B : (n_items, n_bits)
    pull : (n_features, n_bits)
        The correlation's share: ``G W`` of the other view.
    correlation_weight : float
        λ.
    """
    u, _, vt = scipy.linalg.svd(
        Z.T @ B + correlation_weight * pull, full_matrices=False, check_finite=False
    )
    return np.asarray(u @ vt)


def objective(
    Z: Sequence[Floats],
    W: Sequence[Floats],
    B: Sequence[Floats],
    G: Floats,
    correlation_weight: float,
) -> float:
    """Return ``Σ_v ||B_v - Z_v W_v||² - 2 λ tr(W_xᵀ G W_y)``."""
    loss = sum(squared_norm(b - z @ w) for z, w, b in zip(Z, W, B, strict=True))
    return loss - 2.0 * correlation_weight * float(np.sum(W[0] * (G @ W[1])))


@register(name="qch")
@dataclass(eq=False, repr=False, kw_only=True)
class QCH(LinearBinaryMethod):
    """Projections that correlate across views and lie close to their signs within each.

    Minimises ``Σ_v ||B_v - Z_v W_v||² - 2 λ tr(W_xᵀ G W_y)`` over signs B_v and orthonormal
    W_v, where Z_v is a view centred and whitened, ``G = Z_xᵀ S Z_y / N`` and
    ``S = 2 L̂ L̂ᵀ - 1 1ᵀ`` is the cosine of labels. There are no more bits than directions that
    G connects, at most one per label: a warning says so where more are asked for.

    The objective is our reconstruction from the paper's description: it jointly minimises the
    quantisation loss of each view and maximises the correlation of the codes across views.

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
    correlation_weight : float
        λ.
    max_iter : int
        Sweeps over B and W.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("qch")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    view_range: ClassVar = (2, 2)
    feature_maps: Any = "rbf_mean2"
    n_anchors: int = 300
    correlation_weight: float = 10.0
    max_iter: int = 30

    def _learn(self, data: Training) -> dict[str, Any]:
        rows = data.centred()
        x, y = rows.values()
        white_x, white_y = _whiten_to_unit_variance(x), _whiten_to_unit_variance(y)
        Z = [x.times(white_x), y.times(white_y)]
        # Every Z has N times the identity as Gram matrix, so G is at most N.
        G = white_x.T @ semantic_cross(x, y, data.labels) @ white_y / data.n_items
        *W, covariances = paired_directions(np.eye(len(G)), np.eye(len(G.T)), G, scale=data.n_items)
        n_bits = limit_bits(self.n_bits, len(covariances), self.info.name)
        W = [matrix[:, :n_bits] for matrix in W]
        history = []
        for _ in range(self.max_iter):
            B = [quantise(z, w) for z, w in zip(Z, W, strict=True)]
            W[0] = update_rotation(Z[0], B[0], G @ W[1], self.correlation_weight)
            W[1] = update_rotation(Z[1], B[1], G.T @ W[0], self.correlation_weight)
            history.append(objective(Z, W, B, G, self.correlation_weight))
        functions = dict(zip(rows, (white_x @ W[0], white_y @ W[1]), strict=True))
        return linear_functions(functions, rows=rows, history=history)


def _whiten_to_unit_variance(rows: Rows) -> Floats:
    gram = rows.gram()
    white = whiten(gram, floor=_VARIANCE_FLOOR * mean_diagonal(gram))
    return np.asarray(np.sqrt(rows.n_items) * white)

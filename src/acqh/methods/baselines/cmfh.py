"""Collective matrix factorisation hashing: one latent factor that all views share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Floats, Matrix
from acqh._core.linalg import solve_spd
from acqh.methods.base import POSITIVE
from acqh.methods.baselines.binary import LinearBinaryMethod, linear_functions
from acqh.methods.baselines.rows import Rows, ViewRidge, squared_norm
from acqh.methods.baselines.training import Training, share_weights
from acqh.methods.registry import register


def update_basis(rows: Rows, V: Floats, ridge: float) -> Floats:
    """Minimise ``||F - V U||² + ridge ||U||²`` for U, (n_bits, n_features)."""
    return solve_spd(V.T @ V + ridge * np.eye(V.shape[1]), rows.transpose_times(V).T)


def mix_views(
    bases: Mapping[str, Floats],
    projections: Mapping[str, Floats],
    weights: Mapping[str, float],
    projection_weight: float,
    ridge: float,
) -> dict[str, Floats]:
    """Return matrices M_v with which ``V = Σ_v F_v M_v`` is the best latent factor.

    Minimises ``Σ_v λ_v ||F_v - V U_v||² + μ Σ_v ||V - F_v P_v||² + γ ||V||²`` over V, whose
    minimum is ``Σ_v F_v (λ_v U_vᵀ + μ P_v) (Σ_v λ_v U_v U_vᵀ + (n μ + γ) I)⁻¹`` for n views.

    Parameters
    ----------
    bases : mapping of str to (n_bits, n_features)
        U_v of the views that items have.
    projections : mapping of str to (n_features, n_bits)
        P_v.
    weights : mapping of str to float
        λ_v.
    projection_weight, ridge : float
        μ and γ.
    """
    n_bits = next(iter(bases.values())).shape[0]
    gram = (len(bases) * projection_weight + ridge) * np.eye(n_bits)
    for view, U in bases.items():
        gram = gram + weights[view] * U @ U.T
    return {
        view: solve_spd(gram, weights[view] * U + projection_weight * projections[view].T).T
        for view, U in bases.items()
    }


@register(name="cmfh")
@dataclass(eq=False, repr=False, kw_only=True)
class CMFH(LinearBinaryMethod):
    """One latent factor from which every view is rebuilt, and which every view predicts.

    Minimises ``Σ_v λ_v ||F_v - V U_v||² + μ Σ_v ||V - F_v P_v||² + γ (||V||² + Σ_v (||U_v||² +
    ||P_v||²))`` for centred features F_v. Codes are the signs of V, which is a function of all
    views of an item; queries are hashed by P_v.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    view_weights : mapping of str to float, or None
        λ_v, scaled to sum to one; None: all the same.
    projection_weight : float
        μ. Public code divides by it where it means to multiply; that changes the length of P_v
        but hardly a sign, so the slip does not weaken its results.
    ridge : float
        γ.
    max_iter : int
        Sweeps over U, P and V.

    Attributes
    ----------
    training_codes_ : uint8 (n_train, ceil(n_bits / 8))
        Signs of V.
    projections_ : dict of str to (n_mapped_features, n_bits)
        P_v.
    bases_ : dict of str to (n_bits, n_mapped_features)
        U_v.
    means_ : dict of str to (n_mapped_features,)
    view_weights_ : dict of str to float
        λ_v.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("cmfh")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    view_range: ClassVar = (2, None)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearBinaryMethod._parameter_constraints,
        "ridge": POSITIVE,
    }

    view_weights: Mapping[str, float] | None = None
    projection_weight: float = 100.0
    ridge: float = 0.01
    max_iter: int = 50
    means_: dict[str, Floats] = field(init=False)
    bases_: dict[str, Floats] = field(init=False)
    view_weights_: dict[str, float] = field(init=False)

    def _learn(self, data: Training) -> dict[str, Any]:
        weights = share_weights(self.view_weights, data.features)
        rows = data.rows(centre=True)
        hashing = ViewRidge(rows, self.projection_weight, self.ridge / self.projection_weight)
        V = data.rng.random((data.n_items, self.n_bits))
        history = []
        for _ in range(self.max_iter):
            U = {
                view: update_basis(view_rows, V, self.ridge / weights[view])
                for view, view_rows in rows.items()
            }
            P = hashing.fit(V).projections
            mixes = mix_views(U, P, weights, self.projection_weight, self.ridge)
            V = np.sum([view_rows.times(mixes[view]) for view, view_rows in rows.items()], axis=0)
            rebuilding = sum(
                weights[view] * view_rows.residual_norm(V, U[view])
                + self.ridge * squared_norm(U[view])
                for view, view_rows in rows.items()
            )
            history.append(hashing.loss(V) + rebuilding + self.ridge * squared_norm(V))
        return {
            **linear_functions(P, rows=rows, codes=V, history=history),
            "means_": {view: view_rows.mean for view, view_rows in rows.items()},
            "bases_": U,
            "view_weights_": weights,
        }

    def _unify(self, views: Mapping[str, Matrix]) -> Floats:
        """Return the latent factor of items: the V that the views given agree on."""
        bases = {view: self.bases_[view] for view in views}
        mixes = mix_views(
            bases, self.projections_, self.view_weights_, self.projection_weight, self.ridge
        )
        factors = [
            self._map_linearly(matrix, view, mixes[view], -self.means_[view] @ mixes[view])
            for view, matrix in views.items()
        ]
        return np.asarray(np.sum(factors, axis=0))

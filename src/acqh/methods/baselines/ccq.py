"""Composite correlation quantization: one code for all views, each rotated onto it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats, Ints
from acqh.methods.baselines.additive import AdditiveMethod, regress_views, with_norms
from acqh.methods.baselines.rows import Rows
from acqh.methods.baselines.training import Training, share_weights
from acqh.methods.registry import register
from acqh.quantize import decode, search_codes
from acqh.quantize.codebooks import least_squares_codebooks
from acqh.quantize.train import refill_unused_words


def update_rotation(rows: Rows, Z: Floats) -> Floats:
    """Minimise ``||X - Z Rᵀ||²`` over R with orthonormal columns, (n_features, n_components).

    ``||Z Rᵀ||`` does not depend on R, so what is left is ``tr(Rᵀ Xᵀ Z)``, largest at the polar
    factor.
    """
    u, _, vt = scipy.linalg.svd(rows.transpose_times(Z), full_matrices=False, check_finite=False)
    return np.asarray(u @ vt)


def update_codebooks(mean: Floats, codes: Ints, codebooks: Floats) -> tuple[Floats, Ints]:
    """Minimise ``||mean - Z||²`` over the codebooks, for fixed codes but those of unused words.

    Parameters
    ----------
    mean : (n_items, n_components)
        ``Σ_v λ_v X_v R_v``, with weights that sum to one. Orthonormal rotations make
        ``Σ_v λ_v ||X_v - Z R_vᵀ||²`` this up to a constant.
    codes : (n_items, n_codebooks) uint8
    codebooks : (n_codebooks, codebook_size, n_components)
    """
    weights = np.ones(len(mean))
    codebooks, codes = refill_unused_words(mean, weights, codes, codebooks)
    return least_squares_codebooks(mean, weights, codes, codebooks), codes


def objective(
    rows: Mapping[str, Rows],
    rotations: Mapping[str, Floats],
    weights: Mapping[str, float],
    Z: Floats,
) -> float:
    """Return ``Σ_v λ_v ||X_v - Z R_vᵀ||²``."""
    norm = float(np.vdot(Z, Z))
    return sum(
        weights[view]
        * (view_rows.squared_norm - 2.0 * float(np.vdot(view_rows.transpose_times(Z), R)) + norm)
        for (view, view_rows), R in zip(rows.items(), rotations.values(), strict=True)
    )


@register(name="ccq")
@dataclass(eq=False, repr=False, kw_only=True)
class CCQ(AdditiveMethod):
    """One additive code for all views of an item, each view rotated onto it.

    Minimises ``Σ_v λ_v ||X_v - Z R_vᵀ||²`` over rotations R_v with orthonormal columns and over
    codes and codebooks, whose reconstructions are Z; X_v are standardised features. Then the
    rotations are replaced by ridge regressions from the views to Z, which do better on new
    items. Items are ranked by their distance from what a query predicts.

    Parameters
    ----------
    n_codebooks : int
        From 1 to 15. An item takes as many bytes and one more, for its squared norm.
    codebook_size : int
        Words per codebook, from 2 to 256.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them.
    search : {"greedy", "beam", "icm", "beam+icm"}
        How codes are searched; the original's way is greedy.
    feature_ridge : float
        Penalty of the regressions.
    max_iter : int
        Sweeps over rotations, codebooks and codes.
    tol : float
        Stop when a sweep lowers the objective by no more than this share of it.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    n_components : int, optional
        Length of the words, at most the width of the narrowest view; by default 8 per codebook.
    view_weights : mapping of str to float, or None
        λ_v, scaled to sum to one; None: all the same.

    Attributes
    ----------
    view_weights_ : dict of str to float
        λ_v.
    n_components_ : int
    objective_ : list of float
        After each sweep. Greedy codes may raise it, which ends the sweeps.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(300, random_state=0)
    >>> model = acqh.methods.get("ccq")(2, 16, random_state=0).fit(data.views)
    >>> codes = model.encode(data.views, mode="fused")
    >>> index = acqh.index.CodeIndex(model.codebooks_).add(codes)
    >>> index.search(model.project(data.views["text"][:1], view="text"), k=3).counts
    array([3])
    """

    view_range: ClassVar = (2, None)
    n_components: int | None = None
    view_weights: Mapping[str, float] | None = None

    def _learn(self, data: Training) -> dict[str, Any]:
        weights = share_weights(self.view_weights, data.features)
        rows = {view: Rows(matrix, scale=1.0) for view, matrix in data.features.items()}
        codebooks, codes, history = self._alternate(rows, weights, data.rng)
        return {
            **with_norms(codebooks, codes, data.rng),
            **regress_views(rows, decode(codes, codebooks), self.feature_ridge),
            "view_weights_": weights,
            "objective_": history,
        }

    def _alternate(
        self, rows: Mapping[str, Rows], weights: Mapping[str, float], rng: np.random.Generator
    ) -> tuple[Floats, Ints, list[float]]:
        """Return codebooks, codes and the objective after each sweep."""
        widths = [view_rows.n_features for view_rows in rows.values()]
        n_components = min(self.n_components or 8 * self.n_codebooks, *widths)
        R: dict[str, Floats] = {
            view: np.eye(view_rows.n_features, n_components) for view, view_rows in rows.items()
        }
        mean = _mean_of_views(rows, R, weights)
        drawn = rng.integers(len(mean), size=(self.n_codebooks, self.codebook_size))
        codebooks: Floats = mean[drawn] / self.n_codebooks
        codes = search_codes(mean, codebooks, search=self.search)
        history: list[float] = []
        for _ in range(self.max_iter):
            Z = decode(codes, codebooks)
            R = {view: update_rotation(view_rows, Z) for view, view_rows in rows.items()}
            mean = _mean_of_views(rows, R, weights)
            codebooks, codes = update_codebooks(mean, codes, codebooks)
            # Encode every item from scratch: keeping better old codes ends in worse optima.
            codes = search_codes(mean, codebooks, search=self.search)
            history.append(objective(rows, R, weights, decode(codes, codebooks)))
            if len(history) > 1 and history[-2] - history[-1] <= self.tol * history[-1]:
                break
        return codebooks, codes, history


def _mean_of_views(
    rows: Mapping[str, Rows], R: Mapping[str, Floats], weights: Mapping[str, float]
) -> Floats:
    rotated = [weights[view] * view_rows.times(R[view]) for view, view_rows in rows.items()]
    return np.asarray(np.sum(rotated, axis=0))

"""Stacked quantizers: each codebook refines what the ones before leave over."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Floats
from acqh._core.linalg import principal_directions
from acqh.errors import InvalidInputError
from acqh.methods.baselines.additive import AdditiveMethod, regress_views, with_norms
from acqh.methods.baselines.rows import Rows
from acqh.methods.baselines.training import Training, choose_view, share_weights
from acqh.methods.registry import register
from acqh.quantize import decode, fit_codebooks


@register(name="stacked")
@dataclass(eq=False, repr=False, kw_only=True)
class Stacked(AdditiveMethod):
    """Additive codes in which each codebook quantizes the residuals of those before.

    Minimizes ``||X - Z||²`` over codes and codebooks, whose reconstructions are Z, with codes
    chosen greedily from the first codebook to the last. The published method is for a single view.
    Here X are the principal components of one view, or of all standardized views concatenated.
    Each view predicts Z by ridge regression.
    Items are ranked by their distance from what a query predicts.

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
        Sweeps over codebooks and codes, once all codebooks are there.
    tol : float
        Stop when a sweep lowers the error by no more than this share of it.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    n_components : int, optional
        Principal components that are quantized; None: all.
    base_view : str, optional
        The view that is quantized; by default all of them, side by side.

    Attributes
    ----------
    view_weights_ : dict of str to float
        All the same.
    n_components_ : int
        As many as asked for, or as the features span.
    objective_ : list of float
        The error after each codebook that was added and each sweep; never rises.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(300, random_state=0)
    >>> model = acqh.methods.get("stacked")(2, 16, random_state=0).fit(data.views)
    >>> model.training_codes_.shape
    (300, 3)
    """

    n_components: int | None = 64
    base_view: str | None = None

    def _learn(self, data: Training) -> dict[str, Any]:
        rng = data.rng
        rows = {
            # Every view has the same total variance, however wide it is.
            view: Rows(matrix, scale=1.0 / np.sqrt(matrix.shape[1]))
            for view, matrix in data.features.items()
        }
        fitted = fit_codebooks(
            self._principal_components(rows),
            np.ones(data.n_items),
            self.n_codebooks,
            self.codebook_size,
            search=self.search,
            max_iter=self.max_iter,
            tol=self.tol,
            rng=rng,
        )
        Z = decode(fitted.codes, fitted.codebooks)
        return {
            **with_norms(fitted.codebooks, fitted.codes, rng),
            **regress_views(rows, Z, self.feature_ridge),
            "view_weights_": share_weights(None, rows),
            "objective_": fitted.history.tolist(),
        }

    def _principal_components(self, rows: dict[str, Rows]) -> Floats:
        """Return the leading components of the base view, or of all views side by side."""
        if self.base_view is not None:
            base = choose_view("base_view", self.base_view, rows, 0)
            rows = {base: rows[base]}
        view_rows = list(rows.values())
        gram = np.block([[left.cross(right) for right in view_rows] for left in view_rows])
        directions = principal_directions(gram, self.n_components or len(gram))
        if directions.shape[1] == 0:
            raise InvalidInputError("all features are constant, so there is nothing to quantize")
        ends = np.cumsum([view.n_features for view in view_rows])[:-1]
        parts = zip(view_rows, np.split(directions, ends), strict=True)
        return np.asarray(np.sum([view.times(part) for view, part in parts], axis=0))

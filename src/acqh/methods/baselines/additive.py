"""Methods with additive codes that rank items by distance from a prediction: CCQ, stacked."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.linalg

from acqh._core.arrays import Array, Floats, Ints, Matrix
from acqh._core.linalg import principal_directions
from acqh._core.runtime import RandomState
from acqh.errors import InvalidInputError
from acqh.methods.baselines.rows import Rows
from acqh.methods.baselines.training import TrainedMethod, Training, choose_view, share_weights
from acqh.methods.registry import DatabaseMode, register
from acqh.quantize import decode, fit_codebooks, search_codes
from acqh.quantize.codebooks import least_squares_codebooks, weighted_kmeans
from acqh.quantize.train import refill_unused_words


@dataclass(eq=False, repr=False)
class AdditiveMethod(TrainedMethod):
    """A method that predicts an item's vector from a view and ranks additive codes by distance.

    The nearest item to a prediction q is the one with the largest ``q b - ||b||² / 2``, where b
    is the reconstruction of its code. To make that an inner product, queries have one more
    dimension, of ``-1/2``, and items one more dimension and byte for their squared norm: the
    codewords of one more codebook, which are zero in all other dimensions.

    Parameters
    ----------
    n_codebooks : int
        From 1 to 15. An item takes as many bytes and one more, for its squared norm.
    codebook_size : int
        Words per codebook, from 2 to 256.
    search : {"greedy", "beam", "icm", "beam+icm"}
        How codes are searched; the original's way is greedy.
    feature_ridge : float
        Penalty of the regressions.

    Attributes
    ----------
    codebooks_ : (n_codebooks + 1, codebook_size, n_components + 1) float32
        Ready for `acqh.index.CodeIndex`; the last is that of squared norms.
    training_codes_ : uint8 (n_train, n_codebooks + 1)
    projections_ : dict of str to (n_mapped_features, n_components) float64
        What predicts the training items' vectors from a view.
    intercepts_ : dict of str to (n_components,) float64
    view_weights_ : dict of str to float
        Weights of the views in the mean of their predictions.
    """

    _n_norm_codebooks: ClassVar[int] = 1
    _stored_as: ClassVar = "additive"

    n_codebooks: int = 4
    codebook_size: int = 256
    _: KW_ONLY
    feature_maps: Any = None
    search: Literal["greedy", "beam", "icm", "beam+icm"] = "greedy"
    feature_ridge: float = 1e-3
    max_iter: int = 100
    tol: float = 1e-4
    random_state: RandomState = None
    codebooks_: Floats = field(init=False)
    training_codes_: Array = field(init=False)
    projections_: dict[str, Floats] = field(init=False)
    intercepts_: dict[str, Floats] = field(init=False)
    view_weights_: dict[str, float] = field(init=False)

    def _project(self, matrix: Matrix, view: str) -> Floats:
        """Return the predicted vectors of queries, and last ``-1/2``."""
        predicted = self._predict(matrix, view)
        half = np.full((len(predicted), 1), -0.5)
        return np.hstack([predicted, half]).astype(np.float32)

    def _predict(self, matrix: Matrix, view: str) -> Floats:
        return self._map_linearly(matrix, view, self.projections_[view], self.intercepts_[view])

    def _code(self, views: Mapping[str, Matrix], mode: DatabaseMode) -> Ints:  # noqa: ARG002
        """Return the codes nearest to the predictions of views, with the level of their norms."""
        predicted = [self._predict(matrix, view) for view, matrix in views.items()]
        weights = [self.view_weights_[view] for view in views]
        vectors = np.average(predicted, axis=0, weights=weights)
        words, levels = self.codebooks_[:-1, :, :-1], self.codebooks_[-1:, :, -1:]
        codes = search_codes(vectors, words, search=self.search)
        return np.hstack([codes, search_codes(_squared_norms(codes, words), levels)])

    def decode(self, codes: Array) -> Floats:
        """Return the reconstructions of codes, followed by their squared norms.

        Parameters
        ----------
        codes : uint8 (n_items, n_codebooks + 1)

        Returns
        -------
        (n_items, n_components + 1) float32
        """
        self._check_fitted()
        return decode(codes, self.codebooks_)

    @property
    def bytes_per_item(self) -> int:
        """One byte per codebook, and one for the squared norm."""
        self._check_fitted()
        return len(self.codebooks_)


def with_norms(codebooks: Floats, codes: Ints, rng: np.random.Generator) -> dict[str, Any]:
    """Return codebooks and training codes, both with one more for the squared norms."""
    norms = _squared_norms(codes, codebooks)
    n_codebooks, n_words, n_components = codebooks.shape
    levels, numbers = weighted_kmeans(norms, np.ones(len(norms)), n_words, rng)
    extended = np.zeros((n_codebooks + 1, n_words, n_components + 1), dtype=np.float32)
    extended[:-1, :, :-1] = codebooks
    extended[-1, :, -1] = levels[:, 0]
    return {
        "codebooks_": extended,
        "training_codes_": np.hstack([codes, numbers[:, np.newaxis]]),
        "n_components_": n_components,
    }


def _squared_norms(codes: Ints, codebooks: Floats) -> Floats:
    vectors = decode(codes, codebooks).astype(np.float64)
    return np.asarray(np.einsum("ik,ik->i", vectors, vectors)[:, np.newaxis])


def regress_views(
    rows: Mapping[str, Rows], targets: Floats, penalty: float
) -> dict[str, dict[str, Floats]]:
    """Return what predicts targets from features as they were given: projections, intercepts."""
    maps = {
        view: view_rows.factors * view_rows.ridge(penalty)(targets)
        for view, view_rows in rows.items()
    }
    return {
        "projections_": maps,
        "intercepts_": {view: -rows[view].mean @ P for view, P in maps.items()},
    }


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


def ccq_objective(
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
        Stop when a sweep lowers the ccq_objective by no more than this share of it.
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
        """Return codebooks, codes and the ccq_objective after each sweep."""
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
            history.append(ccq_objective(rows, R, weights, decode(codes, codebooks)))
            if len(history) > 1 and history[-2] - history[-1] <= self.tol * history[-1]:
                break
        return codebooks, codes, history


def _mean_of_views(
    rows: Mapping[str, Rows], R: Mapping[str, Floats], weights: Mapping[str, float]
) -> Floats:
    rotated = [weights[view] * view_rows.times(R[view]) for view, view_rows in rows.items()]
    return np.asarray(np.sum(rotated, axis=0))


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

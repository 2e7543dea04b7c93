"""Base class of methods with additive codes that rank items by distance from a prediction."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, Matrix
from acqh._core.runtime import RandomState
from acqh.methods.baselines.rows import Rows
from acqh.methods.baselines.training import TrainedMethod
from acqh.methods.registry import DatabaseMode
from acqh.quantize import decode, search_codes
from acqh.quantize.codebooks import weighted_kmeans


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

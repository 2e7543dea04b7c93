"""From a problem to maps, codebooks and codes, by either solver."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from acqh._core.arrays import Array, Floats, Ints
from acqh._core.linalg import solve_spd
from acqh.methods.acqh import alternating
from acqh.methods.acqh.label_space import LabelSpace
from acqh.methods.acqh.predictions import Predictor, draw_predictions, make_predictor
from acqh.methods.acqh.problem import Problem, similarity_error
from acqh.methods.acqh.similarity import Similarity
from acqh.methods.acqh.space import TargetSpace
from acqh.methods.acqh.spectral import Components
from acqh.quantize import QuantizerFit, decode, fit_codebooks, search_codes
from acqh.stats import Regression, ViewStatistics

# Predicted code vectors that are drawn for each way of seeing an item.
_DRAWS = 1024
# Codebooks are learnt from at most this many label sets, the most frequent; all of them are coded.
MAX_TRAINED_SETS = 16_384


@dataclass(frozen=True)
class Settings:
    """The parameters of `ACQH` that solvers read, by the same names, and where they compute."""

    n_components: int
    n_codebooks: int
    codebook_size: int
    similarity: str | Similarity
    solver: Literal["spectral", "alternating"]
    label_weight: float
    label_ridge: float
    ridge: float | Literal["auto"]
    fit_intercept: bool
    codebooks_from: float | Literal["both", "labels", "predictions"]
    normalize: bool | None
    max_iter: int
    tol: float
    device: Any  # where eigenvalues are computed; None: on the host

    @classmethod
    def of(cls, model: Any, device: Any = None) -> "Settings":
        """Take the parameters of a model."""
        own = {it.name: getattr(model, it.name) for it in fields(cls) if it.name != "device"}
        return cls(**own, device=device)

    @property
    def known_share(self) -> float:
        """Share of the vectors of items as they are known among those of codebooks."""
        if isinstance(self.codebooks_from, str):
            return {"labels": 1.0, "predictions": 0.0, "both": 0.5}[self.codebooks_from]
        return self.codebooks_from

    def train_codebooks(
        self,
        points: Floats,
        weights: Floats,
        rng: np.random.Generator,
        callback: Callable[[Floats, Array], None] | None = None,
        *,
        is_quick: bool = False,
    ) -> QuantizerFit:
        """Learn codebooks of weighted points."""
        return fit_codebooks(
            points,
            weights,
            self.n_codebooks,
            self.codebook_size,
            max_iter=self.max_iter,
            tol=self.tol,
            rng=rng,
            callback=callback,
            device=self.device,
            is_quick=is_quick,
        )


@dataclass(frozen=True)
class Fitted:
    """What a fit gives, whatever its targets."""

    space: LabelSpace | TargetSpace
    projections: dict[str, Floats]  # each (n_features, n_components)
    intercepts: dict[str, Floats]  # each (n_components,): from features to query vectors
    # each (n_features, n_components): from features scaled to unit length, added; only
    # for views that need it.
    units: dict[str, Floats]
    codebooks: Floats  # (n_codebooks, codebook_size, n_components)
    # (n_components, n_components): the metric in which a code vector is to be near its target.
    # None: the identity.
    metric: Floats | None
    objective: list[float]  # at the start and after each step
    lower_bound: float
    of_nothing: float  # the objective of codes that are all zero
    ridges: dict[str, Any]
    query_share: float  # share of the real queries in the metric


@dataclass(frozen=True)
class Solution:
    """What a solver finds for label sets: maps, codebooks and codes."""

    predictors: dict[str, Predictor]  # from features to code vectors
    # (n_dimensions, n_components): J: from label embeddings to query vectors; ``J b`` is the
    # embedding that a code vector b stands for.
    query_map: Floats
    target_map: Floats  # (n_dimensions, n_components): from label embeddings to code vectors
    codebooks: Floats  # (n_codebooks, codebook_size, n_components)
    label_codes: Array  # uint8 (n_sets, n_codebooks)
    # (n_components, n_components): the metric in which a code vector is to be near its target.
    # None: the identity.
    metric: Floats | None
    objective: list[float]  # at the start and after each sweep

    def padded(self, n_components: int) -> "Solution":
        """Return the solution with zero components after its own, up to the number given."""
        extra = n_components - self.codebooks.shape[2]

        def columns(array: Floats) -> Floats:
            return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, extra)])

        def square(array: Floats) -> Floats:
            return np.asarray(scipy.linalg.block_diag(array, np.eye(extra)))

        return replace(
            self,
            predictors={
                name: Predictor(
                    columns(it.coefficients), columns(it.intercept), square(it.precision)
                )
                for name, it in self.predictors.items()
            },
            query_map=columns(self.query_map),
            target_map=columns(self.target_map),
            codebooks=columns(self.codebooks),
            metric=None if self.metric is None else square(self.metric),
        )


def solve_with_spectrum(
    problem: Problem,
    found: Components,
    views: Mapping[str, ViewStatistics],
    regressions: Mapping[str, Regression],
    settings: Settings,
    rng: np.random.Generator,
) -> Solution:
    """Solve for maps in closed form, then for codebooks and codes.

    `found`: the problem's spectrum. `regressions`: of label embeddings on each view.
    """
    maps = found.maps(problem.counts.sum(), settings.n_components)
    predictors = {name: make_predictor(it, maps.target_map) for name, it in regressions.items()}
    targets = problem.embeddings @ maps.target_map
    trained_on = _most_frequent(problem.counts)
    points, weights = targets[trained_on], problem.counts[trained_on]
    share = settings.known_share
    if share == 0:
        # The label sets are coded along, but have no say.
        weights = np.zeros(len(trained_on))
    if share < 1:
        drawn = draw_predictions(views, predictors, _DRAWS, rng)
        points = np.concatenate([points, drawn])
        # Beside all labelled items together, as much weight as their share leaves.
        weight = problem.counts.sum() * ((1 - share) / share if share else 1.0)
        weights = np.concatenate([weights, np.full(len(drawn), weight / len(drawn))])
    values: list[float] = []

    def record(codebooks: Floats, codes: Array) -> None:
        if len(codes) >= len(targets):
            vectors = decode(codes[: len(targets)], codebooks)
            values.append(similarity_error(problem, maps.query_map, vectors))

    trained = settings.train_codebooks(points, weights, rng, record)
    codes = trained.codes[: len(trained_on)]
    if len(trained_on) < len(targets):
        # The codes found in training may be better than those of a search.
        start = search_codes(targets, trained.codebooks)
        start[trained_on] = codes
        codes = start
        values.clear()
        record(trained.codebooks, codes)
    return Solution(
        predictors=predictors,
        query_map=maps.query_map,
        target_map=maps.target_map,
        codebooks=trained.codebooks,
        label_codes=codes,
        metric=None,
        objective=values,
    ).padded(settings.n_components)


def _most_frequent(counts: Floats) -> Ints:
    """Return the label sets that codebooks are learnt from: all, or the most frequent."""
    if len(counts) <= MAX_TRAINED_SETS:
        return np.arange(len(counts))
    return np.sort(np.argsort(-counts, kind="stable")[:MAX_TRAINED_SETS])


def solve_by_sweeps(
    problem: Problem,
    regressions: Mapping[str, Regression],
    settings: Settings,
    rng: np.random.Generator,
) -> Solution:
    """Solve for maps, codebooks and codes by Algorithm 1; see `solve_with_spectrum`."""
    state = alternating.random_start(
        problem, settings.n_components, settings.n_codebooks, settings.codebook_size, rng
    )
    values = [alternating.state_objective(problem, state)]
    for _ in range(settings.max_iter):
        state = alternating.sweep(problem, state)
        values.append(alternating.state_objective(problem, state))
        if values[-2] - values[-1] <= settings.tol * abs(values[-2]):
            break
    else:
        warnings.warn(
            f"Algorithm 1 was stopped after {settings.max_iter} sweeps, the last of which lowered "
            f"the objective by {1 - values[-1] / values[-2]:.1e}; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=2,
        )
    reached = state.query_map.T @ problem.agreement
    metric = reached @ state.query_map
    # The label terms weigh next to nothing against the similarities, and items without labels
    # have none, so new items are placed by the similarities alone.
    target_map = solve_spd(metric, reached).T
    return Solution(
        predictors={name: make_predictor(it, target_map) for name, it in regressions.items()},
        query_map=state.query_map,
        target_map=target_map,
        codebooks=state.codebooks,
        label_codes=state.codes,
        metric=metric,
        objective=values,
    )

"""Labels alone: from statistics to a space and codebooks, by either solver."""

from collections.abc import Collection
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh.errors import ViewError
from acqh.methods.acqh.label_space import LabelSpace
from acqh.methods.acqh.problem import Problem, lower_bound, spectrum
from acqh.methods.acqh.similarity import embed
from acqh.methods.acqh.solve import Fitted, Settings, solve_by_sweeps, solve_with_spectrum
from acqh.stats import Statistics, regress


def solve_labels(
    stats: Statistics,
    settings: Settings,
    rng: np.random.Generator,
    predicted: Collection[str] = (),
) -> Fitted:
    """Solve for maps, codebooks and codes of label sets.

    `stats`: of at least one labelled item. `predicted`: views whose features may be predictions of
    the label embedding. Raises ViewError: no labelled item has a view.
    """
    stats = stats.compact()
    for name, view in stats.views.items():
        if view.n_items == 0:
            raise ViewError(f"no labelled item has view '{name}', so it cannot be learnt")
    sets = stats.label_sets.matrix()
    embedding = embed(settings.similarity, sets, stats.counts, rng)
    vectors = embedding.transform(sets)
    regressions = {
        name: regress(
            view,
            vectors,
            settings.ridge,
            fit_intercept=settings.fit_intercept,
            device=settings.device,
            is_predicted=name in predicted,
        )
        for name, view in stats.views.items()
    }
    problem = _pose(stats, sets, vectors, regressions, settings)
    found = spectrum(problem)
    if settings.solver == "spectral":
        solution = solve_with_spectrum(problem, found, stats.views, regressions, settings, rng)
    else:
        solution = solve_by_sweeps(problem, regressions, settings, rng)
    query_map = solution.query_map
    return Fitted(
        space=LabelSpace(
            embedding,
            stats.label_sets.packed(),
            solution.label_codes,
            solution.predictors,
            query_map,
            solution.target_map,
        ),
        projections={name: it.coefficients @ query_map for name, it in regressions.items()},
        intercepts={name: it.intercept @ query_map for name, it in regressions.items()},
        units={},
        codebooks=solution.codebooks,
        metric=solution.metric,
        objective=solution.objective,
        lower_bound=lower_bound(problem, found, settings.n_components),
        of_nothing=problem.constant,
        ridges={name: found.ridge for name, found in regressions.items()},
        query_share=0.0,
    )


def _pose(
    stats: Statistics,
    sets: Array,
    vectors: Floats,
    regressions: dict[str, Any],
    settings: Settings,
) -> Problem:
    everyone = (vectors.T * stats.counts) @ vectors
    constant = sum(
        np.sum(((vectors.T * view.counts) @ vectors) * everyone) for view in stats.views.values()
    )
    return Problem(
        embeddings=vectors,
        # Which the closed form does not read.
        labels=sets if settings.solver == "spectral" else sets.astype(np.float64),
        counts=stats.counts,
        agreement=np.sum([found.agreement for found in regressions.values()], axis=0),
        constant=float(constant),
        label_weight=float(settings.label_weight),
        label_ridge=float(settings.label_ridge),
    )

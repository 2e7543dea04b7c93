"""Real queries: a sample that shapes the codes, and other encoders for codes that stay."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from acqh._core.arrays import Floats, Matrix, as_matrix, check_width
from acqh.errors import InvalidInputError, ViewError
from acqh.methods.acqh._blocks import block_predictor
from acqh.methods.acqh._predictions import Predictor, make_predictor
from acqh.methods.acqh._space import TargetSpace
from acqh.stats import RowSample, regress_rows

# Real queries at most that are kept of each view.
MAX_QUERIES = 4096


def check_queries(
    queries: Any, widths: Mapping[str, int], before: Mapping[str, RowSample] | None = None
) -> dict[str, RowSample]:
    """Return a sample of the real queries of each view.

    `queries`: mapping of str to (n_queries, n_features), or None. `widths`: of the views that there
    are. `before`: queries given before, which these are added to. Raises InvalidInputError: no
    mapping, or a view without queries. Raises ViewError: an unknown view, another width, or a value
    that is not finite.
    """
    found = dict(before or {})
    if queries is None:
        return found
    if not isinstance(queries, Mapping):
        raise InvalidInputError(
            "queries must be a mapping of views to matrices, such as {'text': Q}, got "
            f"{type(queries).__name__}"
        )
    for view, rows in queries.items():
        if view not in widths:
            raise ViewError(f"queries are given of view {view!r}; the views are {sorted(widths)}")
        matrix = as_matrix(rows, f"the queries of view '{view}'")
        check_width(matrix, widths[view], f"the queries of view '{view}'")
        if matrix.shape[0] == 0:
            raise InvalidInputError(f"there are no queries of view '{view}'; leave the view out")
        start = found.get(view, RowSample(MAX_QUERIES, 0))
        labels = np.zeros((matrix.shape[0], 0), dtype=np.uint8)
        present = {view: np.ones(matrix.shape[0], dtype=bool)}
        found[view] = start.with_rows({view: matrix}, labels, present)
    return found


def learn_blocks(
    features: Matrix,
    described: Floats,
    space: TargetSpace,
    ridge: float | Literal["auto"],
    *,
    fit_intercept: bool,
) -> dict[str, Predictor]:
    """Learn to predict every block from the features of another encoder.

    `features`: (n_items, n_features). `described`: (n_items, n_dimensions); all blocks of the same
    items, side by side, as `TargetSpace.describe` gives them. `ridge`, `fit_intercept`: as `ACQH`
    takes them.
    """
    found = {}
    start = 0
    for name, block in space.blocks.items():
        part = described[:, start : start + block.rank] / np.sqrt(block.target.weight)
        start += block.rank
        learnt = regress_rows(features, part, ridge, fit_intercept=fit_intercept)
        found[name] = block_predictor(block, learnt)
    return found


def learn_vectors(
    features: Matrix, vectors: Floats, ridge: float | Literal["auto"], *, fit_intercept: bool
) -> Predictor:
    """Learn to predict code vectors from the features of another encoder.

    `features`: (n_items, n_features). `vectors`: (n_items, n_components); of the same items.
    `ridge`, `fit_intercept`: as `ACQH` takes them.
    """
    learnt = regress_rows(features, vectors, ridge, fit_intercept=fit_intercept)
    return make_predictor(learnt, np.eye(vectors.shape[1]))

"""Real queries: a sample that shapes the codes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from acqh._core.arrays import as_matrix, check_width
from acqh.errors import InvalidInputError, ViewError
from acqh.stats import RowSample

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

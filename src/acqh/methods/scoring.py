"""One number for how well a fitted method finds held-out items across views."""

from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from acqh.data import MultiViewData
from acqh.errors import LabelError
from acqh.metrics import mean_average_precision, relevance

if TYPE_CHECKING:
    from acqh.methods.base import BaseMethod

# Queries a view at most: enough for the third digit.
_MAX_QUERIES = 2_000


def held_out_map(method: "BaseMethod", views: Any, labels: Any = None) -> float:
    """Return mean average precision across views, on items that `method` has not been fitted on.

    `method`: fitted. `labels`: with a mapping of views only. Gives from 0 to 1: the mean over all
    pairs of views of the figure for queries of the one and items coded by the other; items that
    share a label are relevant. Raises LabelError: there are no labels.
    """
    from acqh.methods.base import labelled

    data = labelled(views, labels)
    if data.labels is None:
        raise LabelError("a score needs labels: they say which items are relevant")
    names = list(data.views)
    rows = np.arange(len(data))[:: max(1, len(data) // _MAX_QUERIES)]
    relevant = relevance(data.labels[rows], data.labels)
    if len(names) == 1:
        # An item finds itself: that says nothing.
        relevant[np.arange(len(rows)), rows] = False
    pairs = [(names[0], names[0])] if len(names) == 1 else list(permutations(names, 2))
    found = []
    for query, coded in pairs:
        vectors = method.decode(_codes(method, data, coded))
        scores = method.embed_queries(data.views[query][rows], view=query) @ vectors.T
        if query == coded:
            scores[np.arange(len(rows)), rows] = -np.inf
        found.append(mean_average_precision(scores, relevant))
    return float(np.mean(found))


def _codes(method: "BaseMethod", data: MultiViewData, view: str) -> Any:
    if "hashed" in method.info.modes:
        return method.encode({view: data.views[view]})
    return method.encode(labels=data.labels)

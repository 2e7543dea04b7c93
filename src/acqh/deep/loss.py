"""How far query vectors are from the closed form's, judged by the scores of all items."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from acqh._core.device import Tensor, to_tensor, unit_rows
from acqh._core.imports import require
from acqh.methods.acqh import ACQH


def score_loss(
    model: ACQH, view: str, views: Mapping[str, Any], labels: Any, device: Any
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the loss of a view's queries under a fitted model, by its training items.

    It takes the features of some training items, (n, n_features), and their rows. It is the mean
    squared error of scores, over a batch of queries and all items at once. The score of a query
    vector q and an item is ``q . b``, with b what the item's code stands for; it should be
    ``q* . b``, with q* the query vector of all that is known of the query's item. The mean over
    items of ``((q - q*) . b)^2`` is a quadratic form in the second moment of the b, so a batch
    meets all items for the price of a small matrix: the asymmetric loss of the paper, with a
    network in the place of the linear map. Predicting zero has a loss of one.
    """
    torch = require("torch")
    known = np.asarray(model.embed(views, labels=labels), dtype=np.float64)
    wanted = known @ (model.space_.query_map.T @ model.space_.query_map)
    vectors = model.decode(model.encode(views, labels=labels)).astype(np.float64)
    moment = vectors.T @ vectors / len(vectors)
    energy = float(np.mean(np.einsum("ij,ij->i", wanted @ moment, wanted)))
    own = model.projections_[view], model.unit_projections_.get(view), model.intercepts_[view]
    arrays = (*own, wanted, moment / (energy or 1.0))
    tensors: list[Tensor] = [it if it is None else to_tensor(it, device).float() for it in arrays]
    projection, unit, intercept, targets, metric = tensors

    def loss(features: Tensor, rows: Tensor) -> Tensor:
        queries = features @ projection + intercept
        if unit is not None:
            queries = queries + unit_rows(features) @ unit
        error = queries - targets[rows]
        return torch.einsum("ij,jk,ik->i", error, metric, error).mean()

    return loss

"""How far query vectors are from the closed form's, judged by the scores of all items."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from acqh._core.device import Tensor, to_tensor, unit_rows
from acqh._core.imports import require
from acqh.methods.acqh import ACQH


class ScoreLoss(NamedTuple):
    """Mean squared error of scores, over a batch of queries and all items at once.

    The score of a query vector q and an item is ``q . b``, with b what the item's code stands for;
    it should be ``q* . b``, with q* the query vector of all that is known of the query's item. The
    mean over items of ``((q - q*) . b)^2`` is a quadratic form in the second moment of the b, so a
    batch meets all items for the price of a small matrix: the asymmetric loss of the paper, with a
    network in the place of the linear map.
    """

    projection: Tensor  # tensor (n_features, n_components)
    # tensor (n_features, n_components) or None: of features scaled to unit length.
    unit: Tensor | None
    intercept: Tensor  # tensor (n_components,)
    targets: Tensor  # tensor (n_items, n_components): q* of every training item
    # tensor (n_components, n_components): second moment of code vectors, over the mean squared
    # score of the targets: predicting zero has a loss of one.
    metric: Tensor

    @classmethod
    def of(
        cls, model: ACQH, view: str, views: Mapping[str, Any], labels: Any, device: Any
    ) -> "ScoreLoss":
        """Return the loss of a view's queries under a fitted model, by its training items."""
        known = np.asarray(model.embed(views, labels=labels), dtype=np.float64)
        targets = known @ (model.query_map_.T @ model.query_map_)
        vectors = model.decode(model.encode(views, labels=labels)).astype(np.float64)
        metric = vectors.T @ vectors / len(vectors)
        energy = float(np.mean(np.einsum("ij,ij->i", targets @ metric, targets)))
        own = model.projections_[view], model.unit_projections_.get(view), model.intercepts_[view]
        arrays = (*own, targets, metric / (energy or 1.0))
        return cls(*(None if it is None else to_tensor(it, device).float() for it in arrays))

    def __call__(self, features: Tensor, rows: Tensor) -> Tensor:
        """Return the loss of the features of some training items."""
        torch = require("torch")
        queries = features @ self.projection + self.intercept
        if self.unit is not None:
            queries = queries + unit_rows(features) @ self.unit
        error = queries - self.targets[rows]
        return torch.einsum("ij,jk,ik->i", error, self.metric, error).mean()

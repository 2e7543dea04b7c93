"""Search by cosine similarity or Euclidean distance as search by inner product."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias, cast, get_args

import numpy as np

from acqh._core.arrays import Array, Floats, unit_rows
from acqh.errors import InvalidInputError

Metric: TypeAlias = Literal["ip", "cosine", "l2"]
METRICS: tuple[Metric, ...] = get_args(Metric)
_NO_ORIGIN = np.empty(0, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class MetricMap:
    """Maps items and queries to vectors whose inner products rank as the metric does.

    ``"cosine"`` scales both to unit length. ``"l2"`` subtracts the mean c of the items and adds a
    component: items become (x - c, -|x - c|^2 / 2), queries (q - c, 1). Their inner product is
    (|q - c|^2 - |q - x|^2) / 2.

    Parameters
    ----------
    metric : {"ip", "cosine", "l2"}
    origin : (n_components,) float32
        For ``"l2"``: the mean of the items. Empty for the others.

    Examples
    --------
    >>> items, queries = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[3.0, 0.0]])
    >>> metric = MetricMap.fit("l2", items)
    >>> products = metric.map_queries(queries) @ metric.map_items(items).T
    >>> metric.to_scores(products, queries)
    array([[ -9., -16.]])
    """

    metric: Metric = "ip"
    origin: Floats = field(default_factory=lambda: _NO_ORIGIN)

    @classmethod
    def fit(cls, metric: Metric, items: Floats) -> Self:
        """Return the map for items like these; raise InvalidInputError for an unknown metric."""
        check_metric(metric)
        if metric != "l2":
            return cls(metric)
        return cls(metric, items.mean(axis=0, dtype=np.float64).astype(np.float32))

    def n_components(self, n_mapped: int) -> int:
        """Return the number of dimensions of vectors that have `n_mapped` when mapped."""
        return n_mapped - (self.metric == "l2")

    def map_items(self, items: Floats) -> Floats:
        """Return items, (n_items, n_components), as vectors to multiply with queries."""
        if self.metric != "l2":
            return unit_rows(items) if self.metric == "cosine" else items
        centred = items - self.origin.astype(items.dtype)
        return np.column_stack([centred, np.einsum("ij,ij->i", centred, centred) / -2])

    def map_queries(self, queries: Floats) -> Floats:
        """Return queries, (n_queries, n_components), as vectors to search with."""
        if self.metric != "l2":
            return unit_rows(queries) if self.metric == "cosine" else queries
        centred = queries - self.origin.astype(queries.dtype)
        return np.column_stack([centred, np.ones(len(queries), queries.dtype)])

    def unmap_items(self, vectors: Floats) -> Floats:
        """Return mapped items as before; those of ``"cosine"`` keep their length."""
        return vectors[..., :-1] + self.origin if self.metric == "l2" else vectors

    def to_scores(self, products: Floats, queries: Floats) -> Floats:
        """Return scores, higher is better: for ``"l2"`` negative squared distances.

        `products`: (n_queries, ...) inner products of mapped vectors. `queries`: (n_queries,
        n_components).
        """
        if self.metric != "l2":
            return products
        centred = queries - self.origin.astype(queries.dtype)
        norms = np.einsum("ij,ij->i", centred, centred)
        return np.asarray(2 * products - norms.reshape(-1, *[1] * (products.ndim - 1)))

    def score_pairs(self, queries: Floats, items: Floats) -> Floats:
        """Return the exact score of each query and the item in the same row: (n,)."""
        if self.metric == "l2":
            differences = queries - items
            return -np.asarray(np.einsum("ij,ij->i", differences, differences))
        mapped = self.map_queries(queries), self.map_items(items)
        return np.asarray(np.einsum("ij,ij->i", *mapped))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MetricMap)
            and self.metric == other.metric
            and np.array_equal(self.origin, other.origin)
        )

    __hash__ = None  # type: ignore[assignment]

    def to_state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the contents of a file: named arrays, and JSON values."""
        return {"origin": self.origin} if self.origin.size else {}, {"metric": self.metric}

    @classmethod
    def from_state(
        cls, arrays: Mapping[str, Array], info: Mapping[str, Any], n_mapped: int
    ) -> Self:
        """Return the map of `to_state` for `n_mapped` components; raise InvalidInputError."""
        metric = check_metric(info.get("metric", "ip"))
        origin = np.asarray(arrays.get("origin", _NO_ORIGIN))
        n_values = n_mapped - 1 if metric == "l2" else 0
        if origin.shape != (n_values,) or origin.dtype != np.float32:
            raise InvalidInputError(f"origin has dtype {origin.dtype} and shape {origin.shape}")
        if not np.isfinite(origin).all():
            raise InvalidInputError("origin has a value that is not finite")
        return cls(metric, origin)


def check_metric(metric: Any) -> Metric:
    """Return the metric, or raise InvalidInputError."""
    if metric not in METRICS:
        raise InvalidInputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    return cast(Metric, metric)

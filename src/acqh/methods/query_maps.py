"""From rows of a view to query vectors, without what fitting needs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np

from acqh._core.arrays import Floats, check_view, mapped_blocks, unit_rows
from acqh._core.device import Tensor, row_blocks, tensor_dtype, to_tensor
from acqh._core.imports import require
from acqh._core.store import fits, unpack
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io import Bundle
from acqh.methods.registry import HOMES, MEMBER, check_sizes

# In the order of the fields of `QueryMaps`.
_ATTRIBUTES = ("n_features_in_", "codebooks_", "projections_", "intercepts_", "unit_projections_")


@dataclass(frozen=True, eq=False)
class QueryMaps:
    """Maps from queries of any view to vectors: part of a fitted `acqh.ACQH`."""

    widths: Mapping[str, int]  # features of each view
    codebooks: Floats  # (n_codebooks, codebook_size, n_components)
    projections: Mapping[str, Floats]  # each (n_mapped_features, n_components)
    intercepts: Mapping[str, Floats]  # each (n_components,)
    # each (n_mapped_features, n_components): from features scaled to unit length,
    # added; only for views that need it.
    units: Mapping[str, Floats]
    feature_maps: Mapping[str, Any]

    @classmethod
    def of(cls, model: Any) -> "QueryMaps":
        """Return those of a fitted model."""
        values: list[Any] = [getattr(model, name) for name in (*_ATTRIBUTES, "feature_maps_")]
        return cls(*values)

    def project(self, X: Any, *, view: str) -> Floats:
        """Return query vectors, (n_queries, n_components); see `acqh.ACQH.project`."""
        matrix = check_view(self.widths, X, view)
        out = np.empty((matrix.shape[0], self.codebooks.shape[2]), self.codebooks.dtype)
        for rows, block in mapped_blocks(self.feature_maps, matrix, view):
            out[rows] = block @ self.projections[view] + self.intercepts[view]
            if view in self.units:
                out[rows] += unit_rows(block) @ self.units[view]
        return out

    def project_tensor(self, matrix: Any, view: str, device: Any, max_memory: int) -> Tensor:
        """Return query vectors as `project`, on a device; rows of `read_rows`."""
        torch = require("torch")
        dtype = tensor_dtype(self.codebooks.dtype)
        weights = to_tensor(self.projections[view], device, dtype)
        offset = to_tensor(self.intercepts[view], device, dtype)
        vectors = torch.empty((len(matrix), len(offset)), dtype=dtype, device=device)
        per_row = max(3 * dtype.itemsize * len(weights), 8 * matrix.shape[1])
        for rows in row_blocks(len(matrix), per_row, max_memory):
            block = {view: to_tensor(matrix[rows], device)}
            mapped = map_tensors(self.feature_maps, block)[view].to(dtype)
            torch.addmm(offset, mapped, weights, out=vectors[rows])
            if view in self.units:
                vectors[rows] += unit_rows(mapped) @ to_tensor(self.units[view], device, dtype)
        return vectors


def map_tensors(feature_maps: Mapping[str, Any], views: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return mapped rows of views.

    Raises InvalidInputError: a feature map does not support tensors.
    """
    mapped = dict(views)
    for name in feature_maps.keys() & views.keys():
        feature_map = feature_maps[name]
        steps = [step for _, step in getattr(feature_map, "steps", [("", feature_map)])]
        if not all(getattr(step, "takes_tensors", False) for step in steps):
            raise InvalidInputError(
                f"the feature map of view '{name}' does not support tensors; pass arrays"
            )
        mapped[name] = feature_map.transform(views[name])
    return mapped


class _StoredMaps(Mapping[str, Any]):
    """Feature maps of a bundle, each made when it is first asked for."""

    def __init__(self, stored_maps: Mapping[str, Any], arrays: dict[str, Any]) -> None:
        self._described = stored_maps
        self._arrays = arrays
        self._made: dict[str, Any] = {}

    def __getitem__(self, view: str) -> Any:
        if view not in self._made:
            self._made[view] = unpack(self._described[view], self._arrays, HOMES, use_all=False)
        return self._made[view]

    def __iter__(self) -> Iterator[str]:
        return iter(self._described)

    def __len__(self) -> int:
        return len(self._described)


def query_maps_of(bundle: Bundle) -> QueryMaps:
    """Return the maps of a saved `acqh.ACQH`, without making the model.

    Raises CorruptBundleError: they are not there, or the bundle is of another method.
    """
    path = bundle.path
    match bundle.info:
        case {"method": "acqh", "params": dict(params), "attributes": dict(attributes)}:
            pass
        case {"method": str(name)}:
            raise CorruptBundleError(f"{path} holds a {name!r}, not an ACQH")
        case _:
            raise CorruptBundleError(f"{path} is not a saved method")
    arrays = bundle.arrays(MEMBER)
    try:
        values = {
            name: unpack(attributes[name], arrays, HOMES, use_all=False) for name in _ATTRIBUTES
        }
        stored_maps = dict(attributes["feature_maps_"]["dict"])
        maps = QueryMaps(*(*values.values(), _StoredMaps(stored_maps, arrays)))
        for attribute, hint in zip(_ATTRIBUTES, get_type_hints(QueryMaps).values(), strict=False):
            if not fits(values[attribute], hint):
                raise InvalidInputError(f"{attribute} is not a {hint}")
        check_sizes(values, params["n_codebooks"])
    except (InvalidInputError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptBundleError(f"{path} holds no readable 'acqh': {error}") from error
    return maps

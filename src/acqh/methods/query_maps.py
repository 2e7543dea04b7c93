"""From rows of a view to query vectors, without what fitting needs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np

from acqh._core.arrays import Floats, Matrix, as_matrix, check_width, slices, unit_rows
from acqh._core.store import fits, unpack
from acqh.errors import CorruptBundleError, InvalidInputError, ViewError
from acqh.io import Bundle
from acqh.methods.state import HOMES, MEMBER, check_sizes

# Rows that are mapped and summed at a time.
CHUNK_ROWS = 16_384
# In the order of the fields of `QueryMaps`.
_ATTRIBUTES = ("n_features_in_", "codebooks_", "projections_", "intercepts_", "unit_projections_")


def check_name(widths: Mapping[str, int], view: str) -> None:
    """Refuse a view that was not fitted."""
    if view not in widths:
        raise ViewError(f"no view is called {view!r}; the model was fitted with {sorted(widths)}")


def check_view(widths: Mapping[str, int], X: Any, view: str) -> Matrix:
    """Return rows of a fitted view as a matrix; refuse another view or width."""
    check_name(widths, view)
    matrix = as_matrix(X, f"view '{view}'")
    check_width(matrix, widths[view], f"view '{view}'")
    return matrix


def count_paired(views: Mapping[str, Any], labels: Any = None) -> int:
    """Return how many rows all views and the labels have; raise ViewError where they differ."""
    lengths = {f"view '{name}'": matrix.shape[0] for name, matrix in views.items()}
    if labels is not None:
        lengths["the labels"] = labels.shape[0]
    if len(set(lengths.values())) > 1:
        rows = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ViewError(f"views and labels are paired by row, but have different rows ({rows})")
    return int(next(iter(lengths.values())))


def map_features(feature_maps: Mapping[str, Any], matrix: Matrix, view: str) -> Matrix:
    """Return a view's rows through its feature map, if it has one."""
    matrix = widened(matrix)
    if view not in feature_maps:
        return matrix
    if not matrix.shape[0]:  # scikit-learn's own maps refuse to say how wide no rows are
        return feature_maps[view].transform(np.zeros((1, matrix.shape[1])))[:0]
    return feature_maps[view].transform(matrix)


def mapped_blocks(
    feature_maps: Mapping[str, Any], matrix: Matrix, view: str
) -> Iterator[tuple[slice, Matrix]]:
    """Yield rows of a checked view through its feature map, some at a time."""
    for rows in slices(matrix.shape[0], CHUNK_ROWS):
        yield rows, map_features(feature_maps, matrix[rows], view)


def widened(matrix: Matrix) -> Matrix:
    """Return half precision, in which nothing is computed, as single; a block at a time."""
    return matrix.astype(np.float32) if matrix.dtype == np.float16 else matrix


@dataclass(frozen=True, eq=False)
class QueryMaps:
    """What turns queries of any view into vectors: part of a fitted `acqh.ACQH`."""

    widths: Mapping[str, int]  # features of each view
    codebooks: Floats  # (n_codebooks, codebook_size, n_components)
    projections: Mapping[str, Floats]  # each (n_mapped_features, n_components)
    intercepts: Mapping[str, Floats]  # each (n_components,)
    # each (n_mapped_features, n_components): from features scaled to unit length,
    # added; only for views that need it.
    units: Mapping[str, Floats]
    feature_maps: Mapping[str, Any]

    def project(self, X: Any, *, view: str) -> Floats:
        """Return query vectors, (n_queries, n_components); see `acqh.ACQH.project`."""
        matrix = check_view(self.widths, X, view)
        out = np.empty((matrix.shape[0], self.codebooks.shape[2]), self.codebooks.dtype)
        for rows, block in mapped_blocks(self.feature_maps, matrix, view):
            out[rows] = block @ self.projections[view] + self.intercepts[view]
            if view in self.units:
                out[rows] += unit_rows(block) @ self.units[view]
        return out


class _StoredMaps(Mapping[str, Any]):
    """Feature maps of a bundle, each made when it is first asked for."""

    def __init__(self, described: Mapping[str, Any], arrays: dict[str, Any]) -> None:
        self._described = described
        self._arrays = arrays
        self._made: dict[str, Any] = {}

    def __getitem__(self, view: str) -> Any:
        if view not in self._made:
            self._made[view] = unpack(self._described[view], self._arrays, HOMES, whole=False)
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
            raise CorruptBundleError(f"{path} does not describe a method")
    arrays = bundle.arrays(MEMBER)
    try:
        found = {name: unpack(attributes[name], arrays, HOMES, whole=False) for name in _ATTRIBUTES}
        described = dict(attributes["feature_maps_"]["dict"])
        maps = QueryMaps(*(*found.values(), _StoredMaps(described, arrays)))
        for attribute, hint in zip(_ATTRIBUTES, get_type_hints(QueryMaps).values(), strict=False):
            if not fits(found[attribute], hint):
                raise InvalidInputError(f"{attribute} is not a {hint}")
        check_sizes(found, params["n_codebooks"])
    except (InvalidInputError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptBundleError(f"{path} holds no readable 'acqh': {error}") from error
    return maps

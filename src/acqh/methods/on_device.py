"""Views that are tensors of torch: checked and projected where they lie."""

from collections.abc import Mapping
from typing import Any

from acqh._core.arrays import as_matrix, is_sparse, is_tensor, to_numpy, unit_rows
from acqh._core.device import (
    Tensor,
    check_device,
    first_bad_row,
    row_blocks,
    tensor_dtype,
    to_tensor,
)
from acqh._core.imports import require
from acqh.errors import ViewError
from acqh.methods.collect import map_tensors
from acqh.methods.query_maps import QueryMaps


def find_device(views: Any, labels: Any, device: str | None) -> Any:
    """Return the device to compute on: as named, that of the first tensor, or None for the host.

    Raises DeviceError: the device is not available.
    """
    if device is not None:
        return check_device(device)
    arrays = [*views.values(), labels] if isinstance(views, Mapping) else [labels]
    return next((value.device for value in arrays if is_tensor(value)), None)


def to_host(views: Any, labels: Any) -> tuple[Any, Any]:
    """Return views and labels with arrays in place of tensors."""
    if isinstance(views, Mapping):
        views = {name: to_numpy(rows)[0] for name, rows in views.items()}
    return views, to_numpy(labels)[0]


def read_tensors(views: Mapping[str, Any], device: Any) -> dict[str, Any]:
    """Check views, and bring tensors to one device; arrays go there block by block.

    Raises ViewError: a view is no dense matrix of finite numbers.
    """
    return {name: _read(value, name, device) for name, value in views.items()}


def _read(value: Any, name: str, device: Any) -> Any:
    if not is_tensor(value):
        matrix = as_matrix(value, f"view '{name}'")
        if is_sparse(matrix):
            raise ViewError(f"view '{name}' is sparse, which devices do not take; give dense rows")
        return matrix
    tensor = value.detach().to(device)
    if tensor.ndim != 2 or not tensor.shape[1]:
        raise ViewError(
            f"view '{name}' has shape {tuple(tensor.shape)}; give a matrix of shape (items, "
            "features)"
        )
    if tensor.dtype.is_complex or tensor.is_sparse or tensor.layout != require("torch").strided:
        raise ViewError(f"view '{name}' is sparse or complex; give a dense tensor of real numbers")
    row = first_bad_row(tensor)
    if row is not None:
        raise ViewError(
            f"view '{name}' has a NaN or infinite value in row {row}; remove or impute it"
        )
    return tensor


def project_tensor(matrix: Any, view: str, maps: QueryMaps, device: Any, max_memory: int) -> Tensor:
    """Return query vectors, (n_queries, n_components), in the precision of the codebooks."""
    torch = require("torch")
    dtype = tensor_dtype(maps.codebooks.dtype)
    weights = to_tensor(maps.projections[view], device, dtype)
    offset = to_tensor(maps.intercepts[view], device, dtype)
    vectors = torch.empty((len(matrix), len(offset)), dtype=dtype, device=device)
    per_row = max(3 * dtype.itemsize * len(weights), 8 * matrix.shape[1])
    for rows in row_blocks(len(matrix), per_row, max_memory):
        block = {view: to_tensor(matrix[rows], device)}
        mapped = map_tensors(maps.feature_maps, block)[view].to(dtype)
        torch.addmm(offset, mapped, weights, out=vectors[rows])
        if view in maps.units:
            vectors[rows] += unit_rows(mapped) @ to_tensor(maps.units[view], device, dtype)
    return vectors

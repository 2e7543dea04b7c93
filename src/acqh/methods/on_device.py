"""Views that are tensors of torch: checked and mapped where they lie."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from acqh._core.arrays import Floats, as_matrix, count_paired, is_sparse, is_tensor, unit_rows
from acqh._core.device import (
    MAX_MEMORY,
    Tensor,
    check_device,
    first_bad_row,
    row_blocks,
    tensor_dtype,
    to_tensor,
)
from acqh._core.imports import require
from acqh._core.labels import as_label_matrix
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.features import Condition
from acqh.methods.collect import (
    CONDITION_ROWS,
    MappedStatistics,
    as_step,
    bounded,
    check_labelled,
    check_same,
    is_kernel,
    make_map,
    map_tensors,
    maps_by_view,
    unit_name,
)
from acqh.methods.query_maps import QueryMaps
from acqh.stats import Keep, Statistics


@dataclass(frozen=True)
class TensorData:
    """Items whose views are looked at on one device; every item has every view."""

    # each (n_items, n_features): tensors on the device, or arrays on the host, which go
    # there block by block.
    views: dict[str, Tensor]
    # 0/1 (n_items, n_labels) or None: a tensor on the same device, or an array or CSR on the host.
    labels: Any
    label_names: tuple[str, ...]
    device: Any

    def __len__(self) -> int:
        return int(next(iter([*self.views.values(), self.labels])).shape[0])

    def blocks(self, bytes_per_row: int, max_memory: int) -> Iterator[tuple[slice, dict[str, Any]]]:
        """Yield rows of all views, as many at a time as memory allows."""
        brought = sum(8 * it.shape[1] for it in self.views.values() if not is_tensor(it))
        for rows in row_blocks(len(self), max(bytes_per_row, brought, 1), max_memory):
            yield rows, {name: to_tensor(it[rows], self.device) for name, it in self.views.items()}


def read_tensors(
    views: Mapping[str, Any],
    labels: Any = None,
    *,
    device: str | None = None,
    names: tuple[str, ...] | None = None,
) -> TensorData:
    """Check that views are paired matrices of numbers, and bring tensors to one device.

    Parameters
    ----------
    views : mapping of str to (n_items, n_features)
    labels : optional
        A 0/1 tensor, or any form that arrays come with.
    device : str, optional
        By default that of the first tensor; the others are moved there.
    names : tuple of str, optional
        Of the label columns.

    Raises
    ------
    DeviceError
        The device is not available.
    InvalidInputError, LabelError, ViewError
        What is given is not a matrix of numbers, or rows do not fit.
    """
    if device is None:
        place = next(it.device for it in [*views.values(), labels] if is_tensor(it))
    else:
        place = check_device(device)
    tensors = {name: _as_matrix(it, name, place) for name, it in views.items()}
    if labels is not None:
        labels, names = _read_labels(labels, names, place)
    if count_paired(tensors, labels) == 0:
        raise InvalidInputError("there are no items")
    return TensorData(tensors, labels, names or (), place)


def _as_matrix(value: Any, name: str, device: Any) -> Tensor:
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
    return tensor


def _read_labels(
    labels: Any, names: tuple[str, ...] | None, device: Any
) -> tuple[Any, tuple[str, ...]]:
    if not is_tensor(labels):
        return as_label_matrix(labels, names)
    if labels.ndim == 1:  # class ids: one number per item
        return as_label_matrix(labels.cpu().numpy(), names)
    if labels.ndim != 2 or not labels.shape[1]:
        raise LabelError(
            f"labels have shape {tuple(labels.shape)}; give a 0/1 tensor, or class ids"
        )
    if names is not None and len(names) != labels.shape[1]:
        raise LabelError(f"labels have {labels.shape[1]} columns, but {len(names)} were fitted")
    return labels.to(device), names or tuple(map(str, range(labels.shape[1])))


def collect_tensors(data: TensorData, known: MappedStatistics, max_memory: int) -> MappedStatistics:
    """Sum over tensors in one pass, as `collect` does over arrays; raises what it does."""
    check_labelled(data, known.statistics.keep)
    check_same(data, known)
    statistics = known.sums_of_none()
    labels = data.labels
    if labels is None:
        labels = np.zeros((len(data), len(known.label_names)), dtype=np.uint8)
    # Mapped rows beside what the sums take, which is bounded there.
    for rows, block in data.blocks(8 * sum(statistics.widths.values()), max_memory // 2):
        ready = {view: to_tensor(it[rows], data.device) for view, it in known.left_out.items()}
        others = {view: it for view, it in block.items() if view not in ready}
        mapped = known.map_on_device(others) | ready
        statistics.update(mapped, labels[rows], rows=block, max_memory=max_memory // 2)
    _check_finite(data, statistics)
    if statistics.n_items == 0:
        raise LabelError("no item has a label, so there is nothing to learn from")
    return replace(known, statistics=statistics, left_out={})


def _check_finite(data: TensorData, statistics: Statistics) -> None:
    """Look for the row that made sums something else than numbers."""
    found = statistics.patterns.values()
    if all(np.isfinite(np.trace(upper)) for it in found for upper in it.uppers.values()):
        return
    for name, matrix in data.views.items():
        check_finite(matrix, name)


def check_finite(matrix: Tensor, name: str) -> None:
    """Refuse NaN and infinities in a tensor, and name the row; arrays were looked at before."""
    row = first_bad_row(matrix) if is_tensor(matrix) else None
    if row is not None:
        raise ViewError(
            f"view '{name}' has a NaN or infinite value in row {row}; remove or impute it"
        )


def describe_tensors(
    data: TensorData,
    feature_maps: Any,
    keep: Keep | None,
    *,
    units: tuple[str, ...] = (),
    responses: Floats | None = None,
    rng: np.random.Generator | None = None,
    max_memory: int = MAX_MEMORY,
) -> MappedStatistics:
    """Return what all parts must be like, with sums of none, as `describe` does of arrays."""
    kinds = maps_by_view(feature_maps, data.views)
    if not all(kind is None or is_kernel(kind) for kind in kinds.values()):
        raise InvalidInputError(
            "feature maps are made of arrays, all but kernels, but the views are tensors; map the "
            "features before (or give arrays, and device= for the sums)"
        )
    types = [to_tensor(matrix[:1], data.device).dtype for matrix in data.views.values()]
    is_single = all(kind.itemsize <= (4 if kind.is_floating_point else 2) for kind in types)
    maps: dict[str, Any] = {}
    left_out: dict[str, Any] = {}
    outputs = {}
    for name, matrix in data.views.items():
        some = to_tensor(matrix[:: max(1, len(matrix) // CONDITION_ROWS)], data.device)
        check_finite(some, name)
        condition = Condition().fit(some)
        steps = [condition] if condition.is_needed else []
        if kinds.get(name) is not None:
            made = bounded(_make_kernel(kinds[name], rng), max_memory)
            features = _fit_kernel(steps, matrix, made, data, responses)
            steps = [*steps, made]
            outputs[name] = features.shape[1]
            if responses is not None:
                left_out[name] = features
        if steps:
            maps[name] = as_step(steps)
    widths = {name: matrix.shape[1] for name, matrix in data.views.items()}
    outputs = widths | outputs
    unit_widths = {unit_name(view): outputs[view] for view in units}
    return MappedStatistics(
        statistics=Statistics(outputs | unit_widths, len(data.label_names), keep),
        feature_maps=maps,
        widths=widths,
        label_names=data.label_names,
        dtype=np.dtype(np.float32 if is_single else np.float64),
        units=units,
        left_out=left_out,
    )


def _make_kernel(kind: Any, rng: np.random.Generator | None) -> Any:
    made = make_map(kind, rng)
    if isinstance(made, Pipeline):
        raise InvalidInputError(
            "a kernel map of tensors has no maps before it, got a pipeline; map the features before"
        )
    return made


def _fit_kernel(
    before: list[Any], matrix: Any, made: Any, data: TensorData, responses: Floats | None
) -> Any:
    """Fit a kernel map on the device; return features of the first rows, or left out of all."""
    rows = to_tensor(matrix, data.device)
    for step in before:
        rows = step.transform(rows)
    if responses is None:
        return made.fit(rows).transform(rows[:1])
    known = np.isfinite(responses).all(axis=1)
    if known.all():
        return made.fit_to(rows, responses)
    here = to_tensor(np.flatnonzero(known), data.device)
    found = made.fit_to(rows[here], responses[known])
    features = found.new_zeros((len(rows), found.shape[1]))
    features[here] = found
    return features


def project_tensor(data: TensorData, view: str, own: QueryMaps, max_memory: int) -> Tensor:
    """Return query vectors, (n_queries, n_components), in the precision of the codebooks."""
    torch = require("torch")
    dtype = tensor_dtype(own.codebooks.dtype)
    weights = to_tensor(own.projections[view], data.device, dtype)
    offset = to_tensor(own.intercepts[view], data.device, dtype)
    found = torch.empty((len(data), len(offset)), dtype=dtype, device=data.device)
    for rows, block in data.blocks(3 * dtype.itemsize * len(weights), max_memory):
        mapped = map_tensors(own.feature_maps, block)[view].to(dtype)
        torch.addmm(offset, mapped, weights, out=found[rows])
        if view in own.units:
            found[rows] += unit_rows(mapped) @ to_tensor(own.units[view], data.device, dtype)
    return found

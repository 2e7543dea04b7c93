"""Queries and items that are tensors: vectors and codes on the device they lie on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh._core.device import Tensor, tensor_dtype, to_tensor, unit_rows
from acqh._core.imports import require
from acqh._core.linalg import RANK_TOLERANCE
from acqh.errors import LabelError
from acqh.methods.acqh.fold import ItemMaps
from acqh.methods.acqh.label_space import LabelSpace
from acqh.methods.acqh.space import TargetSpace
from acqh.methods.acqh.targets import LABELS
from acqh.methods.collect import map_tensors
from acqh.methods.query_maps import QueryMaps
from acqh.methods.tensors import TensorData, check_finite
from acqh.quantize import search_codes
from acqh.stats import LabelSets
from acqh.stats.on_device import number_tensor


def project_tensor(data: TensorData, view: str, own: QueryMaps, max_memory: int) -> Tensor:
    """Return query vectors, (n_queries, n_components), in the precision of the codebooks."""
    torch = require("torch")
    dtype = tensor_dtype(own.codebooks.dtype)
    weights = to_tensor(own.projections[view], data.device, dtype)
    offset = to_tensor(own.intercepts[view], data.device, dtype)
    found = torch.empty((len(data), len(offset)), dtype=dtype, device=data.device)
    check_finite(data.views[view], view)
    for rows, block in data.blocks(3 * dtype.itemsize * len(weights), max_memory):
        mapped = map_tensors(own.feature_maps, block)[view].to(dtype)
        torch.addmm(offset, mapped, weights, out=found[rows])
        if view in own.units:
            found[rows] += unit_rows(mapped) @ to_tensor(own.units[view], data.device, dtype)
    return found


@dataclass(frozen=True)
class TensorCoder:
    """From items that are known by tensors to their code vectors and codes."""

    space: LabelSpace | TargetSpace
    feature_maps: Mapping[str, Any]
    codebooks: Floats  # (n_codebooks, codebook_size, n_components)
    metric: Floats | None  # (n_components, n_components); None: the identity
    # From code vectors to codes, on the host: for label sets never seen.
    search: Callable[[Floats], Array]
    max_memory: int

    def encode(self, data: TensorData) -> Tensor:
        """Return codes, uint8 (n_items, n_codebooks)."""
        torch = require("torch")
        codebooks = to_tensor(self.codebooks, data.device)
        metric = None if self.metric is None else to_tensor(self.metric, data.device)
        codes = torch.empty((len(data), len(codebooks)), dtype=torch.uint8, device=data.device)
        sets, numbers = self._sets(data)
        for rows, chosen, vectors in self._by_sources(data, sets, numbers):
            linear = vectors if metric is None else vectors @ metric
            codes[rows][chosen] = search_codes(
                linear, codebooks, metric=metric, max_memory=self.max_memory // 2
            )
        if isinstance(self.space, LabelSpace) and len(sets):
            known = self.space.codes_of(sets, self.search)
            here = numbers >= 0
            codes[here] = to_tensor(known, data.device)[numbers[here]]
        return codes

    def vectors(self, data: TensorData) -> Tensor:
        """Return code vectors, (n_items, n_components)."""
        torch = require("torch")
        dtype = tensor_dtype(self.codebooks.dtype)
        shape = (len(data), self.codebooks.shape[2])
        found = torch.empty(shape, dtype=dtype, device=data.device)
        sets, numbers = self._sets(data)
        for rows, chosen, vectors in self._by_sources(data, sets, numbers):
            found[rows][chosen] = vectors.to(dtype)
        if isinstance(self.space, LabelSpace) and len(sets):
            here = numbers >= 0
            own = to_tensor(self.space.by_sets(sets), data.device, dtype)
            found[here] = own[numbers[here]]
        return found

    def _sets(self, data: TensorData) -> tuple[Array, Tensor]:
        """Return the label sets of items, those that were fitted first, and each item's number."""
        torch = require("torch")
        if data.labels is None:
            numbers = torch.full((len(data),), -1, dtype=torch.int64, device=data.device)
            return np.zeros((0, 0), dtype=np.uint8), numbers
        sets = LabelSets(data.labels.shape[1])
        if isinstance(self.space, LabelSpace):
            sets = LabelSets.from_packed(self.space.label_sets, data.labels.shape[1])
        numbers = number_tensor(sets, data.labels, data.device)
        if not data.views and bool((numbers < 0).any()):
            row = int((numbers < 0).to(torch.uint8).argmax())
            raise LabelError(
                f"item {row} has no labels; give its views too, and it is coded by them"
            )
        return sets.matrix(), numbers

    def _by_sources(self, data: TensorData, sets: Array, numbers: Tensor) -> Any:
        """Yield rows, which of them, and their code vectors in float64.

        Items that have labels are left out where labels alone say what their code is.
        """
        views = [*data.views]
        groups: list[tuple[bool, list[str]]] = [(False, views)] if views else []
        features: Any = None
        if isinstance(self.space, TargetSpace) and data.labels is not None:
            groups.append((True, [*views, LABELS]))
            features = to_tensor(self.space.label_features(sets), data.device)
        folded = [
            (known, _DeviceMaps(self.space.fold_items(of), data.device)) for known, of in groups
        ]
        width = sum(len(it) for maps in folded[:1] for it in maps[1].maps.values())
        for name, matrix in data.views.items():
            check_finite(matrix, name)
        if not views:
            if folded:
                yield slice(None), numbers >= 0, folded[0][1].apply({LABELS: features[numbers]})
            return
        for rows, block in data.blocks(16 * width, self.max_memory // 2):
            mapped = map_tensors(self.feature_maps, block)
            for has_labels, maps in folded:
                chosen = (numbers[rows] >= 0) == has_labels
                if not bool(chosen.any()):
                    continue
                known = {name: it[chosen] for name, it in mapped.items()}
                if has_labels:
                    known[LABELS] = features[numbers[rows][chosen]]
                yield rows, chosen, maps.apply(known)


class _DeviceMaps:
    """The maps of `ItemMaps`, on a device."""

    def __init__(self, own: ItemMaps, device: Any) -> None:
        self.maps = {name: to_tensor(it, device) for name, it in own.maps.items()}
        self.units = {name: to_tensor(it, device) for name, it in own.units.items()}
        self.offset = to_tensor(own.offset, device)
        self.target_map = None if own.target_map is None else to_tensor(own.target_map, device)
        self.usual = own.usual

    def apply(self, known: Mapping[str, Tensor]) -> Tensor:
        """Return the code vectors of rows."""
        total = self.offset
        for name, rows in known.items():
            wide = rows.to(self.offset.dtype)
            total = total + wide @ self.maps[name]
            if name in self.units:
                total = total + unit_rows(wide) @ self.units[name]
        if self.usual is not None:
            total = _scale(total, *self.usual)
        return total if self.target_map is None else total @ self.target_map


def _scale(described: Tensor, mean: Floats, usual: float) -> Tensor:
    """Return blocks of items of the usual length: the twin of `TargetSpace.scale`."""
    centre = to_tensor(mean, described.device)
    away = described - centre
    along, lengths = away @ centre, (away * away).sum(dim=1)
    room = max(usual - float(mean @ mean), 0.0)
    steps = (along**2 + lengths * room).sqrt() - along
    known = lengths > RANK_TOLERANCE**2 * usual
    steps = (steps / lengths.masked_fill(~known, 1.0)).masked_fill(~known, 0.0)
    return centre + steps[:, None] * away

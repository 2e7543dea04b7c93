"""Everything between the views of an item and its vector, folded into one map per view."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from acqh._core.arrays import Floats
from acqh.methods.acqh._blocks import Block, fuse_predictions
from acqh.methods.acqh._label_space import LabelSpace
from acqh.methods.acqh._predictions import Predictor, Vote, fuse
from acqh.methods.acqh._space import TargetSpace


@dataclass(frozen=True)
class ItemMaps:
    """Vectors of items that are known by certain sources: a sum of linear maps."""

    maps: dict[str, Floats]  # each (n_features, n_dimensions): of every source
    # each (n_features, n_dimensions): of rows scaled to unit length, for some sources.
    units: dict[str, Floats]
    offset: Floats  # (n_dimensions,)
    # (n_dimensions, n_components): comes after; None where the sum is the code vector.
    target_map: Floats | None = None
    # (n_dimensions,) and a number: mean and mean squared length by which the sum is scaled
    # before that; None: not at all.
    usual: tuple[Floats, float] | None = None


def fold_items(space: LabelSpace | TargetSpace, sources: Sequence[str]) -> ItemMaps:
    """Return the maps of items that are known by these sources and no others.

    The views' votes are weighted by matrices that do not depend on the item, so what
    `LabelSpace.vectors` and `TargetSpace.vectors` compute is linear in each source.
    """
    if isinstance(space, LabelSpace):
        return _fold_labels(space, sources)
    maps: dict[str, list[Floats]] = {name: [] for name in sources}
    units: dict[str, list[Floats]] = {name: [] for name in sources}
    offsets = []
    for name, block in space.blocks.items():
        scale = np.sqrt(block.target.weight)
        found, offset = _fold_block(space, name, block, sources)
        offsets.append(scale * offset)
        for source in sources:
            width = _width(space, source)
            part = scale * found.get(source, np.zeros((width, block.rank)))
            is_unit = block.is_unit and block.source == source
            maps[source].append(np.zeros_like(part) if is_unit else part)
            units[source].append(part if is_unit else np.zeros_like(part))
    folded = {source: np.concatenate(parts, axis=1) for source, parts in maps.items()}
    of_units = {source: np.concatenate(parts, axis=1) for source, parts in units.items()}
    return ItemMaps(
        folded,
        {source: it for source, it in of_units.items() if it.any()},
        np.concatenate(offsets),
        space.target_map,
        space.usual if space.is_normalized else None,
    )


def _fold_labels(space: LabelSpace, views: Sequence[str]) -> ItemMaps:
    own = {view: space.predictors[view] for view in views}
    maps, offset = _fold_votes(own, fuse, np.zeros(space.target_map.shape[1]))
    return ItemMaps(maps, {}, offset)


def _fold_block(
    space: TargetSpace, name: str, block: Block, sources: Sequence[str]
) -> tuple[dict[str, Floats], Floats]:
    """Return the maps of one block, by source, and what is added."""
    if block.source not in sources:
        return _fold_predictions(space, name, block, sources)
    others = [source for source in sources if source != block.source]
    trust = space.trust_of(name, others)
    if trust == 1:
        return {block.source: block.map}, block.offset
    maps, offset = _fold_predictions(space, name, block, others)
    maps = {source: (1 - trust) * it for source, it in maps.items()}
    return maps | {block.source: trust * block.map}, trust * block.offset + (1 - trust) * offset


def _fold_predictions(
    space: TargetSpace, name: str, block: Block, sources: Sequence[str]
) -> tuple[dict[str, Floats], Floats]:
    own = {it: space.predictors[it][name] for it in sources if name in space.predictors[it]}
    if not own:
        return {}, block.mean
    return _fold_votes(own, partial(fuse_predictions, block), block.mean)


def _fold_votes(
    own: Mapping[str, Predictor], combine: Callable[[Sequence[Vote]], Floats], mean: Floats
) -> tuple[dict[str, Floats], Floats]:
    """Return the map of each source in what votes are combined to, and what is added."""
    maps: dict[str, Floats] = {}
    for source, predictor in own.items():
        # All others say what is known without them, so that this one's share is left.
        points = predictor.coefficients + mean
        rest = np.broadcast_to(mean, points.shape)
        votes = [(it, points if it is predictor else rest) for it in own.values()]
        maps[source] = combine(votes) - mean
    return maps, combine([(it, it.intercept[None]) for it in own.values()])[0]


def _width(space: TargetSpace, source: str) -> int:
    for block in space.blocks.values():
        if block.source == source:
            return len(block.map)
    return len(next(iter(space.predictors[source].values())).coefficients)

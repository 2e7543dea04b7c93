"""Everything between the views of an item and its vector, folded into one map per view."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Floats
from acqh.methods.acqh.predictions import Predictor, Vote


@dataclass(frozen=True)
class ItemMaps:
    """Vectors of items that are known by certain sources and no others: a sum of linear maps.

    The sources' votes are weighted by matrices that do not depend on the item, so what `vectors`
    of a space computes is linear in each source.
    """

    maps: Mapping[str, Floats]  # each (n_features, n_dimensions): of every source
    # each (n_features, n_dimensions): of rows scaled to unit length, for some sources.
    units: Mapping[str, Floats]
    offset: Floats  # (n_dimensions,)
    # (n_dimensions, n_components): comes after; None where the sum is the code vector.
    target_map: Floats | None = None
    # (n_dimensions,) and a number: mean and mean squared length by which the sum is scaled
    # before that; None: not at all.
    usual: tuple[Floats, float] | None = None


def fold_votes(
    own: Mapping[str, Predictor], combine: Callable[[Sequence[Vote]], Floats], mean: Floats
) -> tuple[dict[str, Floats], Floats]:
    """Return the map of each source in what votes are combined to, and what is added.

    `own`: of every source. `mean`: what is known without any.
    """
    if not own:
        return {}, mean
    if len(own) == 1:
        ((source, only),) = own.items()
        return {source: only.coefficients}, only.intercept
    maps: dict[str, Floats] = {}
    for source, predictor in own.items():
        # All others say what is known without them, so that this one's share is left.
        points = predictor.coefficients + mean
        rest = np.broadcast_to(mean, points.shape)
        votes = [(it, points if it is predictor else rest) for it in own.values()]
        maps[source] = combine(votes) - mean
    return maps, combine([(it, it.intercept[None]) for it in own.values()])[0]

"""How much what is known of an item counts beside what its other views predict of it."""

from dataclasses import replace

import numpy as np

from acqh._core.arrays import Bools, Ints
from acqh.methods._statistics import MappedStatistics
from acqh.methods._target import AUTO
from acqh.methods.acqh._blocks import Block
from acqh.methods.acqh._items import Items
from acqh.methods.acqh._space import TargetSpace
from acqh.stats import RowSample

TRUSTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
# Of the rows that their own features find with full trust, how many must still be found.
_KEPT = 0.95
_N_FIRST = 10
# Where no row has both, so that none can be asked for; rows that could came to 0.1 or 0.2.
_UNSEEN = 0.2
# Rows of the sample that are looked for, and among which.
_MAX_ASKED, _MAX_ROWS = 512, 2_048


def settle_trust(space: TargetSpace, collected: MappedStatistics, sample: RowSample) -> TargetSpace:
    """Choose the trust of every target that leaves it open.

    Two items of which one has a caption and one has not are compared with a typed text by numbers
    of different kinds, a similarity of texts and an expectation of it, which is far nearer to
    zero. The first kind leads every list. So captions count as little as they may without losing
    what they are there for: an item is to be found by its own.

    The space comes before its maps, and goes with numbers for all trusts; `sample` are rows of the
    collection, which alone decide.
    """
    names = [name for name, block in space.blocks.items() if block.target.trust == AUTO]
    for name in names:
        space = _settled(space, name, 1.0)
    for name in names:
        block = space.blocks[name]
        space = _settled(space, name, _least_trust(space, name, block, collected, sample))
    return space


def _settled(space: TargetSpace, name: str, trust: float) -> TargetSpace:
    block = space.blocks[name]
    block = replace(block, target=replace(block.target, trust=trust))
    return replace(space, blocks={**space.blocks, name: block})


def _least_trust(
    space: TargetSpace, name: str, block: Block, collected: MappedStatistics, sample: RowSample
) -> float:
    rows = sample.first(_MAX_ROWS)
    others = [view for view in rows.views if name in space.predictors[view]]
    has_both = np.any([rows.present[view] for view in others], axis=0) if others else False
    asked = np.flatnonzero(has_both & rows.present.get(block.source, np.False_))
    # Rows that stand in for others count less, and come last.
    asked = asked[np.argsort(-rows.counts[asked], kind="stable")][:_MAX_ASKED]
    if not asked.size:
        return _UNSEEN
    weights = rows.counts[asked]
    found = {
        trust: weights
        @ _finds_itself(_settled(space, name, trust), block.source, collected, rows, asked)
        for trust in TRUSTS
    }
    enough = _KEPT * found[1.0]
    return next(trust for trust, each in found.items() if each >= enough)


def _finds_itself(
    space: TargetSpace, source: str, collected: MappedStatistics, rows: RowSample, asked: Ints
) -> Bools:
    """Say of some rows whether their features of one view find them among the first ten."""
    features = collected.map_rows({source: rows.views[source][asked]})
    queries = space.describe(features)
    items = Items.of(rows.views, rows.present, rows.labels if space.knows_labels else None)
    vectors = np.empty((len(rows), queries.shape[1]))
    for chosen, described in space.blocks_of(items, collected.map_rows):
        vectors[chosen] = space.scale(described)
    scores = queries @ vectors.T
    own = scores[np.arange(len(asked)), asked]
    return np.asarray((scores > own[:, np.newaxis]).sum(axis=1) < _N_FIRST)

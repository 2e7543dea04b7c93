"""How much what is known of an item counts beside what its other views predict of it."""

from dataclasses import replace

import numpy as np

from acqh._core.arrays import Ints
from acqh.methods.acqh.blocks import Block
from acqh.methods.acqh.items import Items, MapRows
from acqh.methods.acqh.space import TargetSpace
from acqh.methods.target import AUTO
from acqh.stats import RowSample

# How many times their share of the hits rows may take that have what is trusted.
_MAX_EXCESS = 1.1
# Among fewer rows than this, the first ten say little of the share.
_MIN_ROWS = 100
TRUSTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
# Of the rows that their own features find with full trust, how many must still be found.
_KEPT = 0.95
_N_FIRST = 10
# Where no row has both, so that none can be asked for; rows that could came to 0.1 or 0.2.
_UNSEEN = 0.2
# Rows of the sample that are looked for, and among which.
_MAX_ASKED, _MAX_ROWS = 512, 2_048


def settle_trust(space: TargetSpace, map_rows: MapRows, sample: RowSample) -> TargetSpace:
    """Choose the trust of every target that leaves it open.

    Two items of which one has a caption and one has not are compared with a typed text by numbers
    of different kinds, a similarity of texts and an expectation of it. Where images say most of
    what captions do, the two are alike, and captions count as much as they can. Otherwise the
    second is far nearer to zero, and the first kind leads every list. Then captions count as little
    as they may without losing what they are there for: an item is to be found by its own.

    The space comes before its maps, and goes with numbers for all trusts; `sample` are rows of the
    collection, which alone decide.
    """
    names = [name for name, block in space.blocks.items() if block.target.trust == AUTO]
    for name in names:
        space = _settled(space, name, 1.0)
    for name in names:
        block = space.blocks[name]
        space = _settled(space, name, _choose_trust(space, name, block, map_rows, sample))
    return space


def _settled(space: TargetSpace, name: str, trust: float) -> TargetSpace:
    block = space.blocks[name]
    block = replace(block, target=replace(block.target, trust=trust))
    return replace(space, blocks={**space.blocks, name: block})


def _choose_trust(
    space: TargetSpace, name: str, block: Block, map_rows: MapRows, sample: RowSample
) -> float:
    rows = sample.first(_MAX_ROWS)
    others = [view for view in rows.views if name in space.predictors[view]]
    has_both = np.any([rows.present[view] for view in others], axis=0) if others else False
    asked = np.flatnonzero(has_both & rows.present.get(block.source, np.False_))
    # Rows that stand in for others count less, and come last.
    asked = asked[np.argsort(-rows.counts[asked], kind="stable")][:_MAX_ASKED]
    if not asked.size:
        return _UNSEEN
    trials = {
        trust: _try(_settled(space, name, trust), block.source, map_rows, rows, asked)
        for trust in TRUSTS
    }
    fair = [trust for trust, (_, excess) in trials.items() if excess <= _MAX_EXCESS]
    if fair:
        return max(fair)
    enough = _KEPT * trials[1.0][0]
    return next(trust for trust, (found, _) in trials.items() if found >= enough)


def _try(
    space: TargetSpace, source: str, map_rows: MapRows, rows: RowSample, asked: Ints
) -> tuple[float, float]:
    """Look for some rows by their features of one view, among all.

    Returns the weight of those that are among their own first ten, and how many times their share
    rows that have the view take of the other hits.
    """
    queries = space.describe(map_rows({source: rows.views[source][asked]}))
    items = Items.of(rows.views, rows.present, rows.labels if space.knows_labels else None)
    vectors = np.empty((len(rows), queries.shape[1]))
    for chosen, described in space.blocks_of(items, map_rows):
        vectors[chosen] = space.scale(described)
    scores = queries @ vectors.T
    places = np.arange(len(asked)), asked
    is_found = (scores > scores[places][:, np.newaxis]).sum(axis=1) < _N_FIRST
    scores[places] = -np.inf
    # Rows that stand in for others are not there to be found.
    is_real, has_view = rows.counts >= 1, rows.present[source]
    scores[:, ~is_real] = -np.inf
    excess = np.inf
    if is_real[asked].any() and is_real.sum() >= _MIN_ROWS:
        hits = np.argpartition(-scores[is_real[asked]], _N_FIRST, axis=1)[:, :_N_FIRST]
        excess = float(has_view[hits].mean() / has_view[is_real].mean())
    return float(rows.counts[asked] @ is_found), excess

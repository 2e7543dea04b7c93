"""Targets of any kind: from statistics to a space, codebooks, and what is left of the error."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from acqh._core.arrays import Floats
from acqh.errors import InvalidInputError
from acqh.methods.acqh.agreement import weigh_by_agreement
from acqh.methods.acqh.items import Items, MapRows
from acqh.methods.acqh.learn_space import SpaceSums
from acqh.methods.acqh.metric import blend_metric, second_moment, weighted_gram
from acqh.methods.acqh.similarity import embed
from acqh.methods.acqh.solve import Fitted, Settings
from acqh.methods.acqh.space import TargetSpace
from acqh.methods.acqh.spectral import Components, SpectralMaps
from acqh.methods.acqh.targets import LABELS
from acqh.methods.acqh.trust import settle_trust
from acqh.methods.collect import MappedStatistics
from acqh.methods.target import Target
from acqh.stats import RowSample, Statistics

# Vectors at most that codebooks are learnt from: rows of the sample in every way they are seen.
# Four times as many take four times as long, which is longer than all sums of 100,000 items.
MAX_POINTS = 8_192


def solve_space(
    collected: MappedStatistics,
    targets: Mapping[str, Target],
    queries: Mapping[str, RowSample],
    settings: Settings,
    rng: np.random.Generator,
    *,
    is_weighed: bool,
) -> Fitted:
    """Learn blocks, predictions, maps and codebooks.

    `collected`: with a sample of rows. `queries`: real ones. `is_weighed`: whether targets are
    weighted so that views agree, whatever their weights are.
    """
    collected = replace(collected, statistics=collected.statistics.compact())
    stats = collected.statistics
    embedding = None
    if LABELS in targets:
        embedding = embed(settings.similarity, stats.label_sets.matrix(), stats.counts, rng)
    sample = _sample_of(stats)
    sums = SpaceSums(collected, embedding, settings)
    blocks = sums.make_blocks(targets)
    predictors = sums.make_predictors(blocks)
    if is_weighed:
        blocks = weigh_by_agreement(blocks, sums.score_pairs(blocks, predictors, sample))
    nothing = np.zeros((0, 0))
    is_normalized = settings.normalize is not False
    space = TargetSpace(blocks, predictors, embedding, nothing, nothing, is_normalized)
    space = settle_trust(space, collected.map_views, sample)
    ways = _Ways(space, collected.map_views, sample, settings.known_share)
    parts = ways.points()
    weights = np.concatenate([weights for _, weights in parts])
    gram = np.sum([weighted_gram(*part) for part in parts], axis=0)
    metric = np.mean(ways.query_moments(), axis=0)
    share = 0.0
    if queries:
        described = [space.describe(collected.map_views(it.views)) for it in queries.values()]
        asked = np.concatenate(described)
        counts = np.concatenate([it.counts for it in queries.values()])
        n_bits = round(settings.n_codebooks * np.log2(settings.codebook_size))
        metric, share = blend_metric(metric, asked, counts, gram / weights.sum(), n_bits)
    found = Components.of_moment(gram, metric)
    maps = found.maps(float(weights.sum()), settings.n_components)
    points = np.concatenate([points @ maps.target_map for points, _ in parts])
    return _quantize(
        space, points, weights, maps, found.values / weights.sum(), share, settings, rng
    )


def _sample_of(stats: Statistics) -> RowSample:
    sample = stats.sample
    if sample is None or len(sample) == 0:
        raise InvalidInputError(
            "the statistics hold no sample of rows, which codebooks of these targets are learnt "
            "from; collect them with keep= and a sample size"
        )
    return sample


@dataclass(frozen=True)
class _Ways:
    """The rows of a sample in every way in which such items may be known."""

    space: TargetSpace
    map_rows: MapRows
    sample: RowSample
    known_share: float  # of the rows with all they have

    def points(self) -> list[tuple[Floats, Floats]]:
        """Return blocks of items and their weights, in parts.

        Rows with all they have, by their share, and with each view alone.
        """
        is_single = len(self._alone) == 1 and not self.space.knows_labels
        share = 1.0 if is_single else self.known_share
        found: list[tuple[Floats, Floats]] = []
        for part_share, part in ((share, [self._whole()]), (1 - share, self._alone)):
            total = sum(float(weights.sum()) for _, weights in part)
            if part_share:
                found += [
                    (self.space.scale(points), 2 * part_share * weights / total)
                    for points, weights in part
                ]
        return found

    def query_moments(self) -> list[Floats]:
        """Return the second moment of the queries of each view that any row has."""
        return [second_moment(points, weights) for points, weights in self._alone]

    def _rows(self) -> RowSample:
        n_ways = len(self.sample.views) + 1
        return self.sample.first(max(MAX_POINTS // n_ways, 1))

    def _whole(self) -> tuple[Floats, Floats]:
        rows = self._rows()
        labels = rows.labels if self.space.knows_labels else None
        items = Items.of(rows.views, rows.present, labels)
        found = [*self.space.blocks_of(items, self.map_rows)]
        points = np.concatenate([described for _, described in found])
        return points, rows.counts[np.concatenate([chosen for chosen, _ in found])]

    @cached_property
    def _alone(self) -> list[tuple[Floats, Floats]]:
        rows = self._rows()
        found = []
        for view in sorted(rows.views):
            here = np.flatnonzero(rows.present[view])
            if here.size:
                known = self.map_rows({view: rows.views[view][here]})
                found.append((self.space.describe(known), rows.counts[here]))
        return found


def _quantize(
    space: TargetSpace,
    points: Floats,
    weights: Floats,
    maps: SpectralMaps,
    energies: Floats,
    share: float,
    settings: Settings,
    rng: np.random.Generator,
) -> Fitted:
    """Find codebooks for points, as the maps have placed them."""
    n_components = settings.n_components
    trained = settings.train_codebooks(points, weights, rng, is_quick=True)
    bound = float(np.sum(energies[n_components:]))
    # Code vectors have a mean squared length of one, whatever the points have.
    unit = float(np.sum(energies[:n_components])) / weights.sum()
    extra = n_components - maps.target_map.shape[1]
    padding = [(0, 0), (0, extra)]
    space = replace(
        space,
        query_map=np.pad(maps.query_map, padding),
        target_map=np.pad(maps.target_map, padding),
    )
    folded = {view: space.fold(view) for view in space.predictors if view != LABELS}
    return Fitted(
        space=space,
        projections={view: parts[0] for view, parts in folded.items()},
        intercepts={view: parts[1] for view, parts in folded.items()},
        units={view: parts[2] for view, parts in folded.items() if parts[2] is not None},
        codebooks=np.pad(trained.codebooks, [(0, 0), *padding]),
        metric=None,
        objective=[bound + unit * float(error) for error in trained.history],
        lower_bound=bound,
        of_nothing=float(np.sum(energies)),
        ridges={
            source: {name: it.ridge for name, it in found.items()}
            for source, found in space.predictors.items()
        },
        query_share=share,
    )

"""From statistics to a space and codebooks, in closed form except for the quantization."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats, slices
from acqh._core.linalg import RANK_TOLERANCE, fix_signs
from acqh.errors import InvalidInputError
from acqh.methods.acqh.learn import (
    SpaceStatistics,
    choose_caption_weights,
    sample_blocks,
    weigh_by_agreement,
)
from acqh.methods.acqh.space import Space, embed
from acqh.methods.acqh.targets import LABELS, MapRows, Target
from acqh.methods.collect import MappedStatistics
from acqh.quantize import fit_codebooks
from acqh.stats.ridge import HELD_ROWS
from acqh.stats.sample import RowSample

# Points that are weighted at a time.
_BLOCK_ROWS = 1024
# Sweeps at most over codes, and the share of the error below which they end.
_SWEEPS, _TOLERANCE = 4, 1e-3
# Vectors at most that codebooks are trained on: sampled rows by all their sources and by each view.
# Four times as many take four times as long, which is longer than the statistics of 100,000 items.
MAX_POINTS = 8_192
# Rows by each view if labels are the only target: predictions of labels have few dimensions.
_LABEL_ROWS = 1_024


@dataclass(frozen=True)
class Solution:
    """A solved model: the space, its codebooks, and their error."""

    space: Space
    codebooks: Floats  # (n_codebooks, codebook_size, n_components)
    objective: list[float]  # after each sweep
    lower_bound: float
    zero_objective: float  # of codes that are all zero
    code_metric: Floats | None = None  # in which codes are nearest to their targets; None: identity

    @property
    def optimality_gap(self) -> float:
        """Distance of the objective from the bound, as a share of the bound."""
        gap = max(self.objective[-1] - self.lower_bound, 0.0)
        is_zero = abs(self.lower_bound) <= RANK_TOLERANCE * self.zero_objective
        share_of = self.zero_objective if is_zero else abs(self.lower_bound)
        return gap / share_of if share_of else 0.0


def solve(
    collected: MappedStatistics,
    targets: Mapping[str, Target],
    settings: Mapping[str, Any],
    rng: np.random.Generator,
    device: Any = None,
) -> Solution:
    """Find blocks, predictors, maps and codebooks.

    `settings`: the parameters of `acqh.ACQH`. If they give no targets, these are weighted so that
    views agree. `device`: where eigenvalues are computed and codebooks trained. Raises
    InvalidInputError: there is no sample of rows.
    """
    collected = replace(collected, statistics=collected.statistics.compact())
    stats, map_rows = collected.statistics, collected.map_sample
    embedding, sample = None, stats.sample
    if LABELS in targets:
        embedding = embed(settings["similarity"], stats.label_sets.matrix(), stats.counts, rng)
    if len(sample) == 0:
        raise InvalidInputError(
            "the statistics hold no sample of rows, which codebooks are trained on; collect them "
            "with a sample"
        )
    # Without rows held out, predictors of labels take 0.20 s instead of 0.32 (40,000 items).
    is_labels = [*targets] == [LABELS]
    statistics = SpaceStatistics(
        collected, embedding, settings["ridge"], 0 if is_labels else HELD_ROWS, device
    )
    blocks = {name: statistics.block_of(name, target) for name, target in targets.items()}
    predictors = statistics.make_predictors(blocks)
    if settings["targets"] is None and LABELS not in targets:
        blocks = weigh_by_agreement(blocks, statistics.score_pairs(blocks, predictors, sample))
    nothing = np.zeros((0, 0))
    # Items without labels must not rank above those with: with labels alone, none is scaled.
    is_normalized = settings["normalize_items"]
    if is_normalized is None:
        is_normalized = not is_labels
    space = Space(blocks, predictors, embedding, nothing, nothing, bool(is_normalized))
    space = choose_caption_weights(space, map_rows, sample)
    share = settings["complete_share"]
    if share is None:
        # All, if every item has all views and labels: so will those that are encoded. With a single
        # target, label sets are few points, and items that are encoded by their views need others.
        complete = {*stats.widths, LABELS} if len(targets) > 1 else set()
        share = 1.0 if all(set(pattern) == complete for pattern in stats.patterns) else 0.5
    parts, queries = _training_points(space, map_rows, sample, float(share))
    weights = np.concatenate([weights for _, weights in parts])
    total, n_components = float(weights.sum()), settings["n_components"]
    metric = np.mean([_second_moment(*part) for part in queries], axis=0)
    gram = np.sum([weighted_gram(*part) for part in parts], axis=0)
    root, inverse_root = metric_roots(metric)
    values, vectors = leading_eigenpairs(root @ gram @ root)
    query_map, target_map = spectral_maps(values, vectors, root, inverse_root, total, n_components)
    trained = fit_codebooks(
        np.concatenate([points @ target_map for points, _ in parts]),
        weights,
        settings["n_codebooks"],
        settings["codebook_size"],
        max_iter=_SWEEPS,
        tol=_TOLERANCE,
        rng=rng,
        device=device,
        is_quick=True,
    )
    energies = values / total
    bound = float(np.sum(energies[n_components:]))
    # Code vectors have a mean squared length of one, whatever the points have.
    unit = float(np.sum(energies[:n_components])) / total
    return Solution(
        replace(
            space,
            query_map=padded(query_map, n_components),
            target_map=padded(target_map, n_components),
        ),
        padded(trained.codebooks, n_components),
        [bound + unit * float(error) for error in trained.history],
        bound,
        float(np.sum(energies)),
    )


def _training_points(
    space: Space, map_rows: MapRows, sample: RowSample, share: float
) -> tuple[list[tuple[Floats, Floats]], list[tuple[Floats, Floats]]]:
    """Return blocks and weights of sampled rows: those to train codebooks on, and those of queries.

    Codebooks are trained on rows with all their sources, by their share, and on rows by each view
    alone, which are what queries are. If these are the same rows, more of them are used.
    """
    n_views = sum(bool(mask.any()) for mask in sample.present.values())
    is_one_source = n_views == 1 and LABELS not in space.blocks
    rows = sample.first(MAX_POINTS // (1 if is_one_source else n_views + 1))
    n_alone = _LABEL_ROWS if [*space.blocks] == [LABELS] else len(rows)
    alone = []
    for view in sorted(rows.views):
        positions = np.flatnonzero(rows.present[view])[:n_alone]
        if positions.size:
            features = map_rows({view: rows.views[view][positions]})
            alone.append((space.join_blocks(features), rows.counts[positions]))
    if is_one_source:
        share = 1.0
    complete = [*sample_blocks(space, rows, map_rows)]
    points = []
    for part_share, parts in ((share, complete), (1 - share, alone)):
        if part_share:
            total = sum(float(weights.sum()) for _, weights in parts)
            points += [
                (np.asarray(space.scale(vectors)), 2 * part_share * weights / total)
                for vectors, weights in parts
            ]
    return points, alone


def metric_roots(metric: Floats) -> tuple[Floats, Floats]:
    """Return the symmetric root of a metric, and its pseudo-inverse."""
    strengths, axes = scipy.linalg.eigh(metric, check_finite=False)
    strengths = np.maximum(strengths, 0.0)
    keep = strengths > RANK_TOLERANCE * strengths[-1]
    roots = np.sqrt(np.where(keep, strengths, 0.0))
    return (axes * roots) @ axes.T, (axes[:, keep] / roots[keep]) @ axes[:, keep].T


def leading_eigenpairs(gram: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues above zero, falling, and their vectors."""
    values, vectors = scipy.linalg.eigh(gram, check_finite=False)
    values, vectors = values[::-1], vectors[:, ::-1]
    positive = values > RANK_TOLERANCE * max(values[0], np.finfo(float).tiny)
    return values[positive], fix_signs(vectors[:, positive])


def spectral_maps(
    values: Floats,
    vectors: Floats,
    root: Floats,
    inverse_root: Floats,
    total: float,
    n_components: int,
) -> tuple[Floats, Floats]:
    """Return the maps from blocks to query vectors and code vectors: the best without quantization.

    `values`, `vectors`: of points of this weight in total, in the metric of `root`. There are at
    most `n_components`, and none beyond the rank, which could hold nothing; there is at least one,
    which is zero if nothing can be predicted. Multiplying codes and dividing queries by a number
    changes no score: code vectors have a mean squared length of one.
    """
    if len(values) == 0:
        nothing = np.zeros((len(root), 1))
        return nothing, nothing
    axes = vectors[:, :n_components]
    scale = np.sqrt(total / np.sum(values[:n_components]))
    return inverse_root @ axes / scale, root @ axes * scale


def weighted_gram(points: Floats, weights: Floats) -> Floats:
    """Return the sum of points times themselves, by their weights: (n_dimensions, n_dimensions)."""
    total = np.zeros((points.shape[1], points.shape[1]))
    for rows in slices(len(points), _BLOCK_ROWS):
        scaled = points[rows] * np.sqrt(weights[rows])[:, None]
        total += scaled.T @ scaled  # a product with itself takes half the time
    return total


def _second_moment(queries: Floats, weights: Floats) -> Floats:
    """Return the second moment of queries, scaled to a trace of one."""
    moment = weighted_gram(queries, weights)
    return np.asarray(moment / max(np.trace(moment), np.finfo(float).tiny))


def padded(array: Floats, n_components: int) -> Floats:
    """Return an array with zeros after its last axis, up to the number given."""
    extra = n_components - array.shape[-1]
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, extra)])

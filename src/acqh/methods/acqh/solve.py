"""From sums to a space and codebooks, in closed form but for the quantization."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from acqh._core.arrays import Array, Floats, Ints, slices
from acqh._core.linalg import RANK_TOLERANCE, fix_signs
from acqh.errors import InvalidInputError, ViewError
from acqh.methods.acqh.learn import SpaceSums, settle_trust, weigh_by_agreement
from acqh.methods.acqh.space import (
    Block,
    LabelEmbedding,
    Predictor,
    Space,
    embed,
    make_predictor,
    vote_weights,
)
from acqh.methods.acqh.targets import LABELS, MapRows, Target
from acqh.methods.collect import MappedStatistics
from acqh.quantize import QuantizerFit, decode, fit_codebooks, search_codes
from acqh.stats import Regression, Statistics, regress
from acqh.stats.moments import ViewStatistics
from acqh.stats.sample import RowSample

# Points that are weighted at a time.
_BLOCK_ROWS = 1024


class SpectralMaps(NamedTuple):
    """The best maps without quantization."""

    # (n_dimensions, n_components): J: from predicted label embeddings to query vectors.
    query_map: Floats
    target_map: Floats  # (n_dimensions, n_components): from label embeddings to code vectors


class Components(NamedTuple):
    """The principal components of weighted points in a metric."""

    values: Floats  # (rank,): eigenvalues, falling; those that are zero are left out
    vectors: Floats  # (n_dimensions, rank)
    root: Floats  # (n_dimensions, n_dimensions): from points to the metric, such as its root
    inverse_root: Floats  # (n_dimensions, n_dimensions): pseudo-inverse of the metric's root

    @classmethod
    def of_moment(cls, moment: Floats, metric: Floats) -> "Components":
        """Find them from the second moment of the points alone."""
        root, inverse_root = _roots(metric)
        return cls(*_leading(root @ moment @ root), root, inverse_root)

    def maps(self, total: float, n_components: int) -> SpectralMaps:
        """Return the maps to the leading components of points of this weight in total.

        There are at most `n_components`, and none beyond the rank, which could hold nothing; there
        is at least one, which is zero if nothing can be predicted. Multiplying codes and dividing
        queries by a number changes no score: code vectors have a mean squared length of one.
        """
        if len(self.values) == 0:
            nothing = np.zeros((len(self.root), 1))
            return SpectralMaps(nothing, nothing)
        axes = self.vectors[:, :n_components]
        scale = np.sqrt(total / np.sum(self.values[:n_components]))
        return SpectralMaps(self.inverse_root @ axes / scale, self.root @ axes * scale)


def _roots(metric: Floats) -> tuple[Floats, Floats]:
    """Return the symmetric root of a metric, and its pseudo-inverse."""
    strengths, axes = scipy.linalg.eigh(metric, check_finite=False)
    strengths = np.maximum(strengths, 0.0)
    keep = strengths > RANK_TOLERANCE * strengths[-1]
    roots = np.sqrt(np.where(keep, strengths, 0.0))
    return (axes * roots) @ axes.T, (axes[:, keep] / roots[keep]) @ axes[:, keep].T


def _leading(gram: Floats) -> tuple[Floats, Floats]:
    values, vectors = scipy.linalg.eigh(gram, check_finite=False)
    values, vectors = values[::-1], vectors[:, ::-1]
    positive = values > RANK_TOLERANCE * max(values[0], np.finfo(float).tiny)
    return values[positive], fix_signs(vectors[:, positive])


@dataclass(frozen=True)
class Problem:
    """What is left of the data when similarities are inner products of label embeddings."""

    # (n_sets, n_dimensions): F: one vector per distinct label set; its inner products are
    # the similarities.
    embeddings: Floats
    counts: Floats  # (n_sets,): how many items carry each set
    # (n_dimensions, n_dimensions): H: summed over views, embedding times prediction; see
    # `acqh.stats.regress`.
    agreement: Floats
    # (n_dimensions, n_dimensions): M: summed over views, prediction times prediction, plus the
    # penalty; equals H except where kernel maps predict the embeddings.
    moment: Floats
    constant: float  # the sum over views of ``||S_p||^2``


def similarity_error(problem: Problem, query_map: Floats, codes: Floats) -> float:
    """Return the first term of the paper's objective (6): errors of all similarities, squared.

    Plus the penalty ``rho ||W_p B^T||^2`` of every view with a ridge that pulls towards zero.
    `query_map`: (n_dimensions, n_components); J. `codes`: (n_sets, n_components); B.
    """
    weighted = codes.T * problem.counts
    overlap = weighted @ codes
    cross = weighted @ problem.embeddings
    reached = problem.agreement @ query_map
    power = query_map.T @ problem.moment @ query_map
    pairs = np.sum(power * overlap) - 2.0 * np.sum(reached * cross.T)
    return float(pairs + problem.constant)


def lower_bound(problem: Problem, found: Components, n_components: int) -> float:
    """Return the least value of (6) over all code vectors of that many components.

    Without the discrete constraint the codes are a weighted principal component analysis, so
    the least value is the constant minus the leading eigenvalues of the `spectrum`; the label terms
    are never negative.
    """
    return problem.constant - float(np.sum(found.values[:n_components]))


def spectrum(problem: Problem) -> Components:
    """Return the principal components of the vectors ``M^(-1/2) H^T f_u``, weighted by counts.

    The objective is ``sum_u n_u ||M^(1/2) J b_u - M^(-1/2) H^T f_u||^2`` up to a constant and the
    label terms, so these are the code vectors of its global optimum without the discrete
    constraint. Where H equals M, the vectors are ``H^(1/2) f_u``.
    """
    root, inverse_root = _roots(problem.moment)
    if not np.array_equal(problem.agreement, problem.moment):
        root = problem.agreement @ inverse_root
    mapped = problem.embeddings @ root
    return Components(*_leading((mapped.T * problem.counts) @ mapped), root, inverse_root)


def weighted_gram(points: Floats, weights: Floats) -> Floats:
    """Return the sum of points times themselves, by their weights: (n_dimensions, n_dimensions)."""
    total = np.zeros((points.shape[1], points.shape[1]))
    for rows in slices(len(points), _BLOCK_ROWS):
        scaled = points[rows] * np.sqrt(weights[rows])[:, None]
        total += scaled.T @ scaled  # a product with itself takes half the time
    return total


def second_moment(queries: Floats, weights: Floats) -> Floats:
    """Return the second moment of queries, scaled to a trace of one.

    `queries`: (n_queries, n_dimensions). `weights`: (n_queries,). Gives (n_dimensions,
    n_dimensions).
    """
    moment = weighted_gram(queries, weights)
    return np.asarray(moment / max(np.trace(moment), np.finfo(float).tiny))


# Sweeps at most over codes, and the share of the error below which they end.
_SWEEPS, _TOLERANCE = 4, 1e-3
# Predicted code vectors that are drawn for each way of seeing an item.
_DRAWS = 1024
# Codebooks are learnt from at most this many label sets, the most frequent; all of them are coded.
MAX_TRAINED_SETS = 16_384
# Vectors at most that codebooks are learnt from: rows of the sample in every way they are seen.
# Four times as many take four times as long, which is longer than all sums of 100,000 items.
MAX_POINTS = 8_192


class Posed(NamedTuple):
    """Labels alone, from sums: what is to be solved for."""

    stats: Statistics  # compact
    embedding: LabelEmbedding
    regressions: dict[str, Regression]  # of label embeddings on each view
    problem: Problem


def pose(
    model: Any,
    stats: Statistics,
    rng: np.random.Generator,
    *,
    fit_intercept: bool = True,
    predicted: Collection[str] = (),
    device: Any = None,
) -> Posed:
    """Regress the label embeddings on every view: all that solvers for labels alone need.

    `model`: whose `similarity` and `ridge` are read. `stats`: of at least one labelled item.
    `predicted`: views whose features may be predictions of the label embedding. Raises ViewError:
    no labelled item has a view.
    """
    stats = stats.compact()
    views = stats.views
    for name, view in views.items():
        if view.n_items == 0:
            raise ViewError(f"no labelled item has view '{name}', so it cannot be learnt")
    sets = stats.label_sets.matrix()
    embedding = embed(model.similarity, sets, stats.counts, rng)
    vectors = embedding.transform(sets)
    regressions = {
        name: regress(
            view,
            vectors,
            model.ridge,
            fit_intercept=fit_intercept,
            device=device,
            is_predicted=name in predicted,
        )
        for name, view in views.items()
    }
    everyone = (vectors.T * stats.counts) @ vectors
    constant = sum(
        np.sum(((vectors.T * view.counts) @ vectors) * everyone) for view in views.values()
    )
    agreement = np.sum([it.agreement for it in regressions.values()], axis=0)
    moment = np.sum([it.moment for it in regressions.values()], axis=0)
    problem = Problem(vectors, stats.counts, agreement, moment, float(constant))
    return Posed(stats, embedding, regressions, problem)


def solve_labels(
    model: Any, collected: MappedStatistics, rng: np.random.Generator, device: Any
) -> dict[str, Any]:
    """Solve for maps in closed form, then for codebooks and codes of label sets.

    Returns the fitted attributes of the model by name.
    """
    posed = pose(model, collected.statistics, rng, predicted=collected.anchored, device=device)
    problem = posed.problem
    found = spectrum(problem)
    maps = found.maps(problem.counts.sum(), model.n_components)
    block, predictors = label_block(posed, maps.query_map, maps.target_map)
    targets = problem.embeddings @ maps.target_map
    trained_on = _most_frequent(problem.counts)
    points, weights = targets[trained_on], problem.counts[trained_on]
    share = 0.5 if model.complete_share is None else model.complete_share
    if share == 0:
        # The label sets are coded along, but have no say.
        weights = np.zeros(len(trained_on))
    if share < 1:
        drawn = draw_predictions(posed.stats.views, block, predictors, _DRAWS, rng)
        points = np.concatenate([points, drawn])
        # Beside all labelled items together, as much weight as their share leaves.
        weight = problem.counts.sum() * ((1 - share) / share if share else 1.0)
        weights = np.concatenate([weights, np.full(len(drawn), weight / len(drawn))])
    values: list[float] = []

    def record(codebooks: Floats, codes: Array) -> None:
        if len(codes) >= len(targets):
            vectors = decode(codes[: len(targets)], codebooks)
            values.append(similarity_error(problem, maps.query_map, vectors))

    trained = _train(model, points, weights, rng, device, callback=record)
    codes = trained.codes[: len(trained_on)]
    if len(trained_on) < len(targets):
        # The codes found in training may be better than those of a search.
        start = search_codes(targets, trained.codebooks)
        start[trained_on] = codes
        codes = start
        values.clear()
        record(trained.codebooks, codes)
    bound = lower_bound(problem, found, model.n_components)
    return learnt_of_labels(
        posed, block, predictors, maps.query_map, trained.codebooks, codes, model.n_components
    ) | {"code_metric_": None, **quality(values, bound, problem.constant)}


def label_block(
    posed: Posed, query_map: Floats, target_map: Floats
) -> tuple[Block, dict[str, Predictor]]:
    """Return the block of labels alone, which are code vectors, and its predictions by view.

    `target_map`: (n_dimensions, n_components); from a label embedding to the code vector that
    stands for it best.
    """
    rank = target_map.shape[1]
    zeros, target = np.zeros(rank), Target(rank=int(query_map.shape[0]))
    block = Block(target, LABELS, target_map, zeros, zeros, np.eye(rank), prior=0.0)
    predictors = {
        view: make_predictor(
            block,
            replace(
                it,
                coefficients=it.coefficients @ target_map,
                intercept=it.intercept @ target_map,
                residual=target_map.T @ it.residual @ target_map,
            ),
        )
        for view, it in posed.regressions.items()
    }
    return block, predictors


def learnt_of_labels(
    posed: Posed,
    block: Block,
    predictors: Mapping[str, Predictor],
    query_map: Floats,
    codebooks: Floats,
    codes: Array,
    n_components: int,
) -> dict[str, Any]:
    """Return the fitted attributes of a model of labels alone."""
    regressions = posed.regressions
    query_map = padded(query_map, n_components)
    space = Space(
        {LABELS: block},
        {view: {LABELS: it} for view, it in predictors.items()},
        posed.embedding,
        query_map,
        np.eye(block.rank, n_components),
        is_normalized=False,
        label_sets=posed.stats.label_sets.bits,
        label_codes=codes,
    )
    return {
        "space_": space,
        "projections_": {view: it.coefficients @ query_map for view, it in regressions.items()},
        "intercepts_": {view: it.intercept @ query_map for view, it in regressions.items()},
        "unit_projections_": {},
        "codebooks_": padded(codebooks, n_components),
        "ridges_": {view: it.ridge for view, it in regressions.items()},
    }


def padded(array: Floats, n_components: int) -> Floats:
    """Return an array with zeros after its last axis, up to the number given."""
    extra = n_components - array.shape[-1]
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, extra)])


def quality(values: list[float], bound: float, of_nothing: float) -> dict[str, Any]:
    """Return the objective after each sweep, its lower bound, and how far it is above.

    `of_nothing`: the objective of codes that are all zero.
    """
    share_of = of_nothing if abs(bound) <= RANK_TOLERANCE * of_nothing else abs(bound)
    gap = max(values[-1] - bound, 0.0)
    return {
        "objective_": values,
        "lower_bound_": bound,
        "optimality_gap_": gap / share_of if share_of else 0.0,
        "n_iter_": len(values) - 1,
    }


def _train(
    model: Any,
    points: Floats,
    weights: Floats,
    rng: np.random.Generator,
    device: Any,
    callback: Callable[[Floats, Array], None] | None = None,
) -> QuantizerFit:
    """Learn codebooks of weighted points; quickly, where nothing is to be told of each sweep."""
    return fit_codebooks(
        points,
        weights,
        model.n_codebooks,
        model.codebook_size,
        max_iter=_SWEEPS,
        tol=_TOLERANCE,
        rng=rng,
        callback=callback,
        device=device,
        is_quick=callback is None,
    )


def _most_frequent(counts: Floats) -> Ints:
    """Return the label sets that codebooks are learnt from: all, or the most frequent."""
    if len(counts) <= MAX_TRAINED_SETS:
        return np.arange(len(counts))
    return np.sort(np.argsort(-counts, kind="stable")[:MAX_TRAINED_SETS])


def draw_predictions(
    views: Mapping[str, ViewStatistics],
    block: Block,
    predictors: Mapping[str, Predictor],
    n_draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Draw code vectors as they will be predicted for items without labels.

    The items themselves are gone when only sums are kept, but the sums hold the mean
    prediction of every label set and the covariance around these means: a mixture of normal
    distributions is drawn from. Codebooks learnt from it are within 0.0005 MAP of codebooks
    learnt from the predictions of the items themselves.

    `n_draws`: for each way in which an item may be seen: in each view alone, and in all together.
    Gives (n_ways * n_draws, n_components).
    """
    shapes = {name: _predictions_of(view, predictors[name]) for name, view in views.items()}
    sets = {
        name: rng.choice(len(view.counts), n_draws, p=view.counts / view.counts.sum())
        for name, view in views.items()
    }
    ways = [shape.draw(sets[name], rng) for name, shape in shapes.items()]
    if len(shapes) > 1:
        # All views of one item share its label set, so they are drawn for the same sets.
        together = next(iter(sets.values()))
        weights = vote_weights(block, [predictors[name] for name in shapes])
        drawn = [shape.draw(together, rng) for shape in shapes.values()]
        votes = [it @ weight for it, weight in zip(drawn, weights, strict=True)]
        ways.append(np.sum(votes, axis=0))
    return np.concatenate(ways)


@dataclass(frozen=True)
class _Predictions:
    """How the predictions of one view are spread: a normal distribution for every label set."""

    means: Floats  # (n_sets, n_components)
    root: Floats  # (n_components, n_components): root of the covariance that all of them share

    def draw(self, sets: Ints, rng: np.random.Generator) -> Floats:
        """Draw a prediction for an item of each label set given."""
        return self.means[sets] + rng.standard_normal((len(sets), len(self.root))) @ self.root


def _predictions_of(view: ViewStatistics, predictor: Predictor) -> _Predictions:
    total = view.counts.sum()
    counts = np.maximum(view.counts, 1.0)[:, None]
    means = view.sums @ predictor.coefficients / counts + predictor.intercept
    overall = view.counts @ means / total
    shift = view.sums.sum(axis=0) @ predictor.coefficients
    spread = predictor.coefficients.T @ (view.gram @ predictor.coefficients)
    spread -= np.outer(shift, shift) / total
    between = ((means - overall).T * view.counts) @ (means - overall)
    values, vectors = np.linalg.eigh((spread - between) / total)
    # The symmetric root: unlike the vectors themselves, it has no arbitrary signs.
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return _Predictions(means, root)


def solve_targets(
    model: Any,
    collected: MappedStatistics,
    targets: Mapping[str, Target],
    rng: np.random.Generator,
    device: Any,
) -> dict[str, Any]:
    """Learn blocks, predictions, maps and codebooks.

    `collected`: with a sample of rows. Where the model says nothing of its targets, they are
    weighted so that views agree. Returns the fitted attributes of the model.
    """
    collected = replace(collected, statistics=collected.statistics.compact())
    stats, map_rows = collected.statistics, collected.map_views
    embedding = None
    if LABELS in targets:
        embedding = embed(model.similarity, stats.label_sets.matrix(), stats.counts, rng)
    sample = stats.sample
    if sample is None or len(sample) == 0:
        raise InvalidInputError(
            "the statistics hold no sample of rows, which codebooks of these targets are learnt "
            "from; collect them with these targets"
        )
    sums = SpaceSums(collected, embedding, model.ridge, device)
    blocks = sums.make_blocks(targets)
    predictors = sums.make_predictors(blocks)
    if model.targets is None:
        blocks = weigh_by_agreement(blocks, sums.score_pairs(blocks, predictors, sample))
    nothing = np.zeros((0, 0))
    is_normalized = model.equal_lengths is not False
    space = Space(blocks, predictors, embedding, nothing, nothing, is_normalized)
    space = settle_trust(space, map_rows, sample)
    ways = _Ways(space, map_rows, sample, _complete_share(model, targets, stats))
    parts = ways.points()
    weights = np.concatenate([weights for _, weights in parts])
    gram = np.sum([weighted_gram(*part) for part in parts], axis=0)
    metric = np.mean([second_moment(*part) for part in ways.alone], axis=0)
    found = Components.of_moment(gram, metric)
    maps = found.maps(float(weights.sum()), model.n_components)
    space = replace(
        space,
        query_map=padded(maps.query_map, model.n_components),
        target_map=padded(maps.target_map, model.n_components),
    )
    points = np.concatenate([points @ maps.target_map for points, _ in parts])
    trained = _train(model, points, weights, rng, device)
    energies = found.values / weights.sum()
    bound = float(np.sum(energies[model.n_components :]))
    # Code vectors have a mean squared length of one, whatever the points have.
    unit = float(np.sum(energies[: model.n_components])) / weights.sum()
    values = [bound + unit * float(error) for error in trained.history]
    folded = {view: space.fold_query(view) for view in space.predictors if view != LABELS}
    return {
        "space_": space,
        "projections_": {view: it[0] for view, it in folded.items()},
        "intercepts_": {view: it[1] for view, it in folded.items()},
        "unit_projections_": {view: it[2] for view, it in folded.items() if it[2] is not None},
        "codebooks_": padded(trained.codebooks, model.n_components),
        "code_metric_": None,
        "ridges_": {
            source: {name: it.ridge for name, it in own.items()}
            for source, own in space.predictors.items()
        },
        **quality(values, bound, float(np.sum(energies))),
    }


def _complete_share(model: Any, targets: Collection[str], stats: Statistics) -> float:
    """Return which share of the points that codebooks are learnt from are items as they are known.

    All, where every item has all views and labels: so will those that are coded. Otherwise half,
    and half as each view alone knows them; so too where labels are the only target, since label
    sets are few points, and items that are coded by their views need others.
    """
    if model.complete_share is not None:
        return float(model.complete_share)
    whole = {*stats.widths, LABELS} if len(targets) > 1 else set()
    return 1.0 if all(set(pattern) == whole for pattern in stats.patterns) else 0.5


@dataclass(frozen=True)
class _Ways:
    """The rows of a sample in every way in which such items may be known."""

    space: Space
    map_rows: MapRows
    sample: RowSample
    complete_share: float  # of the rows with all they have

    def points(self) -> list[tuple[Floats, Floats]]:
        """Return blocks of items and their weights, in parts.

        Rows with all they have, by their share, and with each view alone.
        """
        is_single = len(self.alone) == 1 and not self.space.knows_labels
        share = 1.0 if is_single else self.complete_share
        found: list[tuple[Floats, Floats]] = []
        for part_share, part in ((share, [self._whole()]), (1 - share, self.alone)):
            total = sum(float(weights.sum()) for _, weights in part)
            if part_share:
                found += [
                    (self.space.scale(points), 2 * part_share * weights / total)
                    for points, weights in part
                ]
        return found

    @cached_property
    def _rows(self) -> RowSample:
        n_ways = len(self.sample.views) + 1
        return self.sample.first(max(MAX_POINTS // n_ways, 1))

    def _whole(self) -> tuple[Floats, Floats]:
        rows = self._rows
        found = [*self.space.describe_rows(rows, self.map_rows)]
        points = np.concatenate([described for _, described in found])
        return points, np.concatenate([rows.counts[chosen] for chosen, _ in found])

    @cached_property
    def alone(self) -> list[tuple[Floats, Floats]]:
        """Blocks of rows as each view alone knows them, and their weights: like queries."""
        rows = self._rows
        found = []
        for view in sorted(rows.views):
            here = np.flatnonzero(rows.present[view])
            if here.size:
                known = self.map_rows({view: rows.views[view][here]})
                found.append((self.space.fold([view]).apply(known), rows.counts[here]))
        return found

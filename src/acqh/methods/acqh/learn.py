"""Learn blocks, their predictors and their weights from sufficient statistics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats, Ints, Matrix, unit_rows
from acqh._core.linalg import RANK_TOLERANCE, EigenForm, fix_signs
from acqh.errors import InvalidInputError, ViewError
from acqh.methods.acqh.space import Block, LabelEmbedding, Space
from acqh.methods.acqh.targets import AUTO, LABELS, MapRows, Target
from acqh.methods.collect import MappedStatistics, unit_name
from acqh.stats import Regression
from acqh.stats.moments import Moments
from acqh.stats.ridge import HELD_ROWS, RidgeSolver, error_directions, regress_moments
from acqh.stats.sample import RowSample

# More principal directions than this have never changed a result.
MAX_RANK = 256


def make_block(
    source: str,
    target: Target,
    gram: Floats,
    totals: Floats,
    n_items: float,
    *,
    form: EigenForm | None = None,
) -> Block:
    """Return the block of a target: features projected on their leading principal directions.

    `gram`: (n_features, n_features); ``X^T X`` over all items that have it. `totals`:
    (n_features,); column totals. `form`: eigendecomposition of the centred Gram matrix, if it is
    already computed.

    Notes
    -----
    Scaled to a mean squared length of one, so that weights of targets are comparable. Constant
    features give one direction of zeros.
    """
    mean = totals / n_items
    is_centred = source != "labels" and target.similarity == "content"
    centre = mean if is_centred else np.zeros_like(mean)
    if form is None or not is_centred:
        form = EigenForm.of(gram - n_items * np.outer(centre, centre))
    values, directions = form.leading(target.rank or MAX_RANK)
    keep = values > RANK_TOLERANCE * max(values[0], np.finfo(float).tiny)
    keep[0] = True
    values, directions = values[keep], fix_signs(directions[:, keep])
    energy = float(np.sum(values)) / n_items
    scale = 1.0 / np.sqrt(energy) if energy > 0 else 0.0
    mapped = directions * scale
    offset = -centre @ mapped
    middle = mean @ mapped + offset
    if is_centred:
        # In principal directions the covariance is diagonal.
        spread = np.diag(_roots(values * scale**2 / n_items))
    else:
        covariance = mapped.T @ gram @ mapped / n_items - np.outer(mean @ mapped, mean @ mapped)
        powers, vectors = scipy.linalg.eigh((covariance + covariance.T) / 2.0, check_finite=False)
        spread = np.asarray((vectors * _roots(powers)) @ vectors.T)
    return Block(replace(target, rank=mapped.shape[1]), source, mapped, offset, middle, spread)


def _roots(values: Floats) -> Floats:
    """Return the roots of variances, bounded from below."""
    return np.sqrt(np.maximum(values, RANK_TOLERANCE * max(values.max(), 0.0) or 1.0))


# Minimum number of rows with both views.
LEAST_ROWS = 16
# Exponents of the agreement of single contents, which give weights: from all equal to one
# dominant.
_POWERS = np.arange(0.0, 32.5, 0.5)
# Lower bound of weights, so that items can be retrieved by any content.
_LEAST_WEIGHT = 0.01
# Agreement that more even weights may cost: this share of the best, or the noise between samples.
_SHARE, _NOISE = 0.05, 0.02


# Products of the scores of all pairs of different rows, queried by either of two views: within the
# first, within the second, between both; (2, 2) each, by the content of one view and the other.
PairScores: TypeAlias = tuple[Floats, Floats, Floats]


def score_pairs(
    first: Floats, second: Floats, first_guess: Floats, second_guess: Floats
) -> PairScores:
    """Sum products of the scores of rows, with queries that each view predicts for both contents.

    `first`, `second`: (n_rows, rank); the contents as they are. `first_guess`, `second_guess`:
    the same, predicted by the other view.
    """
    items = first, second
    moments = [[one.T @ other for other in items] for one in items]

    def products(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> Floats:
        # All scores in one content are a product of two matrices, so their products summed
        # over rows are those of moments; scores of rows with themselves are subtracted.
        self_scores = [
            np.array([np.einsum("ij,ij->i", q, x) for q, x in zip(queries, items, strict=True)])
            for queries in (one, other)
        ]
        all_scores = [[np.vdot(one[k].T @ other[m], moments[k][m]) for m in (0, 1)] for k in (0, 1)]
        return np.asarray(np.array(all_scores) - self_scores[0] @ self_scores[1].T)

    by_first, by_second = (first, second_guess), (first_guess, second)
    return (
        products(by_first, by_first),
        products(by_second, by_second),
        products(by_first, by_second),
    )


def correlate_scores(scores: PairScores, first: float, second: float) -> float:
    """Return the correlation of scores queried by either view, given weights of contents.

    Contents have mean zero, and so have scores.
    """
    by_first, by_second, by_both = scores
    weights = np.array([first, second])
    power = (weights @ by_first @ weights) * (weights @ by_second @ weights)
    return float(weights @ by_both @ weights / np.sqrt(power)) if power > 0 else 0.0


def weigh_by_agreement(
    blocks: Mapping[str, Block], pairs: Mapping[tuple[str, str], PairScores]
) -> dict[str, Block]:
    """Return blocks with weights that maximize the agreement of scores between views.

    A query by image and a query by text of the same item should have the same hits. Content of
    only one view cannot contribute to that. Among nearly optimal weights the most even ones are
    chosen, so that items can be retrieved by all their content.

    Parameters
    ----------
    blocks : mapping of str to Block
        Blocks of the contents of views.
    pairs : mapping of (str, str) to PairScores
        For pairs of views that enough rows have.

    Returns
    -------
    dict of str to Block
        Weights add up to one.
    """
    names = [*blocks]
    alone = np.array([_agreement(pairs, names, row) for row in np.eye(len(names))])
    strengths = np.maximum(alone / max(alone.max(), np.finfo(float).tiny), _LEAST_WEIGHT)
    tried = strengths ** _POWERS[:, None]
    tried = tried / tried.sum(axis=1, keepdims=True) + _LEAST_WEIGHT
    tried /= tried.sum(axis=1, keepdims=True)
    agreements = np.array([_agreement(pairs, names, weights) for weights in tried])
    best = float(agreements.max())
    chosen = tried[int(np.argmax(agreements >= best - max(_SHARE * best, _NOISE)))]
    return {
        name: replace(block, target=replace(block.target, weight=float(weight)))
        for (name, block), weight in zip(blocks.items(), chosen, strict=True)
    }


def _agreement(
    pairs: Mapping[tuple[str, str], PairScores], names: list[str], weights: Floats
) -> float:
    """Return the weighted mean, over views, of the agreement with the best other view."""
    weight_of = dict(zip(names, weights.tolist(), strict=True))
    best = dict.fromkeys(names, -np.inf)
    for (first, second), scores in pairs.items():
        correlation = correlate_scores(scores, weight_of[first], weight_of[second])
        best[first], best[second] = max(best[first], correlation), max(best[second], correlation)
    return float(
        sum(
            weight_of[name] * agreement
            for name, agreement in best.items()
            if np.isfinite(agreement)
        )
    )


class SpaceStatistics:
    """Sufficient statistics for targets and their predictors; labels are one more view.

    `collected`: compact statistics with the products that the targets need. `embedding`: of
    labels, if they are a target. `ridge`: that of `ACQH`. `n_held`: number of rows for the
    leave-one-out choice of a ridge; 0: generalized cross-validation. `device`: for
    eigendecompositions.
    """

    def __init__(
        self,
        collected: MappedStatistics,
        embedding: LabelEmbedding | None,
        ridge: float | Literal["auto"],
        n_held: int,
        device: Any,
    ) -> None:
        self.stats = collected.statistics
        self.views = sorted(collected.widths)
        self._collected = collected
        self._ridge, self._device = ridge, device
        self._n_held = n_held if ridge == "auto" else 0
        self._embedding = embedding
        self._cached: dict[tuple[str, ...], Moments] = {}
        # By source, and by the other view that its rows have too; of all its rows by "".
        self._powers: dict[tuple[str, str], Floats] = {}
        self._solvers: dict[tuple[str, str], RidgeSolver] = {}

    @cached_property
    def _label_vectors(self) -> Floats:
        if self._embedding is None:
            return np.zeros((len(self.stats.counts), 0))
        return self._embedding.transform(self.stats.label_sets.matrix())

    def block_of(self, name: str, target: Target) -> Block:
        """Return the block of a target; raise ViewError if no item has it."""
        key = unit_name(name) if target.similarity == "cosine" else name
        if key not in (*self.stats.widths, LABELS):
            raise InvalidInputError(
                f"the statistics lack unit rows of {name!r}, so its cosine cannot be a target; "
                "collect with this target"
            )
        moments = self._moments(key)
        if moments.n_items == 0:
            raise ViewError(f"no item has view '{name}', so it cannot be a target")
        form = None
        if name in self.views and target.similarity == "content":
            form = self._solver(name).form
        return make_block(
            name, target, moments.gram(key), moments.totals[key], moments.n_items, form=form
        )

    def _moments(self, *sources: str) -> Moments:
        """Return the cached moments of all items that have the sources."""
        key = tuple(sorted(sources))
        if key not in self._cached:
            views = [source for source in key if source != LABELS]
            moments = self._labelled(*views) if LABELS in key else self.stats.moments(*views)
            self._cached[key] = moments
        return self._cached[key]

    def _labelled(self, view: str | None = None) -> Moments:
        """Return the moments of labelled items, all or those with a view, and their embeddings."""
        statistics = None if view is None else self.stats.views[view]
        counts = self.stats.counts if statistics is None else statistics.counts
        vectors = self._label_vectors
        totals, gram = counts @ vectors, (vectors.T * counts) @ vectors
        moments = Moments(counts.sum(), {LABELS: totals}, {LABELS: gram})
        if view is not None and statistics is not None:
            moments.totals[view] = statistics.set_totals.sum(axis=0)
            moments.uppers[view] = statistics.upper
            moments.products[LABELS, view] = vectors.T @ statistics.set_totals
        return moments

    def make_predictors(self, blocks: Mapping[str, Block]) -> dict[str, dict[str, Regression]]:
        """Return the regressions of blocks on every other source.

        Each is fitted on the items that have both, with its own ridge; pairs without such items
        have no regression. Raises ViewError for a view without items that have a target.
        """
        sources = [*self.views, *([] if self._embedding is None else [LABELS])]
        predictors = {
            source: {
                name: self._predict(source, block)
                for name, block in blocks.items()
                if name != source and self._moments(source, _key(block)).n_items > 0
            }
            for source in sources
        }
        for source, by_block in predictors.items():
            if source not in blocks and not by_block:
                raise ViewError(
                    f"no item has view {source!r} and a target, {' or '.join(blocks)}, so nothing "
                    "can be learnt from the view; remove it, or make it a target"
                )
        return predictors

    def _predict(self, source: str, block: Block) -> Regression:
        key = _key(block)
        moments = self._moments(source, key)
        if not {(source, key), (key, source)} & moments.products.keys():
            raise InvalidInputError(
                f"the statistics lack the products of {source!r} and {key!r}, so {key!r} cannot be "
                "a target; collect with these targets"
            )
        solver = self._solver(source, block.source)
        held = None
        if solver.rows is not None:
            some = error_directions(block.rank)
            rows = self._held(source, block.source)
            held = self._features(key, rows) @ (block.map @ some) + block.offset @ some
        # Whether the features of the source are already predictions of label embeddings.
        is_taught = key == LABELS and source in self._collected.taught
        is_taught &= self.stats.widths.get(source) == self._label_vectors.shape[1]
        # The block is a linear map of the target's features, and so are its moments.
        learnt = [
            regress_moments(
                solver,
                moments.product(source, key) @ block.map
                + np.outer(moments.totals[source], block.offset),
                moments.totals[key] @ block.map + moments.n_items * block.offset,
                self._power(source, block),
                self._ridge if block.target.ridge is None else block.target.ridge,
                held,
                towards,
            )
            for towards in ([None, block.map] if is_taught else [None])
        ]
        return min(learnt, key=lambda regression: float(np.trace(regression.residual)))

    def score_pairs(
        self,
        blocks: Mapping[str, Block],
        predictors: Mapping[str, Mapping[str, Regression]],
        sample: RowSample,
    ) -> dict[tuple[str, str], PairScores]:
        """Return the scores of sampled rows, queried by either of two views.

        `blocks`: contents of views. Covers all pairs of views that enough rows have.
        """
        scores = {}
        for first, second in combinations(blocks, 2):
            rows = sample.first(HELD_ROWS, (first, second))
            if len(rows) >= LEAST_ROWS:
                exact = [
                    blocks[view].transform(self._features(view, rows)) for view in (first, second)
                ]
                guesses = [
                    self._held_out(source, predictors[source][name], name, vectors, rows)
                    for source, name, vectors in (
                        (second, first, exact[0]),
                        (first, second, exact[1]),
                    )
                ]
                scores[first, second] = score_pairs(*exact, *guesses)
        return scores

    def _held_out(
        self, source: str, predictor: Regression, name: str, vectors: Floats, rows: RowSample
    ) -> Floats:
        """Return the leave-one-out predictions of the rows of a block from a source."""
        solver, features = self._solver(source, name), self._features(source, rows)
        if solver.rows is not None and np.array_equal(self._held(source, name).keys, rows.keys):
            features = solver.rows
        complement = solver.leverage_complement_of(features, predictor.ridge)
        predicted = features @ predictor.coefficients + predictor.intercept
        return np.asarray(vectors - (vectors - predicted) / complement[:, None])

    def _power(self, source: str, block: Block) -> Floats:
        """Return the Gram matrix of a block over the rows that also have a source."""
        name = block.source
        place = (name, self._subset_key(name, source, _key(block)))
        if place not in self._powers:
            moments, key = self._moments(source, _key(block)), _key(block)
            shifted = np.outer(moments.totals[key] @ block.map, block.offset)
            power: Floats = block.map.T @ moments.gram(key) @ block.map + shifted + shifted.T
            power += moments.n_items * np.outer(block.offset, block.offset)
            self._powers[place] = power
        return self._powers[place]

    def _solver(self, source: str, other: str = "") -> RidgeSolver:
        """Return the solver for the rows of a source, or those that also have another view."""
        place = (source, self._subset_key(source, other))
        if place not in self._solvers:
            names = [name for name in place if name]
            moments, held = self._moments(*names), self._held(*names)
            self._solvers[place] = RidgeSolver(
                moments.gram(source),
                moments.totals[source],
                max(moments.n_items, 1.0),
                rows=self._features(source, held) if len(held) else None,
                device=self._device,
            )
        return self._solvers[place]

    def _subset_key(self, source: str, other: str, key: str = "") -> str:
        """Return the other view if some rows of a source lack it, otherwise an empty string."""
        owner = key or source
        if not other or self._moments(owner).n_items == self._moments(owner, other).n_items:
            return ""
        return other

    def _held(self, *sources: str) -> RowSample:
        """Return sampled rows with all of the sources, for leave-one-out errors."""
        views = [source for source in sources if source != LABELS]
        return self.stats.sample.first(self._n_held, views, labelled=LABELS in sources)

    def _features(self, source: str, rows: RowSample) -> Matrix:
        """Return the features of rows: mapped features of a view, or embeddings of labels."""
        if source == LABELS and self._embedding is not None:
            return self._embedding.transform(rows.labels)
        view = source if source in rows.views else source.removesuffix(unit_name(""))
        mapped = self._collected.map_sample({view: rows.views[view]})[view]
        return mapped if view == source else unit_rows(mapped)


def _key(block: Block) -> str:
    """Return the name that the statistics have for the features of a block."""
    return unit_name(block.source) if block.is_unit else block.source


# Rows with a caption may take this many times their share of the hits.
_MAX_EXCESS = 1.1
# With fewer rows the share among the first ten is too noisy.
_MIN_ROWS = 100
CAPTION_WEIGHTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
# Share of the self-retrieval rate at weight 1 that must remain.
_MIN_RECALL = 0.95
_N_FIRST = 10
# Default if no row has both views; data with such rows gave 0.1 or 0.2.
_DEFAULT_WEIGHT = 0.2
# Maximum number of query rows, and of rows searched.
_MAX_QUERIES, _MAX_ROWS = 512, 2_048


def choose_caption_weights(space: Space, map_rows: MapRows, sample: RowSample) -> Space:
    """Choose the caption weight of every target that has "auto".

    A query text scores items with a caption by text similarity, and others by predicted text
    similarity. If images predict captions well, both scores are comparable, and captions get a
    large weight. Otherwise predicted scores are close to zero, and captioned items dominate all
    results. Captions then get the smallest weight at which items are still retrieved by their own
    caption.

    `space`: before its maps are computed. `sample`: rows of the collection, which determine the
    choice. Returns the space with a number for every weight.
    """
    names = [name for name, block in space.blocks.items() if block.target.caption_weight == AUTO]
    for name in names:
        space = _with_weight(space, name, 1.0)
    for name in names:
        space = _with_weight(space, name, _choose_weight(space, name, map_rows, sample))
    return space


def _with_weight(space: Space, name: str, weight: float) -> Space:
    block = space.blocks[name]
    block = replace(block, target=replace(block.target, caption_weight=weight))
    return replace(space, blocks={**space.blocks, name: block})


def _choose_weight(space: Space, name: str, map_rows: MapRows, sample: RowSample) -> float:
    rows, source = sample.first(_MAX_ROWS), space.blocks[name].source
    others = [view for view in rows.views if name in space.predictors[view]]
    has_both = np.any([rows.present[view] for view in others], axis=0) if others else False
    queries = np.flatnonzero(has_both & rows.present[source])
    # Background samples have small counts and come last.
    queries = queries[np.argsort(-rows.counts[queries], kind="stable")][:_MAX_QUERIES]
    if not queries.size:
        return _DEFAULT_WEIGHT
    # Weights change no features: rows are mapped once for all of them.
    query_features = map_rows({source: rows.views[source][queries]})
    parts = [*_sampled(space, rows, map_rows)]
    trials = {
        weight: _try(
            _with_weight(space, name, weight), source, query_features, parts, rows, queries
        )
        for weight in CAPTION_WEIGHTS
    }
    fair = [weight for weight, (_, excess) in trials.items() if excess <= _MAX_EXCESS]
    if fair:
        return max(fair)
    enough = _MIN_RECALL * trials[1.0][0]
    return next(weight for weight, (recall, _) in trials.items() if recall >= enough)


def _try(
    space: Space,
    source: str,
    query_features: Mapping[str, Any],
    parts: Sequence[tuple[Any, dict[str, Any], Any]],
    rows: RowSample,
    chosen: Ints,
) -> tuple[float, float]:
    """Search all rows by the features of one view of the chosen rows.

    `query_features`: of the chosen rows. `parts`: all rows, as of `Space.rows`. Returns the total
    weight of rows that are among their own first ten hits, and the share of rows with the view
    among the other hits, relative to their share of all rows.
    """
    queries = space.join_blocks(query_features)
    scores = np.empty((len(queries), len(rows)))
    for place, features, inverse in parts:
        scores[:, place] = queries @ space.scale(space.join_blocks(features)).T[:, inverse]
    places = np.arange(len(chosen)), chosen
    is_found = (scores > scores[places][:, np.newaxis]).sum(axis=1) < _N_FIRST
    scores[places] = -np.inf
    # Background samples are not valid hits.
    is_real, has_view = rows.counts >= 1, rows.present[source]
    scores[:, ~is_real] = -np.inf
    excess = np.inf
    if is_real[chosen].any() and is_real.sum() >= _MIN_ROWS:
        hits = np.argpartition(-scores[is_real[chosen]], _N_FIRST, axis=1)[:, :_N_FIRST]
        excess = float(has_view[hits].mean() / has_view[is_real].mean())
    return float(rows.counts[chosen] @ is_found), excess


def _sampled(
    space: Space, rows: RowSample, map_rows: MapRows
) -> Iterator[tuple[Any, dict[str, Any], Any]]:
    labels = None if space.embedding is None else rows.labels
    return space.rows(rows.views, rows.present, labels, map_rows)


def sample_blocks(
    space: Space, rows: RowSample, map_rows: MapRows
) -> Iterator[tuple[Floats, Floats]]:
    """Yield the distinct joined blocks of sampled rows, and their weights."""
    for place, features, inverse in _sampled(space, rows, map_rows):
        vectors, weights = space.join_blocks(features), rows.counts[place]
        if not isinstance(inverse, slice):
            weights = np.bincount(inverse, weights, minlength=len(vectors))
        yield vectors, weights

"""From statistics to blocks and their predictors, their weights and their trust."""

from collections.abc import Iterator, Mapping
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

# More principal directions than this have never changed a figure.
MAX_RANK = 256


def make_block(
    source: str,
    target: Target,
    gram: Floats,
    sums: Floats,
    n_items: float,
    *,
    form: EigenForm | None = None,
) -> Block:
    """Return the vectors of a target: features on their leading principal directions.

    `gram`: (n_features, n_features); ``X^T X`` over all items that have it. `sums`: (n_features,);
    sum of the rows. `form`: of the Gram matrix of centred features, where it is known already.

    Notes
    -----
    Scaled to a mean squared length of one, so that weights of targets can be compared. Features
    that are all the same have nothing to tell: one direction, of zeros, is kept.
    """
    mean = sums / n_items
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
    """Return the roots of variances; directions without spread get a little."""
    return np.sqrt(np.maximum(values, RANK_TOLERANCE * max(values.max(), 0.0) or 1.0))


# Rows that have both views; fewer say too little.
LEAST_ROWS = 16
# Powers of the agreement that a content has alone, which are weights: from all alike to all but
# one next to nothing.
_POWERS = np.arange(0.0, 32.5, 0.5)
# No content counts less than this, relative to all, so that items can be found by any.
_LEAST_WEIGHT = 0.01
# Agreement that more even weights may cost: this share of the best, or what it differs by from one
# draw of rows to the next.
_SHARE, _NOISE = 0.05, 0.02


# Products of the scores of all pairs of different rows, queried by either of two views: within the
# first, within the second, between both; (2, 2) each, by the content of one view and the other.
PairScores: TypeAlias = tuple[Floats, Floats, Floats]


def score_pairs(
    first: Floats, second: Floats, first_guess: Floats, second_guess: Floats
) -> PairScores:
    """Sum products of the scores of rows, queried by what each view alone says of both contents.

    `first`, `second`: (n_rows, rank); the contents as they are. `first_guess`, `second_guess`:
    the same, predicted by the other view.
    """
    items = first, second
    moments = [[one.T @ other for other in items] for one in items]

    def sums(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> Floats:
        # All scores in one content are a product of two matrices, so their products summed
        # over rows are those of moments; scores of rows with themselves are taken out.
        own = [
            np.array([np.einsum("ij,ij->i", q, x) for q, x in zip(queries, items, strict=True)])
            for queries in (one, other)
        ]
        whole = [[np.vdot(one[k].T @ other[m], moments[k][m]) for m in (0, 1)] for k in (0, 1)]
        return np.asarray(np.array(whole) - own[0] @ own[1].T)

    by_first, by_second = (first, second_guess), (first_guess, second)
    return sums(by_first, by_first), sums(by_second, by_second), sums(by_first, by_second)


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
    """Return blocks with weights under which views agree on what is similar.

    An item asked for by its image or by its text should find the same, and what only one of them
    knows cannot make it so. Of weights under which views agree nearly as well as under any, the
    most even are taken: so that items can be found by all that they show or say.

    Parameters
    ----------
    blocks : mapping of str to Block
        Of the contents of views.
    pairs : mapping of (str, str) to PairScores
        Of two views each that enough rows have both of.

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
    found = np.array([_agreement(pairs, names, weights) for weights in tried])
    best = float(found.max())
    chosen = tried[int(np.argmax(found >= best - max(_SHARE * best, _NOISE)))]
    return {
        name: replace(block, target=replace(block.target, weight=float(weight)))
        for (name, block), weight in zip(blocks.items(), chosen, strict=True)
    }


def _agreement(
    pairs: Mapping[tuple[str, str], PairScores], names: list[str], weights: Floats
) -> float:
    """Return how far each view agrees with the other that it agrees with best, by weight."""
    given = dict(zip(names, weights.tolist(), strict=True))
    best = dict.fromkeys(names, -np.inf)
    for (first, second), scores in pairs.items():
        found = correlate_scores(scores, given[first], given[second])
        best[first], best[second] = max(best[first], found), max(best[second], found)
    return float(sum(given[name] * it for name, it in best.items() if np.isfinite(it)))


class SpaceSums:
    """The sums that targets and their predictions are learnt from; labels are one more view.

    `collected`: sums that keep what the targets need, compact. `embedding`: of labels, where they
    are a target. `ridge`: as `ACQH` takes it. `n_held`: rows to leave out in turn to choose a
    ridge; 0: by generalised cross-validation. `device`: where eigenvalues are computed.
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
        self._known: dict[tuple[str, ...], Moments] = {}
        # By source, and by the other view that its rows have too; of all its rows by "".
        self._powers: dict[tuple[str, str], Floats] = {}
        self._solvers: dict[tuple[str, str], RidgeSolver] = {}

    @cached_property
    def _label_vectors(self) -> Floats:
        if self._embedding is None:
            return np.zeros((len(self.stats.counts), 0))
        return self._embedding.transform(self.stats.label_sets.matrix())

    def make_blocks(self, targets: Mapping[str, Target]) -> dict[str, Block]:
        """Return the block of every target.

        Raises ViewError: no item has the target.
        """
        return {name: self._make_block(name, target) for name, target in targets.items()}

    def _make_block(self, name: str, target: Target) -> Block:
        key = unit_name(name) if target.similarity == "cosine" else name
        if key not in (*self.stats.widths, LABELS):
            raise InvalidInputError(
                f"unit rows of {name!r} were not summed, so its cosine cannot be a target; collect "
                "with this target"
            )
        found = self._moments(key)
        if found.n_items == 0:
            raise ViewError(f"no item has view '{name}', so it cannot be a target")
        form = None
        if name in self.views and target.similarity == "content":
            form = self._solver(name).form
        return make_block(
            name, target, found.gram(key), found.totals[key], found.n_items, form=form
        )

    def _moments(self, *sources: str) -> Moments:
        """Return the sums over all items that have the sources, added up once."""
        key = tuple(sorted(sources))
        if key not in self._known:
            views = [source for source in key if source != LABELS]
            found = self._labelled(*views) if LABELS in key else self.stats.moments(*views)
            self._known[key] = found
        return self._known[key]

    def _labelled(self, view: str | None = None) -> Moments:
        """Return the sums over labelled items, all or those of a view; embeddings are one more."""
        vectors, counts = self._label_vectors, self.stats.counts
        found = Moments()
        if view is not None:
            own = self.stats.views[view]
            counts = own.counts
            found.totals[view], found.uppers[view] = own.set_totals.sum(axis=0), own.upper
            found.products[LABELS, view] = vectors.T @ own.set_totals
        found.totals[LABELS], found.uppers[LABELS] = (
            counts @ vectors,
            (vectors.T * counts) @ vectors,
        )
        found.n_items = counts.sum()
        return found

    def make_predictors(self, blocks: Mapping[str, Block]) -> dict[str, dict[str, Regression]]:
        """Return the predictions of blocks from every source that does not give them exactly.

        Each is learnt from the items that have both, with its own ridge; there is none where no
        item has both.

        Raises ViewError: a view that says nothing of any target.
        """
        sources = [*self.views, *([] if self._embedding is None else [LABELS])]
        found = {
            source: {
                name: self._predict(source, block)
                for name, block in blocks.items()
                if name != source and self._moments(source, _key(block)).n_items > 0
            }
            for source in sources
        }
        for source, own in found.items():
            if source not in blocks and not own:
                raise ViewError(
                    f"no item has view {source!r} and a target, {' or '.join(blocks)}, so nothing "
                    "can be learnt of the view; leave it out, or make it a target"
                )
        return found

    def _predict(self, source: str, block: Block) -> Regression:
        key = _key(block)
        sums = self._moments(source, key)
        if not {(source, key), (key, source)} & sums.products.keys():
            raise InvalidInputError(
                f"the products of {source!r} and {key!r} were not kept, so {key!r} cannot be a "
                "target; collect with these targets"
            )
        solver = self._solver(source, block.source)
        held = None
        if solver.rows is not None:
            some = error_directions(block.rank)
            rows = self._held(source, block.source)
            held = self._features(key, rows) @ (block.map @ some) + block.offset @ some
        # The block is a map of the target's features, so its sums are maps of theirs.
        learnt = [
            regress_moments(
                solver,
                sums.product(source, key) @ block.map + np.outer(sums.totals[source], block.offset),
                sums.totals[key] @ block.map + sums.n_items * block.offset,
                self._power(source, block),
                self._ridge,
                held,
                towards,
            )
            for towards in ([None, block.map] if self._is_taught(source, key) else [None])
        ]
        return min(learnt, key=lambda it: float(np.trace(it.residual)))

    def _is_taught(self, source: str, key: str) -> bool:
        """Whether the features of a view are predictions of label embeddings already."""
        is_wide = self.stats.widths.get(source) == self._label_vectors.shape[1]
        return key == LABELS and source in self._collected.taught and is_wide

    def score_pairs(
        self,
        blocks: Mapping[str, Block],
        predictors: Mapping[str, Mapping[str, Regression]],
        sample: RowSample,
    ) -> dict[tuple[str, str], PairScores]:
        """Return the scores of rows of a sample, asked for by either of two views.

        `blocks`: contents of views. Of every two views that enough rows have both of.
        """
        found = {}
        for first, second in combinations(blocks, 2):
            rows = sample.first(HELD_ROWS, (first, second))
            if len(rows) >= LEAST_ROWS:
                exact = [blocks[it].transform(self._features(it, rows)) for it in (first, second)]
                guesses = [
                    self._left_out(source, predictors[source][name], name, known, rows)
                    for source, name, known in (
                        (second, first, exact[0]),
                        (first, second, exact[1]),
                    )
                ]
                found[first, second] = score_pairs(*exact, *guesses)
        return found

    def _left_out(
        self, source: str, predictor: Regression, name: str, known: Floats, rows: RowSample
    ) -> Floats:
        """Return what a source predicts of rows of a block when each is left out."""
        solver, features = self._solver(source, name), self._features(source, rows)
        if solver.rows is not None and np.array_equal(self._held(source, name).keys, rows.keys):
            features = solver.rows
        left = solver.leverage_complement_of(features, predictor.ridge)
        predicted = features @ predictor.coefficients + predictor.intercept
        return np.asarray(known - (known - predicted) / left[:, None])

    def _power(self, source: str, block: Block) -> Floats:
        """Return the products of a block with itself, over the rows that a source has too."""
        name = block.source
        place = (name, self._apart(name, source, _key(block)))
        if place not in self._powers:
            sums, key = self._moments(source, _key(block)), _key(block)
            shifted = np.outer(sums.totals[key] @ block.map, block.offset)
            power: Floats = block.map.T @ sums.gram(key) @ block.map + shifted + shifted.T
            power += sums.n_items * np.outer(block.offset, block.offset)
            self._powers[place] = power
        return self._powers[place]

    def _solver(self, source: str, other: str = "") -> RidgeSolver:
        """Return the solver of a source's rows, of those that have another view (or labels) too."""
        place = (source, self._apart(source, other))
        if place not in self._solvers:
            names = [name for name in place if name]
            sums, held = self._moments(*names), self._held(*names)
            self._solvers[place] = RidgeSolver(
                sums.gram(source),
                sums.totals[source],
                max(sums.n_items, 1.0),
                rows=self._features(source, held) if len(held) else None,
                device=self._device,
            )
        return self._solvers[place]

    def _apart(self, source: str, other: str, key: str = "") -> str:
        """Return the other view where some rows of a source lack it, otherwise nothing."""
        own = key or source
        if not other or self._moments(own).n_items == self._moments(own, other).n_items:
            return ""
        return other

    def _held(self, *sources: str) -> RowSample:
        """Return rows of the sample that have all of the sources, to be left out in turn."""
        views = [source for source in sources if source != LABELS]
        return self.stats.sample.first(self._n_held, views, labelled=LABELS in sources)

    def _features(self, source: str, rows: RowSample) -> Matrix:
        """Return what a source is for some rows: mapped features, or embeddings of labels."""
        if source == LABELS and self._embedding is not None:
            return self._embedding.transform(rows.labels)
        view = source if source in rows.views else source.removesuffix(unit_name(""))
        mapped = self._collected.map_sample({view: rows.views[view]})[view]
        return mapped if view == source else unit_rows(mapped)


def _key(block: Block) -> str:
    """Return the name that the statistics have for the features of a block."""
    return unit_name(block.source) if block.is_unit else block.source


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


def settle_trust(space: Space, map_rows: MapRows, sample: RowSample) -> Space:
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
        space = _settled(space, name, _choose_trust(space, name, map_rows, sample))
    return space


def _settled(space: Space, name: str, trust: float) -> Space:
    block = space.blocks[name]
    block = replace(block, target=replace(block.target, trust=trust))
    return replace(space, blocks={**space.blocks, name: block})


def _choose_trust(space: Space, name: str, map_rows: MapRows, sample: RowSample) -> float:
    rows, source = sample.first(_MAX_ROWS), space.blocks[name].source
    others = [view for view in rows.views if name in space.predictors[view]]
    has_both = np.any([rows.present[view] for view in others], axis=0) if others else False
    asked = np.flatnonzero(has_both & rows.present[source])
    # Rows that stand in for others count less, and come last.
    asked = asked[np.argsort(-rows.counts[asked], kind="stable")][:_MAX_ASKED]
    if not asked.size:
        return _UNSEEN
    trials = {
        trust: _try(_settled(space, name, trust), source, map_rows, rows, asked) for trust in TRUSTS
    }
    fair = [trust for trust, (_, excess) in trials.items() if excess <= _MAX_EXCESS]
    if fair:
        return max(fair)
    enough = _KEPT * trials[1.0][0]
    return next(trust for trust, (found, _) in trials.items() if found >= enough)


def _try(
    space: Space, source: str, map_rows: MapRows, rows: RowSample, asked: Ints
) -> tuple[float, float]:
    """Look for some rows by their features of one view, among all.

    Returns the weight of those that are among their own first ten, and how many times their share
    rows that have the view take of the other hits.
    """
    queries = space.describe(map_rows({source: rows.views[source][asked]}))
    scores = np.empty((len(queries), len(rows)))
    for place, features, which in _sampled(space, rows, map_rows):
        scores[:, place] = queries @ space.scale(space.describe(features)).T[:, which]
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


def _sampled(
    space: Space, rows: RowSample, map_rows: MapRows
) -> Iterator[tuple[Any, dict[str, Any], Any]]:
    labels = None if space.embedding is None else rows.labels
    return space.rows(rows.views, rows.present, labels, map_rows)


def describe_sample(
    space: Space, rows: RowSample, map_rows: MapRows
) -> Iterator[tuple[Floats, Floats]]:
    """Yield distinct blocks of sampled rows by all their views and labels, and their weights."""
    for place, features, which in _sampled(space, rows, map_rows):
        described, weights = space.describe(features), rows.counts[place]
        if not isinstance(which, slice):
            weights = np.bincount(which, weights, minlength=len(described))
        yield described, weights

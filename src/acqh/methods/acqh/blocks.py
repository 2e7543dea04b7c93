"""Targets as vectors: one block of numbers for every target, and what predicts it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats, Matrix
from acqh._core.device import EigenForm
from acqh._core.linalg import RANK_TOLERANCE, Tridiagonal, fix_signs, mean_diagonal, solve_spd
from acqh.errors import InvalidInputError, ViewError
from acqh.methods.acqh.similarity import LabelEmbedding
from acqh.methods.acqh.targets import LABELS, LEAST_ROWS, PairScores, Target
from acqh.methods.collect import MappedStatistics, unit_name
from acqh.stats import Regression
from acqh.stats.moments import Moments
from acqh.stats.ridge import HELD_ROWS, RidgeSolver, error_directions, regress_moments
from acqh.stats.sample import RowSample

# More principal directions than this have never changed a figure.
MAX_RANK = 256
# No direction of a prediction is trusted more than this much over knowing nothing, or, where that
# does not count, over the least trusted direction.
_LEAST_ERROR = 1e-6


@dataclass(frozen=True)
class Block:
    """The vectors of one target; the inner products of two of them are their similarity."""

    target: Target  # with the rank that was used
    # The view that gives the vectors exactly, or ``"labels"``; empty where nothing does.
    source: str
    # (n_features, rank): from the features of the source, of unit length for a cosine, to vectors.
    map: Floats
    offset: Floats  # (rank,): added
    mean: Floats  # (rank,): over all items that have the target
    spread: Floats  # (rank, rank): symmetric root of their covariance
    # How often what is known without any source counts where several predict the vectors: once, or
    # not at all, where the vectors are code vectors of labels alone.
    prior: float = 1.0

    @property
    def rank(self) -> int:
        """Length of the vectors."""
        return int(self.map.shape[1])

    @property
    def is_unit(self) -> bool:
        """Whether the features are scaled to unit length first."""
        return self.target.similarity == "cosine"

    def transform(self, features: Matrix) -> Floats:
        """Return the vectors of rows of the source's features."""
        return np.asarray(features @ self.map + self.offset)


def make_block(
    source: str,
    target: Target,
    gram: Floats,
    sums: Floats,
    n_items: float,
    *,
    form: Tridiagonal | EigenForm | None = None,
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
        form = Tridiagonal.of(gram - n_items * np.outer(centre, centre))
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


@dataclass(frozen=True)
class Predictor:
    """The linear prediction of a block from one source, and how far it is to be trusted."""

    coefficients: Floats  # (n_features, rank)
    intercept: Floats  # (rank,)
    # (rank, rank): inverse covariance of the error on items not seen, in units of the spread.
    precision: Floats
    ridge: float  # strength used, relative to the mean diagonal of the Gram matrix

    def predict(self, features: Matrix) -> Floats:
        """Return the vectors that rows of features predict."""
        return np.asarray(features @ self.coefficients + self.intercept)


def make_predictor(block: Block, learnt: Regression) -> Predictor:
    """Return the prediction of a block, with its precision in units of the block's own spread.

    There, knowing nothing is the identity; no prediction has less precision than that.
    """
    if block.prior:
        error = np.linalg.solve(block.spread, np.linalg.solve(block.spread, learnt.residual).T)
        values, vectors = scipy.linalg.eigh((error + error.T) / 2.0, check_finite=False)
        precision = (vectors / np.clip(values, _LEAST_ERROR, 1.0)) @ vectors.T
    else:
        error = learnt.residual
        # Where nothing is ever wrong, all sources are trusted alike.
        floor = max(_LEAST_ERROR * mean_diagonal(error), 0.0) or 1.0
        identity = np.eye(block.rank)
        precision = solve_spd(error + floor * identity, identity)
    return Predictor(learnt.coefficients, learnt.intercept, np.asarray(precision), learnt.ridge)


def vote_weights(block: Block, votes: Sequence[Predictor]) -> list[Floats]:
    """Return what each source counts where several predict a block, each (rank, rank).

    Sources are taken to be independent but for the block itself, so their precisions add up,
    and what is known without any, the mean and covariance C of the block, must count once:

        mean + (C^-1 + sum_s (R_s^-1 - C^-1))^-1 sum_s R_s^-1 (y_s - mean)

    A source that cannot predict has R = C and says y = mean: it changes nothing. In rows,
    ``y - mean`` is multiplied by the weight of its source.
    """
    total = np.sum([it.precision for it in votes], axis=0)
    total -= block.prior * (len(votes) - 1) * np.eye(block.rank)
    shared = solve_spd(total, block.spread)
    return [np.linalg.solve(block.spread, it.precision) @ shared for it in votes]


class SpaceSums:
    """The sums that targets and their predictions are learnt from; labels are one more view.

    `collected`: sums that keep what the targets need, compact. `embedding`: of labels, where they
    are a target. `ridge`: as `ACQH` takes it. `device`: where eigenvalues are computed.
    """

    def __init__(
        self,
        collected: MappedStatistics,
        embedding: LabelEmbedding | None,
        ridge: float | Literal["auto"],
        device: Any,
    ) -> None:
        self.stats = collected.statistics
        self.views = sorted(collected.widths)
        self._collected = collected
        self._ridge, self._device = ridge, device
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
        return make_block(name, target, found.gram(key), found.sums[key], found.n_items, form=form)

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
            found.sums[view], found.uppers[view] = own.sums.sum(axis=0), own.upper
            found.products[LABELS, view] = vectors.T @ own.sums
        found.sums[LABELS], found.uppers[LABELS] = counts @ vectors, (vectors.T * counts) @ vectors
        found.n_items = counts.sum()
        return found

    def make_predictors(self, blocks: Mapping[str, Block]) -> dict[str, dict[str, Predictor]]:
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

    def _predict(self, source: str, block: Block) -> Predictor:
        key = _key(block)
        sums = self._moments(source, key)
        if not {(source, key), (key, source)} & sums.products.keys():
            raise InvalidInputError(
                f"the products of {source!r} and {key!r} were not kept, so {key!r} cannot be a "
                "target; collect with these targets"
            )
        solver = self._solver(source, block.source)
        seen = None
        if solver.rows is not None:
            some = error_directions(block.rank)
            held = self._held(source, block.source)
            seen = self._features(key, held) @ (block.map @ some) + block.offset @ some
        # The block is a map of the target's features, so its sums are maps of theirs.
        learnt = regress_moments(
            solver,
            sums.product(source, key) @ block.map + np.outer(sums.sums[source], block.offset),
            sums.sums[key] @ block.map + sums.n_items * block.offset,
            self._power(source, block),
            self._ridge,
            seen,
        )
        return make_predictor(block, learnt)

    def score_pairs(
        self,
        blocks: Mapping[str, Block],
        predictors: Mapping[str, Mapping[str, Predictor]],
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
                found[first, second] = PairScores.of(*exact, *guesses)
        return found

    def _left_out(
        self, source: str, predictor: Predictor, name: str, known: Floats, rows: RowSample
    ) -> Floats:
        """Return what a source predicts of rows of a block when each is left out."""
        solver, features = self._solver(source, name), self._features(source, rows)
        if solver.rows is not None and np.array_equal(self._held(source, name).keys, rows.keys):
            features = solver.rows
        left = solver.left_of(features, predictor.ridge)
        return np.asarray(known - (known - predictor.predict(features)) / left[:, None])

    def _power(self, source: str, block: Block) -> Floats:
        """Return the products of a block with itself, over the rows that a source has too."""
        name = block.source
        place = (name, self._apart(name, source, _key(block)))
        if place not in self._powers:
            sums, key = self._moments(source, _key(block)), _key(block)
            shifted = np.outer(sums.sums[key] @ block.map, block.offset)
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
                sums.sums[source],
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
        sample = self.stats.sample
        if sample is None or self._ridge != "auto":
            return RowSample(HELD_ROWS, 0)
        views = [source for source in sources if source != LABELS]
        return sample.first(HELD_ROWS, views, labelled=LABELS in sources)

    def _features(self, source: str, rows: RowSample) -> Matrix:
        """Return what a source is for some rows: mapped features, or embeddings of labels."""
        if source == LABELS and self._embedding is not None:
            return self._embedding.transform(rows.labels)
        view = source if source in rows.views else source.removesuffix(unit_name(""))
        return self._collected.map_rows({view: rows.views[view]})[source]


def _key(block: Block) -> str:
    """Return the name that the statistics have for the features of a block."""
    return unit_name(block.source) if block.is_unit else block.source

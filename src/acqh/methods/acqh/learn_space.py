"""From sums to the blocks of all targets and the predictions between them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from acqh._core.arrays import Floats, Ints, Matrix
from acqh.errors import InvalidInputError, ViewError
from acqh.methods.acqh.agreement import LEAST_ROWS, PairScores
from acqh.methods.acqh.blocks import Block, block_predictor, make_block
from acqh.methods.acqh.predictions import Predictor
from acqh.methods.acqh.similarity import LabelEmbedding
from acqh.methods.acqh.solve import Settings
from acqh.methods.acqh.targets import LABELS
from acqh.methods.collect import MappedStatistics, unit_name
from acqh.methods.target import Target
from acqh.stats import (
    HELD_ROWS,
    Moments,
    RidgeSolver,
    RowSample,
    error_directions,
    regress_moments,
)


class SpaceSums:
    """The sums that targets and their predictions are learnt from; labels are one more view.

    `collected`: sums that keep what the targets need, compact. `embedding`: of labels, where they
    are a target.
    """

    def __init__(
        self,
        collected: MappedStatistics,
        embedding: LabelEmbedding | None,
        settings: Settings,
    ) -> None:
        self.stats = collected.statistics
        self.views = sorted(collected.widths)
        self._collected = collected
        self._settings = settings
        self._embedding = embedding
        self._known: dict[tuple[str, ...], Moments] = {}
        self._powers: dict[str, list[tuple[Floats, Floats]]] = {}
        self._solvers: dict[str, list[tuple[Floats, Ints, RidgeSolver]]] = {}
        # By source and target: the rows left out in turn, and the solver.
        self._used: dict[tuple[str, str], tuple[Ints, RidgeSolver]] = {}

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
        if key not in (*self.stats.views, LABELS):
            raise InvalidInputError(
                f"unit rows of {name!r} were not summed, so its cosine cannot be a target; collect "
                "with this target"
            )
        found = self._moments(key)
        if found.n_items == 0:
            raise ViewError(f"no item has view '{name}', so it cannot be a target")
        form = None
        if name in self.views and target.similarity == "content" and self._settings.fit_intercept:
            form = self._solver(name, found, self._held(name)).form
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
        found = Moments.of_nothing()
        if view is not None:
            own = self.stats.views[view]
            counts = own.counts
            found.sums[view], found.uppers[view] = own.sums.sum(axis=0), own.upper
            found.products[LABELS, view] = vectors.T @ own.sums
        found.sums[LABELS], found.uppers[LABELS] = counts @ vectors, (vectors.T * counts) @ vectors
        return replace(found, n_items=counts.sum())

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
                "target; collect with keep='all', or with these targets"
            )
        held = self._held(source, block.source)
        solver = self._solver(source, sums, held)
        self._used[source, block.source] = held.keys, solver
        seen = None
        if len(held):
            some = error_directions(block.rank)
            seen = self._features(key, held) @ (block.map @ some) + block.offset @ some
        # The block is a map of the target's features, so its sums are maps of theirs.
        learnt = regress_moments(
            solver,
            sums.product(source, key) @ block.map + np.outer(sums.sums[source], block.offset),
            sums.sums[key] @ block.map + sums.n_items * block.offset,
            self._power(sums, block),
            self._settings.ridge,
            seen,
        )
        return block_predictor(block, learnt)

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
        keys, solver = self._used[source, name]
        is_held = solver.rows is not None and np.array_equal(keys, rows.keys)
        features: Any = solver.rows if is_held else self._features(source, rows)
        left = solver.left_of(features, predictor.ridge)
        return np.asarray(known - (known - predictor.predict(features)) / left[:, None])

    def _power(self, sums: Moments, block: Block) -> Floats:
        """Return the products of a block with itself: once for all sources that have all of it."""
        known, key = self._powers.setdefault(block.source, []), _key(block)
        facts = _facts(sums, key)
        for others, found in known:
            if np.array_equal(others, facts):
                return found
        shifted = np.outer(sums.sums[key] @ block.map, block.offset)
        power: Floats = block.map.T @ sums.gram(key) @ block.map + shifted + shifted.T
        power += sums.n_items * np.outer(block.offset, block.offset)
        known.append((facts, power))
        return power

    def _solver(self, source: str, sums: Moments, held: RowSample) -> RidgeSolver:
        """Return the solver for these rows of a source: one for all targets that have them all."""
        known = self._solvers.setdefault(source, [])
        facts = _facts(sums, source)
        for others, keys, solver in known:
            # Different rows may be as many and as long.
            if np.array_equal(keys, held.keys) and np.allclose(others, facts, 1e-9, 1e-9):
                return solver
        solver = RidgeSolver(
            sums.gram(source),
            sums.sums[source],
            max(sums.n_items, 1.0),
            fit_intercept=self._settings.fit_intercept,
            rows=self._features(source, held) if len(held) else None,
            device=self._settings.device,
        )
        known.append((facts, held.keys, solver))
        return solver

    def _held(self, *sources: str) -> RowSample:
        """Return rows of the sample that have all of the sources, to be left out in turn."""
        sample = self.stats.sample
        if sample is None or self._settings.ridge != "auto":
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


def _facts(sums: Moments, source: str) -> Floats:
    """Return numbers by which sums of the same rows of a source are known again."""
    return np.concatenate([[sums.n_items], sums.sums[source], np.diag(sums.uppers[source])])

"""From sums to the blocks of all targets and the predictions between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

import numpy as np

from acqh._core.arrays import Floats, Ints, Matrix
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods._statistics import MappedStatistics, unit_name
from acqh.methods._target import Target
from acqh.methods.acqh._agreement import LEAST_ROWS, PairScores, Told
from acqh.methods.acqh._blocks import Block, BlockPredictor, make_block, predictor_precision
from acqh.methods.acqh._similarity import LabelEmbedding
from acqh.methods.acqh._targets import LABELS
from acqh.stats import (
    HELD_ROWS,
    Moments,
    RidgeSolver,
    RowSample,
    error_directions,
    pair_of,
    regress_moments,
)


@dataclass(frozen=True)
class PairSums:
    """Sums over the items that have both a source and a target."""

    n_items: float
    gram: Floats  # (n_features, n_features): of the source
    sums: Floats  # (n_features,)
    target_gram: Floats  # (n_others, n_others)
    target_sums: Floats  # (n_others,)
    product: Floats  # (n_features, n_others)


class SpaceSums:
    """The sums that targets and their predictions are learnt from; labels are one more view.

    `collected`: sums that keep what the targets need, compact. `embedding`: of labels, where they
    are a target. `device`: torch device; where eigenvalues are computed.
    """

    def __init__(
        self,
        collected: MappedStatistics,
        embedding: LabelEmbedding | None,
        ridge: float | Literal["auto"],
        fit_intercept: bool,
        device: Any = None,
    ) -> None:
        self.stats = collected.statistics
        self.views = sorted(collected.widths)
        self._collected = collected
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.device = device
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

    @property
    def sources(self) -> list[str]:
        """Views, and labels if they are a target."""
        return [*self.views, *([] if self._embedding is None else [LABELS])]

    def make_blocks(self, targets: Mapping[str, Target]) -> dict[str, Block]:
        """Return the block of every target.

        Raises LabelError, ViewError: no item has the target.
        """
        return {name: self._make_block(name, target) for name, target in targets.items()}

    def _make_block(self, name: str, target: Target) -> Block:
        if name == LABELS:
            counts, vectors = self.stats.counts, self._label_vectors
            if counts.sum() == 0:
                raise LabelError("no item has a label, so there is nothing to learn from")
            gram = (vectors.T * counts) @ vectors
            return make_block(LABELS, target, gram, counts @ vectors, counts.sum())
        key = unit_name(name) if target.similarity == "cosine" else name
        if key not in self.stats.views:
            raise InvalidInputError(
                f"unit rows of {name!r} were not summed, so its cosine cannot be a target; collect "
                "with this target"
            )
        found = self._moments(key)
        if found.n_items == 0:
            raise ViewError(f"no item has view '{name}', so it cannot be a target")
        own = found.gram(key)
        form = None
        if key == name and target.similarity == "content" and self.fit_intercept:
            held = self._held(name)
            form = self._solver(name, found.n_items, own, found.sums[name], held).form
        return make_block(name, target, own, found.sums[key], found.n_items, form=form)

    def _moments(self, *views: str) -> Moments:
        """Return the sums over all items that have the views, added up once."""
        key = tuple(sorted(views))
        if key not in self._known:
            self._known[key] = self.stats.moments(*key)
        return self._known[key]

    def make_predictors(self, blocks: Mapping[str, Block]) -> dict[str, dict[str, BlockPredictor]]:
        """Return the predictions of blocks from every source that does not give them exactly.

        Each is learnt from the items that have both, with its own ridge; there is none where no
        item has both.

        Raises ViewError: a view that says nothing of any target.
        """
        found: dict[str, dict[str, BlockPredictor]] = {}
        for source in self.sources:
            found[source] = {}
            for name, block in blocks.items():
                if name != source and (sums := self._pair(source, name, block)) is not None:
                    found[source][name] = self._predict(source, sums, block)
            if source not in blocks and not found[source]:
                raise ViewError(
                    f"no item has view {source!r} and a target, {' or '.join(blocks)}, so nothing "
                    "can be learnt of the view; leave it out, or make it a target"
                )
        return found

    def _predict(self, source: str, sums: PairSums, block: Block) -> BlockPredictor:
        held = self._held(source, block.source)
        solver = self._solver(source, sums.n_items, sums.gram, sums.sums, held)
        self._used[source, block.source] = held.keys, solver
        seen = None
        if len(held):
            some = error_directions(block.rank)
            seen = self._features(_key(block), held) @ (block.map @ some) + block.offset @ some
        # The block is a map of the target's features, so its sums are maps of theirs.
        learnt = regress_moments(
            solver,
            sums.product @ block.map + np.outer(sums.sums, block.offset),
            sums.target_sums @ block.map + sums.n_items * block.offset,
            self._power(sums, block),
            self.ridge,
            seen,
        )
        return BlockPredictor(
            learnt.coefficients,
            learnt.intercept,
            learnt.ridge,
            predictor_precision(block, learnt.residual),
        )

    def score_pairs(
        self,
        blocks: Mapping[str, Block],
        predictors: Mapping[str, Mapping[str, BlockPredictor]],
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
                found[first, second] = PairScores.of(Told(*exact, *guesses))
        return found

    def _left_out(
        self, source: str, predictor: BlockPredictor, name: str, known: Floats, rows: RowSample
    ) -> Floats:
        """Return what a source predicts of rows of a block when each is left out."""
        keys, solver = self._used[source, name]
        is_held = solver.rows is not None and np.array_equal(keys, rows.keys)
        features: Any = solver.rows if is_held else self._features(source, rows)
        guess = features @ predictor.coefficients + predictor.intercept
        left = solver.left_of(features, predictor.ridge)
        return np.asarray(known - (known - guess) / left[:, None])

    def _power(self, sums: PairSums, block: Block) -> Floats:
        """Return the products of a block with itself: once for all sources that have all of it."""
        known = self._powers.setdefault(block.source, [])
        facts = np.concatenate([[sums.n_items], sums.target_sums, np.diag(sums.target_gram)])
        for others, found in known:
            if np.array_equal(others, facts):
                return found
        shifted = np.outer(sums.target_sums @ block.map, block.offset)
        power: Floats = block.map.T @ sums.target_gram @ block.map + shifted + shifted.T
        power += sums.n_items * np.outer(block.offset, block.offset)
        known.append((facts, power))
        return power

    def _solver(
        self, source: str, n_items: float, gram: Floats, sums: Floats, held: RowSample
    ) -> RidgeSolver:
        """Return the solver for these rows of a source: one for all targets that have them all."""
        known = self._solvers.setdefault(source, [])
        facts = np.concatenate([[n_items], sums, np.diag(gram)])
        for others, keys, solver in known:
            # Different rows may be as many and as long.
            if np.array_equal(keys, held.keys) and np.allclose(others, facts, 1e-9, 1e-9):
                return solver
        rows = self._features(source, held) if len(held) else None
        solver = RidgeSolver(
            gram,
            sums,
            max(n_items, 1.0),
            fit_intercept=self.fit_intercept,
            rows=rows,
            device=self.device,
        )
        known.append((facts, held.keys, solver))
        return solver

    def _held(self, *sources: str) -> RowSample:
        """Return rows of the sample that have all of the sources, to be left out in turn."""
        sample = self.stats.sample
        if sample is None or self.ridge != "auto":
            return RowSample(HELD_ROWS, 0)
        views = [source for source in sources if source != LABELS]
        return sample.first(HELD_ROWS, views, labelled=LABELS in sources)

    def _features(self, source: str, rows: RowSample) -> Matrix:
        """Return what a source is for some rows: mapped features, or embeddings of labels."""
        if source == LABELS and self._embedding is not None:
            return self._embedding.transform(rows.labels)
        view = source if source in rows.views else source.removesuffix(unit_name(""))
        return self._collected.map_rows({view: rows.views[view]})[source]

    def _pair(self, source: str, name: str, block: Block) -> PairSums | None:
        key = _key(block)
        vectors = self._label_vectors
        if source == LABELS:
            labelled = self.stats.views[key]
            counts = labelled.counts
            gram = (vectors.T * counts) @ vectors
            other, other_sums = labelled.gram, labelled.sums.sum(axis=0)
            product = vectors.T @ labelled.sums
            sums = PairSums(counts.sum(), gram, counts @ vectors, other, other_sums, product)
        elif name == LABELS:
            labelled = self.stats.views[source]
            counts = labelled.counts
            other = (vectors.T * counts) @ vectors
            sums = PairSums(
                counts.sum(),
                labelled.gram,
                labelled.sums.sum(axis=0),
                other,
                counts @ vectors,
                labelled.sums.T @ vectors,
            )
        else:
            return _pair_of_views(self._moments(source, key), source, key)
        return sums if sums.n_items > 0 else None


def _key(block: Block) -> str:
    """Return the name that the statistics have for the features of a block."""
    return unit_name(block.source) if block.is_unit else block.source


def _pair_of_views(found: Moments, source: str, key: str) -> PairSums | None:
    if found.n_items == 0:
        return None
    if pair_of(source, key) not in found.products:
        raise InvalidInputError(
            f"the products of {source!r} and {key!r} were not kept, so {key!r} cannot be a target; "
            "collect with keep='all', or with these targets"
        )
    return PairSums(
        found.n_items,
        found.gram(source),
        found.sums[source],
        found.gram(key),
        found.sums[key],
        found.product(source, key),
    )

"""The space in which queries and items of any kind meet: blocks, predictors, and two maps."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, Matrix, unit_rows
from acqh._core.linalg import RANK_TOLERANCE
from acqh.methods.acqh.blocks import Block, block_predictor, fuse_predictions
from acqh.methods.acqh.fold import ItemMaps, fold_votes
from acqh.methods.acqh.items import Items, MapRows
from acqh.methods.acqh.predictions import Predictor
from acqh.methods.acqh.similarity import LabelEmbedding
from acqh.methods.acqh.targets import LABELS
from acqh.methods.target import Target
from acqh.stats import Regression


@dataclass(frozen=True)
class TargetSpace:
    """From whatever is known of an item to its vector, and from a query to its own."""

    blocks: dict[str, Block]  # by target
    # By source, then by target: of the blocks that the source does not give exactly.
    predictors: dict[str, dict[str, Predictor]]
    embedding: LabelEmbedding | None  # of label sets; None where labels are no target
    # (n_dimensions, n_components): from all blocks, side by side, to query vectors.
    query_map: Floats
    target_map: Floats  # (n_dimensions, n_components): from all blocks to code vectors
    # Whether the blocks of an item, taken together, get the usual length; see `scale`.
    is_normalized: bool

    def describe(self, known: Mapping[str, Matrix]) -> Floats:
        """Return all blocks of some items, side by side, each by the root of its weight.

        `known`: each (n_items, n_features); mapped features of some views; for
        ``"labels"``, embeddings of the label sets. Gives (n_items, n_dimensions) float64; exact
        where the source of a block is known and trusted, otherwise predicted from what is known.
        """
        n_items = next(iter(known.values())).shape[0]
        described = np.empty((n_items, sum(block.rank for block in self.blocks.values())))
        for name, block, place in self._placed():
            found = self._describe_block(name, block, known)
            np.multiply(found, np.sqrt(block.target.weight), out=described[:, place])
        return described

    def _placed(self) -> Iterator[tuple[str, Block, slice]]:
        """Yield every block, and where it stands among all of them side by side."""
        start = 0
        for name, block in self.blocks.items():
            yield name, block, slice(start, start + block.rank)
            start += block.rank

    def _describe_block(self, name: str, block: Block, known: Mapping[str, Matrix]) -> Floats:
        if block.source not in known:
            return self._predict_block(name, block, known)
        features = known[block.source]
        exact = block.transform(unit_rows(features) if block.is_unit else features)
        others = {source: rows for source, rows in known.items() if source != block.source}
        trust = self.trust_of(name, others)
        if trust == 1:
            return exact
        return trust * exact + (1 - trust) * self._predict_block(name, block, others)

    def trust_of(self, name: str, others: Collection[str]) -> float:
        """Return how much the exact block counts, of items that are known by others too."""
        is_predicted = any(name in self.predictors[source] for source in others)
        return float(self.blocks[name].target.trust) if is_predicted else 1.0

    def _predict_block(self, name: str, block: Block, known: Mapping[str, Matrix]) -> Floats:
        votes = [
            (predictor, predictor.predict(features))
            for source, features in known.items()
            if (predictor := self.predictors[source].get(name)) is not None
        ]
        if votes:
            return fuse_predictions(block, votes)
        n_items = next(iter(known.values())).shape[0]
        return np.broadcast_to(block.mean, (n_items, block.rank))

    def blocks_of(self, items: Items, map_rows: MapRows) -> Iterator[tuple[Ints, Floats]]:
        """Yield all blocks of items, in blocks of rows."""
        for rows, known in items.known(map_rows, self.label_features):
            yield rows, self.describe(known)

    def vectors(self, items: Items, map_rows: MapRows) -> Iterator[tuple[Ints, Floats]]:
        """Yield the code vectors of items, in blocks of rows."""
        for rows, described in self.blocks_of(items, map_rows):
            yield rows, self.place(described)

    def encode(
        self, items: Items, map_rows: MapRows, search: Callable[[Floats], Array]
    ) -> Iterator[tuple[Ints, Array]]:
        """Yield the codes of items, in blocks of rows."""
        for rows, vectors in self.vectors(items, map_rows):
            yield rows, search(vectors)

    def place(self, described: Floats) -> Floats:
        """Return the code vectors of items from their blocks."""
        return self.scale(described) @ self.target_map

    def scale(self, described: Floats) -> Floats:
        """Return blocks of items as they are coded: of the usual length, if normalized.

        A prediction is the truth drawn towards the mean of all items. So each goes on from the mean
        in its direction, to where vectors are as long as known ones are in the mean square. To
        scale the mean too would raise items of which little is known, which are all but the mean.
        """
        if not self.is_normalized:
            return described
        mean, usual = self.usual
        away = described - mean
        along, lengths = away @ mean, np.einsum("ij,ij->i", away, away)
        room = max(usual - float(mean @ mean), 0.0)
        # The positive root of |mean + step * away|^2 = usual; where nothing is known, no step.
        steps = np.sqrt(along**2 + lengths * room) - along
        known = lengths > RANK_TOLERANCE**2 * usual
        steps = np.divide(steps, lengths, out=np.zeros_like(lengths), where=known)
        away *= steps[:, None]
        away += mean
        return np.asarray(away)

    @cached_property
    def usual(self) -> tuple[Floats, float]:
        """Mean of all blocks, and their mean squared length."""
        blocks = self.blocks.values()
        mean = np.concatenate([np.sqrt(block.target.weight) * block.mean for block in blocks])
        return mean, float(np.sum([block.target.weight for block in blocks]))

    def fold(self, view: str) -> tuple[Floats, Floats, Floats | None]:
        """Return the map from a view's features to query vectors, with all blocks in one.

        Returns
        -------
        projection : (n_features, n_components)
        intercept : (n_components,)
        unit : (n_features, n_components) or None
            Added for features scaled to unit length; None where no block needs it.
        """
        folded = self.fold_items([view])
        unit = folded.units.get(view)
        return (
            folded.maps[view] @ self.query_map,
            folded.offset @ self.query_map,
            None if unit is None else unit @ self.query_map,
        )

    def fold_items(self, sources: Sequence[str]) -> ItemMaps:
        """Return the maps of items that are known by these sources and no others."""
        n_dimensions = sum(block.rank for block in self.blocks.values())
        shapes = {source: (self._width(source), n_dimensions) for source in sources}
        maps, units = ({it: np.zeros(shape) for it, shape in shapes.items()} for _ in range(2))
        offset = np.empty(n_dimensions)
        for name, block, place in self._placed():
            scale = np.sqrt(block.target.weight)
            found, offset[place] = self._fold_block(name, block, sources)
            offset[place] *= scale
            for source, own in found.items():
                is_unit = block.is_unit and block.source == source
                (units if is_unit else maps)[source][:, place] = scale * own
        return ItemMaps(
            maps,
            {source: it for source, it in units.items() if it.any()},
            offset,
            self.target_map,
            self.usual if self.is_normalized else None,
        )

    def _fold_block(
        self, name: str, block: Block, sources: Sequence[str]
    ) -> tuple[dict[str, Floats], Floats]:
        """Return the maps of one block, by source, and what is added."""
        others = [source for source in sources if source != block.source]
        own = {it: self.predictors[it][name] for it in others if name in self.predictors[it]}
        predicted = partial(fold_votes, own, partial(fuse_predictions, block), block.mean)
        if block.source not in sources:
            return predicted()
        trust = self.trust_of(name, others)
        if trust == 1:
            return {block.source: block.map}, block.offset
        maps, offset = predicted()
        maps = {source: (1 - trust) * it for source, it in maps.items()}
        return maps | {block.source: trust * block.map}, trust * block.offset + (1 - trust) * offset

    def _width(self, source: str) -> int:
        for block in self.blocks.values():
            if block.source == source:
                return len(block.map)
        return len(next(iter(self.predictors[source].values())).coefficients)

    def refitted(
        self, source: str, wanted: Floats, learn: Callable[[Floats], Regression]
    ) -> tuple["TargetSpace", Floats, Floats]:
        """Return what `LabelSpace.refitted` does.

        What the view gave exactly, its new features only predict.
        """
        predictors = {
            name: block_predictor(block, learn(wanted[:, place] / np.sqrt(block.target.weight)))
            for name, block, place in self._placed()
        }
        blocks = {
            name: replace(block, source="") if block.source == source else block
            for name, block in self.blocks.items()
        }
        space = replace(self, blocks=blocks, predictors={**self.predictors, source: predictors})
        return space, *space.fold(source)[:2]

    def as_wanted(self, vectors: Floats) -> Floats:
        """Return what another encoder is to predict of items that have these code vectors."""
        return np.asarray(vectors @ self.query_map.T)

    # Yields what another encoder is to predict of items.
    wanted_of = blocks_of

    def label_features(self, sets: Array) -> Floats:
        """Return what ``"labels"`` are as a source: the embedding of each label set."""
        if self.embedding is None:
            return np.zeros((len(sets), 0))
        return self.embedding.transform(sets)

    @property
    def targets(self) -> dict[str, Target]:
        """The targets, with the ranks that were used."""
        return {name: block.target for name, block in self.blocks.items()}

    @property
    def knows_labels(self) -> bool:
        """Whether labels are a target."""
        return LABELS in self.blocks

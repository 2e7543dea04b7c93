"""The space in which queries and items of any kind meet: from what is known to vectors."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, Ints, group_rows, slices, unit_rows
from acqh._core.device import is_tensor, to_tensor
from acqh._core.device import unit_rows as unit_tensor_rows
from acqh._core.linalg import RANK_TOLERANCE
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods.acqh.blocks import Block, Predictor, make_predictor, vote_weights
from acqh.methods.acqh.similarity import LabelEmbedding
from acqh.methods.acqh.targets import LABELS, MapRows, Target
from acqh.methods.query_maps import CHUNK_ROWS, count_paired
from acqh.stats import Regression
from acqh.stats.label_sets import LabelSets
from acqh.stats.sample import RowSample


class Part(NamedTuple):
    """One linear map of a source, and where what it gives is added."""

    source: str
    is_unit: bool  # whether of rows scaled to unit length
    place: slice
    map: Any  # (n_features, n_places): array or tensor


@dataclass(frozen=True)
class ItemMaps:
    """Vectors of items that are known by certain sources and no others: a sum of linear maps."""

    parts: list[Part]
    offset: Any  # (n_dimensions,): added
    # (n_dimensions,) and a number: mean and mean squared length that the sum is scaled by; None:
    # not at all.
    usual: tuple[Any, float] | None = None
    target_map: Any = None  # (n_dimensions, n_components): comes after; None: the sum is the vector

    def on(self, device: Any) -> "ItemMaps":
        """Return the same maps as tensors."""
        return ItemMaps(
            [part._replace(map=to_tensor(part.map, device)) for part in self.parts],
            to_tensor(self.offset, device),
            None if self.usual is None else (to_tensor(self.usual[0], device), self.usual[1]),
            None if self.target_map is None else to_tensor(self.target_map, device),
        )

    def apply(self, known: Mapping[str, Any]) -> Any:
        """Return the vectors of rows, (n_rows, n_dimensions) float64.

        `known`: each (n_rows, n_features), arrays, CSR or tensors: mapped features of every view,
        and for ``"labels"`` embeddings of the label sets.
        """
        first = next(iter(known.values()))
        if is_tensor(first):
            total = self.offset.repeat(first.shape[0], 1)
            known = {source: rows.to(total.dtype) for source, rows in known.items()}
        else:
            total = np.tile(self.offset, (first.shape[0], 1))
        unit: Callable[[Any], Any] = unit_tensor_rows if is_tensor(first) else unit_rows
        for source, is_unit, place, own in self.parts:
            total[:, place] += (unit(known[source]) if is_unit else known[source]) @ own
        if self.usual is not None:
            total = stretch(total, *self.usual)
        return total if self.target_map is None else total @ self.target_map


def stretch(described: Any, mean: Any, usual: float) -> Any:
    """Return blocks of items with the usual mean squared length.

    A prediction is the truth drawn towards the mean of all items. So each goes on from the mean
    in its direction, to where vectors are as long as known ones are in the mean square. To
    scale the mean too would raise items of which little is known, which are all but the mean.
    """
    away = described - mean
    along, lengths = away @ mean, (away * away).sum(1)
    room = max(usual - float(mean @ mean), 0.0)
    # The positive root of |mean + step * away|^2 = usual; where nothing is known, no step.
    known = lengths > RANK_TOLERANCE**2 * usual
    steps = known * ((along**2 + lengths * room) ** 0.5 - along) / (lengths + ~known)
    return mean + steps[:, None] * away


@dataclass(frozen=True)
class Space:
    """From whatever is known of an item to its vector, and from a query to its own.

    With labels alone there is one block, of code vectors, and label sets have codes of their own.
    """

    blocks: dict[str, Block]  # by target
    # By source, then by target: of the blocks that the source does not give exactly.
    predictors: dict[str, dict[str, Predictor]]
    embedding: LabelEmbedding | None  # of label sets; None where labels are no target
    # (n_dimensions, n_components): from all blocks, side by side, to query vectors; with labels
    # alone from label embeddings.
    query_map: Floats
    target_map: Floats  # (n_dimensions, n_components): from all blocks to code vectors
    # Whether the blocks of an item, taken together, get the usual length; see `stretch`.
    is_normalized: bool
    # With labels alone, the fitted sets: uint8 (n_sets, ceil(n_labels / 8)), as bits.
    label_sets: Array | None = None
    label_codes: Array | None = None  # uint8 (n_sets, n_codebooks)
    _folded: dict[Any, ItemMaps] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def targets(self) -> dict[str, Target]:
        """The targets, with the ranks that were used."""
        return {name: block.target for name, block in self.blocks.items()}

    @property
    def knows_labels(self) -> bool:
        """Whether labels are a target."""
        return LABELS in self.blocks

    @property
    def is_plain(self) -> bool:
        """Whether labels are the only target, and label sets have codes of their own."""
        return self.label_codes is not None

    def fold(self, sources: Iterable[str]) -> ItemMaps:
        """Return the maps to all blocks, side by side, each by the root of its weight.

        Of items that are known by these sources and no others: exact where the source of a block is
        known and trusted, otherwise predicted from what is known.
        """
        key = tuple(sources)
        if key not in self._folded:
            self._folded[key] = self._fold(key)
        return self._folded[key]

    def _fold(self, sources: tuple[str, ...]) -> ItemMaps:
        parts: list[Part] = []
        offset = np.empty(sum(block.rank for block in self.blocks.values()))
        for name, block, place in self._placed():
            scale = np.sqrt(block.target.weight)
            maps, added = self._fold_block(name, block, sources)
            offset[place] = scale * added
            parts += [
                Part(source, block.is_unit and source == block.source, place, scale * own)
                for source, own in maps.items()
            ]
        return ItemMaps(parts, offset)

    def _fold_block(
        self, name: str, block: Block, sources: Sequence[str]
    ) -> tuple[dict[str, Floats], Floats]:
        """Return the maps of one block, by source, and what is added."""
        own = {
            source: self.predictors[source][name]
            for source in sources
            if source != block.source and name in self.predictors[source]
        }
        is_known = block.source in sources
        trust = float(block.target.trust) if own else 1.0
        if is_known and trust == 1:
            return {block.source: block.map}, block.offset
        maps: dict[str, Floats] = {}
        offset = block.mean
        if len(own) == 1:
            ((source, only),) = own.items()
            maps, offset = {source: only.coefficients}, only.intercept
        elif own:
            weights = vote_weights(block, [*own.values()])
            for (source, it), weight in zip(own.items(), weights, strict=True):
                maps[source] = it.coefficients @ weight
                offset = offset + (it.intercept - block.mean) @ weight
        if is_known:
            maps = {source: (1 - trust) * it for source, it in maps.items()}
            maps[block.source] = trust * block.map
            offset = trust * block.offset + (1 - trust) * offset
        return maps, offset

    def _placed(self) -> Iterator[tuple[str, Block, slice]]:
        """Yield every block, and where it stands among all of them side by side."""
        start = 0
        for name, block in self.blocks.items():
            yield name, block, slice(start, start + block.rank)
            start += block.rank

    def fold_items(self, sources: Iterable[str]) -> ItemMaps:
        """Return the maps to code vectors of items known by these sources and no others."""
        key = (*sources, "")
        if key not in self._folded:
            folded = self.fold(key[:-1])
            if self.is_normalized:
                folded = replace(folded, usual=self.usual, target_map=self.target_map)
            else:
                folded = _folded_into(folded, self.target_map)
            self._folded[key] = folded
        return self._folded[key]

    def fold_query(self, view: str) -> tuple[Floats, Floats, Floats | None]:
        """Return the map from a view's features to query vectors, with all blocks in one.

        Returns
        -------
        projection : (n_features, n_components)
        intercept : (n_components,)
        unit : (n_features, n_components) or None
            Added for features scaled to unit length; None where no block needs it.
        """
        # With labels alone the block is a code vector b, whose query vector is J^T J b.
        after = self.query_map.T @ self.query_map if self.is_plain else self.query_map
        folded = _folded_into(self.fold([view]), after)
        maps = {part.is_unit: part.map for part in folded.parts}
        nothing = np.zeros_like(maps[True]) if True in maps else np.zeros((0, 0))
        return maps.get(False, nothing), folded.offset, maps.get(True)

    def scale(self, described: Floats) -> Floats:
        """Return blocks of items as they are coded: of the usual length, if normalized."""
        return np.asarray(stretch(described, *self.usual)) if self.is_normalized else described

    @cached_property
    def usual(self) -> tuple[Floats, float]:
        """Mean of all blocks, and their mean squared length."""
        blocks = self.blocks.values()
        mean = np.concatenate([np.sqrt(block.target.weight) * block.mean for block in blocks])
        return mean, float(np.sum([block.target.weight for block in blocks]))

    def describe(self, items: "Items", map_rows: MapRows) -> Iterator[tuple[Any, Floats]]:
        """Yield all blocks of items, some rows at a time."""
        for rows, known in items.known(self, map_rows):
            yield rows, self.fold(known).apply(known)

    def describe_rows(self, rows: RowSample, map_rows: MapRows) -> Iterator[tuple[Any, Floats]]:
        """Yield all blocks of the rows of a sample, some at a time."""
        labels = rows.labels if self.knows_labels else None
        return self.describe(Items.of(rows.views, rows.present, labels), map_rows)

    def refitted(
        self, source: str, wanted: Floats, learn: Callable[[Floats], Regression]
    ) -> "Space":
        """Return the space with another encoder for a view, or with one more.

        `wanted`: blocks of items, as `described_by` or `describe` give them. `learn`: how the new
        features predict any vectors. What the view gave exactly, its new features only predict.
        """
        predictors = {
            name: make_predictor(block, learn(wanted[:, place] / np.sqrt(block.target.weight)))
            for name, block, place in self._placed()
        }
        blocks = {
            name: replace(block, source="") if block.source == source else block
            for name, block in self.blocks.items()
        }
        return replace(self, blocks=blocks, predictors={**self.predictors, source: predictors})

    def described_by(self, vectors: Floats) -> Floats:
        """Return the blocks that code vectors stand for."""
        rank = sum(block.rank for block in self.blocks.values())
        return vectors[:, :rank] if self.is_plain else np.asarray(vectors @ self.query_map.T)

    def label_features(self, sets: Array) -> Floats:
        """Return what ``"labels"`` are as a source: the embedding of each label set."""
        if self.embedding is None:
            return np.zeros((len(sets), 0))
        return self.embedding.transform(sets)


def _folded_into(folded: ItemMaps, after: Floats) -> ItemMaps:
    """Return maps with another linear map, (n_dimensions, n_components), after them."""
    total: dict[tuple[str, bool], Floats] = {}
    for source, is_unit, place, own in folded.parts:
        key = source, is_unit
        total[key] = total.get(key, 0.0) + own @ after[place]
    everywhere = slice(0, after.shape[1])
    parts = [Part(*key, everywhere, own) for key, own in total.items()]
    return ItemMaps(parts, folded.offset @ after)


@dataclass(frozen=True)
class Items:
    """Checked views and labels of items, paired by row: arrays, or tensors on one device."""

    n_items: int
    views: Mapping[str, Any]  # each (n_items, n_features)
    present: Mapping[str, Bools]  # each bool (n_items,): for every view
    sets: Array  # 0/1 (n_sets, n_labels): the label sets
    numbers: Ints  # (n_items,): the set of each item; -1 where it has no labels

    @classmethod
    def of(
        cls,
        views: Mapping[str, Any],
        present: Mapping[str, Bools],
        labels: Any,
        packed_sets: Iterable[Array] = (),
    ) -> "Items":
        """Check that everything is paired and that every item has something to be coded by.

        `packed_sets`: uint8 (n_known, ceil(n_labels / 8)); sets that come first, in this order.
        """
        n_items = count_paired(views, labels)
        if n_items == 0:
            raise InvalidInputError("there are no items to encode")
        masks = {name: present.get(name, np.ones(n_items, dtype=bool)) for name in views}
        sets, numbers = LabelSets(0), np.full(n_items, -1)
        if labels is not None:
            sets = LabelSets.from_packed(packed_sets, labels.shape[1])
            numbers = sets.number(labels)
        seen = np.any([*masks.values(), np.zeros(n_items, dtype=bool)], axis=0)
        nothing = np.flatnonzero((numbers < 0) & ~seen)
        if nothing.size and labels is not None:
            raise LabelError(
                f"item {nothing[0]} has no labels; give its views too, and it is coded by them"
            )
        if nothing.size:
            raise ViewError(f"item {nothing[0]} has none of the views {sorted(views)}")
        return cls(n_items, views, masks, sets.matrix(), numbers)

    def known(
        self,
        space: Space,
        map_rows: MapRows,
        n_rows: int = CHUNK_ROWS,
        device: Any = None,
        *,
        by_sets: bool = True,
    ) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield rows that all have the same, some at a time, and what is known of them.

        Yields a slice or (n_rows,) numbers, and each (n_rows, n_features), by view, and
        ``"labels"``. With labels alone, nothing but the labels counts of items that have them; they
        are passed over unless `by_sets`.
        """
        has_labels = self.numbers >= 0
        skips = space.is_plain and not by_sets
        needed = has_labels.any() and not skips
        features = space.label_features(self.sets) if needed else np.zeros((0, 0))
        masks = {**self.present, LABELS: has_labels}
        for names, rows in group_rows(masks, np.arange(self.n_items)):
            if skips and LABELS in names:
                continue
            views = [] if space.is_plain and LABELS in names else [n for n in names if n != LABELS]
            for chunk in slices(len(rows), n_rows):
                part = rows[chunk]
                is_whole = len(part) == part[-1] - part[0] + 1
                place = slice(int(part[0]), int(part[-1]) + 1) if is_whole else part
                known = dict(map_rows({name: self.views[name][place] for name in views}))
                if LABELS in names:
                    own = features[self.numbers[part]]
                    known[LABELS] = own if device is None else to_tensor(own, device)
                yield place, known

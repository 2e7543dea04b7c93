"""The space of labels alone: label sets and predictions as code vectors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from acqh._core.arrays import Array, Floats, Ints
from acqh.methods.acqh.fold import ItemMaps, fold_votes
from acqh.methods.acqh.items import Items, MapRows
from acqh.methods.acqh.predictions import Predictor, fuse, make_predictor
from acqh.methods.acqh.similarity import LabelEmbedding
from acqh.methods.acqh.targets import LABELS
from acqh.methods.target import Target
from acqh.stats import Regression


@dataclass(frozen=True)
class LabelSpace:
    """From labels or views of an item to its code vector, where labels are the only target."""

    embedding: LabelEmbedding
    label_sets: Array  # uint8 (n_sets, ceil(n_labels / 8)): the fitted label sets, as bits
    label_codes: Array  # uint8 (n_sets, n_codebooks)
    predictors: dict[str, Predictor]  # from each view to code vectors
    query_map: Floats  # (n_dimensions, n_components): from label embeddings to query vectors
    target_map: Floats  # (n_dimensions, n_components): from label embeddings to code vectors

    knows_labels = True

    @property
    def targets(self) -> dict[str, Target]:
        """Labels, with the length of their embedding."""
        return {LABELS: Target(rank=int(self.query_map.shape[0]))}

    def vectors(self, items: Items, map_rows: MapRows) -> Iterator[tuple[Ints, Floats]]:
        """Yield the code vectors of items, in blocks of rows."""
        yield from self._by_views(items, map_rows)
        rows, sets, numbers = items.labelled(self.label_sets)
        if rows.size:
            # Of the sets that were fitted, few may be among these items.
            used, places = np.unique(numbers, return_inverse=True)
            yield rows, self.by_sets(sets[used])[places]

    def encode(
        self, items: Items, map_rows: MapRows, search: Callable[[Floats], Array]
    ) -> Iterator[tuple[Ints, Array]]:
        """Yield the codes of items, in blocks of rows."""
        for rows, vectors in self._by_views(items, map_rows):
            yield rows, search(vectors)
        rows, sets, numbers = items.labelled(self.label_sets)
        yield rows, self.codes_of(sets, search)[numbers]

    def codes_of(self, sets: Array, search: Callable[[Floats], Array]) -> Array:
        """Return the codes of label sets, 0/1 (n_sets, n_labels), of which those fitted come first.

        A set that was fitted has its code; a new one is coded like any vector.
        """
        known = self.label_codes
        if len(sets) <= len(known):
            return known
        return np.concatenate([known, search(self.by_sets(sets[len(known) :]))])

    def _by_views(self, items: Items, map_rows: MapRows) -> Iterator[tuple[Ints, Floats]]:
        for names, rows in items.unlabelled():
            for part, mapped in items.mapped(names, rows, map_rows):
                own = [(self.predictors[name], mapped[name]) for name in names]
                yield part, fuse([(each, each.predict(rows)) for each, rows in own])

    def fold_items(self, sources: Sequence[str]) -> ItemMaps:
        """Return the maps of items that are known by these views and no others."""
        own = {view: self.predictors[view] for view in sources}
        maps, offset = fold_votes(own, fuse, np.zeros(self.target_map.shape[1]))
        return ItemMaps(maps, {}, offset)

    def by_sets(self, sets: Array) -> Floats:
        """Return the code vectors of label sets, 0/1 (n_sets, n_labels)."""
        return self.embedding.transform(sets) @ self.target_map

    def refitted(
        self, source: str, wanted: Floats, learn: Callable[[Floats], Regression]
    ) -> tuple["LabelSpace", Floats, Floats]:
        """Return the space with another encoder for a view, or with one more.

        `wanted`: as `as_wanted` or `wanted_of` give it. `learn`: how the new features predict any
        vectors. Gives also the map from the new features to query vectors, and its intercept.
        """
        own = make_predictor(learn(wanted), np.eye(wanted.shape[1]))
        metric = self.query_map.T @ self.query_map
        space = replace(self, predictors={**self.predictors, source: own})
        return space, own.coefficients @ metric, own.intercept @ metric

    def as_wanted(self, vectors: Floats) -> Floats:
        """Return what another encoder is to predict of items that have these code vectors."""
        return vectors

    # Yields what another encoder is to predict of items.
    wanted_of = vectors

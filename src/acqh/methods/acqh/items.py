"""Items to be coded: which by their labels, which by which of their views."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, Ints, Matrix, group_rows, slices, take_rows
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods.acqh.targets import LABELS
from acqh.methods.query_maps import CHUNK_ROWS, count_paired
from acqh.stats import LabelSets

# From rows of views to their mapped features.
MapRows = Callable[[Mapping[str, Matrix]], Mapping[str, Matrix]]


@dataclass(frozen=True)
class Items:
    """Checked views and labels of items, paired by row."""

    n_items: int
    views: Mapping[str, Matrix]  # each (n_items, n_features)
    present: Mapping[str, Bools]  # each bool (n_items,): for every view
    labels: Matrix | None  # 0/1 (n_items, n_labels), dense or CSR
    has_labels: Bools  # bool (n_items,)

    @classmethod
    def of(
        cls, views: Mapping[str, Matrix], present: Mapping[str, Bools], labels: Matrix | None
    ) -> "Items":
        """Check that everything is paired and that every item has something to be coded by."""
        n_items = count_paired(views, labels)
        if n_items == 0:
            raise InvalidInputError("there are no items to encode")
        masks = {name: present.get(name, np.ones(n_items, dtype=bool)) for name in views}
        has_labels = np.zeros(n_items, dtype=bool)
        if labels is not None:
            has_labels = np.asarray(labels.sum(axis=1)).ravel() > 0
        seen = np.any([*masks.values(), np.zeros(n_items, dtype=bool)], axis=0)
        nothing = np.flatnonzero(~has_labels & ~seen)
        if nothing.size and labels is not None:
            raise LabelError(
                f"item {nothing[0]} has no labels; give its views too, and it is coded by them"
            )
        if nothing.size:
            raise ViewError(f"item {nothing[0]} has none of the views {sorted(views)}")
        return cls(n_items, views, masks, labels, has_labels)

    def labelled(self, packed_sets: Iterable[Array] = ()) -> tuple[Ints, Array, Ints]:
        """Return the rows with labels, all label sets, and the set of each of these rows.

        `packed_sets`: uint8 (n_known, ceil(n_labels / 8)); sets that come first, in this order.
        """
        rows = np.flatnonzero(self.has_labels)
        if self.labels is None:
            return rows, np.zeros((0, 0), dtype=np.uint8), rows
        sets = LabelSets.from_packed(packed_sets, self.labels.shape[1])
        numbers = sets.number(self.labels)[rows]
        return rows, sets.matrix(), numbers

    def unlabelled(self) -> Iterator[tuple[tuple[str, ...], Ints]]:
        """Yield the rows without labels, grouped by the views they have."""
        rows = np.flatnonzero(~self.has_labels)
        if rows.size:
            yield from group_rows({name: self.present[name] for name in self.views}, rows)

    def known(
        self, map_rows: MapRows, embed_sets: Callable[[Array], Floats]
    ) -> Iterator[tuple[Ints, dict[str, Matrix]]]:
        """Yield rows, in blocks that all have the same, and what is known of them.

        `embed_sets`: from label sets, 0/1 (n_sets, n_labels), to features. Yields `rows`,
        (n_rows,), and `known`, each (n_rows, n_features), by view, and ``"labels"``.
        """
        labelled, sets, numbers = self.labelled()
        features = embed_sets(sets) if labelled.size else np.zeros((0, 0))
        set_of = np.zeros(self.n_items, dtype=np.int64)
        set_of[labelled] = numbers
        masks = {name: self.present[name] for name in self.views} | {LABELS: self.has_labels}
        for names, rows in group_rows(masks, np.arange(self.n_items)):
            views = [name for name in names if name != LABELS]
            for part, mapped in self.mapped(views, rows, map_rows):
                own = {LABELS: features[set_of[part]]} if LABELS in names else {}
                yield part, {**mapped, **own}

    def mapped(
        self, views: Sequence[str], rows: Ints, map_rows: MapRows
    ) -> Iterator[tuple[Ints, Mapping[str, Matrix]]]:
        """Yield rows, a chunk at a time, and what the feature maps make of these views of them."""
        for chunk in slices(len(rows), CHUNK_ROWS):
            part = rows[chunk]
            yield part, map_rows({name: take_rows(self.views[name], part) for name in views})

"""Items to be coded: which by their labels, which by which of their views."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Array, Bools, Ints, Matrix
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.stats import LabelSets


@dataclass(frozen=True)
class Items:
    """Checked views and labels of items, paired by row.

    Attributes
    ----------
    n_items : int
    views : mapping of str to (n_items, n_features)
    present : mapping of str to bool (n_items,)
        For every view.
    labels : 0/1 (n_items, n_labels), dense or CSR, or None
    has_labels : bool (n_items,)
    """

    n_items: int
    views: Mapping[str, Matrix]
    present: Mapping[str, Bools]
    labels: Matrix | None
    has_labels: Bools

    @classmethod
    def of(
        cls, views: Mapping[str, Matrix], present: Mapping[str, Bools], labels: Matrix | None
    ) -> "Items":
        """Check that everything is paired and that every item has something to be coded by."""
        lengths = {f"view '{name}'": matrix.shape[0] for name, matrix in views.items()}
        if labels is not None:
            lengths["the labels"] = labels.shape[0]
        if len(set(lengths.values())) > 1:
            rows = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise ViewError(f"views and labels are paired by row, but have different rows ({rows})")
        n_items = next(iter(lengths.values()))
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

    def labelled(self, packed_sets: Array) -> tuple[Ints, Array, Ints]:
        """Return the rows with labels, all label sets, and the set of each of these rows.

        Parameters
        ----------
        packed_sets : uint8 (n_known, ceil(n_labels / 8))
            Sets that come first, in this order.
        """
        rows = np.flatnonzero(self.has_labels)
        if self.labels is None:
            return rows, packed_sets[:0], rows
        sets = LabelSets.from_packed(packed_sets, self.labels.shape[1])
        numbers = sets.number(self.labels)[rows]
        return rows, sets.matrix(), numbers

    def unlabelled(self) -> Iterator[tuple[tuple[str, ...], Ints]]:
        """Yield the rows without labels, grouped by the views they have.

        Examples
        --------
        >>> views = {"image": np.eye(2), "text": np.eye(2)}
        >>> items = Items.of(views, {"text": np.array([True, False])}, None)
        >>> [(names, rows.tolist()) for names, rows in items.unlabelled()]
        [(('image',), [1]), (('image', 'text'), [0])]
        """
        rows = np.flatnonzero(~self.has_labels)
        if rows.size == 0:
            return
        names = np.array(list(self.views))
        masks = np.stack([self.present[name][rows] for name in self.views])
        patterns, inverse = np.unique(masks, axis=1, return_inverse=True)
        for number, pattern in enumerate(patterns.T):
            yield tuple(names[pattern].tolist()), rows[inverse.ravel() == number]

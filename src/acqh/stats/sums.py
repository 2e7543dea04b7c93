"""The sums that ACQH and label regression need of the data, and nothing else of it."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from acqh._core.arrays import Bools, Floats, Ints, Matrix, group_rows, take_rows
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.stats.moments import (
    LABELS,
    Keep,
    LabelSets,
    Moments,
    ViewStatistics,
    add_by_set,
    cross_product,
    sum_over,
    upper_gram,
)
from acqh.stats.sample import EVERY_KEY, RowSample, merge_samples

_KEEP_ALL = Keep()


class Statistics:
    """Everything a fit needs to know of the data, as sums that add up.

    Products within and between views, apart for every combination of views that items have, with
    labels or without; sums by label set; and a bounded sample of rows.

    Parameters
    ----------
    widths : mapping of str to int
        Width of each view.
    n_labels : int
        Number of label columns.
    keep : Keep
        Which products and how many rows to keep. Default: the products of every two views, and
        16,384 rows.

    Attributes
    ----------
    label_sets : LabelSets
        The distinct label sets.
    counts : (n_sets,) float64
        Items of each label set, whichever views they have.
    widths : dict of str to int
    views : dict of str to ViewStatistics
        Over labelled items.
    keep : Keep
    patterns : dict of tuple of str to Moments
        By the views that items have, in alphabetical order, and at the end ``"labels"``.

    Examples
    --------
    >>> a = Statistics.of({"image": np.eye(2)}, np.eye(2))
    >>> b = Statistics.of({"image": np.ones((1, 2))}, np.array([[0, 1]]))
    >>> (a + b).counts
    array([1., 2.])
    >>> (a + b - b).views["image"].gram
    array([[1., 0.],
           [0., 1.]])
    """

    _state_axes: ClassVar = {
        "label_sets": LabelSets,
        "widths": dict[str, int],
        "keep": Keep,
        "patterns": dict[tuple[str, ...], Moments],
        "sample": RowSample,
    }

    def __init__(self, widths: Mapping[str, int], n_labels: int, keep: Keep = _KEEP_ALL) -> None:
        self.label_sets = LabelSets(n_labels)
        self.widths = dict(widths)
        self.keep = keep
        self.patterns: dict[tuple[str, ...], Moments] = {}
        # Samples of parts, to be added up when they are many or when the whole is asked for.
        self._samples: list[RowSample] = []

    @classmethod
    def of(
        cls,
        views: Mapping[str, Matrix],
        labels: Matrix | None,
        present: Mapping[str, Bools] | None = None,
        *,
        keep: Keep = _KEEP_ALL,
    ) -> "Statistics":
        """Return the sums over some items; see `update`."""
        widths = {name: matrix.shape[1] for name, matrix in views.items()}
        new = cls(widths, 0 if labels is None else labels.shape[1], keep)
        return new.update(views, labels, present)

    @property
    def n_items(self) -> int:
        """How many items were added, with labels or without."""
        return round(sum(found.n_items for found in self.patterns.values()))

    @property
    def counts(self) -> Floats:
        """Items of each label set, whichever views they have."""
        counts = sum_over(self.patterns, [LABELS]).counts
        return counts if len(counts) else np.zeros(len(self.label_sets))

    @property
    def views(self) -> dict[str, ViewStatistics]:
        """Sums over labelled items, by view."""
        return {name: self._labelled(name, width) for name, width in self.widths.items()}

    def _labelled(self, view: str, width: int) -> ViewStatistics:
        found = sum_over(self.patterns, [view, LABELS])
        if view in found.uppers:
            return ViewStatistics(found.uppers[view], found.by_set[view], found.counts)
        n_sets = len(self.label_sets)
        return ViewStatistics(np.zeros((width, width)), np.zeros((n_sets, width)), np.zeros(n_sets))

    @property
    def sample(self) -> RowSample:
        """The bounded sample of rows."""
        start = RowSample(self.keep.sample_size, self.n_labels)
        self._samples = [merge_samples(self._samples or [start])]
        return self._samples[0]

    @sample.setter
    def sample(self, sample: RowSample) -> None:
        self._samples = [sample]

    def moments(self, *views: str) -> Moments:
        """Return the sums over all items that have all of the views, to be read."""
        return sum_over(self.patterns, views)

    @property
    def n_labels(self) -> int:
        """Number of label columns."""
        return self.label_sets.n_labels

    def update(
        self,
        views: Mapping[str, Matrix],
        labels: Matrix | None,
        present: Mapping[str, Bools] | None = None,
        *,
        rows: Mapping[str, Matrix] | None = None,
    ) -> "Statistics":
        """Add items in place.

        Parameters
        ----------
        views : mapping of str to dense or CSR, (n_items, n_features)
            Finite numbers, of the widths that the statistics were made for.
        labels : 0/1 (n_items, n_labels), dense or CSR, or None
            None: no item has labels.
        present : mapping of str to bool (n_items,), optional
            Which items have a view; all of them where it is not named.
        rows : mapping of str to dense or CSR, (n_items, n_features), optional
            What the sample keeps of the items, such as the views before their feature maps; the
            views themselves by default. Empty: the caller samples.

        Returns
        -------
        self

        Raises
        ------
        ViewError
            Other views or widths than before.
        LabelError
            Another number of label columns.
        """
        if labels is None:
            n_items = next(iter(views.values())).shape[0] if views else 0
            labels = np.zeros((n_items, self.n_labels), dtype=np.uint8)
        self._check(views, labels)
        sets = self.label_sets.number(labels)
        self.grow()
        masks = {name: np.ones(len(sets), dtype=bool) for name in sorted(views)}
        masks |= dict(present or {}) | {LABELS: sets >= 0}
        for pattern, chosen in group_rows(masks, np.arange(len(sets))):
            self._add_pattern(pattern, views, sets, chosen)
        if given := views if rows is None else rows:
            self.add_rows(given, labels, {name: masks[name] for name in given})
        return self

    def _add_pattern(
        self, pattern: tuple[str, ...], views: Mapping[str, Matrix], sets: Ints, chosen: Ints
    ) -> None:
        """Add items that have exactly these views, and labels or not."""
        having = {name: take_rows(views[name], chosen) for name in pattern if name != LABELS}
        known = self.patterns.setdefault(pattern, Moments())
        known.n_items += len(chosen)
        n_sets = len(self.label_sets)
        if LABELS in pattern:
            counts = np.bincount(sets[chosen], minlength=n_sets).astype(np.float64)
            known.counts = known.counts + counts if len(known.counts) else counts
        for name, matrix in having.items():
            if LABELS in pattern:
                by_set = known.by_set.setdefault(name, np.zeros((n_sets, matrix.shape[1])))
                add_by_set(by_set, sets[chosen], matrix)
            known.uppers[name], total = upper_gram(matrix, known.uppers.get(name))
            known.sums[name] = known.sums.get(name, 0.0) + total
        for first, second in self.keep.pairs_of(having):
            product = cross_product(having[first], having[second])
            known.products[first, second] = known.products.get((first, second), 0.0) + product

    def add_rows(
        self,
        rows: Mapping[str, Matrix],
        labels: Matrix | None,
        present: Mapping[str, Bools],
        keys: Ints | None = None,
    ) -> None:
        """Add rows to the sample alone; see `RowSample.with_rows`."""
        if self.keep.sample_size == 0:
            return
        # Rows with larger keys than those of a full sample cannot come into it.
        bound = min((part.bound for part in self._samples), default=EVERY_KEY)
        start = RowSample(self.keep.sample_size, self.n_labels, bound=bound)
        self._samples.append(start.with_rows(rows, labels, present, keys))
        if sum(map(len, self._samples)) > 2 * start.capacity:
            self._samples = [merge_samples(self._samples)]

    def _check(self, views: Mapping[str, Matrix], labels: Matrix) -> None:
        if set(views) != set(self.widths):
            raise ViewError(
                f"views {sorted(views)} were given, but the statistics are of {sorted(self.widths)}"
            )
        if LABELS in views:
            raise ViewError("a view cannot be called 'labels'; give the view another name")
        for name, matrix in views.items():
            if matrix.shape[1] != self.widths[name]:
                raise ViewError(
                    f"view '{name}' has {matrix.shape[1]} columns, {self.widths[name]} before"
                )
        if labels.shape[1] != self.n_labels:
            raise LabelError(f"labels have {labels.shape[1]} columns, {self.n_labels} before")

    def grow(self) -> None:
        """Make room for label sets that have got a number."""
        n_sets = len(self.label_sets)
        for pattern, found in self.patterns.items():
            if LABELS in pattern and len(found.counts) < n_sets:
                self.patterns[pattern] = found.renumbered(np.arange(n_sets), n_sets)

    def copy(self) -> "Statistics":
        """Return statistics with the same sums that can change apart from these."""
        return self._plus(self, 0.0)

    def __add__(self, other: "Statistics") -> "Statistics":
        return self._plus(other, 1.0)

    def __sub__(self, other: "Statistics") -> "Statistics":
        result = self._plus(other, -1.0)
        if any(it.n_items < 0 or np.any(it.counts < 0) for it in result.patterns.values()):
            raise InvalidInputError(
                "more items of a label set would be forgotten than were ever added; "
                "forget only what was fitted, with the labels it was fitted with"
            )
        return result

    def _plus(self, other: "Statistics", sign: float) -> "Statistics":
        if not isinstance(other, Statistics):
            return NotImplemented
        if self.widths != other.widths:
            raise ViewError("only statistics of the same views and widths add up")
        if self.n_labels != other.n_labels:
            raise LabelError(f"statistics of {self.n_labels} and {other.n_labels} labels")
        if self.keep != other.keep:
            raise InvalidInputError(
                f"only statistics that keep the same add up, not {self.keep} and {other.keep}"
            )
        new = Statistics(self.widths, self.n_labels, self.keep)
        new.label_sets = self.label_sets.copy()
        theirs_here = new.label_sets.number_of_sets(other.label_sets)
        n_sets = len(new.label_sets)
        for pattern, found in self.patterns.items():
            # A copy: nothing is shared.
            new.patterns[pattern] = Moments().plus(found.renumbered(np.arange(n_sets), n_sets))
        for pattern, found in other.patterns.items() if sign else ():
            before = new.patterns.get(pattern, Moments())
            new.patterns[pattern] = before.plus(found.renumbered(theirs_here, n_sets), sign)
        mine, theirs = self.sample, other.sample
        new.sample = mine - theirs if sign < 0 else mine + theirs if sign else mine
        return new

    def compact(self) -> "Statistics":
        """Return the same sums without empty patterns and label sets, sets in the order of bits.

        So that a fit does not depend on the order in which the items came.
        """
        used = np.flatnonzero(self.counts > 0)
        packed = self.label_sets.bits[used]
        order = np.lexsort(packed.T[::-1]) if len(used) else used
        new = Statistics(self.widths, self.n_labels, self.keep)
        new._samples = self._samples
        new.patterns = {
            pattern: found.of_sets(used[order])
            for pattern, found in sorted(self.patterns.items())
            if found.n_items > 0
        }
        new.label_sets = LabelSets.from_packed(packed[order], self.n_labels)
        return new

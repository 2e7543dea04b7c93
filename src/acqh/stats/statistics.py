"""Sufficient statistics of the data for ACQH and label regression."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from acqh._core.arrays import Bools, Floats, Ints, Matrix, group_rows, take_rows
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.stats.moments import (
    LABELS,
    LabelSets,
    Moments,
    StatisticsConfig,
    ViewStatistics,
    add_by_set,
    cross_product,
    sum_over,
    upper_gram,
)
from acqh.stats.sample import EVERY_KEY, RowSample, merge_samples

_DEFAULT = StatisticsConfig()


class Statistics:
    """Sufficient statistics of the data for a fit; statistics of parts can be added.

    For every pattern of present views and labels: products within and between views, and column
    totals by label set. Also a bounded sample of rows.

    Parameters
    ----------
    widths : mapping of str to int
        Width of each view.
    n_labels : int
        Number of label columns.
    config : StatisticsConfig
        Cross products and sample size. Default: all pairs of views, and 16,384 rows.

    Attributes
    ----------
    label_sets : LabelSets
        The distinct label sets.
    counts : (n_sets,) float64
        Items of each label set, with any views.
    widths : dict of str to int
    views : dict of str to ViewStatistics
        Over labelled items.
    config : StatisticsConfig
    patterns : dict of tuple of str to Moments
        By the views of the items in alphabetical order, followed by ``"labels"``.

    Examples
    --------
    >>> a = Statistics.from_views({"image": np.eye(2)}, np.eye(2))
    >>> b = Statistics.from_views({"image": np.ones((1, 2))}, np.array([[0, 1]]))
    >>> (a + b).counts
    array([1., 2.])
    >>> (a + b - b).views["image"].gram
    array([[1., 0.],
           [0., 1.]])
    """

    _state_axes: ClassVar = {
        "label_sets": LabelSets,
        "widths": dict[str, int],
        "config": StatisticsConfig,
        "patterns": dict[tuple[str, ...], Moments],
        "sample": RowSample,
    }

    def __init__(
        self, widths: Mapping[str, int], n_labels: int, config: StatisticsConfig = _DEFAULT
    ) -> None:
        self.label_sets = LabelSets(n_labels)
        self.widths = dict(widths)
        self.config = config
        self.patterns: dict[tuple[str, ...], Moments] = {}
        # Samples of parts, merged when they are many or when `sample` is read.
        self._samples: list[RowSample] = []

    @classmethod
    def from_views(
        cls,
        views: Mapping[str, Matrix],
        labels: Matrix | None,
        present: Mapping[str, Bools] | None = None,
        *,
        config: StatisticsConfig = _DEFAULT,
    ) -> "Statistics":
        """Return the statistics of items; see `update`."""
        widths = {name: matrix.shape[1] for name, matrix in views.items()}
        new = cls(widths, 0 if labels is None else labels.shape[1], config)
        return new.update(views, labels, present)

    @property
    def n_items(self) -> int:
        """Number of items, with or without labels."""
        return round(sum(moments.n_items for moments in self.patterns.values()))

    @property
    def counts(self) -> Floats:
        """Items of each label set, with any views."""
        counts = sum_over(self.patterns, [LABELS]).counts
        return counts if len(counts) else np.zeros(len(self.label_sets))

    @property
    def views(self) -> dict[str, ViewStatistics]:
        """Moments of labelled items by view."""
        views, n_sets = {}, len(self.label_sets)
        for name, width in self.widths.items():
            moments = sum_over(self.patterns, [name, LABELS])
            if name not in moments.uppers:
                moments.uppers[name] = np.zeros((width, width))
                moments.by_set[name] = np.zeros((n_sets, width))
                moments.counts = np.zeros(n_sets)
            views[name] = ViewStatistics(moments.uppers[name], moments.by_set[name], moments.counts)
        return views

    @property
    def sample(self) -> RowSample:
        """The bounded sample of rows."""
        start = RowSample(self.config.sample_size, self.n_labels)
        self._samples = [merge_samples(self._samples or [start])]
        return self._samples[0]

    @sample.setter
    def sample(self, sample: RowSample) -> None:
        self._samples = [sample]

    def moments(self, *views: str) -> Moments:
        """Return the moments of all items that have these views; read-only."""
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
            Finite numbers, with the widths of the statistics.
        labels : 0/1 (n_items, n_labels), dense or CSR, or None
            None: no item has labels.
        present : mapping of str to bool (n_items,), optional
            Which items have a view. Default: all.
        rows : mapping of str to dense or CSR, (n_items, n_features), optional
            Rows for the sample, such as the views before their feature maps. Default: `views`.
            Empty: the caller adds to the sample.

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
        if sampled := views if rows is None else rows:
            self.add_rows(sampled, labels, {name: masks[name] for name in sampled})
        return self

    def _add_pattern(
        self, pattern: tuple[str, ...], views: Mapping[str, Matrix], sets: Ints, chosen: Ints
    ) -> None:
        """Add items with exactly this pattern of views and labels."""
        having = {name: take_rows(views[name], chosen) for name in pattern if name != LABELS}
        moments = self.patterns.setdefault(pattern, Moments())
        moments.n_items += len(chosen)
        n_sets = len(self.label_sets)
        if LABELS in pattern:
            counts = np.bincount(sets[chosen], minlength=n_sets).astype(np.float64)
            moments.counts = moments.counts + counts if len(moments.counts) else counts
        for name, matrix in having.items():
            if LABELS in pattern:
                by_set = moments.by_set.setdefault(name, np.zeros((n_sets, matrix.shape[1])))
                add_by_set(by_set, sets[chosen], matrix)
            moments.uppers[name], total = upper_gram(matrix, moments.uppers.get(name))
            moments.totals[name] = moments.totals.get(name, 0.0) + total
        for first, second in self.config.pairs_of(having):
            product = cross_product(having[first], having[second])
            moments.products[first, second] = moments.products.get((first, second), 0.0) + product

    def add_rows(
        self,
        rows: Mapping[str, Matrix],
        labels: Matrix | None,
        present: Mapping[str, Bools],
        keys: Ints | None = None,
    ) -> None:
        """Add rows to the sample only; see `RowSample.with_rows`."""
        if self.config.sample_size == 0:
            return
        # A full sample rejects rows with larger keys.
        bound = min((part.bound for part in self._samples), default=EVERY_KEY)
        start = RowSample(self.config.sample_size, self.n_labels, bound=bound)
        self._samples.append(start.with_rows(rows, labels, present, keys))
        if sum(map(len, self._samples)) > 2 * start.capacity:
            self._samples = [merge_samples(self._samples)]

    def _check(self, views: Mapping[str, Matrix], labels: Matrix) -> None:
        if set(views) != set(self.widths):
            raise ViewError(f"views must be {sorted(self.widths)} as before, got {sorted(views)}")
        if LABELS in views:
            raise ViewError("'labels' is a reserved name; rename the view")
        for name, matrix in views.items():
            if matrix.shape[1] != self.widths[name]:
                raise ViewError(
                    f"view '{name}' has {matrix.shape[1]} columns, expected {self.widths[name]}"
                )
        if labels.shape[1] != self.n_labels:
            raise LabelError(f"labels have {labels.shape[1]} columns, expected {self.n_labels}")

    def grow(self) -> None:
        """Extend the moments to new label sets."""
        n_sets = len(self.label_sets)
        for pattern, moments in self.patterns.items():
            if LABELS in pattern and len(moments.counts) < n_sets:
                self.patterns[pattern] = moments.renumbered(np.arange(n_sets), n_sets)

    def copy(self) -> "Statistics":
        """Return an independent copy."""
        return self._plus(self, 0.0)

    def __add__(self, other: "Statistics") -> "Statistics":
        return self._plus(other, 1.0)

    def __sub__(self, other: "Statistics") -> "Statistics":
        result = self._plus(other, -1.0)
        if any(
            moments.n_items < 0 or np.any(moments.counts < 0)
            for moments in result.patterns.values()
        ):
            raise InvalidInputError(
                "cannot forget more items of a label set than were fitted; pass fitted items "
                "with the labels of the fit"
            )
        return result

    def _plus(self, other: "Statistics", sign: float) -> "Statistics":
        if not isinstance(other, Statistics):
            return NotImplemented
        if self.widths != other.widths:
            raise ViewError(
                f"cannot add statistics of the views {self.widths} and {other.widths}; "
                "use the same views and widths"
            )
        if self.n_labels != other.n_labels:
            raise LabelError(
                f"cannot add statistics of {self.n_labels} and {other.n_labels} labels"
            )
        if self.config != other.config:
            raise InvalidInputError(
                f"cannot add statistics with different configs: {self.config}, {other.config}"
            )
        new = Statistics(self.widths, self.n_labels, self.config)
        new.label_sets = self.label_sets.copy()
        theirs_here = new.label_sets.number_of_sets(other.label_sets)
        n_sets = len(new.label_sets)
        for pattern, moments in self.patterns.items():
            # A copy that shares no arrays.
            new.patterns[pattern] = Moments().plus(moments.renumbered(np.arange(n_sets), n_sets))
        for pattern, moments in other.patterns.items() if sign else ():
            before = new.patterns.get(pattern, Moments())
            new.patterns[pattern] = before.plus(moments.renumbered(theirs_here, n_sets), sign)
        mine, theirs = self.sample, other.sample
        new.sample = mine - theirs if sign < 0 else mine + theirs if sign else mine
        return new

    def compact(self) -> "Statistics":
        """Return the same statistics without empty patterns and label sets, sets sorted by bits.

        A fit then does not depend on the order of the items.
        """
        used = np.flatnonzero(self.counts > 0)
        packed = self.label_sets.bits[used]
        order = np.lexsort(packed.T[::-1]) if len(used) else used
        new = Statistics(self.widths, self.n_labels, self.config)
        new._samples = self._samples
        new.patterns = {
            pattern: moments.of_sets(used[order])
            for pattern, moments in sorted(self.patterns.items())
            if moments.n_items > 0
        }
        new.label_sets.bits = packed[order]
        return new

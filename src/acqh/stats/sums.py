"""The sums that ACQH and label regression need of the data, and nothing else of it."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, Ints, Matrix, group_rows, take_rows
from acqh._core.device import MAX_MEMORY, is_tensor
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.stats.label_sets import LabelSets
from acqh.stats.moments import (
    Keep,
    Moments,
    add_patterns,
    cross_product,
    sum_over,
    upper_gram,
)
from acqh.stats.sample import EVERY_KEY, RowSample, merge_samples
from acqh.stats.view_statistics import ViewStatistics


class Statistics:
    """Everything a fit needs to know of the data, as sums that add up.

    Sums by label set are over the items that have labels; a view that is missing for some items
    keeps its own rows and its own counts. With `keep` there are also sums over all items, with
    labels or without: products within and between views, apart for every combination of views that
    items have, and a bounded sample of rows.

    Parameters
    ----------
    widths : mapping of str to int
        Width of each view.
    n_labels : int
        Number of label columns.
    keep : Keep, "all" or None
        What to keep beside the sums over labelled items; ``"all"``: the products of every two
        views, and a sample of the usual size.

    Attributes
    ----------
    label_sets : LabelSets
        The distinct label sets.
    counts : (n_sets,) float64
        Items of each label set, whichever views they have.
    views : dict of str to ViewStatistics
        Over labelled items.
    keep : Keep or None
    patterns : dict of tuple of str to Moments
        Over all items, by the views that they have; empty without `keep`.

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
        "counts": ("n_sets",),
        "views": dict[str, ViewStatistics],
        "keep?": Keep,
        "patterns": dict[tuple[str, ...], Moments],
        "sample?": RowSample,
    }

    def __init__(
        self, widths: Mapping[str, int], n_labels: int, keep: Keep | Literal["all"] | None = None
    ) -> None:
        self.label_sets = LabelSets(n_labels)
        self.counts: Floats = np.zeros(0)
        self.views = {name: ViewStatistics.zeros(width, 0) for name, width in widths.items()}
        self.keep = Keep() if keep == "all" else keep
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
        keep: Keep | Literal["all"] | None = None,
    ) -> "Statistics":
        """Return the sums over some items; see `update`."""
        widths = {name: matrix.shape[1] for name, matrix in views.items()}
        new = cls(widths, 0 if labels is None else labels.shape[1], keep)
        return new.update(views, labels, present)

    @property
    def n_items(self) -> int:
        """How many items were added that something is kept of: all, or those with labels."""
        if self.keep is not None:
            return round(sum(found.n_items for found in self.patterns.values()))
        return round(float(self.counts.sum()))

    @property
    def sample(self) -> RowSample | None:
        """The bounded sample of rows; None without `keep`."""
        if self.keep is None:
            return None
        start = RowSample(self.keep.sample_size, self.n_labels)
        self._samples = [merge_samples(self._samples or [start])]
        return self._samples[0]

    @sample.setter
    def sample(self, sample: RowSample | None) -> None:
        self._samples = [] if sample is None else [sample]

    def moments(self, *views: str) -> Moments:
        """Return the sums over all items that have all of the views, to be read; needs `keep`."""
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
        max_memory: int = MAX_MEMORY,
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
            views themselves by default. An empty one: nothing, the sample is added apart.
        max_memory : int
            Bytes of working memory on the device, where views are tensors of torch. Then all are,
            on one device, every item has every view, and rows stay where they are.

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
        if any(map(is_tensor, views.values())):
            from acqh.stats.add_tensors import add_tensors

            add_tensors(self, views, labels, views if rows is None else rows, max_memory)
            return self
        sets = self.label_sets.number(labels)
        self.grow()
        if self.keep is not None:
            masks = {name: np.ones(len(sets), dtype=bool) for name in views} | dict(present or {})
            for pattern, chosen in group_rows(masks, np.arange(len(sets))):
                having = {name: take_rows(views[name], chosen) for name in sorted(pattern)}
                self._add_pattern(having, sets[chosen], self.keep)
            if given := views if rows is None else rows:
                self.add_rows(given, labels, {name: masks[name] for name in given})
            return self
        labelled = self._count(sets)
        for name, matrix in views.items():
            these = labelled if present is None or name not in present else labelled & present[name]
            if these.all():
                self.views[name].update(matrix, sets)
            elif these.any():
                self.views[name].update(matrix[np.flatnonzero(these)], sets[these])
        return self

    def _count(self, sets: Ints) -> Bools:
        """Count items by label set; return which of them have labels."""
        labelled = sets >= 0
        self.counts += np.bincount(sets[labelled], minlength=len(self.counts))
        return labelled

    def _add_pattern(self, views: Mapping[str, Matrix], sets: Ints, keep: Keep) -> None:
        """Add items that have exactly these views, which are in alphabetical order."""
        labelled = self._count(sets)
        uppers: dict[str, Floats] = {}
        sums: dict[str, Floats] = {}
        for name, matrix in views.items():
            by_set = self.views[name]
            for chosen in (labelled, ~labelled):
                if len(sets) and not chosen.any():
                    continue
                part = matrix if chosen.all() else matrix[np.flatnonzero(chosen)]
                each = by_set.adder(sets[chosen]) if chosen is labelled else None
                upper, total = upper_gram(part, each)
                if chosen is labelled:
                    by_set.upper += upper
                uppers[name] = uppers[name] + upper if name in uppers else upper
                sums[name] = sums[name] + total if name in sums else total
        products = {
            (first, second): cross_product(views[first], views[second])
            for first, second in keep.pairs_of(views)
        }
        self.add_moments(Moments(float(len(sets)), sums, uppers, products))

    def add_moments(self, found: Moments) -> None:
        """Add the sums over items that have all of their views and no others."""
        pattern = tuple(found.sums)
        if pattern in self.patterns:
            found = self.patterns[pattern].take_in(found)
        self.patterns[pattern] = found

    def sample_bound(self) -> Any:
        """Return the largest key of a row that may still come into the sample, uint64."""
        return min((part.bound for part in self._samples), default=EVERY_KEY)

    def add_rows(
        self,
        rows: Mapping[str, Matrix],
        labels: Matrix | None,
        present: Mapping[str, Bools],
        keys: Ints | None = None,
    ) -> None:
        """Add rows to the sample alone; see `RowSample.with_rows`."""
        if self.keep is not None:
            start = RowSample(self.keep.sample_size, self.n_labels, bound=self.sample_bound())
            self.add_sample(start.with_rows(rows, labels, present, keys))

    def add_sample(self, sample: RowSample) -> None:
        """Add the sample of more rows."""
        self._samples.append(sample)
        if sum(map(len, self._samples)) > 2 * sample.capacity:
            self._samples = [merge_samples(self._samples)]

    def _check(self, views: Mapping[str, Matrix], labels: Matrix) -> None:
        if set(views) != set(self.views):
            raise ViewError(
                f"views {sorted(views)} were given, but the statistics are of {sorted(self.views)}"
            )
        for name, matrix in views.items():
            if matrix.shape[1] != self.views[name].n_features:
                raise ViewError(
                    f"view '{name}' has {matrix.shape[1]} columns, "
                    f"{self.views[name].n_features} before"
                )
        if labels.shape[1] != self.n_labels:
            raise LabelError(f"labels have {labels.shape[1]} columns, {self.n_labels} before")

    def grow(self) -> None:
        """Make room for label sets that have got a number."""
        n_sets = len(self.label_sets)
        self.counts = np.concatenate([self.counts, np.zeros(n_sets - len(self.counts))])
        self.views = {name: view.grown(n_sets) for name, view in self.views.items()}

    def copy(self) -> "Statistics":
        """Return statistics with the same sums that can change apart from these."""
        return self._plus(self, 0.0)

    def __add__(self, other: "Statistics") -> "Statistics":
        return self._plus(other, 1.0)

    def __sub__(self, other: "Statistics") -> "Statistics":
        result = self._plus(other, -1.0)
        if (
            np.any(result.counts < 0)
            or any(np.any(view.counts < 0) for view in result.views.values())
            or any(found.n_items < 0 for found in result.patterns.values())
        ):
            raise InvalidInputError(
                "more items of a label set would be forgotten than were ever added; "
                "forget only what was fitted, with the labels it was fitted with"
            )
        return result

    def _plus(self, other: "Statistics", sign: float) -> "Statistics":
        if not isinstance(other, Statistics):
            return NotImplemented
        widths = {name: view.n_features for name, view in self.views.items()}
        if widths != {name: view.n_features for name, view in other.views.items()}:
            raise ViewError("only statistics of the same views and widths add up")
        if self.n_labels != other.n_labels:
            raise LabelError(f"statistics of {self.n_labels} and {other.n_labels} labels")
        if self.keep != other.keep:
            raise InvalidInputError(
                f"only statistics that keep the same add up, not {self.keep} and {other.keep}"
            )
        new = Statistics(widths, self.n_labels, self.keep)
        new.label_sets = self.label_sets.copy()
        numbers = new.label_sets.number_of_sets(other.label_sets)
        n_sets = len(new.label_sets)

        def spread(mine: Array, theirs: Array) -> Any:
            total = np.zeros((n_sets, *mine.shape[1:]))
            total[: len(mine)] = mine
            total[numbers] += sign * theirs
            return total

        new.counts = spread(self.counts, other.counts)
        for name, view in self.views.items():
            its = other.views[name]
            new.views[name] = ViewStatistics(
                np.asfortranarray(view.upper + sign * its.upper),
                spread(view.sums, its.sums),
                spread(view.counts, its.counts),
            )
        new.patterns = add_patterns(self.patterns, other.patterns, sign)
        mine, theirs = self.sample, other.sample
        if mine is not None and theirs is not None:
            new._samples = [mine - theirs if sign < 0 else mine + theirs if sign else mine]
        return new

    def compact(self) -> "Statistics":
        """Return the same sums without empty label sets, sets in the order of their bits.

        So that a fit does not depend on the order in which the items came.
        """
        used = np.flatnonzero(self.counts > 0)
        packed = self.label_sets.packed()[used]
        order = np.lexsort(packed.T[::-1]) if len(used) else used
        rows = used[order]
        new = Statistics({}, self.n_labels, self.keep)
        new.patterns, new._samples = self.patterns, self._samples
        new.label_sets = LabelSets.from_packed(packed[order], self.n_labels)
        new.counts = self.counts[rows]
        new.views = {
            name: ViewStatistics(view.upper, view.sums[rows], view.counts[rows])
            for name, view in self.views.items()
        }
        return new

"""The sums that ACQH and label regression need of the data, and nothing else of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from acqh._core.arrays import Array, Bools, Floats, Ints, Matrix, is_sparse
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.stats._kernels import add_rows_by_set, add_sparse_gram, add_sparse_rows_by_set
from acqh.stats._label_sets import LabelSets

# Rows of a dense view that are widened to float64 at a time.
_BLOCK_ROWS = 2048


@dataclass
class ViewStatistics:
    """Sums over the labelled items that have one view.

    Attributes
    ----------
    upper : (n_features, n_features) float64
        Upper triangle of the Gram matrix; below it nothing is kept.
    sums : (n_sets, n_features) float64
        Features summed by label set.
    counts : (n_sets,) float64
        How many items of each label set have the view.
    """

    upper: Floats
    sums: Floats
    counts: Floats

    @classmethod
    def zeros(cls, n_features: int, n_sets: int) -> "ViewStatistics":
        """Return the sums of no items."""
        return cls(
            np.zeros((n_features, n_features), order="F"),
            np.zeros((n_sets, n_features)),
            np.zeros(n_sets),
        )

    @property
    def n_features(self) -> int:
        """Width of the view."""
        return int(self.upper.shape[0])

    @property
    def n_items(self) -> int:
        """How many items have the view."""
        return round(float(self.counts.sum()))

    @property
    def gram(self) -> Floats:
        """The Gram matrix ``X^T X``, (n_features, n_features)."""
        gram = np.triu(self.upper)
        gram += gram.T
        np.fill_diagonal(gram, np.diag(self.upper))
        return gram

    def grown(self, n_sets: int) -> "ViewStatistics":
        """Return the same sums with room for more label sets."""
        extra = n_sets - len(self.counts)
        if extra == 0:
            return self
        return ViewStatistics(
            self.upper,
            np.concatenate([self.sums, np.zeros((extra, self.n_features))]),
            np.concatenate([self.counts, np.zeros(extra)]),
        )

    def update(self, matrix: Matrix, sets: Ints) -> None:
        """Add rows; row i belongs to label set ``sets[i]``."""
        np.add(self.counts, np.bincount(sets, minlength=len(self.counts)), out=self.counts)
        if is_sparse(matrix):
            data = matrix.data
            add_sparse_rows_by_set(matrix.indptr, matrix.indices, data, sets, self.sums)
            add_sparse_gram(matrix.indptr, matrix.indices, data, self.upper)
            return
        for start in range(0, len(matrix), _BLOCK_ROWS):
            block = np.asarray(matrix[start : start + _BLOCK_ROWS], dtype=np.float64, order="C")
            add_rows_by_set(block, sets[start : start + _BLOCK_ROWS], self.sums)
            # The transpose of a C-ordered block is what BLAS calls column-major: no copy.
            self.upper = dsyrk(1.0, block.T, beta=1.0, c=self.upper, overwrite_c=True)


class Statistics:
    """Everything a fit needs to know of the data, as sums that add up.

    Items without labels are left out: nothing can be learnt from them here. A view that is
    missing for some items keeps its own rows and its own counts.

    Attributes
    ----------
    label_sets : LabelSets
        The distinct label sets.
    counts : (n_sets,) float64
        Items of each label set, whichever views they have.
    views : dict of str to ViewStatistics

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

    def __init__(self, widths: Mapping[str, int], n_labels: int) -> None:
        self.label_sets = LabelSets(n_labels)
        self.counts: Floats = np.zeros(0)
        self.views = {name: ViewStatistics.zeros(width, 0) for name, width in widths.items()}

    @classmethod
    def of(
        cls,
        views: Mapping[str, Matrix],
        labels: Matrix,
        present: Mapping[str, Bools] | None = None,
    ) -> "Statistics":
        """Return the sums over some items; see `update`."""
        new = cls({name: matrix.shape[1] for name, matrix in views.items()}, labels.shape[1])
        return new.update(views, labels, present)

    @property
    def n_items(self) -> int:
        """How many labelled items were added."""
        return round(float(self.counts.sum()))

    @property
    def n_labels(self) -> int:
        """Number of label columns."""
        return self.label_sets.n_labels

    def update(
        self,
        views: Mapping[str, Matrix],
        labels: Matrix,
        present: Mapping[str, Bools] | None = None,
    ) -> "Statistics":
        """Add items in place.

        Parameters
        ----------
        views : mapping of str to dense or CSR, (n_items, n_features)
            Finite numbers, of the widths that the statistics were made for.
        labels : 0/1 (n_items, n_labels), dense or CSR
        present : mapping of str to bool (n_items,), optional
            Which items have a view; all of them where it is not named.

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
        self._check(views, labels)
        sets = self.label_sets.number(labels)
        self._grow()
        labelled = sets >= 0
        np.add(
            self.counts, np.bincount(sets[labelled], minlength=len(self.counts)), out=self.counts
        )
        for name, matrix in views.items():
            rows = labelled if present is None or name not in present else labelled & present[name]
            if rows.all():
                self.views[name].update(matrix, sets)
            elif rows.any():
                self.views[name].update(matrix[np.flatnonzero(rows)], sets[rows])
        return self

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

    def _grow(self) -> None:
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
        if np.any(result.counts < 0) or any(np.any(v.counts < 0) for v in result.views.values()):
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
        new = Statistics(widths, self.n_labels)
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
        return new

    def compact(self) -> "Statistics":
        """Return the same sums without empty label sets, sets in the order of their bits.

        So that a fit does not depend on the order in which the items came.
        """
        used = np.flatnonzero(self.counts > 0)
        packed = self.label_sets.packed()[used]
        order = np.lexsort(packed.T[::-1]) if len(used) else used
        rows = used[order]
        new = Statistics({}, self.n_labels)
        new.label_sets = LabelSets.from_packed(packed[order], self.n_labels)
        new.counts = self.counts[rows]
        new.views = {
            name: ViewStatistics(view.upper, view.sums[rows], view.counts[rows])
            for name, view in self.views.items()
        }
        return new

    def to_arrays(self) -> dict[str, Array]:
        """Return the sums as named arrays, for `from_arrays`."""
        arrays = {"label_sets": self.label_sets.packed(), "counts": self.counts}
        for name, view in self.views.items():
            arrays[f"{name}/gram"] = view.gram
            arrays[f"{name}/sums"] = view.sums
            arrays[f"{name}/counts"] = view.counts
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], n_labels: int) -> "Statistics":
        """Return the statistics of which `to_arrays` gave the arrays."""
        new = cls({}, n_labels)
        new.label_sets = LabelSets.from_packed(arrays["label_sets"], n_labels)
        new.counts = np.array(arrays["counts"])
        for key in arrays:
            name, _, part = key.rpartition("/")
            if part == "gram":
                new.views[name] = ViewStatistics(
                    np.array(arrays[key], order="F"),
                    np.array(arrays[f"{name}/sums"]),
                    np.array(arrays[f"{name}/counts"]),
                )
        return new

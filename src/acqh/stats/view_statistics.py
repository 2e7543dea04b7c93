"""The sums over the labelled items of one view."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Floats, Ints, Matrix, is_sparse, slices
from acqh.stats.compiled import add_rows_by_set, add_sparse_rows_by_set
from acqh.stats.moments import BLOCK_ROWS, mirror, upper_gram


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

    def _restored(self) -> None:
        self.upper = np.asfortranarray(self.upper)  # as BLAS adds to it

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
        return mirror(self.upper)

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
        self.upper, _ = upper_gram(matrix, self.adder(sets), self.upper)

    def adder(self, sets: Ints) -> Callable[[slice, Matrix], None]:
        """Return what adds blocks of rows by label set; row i belongs to ``sets[i]``."""
        return lambda rows, block: self.add_by_set(block, sets[rows])

    def add_by_set(self, matrix: Matrix, sets: Ints) -> None:
        """Add rows to the sums and counts by label set, but not to the Gram matrix."""
        np.add(self.counts, np.bincount(sets, minlength=len(self.counts)), out=self.counts)
        if is_sparse(matrix):
            add_sparse_rows_by_set(matrix.indptr, matrix.indices, matrix.data, sets, self.sums)
            return
        for rows in slices(len(matrix), BLOCK_ROWS):
            add_rows_by_set(np.asarray(matrix[rows], dtype=np.float64), sets[rows], self.sums)

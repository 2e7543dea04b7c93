"""Features on their way into a model: on the disk, so that a build takes little memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Bools, Matrix, is_sparse
from acqh.data import MultiViewData


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features of numbered items, of which any may lack any view.

    Examples
    --------
    >>> table = FeatureTable({"image": np.eye(3)}, {"image": np.array([True, False, True])})
    >>> table.chunk(1, 3).ids.tolist()
    [1]
    """

    # each (n_items, n_features): rows of absent views are zero.
    views: Mapping[str, Matrix]
    present: Mapping[str, Bools]  # each bool (n_items,)

    def having(self, names: Sequence[str]) -> Bools:
        """Return which items have any of some views."""
        return np.asarray(np.any([self.present[name] for name in names], axis=0))

    def chunk(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        names: Sequence[str] | None = None,
        labels: Sequence[Sequence[str]] = (),
        label_names: Sequence[str] = (),
    ) -> MultiViewData | None:
        """Return those of the items from `start` up to `stop` that have any of some views.

        `names`: of the views; all by default. `label_names`: all labels; without them the data has
        none. Its ids say which of these items they are, from 0; None where there is none.
        """
        names = list(self.views) if names is None else names
        span = slice(start, stop)
        rows = np.flatnonzero(self.having(names)[span]) if names else np.empty(0, dtype=np.int64)
        if rows.size == 0:
            return None
        return MultiViewData(
            {name: self.views[name][span][rows] for name in names},
            [labels[start + row] for row in rows.tolist()] if label_names else None,
            ids=rows,
            label_names=label_names or None,
            present={name: self.present[name][span][rows] for name in names},
        )


class StagedView:
    """The features of one view, row by row: dense ones in a file, sparse ones in memory.

    `path`: the file for dense features.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     staged = StagedView(Path(folder, "image"))
    ...     staged.append(np.eye(2), np.array([True, True]))
    ...     staged.matrix()[1].tolist()
    [0.0, 1.0]
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sparse: list[Matrix] = []
        self._present: list[Bools] = []
        self._width = 0

    def append(self, matrix: Matrix, present: Bools) -> None:
        """Add rows, and which of them are present."""
        self._width = matrix.shape[1]
        self._present.append(present)
        if is_sparse(matrix):
            self._sparse.append(sp.csr_array(matrix))
        else:
            with self._path.open("ab") as file:
                file.write(np.ascontiguousarray(matrix, dtype=np.float32).data)

    def matrix(self) -> Matrix:
        """Return all rows."""
        if self._sparse:
            return sp.csr_array(sp.vstack(self._sparse, format="csr"))
        mapped: Array = np.memmap(self._path, dtype=np.float32, mode="r")
        return mapped.reshape(-1, self._width)

    def present(self) -> Bools:
        """Return which rows are present."""
        return np.concatenate(self._present)

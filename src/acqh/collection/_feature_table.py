"""Features on their way into a model: on the disk, so that a build takes little memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Bools, Matrix, is_sparse
from acqh.collection._coder import Features
from acqh.data import MultiViewData


class FeatureTable(Protocol):
    """Features of numbered rows."""

    def chunk(self, start: int, stop: int) -> Features:
        """Return the features of the rows from `start` up to `stop`."""


class GivenFeatures:
    """Features that data brings along."""

    def __init__(self, data: MultiViewData) -> None:
        self._data = data

    def chunk(self, start: int, stop: int) -> Features:
        """Return the features of the rows from `start` up to `stop`."""
        rows = slice(start, stop)
        views = {name: view[rows] for name, view in self._data.views.items()}
        return Features(views, {name: each[rows] for name, each in self._data.present.items()})


class StagedView:
    """The features of one view, row by row: dense ones in a file, sparse ones in memory.

    Parameters
    ----------
    path : Path
        The file for dense features.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     staged = StagedView(Path(folder, "image"))
    ...     staged.append(np.eye(2), np.array([True, True]))
    ...     staged.rows(1, 2)[0].tolist()
    [[0.0, 1.0]]
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sparse: list[Matrix] = []
        self._present: list[Bools] = []
        self._joined: tuple[Matrix, Bools] | None = None
        self._width = 0

    def append(self, matrix: Matrix, present: Bools) -> None:
        """Add rows."""
        self._joined = None
        self._width = matrix.shape[1]
        self._present.append(present)
        if is_sparse(matrix):
            self._sparse.append(sp.csr_array(matrix))
        else:
            with self._path.open("ab") as file:
                file.write(np.ascontiguousarray(matrix, dtype=np.float32).data)

    def rows(self, start: int, stop: int) -> tuple[Matrix, Bools]:
        """Return rows and which of them are present."""
        if self._joined is None:
            self._joined = self._join(), np.concatenate(self._present)
        matrix, present = self._joined
        return matrix[start:stop], present[start:stop]

    def _join(self) -> Matrix:
        if self._sparse:
            self._sparse = [sp.csr_array(sp.vstack(self._sparse, format="csr"))]
            return self._sparse[0]
        mapped: Array = np.memmap(self._path, dtype=np.float32, mode="r")
        return mapped.reshape(-1, self._width)


class StagedFeatures:
    """The features of several views."""

    def __init__(self, views: Mapping[str, StagedView]) -> None:
        self._views = views

    def chunk(self, start: int, stop: int) -> Features:
        """Return the features of the rows from `start` up to `stop`."""
        found = {name: view.rows(start, stop) for name, view in self._views.items()}
        return Features(
            {name: matrix for name, (matrix, _) in found.items()},
            {name: present for name, (_, present) in found.items()},
        )

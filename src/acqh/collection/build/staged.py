"""Features on their way into a model: on the disk, so that a build takes little memory."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Bools, Matrix, is_sparse, slices

_BLOCK_ROWS = 4_096


class StagedView:
    """The features of one view, row by row: dense ones in a file, sparse ones in memory.

    `path`: the file for dense features.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     staged = StagedView(Path(folder, "image"))
    ...     staged.append(np.eye(2), np.array([True, True]))
    ...     staged.matrix(np.array([False, True])).tolist()
    [[0.0, 1.0]]
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

    def present(self) -> Bools:
        """Return which rows are present."""
        return np.concatenate(self._present)

    def matrix(self, kept: Bools) -> Matrix:
        """Return some rows, after which the others are gone."""
        if self._sparse:
            return sp.csr_array(sp.vstack(self._sparse, format="csr"))[np.flatnonzero(kept)]
        rows: Array = np.memmap(self._path, dtype=np.float32, mode="r+").reshape(-1, self._width)
        if kept.all():
            return rows
        end = 0  # rows move up in the file, since they may not fit into memory
        for span in slices(len(rows), _BLOCK_ROWS):
            block = rows[span][kept[span]]
            rows[end : end + len(block)] = block
            end += len(block)
        return rows[:end]

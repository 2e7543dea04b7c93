"""What every reader checks before it allocates: sizes that a file declares, and sparse pieces."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh.errors import CorruptBundleError, InvalidInputError, LabelError, ViewError

# Rows of a chunk, where the caller does not say.
CHUNK_SIZE = 8_192

# No deflated stream can unpack to more than about 1,032 times its size.
DEFLATE_RATIO = 1_040
# A line longer than this is not a line of a table.
MAX_LINE_BYTES = 16 * 2**20

# A compressed file may unpack to this much whatever its size ...
_ALWAYS_ALLOWED_BYTES = 256 * 2**20
# ... and beyond that to this many times its size. Real feature files stay far below.
_ALWAYS_ALLOWED_RATIO = 200


def check_unpacked_size(path: Path, declared: int, file_size: int, max_bytes: int | None) -> None:
    """Refuse a file that would unpack to far more memory than its size on disk suggests.

    `declared`: bytes the arrays of the file would take. `file_size`: bytes the file takes.
    `max_bytes`: the caller's own limit, which replaces the usual one. Raises InvalidInputError: the
    limit is exceeded.
    """
    limit = max_bytes
    if limit is None:
        limit = max(_ALWAYS_ALLOWED_BYTES, _ALWAYS_ALLOWED_RATIO * file_size)
    if declared > limit:
        raise InvalidInputError(
            f"{path.name} has {file_size:,} bytes but its arrays would take {declared:,}, more "
            f"than the {limit:,} allowed; if you trust the file, give max_bytes={declared}"
        )


def check_any_rows(n_rows: int, path: Path) -> None:
    """Refuse a file without rows."""
    if n_rows == 0:
        raise ViewError(f"{path.name} has no rows; give at least one item")


def check_names_have_labels(names: Sequence[str] | None, path: Path) -> None:
    """Refuse names of labels for a file that has no labels."""
    if names is not None:
        raise LabelError(f"label_names were given, but {path.name} has no labels")


def check_compressed(
    where: str, pointers: Array, indices: Array, values: Array, shape: tuple[int, int]
) -> None:
    """Check the pieces of a compressed sparse matrix, so that no later step reads outside them.

    `where`: what to call the matrix in an error. `pointers`, `indices`, `values`: (n_major + 1,),
    (n_stored,), (n_stored,). `shape`: (n_major, n_minor); rows and columns of CSR, columns and rows
    of CSC. Raises CorruptBundleError: the pieces contradict one another.
    """
    check_pointer_count(where, pointers.shape, pointers.dtype, shape[0])
    check_some_pointers(where, pointers, 0, shape[0], len(indices))
    if len(indices) != len(values):
        raise CorruptBundleError(
            f"{where} is damaged: {len(indices)} indices but {len(values)} values"
        )
    check_indices(where, indices, shape[1])


def check_pointer_count(
    where: str, shape: tuple[int, ...], dtype: "np.dtype[Any]", n_major: int
) -> None:
    """Check that there is a pointer for each row, and one more; see `check_compressed`."""
    if dtype.kind not in "iu" or shape != (n_major + 1,):
        raise CorruptBundleError(
            f"{where} is damaged: its pointers have dtype {dtype} and shape {shape}, expected "
            f"{n_major + 1} whole numbers"
        )


def check_some_pointers(
    where: str, pointers: Array, start: int, n_major: int, n_stored: int
) -> None:
    """Check the pointers from row `start` on, which rise from 0 to the number of stored values."""
    falling = np.flatnonzero(pointers[1:] < pointers[:-1])
    if falling.size:
        raise CorruptBundleError(
            f"{where} is damaged: its pointers fall after row {start + falling[0]}"
        )
    first, last = int(pointers[0]), int(pointers[-1])
    at_ends = (start > 0 or first == 0) and (start + len(pointers) <= n_major or last == n_stored)
    if not at_ends or first < 0 or last > n_stored:
        raise CorruptBundleError(
            f"{where} is damaged: its pointers go from {first} to {last}, but {n_stored} values "
            "are stored"
        )


def check_indices(where: str, indices: Array, n_minor: int) -> None:
    """Check that indices are inside the matrix; see `check_compressed`."""
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise CorruptBundleError(
            f"{where} is damaged: its indices have dtype {indices.dtype} and {indices.ndim} "
            "dimensions, expected a list of whole numbers"
        )
    if indices.size and (indices.min() < 0 or indices.max() >= n_minor):
        wrong = indices.max() if indices.max() >= n_minor else indices.min()
        raise CorruptBundleError(
            f"{where} is damaged: it has an index {wrong}, but indices go from 0 to {n_minor - 1}"
        )

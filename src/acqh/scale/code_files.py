"""Codes in files of NumPy, read a block at a time."""

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh.errors import InvalidInputError

_BLOCK = 1 << 18


class CodeFiles:
    """Codes in ``.npy`` files, read a block at a time, as often as one likes.

    Iterating gives ``(codes, None)``: there are no ids, so an index numbers the items. One block is
    in memory at a time, however large the files are.

    Parameters
    ----------
    *paths : path-like
        Files of arrays of the same width, in the order of the items.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    InvalidInputError
        A file is no ``.npy`` file of rows of numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/codes.npy", np.zeros((5, 4), dtype=np.uint8))
    ...     files = CodeFiles(folder + "/codes.npy")
    ...     len(files), [codes.shape for codes, _ in files]
    (5, [(5, 4)])
    """

    def __init__(self, *paths: str | PathLike[str]) -> None:
        self.paths = tuple(map(Path, paths))
        self._lengths = tuple(len(_open(path)) for path in self.paths)

    def __len__(self) -> int:
        return sum(self._lengths)

    def __repr__(self) -> str:
        return f"<CodeFiles: {len(self)} items in {len(self.paths)} files>"

    def __iter__(self) -> Iterator[tuple[Array, None]]:
        for path, length in zip(self.paths, self._lengths, strict=True):
            for start in range(0, length, _BLOCK):
                # Mapped again each time, so that what was read before does not stay in memory.
                yield _open(path)[start : start + _BLOCK], None


def _open(path: Path) -> Any:
    try:
        codes = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidInputError(f"{path} is not a .npy file of codes: {error}") from error
    if not isinstance(codes, np.ndarray) or codes.ndim != 2:
        raise InvalidInputError(f"{path} is not a .npy file of codes, one row per item")
    return codes

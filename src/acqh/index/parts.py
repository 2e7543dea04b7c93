"""Reading items that come in parts."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import Progress
from acqh.errors import InvalidInputError

# Items that are checked and handed on at once.
_BLOCK = 1 << 18


# Codes and ids, or None, part by part; or what gives them, each time it is called.
_Each: TypeAlias = Iterable[tuple[Any, Any]]
Parts: TypeAlias = _Each | Callable[[], _Each]


class PartReader:
    """Blocks of the codes and rows of all parts, as `build_lists` reads them: twice.

    `parts`: the same each time they are read. `check_codes`: returns codes as (n, n_codebooks)
    uint8 or raises. `take_ids`: called in the first reading with the ids of each part, or None, and
    how many it has. `progress`: called after each part; items read once count half.
    """

    def __init__(
        self,
        parts: Parts,
        check_codes: Callable[[Any], Array],
        take_ids: Callable[[Any, int], object],
        progress: Progress | None,
    ) -> None:
        self._parts = parts
        self._check_codes = check_codes
        self._take_ids = take_ids
        self._progress = progress
        self._first: tuple[int, int] | None = None
        self.n_items = 0  # before the first reading has ended
        self._begun: Iterator[tuple[Array, Array]] | None = None

    def read_flat(self, n_most: int) -> Array | None:
        """Return all codes, read twice, or None where there are more; then call the reader."""
        reading, codes, n = self._read(), [], 0
        for block, rows in reading:
            codes.append(block)
            n += len(block)
            if n > n_most:
                begun = np.concatenate(codes), np.arange(n, dtype=rows.dtype)
                self._begun = chain([begun], reading)
                return None
        for _ in self._read():
            pass
        return np.concatenate(codes) if codes else np.empty((0, 0), dtype=np.uint8)

    def __call__(self) -> Iterator[tuple[Array, Array]]:
        """Yield the codes and rows of all items, a block at a time.

        Raises InvalidInputError: codes or ids that do not fit; other codes than in the first
        reading.
        """
        begun, self._begun = self._begun, None
        return begun or self._read()

    def _read(self) -> Iterator[tuple[Array, Array]]:
        n_done, check = 0, 0
        for part_codes, ids in self._parts() if callable(self._parts) else self._parts:
            codes = np.asarray(part_codes)
            if codes.ndim != 2:
                self._check_codes(codes)  # which says what is wrong
            if self._first is None:
                self._take_ids(ids, len(codes))
            for start in range(0, len(codes), _BLOCK):
                block = np.ascontiguousarray(self._check_codes(codes[start : start + _BLOCK]))
                check = zlib.crc32(block.data, check)
                yield block, np.arange(n_done, n_done + len(block), dtype=np.uint32)
                n_done += len(block)
            self._tell(n_done)
        if self._first is None:
            self._first, self.n_items = (n_done, check), n_done
        elif self._first != (n_done, check):
            raise InvalidInputError(
                "the parts were not the same when they were read again; give parts that do not "
                "change, or add them one by one"
            )

    def _tell(self, n_done: int) -> None:
        if self._progress is None:
            return
        if self._first is None:
            self._progress(n_done // 2, None, f"{n_done:,} items counted")
        else:
            done = min((self.n_items + n_done) // 2, self.n_items)
            self._progress(done, self.n_items, f"{n_done:,} items indexed")

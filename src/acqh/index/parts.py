"""Read items in parts, twice."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import Progress
from acqh.errors import InvalidInputError

# Items per block.
_BLOCK = 1 << 18


# Pairs of codes and ids or None; or a callable that returns them.
_Pairs: TypeAlias = Iterable[tuple[Any, Any]]
Parts: TypeAlias = _Pairs | Callable[[], _Pairs]


class PartReader:
    """Blocks of the codes and rows of all parts, as `build_lists` reads them: twice.

    `parts`: the same in both readings. `check_codes`: returns codes as (n, n_codebooks) uint8 or
    raises. `append_ids`: called in the first reading with the ids of each part, or None, and its
    number of items. `progress`: called after each part; items read once count half.
    """

    def __init__(
        self,
        parts: Parts,
        check_codes: Callable[[Any], Array],
        append_ids: Callable[[Any, int], object],
        progress: Progress | None,
    ) -> None:
        self._parts = parts
        self._check_codes = check_codes
        self._append_ids = append_ids
        self._progress = progress
        self._first: tuple[int, int] | None = None
        self.n_items = 0  # until the end of the first reading
        self._started: Iterator[tuple[Array, Array]] | None = None

    def read_flat(self, max_items: int) -> Array | None:
        """Return all codes, or None if there are more than `max_items`; then call the reader."""
        blocks, codes, n = self._read(), [], 0
        for block, rows in blocks:
            codes.append(block)
            n += len(block)
            if n > max_items:
                first = np.concatenate(codes), np.arange(n, dtype=rows.dtype)
                self._started = chain([first], blocks)
                return None
        for _ in self._read():
            pass
        return np.concatenate(codes) if codes else np.empty((0, 0), dtype=np.uint8)

    def __call__(self) -> Iterator[tuple[Array, Array]]:
        """Yield the codes and rows of all items, a block at a time.

        Raises InvalidInputError: codes or ids that do not fit; other codes than in the first
        reading.
        """
        started, self._started = self._started, None
        return started or self._read()

    def _read(self) -> Iterator[tuple[Array, Array]]:
        n_done, checksum = 0, 0
        for part_codes, ids in self._parts() if callable(self._parts) else self._parts:
            codes = np.asarray(part_codes)
            if codes.ndim != 2:
                self._check_codes(codes)  # raises
            if self._first is None:
                self._append_ids(ids, len(codes))
            for start in range(0, len(codes), _BLOCK):
                block = np.ascontiguousarray(self._check_codes(codes[start : start + _BLOCK]))
                checksum = zlib.crc32(block.data, checksum)
                yield block, np.arange(n_done, n_done + len(block), dtype=np.uint32)
                n_done += len(block)
            self._report(n_done)
        if self._first is None:
            self._first, self.n_items = (n_done, checksum), n_done
        elif self._first != (n_done, checksum):
            raise InvalidInputError(
                "the parts changed between the first and the second reading; give parts that do "
                "not change, or add them one by one"
            )

    def _report(self, n_done: int) -> None:
        if self._progress is None:
            return
        if self._first is None:
            self._progress(n_done // 2, None, f"{n_done:,} items counted")
        else:
            done = min((self.n_items + n_done) // 2, self.n_items)
            self._progress(done, self.n_items, f"{n_done:,} items indexed")

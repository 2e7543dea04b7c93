"""The layout of a segment, from items in any order."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from acqh._core.arrays import Array, Ints
from acqh.errors import InvalidInputError
from acqh.index.compiled.layout import (
    count_heads,
    measure_groups,
    pack_groups,
    place_items,
    sort_runs,
)
from acqh.index.items.checks import MAX_CODEBOOK_SIZE, frozen
from acqh.index.search.types import Runs

# Read twice: each call gives the codes (n, n_codebooks) uint8 and rows (n,) uint32 of all items, a
# block at a time, the same each time; rows of one code rise.
Blocks: TypeAlias = Callable[[], Iterable[tuple[Array, Array]]]

_ROW_BYTES = 4
# Reading lists is worth it where at least this many items share a code, on average.
_GROUPED_FROM = 2
# A byte of a gap has this many of its bits.
_GAP_BITS = 7
# Lists are pointed into with 32 bits.
_MAX_GAP_BYTES = 2**32 - 1
# Heads take as many words as leave this many codes a run, on average.
_CODES_A_RUN = 1 / 2


def lay_out(
    blocks: Blocks, n_codebooks: int, codebook_size: int, n_items: int | None = None
) -> Runs:
    """Sort items by their codes, those of equal codes as they come, and group these if it pays.

    In memory are a block, the layout, a second copy of its largest run while runs are sorted, and
    where codes are grouped a second layout, which is smaller.

    `blocks`: gives all items, in blocks; called twice. `n_items`: how many there are, where it is
    known. Raises InvalidInputError: the blocks are not the same both times.
    """
    shape = n_codebooks, codebook_size
    counts = _count(blocks, shape, n_items)
    n_items = int(counts.sum())
    digits = choose_digits(n_items, *shape)
    counts = counts.reshape(codebook_size ** sum(digits), -1).sum(axis=1)
    starts = _starts(counts)
    tails, rows = _place(blocks, counts, sum(digits), shape)
    sort_runs(starts, tails, rows)
    n_codes, n_bytes = measure_groups(starts, tails, rows)
    gap_starts, gaps = np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.uint8)
    if n_bytes <= _MAX_GAP_BYTES and grouping_pays(n_items, n_codes, *shape):
        codes = np.empty((n_codes, n_codebooks), dtype=np.uint8)
        gap_starts, gaps = np.empty(n_codes + 1, dtype=np.uint32), np.empty(n_bytes, dtype=np.uint8)
        pack_groups(starts, tails, rows, codebook_size, codes, (gap_starts, gaps))
        digits = choose_digits(n_codes, *shape)
        starts = _starts(_count(lambda: [(codes, rows)], shape, n_codes))
        tails, rows = codes[:, sum(digits) :], rows[:0].copy()
    arrays = map(frozen, (starts, tails, rows, gap_starts, gaps, np.empty(0, dtype=np.uint8)))
    return Runs(codebook_size, *digits, n_items, *arrays)


def _count(blocks: Blocks, shape: tuple[int, int], n_items: int | None) -> Ints:
    """Return how many items each run has, or each part of a run."""
    n_codebooks, codebook_size = shape
    if n_items is None:
        # As finely as any layout may need it.
        n_head = min(2 * digits_a_side(codebook_size), n_codebooks)
    else:
        n_head = sum(choose_digits(n_items, *shape))
    counts = np.zeros(codebook_size**n_head, dtype=np.int64)
    for codes, _ in blocks():
        count_heads(frozen(codes), n_head, codebook_size, counts)
    return counts


def _place(
    blocks: Blocks, counts: Ints, n_head: int, shape: tuple[int, int]
) -> tuple[Array, Array]:
    """Return the other words and the rows of all items, run after run."""
    n_codebooks, codebook_size = shape
    ends = np.cumsum(counts).astype(np.uint64)
    free = ends - counts.astype(np.uint64)
    tails = np.empty((counts.sum(), n_codebooks - n_head), dtype=np.uint8)
    rows = np.empty(len(tails), dtype=np.uint32)
    had_room = True
    for codes, block_rows in blocks():
        block = frozen(codes), frozen(block_rows)
        had_room = place_items(*block, n_head, codebook_size, free, ends, tails, rows)
        if not had_room:
            break
    if not had_room or not np.array_equal(free, ends):
        raise InvalidInputError(
            "the items were not the same when they were read again; give parts that do not change"
        )
    return tails, rows


def _starts(counts: Ints) -> Array:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)


def digits_a_side(codebook_size: int) -> int:
    """Return how many words fit one half of a run's number, of at most 256 values.

    Examples
    --------
    >>> digits_a_side(256), digits_a_side(16)
    (1, 2)
    """
    digits = 1
    while 1 < codebook_size ** (digits + 1) <= MAX_CODEBOOK_SIZE:
        digits += 1
    return digits


def grouping_pays(n_items: int, n_codes: int, n_codebooks: int, codebook_size: int) -> bool:
    """Whether to keep each code once, with a list of rows: many share one, and it takes less."""

    def entry_bytes(n_entries: int) -> int:
        digits = choose_digits(n_entries, n_codebooks, codebook_size)
        return n_entries * (n_codebooks - sum(digits) + _ROW_BYTES)

    if n_codes * _GROUPED_FROM > n_items or n_items == 0:
        return False
    # The mean gap between rows of one code is about the number of codes.
    gap_bytes = n_items * max(1, -(-int(n_codes).bit_length() // _GAP_BITS))
    return entry_bytes(n_codes) + gap_bytes < entry_bytes(n_items)


def choose_digits(n_entries: int, n_codebooks: int, codebook_size: int) -> tuple[int, int]:
    """Return the number of words in both halves of the head that suits that many entries."""
    side = digits_a_side(codebook_size)
    for digits_a, digits_b in ((side, side), (side, 0)):
        n_runs = codebook_size ** (digits_a + digits_b)
        if digits_a + digits_b <= n_codebooks and n_entries >= n_runs * _CODES_A_RUN:
            return digits_a, digits_b
    return 0, 0

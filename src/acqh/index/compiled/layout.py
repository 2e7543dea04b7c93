"""Compiled loops that lay out codes: a counting sort into lists, then a sort within each list.

Both sorts are stable. If the second reading of the items yields more items of a list than the
first, `place_items` stops instead of writing beyond the list.

If many items share a code, the code has a list of rows. The list is stored as gaps: the first row,
then for each further row the number of rows between it and the previous one. A gap is a
variable-byte integer (LEB128): 7 bits per byte, lowest first; the top bit is set if more follow.
"""

import math
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import kernel

# Lists of fewer items are sorted by insertion.
_INSERTION_SORT_MAX = 24
_ONE = np.uint64(1)
_BITS = np.uint64(7)
_LOW_BITS = np.uint64(127)
_MORE = np.uint64(128)
# Rows have 32 bits; further bits, from a damaged file, are ignored.
_MAX_SHIFT = np.uint64(35)


@kernel()
def count_items(codes: Array, n_prefix: int, size: int, counts: Array) -> None:
    """Add the number of items of each list to `counts`.

    `codes`: (n_items, n_codebooks) uint8; codewords below `size`. `n_prefix`: length of a prefix.
    `counts`: (size ** n_prefix,) int64; increased.
    """
    for item in range(np.uint64(codes.shape[0])):
        cell = np.uint64(0)
        for column in range(n_prefix):
            cell = cell * np.uint64(size) + np.uint64(codes[item, column])
        counts[cell] += 1


@kernel()
def place_items(
    codes: Array,
    rows: Array,
    n_prefix: int,
    size: int,
    free: Array,
    ends: Array,
    suffixes: Array,
    out_rows: Array,
) -> bool:
    """Write items to the next free places of their lists.

    Parameters
    ----------
    codes : (n_items, n_codebooks) uint8
        Codewords below `size`.
    rows : (n_items,) uint32
    n_prefix, size : int
    free : (n_lists,) uint64
        The next free place of each list; advanced.
    ends : (n_lists,) uint64
        The end of each list.
    suffixes : (n_entries, n_codebooks - n_prefix) uint8; filled
    out_rows : (n_entries,) uint32; filled

    Returns
    -------
    bool
        False if a list has more items than places.
    """
    n_suffix = suffixes.shape[1]
    for item in range(np.uint64(codes.shape[0])):
        cell = np.uint64(0)
        for column in range(n_prefix):
            cell = cell * np.uint64(size) + np.uint64(codes[item, column])
        place = free[cell]
        if place >= ends[cell]:
            return False
        free[cell] = place + _ONE
        for column in range(n_suffix):
            suffixes[place, column] = codes[item, n_prefix + column]
        out_rows[place] = rows[item]
    return True


@kernel()
def _insertion_sort(suffixes: Array, rows: Array) -> None:
    """Sort by insertion."""
    n_codewords = suffixes.shape[1]
    for item in range(1, rows.shape[0]):
        for place in range(item, 0, -1):
            column = 0
            while (
                column < n_codewords - 1 and suffixes[place, column] == suffixes[place - 1, column]
            ):
                column += 1
            if suffixes[place, column] >= suffixes[place - 1, column]:
                break
            for other in range(column, n_codewords):
                codeword = suffixes[place, other]
                suffixes[place, other] = suffixes[place - 1, other]
                suffixes[place - 1, other] = codeword
            row = rows[place]
            rows[place] = rows[place - 1]
            rows[place - 1] = row


@kernel()
def _sort_by_codeword(
    suffixes: Array, rows: Array, column: int, starts: Array, to_suffixes: Array, to_rows: Array
) -> bool:
    """Sort by one codeword into other arrays; return False and do nothing if all are equal."""
    n_items, n_codewords = suffixes.shape
    starts[:] = 0
    for item in range(n_items):
        starts[np.uint64(suffixes[item, column]) + _ONE] += 1
    if starts[np.uint64(suffixes[0, column]) + _ONE] == n_items:
        return False
    for codeword in range(256):
        starts[codeword + 1] += starts[codeword]
    for item in range(n_items):
        codeword = suffixes[item, column]
        place = starts[codeword]
        starts[codeword] = place + 1
        if n_codewords == 2:  # unrolled, because the usual four codebooks leave two
            to_suffixes[place, 0] = suffixes[item, 0]
            to_suffixes[place, 1] = suffixes[item, 1]
        else:
            for other in range(n_codewords):
                to_suffixes[place, other] = suffixes[item, other]
        to_rows[place] = rows[item]
    return True


@kernel()
def _radix_sort(suffixes: Array, rows: Array, spare_suffixes: Array, spare_rows: Array) -> None:
    """Sort codeword by codeword, last codeword first, between the arrays and the spare ones."""
    starts = np.empty(257, dtype=np.int64)
    moved = False
    for column in range(suffixes.shape[1] - 1, -1, -1):
        if moved:
            done = _sort_by_codeword(spare_suffixes, spare_rows, column, starts, suffixes, rows)
        else:
            done = _sort_by_codeword(suffixes, rows, column, starts, spare_suffixes, spare_rows)
        moved = moved != done
    if moved:
        for item in range(len(rows)):
            for column in range(suffixes.shape[1]):
                suffixes[item, column] = spare_suffixes[item, column]
            rows[item] = spare_rows[item]


@kernel()
def sort_lists(starts: Array, suffixes: Array, rows: Array) -> None:
    """Sort the items of each list stably by their suffixes.

    `starts`: (n_lists + 1,) uint32; where each list starts, and the end of the last. `suffixes`:
    (n_entries, n_codewords) uint8; sorted. `rows`: (n_entries,) uint32; permuted with them.

    Notes
    -----
    Needs memory for a second copy of the largest list.
    """
    if suffixes.shape[1] == 0:
        return
    most = np.int64(1)
    for cell in range(starts.shape[0] - 1):
        most = max(most, np.int64(starts[cell + 1]) - np.int64(starts[cell]))
    spare_suffixes = np.empty((most, suffixes.shape[1]), dtype=np.uint8)
    spare_rows = np.empty(most, dtype=np.uint32)
    for cell in range(starts.shape[0] - 1):
        start, stop = np.int64(starts[cell]), np.int64(starts[cell + 1])
        n = stop - start
        if n < _INSERTION_SORT_MAX:
            _insertion_sort(suffixes[start:stop], rows[start:stop])
        else:
            _radix_sort(suffixes[start:stop], rows[start:stop], spare_suffixes[:n], spare_rows[:n])


@kernel()
def _is_new(suffixes: Array, entry: Any, start: Any) -> Any:
    """Whether an item's code differs from that of the item before it in the list."""
    differs = entry == start
    for column in range(suffixes.shape[1]):
        differs |= suffixes[entry, column] != suffixes[entry - 1, column]
    return differs


@kernel()
def measure_groups(starts: Array, suffixes: Array, rows: Array) -> Any:
    """Return the number of distinct codes, and of bytes of their lists of rows.

    `starts`, `suffixes`, `rows`: sorted by `sort_lists`.
    """
    n_codes, n_bytes = np.int64(0), np.int64(0)
    for cell in range(starts.shape[0] - 1):
        start, stop = np.int64(starts[cell]), np.int64(starts[cell + 1])
        next_row = np.uint64(0)
        for entry in range(start, stop):
            if _is_new(suffixes, entry, start):
                n_codes += 1
                next_row = np.uint64(0)
            gap = np.uint64(rows[entry]) - next_row
            next_row = np.uint64(rows[entry]) + np.uint64(1)
            n_bytes += 1
            while gap >= _MORE:
                gap >>= _BITS
                n_bytes += 1
    return n_codes, n_bytes


@kernel()
def pack_groups(
    starts: Array, suffixes: Array, rows: Array, size: int, codes: Array, row_lists: Any
) -> None:
    """Write each code once, and the rows that have it as a list of gaps.

    Parameters
    ----------
    starts, suffixes, rows
        Sorted by `sort_lists`.
    size : int
        Codebook size.
    codes : (n_codes, n_codebooks) uint8; filled
    row_lists : ((n_codes + 1,) uint32, (n_bytes,) uint8)
        Where each list starts, and the gaps; filled.
    """
    gap_starts, gaps = row_lists
    n_prefix = codes.shape[1] - suffixes.shape[1]
    code, place, next_row = np.int64(0), np.int64(0), np.uint64(0)
    for cell in range(starts.shape[0] - 1):
        start, stop = np.int64(starts[cell]), np.int64(starts[cell + 1])
        for entry in range(start, stop):
            if _is_new(suffixes, entry, start):
                remainder = cell
                for column in range(n_prefix - 1, -1, -1):
                    codes[code, column] = remainder % size
                    remainder //= size
                for column in range(suffixes.shape[1]):
                    codes[code, n_prefix + column] = suffixes[entry, column]
                gap_starts[code] = place
                code += 1
                next_row = np.uint64(0)
            gap = np.uint64(rows[entry]) - next_row
            next_row = np.uint64(rows[entry]) + np.uint64(1)
            while gap >= _MORE:
                gaps[place] = (gap & _LOW_BITS) | _MORE
                gap >>= _BITS
                place += 1
            gaps[place] = gap
            place += 1
    gap_starts[code] = place


@kernel()
def measure_norm_bounds(starts: Array, suffixes: Array, codewords: Array, step: float) -> Any:
    """Return the largest norm of the residuals of each list's items, in steps, rounded up.

    Parameters
    ----------
    starts : (n_lists + 1,) uint32
    suffixes : (n_entries, n_suffix) uint8
        Codewords below the codebook size.
    codewords : (n_suffix, codebook_size, n_components) float32
    step : float
        At least the longest possible sum divided by 255.

    Returns
    -------
    (n_lists,) uint8
    """
    n_lists, n_suffix, n_components = starts.shape[0] - 1, suffixes.shape[1], codewords.shape[2]
    norm_bounds = np.zeros(n_lists, dtype=np.uint8)
    total = np.empty(n_components, dtype=np.float32)
    for cell in range(n_lists):
        longest = 0.0
        for entry in range(np.uint64(starts[cell]), np.uint64(starts[cell + 1])):
            total[:] = 0
            for c in range(n_suffix):
                codeword = codewords[c, suffixes[entry, c]]
                for d in range(n_components):
                    total[d] += codeword[d]
            square = 0.0
            for d in range(n_components):
                square += np.float64(total[d]) * np.float64(total[d])
            longest = max(longest, square)
        if step > 0:
            norm_bounds[cell] = min(math.ceil(math.sqrt(longest) * (1 + 1e-6) / step), 255)
    return norm_bounds


@kernel()
def read_codes(starts: Array, suffixes: Array, size: int, entries: Array, codes: Array) -> Any:
    """Read full codes, prefix and suffix.

    Parameters
    ----------
    starts : (n_lists + 1,) uint32
        Rising from 0 to the number of entries.
    suffixes : (n_entries, n_codewords) uint8
    size : int
        Codebook size.
    entries : (n,) int64
        Rising, below the number of entries.
    codes : (n, n_codebooks) uint8; filled

    Returns
    -------
    bool
        Whether all stored codewords are below `size`.
    """
    n_prefix = codes.shape[1] - suffixes.shape[1]
    prefix = np.zeros(n_prefix, dtype=np.uint8)
    cell, stop, highest = np.int64(-1), np.int64(0), np.int64(0)
    for i in range(entries.shape[0]):
        entry = entries[i]
        if entry >= stop:
            if cell < 0:
                cell = np.searchsorted(starts, np.uint32(entry), side="right") - 2
            while entry >= stop:
                cell += 1
                stop = np.int64(starts[cell + 1])
            remainder = cell
            for column in range(n_prefix - 1, -1, -1):
                prefix[column] = remainder % size
                remainder //= size
        for column in range(n_prefix):
            codes[i, column] = prefix[column]
        for column in range(n_prefix, codes.shape[1]):
            codeword = suffixes[entry, column - n_prefix]
            highest = max(highest, np.int64(codeword))
            codes[i, column] = codeword
    return highest < size


@kernel()
def read_row_lists(gap_starts: Array, gaps: Array, state: Array, rows: Array, codes: Array) -> Any:
    """Decode the next rows of lists of rows, until `rows` is full.

    Parameters
    ----------
    gap_starts : (n_codes + 1,) uint32
        Where each list starts in `gaps`, and the end of the last.
    gaps : (n_bytes,) uint8
    state : (3,) int64
        The code, the place in `gaps` and the smallest row that may follow; zeros at first, updated.
    rows : (n,) int64; filled
    codes : (n,) int64; filled with the number of each row's code

    Returns
    -------
    int
        Number of rows read; less than n only at the end.
    """
    code, place, next_row = state[0], state[1], np.uint64(state[2])
    gap, shift, n_read = np.uint64(0), np.uint64(0), 0
    while code < gap_starts.shape[0] - 1 and n_read < rows.shape[0]:
        if place >= min(np.int64(gap_starts[code + 1]), gaps.shape[0]):
            code += 1
            gap, shift, next_row = np.uint64(0), np.uint64(0), np.uint64(0)
            continue
        byte = np.uint64(gaps[place])
        place += 1
        if shift < _MAX_SHIFT:
            gap |= (byte & _LOW_BITS) << shift
        shift += _BITS
        if byte >= _MORE:
            continue
        rows[n_read] = next_row + gap
        codes[n_read] = code
        n_read += 1
        next_row += gap + np.uint64(1)
        gap, shift = np.uint64(0), np.uint64(0)
    state[0], state[1], state[2] = code, place, next_row
    return n_read

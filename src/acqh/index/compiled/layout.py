"""Compiled loops that lay out codes: a counting sort into runs, then a sort within each run.

Both keep equal codes in the order in which they came. No loop trusts its source to give the same
codes each time: an item for which no room was counted is not written.

Where many items share a code, their rows are one list. A list is stored as gaps: the first row,
then for each further row how many rows lie between it and the one before. A gap takes 7 bits per
byte, lowest first; the top bit says that more bytes follow.
"""

import math
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import kernel

# Runs of fewer items are sorted by moving one after the other.
_FEW = 24
_ONE = np.uint64(1)
_BITS = np.uint64(7)
_LOW_BITS = np.uint64(127)
_MORE = np.uint64(128)
# Rows have 32 bits; what a damaged file has beyond these is too large for a row in any case.
_MAX_SHIFT = np.uint64(35)


@kernel()
def count_heads(codes: Array, n_head: int, size: int, counts: Array) -> None:
    """Add how many items each run has.

    `codes`: (n_items, n_codebooks) uint8; words below `size`. `n_head`: how many words make up a
    run's number. `counts`: (size ** n_head,) int64; raised.
    """
    for item in range(np.uint64(codes.shape[0])):
        run = np.uint64(0)
        for column in range(n_head):
            run = run * np.uint64(size) + np.uint64(codes[item, column])
        counts[run] += 1


@kernel()
def place_items(
    codes: Array,
    rows: Array,
    n_head: int,
    size: int,
    free: Array,
    ends: Array,
    tails: Array,
    out_rows: Array,
) -> bool:
    """Put items at the next free places of their runs.

    Parameters
    ----------
    codes : (n_items, n_codebooks) uint8
        Words below `size`.
    rows : (n_items,) uint32
    n_head, size : int
    free : (n_runs,) uint64
        The next free place of each run; raised.
    ends : (n_runs,) uint64
        The end of each run.
    tails : (n_entries, n_codebooks - n_head) uint8; filled
    out_rows : (n_entries,) uint32; filled

    Returns
    -------
    bool
        Whether there was room for all.
    """
    n_tail = tails.shape[1]
    for item in range(np.uint64(codes.shape[0])):
        run = np.uint64(0)
        for column in range(n_head):
            run = run * np.uint64(size) + np.uint64(codes[item, column])
        place = free[run]
        if place >= ends[run]:
            return False
        free[run] = place + _ONE
        for column in range(n_tail):
            tails[place, column] = codes[item, n_head + column]
        out_rows[place] = rows[item]
    return True


@kernel()
def _sort_few(tails: Array, rows: Array) -> None:
    """Sort by insertion."""
    n_words = tails.shape[1]
    for item in range(1, rows.shape[0]):
        for place in range(item, 0, -1):
            column = 0
            while column < n_words - 1 and tails[place, column] == tails[place - 1, column]:
                column += 1
            if tails[place, column] >= tails[place - 1, column]:
                break
            for other in range(column, n_words):
                word = tails[place, other]
                tails[place, other] = tails[place - 1, other]
                tails[place - 1, other] = word
            row = rows[place]
            rows[place] = rows[place - 1]
            rows[place - 1] = row


@kernel()
def _sort_by_word(
    tails: Array, rows: Array, column: int, starts: Array, to_tails: Array, to_rows: Array
) -> bool:
    """Sort by one word into other arrays; do nothing and return False where all have the same."""
    n_items, n_words = tails.shape
    starts[:] = 0
    for item in range(n_items):
        starts[np.uint64(tails[item, column]) + _ONE] += 1
    if starts[np.uint64(tails[0, column]) + _ONE] == n_items:
        return False
    for word in range(256):
        starts[word + 1] += starts[word]
    for item in range(n_items):
        word = tails[item, column]
        place = starts[word]
        starts[word] = place + 1
        if n_words == 2:  # unrolled, because the usual four codebooks leave two
            to_tails[place, 0] = tails[item, 0]
            to_tails[place, 1] = tails[item, 1]
        else:
            for other in range(n_words):
                to_tails[place, other] = tails[item, other]
        to_rows[place] = rows[item]
    return True


@kernel()
def _sort_many(tails: Array, rows: Array, spare_tails: Array, spare_rows: Array) -> None:
    """Sort word by word, last word first, between the arrays and the spare ones."""
    starts = np.empty(257, dtype=np.int64)
    moved = False
    for column in range(tails.shape[1] - 1, -1, -1):
        if moved:
            done = _sort_by_word(spare_tails, spare_rows, column, starts, tails, rows)
        else:
            done = _sort_by_word(tails, rows, column, starts, spare_tails, spare_rows)
        moved = moved != done
    if moved:
        for item in range(len(rows)):
            for column in range(tails.shape[1]):
                tails[item, column] = spare_tails[item, column]
            rows[item] = spare_rows[item]


@kernel()
def sort_runs(starts: Array, tails: Array, rows: Array) -> None:
    """Sort the items of each run by their other words; equal ones keep their order.

    `starts`: (n_runs + 1,) uint32; where each run starts, and the end of the last. `tails`:
    (n_entries, n_words) uint8; put in order. `rows`: (n_entries,) uint32; put in the same order.

    Notes
    -----
    Takes room for a second copy of the largest run.
    """
    if tails.shape[1] == 0:
        return
    most = np.int64(1)
    for run in range(starts.shape[0] - 1):
        most = max(most, np.int64(starts[run + 1]) - np.int64(starts[run]))
    spare_tails = np.empty((most, tails.shape[1]), dtype=np.uint8)
    spare_rows = np.empty(most, dtype=np.uint32)
    for run in range(starts.shape[0] - 1):
        start, stop = np.int64(starts[run]), np.int64(starts[run + 1])
        n = stop - start
        if n < _FEW:
            _sort_few(tails[start:stop], rows[start:stop])
        else:
            _sort_many(tails[start:stop], rows[start:stop], spare_tails[:n], spare_rows[:n])


@kernel()
def _is_new(tails: Array, entry: Any, start: Any) -> Any:
    """Whether an item's code differs from that of the item before it in the run."""
    differs = entry == start
    for column in range(tails.shape[1]):
        differs |= tails[entry, column] != tails[entry - 1, column]
    return differs


@kernel()
def measure_groups(starts: Array, tails: Array, rows: Array) -> Any:
    """Return how many different codes there are, and how many bytes their lists of rows take.

    `starts`, `tails`, `rows`: as `sort_runs` leaves them.
    """
    n_codes, n_bytes = np.int64(0), np.int64(0)
    for run in range(starts.shape[0] - 1):
        start, stop = np.int64(starts[run]), np.int64(starts[run + 1])
        next_row = np.uint64(0)
        for entry in range(start, stop):
            if _is_new(tails, entry, start):
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
    starts: Array, tails: Array, rows: Array, size: int, codes: Array, lists: Any
) -> None:
    """Write each code once, and the rows that have it as a list of gaps.

    Parameters
    ----------
    starts, tails, rows
        As `sort_runs` leaves them.
    size : int
        Words of a codebook.
    codes : (n_codes, n_codebooks) uint8; filled
    lists : ((n_codes + 1,) uint32, (n_bytes,) uint8)
        Where each list starts, and the gaps; filled.
    """
    gap_starts, gaps = lists
    n_head = codes.shape[1] - tails.shape[1]
    code, place, next_row = np.int64(0), np.int64(0), np.uint64(0)
    for run in range(starts.shape[0] - 1):
        start, stop = np.int64(starts[run]), np.int64(starts[run + 1])
        for entry in range(start, stop):
            if _is_new(tails, entry, start):
                rest = run
                for column in range(n_head - 1, -1, -1):
                    codes[code, column] = rest % size
                    rest //= size
                for column in range(tails.shape[1]):
                    codes[code, n_head + column] = tails[entry, column]
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
def measure_reaches(starts: Array, tails: Array, words: Array, step: float) -> Any:
    """Return how long the sums of words of each run's items are, at most, in steps rounded up.

    Parameters
    ----------
    starts : (n_runs + 1,) uint32
    tails : (n_entries, n_tail) uint8
        Words below the codebook size.
    words : (n_tail, codebook_size, n_components) float32
    step : float
        At least the longest possible sum divided by 255.

    Returns
    -------
    (n_runs,) uint8
    """
    n_runs, n_tail, n_components = starts.shape[0] - 1, tails.shape[1], words.shape[2]
    reaches = np.zeros(n_runs, dtype=np.uint8)
    total = np.empty(n_components, dtype=np.float32)
    for run in range(n_runs):
        longest = 0.0
        for entry in range(np.uint64(starts[run]), np.uint64(starts[run + 1])):
            total[:] = 0
            for c in range(n_tail):
                word = words[c, tails[entry, c]]
                for d in range(n_components):
                    total[d] += word[d]
            square = 0.0
            for d in range(n_components):
                square += np.float64(total[d]) * np.float64(total[d])
            longest = max(longest, square)
        if step > 0:
            reaches[run] = min(math.ceil(math.sqrt(longest) * (1 + 1e-6) / step), 255)
    return reaches


@kernel()
def read_codes(starts: Array, tails: Array, size: int, entries: Array, codes: Array) -> Any:
    """Read whole codes.

    Parameters
    ----------
    starts : (n_runs + 1,) uint32
        Rising from 0 to the number of entries.
    tails : (n_entries, n_words) uint8
    size : int
        Words of a codebook.
    entries : (n,) int64
        Rising, and each of them there.
    codes : (n, n_codebooks) uint8; filled

    Returns
    -------
    bool
        Whether all stored words are below `size`.
    """
    n_head = codes.shape[1] - tails.shape[1]
    head = np.zeros(n_head, dtype=np.uint8)
    run, stop, highest = np.int64(-1), np.int64(0), np.int64(0)
    for i in range(entries.shape[0]):
        entry = entries[i]
        if entry >= stop:
            if run < 0:
                run = np.searchsorted(starts, np.uint32(entry), side="right") - 2
            while entry >= stop:
                run += 1
                stop = np.int64(starts[run + 1])
            rest = run
            for column in range(n_head - 1, -1, -1):
                head[column] = rest % size
                rest //= size
        for column in range(n_head):
            codes[i, column] = head[column]
        for column in range(n_head, codes.shape[1]):
            word = tails[entry, column - n_head]
            highest = max(highest, np.int64(word))
            codes[i, column] = word
    return highest < size


@kernel()
def read_lists(gap_starts: Array, gaps: Array, state: Array, rows: Array, codes: Array) -> Any:
    """Read on in lists of rows, as many rows as there is room for.

    Parameters
    ----------
    gap_starts : (n_codes + 1,) uint32
        Where each list starts in `gaps`, and the end of the last.
    gaps : (n_bytes,) uint8
    state : (3,) int64
        The code, the place in `gaps` and the least row that may follow; zeros at first, moved on.
    rows : (n,) int64; filled
    codes : (n,) int64; filled with the number of each row's code

    Returns
    -------
    int
        How many rows were read, less than n only at the end.
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

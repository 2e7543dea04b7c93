"""Lists of rising row numbers in a byte or two a row.

Where many items share a code, their rows are one list. A list is stored as gaps: the first row,
then for each further row how many rows lie between it and the one before. A gap takes 7 bits a
byte, lowest first; the top bit says that more bytes follow.
"""

import numpy as np

from acqh._core.arrays import Array, Ints

_BITS = 7
_MORE = 1 << _BITS
# Enough for gaps below 2 ** 35; rows are below 2 ** 32.
_MAX_BYTES = 5


def gap_size(gap: int) -> int:
    """Return how many bytes a gap takes.

    Examples
    --------
    >>> gap_size(127), gap_size(128)
    (1, 2)
    """
    return max(1, -(-int(gap).bit_length() // _BITS))


def pack_lists(rows: Ints, list_starts: Ints) -> tuple[Array, Array]:
    """Store lists of rows as gaps.

    Parameters
    ----------
    rows : (n_rows,)
        All lists, one after another, each rising.
    list_starts : (n_lists,)
        Where each list begins in `rows`; no list is empty.

    Returns
    -------
    gaps : (n_bytes,) uint8
    gap_starts : (n_lists + 1,) int64
        Where each list begins in `gaps`, and the end of the last.

    Examples
    --------
    >>> gaps, gap_starts = pack_lists(np.array([2, 3, 300, 0]), np.array([0, 3]))
    >>> gaps, gap_starts
    (array([  2,   0, 168,   2,   0], dtype=uint8), array([0, 4, 5]))
    """
    values = np.empty(len(rows), dtype=np.int64)
    values[1:] = np.diff(rows.astype(np.int64)) - 1
    values[list_starts] = rows[list_starts]
    sizes = np.ones(len(rows), dtype=np.int64)
    for size in range(1, _MAX_BYTES):
        sizes += values >= 1 << (_BITS * size)
    ends = np.cumsum(sizes)
    begins = ends - sizes
    gaps = np.empty(ends[-1] if len(ends) else 0, dtype=np.uint8)
    for place in range(int(sizes.max(initial=0))):
        has = sizes > place
        more = np.where(sizes[has] > place + 1, _MORE, 0)
        gaps[begins[has] + place] = (values[has] >> (_BITS * place)) % _MORE + more
    return gaps, np.append(begins[list_starts], len(gaps))


def unpack_lists(gaps: Array, gap_starts: Ints) -> tuple[Ints, Ints]:
    """Read what `pack_lists` wrote.

    Returns
    -------
    rows : (n_rows,) int64
    sizes : (n_lists,) int64
        How many rows each list has.

    Examples
    --------
    >>> unpack_lists(*pack_lists(np.array([2, 3, 300, 0]), np.array([0, 3])))
    (array([  2,   3, 300,   0]), array([3, 1]))
    """
    last = gaps < _MORE
    ends = np.flatnonzero(last) + 1
    if len(ends) == 0:
        return np.empty(0, dtype=np.int64), np.zeros(len(gap_starts) - 1, dtype=np.int64)
    begins = np.concatenate([[0], ends[:-1]])
    place = np.arange(ends[-1]) - np.repeat(begins, ends - begins)
    bits = (gaps[: ends[-1]].astype(np.int64) % _MORE) << (_BITS * (place % _MAX_BYTES))
    values = np.add.reduceat(bits, begins)
    # A list's rows are the running sum of its gaps, each with the step over the row before.
    list_starts = np.searchsorted(begins, gap_starts)
    sizes = np.diff(list_starts)
    totals = np.cumsum(values + 1)
    before = np.concatenate([[0], totals])[list_starts[:-1]]
    return totals - 1 - np.repeat(before, sizes), sizes

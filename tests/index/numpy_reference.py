"""NumPy references of the compiled kernels: slow, simple, and equal to the last bit."""

import itertools

import numpy as np

from acqh._core.arrays import Array, Floats, Ints
from acqh.index.flat import tables_of
from acqh.index.inverted import choose_prefix, grouping_pays, row_bytes
from acqh.index.search import InvertedLists

__all__ = [
    "best_rows",
    "build_lists",
    "find",
    "measure_norm_bounds",
    "pack_lists",
    "score_codes",
    "tables_of",
    "unpack_lists",
]

_BITS = 7
_MORE = 1 << _BITS
# Enough for gaps below 2 ** 35; rows are below 2 ** 32.
_MAX_BYTES = 5


def score_codes(tables: Floats, codes: Array) -> Floats:
    """Return (n_queries, n_items) scores, summed over codebooks from first to last.

    `tables`: (n_queries, n_codebooks, codebook_size) float32. `codes`: (n_items, n_codebooks).
    """
    scores = np.zeros((len(tables), len(codes)), dtype=np.float32)
    for column in range(codes.shape[1]):
        scores += tables[:, column][:, codes[:, column]]
    return scores


def best_rows(scores: Floats, k: int) -> Ints:
    """Return the k best rows of one query: higher score first, then lower row."""
    return np.lexsort([np.arange(len(scores)), -scores])[:k]


def find(sorted_ids: Array, ids: Array) -> Ints:
    """Return where each wanted id stands among the known ones, -1 where it does not."""
    place = {value: row for row, value in enumerate(sorted_ids.tolist())}
    return np.array([place.get(value, -1) for value in ids.tolist()], dtype=np.int64)


def build_lists(codes: Array, rows: Ints, codebook_size: int) -> InvertedLists:
    """Return items as they are searched, all at once.

    Parameters
    ----------
    codes : (n_items, n_codebooks) uint8
    rows : (n_items,)
        Rising among equal codes.
    codebook_size : int
    """
    shape = codes.shape[1], codebook_size
    order = np.lexsort(codes.T[::-1])
    codes, rows = codes[order], rows[order]
    gap_starts = gaps = none = np.empty(0, dtype=np.uint8)
    n_rows = len(codes)
    is_first = np.ones(len(codes), dtype=bool)
    is_first[1:] = (codes[1:] != codes[:-1]).any(axis=1)
    if grouping_pays(len(codes), int(np.count_nonzero(is_first)), *shape):
        list_starts = np.flatnonzero(is_first)
        gaps, gap_starts = pack_lists(rows, list_starts)
        codes, rows = codes[list_starts], rows[:0]
    halves = choose_prefix(len(codes), *shape)
    run = np.zeros(len(codes), dtype=np.int64)
    for column in range(sum(halves)):
        run = run * codebook_size + codes[:, column]
    n_bytes = row_bytes(int(rows.max(initial=0)))
    sizes = np.bincount(run, minlength=codebook_size ** sum(halves))
    return InvertedLists(
        codebook_size,
        *halves,
        n_rows,
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32),
        suffixes=codes[:, sum(halves) :],
        rows=np.stack([rows >> 8 * place & 255 for place in range(n_bytes)], 1).astype(np.uint8),
        gap_starts=gap_starts.astype(np.uint32),
        gaps=gaps,
        norm_bounds=none,
    )


def measure_norm_bounds(starts: Ints, suffixes: Array, codewords: Floats, step: float) -> Ints:
    """Return the length of the longest sum of codewords in each run, in steps rounded up.

    Parameters
    ----------
    starts : (n_lists + 1,)
    suffixes : (n_entries, n_suffix) uint8
    codewords : (n_suffix, codebook_size, n_components) float32
    step : float
    """
    sums = np.zeros((len(suffixes), codewords.shape[2]), dtype=np.float32)
    for codebook, column in zip(codewords, suffixes.T, strict=True):
        sums += codebook[column]
    lengths = np.zeros(len(suffixes))
    for component in sums.T.astype(np.float64):
        lengths += component * component
    longest = [lengths[start:stop].max(initial=0) for start, stop in itertools.pairwise(starts)]
    return np.minimum(np.ceil(np.sqrt(longest) * (1 + 1e-6) / step), 255).astype(np.int64)


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

"""An immutable block of codes, laid out for pruned search.

``CodeSegment.to_arrays`` gives named arrays and a small dictionary that JSON can hold;
``CodeSegment.from_arrays`` takes them back, from memory or memory-mapped, and checks all that the
kernels rely on; ``CodeSegment.verify`` reads every value.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, Bools, Ints
from acqh._core.errors import CorruptBundleError
from acqh.index._checks import MAX_CODEBOOK_SIZE, MAX_CODEBOOKS
from acqh.index._row_lists import gap_size, pack_lists, unpack_lists
from acqh.index._search._types import Runs
from acqh.index._stored import check_rising, frozen, read_array, read_count, require

_ROW_BYTES = 4
# Reading lists is worth it where at least this many items share a code, on average.
_GROUPED_FROM = 2
# Lists of more rows might not fit what a 32-bit number can point into.
_MAX_GROUPED = 2**32 // 5
# Heads take as many words as leave this many codes a run, on average.
_CODES_A_RUN = 1 / 2
# What is read in pieces is read so many rows, or bytes of lists, at a time.
_PIECE = 1 << 20

_COUNTS = ("n_codebooks", "codebook_size", "n_rows", "digits_a", "digits_b")
_DTYPES = {
    "starts": np.uint32,
    "tails": np.uint8,
    "rows": np.uint32,
    "gap_starts": np.uint32,
    "gaps": np.uint8,
}


@dataclass(frozen=True, slots=True, eq=False)
class CodeSegment:
    """Codes sorted by their words, first word first, with the rows they belong to.

    An entry is an item, or, where codes repeat, a distinct code. Entries with the same first
    ``digits_a + digits_b`` words are a run; those words are not stored, only where each run
    starts. A run's number has the words as digits in base ``codebook_size``.

    Parameters
    ----------
    n_codebooks, codebook_size : int
    n_rows : int
        Rows are 0 to ``n_rows - 1``, in order of insertion.
    digits_a, digits_b : int
        How many words make up each half of a run's number; 0 and 0 for a single run.
    starts : (n_runs + 1,) uint32
        Where each run starts among the entries, and the end of the last.
    tails : (n_entries, n_codebooks - digits_a - digits_b) uint8
        The other words of each entry.
    rows : (n_entries,) uint32
        Row of each item; empty where codes are grouped.
    gap_starts : (n_entries + 1,) uint32
        Where each code's list of rows starts in `gaps`; empty where codes are not grouped.
    gaps : (n_bytes,) uint8
        Lists of rows as ``_row_lists`` writes them.

    Examples
    --------
    >>> codes = np.array([[1, 0], [0, 2], [1, 0]], dtype=np.uint8)
    >>> segment = CodeSegment.of(codes, codebook_size=3)
    >>> segment.codes()
    array([[1, 0],
           [0, 2],
           [1, 0]], dtype=uint8)
    """

    n_codebooks: int
    codebook_size: int
    n_rows: int
    digits_a: int
    digits_b: int
    starts: Array
    tails: Array
    rows: Array
    gap_starts: Array
    gaps: Array

    @classmethod
    def of(cls, codes: Array, codebook_size: int) -> Self:
        """Lay out the codes of new rows.

        Parameters
        ----------
        codes : (n_rows, n_codebooks) uint8
            Words below `codebook_size`.
        codebook_size : int
        """
        return cls._of_unsorted(codes, np.arange(len(codes)), codebook_size, len(codes))

    @classmethod
    def join(cls, segments: Sequence[Self], keep: Sequence[Bools]) -> Self:
        """Make one segment of the rows to keep of several; rows are numbered anew, in order."""
        codes, rows, first_row = [], [], 0
        for segment, kept in zip(segments, keep, strict=True):
            number = np.cumsum(kept) - 1 + first_row
            first_row += int(np.count_nonzero(kept))
            kept_codes, kept_rows = segment._items(kept)
            codes.append(kept_codes)
            rows.append(number[kept_rows])
        # Within one code the rows of each segment rise, and so do those of later segments: a
        # stable sort keeps them rising.
        size = segments[0].codebook_size
        return cls._of_unsorted(np.concatenate(codes), np.concatenate(rows), size, first_row)

    @classmethod
    def _of_unsorted(cls, codes: Array, rows: Ints, codebook_size: int, n_rows: int) -> Self:
        order = np.lexsort(codes.T[::-1])
        return cls._of_sorted(codes[order], rows[order], codebook_size, n_rows)

    @classmethod
    def _of_sorted(cls, codes: Array, rows: Ints, codebook_size: int, n_rows: int) -> Self:
        n_codebooks = codes.shape[1]
        gap_starts = gaps = np.empty(0, dtype=np.uint8)
        is_first = np.ones(len(codes), dtype=bool)
        is_first[1:] = (codes[1:] != codes[:-1]).any(axis=1)
        n_distinct = int(np.count_nonzero(is_first))
        if len(codes) > 0 and _grouping_pays(len(codes), n_distinct, n_codebooks, codebook_size):
            list_starts = np.flatnonzero(is_first)
            gaps, gap_starts = pack_lists(rows, list_starts)
            codes, rows = codes[list_starts], rows[:0]
        digits_a, digits_b = _choose_digits(len(codes), n_codebooks, codebook_size)
        n_head = digits_a + digits_b
        run = np.zeros(len(codes), dtype=np.int64)
        for column in range(n_head):
            run = run * codebook_size + codes[:, column]
        sizes = np.bincount(run, minlength=codebook_size**n_head)
        return cls(
            n_codebooks,
            codebook_size,
            n_rows,
            digits_a,
            digits_b,
            starts=frozen(np.concatenate([[0], np.cumsum(sizes)]), np.uint32),
            tails=frozen(codes[:, n_head:], np.uint8),
            rows=frozen(rows, np.uint32),
            gap_starts=frozen(gap_starts, np.uint32),
            gaps=frozen(gaps, np.uint8),
        )

    @property
    def is_grouped(self) -> bool:
        """Whether an entry is a distinct code with a list of rows, not an item."""
        return len(self.gap_starts) > 0

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, name).nbytes for name in _DTYPES)

    @property
    def runs(self) -> Runs:
        """The arrays as the kernels take them."""
        return Runs(
            self.codebook_size,
            self.digits_a,
            self.digits_b,
            self.n_rows,
            self.starts,
            self.tails,
            self.rows,
            self.gap_starts,
            self.gaps,
        )

    def codes(self) -> Array:
        """Return the code of every row, (n_rows, n_codebooks) uint8."""
        codes, rows = self._items(np.ones(self.n_rows, dtype=bool))
        by_row = np.zeros_like(codes)
        by_row[rows] = codes
        return by_row

    def restrict(self, keep: Bools) -> Self:
        """Return a segment of the chosen rows only, which keep their numbers."""
        return self._of_sorted(*self._items(keep), self.codebook_size, self.n_rows)

    def code_of(self, row: int) -> Array:
        """Return the code of one row, (n_codebooks,) uint8; reads all row numbers."""
        keep = np.zeros(self.n_rows, dtype=bool)
        keep[row] = True
        codes, _ = self._items(keep)
        if len(codes) == 0:
            raise CorruptBundleError("the index lacks the code of an item; verify its file")
        return np.asarray(codes[0])

    def codes_between(self, start: int, stop: int) -> Array:
        """Return the codes of consecutive rows, (stop - start, n_codebooks) uint8.

        Reads all row numbers, a piece at a time: beside the codes little is in memory, and as long
        as lists of rows are short, how little does not depend on the number of rows.

        Raises
        ------
        CorruptBundleError
            A row is missing.
        """
        codes = np.empty((stop - start, self.n_codebooks), dtype=np.uint8)
        n_found = 0
        for entries, rows in self._pieces():
            chosen = np.flatnonzero((rows >= start) & (rows < stop))
            codes[rows[chosen] - start] = self._codes_at(entries[chosen])
            n_found += len(chosen)
        if n_found != stop - start:
            raise CorruptBundleError("a row is missing or occurs twice; verify the file")
        return codes

    def _pieces(self) -> Iterator[tuple[Ints, Array]]:
        """Yield entries and the row of each, in sorted order; grouped entries occur repeatedly."""
        n_entries = len(self.tails)
        start = 0
        while start < n_entries:
            if self.is_grouped:
                end_byte = int(self.gap_starts[start]) + _PIECE
                found = int(np.searchsorted(self.gap_starts, end_byte, side="right")) - 1
                stop = max(found, start + 1)  # a list is read whole
                begins = self.gap_starts[start : stop + 1].astype(np.int64)
                rows, sizes = unpack_lists(self.gaps[begins[0] : begins[-1]], begins - begins[0])
                yield np.repeat(np.arange(start, stop), sizes), rows
            else:
                stop = min(start + _PIECE, n_entries)
                yield np.arange(start, stop), self.rows[start:stop]
            start = stop

    def _items(self, keep: Bools) -> tuple[Array, Array]:
        """Return the codes and the rows of the items to keep, in sorted order."""
        if self.is_grouped:
            rows, sizes = unpack_lists(self.gaps, self.gap_starts)
            entries = np.repeat(np.arange(len(sizes)), sizes)
        else:
            rows, entries = self.rows, np.arange(len(self.rows))
        if len(rows) != self.n_rows or (rows >= self.n_rows).any():
            raise CorruptBundleError(f"rows are not those of {self.n_rows} items; verify the file")
        chosen = keep[rows]
        return self._codes_at(entries[chosen]), rows[chosen]

    def _codes_at(self, entries: Ints) -> Array:
        """Return the whole codes of entries."""
        n_head = self.digits_a + self.digits_b
        codes = np.empty((len(entries), self.n_codebooks), dtype=np.uint8)
        codes[:, n_head:] = self.tails[entries]
        if codes[:, n_head:].max(initial=0) >= self.codebook_size:
            raise CorruptBundleError(
                f"a code has a word outside codebooks of {self.codebook_size}; verify the file"
            )
        run = np.searchsorted(self.starts, entries, side="right") - 1
        for column in range(n_head - 1, -1, -1):
            run, codes[:, column] = np.divmod(run, self.codebook_size)
        return codes

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return what a file needs: named arrays, and a dictionary that JSON can hold."""
        arrays = {name: getattr(self, name) for name in _DTYPES}
        return arrays, {name: getattr(self, name) for name in _COUNTS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Self:
        """Take back what `to_arrays` gave; arrays may be memory-mapped and are not copied.

        Checks types, shapes and where runs and lists begin, so that no search can read outside an
        array, but reads neither codes nor rows: that is what `verify` is for.

        Raises
        ------
        CorruptBundleError
            The arrays cannot be those of a segment.
        """
        values: dict[str, Any] = {name: read_count(info, name) for name in _COUNTS}
        values |= {name: read_array(arrays, name, dtype) for name, dtype in _DTYPES.items()}
        segment = cls(**values)
        segment._check_layout()
        return segment

    def _check_layout(self) -> None:
        """Refuse counts, shapes and starts that contradict each other."""
        n_head = self.digits_a + self.digits_b
        n_entries = len(self.tails) if self.tails.ndim == 2 else -1
        require(1 <= self.n_codebooks <= MAX_CODEBOOKS, "n_codebooks")
        require(1 <= self.codebook_size <= MAX_CODEBOOK_SIZE, "codebook_size")
        side = _digits_a_side(self.codebook_size)
        require(self.digits_a <= side and self.digits_b <= side, "digits_a")
        require(n_head <= self.n_codebooks, "digits_b")
        require(self.tails.shape == (n_entries, self.n_codebooks - n_head), "tails")
        check_rising(self.starts, "starts", self.codebook_size**n_head, n_entries)
        if self.is_grouped:
            require(self.rows.shape == (0,), "rows")
            require(self.gaps.ndim == 1 and len(self.gaps) >= self.n_rows, "gaps")
            check_rising(self.gap_starts, "gap_starts", n_entries, len(self.gaps))
        else:
            require(self.rows.shape == (n_entries,) and n_entries == self.n_rows, "rows")
            require(self.gap_starts.shape == self.gaps.shape == (0,), "gaps")

    def verify(self) -> None:
        """Read every value and refuse what `of` and `join` cannot have made.

        Raises
        ------
        CorruptBundleError
            A word is outside its codebook, codes are not sorted, or rows are not each there once.
        """
        codes, rows = self._items(np.ones(self.n_rows, dtype=bool))
        found = np.zeros(self.n_rows, dtype=bool)
        found[rows] = True
        if not found.all():
            raise CorruptBundleError("a row is missing or occurs twice")
        # Each code compared with the one before it, of equal ones the rows.
        equal = np.ones(max(self.n_rows - 1, 0), dtype=bool)
        for column in (*codes.T, rows):
            if (equal & (column[1:] < column[:-1])).any():
                raise CorruptBundleError("codes are not in sorted order")
            equal &= column[1:] == column[:-1]


def _digits_a_side(codebook_size: int) -> int:
    """Return how many words fit one half of a run's number, of at most 256 values."""
    digits = 1
    while 1 < codebook_size ** (digits + 1) <= MAX_CODEBOOK_SIZE:
        digits += 1
    return digits


def _grouping_pays(n_items: int, n_distinct: int, n_codebooks: int, codebook_size: int) -> bool:
    """Whether to keep each code once, with a list of rows: many share one, and it takes less."""

    def entry_bytes(n_entries: int) -> int:
        digits = _choose_digits(n_entries, n_codebooks, codebook_size)
        return n_entries * (n_codebooks - sum(digits) + _ROW_BYTES)

    if n_distinct * _GROUPED_FROM > n_items or n_items > _MAX_GROUPED:
        return False
    # The mean gap between rows of one code is about the number of codes.
    gap_bytes = n_items * gap_size(n_distinct)
    return entry_bytes(n_distinct) + gap_bytes < entry_bytes(n_items)


def _choose_digits(n_entries: int, n_codebooks: int, codebook_size: int) -> tuple[int, int]:
    """Return the number of words in both halves of the head that suits so many entries."""
    side = _digits_a_side(codebook_size)
    for digits_a, digits_b in ((side, side), (side, 0)):
        n_runs = codebook_size ** (digits_a + digits_b)
        if digits_a + digits_b <= n_codebooks and n_entries >= n_runs * _CODES_A_RUN:
            return digits_a, digits_b
    return 0, 0

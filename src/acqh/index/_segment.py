"""An immutable block of codes, laid out for pruned search.

``CodeSegment.to_arrays`` gives named arrays and a small dictionary that JSON can hold;
``CodeSegment.from_arrays`` takes them back, from memory or memory-mapped, and checks all that the
kernels rely on; ``CodeSegment.verify`` reads every value.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, Bools, Ints
from acqh.errors import CorruptBundleError
from acqh.index._checks import MAX_CODEBOOK_SIZE, MAX_CODEBOOKS
from acqh.index._layout import Layout, digits_a_side, lay_out, read_codes, read_lists
from acqh.index._rests import Rests, same_reaches
from acqh.index._search._types import Runs
from acqh.index._stored import check_rising, frozen, read_array, read_count, require

# Items are read this many at a time; a few dozen bytes each are in use meanwhile.
_PIECE = 1 << 18

_COUNTS = ("n_codebooks", "codebook_size", "n_rows", "digits_a", "digits_b")
_DTYPES = {
    "starts": np.uint32,
    "tails": np.uint8,
    "rows": np.uint32,
    "gap_starts": np.uint32,
    "gaps": np.uint8,
}
_NO_REACHES = frozen(np.empty(0, dtype=np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class CodeSegment:
    """Codes sorted by their words, first word first, with the rows they belong to.

    An entry is an item, or, where codes repeat, a distinct code. Entries with the same first
    ``digits_a + digits_b`` words are a run; those words are not stored, only where each run
    starts. A run's number has the words as digits in base ``codebook_size``.

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
    n_rows: int  # rows are 0 to ``n_rows - 1``, in order of insertion
    # How many words make up each half of a run's number; 0 and 0 for a single run.
    digits_a: int
    digits_b: int
    # (n_runs + 1,) uint32: where each run starts among the entries, and the end of the last.
    starts: Array
    # (n_entries, n_codebooks - digits_a - digits_b) uint8: the other words of each entry.
    tails: Array
    rows: Array  # (n_entries,) uint32: row of each item; empty where codes are grouped
    # (n_entries + 1,) uint32: where each code's list of rows starts in `gaps`; empty where codes
    # are not grouped.
    gap_starts: Array
    gaps: Array  # (n_bytes,) uint8: lists of rows as ``_layout`` writes them
    # (n_runs,) uint8: how far the other words of each run's items reach, see `Rests`; empty where
    # it is not known or would not help.
    reaches: Array = field(default_factory=lambda: _NO_REACHES)
    rests: Rests | None = None  # measures reaches when segments are joined; not stored

    @classmethod
    def of(cls, codes: Array, codebook_size: int, rests: Rests | None = None) -> Self:
        """Lay out the codes of new rows.

        `codes`: (n_rows, n_codebooks) uint8; words below `codebook_size`. `rests`: of the
        codebooks.
        """
        n_rows, n_codebooks = codes.shape

        def blocks() -> Iterator[tuple[Array, Array]]:
            for start in range(0, n_rows, _PIECE):
                block = codes[start : start + _PIECE]
                yield block, np.arange(start, start + len(block), dtype=np.uint32)

        layout = lay_out(blocks, n_codebooks, codebook_size, n_rows)
        return cls.of_layout(layout, n_codebooks, codebook_size, n_rows, rests)

    @classmethod
    def of_layout(
        cls,
        layout: Layout,
        n_codebooks: int,
        codebook_size: int,
        n_rows: int,
        rests: Rests | None = None,
    ) -> Self:
        """Make a segment of what `lay_out` gave; rows are below `n_rows`."""
        values: dict[str, Any] = {name: frozen(getattr(layout, name)) for name in _DTYPES}
        values |= {"digits_a": layout.digits_a, "digits_b": layout.digits_b, "rests": rests}
        if rests is not None:
            values["reaches"] = rests.reaches(layout.starts, layout.tails)
        return cls(n_codebooks, codebook_size, n_rows, **values)

    @classmethod
    def join(cls, segments: Sequence[Self], keep: Sequence[Bools | None]) -> Self:
        """Make one segment of the rows to keep of several, None for all; numbers them again."""
        # Where rows are missing, what number each of the others has.
        numbers = [
            None if kept is None else np.cumsum(kept, dtype=np.uint32) - np.uint32(1)
            for kept in keep
        ]
        counts = [
            segment.n_rows if kept is None else int(np.count_nonzero(kept))
            for segment, kept in zip(segments, keep, strict=True)
        ]

        def blocks() -> Iterator[tuple[Array, Array]]:
            # Within one code the rows of each segment rise, and so do those of later segments.
            first_row = 0
            for segment, kept, number, n in zip(segments, keep, numbers, counts, strict=True):
                for codes, rows in segment._items(kept):
                    new = rows if number is None else number[rows]
                    yield codes, (new + first_row).astype(np.uint32)
                first_row += n

        n_items, shape = sum(counts), (segments[0].n_codebooks, segments[0].codebook_size)
        few = list(blocks()) if n_items <= _PIECE else None  # not worth reading twice
        layout = lay_out(blocks if few is None else lambda: few, *shape, n_items)
        return cls.of_layout(layout, *shape, n_items, segments[0].rests)

    @property
    def is_grouped(self) -> bool:
        """Whether an entry is a distinct code with a list of rows, not an item."""
        return len(self.gap_starts) > 0

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, name).nbytes for name in (*_DTYPES, "reaches"))

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
            self.reaches,
        )

    def codes(self) -> Array:
        """Return the code of every row, (n_rows, n_codebooks) uint8."""
        by_row = np.zeros((self.n_rows, self.n_codebooks), dtype=np.uint8)
        for codes, rows in self._items():
            by_row[rows] = codes
        return by_row

    def restrict(self, keep: Bools) -> Self:
        """Return a segment of the chosen rows only, which keep their numbers."""
        items = [(codes, rows.astype(np.uint32)) for codes, rows in self._items(keep)]
        shape = self.n_codebooks, self.codebook_size
        layout = lay_out(lambda: items, *shape, sum(len(rows) for _, rows in items))
        return self.of_layout(layout, *shape, self.n_rows)

    def code_of(self, row: int) -> Array:
        """Return the code of one row, (n_codebooks,) uint8; reads all row numbers."""
        keep = np.zeros(self.n_rows, dtype=bool)
        keep[row] = True
        codes = np.concatenate([codes for codes, _ in self._items(keep)])
        if len(codes) == 0:
            raise CorruptBundleError("the index lacks the code of an item; verify its file")
        return np.asarray(codes[0])

    def codes_between(self, start: int, stop: int) -> Array:
        """Return the codes of consecutive rows, (stop - start, n_codebooks) uint8.

        Reads all row numbers, a piece at a time: beside the codes little is in memory.

        Raises CorruptBundleError: a row is missing.
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

    def _items(self, keep: Bools | None = None) -> Iterator[tuple[Array, Ints]]:
        """Yield the codes and the rows of the items to keep, in sorted order, a block at a time."""
        wrong = CorruptBundleError(f"rows are not those of {self.n_rows} items; verify the file")
        n_read = 0
        for entries, rows in self._pieces():
            n_read += len(rows)
            if (rows >= self.n_rows).any():
                raise wrong
            chosen = slice(None) if keep is None else keep[rows]
            yield self._codes_at(entries[chosen]), rows[chosen]
        if n_read != self.n_rows:
            raise wrong

    def _pieces(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield the entries and the rows of all items, a block at a time."""
        if not self.is_grouped:
            for start in range(0, len(self.rows), _PIECE):
                rows = self.rows[start : start + _PIECE].astype(np.int64)
                yield np.arange(start, start + len(rows)), rows
            return
        state = np.zeros(3, dtype=np.int64)
        size = n_read = min(_PIECE, self.n_rows + 1)
        while n_read == size:
            entries, rows = np.empty((2, size), dtype=np.int64)
            n_read = read_lists(self.gap_starts, self.gaps, state, rows, entries)
            yield entries[:n_read], rows[:n_read]

    def _codes_at(self, entries: Ints) -> Array:
        """Return the whole codes of entries, which rise."""
        codes = np.empty((len(entries), self.n_codebooks), dtype=np.uint8)
        if not read_codes(self.starts, self.tails, self.codebook_size, entries, codes):
            raise CorruptBundleError(
                f"a code has a word outside codebooks of {self.codebook_size}; verify the file"
            )
        return codes

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return what a file needs: named arrays, and a dictionary that JSON can hold."""
        arrays = {name: getattr(self, name) for name in _DTYPES}
        if len(self.reaches):
            arrays["reaches"] = self.reaches
        return arrays, {name: getattr(self, name) for name in _COUNTS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Self:
        """Take back what `to_arrays` gave; arrays may be memory-mapped and are not copied.

        Checks types, shapes and where runs begin, so that no search can read outside an array, but
        reads neither codes nor rows: that is what `verify` is for.

        Raises CorruptBundleError: the arrays cannot be those of a segment.
        """
        values: dict[str, Any] = {name: read_count(info, name) for name in _COUNTS}
        values |= {name: read_array(arrays, name, dtype) for name, dtype in _DTYPES.items()}
        if "reaches" in arrays:
            values["reaches"] = read_array(arrays, "reaches", np.uint8)
        segment = cls(**values)
        segment._check_layout()
        return segment

    def _check_layout(self) -> None:
        """Refuse counts, shapes and starts that contradict each other."""
        n_head = self.digits_a + self.digits_b
        n_entries = len(self.tails) if self.tails.ndim == 2 else -1
        require(1 <= self.n_codebooks <= MAX_CODEBOOKS, "n_codebooks")
        require(1 <= self.codebook_size <= MAX_CODEBOOK_SIZE, "codebook_size")
        side = digits_a_side(self.codebook_size)
        require(self.digits_a <= side and self.digits_b <= side, "digits_a")
        require(n_head <= self.n_codebooks, "digits_b")
        require(self.tails.shape == (n_entries, self.n_codebooks - n_head), "tails")
        check_rising(self.starts, "starts", self.codebook_size**n_head, n_entries)
        require(self.reaches.shape in ((0,), (len(self.starts) - 1,)), "reaches")
        if self.is_grouped:
            require(self.rows.shape == (0,), "rows")
            require(self.gaps.ndim == 1 and len(self.gaps) >= self.n_rows, "gaps")
            require(self.gap_starts.shape == (n_entries + 1,), "gap_starts")
            ends = self.gap_starts[[0, -1]].tolist()
            require(ends == [0, len(self.gaps)], "gap_starts")
        else:
            require(self.rows.shape == (n_entries,) and n_entries == self.n_rows, "rows")
            require(self.gap_starts.shape == self.gaps.shape == (0,), "gaps")

    def verify(self) -> None:
        """Read every value and refuse what `of` and `join` cannot have made.

        Raises CorruptBundleError: a word is outside its codebook, codes are not sorted, or rows are
        not each there once.
        """
        if self.is_grouped:
            check_rising(self.gap_starts, "gap_starts", len(self.tails), len(self.gaps))
        found = np.zeros(self.n_rows, dtype=bool)
        last = np.empty((0, self.n_codebooks + 1), dtype=np.int64)
        for codes, rows in self._items():
            found[rows] = True
            columns = np.concatenate([last, np.column_stack([codes, rows])]).T
            # Each code compared with the one before it, of equal ones the rows.
            equal = np.ones(max(columns.shape[1] - 1, 0), dtype=bool)
            for column in columns:
                if (equal & (column[1:] < column[:-1])).any():
                    raise CorruptBundleError("codes are not in sorted order")
                equal &= column[1:] == column[:-1]
            last = columns.T[-1:]
        if not found.all():
            raise CorruptBundleError("a row is missing or occurs twice")
        if len(self.reaches) and self.rests is not None:
            measured = self.rests.reaches(self.starts, self.tails)
            require(same_reaches(self.reaches, measured), "reaches")

"""An immutable block of codes, sorted and laid out in runs for pruned search."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Bools, Ints, slices
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.index.compiled.layout import (
    count_heads,
    measure_groups,
    pack_groups,
    place_items,
    read_codes,
    read_lists,
    sort_runs,
)
from acqh.index.items.checks import (
    MAX_CODEBOOK_SIZE,
    MAX_CODEBOOKS,
    check_rising,
    frozen,
    read_array,
    read_count,
    require,
)
from acqh.index.layout.planes import FewSegment
from acqh.index.layout.reaches import Rests
from acqh.index.search.plain import Runs

# Items are read this many at a time; a few dozen bytes each are in use meanwhile.
_PIECE = 1 << 18

_COUNTS = ("n_codebooks", "codebook_size", "n_rows", "digits_a", "digits_b")
_DTYPES = {
    "starts": np.uint32,
    "tails": np.uint8,
    "rows": np.uint32,
    "gap_starts": np.uint32,
    "gaps": np.uint8,
    "reaches": np.uint8,
}
_NO_REACHES = frozen(np.empty(0, dtype=np.uint8))

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


@dataclass(frozen=True, slots=True, eq=False)
class CodeSegment:
    """Codes in runs, with what measures how far these reach.

    Examples
    --------
    >>> codes = np.array([[1, 0], [0, 2], [1, 0]], dtype=np.uint8)
    >>> segment = CodeSegment.of(codes, codebook_size=3)
    >>> segment.codes()
    array([[1, 0],
           [0, 2],
           [1, 0]], dtype=uint8)
    """

    runs: Runs
    rests: Rests | None = None  # measures reaches when segments are joined; not stored

    @classmethod
    def of(cls, codes: Array, codebook_size: int, rests: Rests | None = None) -> Self:
        """Lay out the codes of new rows.

        `codes`: (n_rows, n_codebooks) uint8; words below `codebook_size`. `rests`: of the
        codebooks.
        """
        n_rows, n_codebooks = codes.shape

        def blocks() -> Iterator[tuple[Array, Array]]:
            for piece in slices(n_rows, _PIECE):
                yield codes[piece], np.arange(piece.start, piece.stop, dtype=np.uint32)

        return cls.of_blocks(blocks, n_codebooks, codebook_size, rests, n_rows)

    @classmethod
    def of_blocks(
        cls,
        blocks: Blocks,
        n_codebooks: int,
        codebook_size: int,
        rests: Rests | None,
        n_items: int | None = None,
    ) -> Self:
        """Lay out what `lay_out` takes, and measure how far its runs reach."""
        runs = lay_out(blocks, n_codebooks, codebook_size, n_items)
        if rests is not None:
            runs = runs._replace(reaches=rests.reaches(runs.starts, runs.tails))
        return cls(runs, rests)

    @classmethod
    def join(cls, segments: "Sequence[Self | FewSegment]", keep: Sequence[Bools | None]) -> Self:
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
                for codes, rows in segment.items(kept):
                    new = rows if number is None else number[rows]
                    yield codes, (new + first_row).astype(np.uint32)
                first_row += n

        n_items, first = sum(counts), segments[0]
        few = list(blocks()) if n_items <= _PIECE else None  # not worth reading twice
        given = blocks if few is None else lambda: few
        return cls.of_blocks(given, *first.shape, first.rests, n_items)

    @property
    def laid_out(self) -> Self:
        """The segment itself."""
        return self

    @property
    def n_rows(self) -> int:
        return self.runs.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """The number of codebooks, and of words in each."""
        runs = self.runs
        return runs.digits_a + runs.digits_b + runs.tails.shape[1], runs.codebook_size

    @property
    def is_grouped(self) -> bool:
        """Whether an entry is a distinct code with a list of rows, not an item."""
        return len(self.runs.gap_starts) > 0

    @property
    def nbytes(self) -> int:
        return sum(getattr(self.runs, name).nbytes for name in _DTYPES)

    def restrict(self, keep: Bools) -> Self:
        """Return a segment of the chosen rows only, which keep their numbers."""
        items = [(codes, rows.astype(np.uint32)) for codes, rows in self.items(keep)]
        runs = lay_out(lambda: items, *self.shape, sum(len(rows) for _, rows in items))
        return type(self)(runs._replace(n_rows=self.n_rows))

    def codes(self, start: int = 0, stop: int | None = None) -> Array:
        """Return the codes of consecutive rows, of all by default: (n, n_codebooks) uint8.

        Reads all row numbers, a piece at a time: beside the codes little is in memory.

        Raises CorruptBundleError: a row is missing.
        """
        stop = self.n_rows if stop is None else stop
        codes = np.empty((stop - start, self.shape[0]), dtype=np.uint8)
        n_found = 0
        for entries, rows in self._pieces():
            chosen = np.flatnonzero((rows >= start) & (rows < stop))
            codes[rows[chosen] - start] = self._codes_at(entries[chosen])
            n_found += len(chosen)
        if n_found != stop - start:
            raise CorruptBundleError("a row is missing or occurs twice; verify the file")
        return codes

    def items(self, keep: Bools | None = None) -> Iterator[tuple[Array, Ints]]:
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
        runs = self.runs
        if not self.is_grouped:
            for piece in slices(len(runs.rows), _PIECE):
                yield np.arange(piece.start, piece.stop), runs.rows[piece].astype(np.int64)
            return
        state = np.zeros(3, dtype=np.int64)
        size = n_read = min(_PIECE, self.n_rows + 1)
        while n_read == size:
            entries, rows = np.empty((2, size), dtype=np.int64)
            n_read = read_lists(runs.gap_starts, runs.gaps, state, rows, entries)
            yield entries[:n_read], rows[:n_read]

    def _codes_at(self, entries: Ints) -> Array:
        """Return the whole codes of entries, which rise."""
        n_codebooks, codebook_size = self.shape
        codes = np.empty((len(entries), n_codebooks), dtype=np.uint8)
        if not read_codes(self.runs.starts, self.runs.tails, codebook_size, entries, codes):
            raise CorruptBundleError(
                f"a code has a word outside codebooks of {codebook_size}; verify the file"
            )
        return codes

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        values = {"n_codebooks": self.shape[0], **self.runs._asdict()}
        stored = [name for name in _DTYPES if name != "reaches" or len(self.runs.reaches)]
        return {name: values[name] for name in stored}, {name: values[name] for name in _COUNTS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Self:
        """Take back what `to_arrays` gave; arrays may be memory-mapped and are not copied.

        Checks types, shapes and where runs begin, so that no search can read outside an array, but
        reads neither codes nor rows: that is what `verify` is for.

        Raises CorruptBundleError: the arrays cannot be those of a segment.
        """
        values: dict[str, Any] = {name: read_count(info, name) for name in _COUNTS}
        n_codebooks = values.pop("n_codebooks")
        stored = {"reaches": _NO_REACHES, **arrays}
        values |= {name: read_array(stored, name, dtype) for name, dtype in _DTYPES.items()}
        segment = cls(Runs(**values))
        segment._check_layout(n_codebooks)
        return segment

    def _check_layout(self, n_codebooks: int) -> None:
        """Refuse counts, shapes and starts that contradict each other."""
        runs = self.runs
        n_head = runs.digits_a + runs.digits_b
        n_entries = len(runs.tails) if runs.tails.ndim == 2 else -1
        require(1 <= n_codebooks <= MAX_CODEBOOKS, "n_codebooks")
        require(1 <= runs.codebook_size <= MAX_CODEBOOK_SIZE, "codebook_size")
        side = digits_a_side(runs.codebook_size)
        require(runs.digits_a <= side and runs.digits_b <= side, "digits_a")
        require(n_head <= n_codebooks, "digits_b")
        require(runs.tails.shape == (n_entries, n_codebooks - n_head), "tails")
        check_rising(runs.starts, "starts", runs.codebook_size**n_head, n_entries)
        require(runs.reaches.shape in ((0,), (len(runs.starts) - 1,)), "reaches")
        if self.is_grouped:
            require(runs.rows.shape == (0,), "rows")
            require(runs.gaps.ndim == 1 and len(runs.gaps) >= runs.n_rows, "gaps")
            require(runs.gap_starts.shape == (n_entries + 1,), "gap_starts")
            ends = runs.gap_starts[[0, -1]].tolist()
            require(ends == [0, len(runs.gaps)], "gap_starts")
        else:
            require(runs.rows.shape == (n_entries,) and n_entries == runs.n_rows, "rows")
            require(runs.gap_starts.shape == runs.gaps.shape == (0,), "gaps")

    def verify(self) -> None:
        """Read every value and refuse what `of` and `join` cannot have made.

        Raises CorruptBundleError: a word is outside its codebook, codes are not sorted, or rows are
        not each there once.
        """
        runs = self.runs
        if self.is_grouped:
            check_rising(runs.gap_starts, "gap_starts", len(runs.tails), len(runs.gaps))
        found = np.zeros(self.n_rows, dtype=bool)
        last = np.empty((0, self.shape[0] + 1), dtype=np.int64)
        for codes, rows in self.items():
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
        if len(runs.reaches) and self.rests is not None:
            measured = self.rests.reaches(runs.starts, runs.tails)
            require(measured.shape == runs.reaches.shape, "reaches")
            # Rounding may decide a step.
            steps = runs.reaches.astype(np.int64) - measured
            require(bool((np.abs(steps) <= 1).all()), "reaches")


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

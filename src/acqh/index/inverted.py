"""InvertedSegment: an immutable inverted multi-index of codes with norm bounds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Bools, Ints, slices
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.index.checks import (
    MAX_CODEBOOK_SIZE,
    MAX_CODEBOOKS,
    check_rising,
    frozen,
    read_array,
    read_count,
    require,
)
from acqh.index.compiled.layout import (
    count_items,
    measure_groups,
    pack_groups,
    place_items,
    read_codes,
    read_row_lists,
    sort_lists,
)
from acqh.index.flat import FlatSegment
from acqh.index.search import InvertedLists, ResidualCodebooks

# Items per chunk; each needs a few dozen bytes of working memory.
_CHUNK = 1 << 18

_COUNTS = ("n_codebooks", "codebook_size", "n_rows", "n_prefix_a", "n_prefix_b")
_DTYPES = {
    "starts": np.uint32,
    "suffixes": np.uint8,
    "rows": np.uint8,
    "gap_starts": np.uint32,
    "gaps": np.uint8,
    "norm_bounds": np.uint8,
}
_NO_BOUNDS = frozen(np.empty(0, dtype=np.uint8))

# Called twice: yields blocks of codes (n, n_codebooks) uint8 and rows (n,) uint32 of all items, the
# same each time; rows of one code rise.
Blocks: TypeAlias = Callable[[], Iterable[tuple[Array, Array]]]

# Codes are grouped if at least this many items share a code, on average.
_GROUPED_FROM = 2
# A byte of a gap holds this many of its bits.
_GAP_BITS = 7
# Offsets into the gaps have 32 bits.
_MAX_GAP_BYTES = 2**32 - 1
# The longest prefix with at least this many codes per list, on average, is chosen. Long suffixes
# are pruned by their first codeword, so their lists may be long: 43,441 codes of 8 bytes take 9
# bytes each and 120 µs per query in 256 lists, 15.5 bytes and 261 µs in 65,536.
_CODES_PER_LIST, _LONG_CODES_PER_LIST, _SHORT_SUFFIX = 1, 2, 2


@dataclass(frozen=True, eq=False)
class InvertedSegment:
    """Inverted lists of codes, with the residual codebooks that bound their scores.

    Examples
    --------
    >>> codes = np.array([[1, 0], [0, 2], [1, 0]], dtype=np.uint8)
    >>> segment = InvertedSegment.of(codes, codebook_size=3)
    >>> segment.codes()
    array([[1, 0],
           [0, 2],
           [1, 0]], dtype=uint8)
    """

    lists: InvertedLists
    residuals: ResidualCodebooks | None = None  # computes norm bounds; not stored

    @classmethod
    def of(
        cls, codes: Array, codebook_size: int, residuals: ResidualCodebooks | None = None
    ) -> Self:
        """Lay out the codes of new rows.

        `codes`: (n_rows, n_codebooks) uint8; codewords below `codebook_size`. `residuals`: of the
        codebooks.
        """
        n_rows, n_codebooks = codes.shape

        def blocks() -> Iterator[tuple[Array, Array]]:
            for chunk in slices(n_rows, _CHUNK):
                yield codes[chunk], np.arange(chunk.start, chunk.stop, dtype=np.uint32)

        return cls.of_blocks(blocks, n_codebooks, codebook_size, residuals, n_rows)

    @classmethod
    def of_blocks(
        cls,
        blocks: Blocks,
        n_codebooks: int,
        codebook_size: int,
        residuals: ResidualCodebooks | None,
        n_items: int | None = None,
    ) -> Self:
        """Build the inverted lists of blocks of items, and compute their norm bounds."""
        lists = build_lists(blocks, n_codebooks, codebook_size, n_items)
        if residuals is not None:
            lists = lists._replace(norm_bounds=residuals.norm_bounds(lists.starts, lists.suffixes))
        return cls(lists, residuals)

    @classmethod
    def join(cls, segments: "Sequence[Self | FlatSegment]", keep: Sequence[Bools | None]) -> Self:
        # New row numbers, for segments with removed rows.
        numbers = [
            None if mask is None else np.cumsum(mask, dtype=np.uint32) - np.uint32(1)
            for mask in keep
        ]
        counts = [
            segment.n_rows if mask is None else int(np.count_nonzero(mask))
            for segment, mask in zip(segments, keep, strict=True)
        ]

        def blocks() -> Iterator[tuple[Array, Array]]:
            # Within one code the rows of each segment rise, and so do those of later segments.
            first_row = 0
            for segment, mask, number, n in zip(segments, keep, numbers, counts, strict=True):
                for codes, rows in segment.items(mask):
                    new = rows if number is None else number[rows]
                    yield codes, (new + first_row).astype(np.uint32)
                first_row += n

        n_items, first = sum(counts), segments[0]
        once = list(blocks()) if n_items <= _CHUNK else None  # small enough to keep
        reread = blocks if once is None else lambda: once
        return cls.of_blocks(reread, *first.shape, first.residuals, n_items)

    @property
    def inverted(self) -> Self:
        """The segment itself."""
        return self

    @property
    def n_rows(self) -> int:
        return self.lists.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """The number of codebooks, and of codewords in each."""
        lists = self.lists
        return lists.n_prefix_a + lists.n_prefix_b + lists.suffixes.shape[1], lists.codebook_size

    @property
    def is_grouped(self) -> bool:
        """Whether an entry is a distinct code with a list of rows, not an item."""
        return len(self.lists.gap_starts) > 0

    @property
    def nbytes(self) -> int:
        return sum(getattr(self.lists, name).nbytes for name in _DTYPES)

    def restrict(self, keep: Bools) -> Self:
        """Return a segment of the chosen rows only, which keep their numbers."""
        items = [(codes, rows.astype(np.uint32)) for codes, rows in self.items(keep)]
        lists = build_lists(lambda: items, *self.shape, sum(len(rows) for _, rows in items))
        return type(self)(lists._replace(n_rows=self.n_rows))

    @cached_property
    def planes(self) -> Array:
        """The codes of all rows as byte planes, to be scanned: (n_codebooks, n_rows) uint8."""
        return frozen(np.ascontiguousarray(self.codes().T))

    def codes(self, start: int = 0, stop: int | None = None) -> Array:
        """Return the codes of consecutive rows, of all by default: (n, n_codebooks) uint8.

        Reads all row numbers, a chunk at a time.

        Raises CorruptBundleError: a row is missing.
        """
        stop = self.n_rows if stop is None else stop
        codes = np.empty((stop - start, self.shape[0]), dtype=np.uint8)
        n_found = 0
        for entries, rows in self._chunks():
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
        for entries, rows in self._chunks():
            n_read += len(rows)
            if (rows >= self.n_rows).any():
                raise wrong
            chosen = slice(None) if keep is None else keep[rows]
            yield self._codes_at(entries[chosen]), rows[chosen]
        if n_read != self.n_rows:
            raise wrong

    def _chunks(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield the entries and the rows of all items, a block at a time."""
        lists = self.lists
        if not self.is_grouped:
            for chunk in slices(len(lists.rows), _CHUNK):
                rows = np.zeros((chunk.stop - chunk.start, 4), dtype=np.uint8)
                rows[:, : lists.rows.shape[1]] = lists.rows[chunk]
                entries = np.arange(chunk.start, chunk.stop)
                yield entries, rows.view("<u4")[:, 0].astype(np.int64)
            return
        state = np.zeros(3, dtype=np.int64)
        size = n_read = min(_CHUNK, self.n_rows + 1)
        while n_read == size:
            entries, rows = np.empty((2, size), dtype=np.int64)
            n_read = read_row_lists(lists.gap_starts, lists.gaps, state, rows, entries)
            yield entries[:n_read], rows[:n_read]

    def _codes_at(self, entries: Ints) -> Array:
        """Return the full codes of entries, which rise."""
        n_codebooks, codebook_size = self.shape
        codes = np.empty((len(entries), n_codebooks), dtype=np.uint8)
        if not read_codes(self.lists.starts, self.lists.suffixes, codebook_size, entries, codes):
            raise CorruptBundleError(
                f"a code has a codeword outside codebooks of {codebook_size}; verify the file"
            )
        return codes

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        values = {"n_codebooks": self.shape[0], **self.lists._asdict()}
        stored = [name for name in _DTYPES if name != "norm_bounds" or len(self.lists.norm_bounds)]
        return {name: values[name] for name in stored}, {name: values[name] for name in _COUNTS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Self:
        """Return the segment of `to_arrays`; arrays may be memory-mapped and are not copied.

        Checks types, shapes and the starts of lists, so that no search reads outside an array.
        `verify` also reads codes and rows.

        Raises CorruptBundleError: the arrays cannot be those of a segment.
        """
        values: dict[str, Any] = {name: read_count(info, name) for name in _COUNTS}
        n_codebooks = values.pop("n_codebooks")
        stored = {"norm_bounds": _NO_BOUNDS, **arrays}
        if "rows" in arrays and arrays["rows"].dtype == np.uint32:  # written by version 1.0
            stored["rows"] = arrays["rows"].reshape(-1, 1).view(np.uint8)
        values |= {name: read_array(stored, name, dtype) for name, dtype in _DTYPES.items()}
        segment = cls(InvertedLists(**values))
        segment._check_layout(n_codebooks)
        return segment

    def _check_layout(self, n_codebooks: int) -> None:
        """Raise CorruptBundleError if counts, shapes and starts contradict each other."""
        lists = self.lists
        n_prefix = lists.n_prefix_a + lists.n_prefix_b
        n_entries = len(lists.suffixes) if lists.suffixes.ndim == 2 else -1
        require(1 <= n_codebooks <= MAX_CODEBOOKS, "n_codebooks")
        require(1 <= lists.codebook_size <= MAX_CODEBOOK_SIZE, "codebook_size")
        half = max_half_length(lists.codebook_size)
        require(lists.n_prefix_a <= half and lists.n_prefix_b <= half, "n_prefix_a")
        require(n_prefix <= n_codebooks, "n_prefix_b")
        require(lists.suffixes.shape == (n_entries, n_codebooks - n_prefix), "suffixes")
        check_rising(lists.starts, "starts", lists.codebook_size**n_prefix, n_entries)
        require(lists.norm_bounds.shape in ((0,), (len(lists.starts) - 1,)), "norm_bounds")
        if self.is_grouped:
            require(len(lists.rows) == 0, "rows")
            require(lists.gaps.ndim == 1 and len(lists.gaps) >= lists.n_rows, "gaps")
            require(lists.gap_starts.shape == (n_entries + 1,), "gap_starts")
            ends = lists.gap_starts[[0, -1]].tolist()
            require(ends == [0, len(lists.gaps)], "gap_starts")
        else:
            require(lists.rows.shape in [(n_entries, n) for n in range(1, 5)], "rows")
            require(n_entries == lists.n_rows, "rows")
            require(lists.gap_starts.shape == lists.gaps.shape == (0,), "gaps")

    def verify(self) -> None:
        """Read every value.

        Raises CorruptBundleError: a codeword is not in its codebook, codes are not sorted, or a row
        is missing or occurs twice.
        """
        lists = self.lists
        if self.is_grouped:
            check_rising(lists.gap_starts, "gap_starts", len(lists.suffixes), len(lists.gaps))
        has_row = np.zeros(self.n_rows, dtype=bool)
        last = np.empty((0, self.shape[0] + 1), dtype=np.int64)
        for codes, rows in self.items():
            has_row[rows] = True
            columns = np.concatenate([last, np.column_stack([codes, rows])]).T
            # Compare each code with the previous one; if they are equal, their rows.
            equal = np.ones(max(columns.shape[1] - 1, 0), dtype=bool)
            for column in columns:
                if (equal & (column[1:] < column[:-1])).any():
                    raise CorruptBundleError("codes are not in sorted order")
                equal &= column[1:] == column[:-1]
            last = columns.T[-1:]
        if not has_row.all():
            raise CorruptBundleError("a row is missing or occurs twice")
        if len(lists.norm_bounds) and self.residuals is not None:
            measured = self.residuals.norm_bounds(lists.starts, lists.suffixes)
            require(measured.shape == lists.norm_bounds.shape, "norm_bounds")
            # Rounding may change a bound by one step.
            steps = lists.norm_bounds.astype(np.int64) - measured
            require(bool((np.abs(steps) <= 1).all()), "norm_bounds")


def build_lists(
    blocks: Blocks, n_codebooks: int, codebook_size: int, n_items: int | None = None
) -> InvertedLists:
    """Sort items stably by their codes into lists, and group equal codes if that saves memory.

    Memory: one block, the lists, a second copy of the largest list while it is sorted, and the
    smaller grouped lists.

    `blocks`: yields all items; called twice. `n_items`: their number, if known. Raises
    InvalidInputError: the blocks differ between both calls.
    """
    shape = n_codebooks, codebook_size
    counts = _count(blocks, shape, n_items)
    n_items = int(counts.sum())
    halves = choose_prefix(n_items, *shape)
    counts = counts.reshape(codebook_size ** sum(halves), -1).sum(axis=1)
    starts = _starts(counts)
    suffixes, rows = _place(blocks, counts, sum(halves), shape)
    sort_lists(starts, suffixes, rows)
    n_codes, n_bytes = measure_groups(starts, suffixes, rows)
    gap_starts, gaps = np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.uint8)
    if n_bytes <= _MAX_GAP_BYTES and grouping_pays(n_items, n_codes, *shape):
        codes = np.empty((n_codes, n_codebooks), dtype=np.uint8)
        gap_starts, gaps = np.empty(n_codes + 1, dtype=np.uint32), np.empty(n_bytes, dtype=np.uint8)
        pack_groups(starts, suffixes, rows, codebook_size, codes, (gap_starts, gaps))
        halves = choose_prefix(n_codes, *shape)
        starts = _starts(_count(lambda: [(codes, rows)], shape, n_codes))
        suffixes, rows = codes[:, sum(halves) :], rows[:0].copy()
    packed = (
        rows.astype("<u4").reshape(-1, 1).view(np.uint8)[:, : row_bytes(int(rows.max(initial=0)))]
    )
    arrays = map(frozen, (starts, suffixes, packed, gap_starts, gaps, np.empty(0, dtype=np.uint8)))
    return InvertedLists(codebook_size, *halves, n_items, *arrays)


def _count(blocks: Blocks, shape: tuple[int, int], n_items: int | None) -> Ints:
    """Return how many items each list has, or each part of a list."""
    n_codebooks, codebook_size = shape
    if n_items is None:
        # By the longest prefix that any layout uses.
        n_prefix = min(2 * max_half_length(codebook_size), n_codebooks)
    else:
        n_prefix = sum(choose_prefix(n_items, *shape))
    counts = np.zeros(codebook_size**n_prefix, dtype=np.int64)
    for codes, _ in blocks():
        count_items(frozen(codes), n_prefix, codebook_size, counts)
    return counts


def _place(
    blocks: Blocks, counts: Ints, n_prefix: int, shape: tuple[int, int]
) -> tuple[Array, Array]:
    """Return the other codewords and the rows of all items, list after list."""
    n_codebooks, codebook_size = shape
    ends = np.cumsum(counts).astype(np.uint64)
    free = ends - counts.astype(np.uint64)
    suffixes = np.empty((counts.sum(), n_codebooks - n_prefix), dtype=np.uint8)
    rows = np.empty(len(suffixes), dtype=np.uint32)
    had_room = True
    for codes, block_rows in blocks():
        block = frozen(codes), frozen(block_rows)
        had_room = place_items(*block, n_prefix, codebook_size, free, ends, suffixes, rows)
        if not had_room:
            break
    if not had_room or not np.array_equal(free, ends):
        raise InvalidInputError(
            "the items changed between the first and the second reading; give parts that do not "
            "change"
        )
    return suffixes, rows


def row_bytes(last_row: int) -> int:
    """Return the bytes of row numbers up to the last."""
    return max(1, -(-last_row.bit_length() // 8))


def _starts(counts: Ints) -> Array:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)


def max_half_length(codebook_size: int) -> int:
    """Return how many codewords fit one half of a prefix, which has at most 256 values.

    Examples
    --------
    >>> max_half_length(256), max_half_length(16)
    (1, 2)
    """
    length = 1
    while 1 < codebook_size ** (length + 1) <= MAX_CODEBOOK_SIZE:
        length += 1
    return length


def grouping_pays(n_items: int, n_codes: int, n_codebooks: int, codebook_size: int) -> bool:
    """Whether storing each distinct code once, with a list of rows, saves memory."""

    def entry_bytes(n_entries: int) -> int:
        halves = choose_prefix(n_entries, n_codebooks, codebook_size)
        return n_entries * (n_codebooks - sum(halves) + row_bytes(n_items))

    if n_codes * _GROUPED_FROM > n_items or n_items == 0:
        return False
    # The mean gap between rows of one code is about the number of codes.
    gap_bytes = n_items * max(1, -(-int(n_codes).bit_length() // _GAP_BITS))
    return entry_bytes(n_codes) + gap_bytes < entry_bytes(n_items)


def choose_prefix(n_entries: int, n_codebooks: int, codebook_size: int) -> tuple[int, int]:
    """Return the number of codewords in both halves of the prefix for this many entries."""
    half = max_half_length(codebook_size)
    for n_prefix_a, n_prefix_b in ((half, half), (half, 0)):
        n_suffix = n_codebooks - n_prefix_a - n_prefix_b
        per_list = _CODES_PER_LIST if n_suffix <= _SHORT_SUFFIX else _LONG_CODES_PER_LIST
        if n_suffix >= 0 and n_entries >= codebook_size ** (n_prefix_a + n_prefix_b) * per_list:
            return n_prefix_a, n_prefix_b
    return 0, 0

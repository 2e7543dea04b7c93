"""Immutable states of an index: a sequence of parts, each a segment with its ids and live rows.

A change makes a new snapshot that shares all unchanged parts with the previous one. Rows are
numbered through all parts, in order of insertion; removed rows keep their numbers until their part
is rewritten.

Parts are merged as in a log-structured merge tree. Each is at least twice as large as the next, and
none but the last has fewer than 1,024 items. So there are at most about ``log2(n / 1024)`` parts,
and an item is moved about as many times. A part is also rewritten once half of its rows are
removed, at constant cost per removal.

Files hold the parts, the type of ids and the next number of a snapshot. ``Part.to_arrays`` and
``Part.from_arrays`` convert a part to named arrays and a dictionary of JSON values, and back.
Arrays may be read-only memory maps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from acqh._core.arrays import Array, Bools, Ints
from acqh.errors import CorruptBundleError, DuplicateIdError, InvalidInputError
from acqh.index.checks import read_array, read_count, read_mask, require
from acqh.index.ids import (
    NO_NUMBER,
    IdKind,
    IdTable,
    RunningIds,
    chain_tables,
    join_tables,
    kind_of,
    read_ids,
    table_from_arrays,
    table_of,
    verify_table,
)

# Rows are numbered in four bytes, and so is the end of the last.
MAX_ROWS = 2**32 - 1
_GROWTH = 2
# Smaller parts are always merged with the next: they slow down searches more than a merge costs.
_SMALL = 1024
# No bits: every row is live.
ALL_ROWS = np.empty(0, dtype=np.uint8)
ALL_ROWS.setflags(write=False)


class Segment(Protocol):
    """Interface of segments, such as ``InvertedSegment`` and ``FlatSegment``."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""

    def codes(self, start: int = 0, stop: int | None = None) -> Array:
        """Return the codes of consecutive rows, of all by default."""

    @classmethod
    def join(cls, segments: Sequence[Any], keep: Sequence[Bools | None]) -> Any:
        """Merge the rows to keep of several segments; a mask of None keeps all."""

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the contents of a file: named arrays, and a dictionary of JSON values."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Any:
        """Return the segment of `to_arrays`, checked so that no search reads outside an array."""

    def verify(self) -> None:
        """Read every value; raise CorruptBundleError if they are inconsistent."""


S = TypeVar("S", bound=Segment)


@dataclass(frozen=True, slots=True, eq=False)
class Part(Generic[S]):
    """A segment, the ids of its rows, and which rows are live (not removed)."""

    segment: S
    ids: IdTable
    # (n_bytes,) uint8: a bit for each row, lowest bit first; empty if every row is live.
    live: Array
    n_live: int

    @classmethod
    def of(cls, segment: S, ids: IdTable) -> Self:
        """Return a part of new rows."""
        return cls(segment, ids, ALL_ROWS, segment.n_rows)

    @classmethod
    def join(cls, parts: "Sequence[Part[S]]") -> Self:
        """Merge the live rows of several parts, in order."""
        keep = [part.live_rows() if part.live.size else None for part in parts]
        segment = type(parts[0].segment).join([part.segment for part in parts], keep)
        return cls.of(segment, join_tables([part.ids for part in parts], keep))

    @property
    def nbytes(self) -> int:
        """Bytes of codes, row numbers and live bits, without ids."""
        return self.segment.nbytes + self.live.nbytes

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the contents of a file: named arrays, and a dictionary of JSON values."""
        segment_arrays, segment_info = self.segment.to_arrays()
        id_arrays, id_info = self.ids.to_arrays()
        arrays = {**segment_arrays, **id_arrays, "live": self.live}
        return arrays, {"segment": segment_info, "ids": id_info, "n_live": self.n_live}

    @classmethod
    def from_arrays(
        cls, segment_type: type[S], arrays: Mapping[str, Array], info: Mapping[str, Any]
    ) -> Self:
        """Return the part of `to_arrays`; arrays may be memory-mapped and are not copied.

        Checks shapes and offsets, so that no search reads outside an array; `verify` reads every
        value.

        Raises CorruptBundleError: the arrays are inconsistent.
        """
        for name in ("segment", "ids"):
            if not isinstance(info.get(name), Mapping):
                raise CorruptBundleError(f"stored {name!r} must be a dictionary")
        segment = segment_type.from_arrays(arrays, info["segment"])
        ids = table_from_arrays(arrays, info["ids"], segment.n_rows)
        live = read_array(arrays, "live", np.uint8)
        n_live = read_count(info, "n_live")
        require(live.shape in ((0,), (-(-segment.n_rows // 8),)), "live")
        # Counted now: it is fast, and `rows_allowed` relies on it.
        n_bits = int(np.bitwise_count(live).sum()) if live.size else segment.n_rows
        spare = live[-1] >> (segment.n_rows % 8) if live.size and segment.n_rows % 8 else 0
        require(0 < n_live == n_bits and spare == 0, "n_live")
        return cls(segment, ids, live, n_live)

    def verify(self) -> None:
        """Read every value; raise CorruptBundleError if they are inconsistent."""
        self.segment.verify()
        verify_table(self.ids)

    def live_rows(self) -> Bools:
        """Return whether each row is live."""
        n_rows = self.segment.n_rows
        if self.live.size == 0:
            return np.ones(n_rows, dtype=bool)
        return np.unpackbits(self.live, count=n_rows, bitorder="little").astype(bool)

    def live_ids(self) -> Array:
        """Return the ids of live rows."""
        return self.ids.take(np.flatnonzero(self.live_rows()))

    def is_live(self, rows: Ints) -> Bools:
        """Return whether each of these rows is live."""
        if self.live.size == 0:
            return np.ones(len(rows), dtype=bool)
        bits = self.live[rows >> 3] >> (rows & 7).astype(np.uint8)
        return np.asarray(bits & 1, dtype=bool)

    def without(self, rows: Ints) -> Self:
        """Return the part without these live rows."""
        if len(rows) == 0:
            return self
        n_rows = self.segment.n_rows
        live = (self.live if self.live.size else pack_bits(np.ones(n_rows, dtype=bool))).copy()
        np.bitwise_and.at(live, rows >> 3, ~(1 << (rows & 7)).astype(np.uint8))
        live.setflags(write=False)
        return replace(self, live=live, n_live=self.n_live - len(rows))


@dataclass(frozen=True, eq=False)
class Snapshot(Generic[S]):
    """One state of an index."""

    parts: tuple[Part[S], ...] = ()  # each with items
    kind: IdKind | None = None  # type of the ids; None in a new index
    # One more than the largest number ever used as an id: no number is used twice.
    next_number: int = 0

    def __len__(self) -> int:
        return sum(part.n_live for part in self.parts)

    @cached_property
    def first_rows(self) -> Ints:
        """First row of each part, and the end of the last."""
        return np.cumsum([0, *(part.segment.n_rows for part in self.parts)])

    def ids(self) -> Array:
        """Return the ids of live rows, in order of insertion."""
        if not self.parts:
            return no_ids(self.kind, (0,))
        return np.concatenate([part.live_ids() for part in self.parts])

    def take_ids(self, rows: Ints) -> Array:
        """Return the ids of rows, with the padding for rows below 0.

        Raises CorruptBundleError: a row is out of range, so the file is damaged.
        """
        if rows.size and rows.max() >= self.first_rows[-1]:
            raise CorruptBundleError(
                "the index contains a row number out of range; verify its file"
            )
        if len(self.parts) == 1 and (rows.size == 0 or rows.min() >= 0):
            return self.parts[0].ids.take(rows)
        ids = no_ids(self.kind, rows.shape)
        of_part = np.searchsorted(self.first_rows, rows, side="right") - 1
        for number, part in enumerate(self.parts):
            mine = of_part == number
            if mine.any():
                ids[mine] = part.ids.take(rows[mine] - self.first_rows[number])
        return ids

    def find(self, ids: Array) -> Ints:
        """Return the row of each id, -1 for unknown ids."""
        rows = np.full(len(ids), -1, dtype=np.int64)
        for first_row, part in zip(self.first_rows.tolist(), self.parts, strict=False):
            part_rows = part.ids.find(ids)
            hits = np.flatnonzero(part_rows >= 0)
            hits = hits[part.is_live(part_rows[hits])]
            rows[hits] = part_rows[hits] + first_row
        return rows

    def row_of(self, identifier: Any) -> int:
        """Return the row of one id, -1 if it is unknown or not a valid id."""
        try:
            ids = read_ids([identifier])
        except InvalidInputError:
            return -1
        return int(self.find(ids)[0]) if kind_of(ids) == self.kind else -1

    def split_rows(self, rows: Ints) -> list[Ints]:
        """Return the rows within each part, in rising order."""
        ordered = np.sort(rows)
        cuts = np.searchsorted(ordered, self.first_rows)
        return [
            ordered[start:stop] - first_row
            for start, stop, first_row in zip(cuts, cuts[1:], self.first_rows, strict=False)
        ]

    def rows_allowed(self, filter_: Any) -> list[Bools]:
        """Return a mask of the allowed live rows of each part.

        `filter_`: a mask of the items in order of insertion, a callable that returns one for all
        ids, or ids; unknown ids are ignored. Raises InvalidInputError: a mask of the
        wrong length or type, or ids of the wrong kind.
        """
        mask = read_mask(filter_, self.ids, len(self))
        if mask is None:
            ids = read_ids(filter_)
            check_kind(self.kind, ids, " in the filter")
            allowed = [np.zeros(part.segment.n_rows, dtype=bool) for part in self.parts]
            rows = self.find(ids) if len(ids) else np.empty(0, dtype=np.int64)
            for rows_of_part, chosen in zip(allowed, self.split_rows(rows[rows >= 0]), strict=True):
                rows_of_part[chosen] = True
            return allowed
        allowed, first = [part.live_rows() for part in self.parts], 0
        for part, live in zip(self.parts, allowed, strict=True):
            live[live] = mask[first : first + part.n_live]
            first += part.n_live
        return allowed

    def without(self, rows: Ints) -> Self:
        """Return the state without these live rows."""
        split = zip(self.parts, self.split_rows(rows), strict=True)
        return replace(self, parts=_merged([part.without(removed) for part, removed in split]))

    def with_rows(self, segment: S, ids: "NewIds") -> Self:
        """Return the state with new rows at the end."""
        part = Part.of(segment, ids.table())
        parts = _merged([*self.parts, part])
        return replace(self, parts=parts, kind=part.ids.kind, next_number=ids.next_number)

    @classmethod
    def chain(cls, snapshots: "Sequence[Snapshot[S]]") -> Self:
        """Concatenate the parts of several states; raise InvalidInputError if id types differ."""
        filled = [snapshot for snapshot in snapshots if len(snapshot)] or snapshots[:1]
        if len({snapshot.kind for snapshot in filled}) > 1:
            raise InvalidInputError(
                "ids are numbers in one shard and texts in another; use one type of ids"
            )
        parts = tuple(part for snapshot in filled for part in snapshot.parts)
        if sum(part.segment.n_rows for part in parts) > MAX_ROWS:
            raise InvalidInputError(
                f"the shards have more than {MAX_ROWS:,} items; search them separately and merge "
                "the results"
            )
        return cls(parts, filled[0].kind, max(snapshot.next_number for snapshot in filled))

    def check_ids(self) -> None:
        """Raise DuplicateIdError if two parts have the same id."""
        # The ids of one part at a time, and all only if their ranges overlap.
        spans = sorted((ids.min(), ids.max()) for ids in map(Part.live_ids, self.parts))
        if all(before[1] < after[0] for before, after in pairwise(spans)):
            return
        ids = np.sort(self.ids())
        repeats = np.flatnonzero(ids[1:] == ids[:-1])
        if repeats.size:
            first = ids[repeats[:1]].tolist()[0]
            raise DuplicateIdError(
                f"id {first!r} is in more than one shard ({repeats.size} in all); make ids unique"
            )

    def joined(self) -> Self:
        """Return the state as a single part without removed rows."""
        if len(self.parts) < 2 and all(part.live.size == 0 for part in self.parts):
            return self
        return replace(self, parts=(Part.join(self.parts),) if len(self) else ())


def _merged(parts: Sequence[Part[S]]) -> tuple[Part[S], ...]:
    """Drop empty parts, merge small ones, rewrite half-empty ones."""
    merged: list[Part[S]] = []
    for part in parts:
        if part.n_live == 0:
            continue
        tail = [part]
        while merged and merged[-1].n_live < max(_GROWTH * sum(p.n_live for p in tail), _SMALL):
            tail.insert(0, merged.pop())
        if len(tail) > 1 or 2 * tail[0].n_live <= tail[0].segment.n_rows:
            tail = [Part.join(tail)]
        merged.extend(tail)
    return tuple(merged)


def pack_bits(mask: Bools) -> Array:
    """Pack booleans, lowest bit first."""
    bits = np.packbits(mask, bitorder="little")
    bits.setflags(write=False)
    return bits


def no_ids(kind: IdKind | None, shape: tuple[int, ...]) -> Array:
    """Return padding for missing items: -1, or None for texts."""
    if kind == "text":
        return np.full(shape, None, dtype=object)
    return np.full(shape, NO_NUMBER, dtype=np.int64)


class NewIds:
    """Ids of new items of a snapshot, appended part by part.

    `n`: number of ids so far. `next_number`: that of the next snapshot, see `Snapshot`.
    """

    def __init__(self, snapshot: Snapshot[S]) -> None:
        self.n = 0
        self.kind: IdKind | None = snapshot.kind
        self.next_number = snapshot.next_number
        self._snapshot = snapshot
        self._tables: list[IdTable] = []

    def append(self, ids: Any, n: int) -> IdTable:
        """Append the ids of n more items; number the items if `ids` is None.

        Raises DuplicateIdError: an id occurs twice among them. Raises
        InvalidInputError: ids of the wrong shape, type or range, or too many items.
        """
        n_rows = int(self._snapshot.first_rows[-1]) + self.n + n
        if n_rows > MAX_ROWS:
            raise InvalidInputError(
                f"an index holds at most {MAX_ROWS:,} items, got {n_rows:,}; use shards"
            )
        table = self._number(n) if ids is None else self._read(ids, n)
        if n > 0:
            self._tables.append(table)
            self.n += n
            self.kind = table.kind
            if table.kind == "number":
                self.next_number = max(self.next_number, table.largest() + 1)
        return table

    def append_new(self, ids: Any, n: int) -> None:
        """Append ids; raise DuplicateIdError if the snapshot has one of them."""
        table = self.append(ids, n)
        if ids is None or not self._snapshot.parts:
            return
        values = table.take(np.arange(n))
        duplicates = np.flatnonzero(self._snapshot.find(values) >= 0)
        if duplicates.size:
            first = values[duplicates[:1]].tolist()[0]
            raise DuplicateIdError(
                f"id {first!r} is already in the index ({duplicates.size} in all); use upsert to "
                "replace items"
            )

    def table(self) -> IdTable:
        """Return the table of all appended ids; raise DuplicateIdError if an id repeats."""
        return self._tables[0] if len(self._tables) == 1 else chain_tables(self._tables)

    def _number(self, n: int) -> IdTable:
        if self.kind == "text":
            raise InvalidInputError("the ids of this index are texts; give ids for new items")
        if self.next_number + n > 2**63:
            raise InvalidInputError("running numbers exceed 64 bits; give ids")
        return RunningIds(self.next_number, n)

    def _read(self, ids: Any, n: int) -> IdTable:
        values = read_ids(ids)
        if len(values) != n:
            raise InvalidInputError(f"{len(values)} ids for {n} items; give one id per item")
        check_kind(self.kind, values)
        if kind_of(values) == "number" and (values == NO_NUMBER).any():
            raise InvalidInputError(
                f"{NO_NUMBER} cannot be an id, it marks missing items in results; give another id"
            )
        return table_of(values)


def check_kind(kind: IdKind | None, values: Array, where: str = "") -> None:
    """Raise InvalidInputError if ids do not have the type of the index's ids."""
    if kind is not None and len(values) and kind_of(values) != kind:
        raise InvalidInputError(
            f"the ids of this index are {kind}s, got {values[:1].tolist()[0]!r}{where}"
        )

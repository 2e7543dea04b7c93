"""Tables of ids: row to id, and id to row, in little memory.

An index has ids of one type, integers or texts. A table holds the ids of one segment by row.
Consecutive numbers are not stored. Other numbers take 8 bytes each, and 4 more if they are not in
rising order; texts take their UTF-8 bytes and 12 more.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Bools, Ints, pack_texts, to_numpy
from acqh.errors import CorruptBundleError, DuplicateIdError, InvalidInputError
from acqh.index.checks import check_rising, frozen, read_array, require

IdKind: TypeAlias = Literal["number", "text"]
# Padding of results; no item may have it as its id.
NO_NUMBER = -1
# Larger tables are searched by compiled code, as the codes of so large an index are.
_SMALL_TABLE = 16_384
# For more ids than this share of a table, a dictionary of all its texts is faster.
_MANY = 1 / 32


def read_ids(ids: Any) -> Array:
    """Return ids as an array: (n,) int64, or (n,) object of str; int64 if empty.

    `ids`: a range, list, set, one-dimensional array, or a column of pandas, polars or Arrow. Raises
    InvalidInputError: not one-dimensional, mixed, or neither whole numbers nor texts.

    Examples
    --------
    >>> read_ids(range(2, 4))
    array([2, 3])
    >>> read_ids(["a", "b"])
    array(['a', 'b'], dtype=object)
    """
    if isinstance(ids, range):
        return np.arange(ids.start, ids.stop, ids.step, dtype=np.int64)
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InvalidInputError(f"ids must be a sequence of numbers or texts, got {ids!r}")
    ids, _ = to_numpy(ids)
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        return _as_numbers(ids)
    # Arrow columns and tensors hold values of their own types.
    as_list = getattr(ids, "to_pylist", None) or getattr(ids, "tolist", None)
    values = list(ids) if as_list is None else as_list()
    kinds = {type(value) for value in values}
    if all(issubclass(kind, str) for kind in kinds) and kinds:
        texts = np.empty(len(values), dtype=object)
        texts[:] = values
        return texts
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        try:
            return _as_numbers(np.array(values, dtype=np.int64))
        except OverflowError as error:
            raise InvalidInputError("an id does not fit 64 bits; give smaller numbers") from error
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise InvalidInputError(f"ids must be all whole numbers or all str, got {names}")


def _as_numbers(ids: Ints) -> Ints:
    if ids.ndim != 1:
        raise InvalidInputError(f"ids have {ids.ndim} dimensions; give one id per item")
    if ids.dtype == np.uint64 and ids.size and ids.max() > np.iinfo(np.int64).max:
        raise InvalidInputError("an id does not fit a signed 64-bit integer; give smaller numbers")
    return ids.astype(np.int64)


def kind_of(ids: Array) -> IdKind:
    """Return the type of ids from `read_ids`."""
    return "text" if ids.dtype == object else "number"


@dataclass(frozen=True, slots=True)
class RunningIds:
    """Consecutive numbers: first, first + 1, ...; nothing is stored.

    Examples
    --------
    >>> RunningIds(5, 3).find(np.array([7, 8]))
    array([ 2, -1])
    """

    first: int
    n: int
    kind: ClassVar[Literal["number"]] = "number"

    def __len__(self) -> int:
        return self.n

    @property
    def nbytes(self) -> int:
        return 0

    def largest(self) -> int:
        return self.first + self.n - 1

    def take(self, rows: Ints) -> Array:
        return rows + np.int64(self.first)

    def find(self, ids: Array) -> Ints:
        # Compared before subtracting, because the difference of two int64 may overflow.
        inside = (ids >= self.first) & (ids <= self.largest())
        rows = np.full(len(ids), -1, dtype=np.int64)
        rows[inside] = ids[inside] - self.first
        return rows

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {}, {"ids": "running", "first": self.first}


@dataclass(frozen=True, slots=True, eq=False)
class NumberIds:
    """Distinct numbers in row order; ``order`` sorts them, and is empty if they are sorted.

    Examples
    --------
    >>> NumberIds.of(np.array([30, 10, 20])).find(np.array([10, 11]))
    array([ 1, -1])
    """

    values: Array
    order: Array
    kind: ClassVar[Literal["number"]] = "number"

    @classmethod
    def of(cls, values: Ints) -> Self:
        """Return the table; raise DuplicateIdError if a number repeats."""
        if np.all(values[1:] > values[:-1]):
            return cls(frozen(values), frozen(np.empty(0, dtype=np.uint32)))
        order = np.argsort(values, kind="stable")
        rising = values[order]
        repeats = np.flatnonzero(rising[1:] == rising[:-1])
        if repeats.size:
            raise DuplicateIdError(_repeat_message(int(rising[repeats[0]])))
        return cls(frozen(values), frozen(order.astype(np.uint32)))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.order.nbytes

    def largest(self) -> int:
        return int(self.values.max())

    def take(self, rows: Ints) -> Array:
        return self.values[rows]

    def find(self, ids: Array) -> Ints:
        if self.order.size:
            # Binary search of all ids at once; a sorted table would be a copy. Positions out of
            # range come from a damaged file.
            low, high = np.zeros(len(ids), dtype=np.int64), np.full(len(ids), len(self))
            for _ in range(len(self).bit_length()):
                middle = (low + high) >> 1
                places = self.order.take(middle, mode="clip")
                is_above = self.values.take(places, mode="clip") < ids
                low, high = np.where(is_above, middle + 1, low), np.where(is_above, high, middle)
            rows = self.order.take(low, mode="clip").astype(np.int64)
        else:
            rows = np.searchsorted(self.values, ids)
        is_hit = rows < len(self.values)
        is_hit[is_hit] = self.values[rows[is_hit]] == ids[is_hit]
        return np.where(is_hit, rows, -1)

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {"id_values": self.values, "id_order": self.order}, {"ids": "numbers"}


@dataclass(frozen=True, slots=True, eq=False)
class TextIds:
    """Distinct texts in row order, as one array of UTF-8 bytes; ``order`` sorts them by bytes.

    Examples
    --------
    >>> TextIds.of(["pear", "fig"]).find(np.array(["fig", "plum"], dtype=object))
    array([ 1, -1])
    """

    text: Array
    starts: Array
    order: Array
    kind: ClassVar[Literal["text"]] = "text"

    @classmethod
    def of(cls, ids: Sequence[str]) -> Self:
        """Return the table; raise DuplicateIdError if a text repeats."""
        # Texts sort as their UTF-8 bytes do.
        order = sorted(range(len(ids)), key=ids.__getitem__)
        for before, after in pairwise(order):
            if ids[before] == ids[after]:
                raise DuplicateIdError(_repeat_message(ids[before]))
        text, starts = pack_texts(ids)
        return cls(frozen(text), frozen(starts), frozen(np.array(order, dtype=np.uint32)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def nbytes(self) -> int:
        return self.text.nbytes + self.starts.nbytes + self.order.nbytes

    def take(self, rows: Ints) -> Array:
        ids = np.empty(rows.shape, dtype=object)
        begins, ends = self.starts[rows].ravel(), self.starts[rows + 1].ravel()
        ids.ravel()[:] = [
            _decode(self.text[begin:end])
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
        return ids

    def find(self, ids: Array) -> Ints:
        if len(self) > _SMALL_TABLE:
            from acqh.index.compiled.tables import find_texts

            return np.asarray(find_texts(self.text, self.starts, self.order, *pack_texts(ids)))
        n, rows = len(self), np.full(len(ids), -1, dtype=np.int64)

        def text_of(row: int) -> bytes:
            return self.text[self.starts[row] : self.starts[row + 1]].tobytes()

        packed, starts = pack_texts(ids)
        texts = [packed[start:stop].tobytes() for start, stop in pairwise(starts.tolist())]
        if len(ids) > _MANY * n:
            row_of = {text_of(row): row for row in range(n)}
            return np.array([row_of.get(text, -1) for text in texts], dtype=np.int64)
        order = self.order.clip(max=max(n - 1, 0))  # rows out of range: a damaged file
        for i, text in enumerate(texts):
            place = bisect_left(order, text, key=text_of)
            if place < n and text_of(order[place]) == text:
                rows[i] = order[place]
        return rows

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays = {"id_text": self.text, "id_starts": self.starts, "id_order": self.order}
        return arrays, {"ids": "texts"}


# `take` returns the ids of rows, `find` the row of each id, -1 for unknown ones, and `to_arrays`
# the contents of a file: named arrays, and a dictionary of JSON values.
IdTable: TypeAlias = RunningIds | NumberIds | TextIds


def table_of(ids: Array) -> IdTable:
    """Return the smallest table of ids from `read_ids`.

    Raises DuplicateIdError: an id occurs twice.

    Examples
    --------
    >>> table_of(np.array([4, 5, 6]))
    RunningIds(first=4, n=3)
    """
    if kind_of(ids) == "text":
        return TextIds.of(ids.tolist())
    # If the last is below the first, the sum overflowed 64 bits.
    if ids.size and ids[-1] >= ids[0] and np.all(ids[1:] == ids[:-1] + 1):
        return RunningIds(int(ids[0]), len(ids))
    return NumberIds.of(ids)


def chain_tables(tables: Sequence[IdTable]) -> IdTable:
    """Concatenate tables; consecutive numbers through all are not stored.

    Raises DuplicateIdError: an id occurs twice.

    Examples
    --------
    >>> chain_tables([RunningIds(3, 2), RunningIds(5, 4)])
    RunningIds(first=3, n=6)
    """
    running = [table for table in tables if isinstance(table, RunningIds) and table.n]
    if sum(table.n for table in running) == sum(map(len, tables)) and all(
        before.first + before.n == after.first for before, after in pairwise(running)
    ):
        first = running[0].first if running else 0
        return RunningIds(first, sum(table.n for table in running))
    return table_of(np.concatenate([table.take(np.arange(len(table))) for table in tables]))


def join_tables(tables: Sequence[IdTable], keep: Sequence[Bools | None]) -> IdTable:
    """Concatenate the rows to keep of several tables; a mask of None keeps all.

    Raises CorruptBundleError: an id occurs twice, so the file is damaged.
    """
    try:
        if all(rows is None for rows in keep):
            return chain_tables(tables)
        parts = [
            table.take(np.arange(len(table)) if rows is None else np.flatnonzero(rows))
            for table, rows in zip(tables, keep, strict=True)
        ]
        return table_of(np.concatenate(parts))
    except DuplicateIdError as error:
        raise CorruptBundleError("an id of the index occurs twice; verify its file") from error


def table_from_arrays(arrays: Mapping[str, Array], info: Mapping[str, Any], n: int) -> IdTable:
    """Return the table of `to_arrays`; arrays may be memory-mapped and are not copied.

    Checks types and shapes; `verify_table` reads every value.

    Raises CorruptBundleError: the arrays do not form a table of n ids.
    """
    kind = info.get("ids")
    if kind == "running":
        first = info.get("first")
        if not isinstance(first, int) or isinstance(first, bool):
            raise CorruptBundleError(f"stored 'first' must be a whole number, got {first!r}")
        require(-(2**63) <= first <= 2**63 - n, "first")
        return RunningIds(first, n)
    if kind not in ("numbers", "texts"):
        raise CorruptBundleError(f"stored ids have the unknown type {kind!r}")
    order = read_array(arrays, "id_order", np.uint32)
    if kind == "numbers":
        values = read_array(arrays, "id_values", np.int64)
        require(values.shape == (n,), "id_values")
        require(order.shape in ((0,), (n,)), "id_order")
        return NumberIds(values, order)
    text = read_array(arrays, "id_text", np.uint8)
    starts = read_array(arrays, "id_starts", np.int64)
    require(text.ndim == 1, "id_text")
    require(order.shape == (n,), "id_order")
    require(starts.shape == (n + 1,), "id_starts")
    return TextIds(text, starts, order)


def verify_table(table: IdTable) -> None:
    """Read every id of a stored table.

    Raises CorruptBundleError: ids repeat, are not valid texts, or are not sorted.
    """
    if isinstance(table, RunningIds):
        return
    n = len(table)
    if isinstance(table, TextIds):
        check_rising(table.starts, "id_starts", n, len(table.text))
    order = table.order if table.order.size else np.arange(n)
    if not np.array_equal(np.sort(order), np.arange(n)):
        raise CorruptBundleError("stored 'id_order' is not a permutation of the rows")
    ids = table.take(order)
    if not np.all(ids[1:] > ids[:-1]):
        raise CorruptBundleError("stored 'id_order' does not sort the ids, or an id occurs twice")


def _decode(text: Array) -> str:
    try:
        return text.tobytes().decode()
    except UnicodeDecodeError as error:
        raise CorruptBundleError(f"a stored id is not valid text: {error.reason}") from error


def _repeat_message(identifier: Any) -> str:
    return f"id {identifier!r} occurs more than once; make ids unique"

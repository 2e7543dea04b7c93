"""The ids of items that are about to be added."""

from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh.errors import DuplicateIdError, InvalidInputError
from acqh.index.items.ids import (
    NO_NUMBER,
    IdKind,
    IdTable,
    RunningIds,
    chain_tables,
    kind_of,
    read_ids,
    table_of,
)
from acqh.index.items.snapshot import MAX_ROWS, S, Snapshot


class NewIds:
    """Ids of items that are to follow those of a snapshot, taken part by part.

    `n`: how many were taken. `next_number`: what the snapshot has after them: see `Snapshot`.
    """

    def __init__(self, snapshot: Snapshot[S]) -> None:
        self.n = 0
        self.kind: IdKind | None = snapshot.kind
        self.next_number = snapshot.next_number
        self._snapshot = snapshot
        self._tables: list[IdTable] = []

    def take(self, ids: Any, n: int) -> IdTable:
        """Read the ids of n more items, or number these where there are none.

        Raises DuplicateIdError: an id occurs twice among them. Raises
        InvalidInputError: ids of the wrong shape, type or range, or too many items.
        """
        if int(self._snapshot.first_rows[-1]) + self.n + n > MAX_ROWS:
            raise InvalidInputError(f"an index holds at most {MAX_ROWS} items")
        table = self._number(n) if ids is None else self._read(ids, n)
        if n > 0:
            self._tables.append(table)
            self.n += n
            self.kind = table.kind
            if table.kind == "number":
                self.next_number = max(self.next_number, table.largest() + 1)
        return table

    def take_new(self, ids: Any, n: int) -> None:
        """Take ids as `take` does; raise DuplicateIdError where the snapshot has one of them."""
        table = self.take(ids, n)
        if ids is None or not self._snapshot.parts:
            return
        values = table.take(np.arange(n))
        known = np.flatnonzero(self._snapshot.find(values) >= 0)
        if known.size:
            first = values[known[:1]].tolist()[0]
            raise DuplicateIdError(
                f"id {first!r} is in the index already ({known.size} such); use upsert to replace "
                "items"
            )

    def table(self) -> IdTable:
        """Return the table of all that were taken; raise DuplicateIdError where an id repeats."""
        return self._tables[0] if len(self._tables) == 1 else chain_tables(self._tables)

    def _number(self, n: int) -> IdTable:
        if self.kind == "text":
            raise InvalidInputError("the ids of this index are texts; give the new ones too")
        if self.next_number + n > 2**63:
            raise InvalidInputError("running numbers are used up; give ids")
        return RunningIds(self.next_number, n)

    def _read(self, ids: Any, n: int) -> IdTable:
        values = read_ids(ids)
        if len(values) != n:
            raise InvalidInputError(f"{len(values)} ids for {n} items; give one id per item")
        check_kind(self.kind, values)
        if kind_of(values) == "number" and (values == NO_NUMBER).any():
            raise InvalidInputError(f"{NO_NUMBER} cannot be an id: results mark missing items so")
        return table_of(values)


def check_kind(kind: IdKind | None, values: Array, said: str = "got") -> None:
    """Raise InvalidInputError where ids are not of an index's kind."""
    if kind is not None and len(values) and kind_of(values) != kind:
        raise InvalidInputError(
            f"the ids of this index are {kind}s, {said} {values[:1].tolist()[0]!r}"
        )

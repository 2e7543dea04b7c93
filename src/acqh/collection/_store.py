"""The truth of a collection: its items, in SQLite."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acqh.collection._stored import StoredItems
from acqh.collection._tables import (
    checksum,
    find_number,
    insert_row,
    number_labels,
    read_fact,
    remove_row,
    write_change,
    write_columns,
)
from acqh.collection._types import Item
from acqh.errors import DuplicateIdError


class Store(StoredItems):
    """The items of a collection, and how they change; made as `StoredItems` is."""

    def insert(
        self, items: Sequence[Item], *, replace: bool = False, strict: bool = False
    ) -> list[str | None]:
        """Add items, all in one transaction.

        `replace`: put an item in place of the one that has its id; otherwise it is left out.
        `strict`: raise where it would be left out, and add none. Gives the id of each; None for
        those that were left out.
        """
        ids: list[str | None] = []
        with self.connections.writing() as connection:
            change = read_fact(connection, "change")
            label_numbers = number_labels(connection, items)
            for item in items:
                known = item.id is not None and find_number(connection, item.id) is not None
                if known and not replace and strict:
                    raise DuplicateIdError(
                        f"{item.origin}: there is an item {item.id!r} already; nothing was added"
                    )
                if known and not replace:
                    ids.append(None)
                    continue
                if known:
                    change += 1
                    remove_row(connection, item.id, change)
                change += 1
                ids.append(insert_row(connection, item, change, label_numbers))
            write_change(connection, change)
        return ids

    def remove(self, ids: Iterable[str]) -> int:
        """Remove items, all in one transaction; raise MissingItemError, and remove none."""
        n_removed = 0
        with self.connections.writing() as connection:
            change = read_fact(connection, "change")
            for identifier in dict.fromkeys(ids):
                change += 1
                n_removed += 1
                remove_row(connection, identifier, change)
            write_change(connection, change)
        return n_removed

    def set_columns(self, columns: Mapping[str, Mapping[str, Any]]) -> None:
        """Set some columns of items, by id, in one transaction; the others stay."""
        with self.connections.writing() as connection:
            change = read_fact(connection, "change") + len(columns)
            for identifier, values in columns.items():
                write_columns(connection, identifier, values)
            write_change(connection, change)

    def has_texts(self) -> bool:
        """Whether any item has a text."""
        with self.connections.reading() as connection:
            row = connection.execute("SELECT 1 FROM items WHERE text <> '' LIMIT 1").fetchone()
        return row is not None

    def staged(self, start: int, n: int) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return id, text and labels of items that a build has just numbered from 1 on."""
        with self.connections.reading() as connection:
            rows = connection.execute(
                "SELECT id, text, labels FROM items WHERE number > ? AND number <= ? "
                "ORDER BY number",
                (start, start + n),
            ).fetchall()
        return [(identifier, text, tuple(json.loads(names))) for identifier, text, names in rows]

    def set_codes(self, codes: Iterable[tuple[int, str, bytes]]) -> None:
        """Give items their codes, as number, what they were coded by, and code."""
        with self.connections.writing() as connection:
            for number, coded_by, code in codes:
                row = connection.execute(
                    "SELECT id, text, labels, columns FROM items WHERE number = ?", (number,)
                ).fetchone()
                connection.execute(
                    "UPDATE items SET coded_by = ?, code = ?, checksum = ? WHERE number = ?",
                    (coded_by, code, checksum(*row, coded_by, code), number),
                )

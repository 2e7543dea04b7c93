"""Changing items: every item and every removal takes the next change number."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from acqh.collection.store.connections import Store, read_change
from acqh.collection.store.filters import parsed, values_of
from acqh.collection.store.read import find_number, forget_removals
from acqh.collection.store.schema import checksum
from acqh.collection.store.words import change_words, words_of
from acqh.collection.types import FACTS, FILE, Item
from acqh.errors import DuplicateIdError, MissingItemError


@dataclass
class Writer:
    """A transaction that changes items; what it has done happens when it ends."""

    connection: sqlite3.Connection
    change: int  # the last one

    def insert(self, item: Item) -> str:
        """Add an item that has an id; it follows its file, if it has a folder."""
        self.change += 1
        labels = json.dumps(item.labels, ensure_ascii=False)
        columns = json.dumps(item.columns, ensure_ascii=False)
        fields = (item.id, item.text, labels, columns, item.coded_by, item.code)
        self.connection.execute(
            "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (self.change, *fields, checksum(*fields)),
        )
        if item.thumbnail is not None:
            self.connection.execute(
                "INSERT INTO thumbnails VALUES (?, ?, ?)",
                (self.change, item.thumbnail, checksum(item.thumbnail)),
            )
        self._derive(self.change, item.text, labels, columns)
        if item.folder:
            self.follow(self.change, item.folder, item.columns[FILE])
        return str(item.id)

    def remove(self, identifier: str) -> None:
        """Remove an item; raise MissingItemError where there is none."""
        number, *fields = self._fields(identifier, "number, text, labels, columns", "removed")
        self.change += 1
        self._derive(number, *fields, remove=True)
        self.connection.execute("DELETE FROM items WHERE number = ?", (number,))
        self.connection.execute("INSERT INTO removals VALUES (?, ?)", (self.change, number))

    def set_columns(self, identifier: str, values: Mapping[str, Any]) -> None:
        """Set some columns of an item; the others stay."""
        wanted = "number, text, labels, columns, coded_by, code"
        number, text, labels, old, *coded = self._fields(identifier, wanted, "changed")
        columns = json.dumps(parsed(labels, old)[1] | dict(values), ensure_ascii=False)
        self._derive(number, text, labels, old, remove=True)
        self.connection.execute(
            "UPDATE items SET columns = ?, checksum = ? WHERE number = ?",
            (columns, checksum(identifier, text, labels, columns, *coded), number),
        )
        self._derive(number, text, labels, columns)
        self.change += 1

    def follow(self, number: int, folder: str, name: str) -> None:
        """Let an item follow a file."""
        self.connection.execute("INSERT INTO followed VALUES (?, ?, ?)", (number, folder, name))

    def follower(self, folder: str, name: Any) -> str | None:
        """Return the id of the item that follows a file, or None."""
        row = self.connection.execute(
            "SELECT id FROM followed JOIN items USING (number) WHERE folder = ? AND name = ?",
            (folder, name),
        ).fetchone()
        return None if row is None else str(row[0])

    def still_following(self, item: Item) -> Item:
        """Return an item that follows the file which the one of its id follows."""
        row = self.connection.execute(
            "SELECT folder, columns FROM followed JOIN items USING (number) WHERE id = ?",
            (item.id,),
        ).fetchone()
        if row is None or item.folder:
            return item
        folder, columns = row
        known = parsed("[]", columns)[1]
        facts = {name: value for name, value in known.items() if name in FACTS}
        return replace(item, folder=folder, columns={**item.columns, **facts})

    def _fields(self, identifier: str, wanted: str, done: str) -> Any:
        row = self.connection.execute(
            f"SELECT {wanted} FROM items WHERE id = ?",  # noqa: S608
            (identifier,),
        ).fetchone()
        if row is None:
            raise MissingItemError(f"no item has the id {identifier!r}; nothing was {done}")
        return row

    def _derive(
        self, number: int, text: Any, labels: Any, columns: Any, *, remove: bool = False
    ) -> None:
        """Add what an item is found by, its values and words; or take them out."""
        statement = "INSERT INTO item_values VALUES (?, ?, ?)"
        if remove:
            statement = "DELETE FROM item_values WHERE name = ? AND value = ? AND number = ?"
        self.connection.executemany(statement, value_rows(number, labels, columns))
        words = words_of(text, *parsed(labels, columns))
        change_words(self.connection, number, *words, remove=remove)


def value_rows(number: int, labels: Any, columns: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield the rows of a stored item in the table of values."""
    return ((name, value, number) for name, value in values_of(*parsed(labels, columns)))


@contextmanager
def changing(store: Store) -> Iterator[Writer]:
    """Give what changes items, all in one transaction."""
    with store.writing() as connection:
        writer = Writer(connection, read_change(connection))
        yield writer
        connection.execute("UPDATE facts SET value = ? WHERE name = 'change'", (writer.change,))
        forget_removals(connection, writer.change)


def insert_items(
    store: Store, items: Sequence[Item], *, replacing: bool = False, strict: bool = False
) -> list[str | None]:
    """Add items, all in one transaction.

    `replacing`: put an item in place of the one that has its id or follows the same file, and let
    it follow this file still; otherwise it is left out. `strict`: raise where it would be left
    out, and add none. Gives the id of each; None for those that were left out.
    """
    ids: list[str | None] = []
    with changing(store) as writer:
        for given in items:
            item = given
            if item.folder and (own := writer.follower(item.folder, item.columns[FILE])):
                item = replace(item, id=own)
            if find_number(writer.connection, item.id) is not None:
                if not replacing and strict:
                    raise DuplicateIdError(
                        f"{item.origin}: there is an item {item.id!r} already; nothing was added"
                    )
                if not replacing:
                    ids.append(None)
                    continue
                item = writer.still_following(item)
                writer.remove(item.id)
            ids.append(writer.insert(item))
    return ids


def remove_items(store: Store, ids: Iterable[str]) -> int:
    """Remove items, all in one transaction; raise MissingItemError, and remove none."""
    each = list(dict.fromkeys(ids))
    with changing(store) as writer:
        for identifier in each:
            writer.remove(identifier)
    return len(each)


def set_codes(store: Store, codes: Iterable[tuple[int, str, bytes]]) -> None:
    """Give items their codes, as number, what they were coded by, and code."""
    with store.writing() as connection:
        for number, coded_by, code in codes:
            row = connection.execute(
                "SELECT id, text, labels, columns FROM items WHERE number = ?", (number,)
            ).fetchone()
            connection.execute(
                "UPDATE items SET coded_by = ?, code = ?, checksum = ? WHERE number = ?",
                (coded_by, code, checksum(*row, coded_by, code), number),
            )

"""Which items follow which files, and what is remembered of those that went."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from acqh.collection.sources.folder import ImageFile
from acqh.collection.store.schema import (
    find_number,
    followed_by,
    insert_row,
    keep_link,
    link,
    read_fact,
    remove_row,
    write_change,
    write_columns,
)
from acqh.collection.store.store import Store
from acqh.collection.types import BYTES, DIGEST, FACTS, FILE, MODIFIED, Item

# Text, labels and columns, as JSON, that people gave.
_Given = tuple[str, tuple[str, ...], dict[str, Any]]


@dataclass(frozen=True)
class Followed:
    """An item, and what the file that it follows was when it was read."""

    id: str
    number: int
    folder: str
    name: str
    n_bytes: Any
    modified: Any
    digest: Any

    def looks_like(self, file: ImageFile) -> bool:
        """Whether a file has the same size and time."""
        return (self.n_bytes, self.modified) == (file.n_bytes, file.modified)

    def is_still(self, connection: sqlite3.Connection) -> bool:
        """Whether the item follows this file, and has this content of it."""
        row = connection.execute(
            "SELECT columns FROM followed JOIN items USING (number) "
            "WHERE id = ? AND folder = ? AND name = ?",
            (self.id, self.folder, self.name),
        ).fetchone()
        return row is not None and json.loads(row[0]).get(DIGEST) == self.digest


def followed_items(store: Store) -> list[Followed]:
    """Return the items that follow files, in order of insertion."""
    rows = store.rows(
        "SELECT id, number, folder, name, columns FROM followed JOIN items USING (number) "
        "ORDER BY number"
    )
    found = []
    for *facts, columns in rows:
        values = json.loads(columns)
        found.append(Followed(*facts, *(values.get(name) for name in (BYTES, MODIFIED, DIGEST))))
    return found


def ids_of_file(store: Store, name: str) -> list[str]:
    """Return the ids of items that follow a file of this name, in any folder."""
    rows = store.rows(
        "SELECT id FROM followed JOIN items USING (number) WHERE name = ? ORDER BY number", name
    )
    return [identifier for (identifier,) in rows]


def follows_file(store: Store, identifier: str) -> bool:
    """Whether an item follows a file."""
    return bool(
        store.rows("SELECT 1 FROM followed JOIN items USING (number) WHERE id = ?", identifier)
    )


def move_items(
    store: Store, moves: Sequence[tuple[Followed, ImageFile, Mapping[str, Any]]]
) -> None:
    """Let items follow other files, and set columns of them, in one transaction.

    Those that somebody else has changed meanwhile stay as they are.
    """
    with store.connections.writing() as connection:
        change = read_fact(connection, "change")
        still = [
            (find_number(connection, item.id) or 0, item, file, columns)
            for item, file, columns in moves
            if item.is_still(connection)
        ]
        # Files may have changed places: all must be left before one is taken.
        for number, *_ in still:
            connection.execute("DELETE FROM followed WHERE number = ?", (number,))
        for number, item, file, columns in still:
            folder = str(file.folder)
            if followed_by(connection, folder, file.name) is None:
                link(connection, number, folder, file.name)
                write_columns(connection, item.id, columns)
                change += 1
            elif followed_by(connection, item.folder, item.name) is None:
                link(connection, number, item.folder, item.name)
        write_change(connection, change)


def remove_items(store: Store, items: Iterable[Followed]) -> list[str]:
    """Remove items whose files are gone, in one transaction; remember what people gave them.

    Gives the ids of those that were removed: not those that somebody else has changed meanwhile.
    """
    removed = []
    with store.connections.writing() as connection:
        change = read_fact(connection, "change")
        for item in items:
            if item.is_still(connection):
                _remember(connection, item)
                change += 1
                remove_row(connection, item.id, change)
                removed.append(item.id)
        write_change(connection, change)
    return removed


def _remember(connection: sqlite3.Connection, item: Followed) -> None:
    row = connection.execute(
        "SELECT text, labels, columns FROM items WHERE id = ?", (item.id,)
    ).fetchone()
    text, labels, columns = _given(*row)
    if isinstance(item.digest, str) and (text or labels or columns):
        connection.execute(
            "INSERT OR REPLACE INTO remembered VALUES (?, ?, ?, ?)",
            (item.digest, text, json.dumps(labels), json.dumps(columns)),
        )


def _given(text: str, labels: str, columns: str) -> _Given:
    values = json.loads(columns)
    own = {name: value for name, value in values.items() if name not in FACTS}
    return text, tuple(json.loads(labels)), own


def forget_removed(store: Store) -> None:
    """Empty the memory of what removed items were given."""
    with store.connections.writing() as connection:
        connection.execute("DELETE FROM remembered")


def given_to(connection: sqlite3.Connection, folder: str, name: str, digest: str) -> _Given:
    """Return what people gave the item of a file; where there is none, what its content had."""
    row = connection.execute(
        "SELECT text, labels, columns FROM followed JOIN items USING (number) "
        "WHERE folder = ? AND name = ?",
        (folder, name),
    ).fetchone()
    row = (
        row
        or connection.execute(
            "SELECT text, labels, columns FROM remembered WHERE sha256 = ?", (digest,)
        ).fetchone()
    )
    return ("", (), {}) if row is None else _given(*row)


@dataclass(frozen=True, eq=False)
class FileWriter:
    """Stores items of files that were read, in place of those that follow the same files.

    What people gave an item stays as it is when it is written, not as it was when it was read. A
    file whose item was given another text or label meanwhile has a code of what it was: it goes to
    `again`, to be described anew, unless this is the `last` time.
    """

    store: Store
    last: bool = False
    again: set[str] = field(default_factory=set)  # names of files
    done: set[str] = field(default_factory=set)  # names of files that somebody else has stored

    def put(self, items: Sequence[Item]) -> list[str | None]:
        """Store items in one transaction; return their ids, None for those left out."""
        with self.store.connections.writing() as connection:
            change = read_fact(connection, "change")
            ids: list[str | None] = []
            for item in items:
                identifier, change = self._put(connection, item, change)
                ids.append(identifier)
            write_change(connection, change)
        return ids

    def _put(
        self, connection: sqlite3.Connection, item: Item, change: int
    ) -> tuple[str | None, int]:
        name, digest = item.columns[FILE], item.columns[DIGEST]
        own = followed_by(connection, item.folder, name)
        if own is not None and _digest_of(connection, own) == digest:
            self.done.add(name)
            return None, change
        text, labels, columns = given_to(connection, item.folder, name, digest)
        if (text, labels) != (item.text, item.labels) and not self.last:
            self.again.add(name)
            return None, change
        facts = {name: item.columns[name] for name in FACTS if name in item.columns}
        identifier = own or free_id(item.id, lambda it: find_number(connection, it) is not None)
        if own is not None:
            change += 1
            remove_row(connection, own, change)
        change += 1
        new = replace(item, id=identifier, text=text, labels=labels, columns={**columns, **facts})
        return insert_row(connection, new, change), change


def _digest_of(connection: sqlite3.Connection, identifier: str) -> Any:
    row = connection.execute("SELECT columns FROM items WHERE id = ?", (identifier,)).fetchone()
    return json.loads(row[0]).get(DIGEST)


def free_id(usual: str, is_taken: Callable[[str], bool]) -> str:
    """Return an id, with a number behind it where it is taken."""
    identifier, again = usual, 1
    while is_taken(identifier):
        again += 1
        identifier = f"{usual}#{again}"
    return identifier


def relabel(store: Store, items: Sequence[tuple[int, Item]]) -> list[bool]:
    """Give items other texts, labels, columns and codes, in one transaction.

    Each comes with the number that it had when it was read: one that somebody has changed
    meanwhile stays as it is. Gives which were changed.
    """
    changed = []
    with store.connections.writing() as connection:
        change = read_fact(connection, "change")
        for number, item in items:
            changed.append(find_number(connection, item.id) == number)
            if changed[-1]:
                row = connection.execute(
                    "SELECT picture FROM thumbnails WHERE number = ?", (number,)
                ).fetchone()
                thumbnail = None if row is None else row[0]
                new = replace(keep_link(connection, replace(item, folder="")), thumbnail=thumbnail)
                remove_row(connection, item.id, change + 1)
                change += 2
                insert_row(connection, new, change)
        write_change(connection, change)
    return changed

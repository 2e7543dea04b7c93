"""Which items follow which files, and what is remembered of those that went."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from acqh.collection.store.file import Store, first_row
from acqh.collection.store.items import Writer, changing, find_number, parsed, thumbnails_of
from acqh.collection.types import BYTES, DIGEST, FACTS, FILE, MODIFIED, Item

# Text, labels and columns that people gave.
_Given = tuple[str, tuple[str, ...], dict[str, Any]]
_FACTS = [f"json_extract(columns, '$.{name}')" for name in (BYTES, MODIFIED, DIGEST)]
_FOLLOWED = "FROM followed JOIN items USING (number)"


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

    def is_still(self, connection: sqlite3.Connection) -> bool:
        """Whether the item follows this file, and has this content of it."""
        wanted = f"SELECT {_FACTS[-1]} {_FOLLOWED} WHERE id = ? AND folder = ? AND name = ?"
        row = first_row(connection, wanted, self.id, self.folder, self.name)
        return bool(row == (self.digest,))


def followed_items(store: Store) -> list[Followed]:
    """Return the items that follow files, in order of insertion."""
    wanted = ", ".join(("id", "number", "folder", "name", *_FACTS))
    with store.reading() as connection:
        rows = connection.execute(f"SELECT {wanted} {_FOLLOWED} ORDER BY number")
        return [Followed(*row) for row in rows]


def ids_of_file(connection: sqlite3.Connection, name: str) -> list[str]:
    """Return the ids of items that follow a file of this name, in any folder."""
    rows = connection.execute(f"SELECT id {_FOLLOWED} WHERE name = ? ORDER BY number", (name,))
    return [identifier for (identifier,) in rows]


def follows_file(connection: sqlite3.Connection, identifier: str) -> bool:
    """Whether an item follows a file."""
    return first_row(connection, f"SELECT 1 {_FOLLOWED} WHERE id = ?", identifier) is not None


def move_items(store: Store, moves: Sequence[tuple[Followed, str, str, Mapping[str, Any]]]) -> None:
    """Let items follow other files, and set columns of them, in one transaction.

    `moves`: an item, the folder and the name of its file, and its columns. Those that somebody
    else has changed meanwhile stay as they are.
    """
    with changing(store) as writer:
        still = [
            (find_number(writer.connection, item.id) or 0, item, folder, name, columns)
            for item, folder, name, columns in moves
            if item.is_still(writer.connection)
        ]
        # Files may have changed places: all must be left before one is taken.
        for number, *_ in still:
            writer.connection.execute("DELETE FROM followed WHERE number = ?", (number,))
        for number, item, folder, name, columns in still:
            if writer.follower(folder, name) is None:
                writer.follow(number, folder, name)
                writer.set_columns(item.id, columns)
            elif writer.follower(item.folder, item.name) is None:
                writer.follow(number, item.folder, item.name)


def remove_followed(store: Store, items: Iterable[Followed]) -> list[str]:
    """Remove items whose files are gone, in one transaction; remember what people gave them.

    Gives the ids of those that were removed: not those that somebody else has changed meanwhile.
    """
    removed = []
    with changing(store) as writer:
        for item in items:
            if item.is_still(writer.connection):
                _remember(writer.connection, item)
                writer.remove(item.id)
                removed.append(item.id)
    return removed


def heirs(store: Store, removed: Iterable[Followed]) -> list[Item]:
    """Return items of the same content as removed ones with what these were given.

    But for those that people gave something themselves.
    """
    found = []
    digests = {item.digest for item in removed}
    others = [item for item in followed_items(store) if item.digest in digests]
    with store.reading() as connection:
        for item in others:
            if not any(given_to(connection, item.folder, item.name, item.digest)):
                text, labels, columns = given_to(connection, "", "", item.digest)
                found.append(Item(None, text, labels, item.id, columns))
    return found


def _remember(connection: sqlite3.Connection, item: Followed) -> None:
    wanted = "SELECT text, labels, columns FROM items WHERE id = ?"
    text, labels, columns = _given(*first_row(connection, wanted, item.id))
    if isinstance(item.digest, str) and (text or labels or columns):
        connection.execute(
            "INSERT OR REPLACE INTO remembered VALUES (?, ?, ?, ?)",
            (item.digest, text, json.dumps(labels), json.dumps(columns)),
        )


def _given(text: str, labels: str, columns: str) -> _Given:
    names, values = parsed(labels, columns)
    own = {name: value for name, value in values.items() if name not in FACTS}
    return str(text), tuple(names), own


def forget_removed(store: Store) -> None:
    """Empty the memory of what removed items were given."""
    with store.writing() as connection:
        connection.execute("DELETE FROM remembered")


def given_to(connection: sqlite3.Connection, folder: str, name: str, digest: str) -> _Given:
    """Return what people gave the item of a file; where there is none, what its content had."""
    wanted = "SELECT text, labels, columns"
    row = first_row(connection, f"{wanted} {_FOLLOWED} WHERE folder = ? AND name = ?", folder, name)
    if row is None:
        row = first_row(connection, f"{wanted} FROM remembered WHERE sha256 = ?", digest)
    return ("", (), {}) if row is None else _given(*row)


@dataclass(frozen=True, eq=False)
class FileWriter:
    """Stores items of files that were read, in place of those that follow the same files.

    What people gave an item stays as it is when it is written, not as it was when it was read. A
    file whose item was given another text or label meanwhile has a code of what it was: it goes to
    `again`, to be described anew, unless this is the `last` time.
    """

    last: bool = False
    again: set[str] = field(default_factory=set)  # names of files
    done: set[str] = field(default_factory=set)  # names of files that somebody else has stored

    def put(self, store: Store, items: Sequence[Item]) -> list[str | None]:
        """Store items in one transaction; return their ids, None for those left out."""
        with changing(store) as writer:
            return [self._put(writer, item) for item in items]

    def _put(self, writer: Writer, item: Item) -> str | None:
        connection, name, digest = writer.connection, item.columns[FILE], item.columns[DIGEST]
        own = writer.follower(item.folder, name)
        is_same = f"SELECT 1 {_FOLLOWED} WHERE id = ? AND {_FACTS[-1]} = ?"
        if first_row(connection, is_same, own, digest) is not None:
            self.done.add(name)
            return None
        text, labels, columns = given_to(connection, item.folder, name, digest)
        if (text, labels) != (item.text, item.labels) and not self.last:
            self.again.add(name)
            return None
        facts = {name: item.columns[name] for name in FACTS if name in item.columns}
        identifier = own or free_id(item.id, partial(find_number, connection))
        if own is not None:
            writer.remove(own)
        new = replace(item, id=identifier, text=text, labels=labels, columns={**columns, **facts})
        return writer.insert(new)


def free_id(usual: str, is_taken: Callable[[str], object]) -> str:
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
    with changing(store) as writer:
        for number, item in items:
            changed.append(find_number(writer.connection, item.id) == number)
            if changed[-1]:
                thumbnail = thumbnails_of(writer.connection, [number]).get(number)
                linked = writer.still_following(replace(item, folder=""))
                writer.remove(item.id)
                writer.insert(replace(linked, thumbnail=thumbnail))
    return changed

"""Files that items track, and tombstones: what is kept of files whose items were removed."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from acqh._core.fields import BYTES, DIGEST, FILE, FILE_FIELDS, MODIFIED
from acqh.collection.store.file import LISTED, Store, checksum, first_row, listed
from acqh.collection.store.items import Writer, changing, find_number, parsed, thumbnails_of
from acqh.collection.types import Item

# Text, labels and fields that people gave.
Metadata = tuple[str, tuple[str, ...], dict[str, Any]]
_FIELDS = "text, labels, fields"
_FILE = [f"json_extract(fields, '$.{name}')" for name in (BYTES, MODIFIED, DIGEST)]
_TRACKED = "FROM tracked_files JOIN items USING (number)"


@dataclass(frozen=True)
class TrackedFile:
    """A file as it was when it was read, and the item that tracks it.

    If that was removed, `id` is empty and `number` that of the tombstone; `is_final` says that
    people removed it, for good.
    """

    id: str
    number: int
    folder: str
    name: str
    n_bytes: Any
    modified: Any
    digest: Any
    is_final: bool = False

    @property
    def path(self) -> Path:
        """Path of the file."""
        return Path(self.folder, self.name)

    def is_unchanged(self, connection: sqlite3.Connection) -> bool:
        """Whether the item tracks this file, and has this content of it."""
        statement = f"SELECT {_FILE[-1]} {_TRACKED} WHERE id = ? AND folder = ? AND name = ?"
        row = first_row(connection, statement, self.id, self.folder, self.name)
        return bool(row == (self.digest,))


def tracked_files(store: Store) -> list[TrackedFile]:
    """Return the files that items track, in order of insertion."""
    columns = ", ".join(("id", "number", "folder", "name", *_FILE))
    with store.reading() as connection:
        rows = connection.execute(f"SELECT {columns} {_TRACKED} ORDER BY number")
        return [TrackedFile(*row) for row in rows]


def tracked_folders(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the folders that items track, in alphabetical order."""
    rows = connection.execute("SELECT DISTINCT folder FROM tracked_files ORDER BY folder")
    return tuple(folder for (folder,) in rows)


def tombstones(store: Store) -> list[TrackedFile]:
    """Return the files whose items were removed."""
    columns = ", ".join(("''", "number", "folder", "name", *_FILE, "is_final"))
    with store.reading() as connection:
        rows = connection.execute(f"SELECT {columns} FROM tombstones ORDER BY number")  # noqa: S608
        return [TrackedFile(*row) for row in rows]


def ids_of_file(connection: sqlite3.Connection, name: str) -> list[str]:
    """Return the ids of items that track a file of this name, in any folder."""
    rows = connection.execute(f"SELECT id {_TRACKED} WHERE name = ? ORDER BY number", (name,))
    return [identifier for (identifier,) in rows]


def tracks_file(connection: sqlite3.Connection, identifier: str) -> bool:
    """Whether an item tracks a file."""
    return first_row(connection, f"SELECT 1 {_TRACKED} WHERE id = ?", identifier) is not None


def move_items(
    store: Store, moves: Sequence[tuple[TrackedFile, str, str, Mapping[str, Any]]]
) -> None:
    """Let items and tombstones track other files, and set fields of them, in one transaction.

    `moves`: an item, the folder and the name of its file, and its fields. Those that somebody
    else has changed meanwhile stay as they are.
    """
    with changing(store) as writer:
        still = [
            (find_number(writer.connection, item.id) or 0, item, folder, name, fields)
            for item, folder, name, fields in moves
            if item.is_unchanged(writer.connection)
        ]
        # Files may have changed places: all must be left before one is taken.
        for number, *_ in still:
            writer.connection.execute("DELETE FROM tracked_files WHERE number = ?", (number,))
        for number, item, folder, name, fields in still:
            if writer.tracker(folder, name) is None:
                writer.track(number, folder, name)
                writer.set_fields(item.id, fields)
            elif writer.tracker(item.folder, item.name) is None:
                writer.track(number, item.folder, item.name)
            else:  # it tracks no file any more
                writer.revision += 1
        for item, folder, name, fields in moves:
            if not item.id:
                _delete(writer.connection, [item.number])
                _bury(writer.connection, folder, name, ("", (), {}), fields, is_final=True)


def remove_items(store: Store, ids: Iterable[str]) -> int:
    """Remove items for good, in one transaction; raise MissingItemError, and remove none.

    Files that they track are not added again unless their content changes.
    """
    unique_ids = list(dict.fromkeys(ids))
    with changing(store) as writer:
        for identifier in unique_ids:
            statement = f"SELECT folder, name, fields {_TRACKED} WHERE id = ?"
            if (row := first_row(writer.connection, statement, identifier)) is not None:
                folder, name, fields = row
                facts = parsed("[]", fields)[1]
                _bury(writer.connection, folder, name, ("", (), {}), facts, is_final=True)
            writer.remove(identifier)
    return len(unique_ids)


def remove_gone(store: Store, files: Iterable[TrackedFile]) -> list[str]:
    """Remove items whose files are gone, in one transaction; keep what people gave them.

    Gives the ids of those that were removed: not those that somebody else has changed meanwhile.
    """
    removed = []
    with changing(store) as writer:
        for file in files:
            if file.is_unchanged(writer.connection):
                statement = f"SELECT {_FIELDS} FROM items WHERE id = ?"  # noqa: S608
                row = first_row(writer.connection, statement, file.id)
                if any(metadata := _metadata(*row)):
                    facts = parsed("[]", row[2])[1]
                    _bury(writer.connection, file.folder, file.name, metadata, facts)
                writer.remove(file.id)
                removed.append(file.id)
    return removed


def _bury(
    connection: sqlite3.Connection,
    folder: str,
    name: str,
    metadata: Metadata,
    facts: Mapping[str, Any],
    *,
    is_final: bool = False,
) -> None:
    """Write a tombstone; `facts`: fields that say what the file was."""
    text, labels, fields = metadata
    stored_fields = {**fields, **{name: facts[name] for name in FILE_FIELDS if name in facts}}
    values = [
        folder,
        name,
        str(facts.get(DIGEST)),
        text,
        json.dumps(labels),
        json.dumps(stored_fields),
    ]
    row = [None, *values, int(is_final), checksum(*values, str(int(is_final)))]
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT OR REPLACE INTO tombstones VALUES ({marks})", row)  # noqa: S608


def forget(store: Store, numbers: Iterable[int]) -> None:
    """Delete tombstones, in one transaction."""
    with store.writing() as connection:
        _delete(connection, numbers)


def _delete(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    statement = f"DELETE FROM tombstones WHERE number IN {LISTED}"  # noqa: S608
    connection.execute(statement, (listed(numbers),))


def inherited(store: Store, removed: Iterable[TrackedFile]) -> dict[int, Item]:
    """Return what items get from removed ones of the same content, by number of the tombstone.

    Items that people gave something are left alone.
    """
    digests = {file.digest for file in removed}
    others = [file for file in tracked_files(store) if file.digest in digests]
    graves = [file for file in tombstones(store) if file.digest in digests and not file.is_final]
    restored = {}
    with store.reading() as connection:
        for other in others:
            if any(user_metadata(connection, other.folder, other.name)):
                continue
            if grave := next((file for file in graves if file.digest == other.digest), None):
                graves.remove(grave)
                text, labels, fields = user_metadata(connection, "", "", grave.number)
                restored[grave.number] = Item(None, text, labels, other.id, fields)
    return restored


def _metadata(text: str, labels: str, fields: str) -> Metadata:
    names, values = parsed(labels, fields)
    user_fields = {name: value for name, value in values.items() if name not in FILE_FIELDS}
    return str(text), tuple(names), user_fields


def forget_removed(store: Store) -> None:
    """Erase what people gave to items that `sync` has removed."""
    with store.writing() as connection:
        connection.execute("DELETE FROM tombstones WHERE NOT is_final")
    store.compact(erase=True)


def user_metadata(
    connection: sqlite3.Connection, folder: str, name: str, tombstone: int = 0
) -> Metadata:
    """Return what people gave the item of a file or, if there is none, what a tombstone keeps."""
    item = f"SELECT {_FIELDS} {_TRACKED} WHERE folder = ? AND name = ?"
    row = first_row(connection, item, folder, name)
    if row is None:
        grave = f"SELECT {_FIELDS} FROM tombstones WHERE number = ?"  # noqa: S608
        row = first_row(connection, grave, tombstone)
    return ("", (), {}) if row is None else _metadata(*row)


@dataclass(frozen=True, eq=False)
class FileWriter:
    """Stores items of files that were read, in place of those that track the same files.

    What people gave an item stays as it is when it is written, not as it was when it was read. A
    file whose item was given another text or label meanwhile has a code of what it was: it is left
    to the next sync.

    `tombstones`: numbers of those whose metadata files get, by name.
    """

    tombstones: Mapping[str, int]
    late: list[str] = field(default_factory=list)  # names of files that are left to the next sync
    done: set[str] = field(default_factory=set)  # names of files that somebody else has stored

    def put(self, store: Store, items: Sequence[Item]) -> list[str | None]:
        """Store items in one transaction; return their ids, None for skipped ones."""
        with changing(store) as writer:
            return [self._put(writer, item) for item in items]

    def _put(self, writer: Writer, item: Item) -> str | None:
        connection, name, digest = writer.connection, item.fields[FILE], item.fields[DIGEST]
        tracker_id, tombstone = writer.tracker(item.folder, name), self.tombstones.get(name, 0)
        is_same = f"SELECT 1 {_TRACKED} WHERE id = ? AND {_FILE[-1]} = ?"
        if first_row(connection, is_same, tracker_id, digest) is not None:
            self.done.add(name)
            return None
        text, labels, fields = user_metadata(connection, item.folder, name, tombstone)
        if (text, labels) != (item.text, item.labels):
            self.late.append(name)
            return None
        facts = {name: item.fields[name] for name in FILE_FIELDS if name in item.fields}
        identifier = tracker_id or free_id(item.id, partial(find_number, connection))
        if tracker_id is not None:
            writer.remove(tracker_id)
        _delete(connection, [tombstone])
        return writer.insert(replace(item, id=identifier, fields={**fields, **facts}))


def free_id(usual: str, is_taken: Callable[[str], object]) -> str:
    """Return an id, with a number behind it where it is taken."""
    identifier, again = usual, 1
    while is_taken(identifier):
        again += 1
        identifier = f"{usual}#{again}"
    return identifier


def relabel(store: Store, items: Sequence[tuple[int, Item]]) -> list[bool]:
    """Give items other texts, labels, fields and codes, in one transaction.

    Each comes with the number that it had when it was read: one that somebody has changed
    meanwhile stays as it is. Gives which were changed.
    """
    changed = []
    with changing(store) as writer:
        for number, item in items:
            changed.append(find_number(writer.connection, item.id) == number)
            if changed[-1]:
                thumbnail = thumbnails_of(writer.connection, [number]).get(number)
                linked = writer.keep_tracking(replace(item, folder=""))
                writer.remove(item.id)
                writer.insert(replace(linked, thumbnail=thumbnail))
    return changed

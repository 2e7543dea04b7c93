"""Files that items track, and tombstones: what is kept of files whose items were removed."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from acqh._core.fields import BYTES, DIGEST, FILE, FILE_FIELDS, MODIFIED
from acqh.collection.store.file import LISTED, Store, checksum, first_row, listed
from acqh.collection.store.items import changing, find_number, parsed
from acqh.collection.types import Item

# Text, labels and fields that people gave.
Metadata = tuple[str, tuple[str, ...], dict[str, Any]]
_FIELDS = "text, labels, fields"
_FILE = [f"json_extract(fields, '$.{name}')" for name in (BYTES, MODIFIED, DIGEST)]
_TRACKED = "FROM tracked_files JOIN items USING (number)"
_LATE = "its item was given another text or label while it was read; sync again"


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
        same = tracked_files(connection, "id = ?", self.id)
        return (self.path, self.digest) in ((file.path, file.digest) for file in same)


def tracked_files(
    connection: sqlite3.Connection, condition: str = "true", *values: Any
) -> list[TrackedFile]:
    """Return the files that items track, in order of insertion; `condition`: in SQL."""
    columns = ", ".join(("id", "number", "folder", "name", *_FILE))
    statement = f"SELECT {columns} {_TRACKED} WHERE {condition} ORDER BY number"
    return [TrackedFile(*row) for row in connection.execute(statement, values)]


def tracked_folders(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the folders that items track, in alphabetical order."""
    rows = connection.execute("SELECT DISTINCT folder FROM tracked_files ORDER BY folder")
    return tuple(folder for (folder,) in rows)


def tombstones(connection: sqlite3.Connection) -> list[TrackedFile]:
    """Return the files whose items were removed."""
    columns = ", ".join(("''", "number", "folder", "name", *_FILE, "is_final"))
    rows = connection.execute(f"SELECT {columns} FROM tombstones ORDER BY number")  # noqa: S608
    return [TrackedFile(*row) for row in rows]


def move_items(store: Store, moves: Sequence[tuple[TrackedFile, str, Mapping[str, Any]]]) -> None:
    """Let items and tombstones track other files, and set fields of them, in one transaction.

    `moves`: an item, the folder of its file, and fields, which include the name of the file. Those
    that somebody else has changed meanwhile stay as they are.
    """
    with changing(store) as writer:
        still = [
            (find_number(writer.connection, item.id) or 0, item, folder, fields)
            for item, folder, fields in moves
            if item.is_unchanged(writer.connection)
        ]
        # Files may have changed places: all must be left before one is taken.
        for number, *_ in still:
            writer.connection.execute("DELETE FROM tracked_files WHERE number = ?", (number,))
        for number, item, folder, fields in still:
            if writer.tracker(folder, fields[FILE]) is None:
                writer.track(number, folder, fields[FILE])
                writer.set_fields(item.id, fields)
            elif writer.tracker(item.folder, item.name) is None:
                writer.track(number, item.folder, item.name)
            else:  # it tracks no file any more
                writer.revision += 1
        for item, folder, fields in moves:
            if not item.id:
                _delete(writer.connection, [item.number])
                _bury(writer.connection, Item(fields=fields, folder=folder), is_final=True)


def remove_items(store: Store, ids: Iterable[str]) -> int:
    """Remove items for good, in one transaction; raise MissingItemError, and remove none.

    Files that they track are not added again unless their content changes.
    """
    unique_ids = list(dict.fromkeys(ids))
    with changing(store) as writer:
        for identifier in unique_ids:
            item = writer.remove(identifier)
            if item.folder:
                _bury(writer.connection, item, is_final=True)
    return len(unique_ids)


def remove_gone(store: Store, files: Iterable[TrackedFile]) -> list[str]:
    """Remove items whose files are gone, in one transaction; keep what people gave them.

    Gives the ids of those that were removed: not those that somebody else has changed meanwhile.
    """
    removed = []
    with changing(store) as writer:
        for file in files:
            if file.is_unchanged(writer.connection):
                has_metadata = any(user_metadata(writer.connection, file.folder, file.name))
                item = writer.remove(file.id)
                if has_metadata:
                    _bury(writer.connection, item)
                removed.append(file.id)
    return removed


def _bury(connection: sqlite3.Connection, item: Item, *, is_final: bool = False) -> None:
    """Write the tombstone of a removed item; a final one keeps only what its file was."""
    text, labels = ("", ()) if is_final else (item.text, item.labels)
    fields = {k: v for k, v in item.fields.items() if k in FILE_FIELDS or not is_final}
    values = (
        item.folder,
        item.fields[FILE],
        str(item.fields.get(DIGEST)),
        text,
        json.dumps(labels),
        json.dumps(fields),
    )
    connection.execute(
        "INSERT OR REPLACE INTO tombstones VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, int(is_final), checksum(*values, str(int(is_final)))),
    )


def forget(store: Store, numbers: Iterable[int]) -> None:
    """Delete tombstones, in one transaction."""
    with store.writing() as connection:
        _delete(connection, numbers)


def _delete(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    statement = f"DELETE FROM tombstones WHERE number IN {LISTED}"  # noqa: S608
    connection.execute(statement, (listed(numbers),))


def forget_removed(store: Store) -> None:
    """Erase what people gave to items that `sync` has removed."""
    with store.writing() as connection:
        connection.execute("DELETE FROM tombstones WHERE NOT is_final")
    store.compact(erase=True)


def inherited(connection: sqlite3.Connection, removed: Iterable[TrackedFile]) -> dict[int, Item]:
    """Return what items get from removed ones of the same content, by number of the tombstone.

    Items that people gave something are left alone.
    """
    digests = {file.digest for file in removed}
    graves = [
        file for file in tombstones(connection) if file.digest in digests and not file.is_final
    ]
    restored = {}
    for other in tracked_files(connection):
        if other.digest not in digests or any(user_metadata(connection, other.folder, other.name)):
            continue
        if grave := next((file for file in graves if file.digest == other.digest), None):
            graves.remove(grave)
            text, labels, fields = user_metadata(connection, "", "", grave.number)
            restored[grave.number] = Item(None, text, labels, other.id, fields)
    return restored


def user_metadata(
    connection: sqlite3.Connection, folder: str, name: str, tombstone: int = 0
) -> Metadata:
    """Return what people gave the item of a file or, if there is none, what a tombstone keeps."""
    item = f"SELECT {_FIELDS} {_TRACKED} WHERE folder = ? AND name = ?"
    row = first_row(connection, item, folder, name)
    if row is None:
        grave = f"SELECT {_FIELDS} FROM tombstones WHERE number = ?"  # noqa: S608
        row = first_row(connection, grave, tombstone)
    if row is None:
        return "", (), {}
    names, fields = parsed(*row[1:])
    user_fields = {name: value for name, value in fields.items() if name not in FILE_FIELDS}
    return str(row[0]), tuple(names), user_fields


def store_files(
    store: Store, items: Sequence[Item], *, tombstones: Mapping[str, int], done: set[str]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Store items of files that were read, in place of those that track the same files.

    What people gave an item stays as it is when it is written, not as it was when it was read. A
    file whose item was given another text or label meanwhile has a code of what it was: it is left
    to the next sync.

    `tombstones`: numbers of those whose metadata files get, by name. `done`: receives the names of
    files that somebody else has stored. Returns the ids, and the files left to the next sync.
    """
    ids, late = [], []
    with changing(store) as writer:
        for item in items:
            connection, folder, name = writer.connection, item.folder, item.fields[FILE]
            same = tracked_files(connection, "folder = ? AND name = ?", folder, name)
            if same and same[0].digest == item.fields[DIGEST]:
                done.add(name)
                continue
            tombstone = tombstones.get(name, 0)
            text, labels, fields = user_metadata(connection, folder, name, tombstone)
            if (text, labels) != (item.text, item.labels):
                late.append((name, _LATE))
                continue
            facts = {name: item.fields[name] for name in FILE_FIELDS if name in item.fields}
            if same:
                writer.remove(same[0].id)
            _delete(connection, [tombstone])
            free = free_id(item.id, partial(find_number, connection))
            identifier = same[0].id if same else free
            ids.append(writer.insert(replace(item, id=identifier, fields={**fields, **facts})))
    return ids, late


def free_id(usual: str, is_taken: Callable[[str], object]) -> str:
    """Return an id, with a number behind it where it is taken."""
    identifier, again = usual, 1
    while is_taken(identifier):
        again += 1
        identifier = f"{usual}#{again}"
    return identifier

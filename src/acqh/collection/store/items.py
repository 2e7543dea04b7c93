"""Items in the store: read over a connection that sees one state, changed in one transaction.

Every item and every removal takes the next change number.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Ints
from acqh._core.dates import date_of_file
from acqh._core.fields import (
    DATE,
    DATE_SOURCE,
    FILE,
    FILE_FIELDS,
    KIND,
    MODIFIED,
    TAG,
    TAGS,
    TEXT_IN_IMAGE,
)
from acqh._core.files import parse_json
from acqh.collection.store.file import (
    LISTED,
    Store,
    checksum,
    first_row,
    listed,
    now,
    read_revision,
    read_text,
)
from acqh.collection.store.words import (
    change_detected_words,
    change_words,
    names_in,
    plain,
    plain_words,
    words_of,
)
from acqh.collection.types import Item
from acqh.errors import DuplicateIdError, MissingItemError
from acqh.quantize import Drift

# Of id, text, labels, fields, encoded_from and code.
FIELD_KINDS = [str] * 5 + [bytes]
# A label is a value of this name; no field is called so.
LABEL = "label"
_READ = (
    "SELECT i.number, id, text, labels, fields, t.number IS NOT NULL, encoded_from, code, folder, "
    "metadata FROM items i LEFT JOIN thumbnails t ON t.number = i.number "
    "LEFT JOIN tracked_files f ON f.number = i.number "
    "LEFT JOIN detected d ON d.number = i.number"
)
# The fact under which it is stored how well items that were added fit.
_DRIFT = "drift"
# Removals are known among so many last changes; an index that is further behind is made again.
_KEPT_CHANGES = 2**18
# Characters of items that searches keep, and what an item counts in addition: about 40 MB.
_MAX_CACHE_SIZE, _ITEM_OVERHEAD = 1 << 22, 300
# Without looking for spaces around it, which takes longer than most of what is stored.
_read_json = json.JSONDecoder().raw_decode
_KIND_OF = {bool: "boolean", int: "integer", float: "real", str: "text", type(None): "null"}


@dataclass(frozen=True)
class Counts:
    """Counts of items by kind, after a change."""

    revision: int
    labels: dict[str, int]  # in alphabetical order
    encoded_from: dict[str, int]
    n_labelled: int
    n_thumbnails: int
    facets: dict[str, dict[str, int]]  # see `Collection.facets`


def count_items(connection: sqlite3.Connection) -> int:
    """Return how many items there are."""
    return int(first_row(connection, "SELECT count(*) FROM items")[0])


def has_more_than(connection: sqlite3.Connection, n: int) -> bool:
    """Whether there are more items; counts no further."""
    return first_row(connection, "SELECT 1 FROM items LIMIT 1 OFFSET ?", n) is not None


def find_number(connection: sqlite3.Connection, identifier: str) -> int | None:
    """Return the number of the item that has an id, or None."""
    row = first_row(connection, "SELECT number FROM items WHERE id = ?", identifier)
    return None if row is None else int(row[0])


def ids_after(connection: sqlite3.Connection, number: int, n: int = 4_096) -> list[tuple[int, str]]:
    """Return number and id of the next items in order of insertion."""
    return connection.execute(
        "SELECT number, id FROM items WHERE number > ? ORDER BY number LIMIT ?", (number, n)
    ).fetchall()


def find_item(connection: sqlite3.Connection, identifier: str) -> tuple[int, Item]:
    """Return an item and its number; raise MissingItemError where there is none."""
    row = first_row(connection, f"{_READ} WHERE id = ?", identifier)
    if row is None:
        raise MissingItemError(f"no item has the id {identifier!r}")
    return row[0], Item(**_fields(row))


def read_fields(
    connection: sqlite3.Connection, numbers: Sequence[int]
) -> dict[int, dict[str, Any]]:
    """Return the fields of items by number; removed items are skipped."""
    rows = connection.execute(f"{_READ} WHERE i.number IN {LISTED}", (listed(numbers),))
    return {row[0]: _fields(row) for row in rows}


class StoredItem:
    """An item as searches use it; not to be changed."""

    __slots__ = ("_forms", "values")

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values  # by the names of `Item`
        self._forms: tuple[str, frozenset[str]] | None = None

    @property
    def forms(self) -> tuple[str, frozenset[str]]:
        """All its text without case, and the words of that, to compare queries with."""
        if self._forms is None:
            names = names_in(self.values["fields"])
            texts = self.values["text"], *names, *self.values["labels"]
            full_text = plain(" ".join(texts)).casefold()
            self._forms = full_text, plain_words(full_text)
        return self._forms

    def is_called(self, name: str, *, by_any_field: bool) -> bool:
        """Whether a name without case is the whole text, or one of its names or other fields."""
        fields = self.values["fields"]
        texts = [self.values["text"], *names_in(fields)] if name in self.forms[0] else []
        if by_any_field:
            texts += [text for text in fields.values() if isinstance(text, str)]
        return any(name == plain(text).casefold() for text in texts)

    @property
    def detected_words(self) -> frozenset[str]:
        """Words of its suggested tags, its kind and the text in its image."""
        detected = self.values["detected"]
        texts = (detected.get(name, "") for name in (KIND, TEXT_IN_IMAGE))
        return plain_words(*detected.get(TAGS, ()), *texts)


class ItemCache:
    """Items in one state of the store, kept once they were read."""

    def __init__(self) -> None:
        self._items: dict[int, StoredItem] = {}
        self._size = 0

    def read(self, connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, StoredItem]:
        """Return items by number; removed items are skipped."""
        cache = self._items
        items = {number: cache[number] for number in numbers if number in cache}
        if unread := [number for number in numbers if number not in items]:
            fresh = {n: StoredItem(row) for n, row in read_fields(connection, unread).items()}
            self._size += sum(_size_of(item.values) for item in fresh.values())
            if self._size > _MAX_CACHE_SIZE:
                self._items, self._size = {}, 0
            self._items.update(fresh)
            items |= fresh
        return items


def _size_of(values: Mapping[str, Any]) -> int:
    """Return about how many characters an item has, with an overhead."""
    texts = values["text"], *values["fields"].values(), *values["detected"].values()
    return _ITEM_OVERHEAD + sum(map(len, map(str, texts)))


def read_all(connection: sqlite3.Connection) -> Iterator[tuple[int, Item]]:
    """Yield all items with their numbers, in order of insertion."""
    rows = connection.execute(f"{_READ} ORDER BY i.number")
    return ((row[0], Item(**_fields(row))) for row in rows)


def _fields(row: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of an item; a dict, since a dataclass is slow for many items."""
    number, identifier, text, labels, fields, has_thumbnail, encoded_from, code, folder, *rest = row
    names, values = parsed(labels, fields)
    if [*map(type, (identifier, text, labels, fields, encoded_from, code))] != FIELD_KINDS:
        raise sqlite3.DatabaseError(f"the fields of item number {number} are of other kinds")
    return {
        "image": None,
        "text": text,
        "labels": tuple(dict.fromkeys(names)),
        "id": identifier,
        "fields": values,
        "origin": "",
        "folder": folder or "",
        "detected": parsed_detected(*rest),
        "has_thumbnail": bool(has_thumbnail),
        "thumbnail": None,
        "encoded_from": encoded_from,
        "code": code,
    }


def read_thumbnail(connection: sqlite3.Connection, identifier: str) -> bytes:
    """Return an item's small image; raise MissingItemError where there is none."""
    statement = "SELECT thumbnail FROM items LEFT JOIN thumbnails USING (number) WHERE id = ?"
    row = first_row(connection, statement, identifier)
    if row is None:
        raise MissingItemError(f"no item has the id {identifier!r}")
    if row[0] is None:
        raise MissingItemError(f"item {identifier!r} has no image")
    return bytes(row[0])


def numbers_showing(
    connection: sqlite3.Connection, thumbnail: bytes, among: Sequence[int]
) -> list[int]:
    """Return which of some items have exactly this thumbnail."""
    rows = connection.execute(
        f"SELECT number FROM thumbnails WHERE number IN {LISTED} "  # noqa: S608
        "AND checksum = ? AND thumbnail = ? ORDER BY number",
        (listed(among), checksum(thumbnail), thumbnail),
    )
    return [number for (number,) in rows]


def numbers_of_kinds(connection: sqlite3.Connection, kinds: Sequence[str]) -> frozenset[int]:
    """Return the numbers of all items that are of one of some kinds."""
    marks = ", ".join("?" * len(kinds))
    statement = f"SELECT number FROM item_values WHERE name = ? AND value IN ({marks})"  # noqa: S608
    return frozenset(number for (number,) in connection.execute(statement, (KIND, *kinds)))


def thumbnails_of(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, bytes]:
    """Return the thumbnails of items by number; items without one are skipped."""
    statement = f"SELECT number, thumbnail FROM thumbnails WHERE number IN {LISTED}"  # noqa: S608
    return dict(connection.execute(statement, (listed(numbers),)))


def read_pictures(
    connection: sqlite3.Connection,
) -> Iterator[tuple[str, dict[str, Any], bytes, bytes]]:
    """Yield id, fields, code and thumbnail of items that have one, in order of insertion."""
    rows = connection.execute(
        "SELECT id, fields, code, thumbnail FROM items JOIN thumbnails USING (number) "
        "ORDER BY number"
    )
    return ((identifier, parsed("[]", fields)[1], *rest) for identifier, fields, *rest in rows)


def count_all(connection: sqlite3.Connection) -> Counts:
    """Return how many items there are of what."""
    ask = connection.execute
    labels = ask("SELECT value, count(*) FROM item_values WHERE name = ? GROUP BY value", (LABEL,))
    encoded_from = ask("SELECT encoded_from, count(*) FROM items GROUP BY encoded_from")
    ((n_labelled, n_thumbnails),) = ask(
        "SELECT (SELECT count(DISTINCT number) FROM item_values WHERE name = ?), "
        "(SELECT count(*) FROM thumbnails)",
        (LABEL,),
    )
    counting = "SELECT {}, count(*) FROM item_values WHERE name = ? AND typeof(value) = 'text' "
    columns = {TAG: "value", KIND: "value", DATE: "substr(value, 1, 7)"}
    facets = {
        name: dict(ask(f"{counting.format(column)}GROUP BY 1 ORDER BY 1", (name,)))
        for name, column in columns.items()
    }
    revision = read_revision(connection)
    return Counts(revision, dict(labels), dict(encoded_from), n_labelled, n_thumbnails, facets)


def field_kinds(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """Return the fields that items have, and what is in them; see `Collection.fields`."""
    kinds: dict[str, set[str]] = {}
    # Not by SQLite's JSON, for which a name ends at a NUL.
    for (fields,) in connection.execute("SELECT fields FROM items"):
        for name, value in parsed("[]", fields)[1].items():
            is_long = type(value) is int and not -(2**63) <= value < 2**63
            kinds.setdefault(name, set()).add("real" if is_long else _KIND_OF[type(value)])
    return dict(sorted(kinds.items()))


def codes_of(connection: sqlite3.Connection, numbers: Ints, code_bytes: int) -> tuple[Ints, Array]:
    """Return the codes of items, and the numbers of those that are still there."""
    statement = f"SELECT number, code FROM items WHERE number IN {LISTED} ORDER BY number"  # noqa: S608
    return _codes(connection.execute(statement, (listed(numbers.tolist()),)), code_bytes)


def changes_since(
    connection: sqlite3.Connection, revision: int, code_bytes: int
) -> tuple[int, Ints, Array, Ints]:
    """Return what an index that holds all changes up to one must do to hold all.

    Returns
    -------
    revision : int
        The last one.
    numbers : int64 (n_added,)
    codes : uint8 (n_added, code_bytes)
        Of items to be added, in order.
    removed : int64 (n_removed,)
        Numbers of items to be removed.
    """
    rows = connection.execute(
        "SELECT number, code FROM items WHERE number > ? ORDER BY number", (revision,)
    )
    numbers, codes = _codes(rows, code_bytes)
    removed = connection.execute(
        "SELECT number FROM removals WHERE revision > ? AND number <= ?", (revision, revision)
    )
    gone = np.array([number for (number,) in removed if type(number) is int], dtype=np.int64)
    return read_revision(connection), numbers, codes, gone


def is_forgotten(revision: int, last: int) -> bool:
    """Whether removals after a change are no longer known when the last change is another."""
    return last - revision > _KEPT_CHANGES


def _codes(rows: Iterable[tuple[int, bytes]], code_bytes: int) -> tuple[Ints, Array]:
    """Return the numbers of rows and their codes."""
    numbers, codes = [], bytearray()
    for number, code in rows:
        if not isinstance(code, bytes) or len(code) != code_bytes:
            raise sqlite3.DatabaseError(
                f"the code of item number {number} has not {code_bytes} bytes"
            )
        numbers.append(number)
        codes += code
    table = np.frombuffer(bytes(codes), dtype=np.uint8).reshape(len(numbers), code_bytes)
    return np.array(numbers, dtype=np.int64), table


def value_rows(number: int, item: Item) -> list[tuple[str, Any, int]]:
    """Return the name and value of what an item is filtered by, and its number.

    Those are its labels and fields, and of what was detected the date, the kind and each tag,
    unless the item has a field of that name.
    """
    values = [(LABEL, label) for label in item.labels]
    values += ((name, stored(value)) for name, value in item.fields.items())
    detected = {name: [item.detected[name]] for name in (DATE, KIND) if name in item.detected}
    detected[TAG] = list(item.detected.get(TAGS, ()))
    values += (
        (name, value)
        for name, tags in detected.items()
        if name not in item.fields
        for value in tags
    )
    return [(name, value, number) for name, value in values]


def parsed_detected(metadata: Any) -> dict[str, Any]:
    """Return what was detected of a stored item; None for nothing."""
    if metadata is None:
        return {}
    try:
        values = json.loads(metadata)
    except (TypeError, ValueError, RecursionError) as error:
        raise sqlite3.DatabaseError(f"detected metadata of an item: {error}") from error
    if not isinstance(values, dict) or not isinstance(values.get(TAGS, {}), dict):
        raise sqlite3.DatabaseError("detected metadata are of other kinds than acqh stores")
    return values


def parsed(labels: Any, fields: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the labels and the fields of a stored item."""
    try:
        (names, end), (values, stop) = _read_json(labels), _read_json(fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise sqlite3.DatabaseError(f"labels or fields of an item: {error}") from error
    is_whole = (end, stop) == (len(labels), len(fields))
    if not isinstance(names, list) or not isinstance(values, dict) or not is_whole:
        raise sqlite3.DatabaseError("the fields of an item are of other kinds than acqh stores")
    return list(map(str, names)), values


def stored(value: Any) -> Any:
    """Return a value as the table holds it."""
    if value is None:
        return b""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        try:
            return float(value) if float(value) == value else str(value).encode()
        except OverflowError:
            return str(value).encode()
    return value


@dataclass
class Writer:
    """A transaction that changes items; what it has done happens when it ends."""

    connection: sqlite3.Connection
    revision: int  # the last one

    def insert(self, item: Item) -> str:
        """Add an item that has an id; it tracks its file, if it has a folder."""
        self.revision += 1
        self.connection.execute(
            "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (self.revision, *_row_of(item))
        )
        _insert_thumbnails(self.connection, [(self.revision, item.thumbnail)])
        self._put_detected(self.revision, item.detected)
        self.derive(self.revision, item)
        if item.folder:
            self.track(self.revision, item.folder, item.fields[FILE])
        return str(item.id)

    def leave_out(self) -> None:
        """Use up the number of an item whose thumbnail is there, and delete this."""
        self.revision += 1
        self.connection.execute("DELETE FROM thumbnails WHERE number = ?", (self.revision,))

    def remove(self, identifier: str) -> Item:
        """Remove an item and return it; raise MissingItemError if there is none."""
        number, item = find_item(self.connection, identifier)
        self.revision += 1
        self.derive(number, item, remove=True)
        self.connection.execute("DELETE FROM items WHERE number = ?", (number,))
        self.connection.execute("INSERT INTO removals VALUES (?, ?)", (self.revision, number))
        return item

    def set_fields(self, identifier: str, values: Mapping[str, Any]) -> None:
        """Set some fields of an item; the others stay. Its date may be that of its file."""
        number, old = find_item(self.connection, identifier)
        new = replace(old, fields={**old.fields, **values})
        if old.detected.get(DATE_SOURCE) in ("name", "file"):
            date = date_of_file(str(new.fields.get(FILE, "")), str(new.fields.get(MODIFIED, "")))
            dated = dict(zip((DATE, DATE_SOURCE), date, strict=True))
            new = replace(new, detected={**old.detected, **dated})
        self.derive(number, old, remove=True)
        self.connection.execute(
            "UPDATE items SET (id, text, labels, fields, encoded_from, code, checksum) = "
            "(?, ?, ?, ?, ?, ?, ?) WHERE number = ?",
            (*_row_of(new), number),
        )
        self._put_detected(number, new.detected)
        self.derive(number, new)
        self.revision += 1

    def track(self, number: int, folder: str, name: str) -> None:
        """Let an item track a file."""
        self.connection.execute(
            "INSERT INTO tracked_files VALUES (?, ?, ?)", (number, folder, name)
        )

    def tracker(self, folder: str, name: Any) -> str | None:
        """Return the id of the item that tracks a file, or None."""
        statement = (
            "SELECT id FROM tracked_files JOIN items USING (number) WHERE folder = ? AND name = ?"
        )
        row = first_row(self.connection, statement, folder, name)
        return None if row is None else str(row[0])

    def _put_detected(self, number: int, detected: Mapping[str, Any]) -> None:
        """Store what was detected, in place of what was there."""
        self.connection.execute("DELETE FROM detected WHERE number = ?", (number,))
        if detected:
            metadata = json.dumps(detected, ensure_ascii=False)
            row = number, metadata, checksum(metadata)
            self.connection.execute("INSERT INTO detected VALUES (?, ?, ?)", row)

    def derive(self, number: int, item: Item, *, remove: bool = False) -> None:
        """Add what an item is found by, its values and words; or take them out."""
        statement = "INSERT INTO item_values VALUES (?, ?, ?)"
        if remove:
            statement = "DELETE FROM item_values WHERE name = ? AND value = ? AND number = ?"
        self.connection.executemany(statement, value_rows(number, item))
        words = words_of(item.text, item.labels, item.fields)
        change_words(self.connection, number, *words, remove=remove)
        change_detected_words(self.connection, number, item.detected, remove=remove)


def _row_of(item: Item) -> tuple[Any, ...]:
    """Return the row of an item without its number, the checksum at the end."""
    labels = json.dumps(item.labels, ensure_ascii=False)
    fields = json.dumps(item.fields, ensure_ascii=False)
    row = (item.id, item.text, labels, fields, item.encoded_from, item.code)
    return *row, checksum(*row)


@contextmanager
def changing(store: Store) -> Iterator[Writer]:
    """Give what changes items, all in one transaction."""
    with store.writing() as connection:
        writer = Writer(connection, read_revision(connection))
        before = writer.revision
        yield writer
        if writer.revision == before:
            return
        rows = ((writer.revision, "revision"), (now(), "changed"))
        connection.executemany("UPDATE meta SET value = ? WHERE name = ?", rows)
        # Those that no index needs to catch up.
        forgotten = writer.revision - _KEPT_CHANGES
        connection.execute("DELETE FROM removals WHERE revision <= ?", (forgotten,))


def insert_items(
    store: Store, items: Sequence[Item], *, replacing: bool = False, strict: bool = False
) -> tuple[list[str], list[tuple[str, str]]]:
    """Add items, all in one transaction.

    `replacing`: put an item in place of the one that has its id or tracks the same file, and let it
    track this file still; otherwise it is skipped. `strict`: raise instead of skipping, and add
    none. Returns the ids of added items, and the names of skipped ones with the reason.
    """
    ids, skipped = [], []
    with changing(store) as writer:
        for new_item in items:
            item = new_item
            if item.folder and (identifier := writer.tracker(item.folder, item.fields[FILE])):
                item = replace(item, id=identifier)
            if find_number(writer.connection, item.id) is not None:
                reason = f"there is an item {item.id!r} already"
                if not replacing and strict:
                    raise DuplicateIdError(f"{item.origin}: {reason}; nothing was added")
                if not replacing:
                    skipped.append((item.origin, reason))
                    continue
                old = writer.remove(item.id)
                if old.folder and not item.folder:
                    facts = {k: v for k, v in old.fields.items() if k in FILE_FIELDS}
                    item = replace(item, folder=old.folder, fields={**item.fields, **facts})
            ids.append(writer.insert(item))
    return ids, skipped


def insert_thumbnails(store: Store, start: int, thumbnails: Sequence[bytes | None]) -> None:
    """Add the thumbnails of items that will get the numbers after `start`."""
    with store.writing() as connection:
        _insert_thumbnails(connection, enumerate(thumbnails, start + 1))


def _insert_thumbnails(
    connection: sqlite3.Connection, thumbnails: Iterable[tuple[int, bytes | None]]
) -> None:
    connection.executemany(
        "INSERT INTO thumbnails VALUES (?, ?, ?)",
        (
            (number, thumbnail, checksum(thumbnail))
            for number, thumbnail in thumbnails
            if thumbnail is not None
        ),
    )


def carry_over(old: Store, new: Store) -> None:
    """Copy the thumbnails of items from an older generation, and its tombstones."""
    with old.reading() as source, new.writing() as target:
        rows = source.execute("SELECT * FROM tombstones")
        target.executemany("INSERT INTO tombstones VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        rows = source.execute(
            "SELECT thumbnail, t.checksum, id FROM thumbnails t JOIN items USING (number)"
        )
        target.executemany(
            "INSERT INTO thumbnails SELECT number, ?, ? FROM items WHERE id = ?", rows
        )


def read_drift(connection: sqlite3.Connection, expected: float | None) -> Drift:
    """Return how well items that were added fit; `expected`: see `Drift`."""
    try:
        return Drift.from_dict({**parse_json(read_text(connection, _DRIFT)), "expected": expected})
    except (KeyError, TypeError, ValueError):
        return Drift(expected)


def note_added(store: Store, added: Drift) -> None:
    """Count items that were added."""
    with store.writing() as connection:
        drift = read_drift(connection, None).plus(added)
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)", (_DRIFT, json.dumps(asdict(drift)))
        )

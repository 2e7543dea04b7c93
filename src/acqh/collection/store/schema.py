"""The tables of the store, and the statements that change single rows."""

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from acqh.collection.store.connections import LISTED, Connections, listed, translated
from acqh.collection.store.filters import VALUES_SCHEMA, values_of
from acqh.collection.store.signs import is_sign, plain, signs_in
from acqh.collection.store.words import (
    WORDS_SCHEMA,
    WordHit,
    WordQuery,
    change_words,
    plain_words,
)
from acqh.collection.types import FACTS, FILE, Item
from acqh.errors import CorruptBundleError, MissingItemError

# Counts up when tables change.
LAYOUT = 3
# Every item and every removal takes the next change number. An item's is its number for good.
# The two indexes are for counting items without reading them.
_SCHEMA = f"""
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE items (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    labels TEXT NOT NULL,
    columns TEXT NOT NULL,
    coded_by TEXT NOT NULL,
    code BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX items_by_what_coded_them ON items (coded_by);
CREATE TABLE thumbnails (
    number INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    picture BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX thumbnails_by_checksum ON thumbnails (checksum);
CREATE TABLE followed (
    number INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    folder TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (name, folder)
);
CREATE TABLE remembered (
    sha256 TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    labels TEXT NOT NULL,
    columns TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE removals (change INTEGER PRIMARY KEY, number INTEGER NOT NULL);
{VALUES_SCHEMA}
{WORDS_SCHEMA}
"""
# Columns that say what an item is called, whose words are looked up like those of its caption.
_NAMES = ("name", "title", "keywords", "description", "file")
# Of sentences, not of what is called so: "dog?" is a dog, "C++" is not C.
_PUNCTUATION = ".,;:!?()[]{}\"'"
_DEFINITIONS = "SELECT type, name, tbl_name, sql FROM sqlite_master"
# Changes are numbered below this, so that numbers of items fit 64 bits for ever.
_NO_CHANGE = 1 << 62


def create_store(path: Path, generation: str, id_prefix: str = "") -> None:
    """Make an empty store; there must be no file of that name.

    `id_prefix`: what stands before the ids that items without one get.
    """
    path.touch(exist_ok=False)
    with translated(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size = 4096")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        facts = {"layout": LAYOUT, "change": 0, "id_prefix": id_prefix, "generation": generation}
        connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())


def checksum(*fields: str | bytes) -> int:
    """Return a checksum over fields; which byte belongs to which field counts."""
    total = 0
    for field in fields:
        content = field.encode() if isinstance(field, str) else field
        total = zlib.crc32(content, zlib.crc32(len(content).to_bytes(8, "little"), total))
    return total


def check_layout(connections: Connections) -> None:
    """Check the layout of a store and what it defines.

    Raises CorruptBundleError: another layout, or tables that are not ours.
    """
    path = connections.path
    with connections.reading() as connection:
        layout = read_fact(connection, "layout")
        if layout != LAYOUT:
            raise CorruptBundleError(
                f"{path} has layout {layout}, this acqh reads {LAYOUT}; open it with the acqh that "
                "made it, or build the collection again"
            )
        check_schema(connection, path)


def index_words(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Index the words of all items of a store, in it or elsewhere."""
    for number, *fields in source.execute("SELECT number, text, labels, columns FROM items"):
        change_words(target, number, *_words_of(*fields))


def _words_of(text: Any, labels: Any, columns: Any) -> tuple[str, str, tuple[str, ...], str]:
    """Return the text, the names, the labels and other signs of an item, to be looked up."""
    found, values = _parsed(labels, columns)
    names = [value for key in _NAMES if isinstance(value := values.pop(key, None), str)]
    return str(text), " ".join(names), tuple(found), signs_in(values)


def _parsed(labels: Any, columns: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the labels and the columns of a stored item."""
    try:
        names, values = json.loads(labels), json.loads(columns)
    except (TypeError, ValueError, RecursionError) as error:
        raise sqlite3.DatabaseError(f"labels or columns of an item: {error}") from error
    if not isinstance(names, list) or not isinstance(values, dict):
        raise sqlite3.DatabaseError("the fields of an item are of other kinds than acqh stores")
    return list(map(str, names)), values


def compare_words(
    connection: sqlite3.Connection, asked: WordQuery, hits: Sequence[WordHit]
) -> list[WordHit]:
    """Return hits with whether they are called exactly so, and have the words as they were typed.

    Called so are also items that have it as their whole caption.
    """
    rows = connection.execute(
        f"SELECT number, text, labels, columns FROM items WHERE number IN {LISTED}",  # noqa: S608
        (listed([hit.number for hit in hits]),),
    )
    said = {number: fields for number, *fields in rows}
    name = " ".join((*asked.phrases, *asked.terms)).casefold()
    typed = plain_words(*asked.words)
    spelt = [term.strip(_PUNCTUATION).casefold() for term in asked.words if not term.isalnum()]
    has_signs = any(map(is_sign, (*asked.phrases, *asked.terms)))
    compared = []
    for hit in hits:
        fields = said.get(hit.number, ("", "[]", "{}"))
        text, names, labels, _ = _words_of(*fields)
        called = {text, names}
        if has_signs:
            called |= {value for value in json.loads(fields[2]).values() if isinstance(value, str)}
        whole = plain(" ".join((text, names, *labels))).casefold()
        compared.append(
            replace(
                hit,
                is_named=name in {plain(each).casefold() for each in called},
                is_typed=typed <= plain_words(whole) and all(each in whole for each in spelt),
            )
        )
    return compared


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that defines anything but our tables.

    A view in place of a table could keep a search busy for ever, and a trigger could change what
    is stored.

    Raises CorruptBundleError: there is something else, or something is missing.
    """
    with closing(sqlite3.connect(":memory:")) as other:
        other.executescript(_SCHEMA)
        wanted = set(other.execute(_DEFINITIONS))
    found = set(connection.execute(_DEFINITIONS))
    if found != wanted:
        names = ", ".join(sorted({repr(name) for _, name, _, _ in found ^ wanted}))
        raise CorruptBundleError(
            f"{path} is not as acqh makes it: its definition of {names:.200} is missing, "
            "changed or not one of ours"
        )


def read_text_fact(connection: sqlite3.Connection, name: str) -> str | None:
    """Return a text that is stored under a name, or None where there is none."""
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def read_fact(connection: sqlite3.Connection, name: str) -> int:
    """Return a number that is stored under a name."""
    text = read_text_fact(connection, name) or ""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
    if not 0 <= number < _NO_CHANGE:
        raise sqlite3.DatabaseError(f"it has no number {name!r}")
    return number


def write_change(connection: sqlite3.Connection, change: int) -> None:
    connection.execute("UPDATE facts SET value = ? WHERE name = 'change'", (change,))


def find_number(connection: sqlite3.Connection, identifier: str) -> int | None:
    row = connection.execute("SELECT number FROM items WHERE id = ?", (identifier,)).fetchone()
    return None if row is None else int(row[0])


def insert_row(connection: sqlite3.Connection, item: Item, number: int) -> str:
    labels = json.dumps(item.labels, ensure_ascii=False)
    columns = json.dumps(item.columns, ensure_ascii=False)
    fields = (item.id, item.text, labels, columns, item.coded_by, item.code)
    connection.execute(
        "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (number, *fields, checksum(*fields))
    )
    if item.thumbnail is not None:
        connection.execute(
            "INSERT INTO thumbnails VALUES (?, ?, ?)",
            (number, item.thumbnail, checksum(item.thumbnail)),
        )
    _add_derived(connection, number, item.text, labels, columns)
    if item.folder:
        link(connection, number, item.folder, item.columns[FILE])
    return str(item.id)


def _add_derived(
    connection: sqlite3.Connection, number: int, text: Any, labels: Any, columns: Any
) -> None:
    """Add what items are found by: their values and words."""
    connection.executemany(
        "INSERT INTO item_values VALUES (?, ?, ?)", value_rows(number, labels, columns)
    )
    change_words(connection, number, *_words_of(text, labels, columns))


def _remove_derived(
    connection: sqlite3.Connection, number: int, text: Any, labels: Any, columns: Any
) -> None:
    connection.executemany(
        "DELETE FROM item_values WHERE name = ? AND value = ? AND number = ?",
        value_rows(number, labels, columns),
    )
    change_words(connection, number, *_words_of(text, labels, columns), remove=True)


def value_rows(number: int, labels: Any, columns: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield the rows of a stored item in the table of values."""
    names, values = _parsed(labels, columns)
    return ((name, value, number) for name, value in values_of(names, values))


def link(connection: sqlite3.Connection, number: int, folder: str, name: str) -> None:
    """Let an item follow a file."""
    connection.execute("INSERT INTO followed VALUES (?, ?, ?)", (number, folder, name))


def followed_by(connection: sqlite3.Connection, folder: str, name: Any) -> str | None:
    """Return the id of the item that follows a file, or None."""
    row = connection.execute(
        "SELECT id FROM followed JOIN items USING (number) WHERE folder = ? AND name = ?",
        (folder, name),
    ).fetchone()
    return None if row is None else str(row[0])


def keep_link(connection: sqlite3.Connection, item: Item) -> Item:
    """Return an item that follows the file which the one of its id follows."""
    row = connection.execute(
        "SELECT folder, columns FROM followed JOIN items USING (number) WHERE id = ?", (item.id,)
    ).fetchone()
    if row is None or item.folder:
        return item
    folder, columns = row
    facts = {name: value for name, value in json.loads(columns).items() if name in FACTS}
    return replace(item, folder=folder, columns={**item.columns, **facts})


def write_columns(
    connection: sqlite3.Connection, identifier: str, values: Mapping[str, Any]
) -> None:
    """Set some columns of an item; the others stay."""
    row = connection.execute(
        "SELECT number, text, labels, columns, coded_by, code FROM items WHERE id = ?",
        (identifier,),
    ).fetchone()
    if row is None:
        raise MissingItemError(f"no item has the id {identifier!r}; nothing was changed")
    number, text, labels, old, coded_by, code = row
    columns = json.dumps(json.loads(old) | dict(values), ensure_ascii=False)
    _remove_derived(connection, number, text, labels, old)
    connection.execute(
        "UPDATE items SET columns = ?, checksum = ? WHERE number = ?",
        (columns, checksum(identifier, text, labels, columns, coded_by, code), number),
    )
    _add_derived(connection, number, text, labels, columns)


def remove_row(connection: sqlite3.Connection, identifier: Any, change: int) -> None:
    row = connection.execute(
        "SELECT number, text, labels, columns FROM items WHERE id = ?", (identifier,)
    ).fetchone()
    if row is None:
        raise MissingItemError(f"no item has the id {identifier!r}; nothing was removed")
    number, *fields = row
    _remove_derived(connection, number, *fields)
    connection.execute("DELETE FROM items WHERE number = ?", (number,))
    connection.execute("INSERT INTO removals VALUES (?, ?)", (change, number))

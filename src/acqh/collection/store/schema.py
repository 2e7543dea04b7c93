"""The tables of the store, and how a store is made and opened."""

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

from acqh.collection.store.connections import (
    WRITE_TIMEOUT_SECONDS,
    Store,
    read_fact,
    read_text,
    translated,
)
from acqh.collection.store.filters import VALUES_SCHEMA
from acqh.collection.store.words import WORDS_SCHEMA
from acqh.errors import CorruptBundleError

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
_DEFINITIONS = "SELECT type, name, tbl_name, sql FROM sqlite_master"


def create_store(path: Path, generation: str) -> None:
    """Make an empty store; there must be no file of that name."""
    path.touch(exist_ok=False)
    with translated(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size = 4096")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        facts = {"layout": LAYOUT, "change": 0, "generation": generation}
        connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())


def open_store(
    path: Path, *, timeout: float = WRITE_TIMEOUT_SECONDS, durable: bool = True
) -> Store:
    """Open a store that `create_store` made; see `Store`.

    Raises CorruptBundleError: it is damaged, of another layout, or has tables that are not ours.
    """
    with translated(path):
        store = Store(path, timeout=timeout, durable=durable)
    try:
        with store.reading() as connection:
            layout = read_fact(connection, "layout")
            if layout != LAYOUT:
                raise CorruptBundleError(
                    f"{path} has layout {layout}, this acqh reads {LAYOUT}; open it with the acqh "
                    "that made it, or build the collection again"
                )
            _check_schema(connection, path)
            store.generation = read_text(connection, "generation")
    except BaseException:
        store.close()
        raise
    return store


def checksum(*fields: str | bytes) -> int:
    """Return a checksum over fields; which byte belongs to which field counts."""
    total = 0
    for field in fields:
        content = field.encode() if isinstance(field, str) else field
        total = zlib.crc32(content, zlib.crc32(len(content).to_bytes(8, "little"), total))
    return total


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
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

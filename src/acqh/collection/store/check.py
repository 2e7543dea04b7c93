"""A deep check of the store: every row, and that what items are found by is theirs."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from acqh.collection.store.connections import read_change
from acqh.collection.store.filters import parsed
from acqh.collection.store.schema import checksum
from acqh.collection.store.words import VOCABULARY, WORDS_SCHEMA, change_words, words_of
from acqh.collection.store.write import value_rows

# Of id, text, labels, columns, coded_by and code.
_FIELD_TYPES = [str] * 5 + [bytes]


def check_store(connection: sqlite3.Connection, shape: tuple[int, ...] | None) -> Iterator[str]:
    """Yield what is wrong; `shape`: of the codebooks that codes are of, where it is known."""
    found = [*_check_file(connection), *_check_items(connection, shape)]
    found = found or [*_check_values(connection)]
    yield from found or _check_words(connection)


def _check_file(connection: sqlite3.Connection) -> Iterator[str]:
    for (found,) in connection.execute("PRAGMA integrity_check(20)"):
        if found != "ok":
            yield found
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"row {row} of {table} belongs to no {parent}"


def _check_items(connection: sqlite3.Connection, shape: tuple[int, ...] | None) -> Iterator[str]:
    """Yield what is wrong with items."""
    last = read_change(connection)
    rows = connection.execute(
        "SELECT number, id, text, labels, columns, coded_by, code, checksum FROM items"
    )
    for number, *fields, stored in rows:
        where = f"item number {number}"
        if [type(field) for field in fields] != _FIELD_TYPES or checksum(*fields) != stored:
            yield f"{where} does not match its checksum"
            continue
        code = fields[-1]
        if shape is not None and (len(code) != shape[0] or max(code) >= shape[1]):
            yield f"{where} has a code that the model cannot have given"
        if not 0 < number <= last:
            yield f"{where} is not one of the changes up to {last}"
    for number, image, stored in connection.execute("SELECT * FROM thumbnails"):
        if not isinstance(image, bytes) or checksum(image) != stored:
            yield f"the thumbnail of item number {number} does not match its checksum"
    for (number,) in connection.execute(
        "SELECT number FROM followed JOIN items USING (number) "
        "WHERE json_valid(columns) AND json_extract(columns, '$.file') IS NOT name"
    ):
        yield f"item number {number} follows another file than it says"


def _check_values(connection: sqlite3.Connection) -> Iterator[str]:
    """Look up the labels and columns of every item where filters would."""
    listed = "SELECT 1 FROM item_values WHERE name = ? AND value = ? AND number = ?"
    n_values = 0
    for number, labels, columns in connection.execute("SELECT number, labels, columns FROM items"):
        for row in value_rows(number, labels, columns):
            n_values += 1
            if connection.execute(listed, row).fetchone() is None:
                yield f"item number {number} is not listed under its {row[0]!r:.200}"
    ((n_listed,),) = connection.execute("SELECT count(*) FROM item_values")
    if n_listed != n_values:
        yield f"{n_listed} labels and columns are listed, but items have {n_values}"


def _check_words(connection: sqlite3.Connection) -> Iterator[str]:
    """Index the words of all items once more, and compare which word stands in how many."""
    with closing(sqlite3.connect(":memory:")) as other:
        other.executescript(WORDS_SCHEMA)
        rows = connection.execute("SELECT number, text, labels, columns FROM items")
        for number, text, *fields in rows:
            change_words(other, number, *words_of(text, *parsed(*fields)))
        if _vocabulary(connection) != _vocabulary(other):
            yield "the words that items are found by are not those of the items"


def _vocabulary(connection: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Return of every word in how many items it stands, and how often in all."""
    connection.execute(VOCABULARY)
    rows = connection.execute("SELECT term, doc, cnt FROM temp.vocabulary")
    return {term: (n_items, n_times) for term, n_items, n_times in rows}

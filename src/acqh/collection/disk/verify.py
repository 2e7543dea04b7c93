"""A deep check of a collection: every byte, and that its parts agree."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from os import PathLike
from pathlib import Path

import numpy as np

from acqh.collection.disk.index import MAX_FEW
from acqh.collection.disk.layout import (
    INDEX,
    ITEMS,
    MODEL,
    check_parts,
    read_facts,
    size_on_disk,
    undisturbed,
)
from acqh.collection.disk.replace import leftovers
from acqh.collection.store.schema import checksum, index_words, read_fact, value_rows
from acqh.collection.store.store import Store
from acqh.collection.store.words import WORDS_SCHEMA, vocabulary
from acqh.collection.types import CollectionReport
from acqh.errors import AcqhError
from acqh.index import CodeIndex
from acqh.io import verify_bundle
from acqh.methods import load_method

# Of id, text, labels, columns, coded_by and code.
_FIELD_TYPES = [str] * 5 + [bytes]


def verify_collection(path: str | PathLike[str]) -> CollectionReport:
    """Check a collection, whether or not it can be opened.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    CollectionReport

    Raises
    ------
    FileNotFoundError
        There is no collection at the path.
    """
    folder = Path(path)
    return undisturbed(folder, lambda: _verified(folder))


def _verified(folder: Path) -> CollectionReport:
    problems = list(verify_bundle(folder).problems)
    notes: list[str] = []
    n_items = 0
    generation = shape = settings = None
    try:
        check_parts(folder)
        facts = read_facts(folder)
        generation = facts.generation
        settings = None if facts.settings is None else facts.settings.stored()
        shape = load_method(folder / MODEL).codebooks_.shape
    except (AcqhError, OSError) as error:
        problems.append(str(error))
    try:
        store = Store(folder / ITEMS)
        with closing(store):
            if generation is not None and store.generation != generation:
                problems.append(f"{folder / ITEMS} belongs to another collection")
            with store.connections.reading() as connection:
                n_items = connection.execute("SELECT count(*) FROM items").fetchone()[0]
                problems += _check_file(connection, folder / ITEMS)
                problems += _check_items(connection, shape)
                if not problems:
                    problems += _check_values(connection)
                if not problems:
                    problems += _check_words(connection, folder / ITEMS)
            notes += _check_index(folder, store, problems)
    except (AcqhError, OSError) as error:
        problems.append(str(error))
    if left := leftovers(folder):
        n_bytes = sum(map(size_on_disk, left))
        notes.append(
            f"{len(left)} folders of killed builds lie beside it, {n_bytes:,} bytes; "
            "acqh verify --clean removes them"
        )
    found = tuple(dict.fromkeys(problems)), tuple(notes)
    return CollectionReport(folder, n_items, size_on_disk(folder), *found, settings)


def _check_file(connection: sqlite3.Connection, path: Path) -> Iterator[str]:
    for (found,) in connection.execute("PRAGMA integrity_check(20)"):
        if found != "ok":
            yield f"{path}: {found}"
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"{path}: row {row} of {table} belongs to no {parent}"


def _check_items(connection: sqlite3.Connection, shape: tuple[int, ...] | None) -> Iterator[str]:
    """Yield what is wrong with items."""
    last = read_fact(connection, "change")
    rows = connection.execute(
        "SELECT number, id, text, labels, columns, coded_by, code, checksum FROM items"
    )
    for number, *fields, stored in rows:
        where = f"{ITEMS}: item number {number}"
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
            yield f"{ITEMS}: the thumbnail of item number {number} does not match its checksum"
    for (number,) in connection.execute(
        "SELECT number FROM followed JOIN items USING (number) "
        "WHERE json_valid(columns) AND json_extract(columns, '$.file') IS NOT name"
    ):
        yield f"{ITEMS}: item number {number} follows another file than it says"


def _check_values(connection: sqlite3.Connection) -> Iterator[str]:
    """Look up the labels and columns of every item where filters would."""
    listed = "SELECT 1 FROM item_values WHERE name = ? AND value = ? AND number = ?"
    n_values = 0
    for number, labels, columns in connection.execute("SELECT number, labels, columns FROM items"):
        for row in value_rows(number, labels, columns):
            n_values += 1
            if connection.execute(listed, row).fetchone() is None:
                yield f"{ITEMS}: item number {number} is not listed under its {row[0]!r:.200}"
    ((n_listed,),) = connection.execute("SELECT count(*) FROM item_values")
    if n_listed != n_values:
        yield f"{ITEMS}: {n_listed} labels and columns are listed, but items have {n_values}"


def _check_words(connection: sqlite3.Connection, path: Path) -> Iterator[str]:
    """Index the words of all items once more, and compare which word stands in how many."""
    with closing(sqlite3.connect(":memory:")) as other:
        other.executescript(WORDS_SCHEMA)
        index_words(connection, other)
        wanted = vocabulary(other)
        if vocabulary(connection) != wanted:
            yield f"{path}: the words that items are found by are not those of the items"


def _check_index(folder: Path, store: Store, problems: list[str]) -> list[str]:
    """Add what is wrong with the index to the problems; return what is not damage."""
    try:
        index = CodeIndex.load(folder / INDEX, verify=True)
    except FileNotFoundError:
        is_missed = store.has_more_than(MAX_FEW)
        return ["there is no index; it is made when the collection is opened"] * is_missed
    change, width = index.info.get("change"), len(index.codebooks)
    with store.connections.reading() as connection:  # others may add meanwhile
        held, all_numbers, all_codes, _ = store.changes_since(0, width, connection)
        if not isinstance(change, int) or not 0 <= change <= held:
            problems.append(
                f"{folder / INDEX} holds changes up to {change!r}, the items up to {held}"
            )
            return []
        _, numbers, codes, removed = store.changes_since(change, width, connection)
    index.add(codes, ids=numbers)
    index.remove(removed)
    if not (np.array_equal(index.ids, all_numbers) and np.array_equal(index.codes, all_codes)):
        problems.append(f"{folder / INDEX} does not hold the codes of the items; remove it")
    behind = held - change
    return [f"the index is {behind} changes behind and catches up on opening"] if behind else []

"""A deep check of a collection: every byte, and that its parts agree."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh.collection.disk import opened
from acqh.collection.disk.facts import INDEX, MODEL, check_parts, read_facts
from acqh.collection.disk.generations import ITEMS, others, size_on_disk, use_current
from acqh.collection.store import items
from acqh.collection.store.file import WORDS_SCHEMA, checksum, open_store, read_revision, read_text
from acqh.collection.store.words import change_detected_words, change_words, words_of
from acqh.collection.types import CollectionReport
from acqh.errors import AcqhError
from acqh.index import CodeIndex
from acqh.io import verify_bundle
from acqh.methods import load_method


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
    problems = list(verify_bundle(folder).problems)
    if problems:
        return CollectionReport(folder, 0, size_on_disk(folder), tuple(problems))
    try:
        lease = use_current(folder)
    except AcqhError as error:
        return CollectionReport(folder, 0, size_on_disk(folder), (str(error),))
    try:
        n_items, settings, notes = _verified(lease.folder, problems)
    finally:
        lease.release()
    if rest := others(folder):
        n_bytes = sum(map(size_on_disk, rest))
        notes.append(
            f"{len(rest)} other generations, {n_bytes:,} bytes, are in use or from killed builds; "
            "acqh verify --clean removes those that nobody uses"
        )
    results = tuple(dict.fromkeys(problems)), tuple(notes)
    return CollectionReport(folder, n_items, size_on_disk(folder), *results, settings)


def _verified(folder: Path, problems: list[str]) -> tuple[int, dict[str, Any] | None, list[str]]:
    """Check a generation and add what is wrong with it to the problems.

    Gives how many items it has, how it was built, and what is not damage.
    """
    notes: list[str] = []
    n_items = 0
    shape = settings = None
    try:
        check_parts(folder)
        facts = read_facts(folder)
        settings = facts.settings.stored()
        if facts.generation != folder.name:
            problems.append(f"{folder} has the encoders of another collection")
        shape = load_method(folder / MODEL).codebooks_.shape
    except (AcqhError, OSError) as error:
        problems.append(str(error))
    file = folder / ITEMS
    try:
        with closing(open_store(file)) as store, store.reading() as connection:
            if store.generation != folder.name:
                problems.append(f"{file} belongs to another collection")
            n_items = items.count_items(connection)
            problems += (f"{file}: {problem}" for problem in check_store(connection, shape))
            notes += _check_index(folder, connection, problems)
    except (AcqhError, OSError) as error:
        problems.append(str(error))
    return n_items, settings, notes


def _check_index(folder: Path, connection: sqlite3.Connection, problems: list[str]) -> list[str]:
    """Add what is wrong with the index to the problems; return what is not damage."""
    try:
        index = CodeIndex.load(folder / INDEX, verify=True)
    except FileNotFoundError:
        is_missed = items.has_more_than(connection, opened.MAX_FEW)
        return ["there is no index; it is made when the collection is opened"] * is_missed
    revision, width = index.info.get("revision"), len(index.codebooks)
    held, all_numbers, all_codes, _ = items.changes_since(connection, 0, width)
    if not isinstance(revision, int) or not 0 <= revision <= held:
        problems.append(
            f"{folder / INDEX} holds changes up to {revision!r}, the items up to {held}"
        )
        return []
    behind = held - revision
    if items.is_forgotten(revision, held):
        return [f"the index is {behind} changes behind and is made again on opening"]
    _, numbers, codes, removed = items.changes_since(connection, revision, width)
    index.add(codes, ids=numbers)
    index.remove(removed)
    if not (np.array_equal(index.ids, all_numbers) and np.array_equal(index.codes, all_codes)):
        problems.append(f"{folder / INDEX} does not hold the codes of the items; remove it")
    return [f"the index is {behind} changes behind and catches up on opening"] if behind else []


def check_store(
    connection: sqlite3.Connection, shape: tuple[int, ...] | None, *, lookups: bool = True
) -> Iterator[str]:
    """Yield what is wrong; `shape`: of the codebooks that codes are of, where it is known.

    Without `lookups`, the fields and words that items are found by are not compared with the
    items: 10 microseconds per item instead of 95.
    """
    problems = [*_check_file(connection), *_check_items(connection, shape)]
    if lookups and not problems:
        problems = [*_check_values(connection)] or [*_check_words(connection)]
    yield from problems


def _check_file(connection: sqlite3.Connection) -> Iterator[str]:
    for (message,) in connection.execute("PRAGMA integrity_check(20)"):
        if message != "ok":
            yield message
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"row {row} of {table} belongs to no {parent}"


def _check_items(connection: sqlite3.Connection, shape: tuple[int, ...] | None) -> Iterator[str]:
    """Yield what is wrong with items."""
    last, levels = read_revision(connection), read_text(connection, opened.LEVELS)
    if levels and shape is not None and opened.Levels.read(levels, shape[2]) is None:
        yield "the stored confidence thresholds are damaged"
    rows = connection.execute(
        "SELECT number, id, text, labels, fields, encoded_from, code, checksum FROM items"
    )
    for number, *row, stored in rows:
        where = f"item number {number}"
        if [*map(type, row)] != items.FIELD_KINDS or checksum(*row) != stored:
            yield f"{where} does not match its checksum"
            continue
        code = row[-1]
        if shape is not None and (len(code) != shape[0] or max(code) >= shape[1]):
            yield f"{where} has a code that the model cannot have given"
        if not 0 < number <= last:
            yield f"{where} is not one of the changes up to {last}"
    for number, image, stored in connection.execute("SELECT * FROM thumbnails"):
        if not isinstance(image, bytes) or checksum(image) != stored:
            yield f"the thumbnail of item number {number} does not match its checksum"
    for number, metadata, stored in connection.execute("SELECT * FROM detected"):
        if not isinstance(metadata, str) or checksum(metadata) != stored:
            yield f"what was detected of item number {number} does not match its checksum"
    for (number,) in connection.execute(
        "SELECT number FROM tracked_files JOIN items USING (number) "
        "WHERE json_valid(fields) AND json_extract(fields, '$.file') IS NOT name"
    ):
        yield f"item number {number} tracks another file than it says"
    for number, *values, stored in connection.execute("SELECT * FROM tombstones"):
        if checksum(*map(str, values)) != stored:
            yield f"tombstone {number} does not match its checksum"


def _check_values(connection: sqlite3.Connection) -> Iterator[str]:
    """Look up the labels and fields of every item where filters would."""
    listed = "SELECT 1 FROM item_values WHERE name = ? AND value = ? AND number = ?"
    n_values = 0
    for number, _, labels, fields, detected in _parsed_items(connection):
        for row in items.value_rows(number, labels, fields, detected):
            n_values += 1
            if connection.execute(listed, row).fetchone() is None:
                yield f"item number {number} is not listed under its {row[0]!r:.200}"
    ((n_listed,),) = connection.execute("SELECT count(*) FROM item_values")
    if n_listed != n_values:
        yield f"{n_listed} labels and fields are listed, but items have {n_values}"


def _check_words(connection: sqlite3.Connection) -> Iterator[str]:
    """Index the words of all items again, and compare every place of every word.

    FTS5's own check does not know the items: of 300 flipped bits it noticed 94, this 286.
    """
    with closing(sqlite3.connect(":memory:")) as other:
        other.executescript(WORDS_SCHEMA)
        for number, text, labels, fields, detected in _parsed_items(connection):
            change_words(other, number, *words_of(text, labels, fields))
            change_detected_words(other, number, detected, remove=False)
        for table in ("words", "detected_words"):
            places = f"temp.{table}_places"
            for database in (connection, other):
                # In the older layout of a store that cannot be written, one is temporary.
                is_temporary = "SELECT 1 FROM sqlite_temp_master WHERE name = ?"
                schema = "temp" if database.execute(is_temporary, (table,)).fetchone() else "main"
                database.execute(
                    f"CREATE VIRTUAL TABLE {places} USING fts5vocab({schema}, {table}, instance)"
                )
            both = (database.execute(f"SELECT * FROM {places}") for database in (connection, other))  # noqa: S608
            if any(one != two for one, two in zip_longest(*both)):
                yield "the words that items are found by are not those of the items"


def _parsed_items(
    connection: sqlite3.Connection,
) -> Iterator[tuple[int, str, list[str], dict[str, Any], dict[str, Any]]]:
    """Yield number, text, labels, fields and detected metadata of every item."""
    rows = connection.execute(
        "SELECT number, text, labels, fields, metadata FROM items LEFT JOIN detected USING (number)"
    )
    for number, text, labels, fields, metadata in rows:
        yield number, text, *items.parsed(labels, fields), items.parsed_detected(metadata)

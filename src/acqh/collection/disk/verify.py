"""A deep check of a collection: every byte, and that its parts agree."""

import sqlite3
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
from acqh.collection.store.check import check_store
from acqh.collection.store.read import changes_since, count_items, has_more_than, is_forgotten
from acqh.collection.store.schema import open_store
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
        settings = facts.settings.stored()
        shape = load_method(folder / MODEL).codebooks_.shape
    except (AcqhError, OSError) as error:
        problems.append(str(error))
    try:
        with closing(open_store(folder / ITEMS)) as store, store.reading() as connection:
            if generation is not None and store.generation != generation:
                problems.append(f"{folder / ITEMS} belongs to another collection")
            n_items = count_items(connection)
            problems += (f"{folder / ITEMS}: {each}" for each in check_store(connection, shape))
            notes += _check_index(folder, connection, problems)
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


def _check_index(folder: Path, connection: sqlite3.Connection, problems: list[str]) -> list[str]:
    """Add what is wrong with the index to the problems; return what is not damage."""
    try:
        index = CodeIndex.load(folder / INDEX, verify=True)
    except FileNotFoundError:
        is_missed = has_more_than(connection, MAX_FEW)
        return ["there is no index; it is made when the collection is opened"] * is_missed
    change, width = index.info.get("change"), len(index.codebooks)
    held, all_numbers, all_codes, _ = changes_since(connection, 0, width)
    if not isinstance(change, int) or not 0 <= change <= held:
        problems.append(f"{folder / INDEX} holds changes up to {change!r}, the items up to {held}")
        return []
    behind = held - change
    if is_forgotten(change, held):
        return [f"the index is {behind} changes behind and is made again on opening"]
    _, numbers, codes, removed = changes_since(connection, change, width)
    index.add(codes, ids=numbers)
    index.remove(removed)
    if not (np.array_equal(index.ids, all_numbers) and np.array_equal(index.codes, all_codes)):
        problems.append(f"{folder / INDEX} does not hold the codes of the items; remove it")
    return [f"the index is {behind} changes behind and catches up on opening"] if behind else []

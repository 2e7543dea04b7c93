"""Conditions on labels and columns, and the order of items: SQL over the table of values."""

import difflib
import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from acqh.collection.store.file import first_row
from acqh.collection.store.items import LABEL, stored
from acqh.errors import CollectionError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_MAX_DIGITS = 4_000
# Columns that an error names.
_MAX_SHOWN = 20
Value = str | int | float
# name, wanted values; label: all of them, column: any of them
Condition = tuple[str, tuple[Value, ...]]


def meeting(conditions: Sequence[Condition]) -> tuple[str, list[Any]]:
    """Return a statement that selects the items that meet all conditions, and its parameters."""
    wanted: list[tuple[str, list[Any]]] = []
    for name, values in conditions:
        if name == LABEL:
            wanted += [(name, [value]) for value in values]
        else:
            wanted.append((name, [form for value in values for form in _forms(value)]))
    having = "SELECT number FROM item_values WHERE name = ? AND value IN ({})"
    selects = (having.format(", ".join("?" * len(values))) for _, values in wanted)
    given = [each for name, values in wanted for each in (name, *values)]
    return " INTERSECT ".join(selects), given


def count_meeting(connection: sqlite3.Connection, conditions: Sequence[Condition]) -> int:
    """Return how many items meet all conditions, of which there is one at least."""
    statement, values = meeting(conditions)
    return int(first_row(connection, f"SELECT count(*) FROM ({statement})", *values)[0])  # noqa: S608


def first_in_order(
    connection: sqlite3.Connection,
    conditions: Sequence[Condition],
    order: str | None,
    descending: bool,
    k: int,
) -> list[int]:
    """Return the numbers of the first items in the order of a column, those without it last.

    Items of one value, and those without, come in order of insertion.
    """
    statement, values = meeting(conditions) if conditions else ("SELECT number FROM items", [])
    found: list[tuple[int]] = []
    having = "SELECT number FROM item_values WHERE name = ? AND typeof(value) <> 'blob'"
    if order is not None:
        only = f"AND number IN ({statement})" if conditions else ""
        found = connection.execute(
            f"{having} {only} ORDER BY value {'DESC' if descending else ''}, number LIMIT ?",
            (order, *values, k),
        ).fetchall()
    if len(found) < k:
        without = f"WHERE number NOT IN ({having})" if order is not None else ""
        found += connection.execute(
            f"SELECT number FROM ({statement}) {without} ORDER BY number LIMIT ?",  # noqa: S608
            (*values, *([] if order is None else [order]), k - len(found)),
        ).fetchall()
    return [number for (number,) in found]


def check_names(
    connection: sqlite3.Connection, conditions: Iterable[Condition], order: str | None = None
) -> None:
    """Raise CollectionError for a column that no item has, unless there are no items.

    And for a label that none has where there is one much like it. A name that is misspelt would
    otherwise look like a search that found nothing.
    """
    if first_row(connection, "SELECT 1 FROM items LIMIT 1") is None:
        return
    names = [(name, (LABEL,)) for name, _ in conditions if name != LABEL]
    for name, also in [*names, *([] if order is None else [(order, ())])]:
        has = first_row(connection, "SELECT 1 FROM item_values WHERE name = ? LIMIT 1", name)
        if name != LABEL and has is not None:
            continue
        known = connection.execute(
            "SELECT DISTINCT name FROM item_values WHERE name <> ?", (LABEL,)
        ).fetchall()
        shown = ", ".join([*also, *(f"{column:.60}" for (column,) in known[:_MAX_SHOWN])])
        more = f" and {len(known) - _MAX_SHOWN} more" if len(known) > _MAX_SHOWN else ""
        raise CollectionError(
            f"no item has a column {name!r:.200}; there are: {shown or 'none'}{more}"
        )
    for label in (each for name, values in conditions if name == LABEL for each in values):
        _check_label(connection, str(label))


def _check_label(connection: sqlite3.Connection, label: str) -> None:
    """Raise CollectionError where a label that no item has is much like one that some have."""
    has = "SELECT 1 FROM item_values WHERE name = ? AND value = ? LIMIT 1"
    if first_row(connection, has, LABEL, label) is not None:
        return
    known = connection.execute("SELECT DISTINCT value FROM item_values WHERE name = ?", (LABEL,))
    folded = {each.casefold(): each for (each,) in known}
    near = difflib.get_close_matches(label.casefold(), folded, n=1, cutoff=0.8)
    if near:
        raise CollectionError(
            f"no item has the label {label!r:.200}; did you mean {folded[near[0]]!r}?"
        )


def _forms(value: Value) -> Iterator[Any]:
    """Yield a wanted value as it may be stored; of a text also the number that it says."""
    yield stored(value)
    if isinstance(value, str) and (number := _as_number(value)) is not None:
        yield stored(number)


def _as_number(text: str) -> int | float | None:
    """Return what a text says as a number, or None where it is none."""
    if len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return number if math.isfinite(number) else None

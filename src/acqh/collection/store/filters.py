"""Conditions on labels and fields, and the order of items: SQL over the table of values."""

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
_BOOLEANS = {"true": True, "false": False}
# Fields or labels that an error names.
_MAX_SHOWN = 20
Value = str | int | float
# name, wanted values; label: all of them, field: any of them
Condition = tuple[str, tuple[Value, ...]]


def meeting(conditions: Sequence[Condition]) -> tuple[str, list[Any]]:
    """Return a statement that selects the items that meet all conditions, and its parameters."""
    clauses: list[tuple[str, list[Any]]] = []
    for name, values in conditions:
        if name == LABEL:
            clauses += [(name, [value]) for value in values]
        else:
            clauses.append((name, [form for value in values for form in _forms(value)]))
    having = "SELECT number FROM item_values WHERE name = ? AND value IN ({})"
    selects = (having.format(", ".join("?" * len(values))) for _, values in clauses)
    parameters = [parameter for name, values in clauses for parameter in (name, *values)]
    return " INTERSECT ".join(selects), parameters


def count_meeting(connection: sqlite3.Connection, conditions: Sequence[Condition]) -> int:
    """Return the number of items that meet all conditions; needs one condition or more."""
    statement, values = meeting(conditions)
    return int(first_row(connection, f"SELECT count(*) FROM ({statement})", *values)[0])  # noqa: S608


def first_in_order(
    connection: sqlite3.Connection,
    conditions: Sequence[Condition],
    order: str | None,
    descending: bool,
    offset: int,
    k: int,
) -> list[int]:
    """Return the numbers of one page of items in the order of a field, those without it last.

    Items of one value, and those without, come in order of insertion.
    """
    statement, values = meeting(conditions) if conditions else ("SELECT number FROM items", [])
    if order is None:
        rows = connection.execute(
            f"{statement} ORDER BY number LIMIT ? OFFSET ?", (*values, k, offset)
        )
        return [number for (number,) in rows]
    having = "FROM item_values WHERE name = ? AND typeof(value) <> 'blob'"
    only = f"AND number IN ({statement})" if conditions else ""
    rows = connection.execute(
        f"SELECT number {having} {only} "
        f"ORDER BY value {'DESC' if descending else ''}, number LIMIT ? OFFSET ?",
        (order, *values, k, offset),
    )
    numbers = [number for (number,) in rows]
    if len(numbers) < k:
        n_having = int(first_row(connection, f"SELECT count(*) {having} {only}", order, *values)[0])
        rows = connection.execute(
            f"SELECT number FROM ({statement}) WHERE number NOT IN (SELECT number {having}) "  # noqa: S608
            "ORDER BY number LIMIT ? OFFSET ?",
            (*values, order, k - len(numbers), max(0, offset - n_having)),
        )
        numbers += [number for (number,) in rows]
    return numbers


def check_names(
    connection: sqlite3.Connection, conditions: Iterable[Condition], order: str | None = None
) -> None:
    """Raise CollectionError for a field or a label that no item has, unless there are no items.

    A misspelt name would otherwise look like a search without results.
    """
    if first_row(connection, "SELECT 1 FROM items LIMIT 1") is None:
        return
    conditions = tuple(conditions)
    fields = [(name, (LABEL,)) for name, _ in conditions if name != LABEL]
    for name, also in [*fields, *([] if order is None else [(order, ())])]:
        has = first_row(connection, "SELECT 1 FROM item_values WHERE name = ? LIMIT 1", name)
        if name == LABEL or has is None:
            rows = connection.execute(
                "SELECT DISTINCT name FROM item_values WHERE name <> ?", (LABEL,)
            )
            shown = _shown([*also, *(field for (field,) in rows)])
            raise CollectionError(f"no item has a field {name!r:.200}; {shown}")
    for label in (str(value) for name, values in conditions if name == LABEL for value in values):
        has_label = "SELECT 1 FROM item_values WHERE name = ? AND value = ? LIMIT 1"
        if first_row(connection, has_label, LABEL, label) is None:
            raise CollectionError(
                f"no item has the label {label!r:.200}; {_likely(connection, label)}"
            )


def _likely(connection: sqlite3.Connection, label: str) -> str:
    """Return the label that was probably meant, or else which labels there are."""
    rows = connection.execute("SELECT DISTINCT value FROM item_values WHERE name = ?", (LABEL,))
    labels = [name for (name,) in rows]
    folded = {name.casefold(): name for name in labels}
    near = difflib.get_close_matches(label.casefold(), folded, n=1, cutoff=0.8)
    return f"did you mean {folded[near[0]]!r:.200}?" if near else _shown(labels)


def _shown(names: Sequence[str]) -> str:
    shown = ", ".join(f"{name:.60}" for name in names[:_MAX_SHOWN])
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return f"there are: {shown or 'none'}{more}"


def _forms(value: Value) -> Iterator[Any]:
    """Yield a wanted value as it may be stored; of a text also its number or boolean."""
    yield stored(value)
    if isinstance(value, str) and (number := _as_number(value)) is not None:
        yield stored(number)


def _as_number(text: str) -> int | float | None:
    """Return the number or boolean that a text spells, or None."""
    if (lowered := text.lower()) in _BOOLEANS:
        return _BOOLEANS[lowered]
    if len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return number if math.isfinite(number) else None

"""Conditions on labels and columns, and the order of items: SQL over the table of values."""

import difflib
import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from acqh.collection.store.items import LABEL, stored
from acqh.errors import CollectionError

_LABEL_NAMES = (LABEL, "labels")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_MAX_DIGITS = 4_000
# Of one condition; SQLite takes this many in one statement, in every version.
_MAX_WANTED = 10_000
# Columns that an error names.
_MAX_SHOWN = 20
# What conditions may be given as: a mapping, or texts such as "label=dog".
Where: TypeAlias = Mapping[str, Any] | Iterable[str] | None
Value = str | int | float
# name, wanted values; label: all of them, column: any of them
Condition = tuple[str, tuple[Value, ...]]


def read_where(where: Any) -> tuple[Condition, ...]:
    """Read conditions in any accepted form, into a canonical order: equal ones are equal.

    ``{"label": "dog"}`` and ``"label=dog"`` say the same. Several must all hold. Of several labels
    an item must have all; of several values of a column, one. A number finds numbers alone:
    exactly, and 1 equals 1.0 and True. A text finds the text and, as command lines write all
    values so, the number that it says.

    Raises CollectionError: they cannot be read.

    Examples
    --------
    >>> read_where({"label": ["dog", "cat"], "year": 2010})
    (('label', ('cat', 'dog')), ('year', (2010,)))
    >>> read_where("labels=dog")
    (('label', ('dog',)),)
    """
    if where is None:
        return ()
    if isinstance(where, str):
        where = [where]
    if isinstance(where, Mapping):
        pairs = list(where.items())
    elif isinstance(where, Iterable):
        pairs = [_split(text) for text in where]
    else:
        raise CollectionError(
            f"`where` must be a mapping such as {{'label': 'dog'}} or a text such as 'label=dog', "
            f"got {where!r}"
        )
    conditions = []
    for name, value in pairs:
        if not isinstance(name, str) or not name:
            raise CollectionError(f"`where` names a label or a column, got {name!r}")
        is_one = isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable)
        values = {_checked(each) for each in ([value] if is_one else value)}
        if not 0 < len(values) <= _MAX_WANTED:
            raise CollectionError(
                f"`where` has {len(values) or 'no'} value for {name!r}; give one, or up to "
                f"{_MAX_WANTED:,}, or leave it out"
            )
        if name in _LABEL_NAMES:
            name, values = LABEL, set(map(str, values))
        conditions.append((name, tuple(sorted(values, key=lambda v: (isinstance(v, str), v)))))
    return tuple(sorted(conditions, key=repr))


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
    row = connection.execute(f"SELECT count(*) FROM ({statement})", values).fetchone()  # noqa: S608
    return int(row[0])


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
    ask = connection.execute
    if ask("SELECT 1 FROM items LIMIT 1").fetchone() is None:
        return
    names = [(name, (LABEL,)) for name, _ in conditions if name != LABEL]
    for name, also in [*names, *([] if order is None else [(order, ())])]:
        has = ask("SELECT 1 FROM item_values WHERE name = ? LIMIT 1", (name,)).fetchone()
        if name != LABEL and has is not None:
            continue
        known = ask("SELECT DISTINCT name FROM item_values WHERE name <> ?", (LABEL,)).fetchall()
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
    if connection.execute(has, (LABEL, label)).fetchone() is not None:
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


def _split(text: Any) -> tuple[str, str]:
    name, equals, value = str(text).partition("=")
    if not equals or not name.strip():
        raise CollectionError(f"{text!r} is not a condition; write label=NAME or COLUMN=VALUE")
    return name.strip(), value.strip()


def _checked(value: Any) -> Value:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise CollectionError(f"`where` compares with texts and numbers that are finite, got {value!r}")

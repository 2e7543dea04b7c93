"""Conditions on labels and columns."""

import json
import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from acqh._core.arrays import Ints
from acqh.collection._columns import column_kinds, has_column
from acqh.collection._connections import as_numbers
from acqh.errors import CollectionError

if TYPE_CHECKING:
    from acqh.collection._store import Store

_LABEL = "label"
_HAS_LABEL = (
    "SELECT number FROM item_labels WHERE label = (SELECT label FROM labels WHERE name = ?)"
)
# SQLite allows this many alternatives in one statement, in every version.
_MAX_ALTERNATIVES = 400
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_MAX_DIGITS = 4_000
# Columns that an error names.
_MAX_SHOWN = 20
# What conditions may be given as: a mapping, or texts such as "label=dog".
Where: TypeAlias = Mapping[str, Any] | Iterable[str] | None
# name, wanted values; label: all of them, column: any of them
Condition = tuple[str, tuple[str, ...]]


def read_where(where: Any) -> tuple[Condition, ...]:
    """Read conditions in any accepted form, into a canonical order: equal ones are equal.

    ``{"label": "dog"}`` and ``"label=dog"`` say the same. Several must all hold. Of several labels
    an item must have all; of several values of a column, one. A text in a column is compared as a
    text, a number as a number: exactly, and 1 equals 1.0 and True.

    Raises CollectionError: they cannot be read.

    Examples
    --------
    >>> read_where({"label": ["dog", "cat"], "year": 2010})
    (('label', ('cat', 'dog')), ('year', ('2010',)))
    >>> read_where("label=dog")
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
        values = {_as_text(each) for each in ([value] if is_one else value)}
        if not values:
            raise CollectionError(f"`where` has no value for {name!r}; give one, or leave it out")
        conditions.append((name, tuple(sorted(values))))
    return tuple(sorted(conditions))


def select_numbers(connection: sqlite3.Connection, conditions: Iterable[Condition]) -> Ints:
    """Return the numbers of the items that meet all conditions, in rising order."""
    found = [
        as_numbers(connection.execute(_HAS_LABEL, (value,)))
        for name, values in conditions
        if name == _LABEL
        for value in values
    ]
    found += [
        as_numbers(_having(connection, name, values))
        for name, values in conditions
        if name != _LABEL
    ]
    return reduce(np.intersect1d, found)


def check_columns(
    stores: Iterable["Store"], names: Iterable[str], also: tuple[str, ...] = (_LABEL,)
) -> None:
    """Raise CollectionError for a column that no item of any store has, unless there are no items.

    A name that is misspelt would otherwise look like a search that found nothing. Those in `also`
    are not columns, but fine.
    """
    stores = [store for store in stores if len(store)]
    for name in names:
        if name in also or not stores or any(has_column(store, name) for store in stores):
            continue
        known = sorted({column for store in stores for column in column_kinds(store)})
        shown = ", ".join([*also, *(f"{column:.60}" for column in known[:_MAX_SHOWN])]) or "none"
        more = f" and {len(known) - _MAX_SHOWN} more" if len(known) > _MAX_SHOWN else ""
        raise CollectionError(f"no item has a column {name!r:.200}; there are: {shown}{more}")


def _having(
    connection: sqlite3.Connection, name: str, values: tuple[str, ...]
) -> Iterator[tuple[int]]:
    """Yield the numbers of the items that have one of the values in a column.

    SQLite would compare real numbers by their first 15 digits, and takes some names and texts for
    others. So it only finds the items whose JSON has a value in one of the ways it can be
    written; which of them have it indeed is seen when that is read.
    """
    wanted = {number for value in values if (number := _as_number(value)) is not None}
    written = [f"{_json(name)}: {form}" for value in values for form in _forms(value)]
    test = "1"
    if len(written) <= _MAX_ALTERNATIVES:
        test = " OR ".join(["instr(columns, ?)"] * len(written))
    else:
        written = []
    rows = connection.execute(
        f"SELECT number, columns FROM items WHERE {test}",  # noqa: S608
        written,
    )
    for number, columns in rows:
        try:
            value = json.loads(columns).get(name)
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            raise sqlite3.DatabaseError(f"the columns of item number {number}: {error}") from error
        if value in values if isinstance(value, str) else value in wanted:
            yield (number,)


def _forms(value: str) -> Iterator[str]:
    """Yield the ways in which JSON may hold a text, or a number that equals what it says."""
    yield _json(value)
    number = _as_number(value)
    if number is not None:
        if number == int(number):
            yield str(int(number))
        if number in (0, 1):
            yield _json(bool(number))
        with suppress(OverflowError):
            yield _json(float(number))
        if number == 0:
            yield "-0.0"


def _as_number(text: str) -> int | float | None:
    """Return what a text says as a number, or None where it is none."""
    if len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return number if math.isfinite(number) else None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _split(text: Any) -> tuple[str, str]:
    name, equals, value = str(text).partition("=")
    if not equals or not name.strip():
        raise CollectionError(f"{text!r} is not a condition; write label=NAME or COLUMN=VALUE")
    return name.strip(), value.strip()


def _as_text(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    raise CollectionError(f"`where` compares with texts and numbers, got {value!r}")

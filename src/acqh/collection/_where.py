"""Conditions on labels and columns, as SQL."""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from acqh.errors import CollectionError

_LABEL = "label"
_HAS_LABEL = (
    "SELECT number FROM item_labels WHERE label = (SELECT label FROM labels WHERE name = ?)"
)
_HAS_VALUE = "SELECT number FROM items WHERE CAST(json_extract(columns, ?) AS TEXT)"
# name, wanted values; label: all of them, column: any of them
Condition = tuple[str, tuple[str, ...]]


def read_where(where: Any) -> tuple[Condition, ...]:
    """Read conditions in any accepted form.

    Parameters
    ----------
    where : mapping, str, iterable of str, or None
        ``{"label": "dog"}`` and ``"label=dog"`` say the same. Several must all hold. Of several
        labels an item must have all; of several values of a column, one.

    Returns
    -------
    tuple of (str, tuple of str)
        In a canonical order, so that equal conditions are equal.

    Raises
    ------
    CollectionError
        They cannot be read.

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
        pairs = [(name, value) for name, value in where.items()]
    elif isinstance(where, Iterable):
        pairs = [_split(text) for text in where]
    else:
        raise CollectionError(
            f"where must be a mapping such as {{'label': 'dog'}} or a text such as 'label=dog', "
            f"got {where!r}"
        )
    conditions = []
    for name, value in pairs:
        if not isinstance(name, str) or not name or '"' in name:
            raise CollectionError(f"where names a label or a column, got {name!r}")
        values = [value] if isinstance(value, str) or not isinstance(value, Iterable) else value
        conditions.append((name, tuple(sorted({_as_text(each) for each in values}))))
    return tuple(sorted(conditions))


def select_numbers(
    connection: sqlite3.Connection, conditions: Iterable[Condition]
) -> Iterable[tuple[int]]:
    """Run a query for the numbers of the items that meet all conditions."""
    clauses: list[str] = []
    parameters: list[str] = []
    for name, values in conditions:
        if name == _LABEL:
            clauses += [_HAS_LABEL] * len(values)
            parameters += values
        else:
            marks = ", ".join("?" * len(values))
            clauses.append(f"{_HAS_VALUE} IN ({marks})")
            parameters += [f'$."{name}"', *values]
    return connection.execute(" INTERSECT ".join(clauses), parameters)


def _split(text: Any) -> tuple[str, str]:
    name, equals, value = str(text).partition("=")
    if not equals or not name.strip():
        raise CollectionError(
            f"{text!r} is no condition; write label=NAME or COLUMN=VALUE, one a --where"
        )
    return name.strip(), value.strip()


def _as_text(value: Any) -> str:
    # As SQLite casts what JSON holds.
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    raise CollectionError(f"where compares with texts and numbers, got {value!r}")

"""What the columns of items hold: as SQLite reads their JSON, or Python where SQLite cannot."""

import json
import sqlite3
from typing import Any

# SQLite ends names and texts at a NUL, which JSON writes as \\u0000; items with one are read here.
# A number that JSON writes as a whole one but that does not fit 64 bits is a real to SQLite.
_KINDS = (
    "SELECT DISTINCT c.key, "
    "CASE WHEN c.type IN ('true', 'false') THEN 'boolean' ELSE typeof(c.atom) END "
    "FROM items, json_each(items.columns) c WHERE NOT instr(columns, '\\u0000')"
)
_KIND_OF = {bool: "boolean", int: "integer", float: "real", str: "text", type(None): "null"}


def column_kinds(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """Return the columns that items have, and what is in them; see `Collection.columns`."""
    pairs = set(connection.execute(_KINDS))
    rows = connection.execute("SELECT columns FROM items WHERE instr(columns, '\\u0000')")
    for (columns,) in rows:
        pairs |= {(name, _kind(value)) for name, value in json.loads(columns).items()}
    kinds: dict[str, set[str]] = {}
    for name, kind in sorted(pairs):
        kinds.setdefault(name, set()).add(kind)
    return kinds


def values_of(
    connection: sqlite3.Connection, column: str | None
) -> list[tuple[int, str | float | None]]:
    """Return the number of every item, in order, and its value in a column or None."""
    if column is None:
        return connection.execute("SELECT number, NULL FROM items ORDER BY number").fetchall()
    rows = connection.execute(
        "SELECT number, (SELECT atom FROM json_each(columns) WHERE key = ?), "
        "CASE WHEN instr(columns, '\\u0000') THEN columns END FROM items ORDER BY number",
        (column,),
    )
    return [
        (number, value if columns is None else json.loads(columns).get(column))
        for number, value, columns in rows
    ]


def has_column(connection: sqlite3.Connection, name: str) -> bool:
    """Whether an item has a column."""
    written = f"{json.dumps(name, ensure_ascii=False)}: "
    rows = connection.execute("SELECT columns FROM items WHERE instr(columns, ?)", (written,))
    return any(name in json.loads(columns) for (columns,) in rows)


def _kind(value: Any) -> str:
    is_long = type(value) is int and not -(2**63) <= value < 2**63
    return "real" if is_long else _KIND_OF[type(value)]

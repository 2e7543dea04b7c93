"""What the columns of items hold: as SQLite reads their JSON, or Python where SQLite cannot."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acqh.collection._store import Store

# SQLite ends names and texts at a NUL, which JSON writes as \\u0000; items with one are read here.
# A number that JSON writes as a whole one but that does not fit 64 bits is a real to SQLite.
_KINDS = (
    "SELECT DISTINCT c.key, "
    "CASE WHEN c.type IN ('true', 'false') THEN 'boolean' ELSE typeof(c.atom) END "
    "FROM items, json_each(items.columns) c WHERE NOT instr(columns, '\\u0000') "
    "UNION ALL SELECT columns, NULL FROM items WHERE instr(columns, '\\u0000')"
)
_KIND_OF = {bool: "boolean", int: "integer", float: "real", str: "text", type(None): "null"}


def column_kinds(store: "Store") -> dict[str, set[str]]:
    """Return the columns that items have, and what is in them; see `Collection.columns`."""
    kinds: dict[str, set[str]] = {}
    for found, kind in store.rows(_KINDS):
        read = {found: kind} if kind is not None else _kinds_in(found)
        for name, each in read.items():
            kinds.setdefault(name, set()).add(each)
    return dict(sorted(kinds.items()))


def _kinds_in(columns: str) -> dict[str, str]:
    return {name: _kind(value) for name, value in json.loads(columns).items()}


def values_of(store: "Store", column: str | None) -> list[tuple[int, str | float | None]]:
    """Return the number of every item, in order, and its value in a column or None."""
    if column is None:
        return store.rows("SELECT number, NULL FROM items ORDER BY number")
    rows = store.rows(
        "SELECT number, (SELECT atom FROM json_each(columns) WHERE key = ?), "
        "CASE WHEN instr(columns, '\\u0000') THEN columns END FROM items ORDER BY number",
        column,
    )
    return [
        (number, value if columns is None else json.loads(columns).get(column))
        for number, value, columns in rows
    ]


def has_column(store: "Store", name: str) -> bool:
    """Whether an item has a column."""
    written = f"{json.dumps(name, ensure_ascii=False)}: "
    wanted = "SELECT columns FROM items WHERE instr(columns, ?)"
    with store.connections.reading() as connection:  # usually the first row settles it
        return any(name in json.loads(row[0]) for row in connection.execute(wanted, (written,)))


def _kind(value: Any) -> str:
    is_long = type(value) is int and not -(2**63) <= value < 2**63
    return "real" if is_long else _KIND_OF[type(value)]

"""Conditions on labels, fields and detected metadata, and the order of items: SQL over values."""

import difflib
import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

from acqh._core.fields import DATE, KIND, KINDS
from acqh.collection.store.file import first_row
from acqh.collection.store.items import LABEL, stored
from acqh.errors import CollectionError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_MAX_DIGITS = 4_000
_BOOLEANS = {"true": True, "false": False}
# Fields or labels that an error names.
_MAX_SHOWN = 20
Value = str | int | float
# Longer ones first: "<=" is not "<".
OPERATORS = (">=", "<=", "!=", ">", "<", "~", "=")
_ORDERS = (">=", "<=", ">", "<")
# Tables of texts, such as CSV files, spell numbers.
_SPELLS_NUMBER = (
    "typeof(value) = 'text' AND value GLOB '*[0-9]*' AND ltrim(value, '+-') NOT GLOB '*[^0-9.]*'"
)
_DAY = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)
# A day of no calendar, such as 2023-13, would compare as a text.
_LIKE_DAY = re.compile(r"\d{4}(-\d{1,2}){1,2}", re.ASCII)


class Condition(NamedTuple):
    """A condition on items: how a label or field compares with one of some values."""

    name: str
    values: tuple[Value, ...]  # of labels an item must have all, of a field one of them
    operator: str = "="


def meeting(conditions: Sequence[Condition]) -> tuple[str, list[Any]]:
    """Return a statement that selects the items that meet all conditions, and its parameters.

    Raises CollectionError: a date does not exist.
    """
    having = "SELECT number FROM item_values WHERE name = ? AND ({})"
    # With `!=`, items without the field are selected, too.
    selects = ["SELECT number FROM items"] if conditions[0].operator == "!=" else []
    parameters: list[Any] = []
    for name, values, operator in conditions:
        for value in values if name == DATE and operator != "~" else ():
            is_moment = any(map(str.isdigit, str(value))) or operator not in _ORDERS
            if (_LIKE_DAY.fullmatch(str(value)) and _next(value) is None) or not is_moment:
                raise CollectionError(f"{value!r} is no date; write 2023, 2023-01 or 2023-01-31")
        are_separate = name == LABEL and operator == "="
        for alternatives in [(value,) for value in values] if are_separate else [values]:
            clause, forms = _clause(name, operator, alternatives)
            join = "" if not selects else " EXCEPT " if operator == "!=" else " INTERSECT "
            selects.append(join + having.format(clause))
            parameters += [name, *forms]
    return "".join(selects), parameters


def _clause(name: str, operator: str, values: Sequence[Value]) -> tuple[str, list[Any]]:
    """Return the SQL that compares a stored value with some, and its parameters.

    A text compares with texts and, if it spells a number, with numbers and texts that spell some; a
    year, month or day with all of its moments.
    """
    if operator in ("=", "!="):
        forms = [form for value in values for form in (_forms(value) if name != LABEL else [value])]
        spans = [(value, after) for value in values if name == DATE and (after := _next(value))]
        clauses = [f"value IN ({', '.join('?' * len(forms))})"]
        clauses += ["typeof(value) = 'text' AND value >= ? AND value < ?"] * len(spans)
        return " OR ".join(clauses), [*forms, *(bound for span in spans for bound in span)]
    if operator == "~":
        parts = [re.sub(r"([%_\\])", r"\\\1", str(value)) for value in values]
        clauses = ["typeof(value) = 'text' AND value LIKE ? ESCAPE '\\'"] * len(parts)
        return " OR ".join(clauses), [f"%{part}%" for part in parts]
    clauses, bounds = [], list[Any]()
    (value,) = values
    number, after = (_as_number(value), _next(value)) if isinstance(value, str) else (value, None)
    if number is not None:
        clauses.append(f"typeof(value) IN ('integer', 'real') AND value {operator} ?")
        bounds.append(stored(number))
    if isinstance(value, str) and number is not None:
        clauses.append(f"{_SPELLS_NUMBER} AND CAST(value AS NUMERIC) {operator} ?")
        bounds.append(stored(number))
    if isinstance(value, str) and (number is None or after is not None):
        if after is not None and operator in (">", "<="):
            value, operator = after, {">": ">=", "<=": "<"}[operator]
        clauses.append(f"typeof(value) = 'text' AND value {operator} ? AND NOT ({_SPELLS_NUMBER})")
        bounds.append(value)
    return " OR ".join(clauses), bounds


def _next(text: Value) -> str | None:
    """Return the year, month or day after one, in the same form; None if it is nothing of these.

    Examples
    --------
    >>> _next("2021"), _next("2021-12"), _next("2021-07-31"), _next("2021-13"), _next("dog")
    ('2022', '2022-01', '2021-08-01', None, None)
    """
    parts = _DAY.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        return None
    year, month, day = map(int, parts.groups(1))
    try:
        moment = date(year, month, day)
        if parts[3]:
            return (moment + timedelta(1)).isoformat()
        return f"{year + month // 12:04}-{month % 12 + 1:02}" if parts[2] else f"{year + 1:04}"
    except (ValueError, OverflowError):
        return None


def has_date(connection: sqlite3.Connection, start: str = "", end: str = "") -> bool:
    """Whether an item has a date, from a start on and before an end; empty for no bound."""
    statement = (
        "SELECT 1 FROM item_values WHERE name = ? AND typeof(value) = 'text' AND value >= ? "
        "AND (? = '' OR value < ?) LIMIT 1"
    )
    return first_row(connection, statement, DATE, start, end, end) is not None


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
    fields = [(name, (LABEL,)) for name, *_ in conditions if name != LABEL]
    for name, also in [*fields, *([] if order is None else [(order, ())])]:
        has = first_row(connection, "SELECT 1 FROM item_values WHERE name = ? LIMIT 1", name)
        if name == LABEL or has is None:
            rows = connection.execute(
                "SELECT DISTINCT name FROM item_values WHERE name <> ?", (LABEL,)
            )
            shown = _shown([*also, *(field for (field,) in rows)])
            raise CollectionError(f"no item has a field {name!r:.200}; {shown}")
    has_value = "SELECT 1 FROM item_values WHERE name = ? AND ({}) LIMIT 1"
    for name, values, operator in conditions:
        if name not in (LABEL, KIND) or operator != "=":
            continue
        for value in values:
            clause, forms = _clause(name, "=", (value,))
            statement = has_value.format(clause)
            is_kind = name == KIND and value in (*KINDS, "video")
            if not is_kind and first_row(connection, statement, name, *forms) is None:
                likely = _likely(connection, name, str(value))
                raise CollectionError(f"no item has the {name} {value!r:.200}; {likely}")


def _likely(connection: sqlite3.Connection, name: str, value: str) -> str:
    """Return the label or kind that was probably meant, or else which ones there are."""
    rows = connection.execute("SELECT DISTINCT value FROM item_values WHERE name = ?", (name,))
    values = [str(other) for (other,) in rows]
    folded = {other.casefold(): other for other in values}
    near = difflib.get_close_matches(value.casefold(), folded, n=1, cutoff=0.8)
    return f"did you mean {folded[near[0]]!r:.200}?" if near else _shown(values)


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

"""Reading items: what is asked of one connection, which sees one state of the store."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Array, Ints
from acqh.collection.store.connections import LISTED, listed, read_change
from acqh.collection.store.filters import LABEL, parsed
from acqh.collection.store.schema import checksum
from acqh.collection.types import Item
from acqh.errors import MissingItemError

_READ = (
    "SELECT i.number, id, text, labels, columns, t.number IS NOT NULL, coded_by, code, folder "
    "FROM items i LEFT JOIN thumbnails t ON t.number = i.number "
    "LEFT JOIN followed f ON f.number = i.number"
)
# Removals are known among so many last changes; an index that is further behind is made again.
_KEPT_CHANGES = 2**18
_KIND_OF = {bool: "boolean", int: "integer", float: "real", str: "text", type(None): "null"}


@dataclass(frozen=True)
class Counts:
    """How many items there are of what, after a change."""

    change: int
    labels: dict[str, int]  # in alphabetical order
    coded_by: dict[str, int]
    n_labelled: int
    n_thumbnails: int


def count_items(connection: sqlite3.Connection) -> int:
    """Return how many items there are."""
    return int(connection.execute("SELECT count(*) FROM items").fetchone()[0])


def has_more_than(connection: sqlite3.Connection, n: int) -> bool:
    """Whether there are more items; counts no further."""
    found = connection.execute("SELECT 1 FROM items LIMIT 1 OFFSET ?", (n,))
    return found.fetchone() is not None


def has_texts(connection: sqlite3.Connection) -> bool:
    """Whether any item has a text."""
    found = connection.execute("SELECT 1 FROM items WHERE text <> '' LIMIT 1")
    return found.fetchone() is not None


def has_item(connection: sqlite3.Connection, identifier: str) -> bool:
    """Whether there is an item of this id."""
    return find_number(connection, identifier) is not None


def find_number(connection: sqlite3.Connection, identifier: str) -> int | None:
    """Return the number of the item that has an id, or None."""
    row = connection.execute("SELECT number FROM items WHERE id = ?", (identifier,)).fetchone()
    return None if row is None else int(row[0])


def ids_after(connection: sqlite3.Connection, number: int, n: int = 4_096) -> list[tuple[int, str]]:
    """Return number and id of the next items in order of insertion."""
    return connection.execute(
        "SELECT number, id FROM items WHERE number > ? ORDER BY number LIMIT ?", (number, n)
    ).fetchall()


def find_item(connection: sqlite3.Connection, identifier: str) -> tuple[int, Item]:
    """Return an item and its number; raise MissingItemError where there is none."""
    row = connection.execute(f"{_READ} WHERE id = ?", (identifier,)).fetchone()
    if row is None:
        raise MissingItemError(f"no item has the id {identifier!r}")
    return row[0], _item(*row)


def read_items(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Item]:
    """Return items by number; those that are gone are left out."""
    rows = connection.execute(f"{_READ} WHERE i.number IN {LISTED}", (listed(numbers),))
    return {row[0]: _item(*row) for row in rows}


def read_pages(connection: sqlite3.Connection, size: int) -> Iterator[list[Item]]:
    """Yield all items in order of insertion, some at a time."""
    rows = connection.execute(f"{_READ} ORDER BY i.number")
    while page := rows.fetchmany(size):
        yield [_item(*row) for row in page]


def read_staged(
    connection: sqlite3.Connection, start: int, n: int
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return id, text and labels of items that a build has just numbered from 1 on."""
    rows = connection.execute(
        "SELECT id, text, labels FROM items WHERE number > ? AND number <= ? ORDER BY number",
        (start, start + n),
    )
    return [(identifier, text, tuple(parsed(names, "{}")[0])) for identifier, text, names in rows]


def _item(
    number: int,
    identifier: str,
    text: str,
    labels: str,
    columns: str,
    has_thumbnail: int,
    coded_by: str,
    code: bytes,
    folder: str | None,
) -> Item:
    names, values = parsed(labels, columns)
    match identifier, text, coded_by, code:
        case str(), str(), str(), bytes():
            return Item(
                text=text,
                labels=names,
                id=identifier,
                columns=values,
                folder=folder or "",
                has_thumbnail=bool(has_thumbnail),
                coded_by=coded_by,
                code=code,
            )
    raise sqlite3.DatabaseError(f"the fields of item number {number} are of other kinds than ours")


def read_thumbnail(connection: sqlite3.Connection, identifier: str) -> bytes:
    """Return an item's small image; raise MissingItemError where there is none."""
    row = connection.execute(
        "SELECT picture FROM items LEFT JOIN thumbnails USING (number) WHERE id = ?", (identifier,)
    ).fetchone()
    if row is None:
        raise MissingItemError(f"no item has the id {identifier!r}")
    if row[0] is None:
        raise MissingItemError(f"item {identifier!r} has no image")
    return bytes(row[0])


def numbers_showing(
    connection: sqlite3.Connection, thumbnail: bytes, among: Sequence[int]
) -> list[int]:
    """Return which of some items have exactly this thumbnail."""
    rows = connection.execute(
        f"SELECT number FROM thumbnails WHERE number IN {LISTED} "  # noqa: S608
        "AND checksum = ? AND picture = ? ORDER BY number",
        (listed(among), checksum(thumbnail), thumbnail),
    )
    return [number for (number,) in rows]


def thumbnails_of(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, bytes]:
    """Return the thumbnails of items by number; items without one are left out."""
    wanted = f"SELECT number, picture FROM thumbnails WHERE number IN {LISTED}"  # noqa: S608
    return dict(connection.execute(wanted, (listed(numbers),)))


def count_all(connection: sqlite3.Connection) -> Counts:
    """Return how many items there are of what."""
    ask = connection.execute
    labels = ask("SELECT value, count(*) FROM item_values WHERE name = ? GROUP BY value", (LABEL,))
    coded_by = ask("SELECT coded_by, count(*) FROM items GROUP BY coded_by")
    ((n_labelled, n_thumbnails),) = ask(
        "SELECT (SELECT count(DISTINCT number) FROM item_values WHERE name = ?), "
        "(SELECT count(*) FROM thumbnails)",
        (LABEL,),
    )
    return Counts(read_change(connection), dict(labels), dict(coded_by), n_labelled, n_thumbnails)


def column_kinds(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """Return the columns that items have, and what is in them; see `Collection.columns`."""
    kinds: dict[str, set[str]] = {}
    for (columns,) in connection.execute("SELECT columns FROM items"):
        for name, value in parsed("[]", columns)[1].items():
            is_long = type(value) is int and not -(2**63) <= value < 2**63
            kinds.setdefault(name, set()).add("real" if is_long else _KIND_OF[type(value)])
    return dict(sorted(kinds.items()))


def codes_of(connection: sqlite3.Connection, numbers: Ints, code_bytes: int) -> tuple[Ints, Array]:
    """Return the codes of items, and the numbers of those that are still there."""
    wanted = f"SELECT number, code FROM items WHERE number IN {LISTED} ORDER BY number"  # noqa: S608
    return _codes(connection.execute(wanted, (listed(numbers.tolist()),)), code_bytes)


def changes_since(
    connection: sqlite3.Connection, change: int, code_bytes: int
) -> tuple[int, Ints, Array, Ints]:
    """Return what an index that holds all changes up to one must do to hold all.

    Returns
    -------
    change : int
        The last one.
    numbers : int64 (n_added,)
    codes : uint8 (n_added, code_bytes)
        Of items to be added, in order.
    removed : int64 (n_removed,)
        Numbers of items to be removed.
    """
    rows = connection.execute(
        "SELECT number, code FROM items WHERE number > ? ORDER BY number", (change,)
    )
    numbers, codes = _codes(rows, code_bytes)
    removed = connection.execute(
        "SELECT number FROM removals WHERE change > ? AND number <= ?", (change, change)
    )
    gone = np.array([number for (number,) in removed if type(number) is int], dtype=np.int64)
    return read_change(connection), numbers, codes, gone


def is_forgotten(change: int, last: int) -> bool:
    """Whether removals after a change are no longer known when the last change is another."""
    return last - change > _KEPT_CHANGES


def forget_removals(connection: sqlite3.Connection, last: int) -> None:
    """Forget the removals that no index needs to catch up."""
    connection.execute("DELETE FROM removals WHERE change <= ?", (last - _KEPT_CHANGES,))


def _codes(rows: Iterable[tuple[int, bytes]], code_bytes: int) -> tuple[Ints, Array]:
    """Return the numbers of rows and their codes."""
    numbers, codes = [], bytearray()
    for number, code in rows:
        if not isinstance(code, bytes) or len(code) != code_bytes:
            raise sqlite3.DatabaseError(
                f"the code of item number {number} has not {code_bytes} bytes"
            )
        numbers.append(number)
        codes += code
    table = np.frombuffer(bytes(codes), dtype=np.uint8).reshape(len(numbers), code_bytes)
    return np.array(numbers, dtype=np.int64), table

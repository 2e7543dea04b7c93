"""The truth of a collection: its items, in SQLite."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from dataclasses import replace as rewritten
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Ints
from acqh.collection.store.connections import (
    LISTED,
    WRITE_TIMEOUT_SECONDS,
    Connections,
    as_numbers,
    listed,
    translated,
)
from acqh.collection.store.filters import (
    LABEL,
    Condition,
    Value,
    count_meeting,
    first_in_order,
    meeting,
)
from acqh.collection.store.schema import (
    check_layout,
    checksum,
    compare_words,
    find_number,
    followed_by,
    insert_row,
    keep_link,
    read_fact,
    read_text_fact,
    remove_row,
    write_change,
)
from acqh.collection.store.words import (
    KnownWords,
    WordHit,
    WordQuery,
    find_words,
    know_words,
    numbers_allowed,
    reasons,
)
from acqh.collection.types import FILE, Item
from acqh.errors import CollectionError, CorruptBundleError, DuplicateIdError, MissingItemError

_PAGE_ROWS = 4_096
_READ = (
    "SELECT i.number, id, text, labels, columns, t.number IS NOT NULL, coded_by, code, folder "
    "FROM items i LEFT JOIN thumbnails t ON t.number = i.number "
    "LEFT JOIN followed f ON f.number = i.number"
)


_KIND_OF = {bool: "boolean", int: "integer", float: "real", str: "text", type(None): "null"}


@dataclass(frozen=True)
class Counts:
    """How many items there are of what, after a change."""

    change: int
    labels: dict[str, int]  # in alphabetical order
    coded_by: dict[str, int]
    n_labelled: int
    n_thumbnails: int


class Store:
    """The items of a collection, to be read and changed.

    `path`: a file that `create_store` made. `timeout`: seconds that a writer waits for another one.
    `durable`: whether a change waits until it is on the disk; a build waits once, at its end.
    """

    def __init__(
        self, path: Path, *, timeout: float = WRITE_TIMEOUT_SECONDS, durable: bool = True
    ) -> None:
        self.path = path
        self._counts: Counts | None = None
        with translated(path):
            self.connections = Connections(path, timeout=timeout, durable=durable)
        try:
            check_layout(self.connections)
            with self.connections.reading() as connection:
                self.generation = read_text_fact(connection, "generation")
                self.id_prefix = read_text_fact(connection, "id_prefix") or ""
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self.connections.close()

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """Return what a statement selects, of one state."""
        with self.connections.reading() as connection:
            return connection.execute(statement, values).fetchall()

    @property
    def change(self) -> int:
        """Number of the last change."""
        with self.connections.reading() as connection:
            return read_fact(connection, "change")

    def __len__(self) -> int:
        ((n_items,),) = self.rows("SELECT count(*) FROM items")
        return int(n_items)

    def has_more_than(self, n: int) -> bool:
        """Whether there are more items; counts no further."""
        return bool(self.rows("SELECT 1 FROM items LIMIT 1 OFFSET ?", n))

    def ids(self) -> Iterator[str]:
        """Yield all ids in order of insertion."""
        after = "SELECT number, id FROM items WHERE number > ? ORDER BY number LIMIT 4096"
        last = 0
        while found := self.rows(after, last):
            last = found[-1][0]
            yield from (identifier for _, identifier in found)

    def sorted_ids(self) -> Iterator[str]:
        """Yield all ids in alphabetical order, of one state, without keeping them."""
        with self.connections.reading() as connection:
            for (identifier,) in connection.execute("SELECT id FROM items ORDER BY id"):
                yield identifier

    def has(self, identifier: str) -> bool:
        """Whether there is an item of this id."""
        return bool(self.rows("SELECT 1 FROM items WHERE id = ?", identifier))

    def find(self, identifier: str) -> tuple[int, Item]:
        """Return an item and its number; raise MissingItemError where there is none."""
        rows = self.rows(f"{_READ} WHERE id = ?", identifier)
        if not rows:
            raise MissingItemError(f"no item has the id {identifier!r}")
        return rows[0][0], self._parsed(*rows[0])

    def thumbnail(self, identifier: str) -> bytes:
        """Return an item's small image; raise MissingItemError where there is none."""
        rows = self.rows(
            "SELECT picture FROM items LEFT JOIN thumbnails USING (number) WHERE id = ?", identifier
        )
        if not rows:
            raise MissingItemError(f"no item has the id {identifier!r}")
        if rows[0][0] is None:
            raise MissingItemError(f"item {identifier!r} has no image")
        return bytes(rows[0][0])

    def numbers_showing(self, thumbnail: bytes, among: Sequence[int]) -> list[int]:
        """Return which of some items have exactly this thumbnail."""
        rows = self.rows(
            f"SELECT number FROM thumbnails WHERE number IN {LISTED} "  # noqa: S608
            "AND checksum = ? AND picture = ? ORDER BY number",
            *(listed(among), checksum(thumbnail), thumbnail),
        )
        return [number for (number,) in rows]

    def thumbnails_of(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the thumbnails of items by number; items without one are left out."""
        wanted = f"SELECT number, picture FROM thumbnails WHERE number IN {LISTED}"  # noqa: S608
        return dict(self.rows(wanted, listed(numbers)))

    def read(self, numbers: Sequence[int]) -> dict[int, Item]:
        """Return items by number; those that are gone are left out."""
        rows = self.rows(f"{_READ} WHERE i.number IN {LISTED}", listed(numbers))
        return {row[0]: self._parsed(*row) for row in rows}

    def pages(self, size: int) -> Iterator[list[Item]]:
        """Yield all items in order of insertion, some at a time, of one state."""
        with self.connections.reading() as connection:
            rows = connection.execute(f"{_READ} ORDER BY i.number")
            while page := rows.fetchmany(size):
                yield [self._parsed(*row) for row in page]

    def _parsed(
        self,
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
        try:
            names, values = json.loads(labels), json.loads(columns)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._damaged(number, str(error)) from error
        match identifier, text, names, values, coded_by, code:
            case str(), str(), list(), dict(), str(), bytes():
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
        raise self._damaged(number, "its fields are of other kinds than acqh stores")

    def _damaged(self, number: object, why: str) -> CorruptBundleError:
        return CorruptBundleError(
            f"{self.path} is damaged: item number {number} cannot be read ({why}); run acqh verify"
        )

    def _table(self, rows: Iterable[tuple[int, bytes]], code_bytes: int) -> tuple[Ints, Array]:
        """Return the numbers of rows and their codes."""
        numbers, codes = [], bytearray()
        for number, code in rows:
            if not isinstance(code, bytes) or len(code) != code_bytes:
                raise self._damaged(number, f"its code has not {code_bytes} bytes")
            numbers.append(number)
            codes += code
        table = np.frombuffer(bytes(codes), dtype=np.uint8).reshape(len(numbers), code_bytes)
        return np.array(numbers, dtype=np.int64), table

    def counts(self) -> Counts:
        """Return how many items there are of what; counted once after each change."""
        with self.connections.reading() as connection:
            change = read_fact(connection, "change")
            counts = self._counts
            if counts is None or counts.change != change:
                ask = connection.execute
                labels = ask(
                    "SELECT value, count(*) FROM item_values WHERE name = ? GROUP BY value",
                    (LABEL,),
                )
                coded_by = ask("SELECT coded_by, count(*) FROM items GROUP BY coded_by")
                ((n_labelled, n_thumbnails),) = ask(
                    "SELECT (SELECT count(DISTINCT number) FROM item_values WHERE name = ?), "
                    "(SELECT count(*) FROM thumbnails)",
                    (LABEL,),
                )
                counts = self._counts = Counts(
                    change, dict(labels), dict(coded_by), n_labelled, n_thumbnails
                )
        return counts

    def has_value(self, name: str, value: str | None = None) -> bool:
        """Whether an item has a column, or a value in it."""
        statement = "SELECT 1 FROM item_values WHERE name = ?"
        if value is None:
            return bool(self.rows(f"{statement} LIMIT 1", name))
        return bool(self.rows(f"{statement} AND value = ? LIMIT 1", name, value))

    def column_names(self) -> list[str]:
        """Return the columns that items have."""
        rows = self.rows("SELECT DISTINCT name FROM item_values WHERE name <> ?", LABEL)
        return [name for (name,) in rows]

    def column_kinds(self) -> dict[str, set[str]]:
        """Return the columns that items have, and what is in them; see `Collection.columns`."""
        kinds: dict[str, set[str]] = {}
        for page in self.pages(_PAGE_ROWS):
            for name, value in (each for item in page for each in item.columns.items()):
                is_long = type(value) is int and not -(2**63) <= value < 2**63
                kind = "real" if is_long else _KIND_OF[type(value)]
                kinds.setdefault(name, set()).add(kind)
        return dict(sorted(kinds.items()))

    def codes_of(self, numbers: Ints, code_bytes: int) -> tuple[Ints, Array]:
        """Return the codes of items, and the numbers of those that are still there."""
        wanted = f"SELECT number, code FROM items WHERE number IN {LISTED} ORDER BY number"  # noqa: S608
        return self._table(self.rows(wanted, listed(numbers.tolist())), code_bytes)

    def changes_since(
        self, change: int, code_bytes: int, connection: sqlite3.Connection | None = None
    ) -> tuple[int, Ints, Array, Ints]:
        """Return what an index that holds all changes up to one must do to hold all.

        Of the state that a connection sees, where one is given.

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
        seen = self.connections.reading() if connection is None else nullcontext(connection)
        with seen as now:
            last = read_fact(now, "change")
            if last < change:
                raise CollectionError(f"{self.path} is older than the index beside it")
            rows = now.execute(
                "SELECT number, code FROM items WHERE number > ? ORDER BY number", (change,)
            )
            numbers, codes = self._table(rows, code_bytes)
            removed = now.execute(
                "SELECT number FROM removals WHERE change > ? AND number <= ?", (change, change)
            ).fetchall()
        gone = np.array([number for (number,) in removed if type(number) is int], dtype=np.int64)
        return last, numbers, codes, gone

    def select(self, conditions: Sequence[Condition], asked: WordQuery | None) -> Ints | None:
        """Return the numbers of the items that may be found, in rising order; None for all.

        They meet all conditions, have the phrases asked for and lack what must not be there.
        """
        found = []
        with self.connections.reading() as connection:
            if conditions:
                found.append(as_numbers(connection.execute(*meeting(conditions))))
            if asked is not None and asked.demanded:
                found.append(numbers_allowed(connection, asked))
        return reduce(np.intersect1d, found) if found else None

    def browse(
        self, conditions: Sequence[Condition], order: str | None, descending: bool, k: int
    ) -> tuple[list[tuple[Value | None, int]], int]:
        """Return value and number of the first k items in order, and how many there are."""
        with self.connections.reading() as connection:
            n_items = count_meeting(connection, conditions) if conditions else -1
            return first_in_order(connection, conditions, order, descending, k), n_items

    def know_words(self, query: WordQuery) -> KnownWords:
        """Look the words of a query up."""
        with self.connections.reading() as connection:
            return know_words(connection, query)

    def find_words(self, known: KnownWords, k: int, numbers: Ints | None) -> list[WordHit]:
        """Return the items that contain words, best first."""
        with self.connections.reading() as connection:
            hits = find_words(connection, known, k, numbers)
            return compare_words(connection, known.asked, hits)

    def reasons(self, known: KnownWords, numbers: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return where words of a query occur, by item: "words", "labels" or both."""
        with self.connections.reading() as connection:
            return reasons(connection, known, numbers)

    def insert(
        self, items: Sequence[Item], *, replace: bool = False, strict: bool = False
    ) -> list[str | None]:
        """Add items, all in one transaction.

        `replace`: put an item in place of the one that has its id or follows the same file, and
        let it follow this file still; otherwise it is left out.
        `strict`: raise where it would be left out, and add none. Gives the id of each; None for
        those that were left out.
        """
        ids: list[str | None] = []
        with self.connections.writing() as connection:
            change = read_fact(connection, "change")
            for given in items:
                item = given
                if item.folder and (
                    own := followed_by(connection, item.folder, item.columns[FILE])
                ):
                    item = rewritten(item, id=own)
                known = item.id is not None and find_number(connection, item.id) is not None
                if known and not replace and strict:
                    raise DuplicateIdError(
                        f"{item.origin}: there is an item {item.id!r} already; nothing was added"
                    )
                if known and not replace:
                    ids.append(None)
                    continue
                if known:
                    item = keep_link(connection, item)
                    change += 1
                    remove_row(connection, item.id, change)
                change += 1
                ids.append(insert_row(connection, item, change))
            write_change(connection, change)
        return ids

    def remove(self, ids: Iterable[str]) -> int:
        """Remove items, all in one transaction; raise MissingItemError, and remove none."""
        n_removed = 0
        with self.connections.writing() as connection:
            change = read_fact(connection, "change")
            for identifier in dict.fromkeys(ids):
                change += 1
                n_removed += 1
                remove_row(connection, identifier, change)
            write_change(connection, change)
        return n_removed

    def has_texts(self) -> bool:
        """Whether any item has a text."""
        return bool(self.rows("SELECT 1 FROM items WHERE text <> '' LIMIT 1"))

    def staged(self, start: int, n: int) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return id, text and labels of items that a build has just numbered from 1 on."""
        rows = self.rows(
            "SELECT id, text, labels FROM items WHERE number > ? AND number <= ? ORDER BY number",
            *(start, start + n),
        )
        return [(identifier, text, tuple(json.loads(names))) for identifier, text, names in rows]

    def set_codes(self, codes: Iterable[tuple[int, str, bytes]]) -> None:
        """Give items their codes, as number, what they were coded by, and code."""
        with self.connections.writing() as connection:
            for number, coded_by, code in codes:
                row = connection.execute(
                    "SELECT id, text, labels, columns FROM items WHERE number = ?", (number,)
                ).fetchone()
                connection.execute(
                    "UPDATE items SET coded_by = ?, code = ?, checksum = ? WHERE number = ?",
                    (coded_by, code, checksum(*row, coded_by, code), number),
                )

"""Reading what a store holds: items, their codes, labels, columns and words."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import reduce
from pathlib import Path

import numpy as np

from acqh._core.arrays import Array, Ints
from acqh.collection._columns import column_kinds, has_column, values_of
from acqh.collection._connections import (
    LISTED,
    WRITE_TIMEOUT_SECONDS,
    Connections,
    listed,
    translated,
)
from acqh.collection._tables import (
    check_layout,
    checksum,
    compare_words,
    find_number,
    read_fact,
    read_text_fact,
)
from acqh.collection._types import Item
from acqh.collection._where import Condition, select_numbers
from acqh.collection._words import (
    KnownWords,
    WordHit,
    WordQuery,
    find_words,
    know_words,
    numbers_allowed,
    reasons,
)
from acqh.errors import CollectionError, CorruptBundleError, MissingItemError

_READ = (
    "SELECT i.number, id, text, labels, columns, t.number IS NOT NULL, coded_by, code "
    "FROM items i LEFT JOIN thumbnails t ON t.number = i.number"
)


class StoredItems:
    """The items of a collection, to be read; `Store` also changes them.

    `path`: a file that `create_store` made. `timeout`: seconds that a writer waits for another one.
    `durable`: whether a change waits until it is on the disk; a build waits once, at its end.
    """

    def __init__(
        self, path: Path, *, timeout: float = WRITE_TIMEOUT_SECONDS, durable: bool = True
    ) -> None:
        self.path = path
        with translated(path):
            self.connections = Connections(path, timeout=timeout, durable=durable)
        try:
            self.has_words = check_layout(self.connections)
            with self.connections.reading() as connection:
                # Stores were made without it once.
                self.generation = read_text_fact(connection, "generation")
                self.id_prefix = read_text_fact(connection, "id_prefix") or ""
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self.connections.close()

    def compact(self) -> None:
        """Put all changes into the one file."""
        self.connections.compact()

    @property
    def change(self) -> int:
        """Number of the last change."""
        with self.connections.reading() as connection:
            return read_fact(connection, "change")

    def __len__(self) -> int:
        with self.connections.reading() as connection:
            return int(connection.execute("SELECT count(*) FROM items").fetchone()[0])

    def has_more_than(self, n: int) -> bool:
        """Whether there are more items; counts no further."""
        with self.connections.reading() as connection:
            row = connection.execute("SELECT 1 FROM items LIMIT 1 OFFSET ?", (n,)).fetchone()
        return row is not None

    def ids(self) -> Iterator[str]:
        """Yield all ids in order of insertion."""
        last = 0
        while True:
            with self.connections.reading() as connection:
                found = connection.execute(
                    "SELECT number, id FROM items WHERE number > ? ORDER BY number LIMIT 4096",
                    (last,),
                ).fetchall()
            if not found:
                return
            last = found[-1][0]
            yield from (identifier for _, identifier in found)

    def sorted_ids(self) -> Iterator[str]:
        """Yield all ids in alphabetical order, of one state, without keeping them."""
        with self.connections.reading() as connection:
            for (identifier,) in connection.execute("SELECT id FROM items ORDER BY id"):
                yield identifier

    def has(self, identifier: str) -> bool:
        """Whether there is an item of this id."""
        with self.connections.reading() as connection:
            return find_number(connection, identifier) is not None

    def find(self, identifier: str) -> tuple[int, Item]:
        """Return an item and its number; raise MissingItemError where there is none."""
        with self.connections.reading() as connection:
            row = connection.execute(f"{_READ} WHERE id = ?", (identifier,)).fetchone()
        if row is None:
            raise MissingItemError(f"no item has the id {identifier!r}")
        return row[0], self._parsed(*row)

    def thumbnail(self, identifier: str) -> bytes:
        """Return an item's small image; raise MissingItemError where there is none."""
        with self.connections.reading() as connection:
            row = connection.execute(
                "SELECT picture FROM items LEFT JOIN thumbnails USING (number) WHERE id = ?",
                (identifier,),
            ).fetchone()
        if row is None:
            raise MissingItemError(f"no item has the id {identifier!r}")
        if row[0] is None:
            raise MissingItemError(f"item {identifier!r} has no image")
        return bytes(row[0])

    def numbers_showing(self, thumbnail: bytes, among: Sequence[int]) -> list[int]:
        """Return which of some items have exactly this thumbnail."""
        with self.connections.reading() as connection:
            rows = connection.execute(
                f"SELECT number FROM thumbnails WHERE number IN {LISTED} "  # noqa: S608
                "AND checksum = ? AND picture = ? ORDER BY number",
                (listed(among), checksum(thumbnail), thumbnail),
            )
            return [number for (number,) in rows]

    def thumbnails_of(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the thumbnails of items by number; items without one are left out."""
        with self.connections.reading() as connection:
            rows = connection.execute(
                f"SELECT number, picture FROM thumbnails WHERE number IN {LISTED}",  # noqa: S608
                (listed(numbers),),
            )
            return dict(rows.fetchall())

    def read(self, numbers: Sequence[int]) -> dict[int, Item]:
        """Return items by number; those that are gone are left out."""
        with self.connections.reading() as connection:
            rows = connection.execute(f"{_READ} WHERE i.number IN {LISTED}", (listed(numbers),))
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

    def column_kinds(self) -> dict[str, set[str]]:
        """Return the columns that items have, and what is in them: see `Collection.columns`."""
        with self.connections.reading() as connection:
            return column_kinds(connection)

    def has_column(self, name: str) -> bool:
        """Whether an item has a column."""
        with self.connections.reading() as connection:
            return has_column(connection, name)

    def values_of(self, column: str | None) -> list[tuple[int, str | float | None]]:
        """Return the number of every item, in order, and its value in a column or None."""
        with self.connections.reading() as connection:
            return values_of(connection, column)

    def label_counts(self) -> dict[str, int]:
        """Return how many items have each label, in alphabetical order."""
        with self.connections.reading() as connection:
            rows = connection.execute(
                "SELECT name, n FROM labels JOIN "
                "(SELECT label, count(*) AS n FROM item_labels GROUP BY label) USING (label) "
                "ORDER BY name"
            )
            return dict(rows.fetchall())

    def coded_by(self) -> dict[str, int]:
        """Return how many items were coded by what."""
        with self.connections.reading() as connection:
            rows = connection.execute("SELECT coded_by, count(*) FROM items GROUP BY coded_by")
            return dict(rows.fetchall())

    def counts(self) -> tuple[int, int]:
        """Return how many items have labels, and how many thumbnails."""
        with self.connections.reading() as connection:
            labelled = connection.execute("SELECT count(DISTINCT number) FROM item_labels")
            n_labelled = labelled.fetchone()[0]
            n_thumbnails = connection.execute("SELECT count(*) FROM thumbnails").fetchone()[0]
        return int(n_labelled), int(n_thumbnails)

    def codes_of(self, numbers: Ints, code_bytes: int) -> tuple[Ints, Array]:
        """Return the codes of items, and the numbers of those that are still there."""
        with self.connections.reading() as connection:
            rows = connection.execute(
                f"SELECT number, code FROM items WHERE number IN {LISTED} ORDER BY number",  # noqa: S608
                (listed(numbers.tolist()),),
            )
            return self._table(rows, code_bytes)

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
                found.append(select_numbers(connection, conditions))
            if asked is not None and self.has_words and asked.demanded:
                found.append(numbers_allowed(connection, asked))
        return reduce(np.intersect1d, found) if found else None

    def know_words(self, query: WordQuery) -> KnownWords | None:
        """Look the words of a query up; None in a store without words."""
        if not self.has_words:
            return None
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

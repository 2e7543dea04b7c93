"""The index of a collection: a cache of the codes in SQLite, never more."""

import logging
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acqh._core.arrays import Array, Floats, Ints
from acqh.collection.store.connections import Store
from acqh.collection.store.read import changes_since, codes_of, count_items, has_more_than
from acqh.collection.store.schema import read_change
from acqh.errors import AcqhError, CollectionError, CorruptBundleError
from acqh.index.search.few import FewCodes
from acqh.io import read_bundle

if TYPE_CHECKING:
    from acqh.index import CodeIndex

_log = logging.getLogger(__name__)
# Catching up with this many changes takes about as long as reading the index.
_SAVE_AFTER = 4_096
# Up to this many items are searched as they are, as quickly as by the index and without the half
# second that its compiled code takes to load.
MAX_FEW = 16_384


class IndexCache:
    """The codes of all items, at least as new as what a connection sees, whenever it is asked.

    Few items are held as they are, many by a `CodeIndex`: which of both is decided here, and gives
    the same scores. Items are known to either by their numbers. What is saved of an index says
    which change it holds last; one that is missing, damaged or of other codebooks is made again
    from the store, and of few items none is saved.

    `codebooks`: (n_codebooks, codebook_size, n_components). `path`: where it is saved.
    """

    def __init__(self, store: Store, codebooks: Floats, path: Path) -> None:
        self._store = store
        self.codebooks = np.ascontiguousarray(codebooks, dtype=np.float32)
        self._path = path
        self._lock = threading.Lock()
        self._index: CodeIndex | None = None
        self._change = self._saved = 0
        self._few: tuple[int, FewCodes] | None = None
        self._is_large = False

    def count(self, connection: sqlite3.Connection) -> int:
        """Return how many items there are."""
        few = self._few_at(connection)
        if few is None and self._index is None:
            return count_items(connection)
        return len(self._index_at(connection) if few is None else few)

    def bytes_per_item(self, connection: sqlite3.Connection) -> float:
        """Return the bytes of an item in the index, or of its code where there are few."""
        few = self._few_at(connection)
        index_bytes = None if few is not None else self._index_at(connection).bytes_per_item
        return float(len(self.codebooks)) if index_bytes is None else index_bytes

    def search(
        self,
        connection: sqlite3.Connection,
        query: Floats,
        k: int,
        numbers: Ints | None = None,
        part: "CodeIndex | None" = None,
    ) -> tuple[Ints, Floats, int]:
        """Return the numbers and scores of the best items, and how many codes were scored.

        `numbers`: of the items that may be found, or None for all. `part`: an index of these.
        """
        few = self._few_at(connection)
        if few is not None:
            best, scores = few.search(query, k, numbers)
            return best, scores, len(few if numbers is None else numbers)
        index = self._index_at(connection) if part is None else part
        if len(index) == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.float32), 0
        chosen = numbers if part is None else None
        wanted = min(k, len(index))
        result = index.search(query[np.newaxis], wanted, filter=chosen, n_threads=1)
        found = slice(int(result.counts[0]))
        return result.ids[0, found], result.scores[0, found], int(result.scored[0])

    def part(self, connection: sqlite3.Connection, numbers: Ints) -> "CodeIndex | None":
        """Return an index of some items alone, where there are many others."""
        if self._few_at(connection) is not None:
            return None
        from acqh.index import CodeIndex

        known, codes = codes_of(connection, numbers, len(self.codebooks))
        return CodeIndex(self.codebooks).add(codes, ids=known)

    def _few_at(self, connection: sqlite3.Connection) -> FewCodes | None:
        """Return the codes of all items where there are few."""
        if self._is_large:
            return None
        change, few = self._few or (0, FewCodes.none(self.codebooks.transpose(0, 2, 1)))
        if self._few is None or read_change(connection) > change:
            if len(few) == 0 and has_more_than(connection, MAX_FEW):
                self._is_large = True
                return None
            with self._readable():
                change, numbers, codes, gone = self._changes(connection, change)
                few = few.changed(numbers, codes, gone)
            self._is_large = len(few) > MAX_FEW
            self._few = None if self._is_large else (change, few)
        return None if self._is_large else few

    def _index_at(self, connection: sqlite3.Connection) -> "CodeIndex":
        """Return the index with every change that a connection sees."""
        index, change = self._index, read_change(connection)
        if index is None or change > self._change:
            with self._lock:
                index = self._index
                if index is None:
                    index, self._change = self._load(change)
                    self._saved = self._change
                if change > self._change:
                    self._catch_up(index, connection)
                self._index = index
            if self._change - self._saved >= max(_SAVE_AFTER, len(index) // 4):
                self._save(index)
        return index

    def save(self) -> None:
        """Save the index unless it is saved already, or cannot be; it is only a cache."""
        if self._store.read_only:
            return
        with self._store.reading() as connection:
            if self._few_at(connection) is not None or not self._is_behind(connection):
                return
            index = self._index_at(connection)
        self._save(index)

    def _is_behind(self, connection: sqlite3.Connection) -> bool:
        """Whether what is saved lacks a change."""
        saved: Any = self._info(self._saved)
        if self._index is None:
            try:
                saved = read_bundle(self._path).info["caller"]
            except (AcqhError, OSError, LookupError):
                return True
        return bool(saved != self._info(read_change(connection)))

    def _info(self, change: int) -> dict[str, Any]:
        return {"change": change, "generation": self._store.generation}

    def _save(self, index: "CodeIndex") -> None:
        if self._change == self._saved or self._store.read_only:
            return
        with self._lock:
            try:
                # Nobody waits for a cache, and nobody may replace the folder while it is written.
                with self._store.holding(timeout=0):
                    self._store.check_in_place()
                    self._write(index, self._info(self._change))
            except CollectionError as error:
                _log.info("%s is not saved: %s", self._path, error)
                return
            except OSError as error:
                _log.warning(
                    "could not save %s, which costs time on opening: %s", self._path, error
                )
                return
            self._saved = self._change

    def _write(self, index: "CodeIndex", info: dict[str, Any]) -> None:
        try:
            index.save(self._path, info=info)
        except FileExistsError:
            # Damaged so that it cannot be told for an index; it bears our name in our folder.
            shutil.rmtree(self._path)
            index.save(self._path, info=info)

    def _load(self, last: int) -> "tuple[CodeIndex, int]":
        """Return the saved index and the change it holds last; an empty one where none is."""
        from acqh.index import CodeIndex

        try:
            index = CodeIndex.load(self._path)
            change = index.info.get("change")
            if (
                isinstance(change, int)
                and 0 <= change <= last
                and index.info.get("generation") == self._store.generation
                and np.array_equal(index.codebooks, self.codebooks)
            ):
                return index, change
            _log.warning("%s is of another state; it is made again", self._path)
        except FileNotFoundError:
            pass
        except (CorruptBundleError, OSError) as error:
            _log.warning("%s cannot be used and is made again: %s", self._path, error)
        return CodeIndex(self.codebooks), 0

    def _catch_up(self, index: "CodeIndex", connection: sqlite3.Connection) -> None:
        with self._readable():
            change, numbers, codes, removed = self._changes(connection, self._change)
            # New ones first, so that an item being replaced is never missing to other threads.
            index.add(codes, ids=numbers)
            index.remove(removed)
        self._change = change

    def _changes(
        self, connection: sqlite3.Connection, change: int
    ) -> tuple[int, Ints, Array, Ints]:
        return changes_since(connection, change, len(self.codebooks))

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Say what to do where the store does not fit the codebooks or the saved index."""
        try:
            yield
        except CollectionError:
            raise
        except AcqhError as error:
            raise CorruptBundleError(
                f"{self._path} does not fit {self._store.path}: {error}; remove {self._path.name} "
                "and open the collection again"
            ) from error

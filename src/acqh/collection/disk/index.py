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

from acqh._core.arrays import Floats, Ints
from acqh.collection.store.connections import Store, read_change
from acqh.collection.store.read import changes_since, codes_of, has_more_than, is_forgotten
from acqh.errors import AcqhError, CollectionError, CorruptBundleError
from acqh.io import read_bundle

if TYPE_CHECKING:
    from acqh.index import CodeIndex

_log = logging.getLogger(__name__)
# Catching up with this many changes takes about as long as reading the index.
_SAVE_AFTER = 4_096
# Of up to this many items no index is saved: their codes are read from the store as quickly.
MAX_FEW = 16_384


class IndexCache:
    """The codes of all items, at least as new as what a connection sees, whenever it is asked.

    Items are known to the index by their numbers. What is saved of it says which change it holds
    last; one that is missing, damaged or of other codebooks is made again from the store.

    `codebooks`: (n_codebooks, codebook_size, n_components). `path`: where it is saved.
    """

    def __init__(self, store: Store, codebooks: Floats, path: Path) -> None:
        self._store = store
        self.codebooks = np.ascontiguousarray(codebooks, dtype=np.float32)
        self._path = path
        self._lock = threading.Lock()
        self._index: CodeIndex | None = None
        self._change = self._saved = 0

    def part(self, connection: sqlite3.Connection, numbers: Ints) -> "CodeIndex":
        """Return an index of some items alone."""
        from acqh.index import CodeIndex

        known, codes = codes_of(connection, numbers, len(self.codebooks))
        return CodeIndex(self.codebooks).add(codes, ids=known)

    def at(self, connection: sqlite3.Connection) -> "CodeIndex":
        """Return the index with every change that a connection sees."""
        index, change = self._index, read_change(connection)
        if index is None or change > self._change:
            with self._lock:
                index = self._index
                if index is None or is_forgotten(self._change, change):
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
            if not has_more_than(connection, MAX_FEW) or not self._is_behind(connection):
                return
            index = self.at(connection)
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
                and not is_forgotten(change, last)
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
            change, numbers, codes, removed = changes_since(
                connection, self._change, len(self.codebooks)
            )
            # New ones first, so that an item being replaced is never missing to other threads.
            index.add(codes, ids=numbers)
            index.remove(removed)
        self._change = change

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

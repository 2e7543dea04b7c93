"""The index of a collection: a cache of the codes in SQLite, never more."""

import logging
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Floats
from acqh.collection._store import Store
from acqh.errors import AcqhError, CollectionError, CorruptBundleError
from acqh.index import CodeIndex

_log = logging.getLogger(__name__)
# Catching up with this many changes takes about as long as reading the index.
_SAVE_AFTER = 4_096


class IndexCache:
    """The index, as up to date as the store whenever it is asked for.

    Items are known to it by their numbers. What is saved says which change it holds last; a
    saved index that is missing, damaged or of other codebooks is made again from the store.

    Parameters
    ----------
    store : Store
    codebooks : (n_codebooks, codebook_size, n_components)
    path : Path
        Where it is saved.
    generation : str
        Of the collection; an index of another one is not used.
    """

    def __init__(self, store: Store, codebooks: Floats, path: Path, generation: str) -> None:
        self._store = store
        self._codebooks = np.ascontiguousarray(codebooks, dtype=np.float32)
        self._path = path
        self._generation = generation
        self._lock = threading.Lock()
        self._index, self._change = self._load()
        self._saved = self._change
        self.current()

    @property
    def change(self) -> int:
        """The last change that the index holds."""
        return self._change

    def current(self) -> CodeIndex:
        """Return the index with every change that the store has."""
        if self._store.change != self._change:
            with self._lock:
                self._catch_up()
            if self._change - self._saved >= max(_SAVE_AFTER, len(self._index) // 4):
                self.save()
        return self._index

    def save(self) -> None:
        """Save the index unless it is saved already, or cannot be; it is only a cache."""
        if self._change == self._saved or self._store.connections.read_only:
            return
        connections = self._store.connections
        with self._lock:
            info = {"change": self._change, "generation": self._generation}
            try:
                # Nobody waits for a cache, and nobody may replace the folder while it is written.
                with connections.holding(timeout=0):
                    connections.check_in_place()
                    self._write(info)
            except CollectionError as error:
                _log.info("%s is not saved: %s", self._path, error)
                return
            except OSError as error:
                _log.warning(
                    "could not save %s, which costs time on opening: %s", self._path, error
                )
                return
            self._saved = self._change

    def _write(self, info: dict[str, Any]) -> None:
        try:
            self._index.save(self._path, info=info)
        except FileExistsError:
            # Damaged so that it cannot be told for an index; it bears our name in our folder.
            shutil.rmtree(self._path)
            self._index.save(self._path, info=info)

    def _load(self) -> tuple[CodeIndex, int]:
        try:
            index = CodeIndex.load(self._path)
            change, generation = index.info.get("change"), index.info.get("generation")
            if (
                generation == self._generation
                and isinstance(change, int)
                and 0 <= change <= self._store.change
                and np.array_equal(index.codebooks, self._codebooks)
            ):
                return index, change
            _log.warning("%s is of another state; it is made again", self._path)
        except FileNotFoundError:
            pass
        except (CorruptBundleError, OSError) as error:
            _log.warning("%s cannot be used and is made again: %s", self._path, error)
        return CodeIndex(self._codebooks), 0

    def _catch_up(self) -> None:
        try:
            change, numbers, codes, removed = self._store.changes_since(
                self._change, len(self._codebooks)
            )
            # New ones first, so that an item being replaced is never missing to other threads.
            self._index.add(codes, ids=numbers)
            self._index.remove(removed)
        except CollectionError:
            raise
        except AcqhError as error:
            raise CorruptBundleError(
                f"{self._path} does not fit {self._store.path}: {error}; remove {self._path.name} "
                "and open the collection again"
            ) from error
        self._change = change

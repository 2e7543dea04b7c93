"""The index of a collection: a cache of the codes in SQLite, never more."""

import logging
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acqh._core.arrays import Floats
from acqh.collection.store.store import Store
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
    """The index, as up to date as the store whenever it is asked for.

    Items are known to it by their numbers. What is saved says which change it holds last; a
    saved index that is missing, damaged or of other codebooks is made again from the store.

    `codebooks`: (n_codebooks, codebook_size, n_components). `path`: where it is saved.
    `generation`: of the collection; an index of another one is not used.
    """

    def __init__(self, store: Store, codebooks: Floats, path: Path, generation: str) -> None:
        self._store = store
        self.codebooks = np.ascontiguousarray(codebooks, dtype=np.float32)
        self._path = path
        self._generation = generation
        self._lock = threading.Lock()
        self._index: CodeIndex | None = None
        self._change = self._saved = 0
        self._few: tuple[int, FewCodes] | None = None
        self._is_large = False

    def __len__(self) -> int:
        few = self.few()
        if few is not None:
            return len(few)
        return len(self._store if self._index is None else self.current())

    @property
    def bytes_per_item(self) -> float:
        """Of the index, or of the codes where there are few; without ids."""
        few = self.few()
        return self.current().bytes_per_item if few is None else float(len(self.codebooks))

    def few(self) -> FewCodes | None:
        """Return the codes of all items as the store has them now, where there are few."""
        if self._is_large:
            return None
        change, few = self._few or (0, FewCodes.none(self.codebooks.transpose(0, 2, 1)))
        if self._few is None or self._store.change != change:
            if len(few) == 0 and self._store.has_more_than(MAX_FEW):
                self._is_large = True
                return None
            with self._readable():
                change, numbers, codes, gone = self._store.changes_since(
                    change, len(self.codebooks)
                )
                few = few.changed(numbers, codes, gone)
            self._is_large = len(few) > MAX_FEW
            self._few = None if self._is_large else (change, few)
        return None if self._is_large else few

    def current(self) -> "CodeIndex":
        """Return the index with every change that the store has."""
        index = self._index
        if index is not None and self._store.change == self._change:
            return index
        with self._lock:
            if self._index is None:
                found, self._change = self._load()
                self._saved = self._change
            else:
                found = self._index
            self._catch_up(found)
            index = self._index = found
        if self._change - self._saved >= max(_SAVE_AFTER, len(index) // 4):
            self._save(index)
        return index

    def save(self) -> None:
        """Save the index unless it is saved already, or cannot be; it is only a cache.

        Of few items nobody reads it.
        """
        if not self._store.connections.read_only and self.few() is None and self._is_behind():
            self._save(self.current())

    def _is_behind(self) -> bool:
        """Whether what is saved lacks a change."""
        saved = {"change": self._saved, "generation": self._generation}
        if self._index is None:
            try:
                saved = read_bundle(self._path).info["caller"]
            except (AcqhError, OSError, LookupError):
                return True
        return bool(saved != {"change": self._store.change, "generation": self._generation})

    def _save(self, index: "CodeIndex") -> None:
        if self._change == self._saved or self._store.connections.read_only:
            return
        connections = self._store.connections
        with self._lock:
            info = {"change": self._change, "generation": self._generation}
            try:
                # Nobody waits for a cache, and nobody may replace the folder while it is written.
                with connections.holding(timeout=0):
                    connections.check_in_place()
                    self._write(index, info)
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

    def _load(self) -> "tuple[CodeIndex, int]":
        from acqh.index import CodeIndex

        try:
            index = CodeIndex.load(self._path)
            change, generation = index.info.get("change"), index.info.get("generation")
            if (
                generation == self._generation
                and isinstance(change, int)
                and 0 <= change <= self._store.change
                and np.array_equal(index.codebooks, self.codebooks)
            ):
                return index, change
            _log.warning("%s is of another state; it is made again", self._path)
        except FileNotFoundError:
            pass
        except (CorruptBundleError, OSError) as error:
            _log.warning("%s cannot be used and is made again: %s", self._path, error)
        return CodeIndex(self.codebooks), 0

    def _catch_up(self, index: "CodeIndex") -> None:
        with self._readable():
            change, numbers, codes, removed = self._store.changes_since(
                self._change, len(self.codebooks)
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

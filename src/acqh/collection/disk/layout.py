"""The folder of a collection: what lies where, and the index, which is a cache of the codes."""

import logging
import os
import shutil
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh._core.store import fits, pack, unpack
from acqh.collection.disk.levels import Levels, measure_levels, phrase
from acqh.collection.disk.model import Coder, Encoders, describe
from acqh.collection.store.file import Store, identity_of, open_store, read_change, read_text
from acqh.collection.store.items import changes_since, codes_of, has_more_than, is_forgotten
from acqh.collection.types import BuildSettings
from acqh.encoders.general.model import GeneralMap
from acqh.encoders.minilm import MiniLM, QueryTable
from acqh.errors import (
    AcqhError,
    CollectionError,
    CorruptBundleError,
    InvalidInputError,
    ReplacedError,
)
from acqh.io import Bundle, read_bundle, write_bundle
from acqh.methods.registry import HOMES

if TYPE_CHECKING:
    from acqh.index import CodeIndex

KIND = "collection"
ITEMS, MODEL, INDEX = "items.sqlite", "model", "index"
_LAYOUT = 1
_UNRELATED = "unrelated queries"
# Each try again means that the folder was replaced in the meantime.
_MAX_TRIES = 16
# Texts whose vectors are kept, since people ask for the same again and turn pages; half a megabyte.
_KEPT_TEXTS, _MAX_KEPT_CHARACTERS = 1_024, 1_000

T = TypeVar("T")
_log = logging.getLogger(__name__)
# Catching up with this many changes takes about as long as reading the index.
_SAVE_AFTER = 4_096
# Of up to this many items no index is saved: their codes are read from the store as quickly.
MAX_FEW = 16_384
# Where at most one item in this many may be found, these get an index of their own.
_SMALL_PART = 16
# The fact under which levels are stored, and the part of the items whose change renews them.
_LEVELS, _CHANGED_PART = "levels", 0.05


@dataclass(frozen=True, eq=False, kw_only=True)
class Learnt:
    """What a collection has learnt, beside its model: how items are described, and from what."""

    encoders: Encoders
    trained_on: str
    n_trained: int
    asked_as: str  # how a few words are asked for; see `phrase`
    expected_error: float | None = None  # of items that are added; see `Drift`


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts(Learnt):
    """What a collection's manifest says, and its encoders."""

    name: str
    generation: str
    n_skipped: int
    version: str
    settings: BuildSettings
    unrelated: Mapping[str, Floats]  # see `unrelated_queries`


# Those that the manifest has as they are.
_PLAIN = ("generation", "trained_on", "n_trained", "n_skipped", "asked_as", "expected_error")


class IndexCache:
    """The codes of all items, at least as new as what a connection sees, whenever it is asked.

    Items are known to the index by their numbers. What is saved of it says which change it holds
    last; one that is missing, damaged or of other codebooks is made again from the store.

    `codebooks`: (n_codebooks, codebook_size, n_components). `path`: where it is saved.
    `unrelated`: see `unrelated_queries`.
    """

    def __init__(
        self, store: Store, codebooks: Floats, path: Path, unrelated: Mapping[str, Floats]
    ) -> None:
        self._store = store
        self._unrelated = unrelated
        self.codebooks = np.ascontiguousarray(codebooks, dtype=np.float32)
        self._path = path
        self._lock = threading.Lock()
        self._index: CodeIndex | None = None
        self.levels: Levels  # above which scores stand out; known once the index was asked for
        self._change = self._saved = 0

    @property
    def bytes_per_item(self) -> float:
        """Of the index as it was last asked for, without ids."""
        return 0.0 if self._index is None else self._index.bytes_per_item

    def part(self, connection: sqlite3.Connection, numbers: Ints) -> "CodeIndex | None":
        """Return an index of some items alone, where they are few of many."""
        n_items = len(self.at(connection))
        if n_items <= MAX_FEW or len(numbers) * _SMALL_PART > n_items:
            return None
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
                self._renew_levels(index, connection)
                self._index = index
            if self._change - self._saved >= max(_SAVE_AFTER, len(index) // 4):
                self._save(index)
        return index

    def _renew_levels(self, index: "CodeIndex", connection: sqlite3.Connection) -> None:
        """Measure levels where many items are others than when this was done last."""
        is_first = self._index is None
        levels = None if is_first else self.levels
        if is_first:
            levels = Levels.read(read_text(connection, _LEVELS), self.codebooks.shape[2])
        if levels is None or abs(self._change - levels.change) > _CHANGED_PART * len(index):
            levels = measure_levels(index, self._unrelated, self._change)
            self._store_levels(levels)
        self.levels = levels

    def _store_levels(self, levels: Levels) -> None:
        """Store levels unless somebody is changing the collection; they can be measured again."""
        # Of a file that was replaced there are no more connections than those in use.
        if self._store.read_only or not self._store.in_place():
            return
        try:
            with self._store.holding(timeout=0) as connection:
                self._store.check_in_place()
                connection.execute(
                    "INSERT OR REPLACE INTO facts VALUES (?, ?)", (_LEVELS, levels.stored())
                )
                connection.execute("COMMIT")
        except (CollectionError, OSError) as error:
            _log.info("what stands out of %s is not stored: %s", self._path.parent, error)

    def save(self) -> None:
        """Save the index unless it is saved already, or cannot be; it is only a cache."""
        with self._store.reading() as connection:
            if self._store.read_only or not has_more_than(connection, MAX_FEW):
                return
            index = self.at(connection)
        self._save(index)

    def _save(self, index: "CodeIndex") -> None:
        if self._change == self._saved or self._store.read_only:
            return
        with self._lock:
            try:
                # Nobody waits for a cache, and nobody may replace the folder while it is written.
                with self._store.holding(timeout=0):
                    self._store.check_in_place()
                    self._write(index)
            except CollectionError as error:
                _log.info("%s is not saved: %s", self._path, error)
                return
            except OSError as error:
                _log.warning(
                    "could not save %s, which costs time on opening: %s", self._path, error
                )
                return
            self._saved = self._change

    def _write(self, index: "CodeIndex") -> None:
        info = {"change": self._change, "generation": self._store.generation}
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
        width = len(self.codebooks)
        try:
            change, numbers, codes, removed = changes_since(connection, self._change, width)
            # New ones first, so that an item being replaced is never missing to other threads.
            index.add(codes, ids=numbers)
            index.remove(removed)
        except CollectionError:
            raise
        except AcqhError as error:
            raise CorruptBundleError(
                f"{self._path} does not fit {self._store.path}: {error}; remove {self._path.name} "
                "and open the collection again"
            ) from error
        self._change = change


@dataclass(frozen=True, eq=False)
class Opened:
    """The parts of a collection that is open; any thread may use them."""

    path: Path
    facts: Facts
    store: Store
    coder: Coder
    index: IndexCache
    by_table: bool = False  # whether texts of queries are described by the table of pieces
    # What searches chose among, by what they were restricted to; the last to be used at the end.
    selections: OrderedDict[Any, Any] = field(default_factory=OrderedDict)

    def vector_of(self, view: str, raw: Any) -> Floats | None:
        """Return the vector of an image or a text, or None where nothing of it is known."""
        if view == "text" and len(raw) <= _MAX_KEPT_CHARACTERS:
            return self._vector_of_text(raw)
        return self._described(view, raw)

    @cached_property
    def _vector_of_text(self) -> Callable[[str], Floats | None]:
        """Describes texts, but for those that were asked for not long ago."""
        return lru_cache(_KEPT_TEXTS)(partial(self._described, "text"))

    @cached_property
    def query_table(self) -> QueryTable:
        """What stands in for MiniLM in queries.

        Raises CollectionError: texts were described otherwise.
        """
        maps, chain = self.coder.maps, self.coder.maps.feature_maps.get("text")
        is_general = isinstance(chain, GeneralMap)
        if not isinstance(self.facts.encoders.get("text"), MiniLM) or not (
            "text" not in maps.units and (chain is None or is_general)
        ):
            raise CollectionError(
                "the table of pieces stands in for MiniLM alone, by which the texts of this "
                "collection were not described; search it with its own encoder"
            )
        own = maps.projections["text"], maps.intercepts["text"], maps.codebooks
        return QueryTable.of(*own, is_general=is_general)

    def _described(self, view: str, raw: Any) -> Floats | None:
        if view == "text":
            raw = phrase(raw, self.facts.asked_as)
            if self.by_table:
                return self.query_table.vector(raw)
        matrix, present = describe(self.facts.encoders[view], view, [raw])
        return self.coder.query(view, matrix) if present[0] else None


def open_folder(folder: Path, timeout: float, by_table: bool = False) -> Opened:
    """Open the parts of a collection; `timeout`: seconds that a writer waits for another one.

    Raises FileNotFoundError: there is no collection. Raises CorruptBundleError: it is damaged.
    Raises CollectionError: the table of pieces is asked for, but cannot stand in.
    """
    check_parts(folder)
    facts = read_facts(folder)
    store = open_store(folder / ITEMS, timeout=timeout)
    try:
        if store.generation != facts.generation:
            raise CorruptBundleError(f"{store.path} belongs to another collection than {folder}")
        coder = Coder.open(folder / MODEL)
        if any(
            rows.shape[1:] != coder.maps.codebooks.shape[2:] for rows in facts.unrelated.values()
        ):
            raise CorruptBundleError(f"the queries of {folder} do not fit its model")
        index = IndexCache(store, coder.maps.codebooks, folder / INDEX, facts.unrelated)
        with store.reading() as connection:
            index.at(connection)  # which says so at once where codes or changes are damaged
    except BaseException:
        store.close()
        raise
    opened = Opened(folder, facts, store, coder, index, by_table)
    if by_table:
        opened.query_table  # noqa: B018 - says so at once where it cannot stand in
    return opened


def undisturbed(
    folder: Path, look: Callable[[], T], discard: Callable[[T], None] | None = None
) -> T:
    """Return what a look at a folder gives; look again where it was replaced meanwhile.

    What a disturbed look gave is given to `discard`.

    Raises ReplacedError: it was replaced again and again.
    """
    for _ in range(_MAX_TRIES):
        before = identity_of(folder)
        try:
            found = look()
        except ReplacedError:
            continue
        except Exception:
            if identity_of(folder) == before:
                raise
            continue
        if identity_of(folder) == before:
            return found
        if discard is not None:
            discard(found)
    raise ReplacedError(f"{folder} was replaced again and again while it was read; try later")


def check_parts(folder: Path) -> None:
    """Refuse parts that lie elsewhere.

    Raises CorruptBundleError: the model or the index is a link.
    """
    for part in (MODEL, INDEX):
        if (folder / part).is_symlink():
            raise CorruptBundleError(
                f"{folder / part} is a link; a collection holds its parts itself"
            )


def start_folder(folder: Path) -> None:
    """Mark an empty folder as one of ours, so that the manifest can be written when it is full."""
    write_bundle(folder, kind=KIND, arrays={})


def write_facts(folder: Path, facts: Facts) -> None:
    """Write a collection's manifest, and its encoders with it."""
    states = {view: pack(each, HOMES) for view, each in facts.encoders.items()}
    info = {
        "layout": _LAYOUT,
        "encoders": {view: description for view, (description, _) in states.items()},
        "acqh": facts.version,
        "settings": facts.settings.stored(),
        **{name: getattr(facts, name) for name in _PLAIN},
    }
    arrays = {view: state for view, (_, state) in states.items()}
    arrays[_UNRELATED] = dict(facts.unrelated)
    write_bundle(folder, kind=KIND, name=facts.name, info=info, arrays=arrays)


def read_facts(folder: Path) -> Facts:
    """Read what `write_facts` wrote.

    Raises FileNotFoundError: there is no collection. Raises CorruptBundleError: it is damaged, or
    of another layout.
    """
    bundle = _read_manifest(folder, mmap=False, verify=True)
    kinds = get_type_hints(Facts)
    plain = {name: bundle.info.get(name) for name in _PLAIN}
    match bundle.info:
        case {
            "layout": int(layout),
            "encoders": dict(descriptions),
            "acqh": str(version),
            "settings": dict(stored),
            "asked_as": "{}" | "a photo of a {}",
        } if all(fits(value, kinds[name]) for name, value in plain.items()):
            pass
        case _:
            raise CorruptBundleError(f"{folder} does not describe a collection")
    if layout != _LAYOUT:
        raise CorruptBundleError(f"{folder} has layout {layout}; this acqh reads {_LAYOUT}")
    try:
        encoders = {
            view: unpack(description, bundle.arrays(view), HOMES)
            for view, description in descriptions.items()
        }
    except InvalidInputError as error:
        raise CorruptBundleError(
            f"the encoders of {folder} cannot be read: {error}; where one is your own class, "
            "register it first with acqh.encoders.register_encoder"
        ) from error
    unrelated = bundle.arrays(_UNRELATED)
    if unrelated.keys() != {"items", "words"} or not all(
        rows.ndim == 2 and np.isfinite(rows).all() for rows in unrelated.values()
    ):
        raise CorruptBundleError(f"{folder} does not hold the queries that a collection has")
    try:
        settings = BuildSettings.from_stored(stored)
    except (InvalidInputError, AttributeError, TypeError) as error:
        raise CorruptBundleError(
            f"{folder} does not say how it was built, but {stored!r}"
        ) from error
    parts: dict[str, Any] = {**plain, "settings": settings, "unrelated": unrelated}
    return Facts(name=bundle.name, encoders=encoders, version=version, **parts)


def generation_of(path: str | os.PathLike[str]) -> str:
    """Return the generation of the collection at a path, from its manifest alone.

    Raises
    ------
    FileNotFoundError
        There is no collection.
    CorruptBundleError
        It is damaged.
    """
    return str(_read_manifest(Path(path)).info.get("generation"))


def _read_manifest(folder: Path, **how: bool) -> Bundle:
    try:
        return read_bundle(folder, kind=KIND, **how)
    except FileNotFoundError:
        if not folder.exists():
            raise
    made = folder.parent / f"{folder.name if folder.is_dir() else folder.stem}.acqh"
    advice = f"give {made}" if made.exists() else "acqh build makes one of a folder or a table"
    raise FileNotFoundError(f"{folder} is not a collection; {advice}")


def size_on_disk(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # SQLite's log comes and goes
            total += file.stat().st_size if file.is_file() else 0
    return total

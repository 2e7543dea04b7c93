"""An open collection: its parts, its index, a cache of the codes, and confidence thresholds."""

import json
import logging
import math
import shutil
import sqlite3
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from acqh._core.arrays import Floats, Ints, unit_rows
from acqh._core.fields import KINDS
from acqh._core.files import parse_json
from acqh.collection.generations import (
    ITEMS,
    Lease,
    read_pointer,
    remove_unused,
    use_current,
)
from acqh.collection.model import (
    INDEX,
    MODEL,
    Coder,
    Facts,
    check_parts,
    encode_view,
    names_of_things,
    phrase,
    read_facts,
)
from acqh.collection.store.file import (
    Store,
    UntilChange,
    checksum,
    open_store,
    read_revision,
    read_text,
)
from acqh.collection.store.items import (
    Counts,
    ItemCache,
    changes_since,
    codes_of,
    count_all,
    has_more_than,
    is_forgotten,
    numbers_of_kinds,
)
from acqh.collection.store.vocabulary import WordIndex
from acqh.encoders.builtin import BuiltinMap
from acqh.encoders.languages import encode_other
from acqh.encoders.minilm import MiniLM, QueryTable
from acqh.encoders.named import encode_one
from acqh.errors import AcqhError, CollectionError, CorruptBundleError, ReplacedError

if TYPE_CHECKING:
    from acqh.index import CodeIndex

_log = logging.getLogger(__name__)
# Texts whose vectors are kept, since people ask for the same again and turn pages; half a megabyte.
_KEPT_TEXTS, _MAX_KEPT_CHARACTERS = 1_024, 1_000
# Catching up with this many changes takes about as long as reading the index.
_SAVE_AFTER = 4_096
# Of up to this many items no index is saved: their codes are read from the store as quickly.
MAX_FEW = 16_384
# Up to this many items, searches scan all codes.
_SCAN_ROWS = 131_072
# Where at most one item in this many may be found, these get an index of their own.
_SMALL_PART = 16
# The fact under which levels are stored, and the part of the items whose change renews them.
LEVELS, _CHANGED_PART = "levels", 0.05
# One query in twenty about something that no item has anything to do with shows a hit above it.
_CHANCE = 0.05
# Exponents of the length of queries, and of texts for photos without captions. Chosen on 1,000
# photos of COCO and 1,000 of Flickr without results here: the area under the curve of nouns that
# captions or labels name, and of others, is 0.95 and 0.94; with 0.5 it is 0.90 and 0.92. With 2 it
# is the same, but 29 % instead of 13 % and 21 % of the present things have no confident match.
_LENGTH, _TEXT_LENGTH = 0.5, 1.75
# Rounding of unit lengths in half precision.
_ROUNDED = 0.01
# No level is below this part of the highest score: a few groups of like items have a level of zero,
# above which all hits would be equal.
_LEAST_PART = 0.1
# Items by which levels are measured.
_MAX_ITEMS = 2_048
# How often one change is tried on collections that are retrained meanwhile.
_MAX_RETRAININGS = 16

T = TypeVar("T")


class Levels(NamedTuple):
    """Thresholds of confident matches, as shares of a query's length."""

    text: float
    item: float  # for images, items and all else
    text_length: float  # exponent of the length of texts; see `lengths`
    squares: Floats  # (n_components,): of the items' vectors, on average
    revision: int  # of the collection, up to which this was measured

    @classmethod
    def read(cls, stored: str, n_components: int) -> "Levels | None":
        """Return what `stored` gave, or None where it is nothing of the kind."""
        try:
            digest, *values = parse_json(stored)
            text, item, text_length, squares, revision = values
            numbers = np.array([text, item, text_length, *squares], dtype=np.float32)
            shares = float(text), float(item), float(text_length)
            levels = cls(*shares, numbers[3:], int(revision))
        except (ValueError, TypeError, OverflowError):
            return None
        is_whole = digest == checksum(json.dumps(values)) and len(squares) == n_components
        return levels if is_whole and np.isfinite(numbers).all() and numbers.min() >= 0 else None

    def stored(self) -> str:
        """Return them as JSON, behind their checksum."""
        values = [self.text, self.item, self.text_length, self.squares.tolist(), self.revision]
        return json.dumps([checksum(json.dumps(values)), *values])

    def limits(self, queries: Floats, *, is_text: bool) -> Floats:
        """Return the scores above which hits are confident, of one query or several."""
        level, length = (self.text, self.text_length) if is_text else (self.item, _LENGTH)
        return level * lengths(queries, self.squares, length)


def lengths(queries: Floats, squares: Floats, exponent: float) -> Floats:
    """Return by what the scores of queries are divided, (n_queries,).

    `queries`: (n_queries, n_components). `squares`: see `Levels`. A power of their length times the
    square root of how far items spread along them: along what many items have, such as people, a
    confident match needs a higher score. By the built-in model, the vectors of texts are longer,
    the less photos have to do with them, so a higher power counts.
    """
    squared = queries * queries
    return np.asarray(squared.sum(axis=-1) ** (exponent / 2) * (squared @ squares) ** 0.25)


def measure_levels(index: "CodeIndex", queries: Mapping[str, Floats], revision: int) -> Levels:
    """Return the levels of items as they are now; `queries`: see `unrelated_queries`."""
    from statistics import NormalDist

    if not len(index):
        return Levels(0.0, 0.0, _LENGTH, index.codebooks[0, 0] * 0, revision)
    codes = index.codes[:: math.ceil(len(index) / _MAX_ITEMS)]
    vectors = index.codebooks[np.arange(codes.shape[1]), codes].sum(axis=1)
    squares = np.square(vectors).mean(axis=0)
    items, words = (queries[name].astype(np.float32) for name in ("items", "words"))
    norms = np.linalg.norm(words, axis=1) if len(words) else np.ones(1)
    has_lengths = bool(np.ptp(norms) > _ROUNDED)
    text_length = _TEXT_LENGTH if has_lengths else _LENGTH
    items /= np.maximum(lengths(items, squares, _LENGTH), 1e-9)[:, np.newaxis]
    # Lengths of texts to another power make their scores smaller than those of items.
    text_scale = float(np.median(norms)) ** (_LENGTH - text_length)
    words /= np.maximum(lengths(words, squares, text_length), 1e-9)[:, np.newaxis]
    # Most items have nothing to do with each other, and the lower half of the scores is theirs
    # alone; the best of that many would be below the level in 19 of 20 cases.
    low, middle, highest = np.quantile(items @ vectors.T, [0.16, 0.5, 1.0])
    item = float(middle + (middle - low) * NormalDist().inv_cdf((1 - _CHANCE) ** (1 / len(index))))
    text = item
    if len(words):
        text = float(np.quantile(index.search(words, 1).scores[:, 0], 1 - _CHANCE))
    least = _LEAST_PART * max(float(highest), 0.0)
    text = max(text, text_scale * least)
    return Levels(text, max(item, least), text_length, squares, revision)


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
        self.levels: Levels  # thresholds of confident matches; set once the index is read
        self._revision = self._saved = 0
        self._levels_revision = -1  # of the levels that are stored

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

        stored_numbers, codes = codes_of(connection, numbers, len(self.codebooks))
        return CodeIndex(self.codebooks).add(codes, ids=stored_numbers)

    def at(self, connection: sqlite3.Connection, revision: int | None = None) -> "CodeIndex":
        """Return the index with every change that a connection sees; `revision`: the last one."""
        index = self._index
        revision = read_revision(connection) if revision is None else revision
        if index is None or revision > self._revision:
            with self._lock:
                index = self._index
                if index is None or is_forgotten(self._revision, revision):
                    index, self._revision = self._load(revision)
                    self._saved = self._revision
                if revision > self._revision:
                    self._catch_up(index, connection)
                self._renew_levels(index, connection)
                index.scan_rows = _SCAN_ROWS
                self._index = index
            if self._revision - self._saved >= max(_SAVE_AFTER, len(index) // 4):
                self._save(index)
        return index

    def _renew_levels(self, index: "CodeIndex", connection: sqlite3.Connection) -> None:
        """Measure levels where many items are others than when this was done last."""
        is_first = self._index is None
        levels = None if is_first else self.levels
        if is_first:
            levels = Levels.read(read_text(connection, LEVELS), self.codebooks.shape[2])
            self._levels_revision = -1 if levels is None else levels.revision
        if levels is None or abs(self._revision - levels.revision) > _CHANGED_PART * len(index):
            levels = measure_levels(index, self._unrelated, self._revision)
        self.levels = levels

    def measure_levels(self, words: Floats) -> Levels:
        """Return the levels for other query vectors of unrelated words, (n_words, n_components)."""
        queries = {**self._unrelated, "words": words}
        levels, index = self.levels, self._index
        return levels if index is None else measure_levels(index, queries, levels.revision)

    def save(self) -> None:
        """Save levels and index unless that was done, or cannot be; they can be made again."""
        if self._index is None or self._store.read_only:
            return
        if self.levels.revision != self._levels_revision:
            self._keep(self._store_levels, "levels")
        with self._store.reading() as connection:
            if not has_more_than(connection, MAX_FEW):
                return
            index = self.at(connection)
        self._save(index)

    def _save(self, index: "CodeIndex") -> None:
        if self._revision == self._saved or self._store.read_only:
            return
        with self._lock:
            self._keep(lambda _: self._write(index), "index")

    def _keep(self, write: Callable[[sqlite3.Connection], None], part: str) -> None:
        """Write unless somebody changes or replaced the collection: nobody waits for a cache."""
        try:
            with self._store.holding(timeout=0) as connection:
                write(connection)
        except CollectionError as error:
            _log.info("the %s of %s is not saved: %s", part, self._path.parent, error)
        except OSError as error:
            _log.warning(
                "could not save the %s of %s, which costs time on opening: %s",
                part, self._path.parent, error,
            )  # fmt: skip

    def _store_levels(self, connection: sqlite3.Connection) -> None:
        row = LEVELS, self.levels.stored()
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)
        connection.execute("COMMIT")
        self._levels_revision = self.levels.revision

    def _write(self, index: "CodeIndex") -> None:
        info = {"revision": self._revision, "generation": self._store.generation}
        try:
            index.save(self._path, info=info)
        except FileExistsError:
            # Too damaged to be detected as an index; its name and folder are those of one.
            shutil.rmtree(self._path)
            index.save(self._path, info=info)
        self._saved = self._revision

    def _load(self, last: int) -> "tuple[CodeIndex, int]":
        """Return the saved index and the change it holds last; an empty one where none is."""
        from acqh.index import CodeIndex

        try:
            index = CodeIndex.load(self._path)
            revision = index.info.get("revision")
            if (
                isinstance(revision, int)
                and 0 <= revision <= last
                and not is_forgotten(revision, last)
                and index.info.get("generation") == self._store.generation
                and np.array_equal(index.codebooks, self.codebooks)
            ):
                return index, revision
            _log.warning("%s is of another state; it is made again", self._path)
        except FileNotFoundError:
            pass
        except (CorruptBundleError, OSError) as error:
            _log.warning("%s cannot be used and is made again: %s", self._path, error)
        return CodeIndex(self.codebooks), 0

    def _catch_up(self, index: "CodeIndex", connection: sqlite3.Connection) -> None:
        width = len(self.codebooks)
        try:
            revision, numbers, codes, removed = changes_since(connection, self._revision, width)
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
        self._revision = revision


class State:
    """Cache of what searches read from one state of the store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.revision = read_revision(connection)
        self.items = ItemCache()
        self.words = WordIndex(n_items=self.revision)
        self.detected_words = WordIndex(is_detected=True)
        # Numbers of screenshots, scans and drawings, read by the first text query.
        self._other_kinds: frozenset[int] | None = None
        # Numbers of items and their index by the filters; the last to be used at the end.
        self.selections: OrderedDict[Any, tuple[Ints, CodeIndex | None]] = OrderedDict()

    def other_kinds(self, connection: sqlite3.Connection) -> frozenset[int]:
        """Return the numbers of the images that are no photos."""
        if self._other_kinds is None:
            self._other_kinds = numbers_of_kinds(connection, KINDS[1:])
        return self._other_kinds


@dataclass(frozen=True, eq=False)
class Opened:
    """The parts of a generation that is open; any thread may use them."""

    lease: Lease
    facts: Facts
    store: Store
    coder: Coder
    index: IndexCache
    is_fast: bool = False  # whether static token embeddings encode query texts
    state: UntilChange["State"] = field(default_factory=lambda: UntilChange(State))
    counts: UntilChange[Counts] = field(default_factory=lambda: UntilChange(count_all))
    # By the text, and whether it is in another language than English.
    text_vectors: dict[tuple[str, bool], Floats | None] = field(default_factory=dict)
    fast_levels: dict[int, Levels] = field(default_factory=dict)  # by revision

    def close(self) -> None:
        """Save the index and close all files; safe to call twice."""
        if not self.store.closed:
            try:
                self.index.save()
            finally:
                _release(self.store, self.lease)

    def vector_of(self, view: str, raw: Any, *, is_other: bool = False) -> Floats | None:
        """Return the query vector of an image or a text, None if nothing of it is known.

        `is_other`: whether a text that MiniLM would encode is in another language than English.
        """
        if view == "text" and (raw, is_other) in self.text_vectors:
            return self.text_vectors[raw, is_other]
        query = phrase(raw, self.facts.asked_as) if view == "text" else raw
        vector: Floats | None
        if is_other:
            vector = self.coder.query(view, encode_other([query]))
        elif view == "text" and self.is_fast:
            vector = self.fast_encoder.vector(query)
        elif view == "text" and (encode := encode_one(self.facts.encoders[view])) is not None:
            row = encode(query)
            vector = self.coder.query(view, row[np.newaxis]) if row.any() else None
        else:
            encoder = self.facts.encoders[view]
            if isinstance(encoder, MiniLM):  # its own language is that of captions
                encoder = SimpleNamespace(transform=encoder.transform_english)
            matrix, present = encode_view(encoder, view, [query])
            vector = self.coder.query(view, matrix) if present[0] else None
        if view == "text":
            self._keep(raw, is_other, vector)
        return vector

    def encode_together(self, texts: Iterable[str]) -> None:
        """Encode English texts by one run of MiniLM, so that `vector_of` has their vectors.

        The network reads its weights once for all: 1.5 instead of 2.7 ms for each of four.
        """
        new = [text for text in dict.fromkeys(texts) if (text, False) not in self.text_vectors]
        if not new:
            return
        encoder: MiniLM = self.facts.encoders["text"]
        rows = encoder.transform_english([phrase(text, self.facts.asked_as) for text in new])
        for text, row in zip(new, rows, strict=True):
            is_known = row.any()
            self._keep(text, False, self.coder.query("text", row[np.newaxis]) if is_known else None)

    def _keep(self, text: str, is_other: bool, vector: Floats | None) -> None:
        if len(text) <= _MAX_KEPT_CHARACTERS:
            if len(self.text_vectors) >= _KEPT_TEXTS:
                self.text_vectors.clear()
            self.text_vectors[text, is_other] = vector

    def levels_of(self, *, is_fast: bool) -> Levels:
        """Return the thresholds for query texts of the fast encoder, or of the collection's."""
        levels = self.index.levels
        if not is_fast:
            return levels
        if levels.revision not in self.fast_levels:
            vectors = map(self.fast_encoder.vector, names_of_things(self.facts.asked_as))
            # Static embeddings of unknown words are short, not long: their length counts as usual.
            words = unit_rows(np.array([vector for vector in vectors if vector is not None]))
            self.fast_levels.clear()
            self.fast_levels[levels.revision] = self.index.measure_levels(words)
        return self.fast_levels[levels.revision]

    @cached_property
    def fast_encoder(self) -> QueryTable:
        """The encoder of query texts that replaces MiniLM.

        Raises CollectionError: the collection was built with another text encoder.
        """
        maps, chain = self.coder.maps, self.coder.maps.feature_maps.get("text")
        is_builtin = isinstance(chain, BuiltinMap)
        if not isinstance(self.facts.encoders.get("text"), MiniLM) or not (
            "text" not in maps.units and (chain is None or is_builtin)
        ):
            raise CollectionError(
                "query_encoder='fast' replaces MiniLM, but this collection was built with another "
                "text encoder; open it with query_encoder='default'"
            )
        arrays = maps.projections["text"], maps.intercepts["text"], maps.codebooks
        return QueryTable.of(*arrays, is_builtin=is_builtin)


def open_current(path: Path, timeout: float, is_fast: bool = False) -> Opened:
    """Open the current generation; `timeout`: seconds that a writer waits for another one.

    Raises FileNotFoundError: there is no collection. Raises CorruptBundleError: it is damaged.
    Raises CollectionError: the fast encoder cannot replace that of the collection.
    """
    lease = use_current(path)
    store = None
    try:
        folder = lease.folder
        check_parts(folder)
        facts = read_facts(folder)
        store = open_store(folder / ITEMS, timeout=timeout, check_current=lease.check_current)
        if not store.generation == facts.generation == folder.name:
            raise CorruptBundleError(f"{store.path} belongs to another collection than {folder}")
        coder = Coder.open(folder / MODEL)
        if any(
            rows.shape[1:] != coder.maps.codebooks.shape[2:] for rows in facts.unrelated.values()
        ):
            raise CorruptBundleError(f"the queries of {folder} do not fit its model")
        index = IndexCache(store, coder.maps.codebooks, folder / INDEX, facts.unrelated)
        with store.reading() as connection:
            index.at(connection)  # which says so at once where codes or changes are damaged
        opened = Opened(lease, facts, store, coder, index, is_fast)
        if is_fast:
            opened.fast_encoder  # noqa: B018 - raises at once if it cannot be used
    except BaseException:
        if store is not None:
            store.close()
        lease.close()
        raise
    return opened


class OpenCollection:
    """The part of `Collection` that switches to the next generation after a retraining.

    `opened`: the open generation. Searches and changes that began with one end with it.
    """

    def __init__(self, path: Path, timeout: float, is_fast: bool) -> None:
        self._how = timeout, is_fast
        self._switching = threading.Lock()
        self.opened = open_current(path, *self._how)

    def apply(self, work: Callable[[Opened], T]) -> T:
        """Return the result of work that changes items; repeat it if they were retrained meanwhile.

        Raises ReplacedError: the collection was rebuilt, moved or removed.
        """
        for _ in range(_MAX_RETRAININGS):
            opened = self.opened
            try:
                done = work(opened)
            except ReplacedError as error:
                self._switch(opened, error)
            else:
                remove_unused(opened.lease.path)
                return done
        raise ReplacedError(f"{opened.lease.path} is retrained again and again; try later")

    def _switch(self, old: Opened, error: ReplacedError) -> None:
        """Open the generation that took the place of another by retraining, or raise the error."""
        path, build = old.lease.path, old.lease.pointer.build
        with self._switching:
            if self.opened is not old:
                return
            try:
                is_retrained = read_pointer(path).build == build
            except FileNotFoundError:
                is_retrained = False
            if not is_retrained:
                raise error
            self.opened = open_current(path, *self._how)
        # Other threads may still read it.
        weakref.finalize(old, _release, old.store, old.lease)


def _release(store: Store, lease: Lease) -> None:
    store.close()
    lease.close()

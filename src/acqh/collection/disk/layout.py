"""The folder of a collection: what lies where."""

import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from acqh._core.arrays import Floats
from acqh._core.store import pack, unpack
from acqh.collection.disk.index import IndexCache
from acqh.collection.disk.model import Coder, Encoders, describe
from acqh.collection.store.connections import Store, identity_of
from acqh.collection.store.schema import open_store
from acqh.collection.types import BuildSettings
from acqh.errors import CorruptBundleError, InvalidInputError, ReplacedError
from acqh.io import read_bundle, write_bundle
from acqh.methods.state import HOMES

KIND = "collection"
ITEMS, MODEL, INDEX = "items.sqlite", "model", "index"
_LAYOUT = 1
# Each try again means that the folder was replaced in the meantime.
_MAX_TRIES = 16
# Texts whose vectors are kept, since people ask for the same again and turn pages; half a megabyte.
_KEPT_TEXTS, _MAX_KEPT_CHARACTERS = 1_024, 1_000

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Facts:
    """What a collection's manifest says, and its encoders."""

    name: str
    generation: str
    encoders: Encoders
    trained_on: str
    n_trained: int
    n_skipped: int
    version: str
    settings: BuildSettings


@dataclass(frozen=True, eq=False)
class Opened:
    """The parts of a collection that is open; any thread may use them."""

    path: Path
    facts: Facts
    store: Store
    coder: Coder
    index: IndexCache
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

    def _described(self, view: str, raw: Any) -> Floats | None:
        matrix, present = describe(self.facts.encoders.by_view[view], view, [raw])
        return self.coder.query(view, matrix) if present[0] else None


def open_folder(folder: Path, timeout: float) -> Opened:
    """Open the parts of a collection; `timeout`: seconds that a writer waits for another one.

    Raises FileNotFoundError: there is no collection. Raises CorruptBundleError: it is damaged.
    """
    check_parts(folder)
    facts = read_facts(folder)
    store = open_store(folder / ITEMS, timeout=timeout)
    try:
        if store.generation != facts.generation:
            raise CorruptBundleError(f"{store.path} belongs to another collection than {folder}")
        coder = Coder.open(folder / MODEL)
        index = IndexCache(store, coder.maps.codebooks, folder / INDEX)
        with store.reading() as connection:
            index.at(connection)  # which says so at once where codes or changes are damaged
    except BaseException:
        store.close()
        raise
    return Opened(folder, facts, store, coder, index)


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
    states = {view: pack(each, HOMES) for view, each in facts.encoders.by_view.items()}
    info = {
        "layout": _LAYOUT,
        "generation": facts.generation,
        "encoders": {view: description for view, (description, _) in states.items()},
        "trained_on": facts.trained_on,
        "n_trained": facts.n_trained,
        "n_skipped": facts.n_skipped,
        "acqh": facts.version,
        "settings": facts.settings.stored(),
    }
    arrays = {view: state for view, (_, state) in states.items()}
    write_bundle(folder, kind=KIND, name=facts.name, info=info, arrays=arrays)


def read_facts(folder: Path) -> Facts:
    """Read what `write_facts` wrote.

    Raises FileNotFoundError: there is no collection. Raises CorruptBundleError: it is damaged, or
    of another layout.
    """
    bundle = read_bundle(folder, kind=KIND, mmap=False, verify=True)
    match bundle.info:
        case {
            "layout": int(layout),
            "generation": str(generation),
            "encoders": dict(descriptions),
            "trained_on": str(trained_on),
            "n_trained": int(n_trained),
            "n_skipped": int(n_skipped),
            "acqh": str(version),
            "settings": dict(stored),
        }:
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
    own = bundle.name, generation, Encoders(encoders), trained_on, n_trained, n_skipped, version
    try:
        return Facts(*own, BuildSettings.from_stored(stored))
    except (InvalidInputError, AttributeError, TypeError) as error:
        raise CorruptBundleError(
            f"{folder} does not say how it was built, but {stored!r}"
        ) from error


def generation_of(path: str | os.PathLike[str]) -> str:
    """Return the generation of the collection at a path, from its manifest alone.

    Raises
    ------
    FileNotFoundError
        There is no collection.
    CorruptBundleError
        It is damaged.
    """
    bundle = read_bundle(path, kind=KIND)
    return str(bundle.info.get("generation"))


def size_on_disk(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # SQLite's log comes and goes
            total += file.stat().st_size if file.is_file() else 0
    return total

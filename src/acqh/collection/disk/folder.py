"""The folder of a collection: what lies where, and how a new one takes the place of an old one."""

import ctypes
import io
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np

from acqh._core.arrays import Floats
from acqh._core.files import check_target, sync, sync_directory
from acqh._core.store import fits, pack, unpack
from acqh.collection.disk.model import Encoders
from acqh.collection.store.file import Store, identity_of, translated
from acqh.collection.types import BuildSettings
from acqh.errors import AcqhError, CorruptBundleError, InvalidInputError, ReplacedError
from acqh.io import Bundle, read_bundle, write_bundle
from acqh.methods.registry import HOMES

if sys.platform != "win32":
    import fcntl

KIND = "collection"
ITEMS, MODEL, INDEX = "items.sqlite", "model", "index"
_LAYOUT = 1
_UNRELATED = "unrelated queries"
# Each try again means that the folder was replaced in the meantime.
_MAX_TRIES = 16
# How long a build that is done waits for those who are changing what it replaces.
_SWAP_TIMEOUT_SECONDS = 300.0
_NEW, _OLD = "new", "old"
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux
_HERE = -100  # AT_FDCWD

T = TypeVar("T")


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
    site_key: str  # secret of published ids; retraining and overwriting keep it
    n_skipped: int
    version: str
    settings: BuildSettings
    unrelated: Mapping[str, Floats]  # see `unrelated_queries`


# Those that the manifest has as they are.
_PLAIN = (
    *("generation", "site_key", "trained_on", "n_trained", "n_skipped", "asked_as"),
    "expected_error",
)


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


def site_key_of(path: Path) -> str:
    """Return the site key of the collection at a path, or a new one if it has none."""
    try:
        key = _read_manifest(path).info.get("site_key")
    except (FileNotFoundError, CorruptBundleError):
        key = None
    return key if isinstance(key, str) else secrets.token_hex(16)


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


@contextmanager
def replacing(path: Path, *, overwrite: bool, hold: bool = False) -> Iterator[Path]:
    """Give a new folder that takes the path's place when the block ends well.

    Whatever happens, the path is afterwards what it was before, or the whole new folder. Nobody
    changes the old collection while its place is taken: a change has ended before, and is gone
    with the old collection, or it comes after, and finds that it was replaced. `hold`: nobody
    changes it from the beginning on, so that nothing is lost; it can be read all the time.

    Raises FileExistsError: the path exists, and is not to be replaced or is not a collection.
    Raises FileNotFoundError: the folder it would be in does not exist.
    """
    _check_target(path, overwrite)
    remove_leftovers(path)
    with ExitStack() as held, _workplace(path) as workplace:
        if hold:
            held.enter_context(_nobody_changes(path))
        folder = workplace / _NEW
        folder.mkdir()
        yield folder
        _sync_tree(folder)
        _check_target(path, overwrite)
        if not hold:
            held.enter_context(_nobody_changes(path))
        _put_in_place(folder, path)


def leftovers(path: Path) -> list[Path]:
    """Return the folders beside a path that builds of it left when they were killed.

    A build keeps its folder locked for as long as it lives. Systems without such locks are not
    looked at, since there the dead could not be told from the living.
    """
    if sys.platform == "win32" or not path.parent.is_dir():
        return []
    pattern = re.compile(rf"\.{re.escape(path.name)}-[0-9a-f]{{16}}\.partial")
    found = []
    for folder in sorted(path.parent.iterdir()):
        # What was moved aside may be all that there is.
        if pattern.fullmatch(folder.name) and (path.exists() or not (folder / _OLD).exists()):
            with _locked(folder) as free:
                found += [folder] * free
    return found


def remove_leftovers(path: str | os.PathLike[str]) -> int:
    """Remove what killed builds of a collection left beside it.

    Builds that are still at work are left alone. `Collection.build` does this first.

    Parameters
    ----------
    path : path-like
        Of the collection.

    Returns
    -------
    int
        How many bytes that was.

    Examples
    --------
    >>> remove_leftovers("there-is-none.acqh")
    0
    """
    n_bytes = 0
    for folder in leftovers(Path(path)):
        with _locked(folder) as free:
            if free:
                n_bytes += size_on_disk(folder)
                shutil.rmtree(folder, ignore_errors=True)
    return n_bytes


@contextmanager
def _workplace(path: Path) -> Iterator[Path]:
    """Make a hidden folder beside a path, locked so that all can see that its maker lives."""
    while True:
        folder = path.parent / f".{path.name}-{secrets.token_hex(8)}.partial"
        folder.mkdir()
        with _locked(folder) as mine:
            # Before it was locked, somebody may have taken it for one that was left.
            if mine and folder.is_dir():
                try:
                    yield folder
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                return


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock a folder unless somebody else has; say whether that was done."""
    if sys.platform == "win32":
        yield True
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        except OSError:
            mine = False
        yield mine
    finally:
        os.close(descriptor)


def _check_target(path: Path, overwrite: bool) -> None:
    if not (overwrite and path.exists()):
        check_target(path, overwrite=False)
        return
    try:
        read_bundle(path, kind=KIND)
    except (AcqhError, OSError) as error:
        raise FileExistsError(f"{path} is not a collection, so it is not overwritten") from error


@contextmanager
def _nobody_changes(path: Path) -> Iterator[None]:
    """Keep everyone from changing the collection at a path, if there is one that can be changed."""
    with ExitStack() as held:
        for _ in range(_MAX_TRIES):
            try:
                with translated(path / ITEMS):
                    file = Store(path / ITEMS, timeout=_SWAP_TIMEOUT_SECONDS)
                held.enter_context(closing(file))
                if not file.read_only:
                    held.enter_context(file.holding())
            except ReplacedError:
                continue
            except (CorruptBundleError, OSError):
                break  # what cannot be opened cannot be changed by others either
            if file.in_place():
                break
        yield


def _put_in_place(folder: Path, path: Path) -> None:
    if not path.exists():
        folder.rename(path)
    elif not _exchange(folder, path):
        # Here the path is missing for a moment, and an accident would leave both folders.
        path.rename(folder.with_name(_OLD))
        folder.rename(path)
    sync_directory(path.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, where the system can."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    names = os.fsencode(one), os.fsencode(other)
    return rename is not None and rename(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0


def _sync_tree(folder: Path) -> None:
    """Wait until every file below a folder is on the disk."""
    for place, _, names in os.walk(folder):
        for name in names:
            with io.FileIO(Path(place, name)) as file:
                sync(file)
        sync_directory(Path(place))

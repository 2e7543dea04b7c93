"""Generations of a collection: which one is current, who uses it, how a new one takes its place.

``X.acqh/manifest.json`` names the folder ``X.acqh/<generation>/`` that holds the current items,
model and index. A generation is never renamed. A build, an overwrite or a retraining writes a new
one and replaces the manifest, in one step on every system.

Two locks of SQLite, which all systems have and which end with their process, are enough:

- ``lock.sqlite`` of a generation is locked, shared, by everyone who reads or builds it. One that
  is neither current nor locked is removed.
- The write lock of ``items.sqlite`` is held while another generation takes the place of this one.
  A writer checks, with that lock, that its generation is current.
"""

import os
import re
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from acqh._core.files import check_target, names, rename, retry, sync_directory, sync_file
from acqh.collection.store.file import Store, check_plain
from acqh.errors import AcqhError, CorruptBundleError, InvalidInputError, ReplacedError
from acqh.io.manifest import MANIFEST_NAME, Manifest, in_words, read_manifest
from acqh.io.write import replace_file

KIND = "collection"
ITEMS, LOCK = "items.sqlite", "lock.sqlite"
_LAYOUT = 2
_NAME = re.compile(r"[0-9a-f]{16}")
# Each try again means that another build has ended in the meantime.
_MAX_TRIES = 16
# How long a finished build waits for those who are changing what it replaces.
_SWAP_TIMEOUT_SECONDS = 300.0


class Pointer(NamedTuple):
    """Contents of the manifest of a collection."""

    generation: str  # name of its folder
    build: str  # the generation that was built; retraining keeps it


def read_pointer(path: Path) -> Pointer:
    """Return the current generation of the collection at a path.

    Raises FileNotFoundError: there is no collection. Raises CorruptBundleError: its manifest is
    damaged, or of another layout.
    """
    try:
        manifest = retry(lambda: read_manifest(path, KIND))
    except (FileNotFoundError, CorruptBundleError) as error:
        is_missing = isinstance(error, FileNotFoundError) or is_vacant(path)
        if not (is_missing and path.exists()):
            raise
        usual = path.parent / f"{path.name if path.is_dir() else path.stem}.acqh"
        advice = (
            f"give {usual}" if usual.exists() else "acqh build makes one of a folder or a table"
        )
        raise FileNotFoundError(f"{path} is not a collection; {advice}") from None
    if manifest.kind != KIND:
        raise InvalidInputError(f"{path} is {in_words(manifest.kind)}, not {in_words(KIND)}")
    match manifest.info:
        case {"layout": int(layout)} if layout != _LAYOUT:
            raise CorruptBundleError(
                f"{path} has layout {layout}; this acqh reads {_LAYOUT}: build the collection again"
            )
        case {"generation": str(generation), "build": str(build)} if _NAME.fullmatch(generation):
            return Pointer(generation, build)
    raise CorruptBundleError(f"{path} has a manifest that names no generation")


def generation_of(path: str | os.PathLike[str]) -> str:
    """Return the current generation of the collection at a path, from its manifest alone.

    Raises
    ------
    FileNotFoundError
        There is no collection.
    CorruptBundleError
        It is damaged.
    """
    return read_pointer(Path(path)).generation


def current_folder(path: Path) -> Path:
    """Return the folder of the current generation; raise what `read_pointer` does."""
    return path / read_pointer(path).generation


@dataclass(frozen=True, eq=False)
class Lease:
    """A generation in use: nobody removes its folder before `close`."""

    path: Path  # of the collection
    pointer: Pointer
    lock: sqlite3.Connection

    @property
    def folder(self) -> Path:
        """The folder of the generation."""
        return self.path / self.pointer.generation

    def check_current(self) -> None:
        """Raise ReplacedError if another generation is current."""
        if _current(self.path) != self.pointer:
            raise ReplacedError(
                f"{self.path} was rebuilt, moved or removed since it was opened, and what was "
                "opened can no longer be changed; open it again"
            )

    def close(self) -> None:
        """Stop using the generation; remove it if it is not current and nobody else uses it."""
        self.lock.close()
        if _current(self.path) != self.pointer:
            remove_unused(self.path)


def use_current(path: Path) -> Lease:
    """Use the current generation of a collection.

    Raises FileNotFoundError: there is no collection. Raises CorruptBundleError: it is damaged.
    Raises ReplacedError: it was replaced again and again meanwhile.
    """
    for _ in range(_MAX_TRIES):
        pointer = read_pointer(path)
        folder = path / pointer.generation
        if folder.is_symlink():
            raise CorruptBundleError(f"{folder} is a link; a collection holds its parts itself")
        check_plain(folder / LOCK)
        lock = _share(folder / LOCK)
        if _current(path) == pointer:  # so that nobody has removed it before it was locked
            if not folder.is_dir():
                raise CorruptBundleError(f"{folder} is missing; build the collection again")
            return Lease(path, pointer, lock)
        lock.close()
    raise ReplacedError(f"{path} was replaced again and again while it was opened; try later")


def _share(file: Path) -> sqlite3.Connection:
    """Lock the file of a generation until the connection is closed, together with others."""
    try:
        return _lock(file, "DEFERRED", _SWAP_TIMEOUT_SECONDS)
    except sqlite3.Error:
        # Where no such file can be, there is no right to write, or nothing to be locked.
        return sqlite3.connect(":memory:")


def _lock(file: Path, how: str, timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?mode=rwc",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA journal_mode = MEMORY")  # no second file
        connection.execute(f"BEGIN {how}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def is_vacant(path: Path) -> bool:
    """Whether a collection can be built at a path: nothing but remains of killed builds is there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     is_vacant(Path(folder, "c.acqh")), is_vacant(Path(folder)), is_vacant(Path(__file__))
    (True, True, False)
    """
    if not path.is_dir():
        return not os.path.lexists(path)
    manifest = path / MANIFEST_NAME
    return all(
        _NAME.fullmatch(name) or (name == MANIFEST_NAME and manifest.stat().st_size == 0)
        for name in names(path)
    )


@contextmanager
def new_generation(path: Path, *, overwrite: bool, build: str = "") -> Iterator[Path]:
    """Give an empty folder that becomes the current generation when the block ends well.

    Whatever happens, the path is afterwards what it was before, or the new collection. A change of
    the generation before has ended by then, or comes after and finds that it was replaced.

    `build`: of the current generation, if this one has its items; the caller holds its write lock.

    Raises FileExistsError: the path exists, and is not to be replaced or is not a collection.
    Raises FileNotFoundError: the folder it would be in does not exist.
    """
    _check_target(path, overwrite)
    remove_unused(path)
    lease = _create(path, build)
    try:
        yield lease.folder
        _sync_tree(lease.folder)
        _make_current(lease, overwrite, is_held=bool(build))
    finally:
        lease.lock.close()
        remove_unused(path)  # this one, or the one before
        with suppress(OSError):
            path.rmdir()  # if nothing came of a first build


def _check_target(path: Path, overwrite: bool) -> None:
    if is_vacant(path):
        if not path.exists():
            check_target(path, overwrite=False)
    elif not overwrite:
        raise FileExistsError(f"{path} already exists; give another path, or overwrite=True")
    elif _current(path) is None:
        raise FileExistsError(f"{path} is not a collection, so it is not overwritten")


def _create(path: Path, build: str) -> Lease:
    """Create an empty generation, in use from the beginning."""
    for _ in range(_MAX_TRIES):
        name = secrets.token_hex(8)
        with suppress(FileNotFoundError):  # another build has failed and removed the path
            (path / name).mkdir(parents=True)
            lock = _share(path / name / LOCK)
            # Before it was locked, somebody may have taken it for one that was left.
            if (path / name / LOCK).exists():
                return Lease(path, Pointer(name, build or name), lock)
            lock.close()
    raise ReplacedError(f"{path} is removed again and again by others; try later")


def _make_current(lease: Lease, overwrite: bool, *, is_held: bool) -> None:
    """Replace the manifest while nobody changes the generation that it names."""
    path, written = lease.path, lease.folder / MANIFEST_NAME
    info = {"layout": _LAYOUT, **lease.pointer._asdict()}
    replace_file(written, Manifest(KIND, "", info).to_bytes())
    for n_tries in range(_MAX_TRIES):
        _check_target(path, overwrite)
        old = _current(path)
        with nullcontext() if is_held or old is None else _unchanging(path / old.generation):
            if _current(path) == old if old else _is_first(path / MANIFEST_NAME, n_tries):
                rename(written, path / MANIFEST_NAME)
                sync_directory(path)
                return
        time.sleep(0.05)
    raise ReplacedError(f"{path} is replaced again and again by other builds; try later")


def _is_first(manifest: Path, n_tries: int) -> bool:
    """Whether this build, of several that make a new collection, may replace the manifest.

    That is the one which creates it. One that stays empty is of a build that was killed then.
    """
    try:
        manifest.touch(exist_ok=False)
    except FileExistsError:
        return n_tries + 1 == _MAX_TRIES
    return True


def _current(path: Path) -> Pointer | None:
    with suppress(AcqhError, OSError):
        return read_pointer(path)
    return None


@contextmanager
def _unchanging(folder: Path) -> Iterator[None]:
    """Keep everyone from changing a generation, if it can be changed."""
    try:
        store = Store(folder / ITEMS, timeout=_SWAP_TIMEOUT_SECONDS)
    except (CorruptBundleError, OSError):
        yield  # what cannot be opened cannot be changed by others either
        return
    with closing(store), nullcontext() if store.read_only else store.holding():
        yield


def others(path: Path) -> list[Path]:
    """Return the folders of generations that are not current."""
    if not path.is_dir():
        return []
    pointer = _current(path)
    current = "" if pointer is None else pointer.generation
    return [path / name for name in names(path) if _NAME.fullmatch(name) and name != current]


def remove_unused(path: str | os.PathLike[str]) -> int:
    """Remove generations of a collection that are not current and that nobody uses or builds.

    Every build and every change of a collection does this. What cannot be removed now is left to
    the next one.

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
    >>> remove_unused("there-is-none.acqh")
    0
    """
    n_bytes = 0
    with suppress(OSError):
        for folder in others(Path(path)):
            with suppress(OSError, sqlite3.Error):
                n_bytes += _remove_unused(folder)
    return n_bytes


def _remove_unused(folder: Path) -> int:
    """Remove a generation; raise sqlite3.Error if somebody uses it."""
    entries = names(folder)
    if not entries:
        folder.rmdir()  # unless somebody has begun to build there
        return 0
    if LOCK in entries:  # otherwise its removal was interrupted
        with closing(_lock(folder / LOCK, "EXCLUSIVE", timeout=0)), suppress(OSError):
            # Now, before another can lock it; Windows removes no file that is open.
            (folder / LOCK).unlink()
    n_bytes = size_on_disk(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return n_bytes


def size_on_disk(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError):  # logs and generations come and go
                total += Path(place, name).stat().st_size
    return total


def _sync_tree(folder: Path) -> None:
    """Wait until every file below a folder is on the disk."""
    for place, _, files in os.walk(folder):
        for name in files:
            # Closing a file ends the locks that its process has on it.
            if name != LOCK:
                sync_file(Path(place, name))
        sync_directory(Path(place))

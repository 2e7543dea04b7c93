"""How a new collection takes the place of an old one, and what killed builds leave."""

import ctypes
import io
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from acqh._core.files import check_target, sync, sync_directory
from acqh.collection.disk.layout import ITEMS, KIND, size_on_disk
from acqh.collection.store.file import Store, translated
from acqh.errors import AcqhError, CorruptBundleError, ReplacedError
from acqh.io import read_bundle

if sys.platform != "win32":
    import fcntl

# How long a build that is done waits for those who are changing what it replaces.
_SWAP_TIMEOUT_SECONDS = 300.0
# Each try again means that another build has taken the place.
_MAX_TRIES = 16
_NEW, _OLD = "new", "old"
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux
_HERE = -100  # AT_FDCWD


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

"""Files that appear whole or not at all, and the few operations that takes.

Callers reach the operations through the module (``files.rename(...)``), so a test can make any one
of them fail.
"""

import io
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from acqh.errors import CorruptBundleError

if sys.platform != "win32":
    import fcntl

T = TypeVar("T")
# Windows neither replaces nor opens a file in the moment in which another process does.
_PATIENCE_SECONDS = 2.0


def parse_json(content: str | bytes) -> Any:
    """Parse JSON; raise ValueError for anything that cannot be parsed, also for deep nesting.

    Examples
    --------
    >>> parse_json(b'{"a": 1}')
    {'a': 1}
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: it is nested too deeply
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """Give a temporary name next to a file; it gets the file's name at the end.

    If the block fails, the target is as it was.
    """
    temporary = target.with_name(f".{target.name}-{token_hex(8)}.partial")
    try:
        yield temporary
        sync_file(temporary)
        rename(temporary, target)
    except BaseException:
        with suppress(OSError):
            unlink(temporary)
        raise
    sync_directory(target.parent)


def check_target(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Return where a file is to be written.

    Raises FileExistsError: it exists, and is not to be replaced or is not a file. Raises
    FileNotFoundError: there is no folder for it.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first")
    if target.exists() and not (overwrite and target.is_file()):
        raise FileExistsError(f"{target} already exists; give another path, or overwrite=True")
    return target


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk, if the system has a call for it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory, if it is not there, and make its entry in the parent durable."""
    if not path.is_dir():
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def create(path: Path) -> io.FileIO:
    """Open a file that does not exist yet, for unbuffered writing."""
    return io.FileIO(path, "xb")


def write(file: io.FileIO, data: memoryview) -> None:
    """Write all bytes; the system may take several calls for them."""
    while data.nbytes:
        data = data[file.write(data) :]


def sync(file: io.FileIO) -> None:
    """Wait until the file's bytes are on the disk."""
    os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Wait until the bytes of a file are on the disk."""
    with io.FileIO(path, "r+b") as file:  # some systems sync only what may be written
        sync(file)


def rename(source: Path, target: Path) -> None:
    """Give a file its name, in place of what had that name before, in one step."""
    patiently(lambda: source.replace(target))


def patiently(operation: Callable[[], T]) -> T:
    """Return what an operation gives; repeat it for a while if another process is in the way."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return operation()
        except PermissionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def names(directory: Path) -> set[str]:
    """Return the names in a directory."""
    return {entry.name for entry in directory.iterdir()}


def unlink(path: Path) -> None:
    """Remove a file."""
    path.unlink()


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other writers, threads or processes, out of a directory; the system undoes it at exit.

    Without it one writer could remove, as left over, the members another is about to name in its
    manifest. Windows and some network disks have no such lock; there writers must take turns.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def open_regular(path: Path) -> io.FileIO:
    """Open a plain file for unbuffered reading; reject links, pipes and devices.

    Raises FileNotFoundError: there is no such file. Raises CorruptBundleError: it is not a plain
    file.
    """
    if path.is_symlink():
        raise CorruptBundleError(f"{path} is a link; a bundle holds its files itself")
    # Opening a pipe must not wait for somebody to write to it.
    extra = 0 if sys.platform == "win32" else os.O_NONBLOCK
    file = io.FileIO(path, opener=lambda name, flags: os.open(name, flags | extra))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise CorruptBundleError(f"{path} is not a plain file")
    return file

"""Atomic writes of files, and the file operations that they need.

Callers use the operations through the module (``files.rename(...)``), so that tests can make each
of them fail.
"""

import io
import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import Any, TypeVar

from acqh.errors import CorruptBundleError

if sys.platform != "win32":
    import fcntl

T = TypeVar("T")
# On Windows a file cannot be replaced or opened while another process does so.
_RETRY_SECONDS = 2.0


def parse_json(content: str | bytes) -> Any:
    """Parse JSON; raise ValueError for invalid JSON, deep nesting included.

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
def atomic_write(target: Path) -> Iterator[Path]:
    """Yield a temporary path next to the target, and rename it to the target at the end.

    If the block fails, the target does not change.
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
    """Return the path of a file to write.

    Raises FileExistsError: the path exists, and `overwrite` is False or it is not a file. Raises
    FileNotFoundError: its folder does not exist.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first")
    if target.exists() and not (overwrite and target.is_file()):
        raise FileExistsError(f"{target} already exists; use another path, or overwrite=True")
    return target


def sync_directory(path: Path) -> None:
    """Flush the names in a directory to disk, if the system supports it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_directory(path: Path) -> None:
    """Create a directory if it does not exist, and flush its entry in the parent to disk."""
    if not path.is_dir():
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def create(path: Path) -> io.FileIO:
    """Create a file for unbuffered writing; it must not exist."""
    return io.FileIO(path, "xb")


def write(file: io.FileIO, data: memoryview) -> None:
    """Write all bytes, in several system calls if necessary."""
    while data.nbytes:
        data = data[file.write(data) :]


def sync(file: io.FileIO) -> None:
    """Flush the bytes of an open file to disk."""
    os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Flush the bytes of a file to disk."""
    with io.FileIO(path, "r+b") as file:  # some systems flush only writable files
        sync(file)


def rename(source: Path, target: Path) -> None:
    """Rename a file atomically; replace an existing target."""
    retry(lambda: source.replace(target))


def temporary_folder(target: Path) -> Path:
    """Return a new path next to a folder, to be renamed by `replace_folder`."""
    return target.with_name(f".{target.name}-{token_hex(8)}.partial")


def replace_folder(new: Path, target: Path, *, overwrite: bool) -> None:
    """Rename a complete folder, named by `temporary_folder`; `overwrite`: replace the target.

    The old target has another name for a moment, since no system replaces a folder in one step. If
    the process is killed then, `finish_replacing` finishes the replacement.
    """
    try:
        if overwrite and os.path.lexists(target):
            rename(target, new.with_suffix(".old"))
        rename(new, target)
    except FileNotFoundError:
        if not os.path.lexists(target):  # otherwise another process has finished it
            raise
    finally:
        finish_replacing(target)


def finish_replacing(target: Path) -> None:
    """Finish replacements of a folder that were interrupted, and remove what is left of old ones.

    Nothing is removed unless there is something at the target.
    """
    pattern = re.compile(rf"\.{re.escape(target.name)}-[0-9a-f]{{16}}\.old")
    with suppress(OSError):
        for name in filter(pattern.fullmatch, names(target.parent)):
            old = target.with_name(name)
            new = old.with_suffix(".partial")  # complete, since it was about to be renamed
            for folder in (new, old):
                if not os.path.lexists(target):
                    with suppress(OSError):
                        rename(folder, target)
            if os.path.lexists(target):
                sync_directory(target.parent)
                rmtree(new, ignore_errors=True)
                with suppress(OSError):
                    old.unlink()  # a link
                rmtree(old, ignore_errors=True)
        sync_directory(target.parent)


def retry(operation: Callable[[], T]) -> T:
    """Return the result of an operation; retry for 2 s if another process blocks it."""
    end = time.monotonic() + _RETRY_SECONDS
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
    """Lock a directory against other writers, threads or processes; exit releases the lock.

    Without the lock a writer could remove members that another is about to list in its manifest.
    Windows and some network disks have no such lock; there the user must run one writer at a time.
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
    """Open a regular file for unbuffered reading; reject links, pipes and devices.

    Raises FileNotFoundError: there is no such file. Raises CorruptBundleError: it is not a regular
    file.
    """
    if path.is_symlink():
        raise CorruptBundleError(f"{path} is a symbolic link; replace it by the file")
    # Opening a pipe must not block until there is a writer.
    extra = 0 if sys.platform == "win32" else os.O_NONBLOCK
    file = io.FileIO(path, opener=lambda name, flags: os.open(name, flags | extra))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise CorruptBundleError(f"{path} is not a regular file")
    return file

"""Files that appear whole or not at all."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """Give a temporary name beside a file; what is written there gets the file's name at the end.

    If the block fails, the target is as it was.
    """
    temporary = target.with_name(f".{target.name}-{token_hex(8)}.partial")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(target.parent)


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    if sys.platform == "win32":
        return  # Windows has no such call; its file system journals names itself.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

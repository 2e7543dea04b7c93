"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from secrets import token_hex

from acqh.io import sync_directory


def check_target(path: str | PathLike[str], *, overwrite: bool) -> Path:
    """Return where a file is to be written.

    Raises
    ------
    FileExistsError
        There is something, and it is not to be replaced or is no file.
    FileNotFoundError
        There is no folder for it.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} is not there; make it first")
    if target.exists() and not (overwrite and target.is_file()):
        raise FileExistsError(f"{target} is there already; give another path, or overwrite it")
    return target


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

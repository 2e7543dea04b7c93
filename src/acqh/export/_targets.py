"""Where a file may be written."""

from os import PathLike
from pathlib import Path


def check_target(path: str | PathLike[str], *, overwrite: bool) -> Path:
    """Return where a file is to be written.

    Raises FileExistsError: there is something, and it is not to be replaced or is no file. Raises
    FileNotFoundError: there is no folder for it.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} is not there; make it first")
    if target.exists() and not (overwrite and target.is_file()):
        raise FileExistsError(f"{target} is there already; give another path, or overwrite it")
    return target

"""The files of a named data set: where they lie, and whether they are the right ones."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from acqh.errors import ChecksumError, DatasetNotFoundError

ENVIRONMENT_VARIABLE = "ACQH_DATA"


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes
    ----------
    name : str
        File name inside the data folder.
    contents : str
        What it must hold.
    sha256 : str or None
        Checksum, where one is known.
    alternative : str or None
        Another name under which the same contents may lie, in another format.
    only_for : str or None
        The option that needs the file; None where the data set always does.
    """

    name: str
    contents: str
    sha256: str | None = None
    alternative: str | None = None
    only_for: str | None = None

    def find(self, folder: Path | None) -> Path | None:
        """Return where the file lies in a folder, or None."""
        if folder is None:
            return None
        names = (self.name,) if self.alternative is None else (self.name, self.alternative)
        return next((folder / name for name in names if (folder / name).is_file()), None)

    def describe(self) -> str:
        """Return the name and the contents in one line."""
        names = self.name if self.alternative is None else f"{self.name} (or {self.alternative})"
        return f"{names}: {self.contents}"


def data_folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder to look in: the one given, or that of the environment variable."""
    chosen = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(chosen).expanduser() if chosen else None


@dataclass(frozen=True)
class DataFolder:
    """The files of one data set in one folder, checked as they are asked for."""

    dataset: str
    source: str
    files: tuple[DataFile, ...]
    path: Path | None
    verify: bool

    def require(self, name: str) -> Path:
        """Return the path of a file, which must be there and, if `verify`, be the right one."""
        file = next(file for file in self.files if file.name == name)
        found = file.find(self.path)
        if found is None:
            raise DatasetNotFoundError(self._not_found(file))
        if self.verify and file.sha256 is not None and found.name == file.name:
            _check_sha256(found, file.sha256)
        return found

    def _not_found(self, file: DataFile) -> str:
        needed = [other for other in self.files if other.only_for is None or other is file]
        missing = [other.describe() for other in needed if other.find(self.path) is None]
        if self.path is None:
            where = f"no folder was named; give `data_dir` or set {ENVIRONMENT_VARIABLE}"
        else:
            state = "" if self.path.is_dir() else ", which is not a folder"
            where = (
                f"looked in {self.path}{state}; put them there, or name another folder with "
                f"`data_dir` or {ENVIRONMENT_VARIABLE}"
            )
        listed = "".join(f"\n  {line}" for line in missing)
        return f"data set {self.dataset!r} lacks files ({where}):{listed}\nSource: {self.source}"


def _check_sha256(path: Path, expected: str) -> None:
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != expected:
        raise ChecksumError(
            f"{path} is not the file it should be: its sha256 is {found}, expected {expected}; "
            "get it again, or pass verify=False to use it as it is"
        )

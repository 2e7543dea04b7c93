"""Locate the files of a named data set."""

import os
from dataclasses import dataclass
from pathlib import Path

from acqh.errors import DatasetNotFoundError

ENVIRONMENT_VARIABLE = "ACQH_DATA"


@dataclass(frozen=True)
class Original:
    """One file of the publisher, which ``acqh datasets prepare`` reads.

    Attributes
    ----------
    name : str
        File name, or path inside an archive.
    page : str
        Web page that offers it.
    size : str
        Size as text; empty if unknown.
    sha256 : str or None
        Checksum of the file that the converter was tested with.
    """

    name: str
    page: str
    size: str = ""
    sha256: str | None = None


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes
    ----------
    name : str
        File name inside the data folder.
    contents : str
        Expected contents.
    alternative : str or None
        Another file name with the same contents in another format.
    only_for : str or None
        The option that needs the file; None if the data set always needs it.
    """

    name: str
    contents: str
    alternative: str | None = None
    only_for: str | None = None

    def find(self, folder: Path | None) -> Path | None:
        """Return the path of the file in a folder, or None."""
        if folder is None:
            return None
        names = (self.name,) if self.alternative is None else (self.name, self.alternative)
        return next((folder / name for name in names if (folder / name).is_file()), None)

    def summary(self) -> str:
        """Return the name and the contents in one line."""
        names = self.name if self.alternative is None else f"{self.name} (or {self.alternative})"
        return f"{names}: {self.contents}"


def data_folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return `data_dir`, or else the folder that the environment variable names."""
    chosen = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(chosen).expanduser() if chosen else None


@dataclass(frozen=True)
class DataFolder:
    """The files of one data set in one folder."""

    dataset: str
    hint: str  # how to get the files
    files: tuple[DataFile, ...]
    path: Path | None
    verify: bool

    def require(self, name: str) -> Path:
        """Return the path of an existing file."""
        file = next(file for file in self.files if file.name == name)
        path = file.find(self.path)
        if path is None:
            raise DatasetNotFoundError(self._not_found(file))
        return path

    def _not_found(self, file: DataFile) -> str:
        needed = [other for other in self.files if other.only_for is None or other is file]
        missing = [other.summary() for other in needed if other.find(self.path) is None]
        if self.path is None:
            where = f"no data folder is set; pass `data_dir` or set {ENVIRONMENT_VARIABLE}"
        else:
            state = "" if self.path.is_dir() else ", which is not a folder"
            where = (
                f"searched {self.path}{state}; put them there, or pass another folder with "
                f"`data_dir` or {ENVIRONMENT_VARIABLE}"
            )
        listed = "".join(f"\n  {line}" for line in missing)
        return f"data set {self.dataset!r} lacks files ({where}):{listed}\n{self.hint}"

"""Locate the files of a named data set and verify their checksums."""

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
        Expected contents.
    sha256 : str or None
        Expected checksum; None skips the check.
    alternative : str or None
        Another file name with the same contents in another format.
    only_for : str or None
        The option that needs the file; None if the data set always needs it.
    """

    name: str
    contents: str
    sha256: str | None = None
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
    """The files of one data set in one folder, verified on access."""

    dataset: str
    source: str
    files: tuple[DataFile, ...]
    path: Path | None
    verify: bool

    def require(self, name: str) -> Path:
        """Return the path of an existing file; check its sha256 if `verify`."""
        file = next(file for file in self.files if file.name == name)
        path = file.find(self.path)
        if path is None:
            raise DatasetNotFoundError(self._not_found(file))
        if self.verify and file.sha256 is not None and path.name == file.name:
            _check_sha256(path, file.sha256)
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
        return f"data set {self.dataset!r} lacks files ({where}):{listed}\nSource: {self.source}"


def _check_sha256(path: Path, expected: str) -> None:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != expected:
        raise ChecksumError(
            f"{path} has the wrong checksum: sha256 {digest}, expected {expected}; "
            "download it again, or pass verify=False to use it as it is"
        )

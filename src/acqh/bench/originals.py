"""Files of a publisher, in a folder or in its .zip archives; nothing is unpacked to disk."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np

from acqh._core.arrays import Array
from acqh.data.datasets import DATASETS
from acqh.encoders import read_image
from acqh.errors import CorruptBundleError, DatasetNotFoundError, InvalidInputError

# Larger members of archives are rejected: the largest original, the tags of NUS-WIDE, has 0.6 GB.
_MAX_BYTES = 4 << 30
_MAX_SMALL_BYTES = 64 << 20  # of a file that is read at once: a photograph or a list
_CHUNK_LINES = 4_096


class Originals:
    """The files of a folder and of the archives in it, by name or by the last two parts of a path.

    Raises InvalidInputError for a missing folder, CorruptBundleError for a damaged archive.
    """

    def __init__(self, dataset: str, folder: Path) -> None:
        self.dataset, self.folder = dataset, folder
        self._files: dict[str, Path | tuple[ZipFile, ZipInfo]] = {}
        self._archives: list[ZipFile] = []
        if folder.is_dir():
            paths = sorted(path for path in folder.rglob("*") if path.is_file())
        elif folder.is_file():
            paths = [folder]
        else:
            raise InvalidInputError(f"no such folder: {folder}; pass the folder of the originals")
        for path in paths:
            self._add(path.parts, path)
        for path in paths:
            if path.suffix.lower() == ".zip":
                self._add_archive(path)

    def __enter__(self) -> "Originals":
        return self

    def __exit__(self, *_: object) -> None:
        for archive in self._archives:
            archive.close()

    def _add(self, parts: tuple[str, ...], place: Path | tuple[ZipFile, ZipInfo]) -> None:
        for name in {"/".join(parts[-2:]), parts[-1]}:
            self._files.setdefault(name, place)

    def _add_archive(self, path: Path) -> None:
        try:
            archive = ZipFile(path)
        except (BadZipFile, NotImplementedError, ValueError) as error:
            raise CorruptBundleError(f"{path} is not a .zip archive: {error}") from None
        self._archives.append(archive)
        for info in archive.infolist():
            if not info.is_dir() and info.filename:
                self._add(tuple(info.filename.split("/")), (archive, info))

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def names(self, prefix: str, suffix: str) -> list[str]:
        """Return the names without a folder that begin and end like this, sorted."""
        return sorted(
            name
            for name in self._files
            if "/" not in name and name.startswith(prefix) and name.endswith(suffix)
        )

    def path(self, name: str) -> Path:
        """Return the path of a file outside archives; raise DatasetNotFoundError without it."""
        place = self._place(name)
        if not isinstance(place, Path):
            raise InvalidInputError(f"unpack {name} from {place[0].filename} first")
        return place

    def _place(self, name: str) -> Path | tuple[ZipFile, ZipInfo]:
        if name not in self._files:
            listed = "".join(
                f"\n  {original.name}: {original.page}"
                for original in DATASETS[self.dataset].originals
            )
            raise DatasetNotFoundError(
                f"{self.folder} has no {name}. The original files of {self.dataset!r} are:{listed}"
            )
        return self._files[name]

    @contextmanager
    def open(self, name: str, max_bytes: int = _MAX_BYTES) -> Iterator[IO[bytes]]:
        """Open a file; raise InvalidInputError if it is larger than `max_bytes`."""
        place = self._place(name)
        size = place.stat().st_size if isinstance(place, Path) else place[1].file_size
        if size > max_bytes:
            raise InvalidInputError(f"{name} has {size:,} bytes, more than {max_bytes:,}")
        try:
            # A member of an archive ends after the size that the archive declares.
            stream: Any = place.open("rb") if isinstance(place, Path) else place[0].open(place[1])
            with closing(stream):
                yield stream
        except (BadZipFile, EOFError, RuntimeError, NotImplementedError) as error:
            raise CorruptBundleError(f"{name} cannot be read from its archive: {error}") from None

    def read(self, name: str) -> bytes:
        """Return the bytes of a small file."""
        with self.open(name, _MAX_SMALL_BYTES) as stream:
            return stream.read()

    def photograph(self, name: str) -> Any:
        """Return a photograph as an RGB image of Pillow; raise ImageError with its name."""
        return read_image(self.read(name), name=name)

    def lines(self, name: str) -> list[str]:
        """Return the lines of a small text file that are not empty."""
        text = self.read(name).decode("utf-8", errors="replace")
        return [line.strip() for line in text.splitlines() if line.strip()]

    def numbers(self, name: str, width: int | None = None) -> Iterator[Array]:
        """Yield the rows of a text file of numbers in chunks; raise for a row of another width."""
        with self.open(name) as stream:
            start = 1
            while lines := list(islice(stream, _CHUNK_LINES)):
                try:
                    rows = np.loadtxt(lines, dtype=np.float64, comments=None, ndmin=2)
                except ValueError as error:
                    raise CorruptBundleError(
                        f"{name}, from line {start}: not a table of numbers: {error}"
                    ) from None
                if rows.size and width is not None and rows.shape[1] != width:
                    raise CorruptBundleError(
                        f"{name}, from line {start}: {rows.shape[1]} numbers per line, "
                        f"expected {width}"
                    )
                width = rows.shape[1]
                start += len(lines)
                yield rows

    def table(self, name: str, width: int | None = None) -> Array:
        """Return a text file of numbers as float64 (n_rows, n_columns)."""
        return np.concatenate(list(self.numbers(name, width)) or [np.empty((0, width or 0))])

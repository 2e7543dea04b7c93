"""The rows of Parquet and Arrow IPC files, in batches."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from acqh._core.imports import require
from acqh.data.readers.arrowsizes import (
    check_parquet_metadata,
    ipc_batches,
    parquet_group_bytes,
    text_leaves,
    unpacked_bytes,
)
from acqh.data.readers.limits import check_unpacked_size
from acqh.errors import CorruptBundleError, InvalidInputError

# Rows unpacked at a time: few, so that the memory for them is used again and again.
_BATCH_ROWS = 1_024
TABLE_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
PARQUET_MAGIC, ARROW_MAGIC = b"PAR1", b"ARROW1"


@dataclass(frozen=True)
class FileRows:
    """A file, and which rows of the whole it has."""

    path: Path
    first_row: int
    n_rows: int
    n_bytes: int = field(default=0, kw_only=True)  # what all its values take, unpacked
    # How much may be unpacked at a time; None: by the size of the file.
    max_bytes: int | None = field(default=None, kw_only=True)

    @property
    def last_row(self) -> int:
        """The last row it has; the one before the first if it has none."""
        return self.first_row + self.n_rows - 1


File = TypeVar("File", bound=FileRows)


def files_of(files: Sequence[File], start: int, stop: int) -> tuple[File, ...]:
    """Return the files that have some of the rows from `start` up to, not including, `stop`."""
    first = bisect_left(files, start, key=lambda file: file.last_row)
    last = bisect_left(files, stop, key=lambda file: file.first_row)
    return tuple(files[first:last])


class ArrowTable:
    """The rows of one file, or of the files of a folder one after another.

    `files`: those to read; all that the folder has, by default. `max_bytes`: how much may be
    unpacked at a time; see `check_unpacked_size`. Raises CorruptBundleError: a file is damaged.
    Raises InvalidInputError: there are no files, or their columns differ.
    """

    def __init__(
        self, path: Path, files: Sequence[Path] | None = None, max_bytes: int | None = None
    ) -> None:
        self.path = path
        found = files or _find_files(path)
        listed, first_row = [], 0
        self.schema: Any = None
        self.columns: list[str] = []
        for each in found:
            with _open_file(each) as file:
                if self.schema is None:
                    self.schema = file.schema
                    self.columns = list(self.schema.names)
                if not file.schema.equals(self.schema):
                    raise InvalidInputError(
                        f"{each.name} has other columns or types than {found[0].name}; "
                        "all files of a folder must have the same"
                    )
                n_rows, n_bytes = file.count_rows(), sum(file.sizes())
            listed.append(FileRows(each, first_row, n_rows, n_bytes=n_bytes, max_bytes=max_bytes))
            first_row += n_rows
        if len(set(self.columns)) != len(self.columns):
            raise InvalidInputError(f"{path.name} has two columns of one name")
        self.files = tuple(listed)
        self.n_rows = first_row

    def batches(self, columns: list[str], size: int) -> Iterator[Any]:
        """Yield record batches of some columns, of at most `size` rows."""
        return _batches(self.files, columns, size, 0)


def _natural_order(path: Path) -> list[str | int]:
    """Return a key that sorts files by name, and numbers in names by value: 2 before 10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(path))]


def data_files(found: Iterable[Path], suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files of these endings in their order, without those that are hidden."""
    shown = (each for each in found if not each.name.startswith((".", "_")))
    return sorted((each for each in shown if each.suffix.lower() in suffixes), key=_natural_order)


def _find_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = data_files(path.rglob("*"), TABLE_SUFFIXES)
    if not files:
        raise InvalidInputError(f"{path} has no Parquet or Arrow files")
    return files


@contextmanager
def _open_file(path: Path) -> Iterator["_ParquetFile | _ArrowFile"]:
    """Open a file; whatever Arrow fails with on the way means that it is damaged."""
    arrow = require("pyarrow")
    with path.open("rb") as handle:
        magic = handle.read(len(ARROW_MAGIC))
    if not magic.startswith((PARQUET_MAGIC, ARROW_MAGIC)):
        raise CorruptBundleError(f"{path.name} is neither a Parquet nor an Arrow IPC file")
    try:
        if magic.startswith(PARQUET_MAGIC):
            with require("pyarrow.parquet").ParquetFile(path, pre_buffer=False) as reader:
                check_parquet_metadata(reader.metadata, path)
                yield _ParquetFile(reader, path)
        else:
            with arrow.memory_map(str(path)) as source, arrow.ipc.open_file(source) as reader:
                yield _ArrowFile(reader, source)
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptBundleError(f"{path.name} is damaged: {error}") from error


class _ParquetFile:
    def __init__(self, reader: Any, path: Path) -> None:
        self._reader = reader
        self._path = path
        self.schema = reader.schema_arrow

    def sizes(self) -> list[int]:
        """Return what each row group would take."""
        metadata = self._reader.metadata
        return [parquet_group_bytes(metadata.row_group(n)) for n in range(metadata.num_row_groups)]

    def count_rows(self) -> int:
        return int(self._reader.metadata.num_rows)

    def batches(self, columns: list[str], size: int, skip: int) -> Iterator[Any]:
        """Yield batches of rows after the first `skip`; row groups before are not read."""
        metadata, group = self._reader.metadata, 0
        reader, texts = self._reader, text_leaves(self._reader.metadata, columns)
        if texts:
            # A text that all rows share is then in memory once, until its size has been checked.
            reader = require("pyarrow.parquet").ParquetFile(
                self._path, metadata=metadata, read_dictionary=texts, pre_buffer=False
            )
        while group < metadata.num_row_groups and skip >= metadata.row_group(group).num_rows:
            skip -= metadata.row_group(group).num_rows
            group += 1
        groups = range(group, metadata.num_row_groups)
        for batch in reader.iter_batches(size, groups, columns, use_threads=False):
            # Texts could be no Unicode.
            batch.validate(full=True)
            yield batch.slice(min(skip, batch.num_rows))
            skip -= min(skip, batch.num_rows)


class _ArrowFile:
    def __init__(self, reader: Any, source: Any) -> None:
        self._reader = reader
        self._source = source
        self.schema = reader.schema

    @cached_property
    def _batches(self) -> list[tuple[int, int]]:
        self._source.seek(0)
        return ipc_batches(self._source.read_buffer())

    def sizes(self) -> list[int]:
        """Return what each record batch would take."""
        return [n_bytes for _, n_bytes in self._batches]

    def count_rows(self) -> int:
        return sum(n_rows for n_rows, _ in self._batches)

    def batches(self, columns: list[str], size: int, skip: int) -> Iterator[Any]:
        """Yield batches of rows after the first `skip`; record batches before are not read."""
        for number, (n_rows, _) in enumerate(self._batches):
            if skip >= n_rows:
                skip -= n_rows
                continue
            batch = self._reader.get_batch(number).select(columns)
            if batch.num_rows != n_rows:
                raise require("pyarrow").ArrowInvalid("its batches are not those of its footer")
            # Offsets of a hostile file could point anywhere.
            batch.validate(full=True)
            for start in range(skip, n_rows, size):
                yield batch.slice(start, size)
            skip = 0


def _batches(files: Sequence[FileRows], columns: list[str], size: int, start: int) -> Iterator[Any]:
    """Yield record batches of the rows of files from `start` on."""
    for rows in files:
        if rows.last_row < start:
            continue
        with _open_file(rows.path) as file:
            lacking = set(columns) - set(file.schema.names)
            if lacking or file.count_rows() != rows.n_rows:
                raise CorruptBundleError(f"{rows.path.name} has changed since it was listed")
            file_size = rows.path.stat().st_size
            check_unpacked_size(rows.path, max(file.sizes(), default=0), file_size, rows.max_bytes)
            plain = require("pyarrow").schema([file.schema.field(name) for name in columns])
            for batch in file.batches(columns, size, max(start - rows.first_row, 0)):
                n_bytes = sum(map(unpacked_bytes, batch.columns))
                check_unpacked_size(rows.path, n_bytes, file_size, rows.max_bytes)
                yield batch if batch.schema.equals(plain) else batch.cast(plain)


class TableCursor:
    """Rows of files one after another, from any row on; reading on costs no search.

    `files`: those that have the rows that will be read.
    """

    def __init__(self, files: Sequence[FileRows], columns: list[str]) -> None:
        self._files = files
        self._columns = columns
        self._position = -1
        self._source: Iterator[Any] = iter(())
        self._left: Any = None

    def batches(self, start: int, stop: int) -> Iterator[Any]:
        """Yield record batches of some rows; what is not asked for of the last is kept."""
        if start != self._position:
            size = min(stop - start, _BATCH_ROWS)
            self._source = _batches(self._files, self._columns, size, start)
            self._left = None
        # Where rows are given up half-way, the next ones must be searched for.
        self._position = -1
        n_bytes, file_size = 0, sum(file.path.stat().st_size for file in self._files)
        while start < stop:
            batch = next(self._source, None) if self._left is None else self._left
            if batch is None:
                raise CorruptBundleError(
                    f"{self._files[-1].path.name} ends before row {stop - 1} of the whole"
                )
            n_rows = min(batch.num_rows, stop - start)
            self._left = batch.slice(n_rows) if n_rows < batch.num_rows else None
            start += n_rows
            taken = batch.slice(0, n_rows)
            n_bytes += sum(map(unpacked_bytes, taken.columns))
            file = self._files[-1]
            check_unpacked_size(file.path, n_bytes, file_size, file.max_bytes)
            yield taken
        self._position = stop

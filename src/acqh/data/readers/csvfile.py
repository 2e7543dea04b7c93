"""Rows of a CSV file, with the number of the line on which each starts."""

import csv
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, NamedTuple

from acqh.data.readers.limits import MAX_LINE_BYTES
from acqh.errors import InvalidInputError


class Mark(NamedTuple):
    """A place between two rows: bytes and lines before it."""

    offset: int
    n_lines: int


class CsvFile(AbstractContextManager["CsvFile"]):
    """An open CSV (or, by its ending, TSV) file whose header has been read and checked.

    `path`: UTF-8, with a header of column names. Raises InvalidInputError: the file is empty, or
    its header is not one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: IO[bytes] = path.open("rb")
        self._n_lines = 0
        self._delimiter = self._find_delimiter()
        self._reader = self._make_reader()
        try:
            self.columns = self._read_header_row()
        except BaseException:
            self._handle.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def _make_reader(self) -> Iterator[list[str]]:
        # The limit is one for all readers of the process; it can only be raised here.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
        return csv.reader(self._lines(), delimiter=self._delimiter, strict=True)

    def _find_delimiter(self) -> str:
        """Return what separates fields: semicolons where the header has these and no comma."""
        if self.path.suffix.lower() == ".tsv":
            return "\t"
        header = self._handle.readline(MAX_LINE_BYTES)
        self._handle.seek(0)
        return ";" if b";" in header and b"," not in header else ","

    def mark(self) -> Mark:
        """Return where the next row starts."""
        return Mark(self._handle.tell(), self._n_lines)

    def go_to(self, mark: Mark) -> None:
        """Go on with the row that starts at a mark."""
        self._handle.seek(mark.offset)
        self._n_lines = mark.n_lines
        self._reader = self._make_reader()

    def _lines(self) -> Iterator[str]:
        while line := self._handle.readline(MAX_LINE_BYTES):
            self._n_lines += 1
            if len(line) == MAX_LINE_BYTES:
                raise self.error(self._n_lines, f"the line is longer than {MAX_LINE_BYTES:,} bytes")
            try:
                yield line.decode("utf-8-sig" if self._n_lines == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise self.error(
                    self._n_lines, f"not UTF-8 text ({error.reason}); save the file as UTF-8"
                ) from error

    def error(self, line: int, problem: str) -> InvalidInputError:
        """Return an error that names the file and the line."""
        return InvalidInputError(f"{self.path.name}, line {line}: {problem}")

    def _next(self) -> tuple[int, list[str]] | None:
        """Return the next row that is not blank, with the line it starts on."""
        while True:
            line = self._n_lines + 1
            try:
                fields = next(self._reader)
            except StopIteration:
                return None
            except csv.Error as error:
                raise self.error(line, f"{error}; quote fields as CSV does") from error
            if fields:
                return line, fields

    def _read_header_row(self) -> list[str]:
        first = self._next()
        if first is None:
            raise InvalidInputError(
                f"{self.path.name} is empty; give a header and at least one row"
            )
        line, columns = first
        columns = [column.strip() for column in columns]
        seen: set[str] = set()
        for position, column in enumerate(columns, start=1):
            if not column:
                raise self.error(line, f"column {position} has no name")
            if column in seen:
                raise self.error(line, f"column {column!r} is there twice")
            seen.add(column)
        return columns

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each row that is left with the number of its first line."""
        while (row := self._next()) is not None:
            line, fields = row
            if len(fields) != len(self.columns):
                raise self.error(
                    line, f"{len(fields)} fields, but the header has {len(self.columns)}"
                )
            yield line, fields

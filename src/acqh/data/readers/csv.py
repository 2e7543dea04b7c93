"""Text tables: CSV, TSV, database dumps and JSON lines; columns of numbers are views."""

import csv
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.files import parse_json
from acqh._core.labels import split_labels
from acqh.data.readers.columns import (
    ITEM_PREFIX,
    LABEL_NAMES,
    Entry,
    LoadedTable,
    check_unpacked_size,
    find_name,
    label_sets,
)
from acqh.errors import DuplicateIdError, InvalidInputError

# Database dumps, and the start of immich's table smart_search in the output of pg_dump.
_DUMP = ".sql"
_COPIED = re.compile(r"COPY (?:\w+\.)?\w+_search \((.*)\) FROM stdin;")
# Maximum length of a line of a table.
_MAX_LINE_BYTES = 16 * 2**20
_FIELD_LIMIT = Lock()
_NUMBERED = re.compile(r"(.+)_(\d+)")


class CsvTable(LoadedTable):
    """A CSV file in memory: columns NAME_0, NAME_1, ... are a view, as is a column of lists.

    Raises InvalidInputError, which names the line: a line is invalid.
    """

    title, suffixes, own_options = "CSV", (".csv", ".tsv", _DUMP), ("label_separator",)
    noun = "column"
    is_paired = True
    no_views = (
        "no numbers of views (columns image_0, image_1, ..., or lists such as [0.1, 0.2]), so acqh "
        "build makes a collection of it and acqh.data.read_records reads its rows"
    )

    def _open(self) -> None:
        path = self.path
        n_bytes = path.stat().st_size
        check_unpacked_size(path, n_bytes, n_bytes, self.options.max_bytes)
        rows = csv_rows(path)
        _, header = next(rows)
        views = _find_views(path, header)
        numbered = {place for places in views.values() for place in places}
        texts = {name: place for place, name in enumerate(header) if place not in numbered}
        numbers: dict[str, list[Array | None]] = {view: [] for view in views}
        columns: dict[str, list[str]] = {name: [] for name in texts}
        self._lines: list[int] = []
        for line, fields in rows:
            self._lines.append(line)
            for name, place in texts.items():
                columns[name].append(fields[place])
            for view, places in views.items():
                cells = [fields[place].strip() for place in places]
                numbers[view].append(_numbers(cells, view, path, line) if any(cells) else None)
        if not self._lines:
            raise InvalidInputError(f"{path.name} has a header but no rows; give at least one item")
        for view, places in views.items():
            self.add_view(view, numbers[view], len(places), self._place)
        self._add_texts(texts, columns)

    def _place(self, row: int) -> str:
        return f"{self.path.name}, line {self._lines[row]}"

    def _add_texts(self, names: Iterable[str], columns: dict[str, list[str]]) -> None:
        image, text = find_name(names, ("image",)), find_name(names, ("text",))
        if image is not None:
            # Paths of images are relative to the file; images are not opened.
            folder = self.path.absolute().parent
            columns[image] = [str(folder / name) if name else "" for name in columns[image]]
        renamed = {image: "image", text: "text"}
        for name in names:
            column = renamed.get(name, name)
            column = f"{ITEM_PREFIX}{column}" if column in self.entries else column
            first = list_in(next(filter(None, columns[name]), ""))
            if first is None:
                self.add(column, np.fromiter(columns[name], object, len(self._lines)))
            else:
                lists = [(list_in(cell) or cell) if cell else None for cell in columns[name]]
                self.add_view(column, lists, len(first), self._place)

    def take_labels(self, entry: Entry, start: int, stop: int) -> list[list[str]]:
        """Return a list of labels for each row."""
        labels = []
        for line, cell in zip(self._lines[start:stop], self.take(entry, start, stop), strict=True):
            try:
                labels.append(split_labels(cell, self.options.label_separator))
            except InvalidInputError as error:
                raise _error(self.path, line, str(error)) from None
        return labels

    def take_ids(self, entry: Entry, start: int, stop: int) -> Array:
        """Return ids; raise an error for empty and duplicate ones."""
        ids, line_of = self.take(entry, 0, len(self._lines)).tolist(), dict[str, int]()
        for line, value in zip(self._lines, ids, strict=True):
            if not value:
                raise _error(self.path, line, "the id is empty; give each item one")
            if line_of.setdefault(value, line) != line:
                raise DuplicateIdError(
                    f"{self.path.name}: the id {value!r} is on the lines {line_of[value]} and "
                    f"{line}; ids must differ"
                )
        return np.asarray(ids[start:stop], dtype=str)


class JsonTable(LoadedTable):
    """JSON lines in memory: a list of numbers per row is a view, unnamed or with its name.

    Raises InvalidInputError, which names the line: a line is invalid.
    """

    title, suffixes = "JSON lines", (".jsonl", ".ndjson")
    noun = "column"
    is_paired = True
    no_views = "no list of numbers in its rows, so no view"

    def _open(self) -> None:
        path, options = self.path, self.options
        n_bytes = path.stat().st_size
        check_unpacked_size(path, n_bytes, n_bytes, options.max_bytes)
        rows = list(json_records(path))
        if not rows:
            raise InvalidInputError(f"{path.name} has no rows; give at least one item")
        names = dict.fromkeys(name for _, row in rows for name in row)
        labels = options.labels or find_name(names, LABEL_NAMES[:2])
        for name in names:
            values = [row.get(name) for _, row in rows]
            first = next((value for value in values if value is not None), None)
            if name != labels and (numbers := list_in(first)) is not None:
                self.add_view(name, values, len(numbers), lambda row: rows[row][0])
            elif all(type(value) in (int, float) for value in values):
                self.add(name, np.array(values))
            else:
                self.add(name, np.fromiter(values, object, len(values)))

    def take_labels(self, entry: Entry, start: int, stop: int) -> list[list[Any]]:
        """Return a list of labels for each row."""
        return label_sets(self.take(entry, start, stop).tolist())


def list_in(value: Any) -> list[Any] | None:
    """Return a list of numbers, also from its text representation; None for other values."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = parse_json(value)
        except ValueError:
            return None
    is_list = isinstance(value, list) and value and type(value[0]) in (int, float)
    return value if is_list else None


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the header of a CSV or TSV file, then its rows, each with its line number.

    Rows of bare numbers need no header. Raises InvalidInputError: the file is empty, its header is
    invalid, or a row has another number of columns.
    """
    columns: list[str] = []
    reader = csv.reader(_table_lines(path), delimiter=_find_delimiter(path), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = _next_row(reader)
        except StopIteration:
            break
        except csv.Error as error:
            raise _error(path, line, f"{error}; quote fields as CSV does") from error
        if not fields:
            continue  # a blank line
        if not columns:
            made_up = _missing_header(fields)
            columns = made_up or _check_header(path, line, fields)
            yield line, columns
            if columns is not made_up or _counts(fields):
                continue
        if len(fields) != len(columns):
            problem = f"{len(fields)} fields, but the first line has {len(columns)}"
            raise _error(path, line, problem)
        yield line, fields
    if not columns:
        raise InvalidInputError(f"{path.name} is empty; give a header and at least one row")


def _next_row(reader: Iterator[list[str]]) -> list[str]:
    """Return the next row; fields may be as long as a line."""
    # The limit is global: it is raised for one row, by one thread at a time, and restored.
    with _FIELD_LIMIT:
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, _MAX_LINE_BYTES))
        try:
            return next(reader)
        finally:
            csv.field_size_limit(before)


def _missing_header(fields: list[str]) -> list[str] | None:
    """Return names for a table without header: bare numbers, or lists with an id."""
    vectors = [f"vectors_{number}" for number in range(len(fields))]
    if _counts(fields) and not fields[0]:
        return ["id", *vectors[:-1]]
    if all(map(_is_number, fields)):
        return vectors
    lists = [list_in(field) is not None for field in fields]
    if sum(lists) == 1 and len(fields) <= 2:
        return ["vectors" if is_list else "id" for is_list in lists]
    return None


def _counts(fields: list[str]) -> bool:
    """Whether column names are numbers, as pandas writes them, after the column of row names."""
    names = fields if fields[0] else fields[1:]
    return len(names) > 2 and names == [str(number) for number in range(len(names))]


def _is_number(field: str) -> bool:
    try:
        return math.isfinite(float(field))
    except ValueError:
        return False


def _table_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a table; of a database dump, only the lines with vectors."""
    lines = _lines(path)
    if path.suffix.lower() != _DUMP:
        yield from lines
        return
    for line in lines:
        if match := _COPIED.match(line):
            yield match[1].replace('"', "").replace(", ", "\t") + "\n"
            for row in lines:
                if row.rstrip() == "\\.":
                    return
                yield row
            raise InvalidInputError(f"{path.name} ends within the table; it is cut off")
    raise InvalidInputError(f"{path.name} does not copy the table smart_search, or any *_search")


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as handle:
        lines = iter(lambda: handle.readline(_MAX_LINE_BYTES), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) == _MAX_LINE_BYTES:
                problem = f"the line is longer than {_MAX_LINE_BYTES:,} bytes"
                raise _error(path, number, problem)
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                problem = f"not UTF-8 text ({error.reason}); save the file as UTF-8"
                raise _error(path, number, problem) from error


def _find_delimiter(path: Path) -> str:
    """Return the separator of fields, from the extension of the file or its first line."""
    if path.suffix.lower() in (".tsv", _DUMP):
        return "\t"
    with path.open("rb") as handle:
        header = handle.readline(_MAX_LINE_BYTES).decode(errors="replace")
    if "," not in header and len(header.split()) > 1 and all(map(_is_number, header.split())):
        return "\t" if "\t" in header else " "
    return ";" if ";" in header and "," not in header else ","


def _check_header(path: Path, line: int, fields: list[str]) -> list[str]:
    columns = [field.strip() for field in fields]
    names: set[str] = set()
    for position, column in enumerate(columns, start=1):
        if not column:
            raise _error(path, line, f"column {position} has no name")
        if column in names:
            raise _error(path, line, f"column {column!r} is there twice")
        names.add(column)
    return columns


def _find_views(path: Path, columns: list[str]) -> dict[str, list[int]]:
    """Return the columns NAME_0, NAME_1, ... of each view NAME."""
    groups: dict[str, dict[int, int]] = {}
    for place, column in enumerate(columns):
        if match := _NUMBERED.fullmatch(column):
            group = groups.setdefault(match[1], {})
            if int(match[2]) in group:
                problem = f"two columns are number {int(match[2])} of {match[1]!r}"
                raise _error(path, 1, problem)
            group[int(match[2])] = place
    views = {view: group for view, group in groups.items() if 0 in group}
    for view, group in views.items():
        gap = next(number for number in itertools.count() if number not in group)
        if gap < len(group):
            raise _error(path, 1, f"view {view!r} has no column {view}_{gap}, but later ones")
    return {view: [group[n] for n in range(len(group))] for view, group in views.items()}


def _numbers(cells: list[str], view: str, path: Path, line: int) -> Array:
    """Return the numbers of a row of a view."""
    numbers: list[float] = []
    try:
        numbers.extend(map(float, cells))
    except ValueError:
        at = len(numbers)  # the first value that is not a number
        problem = (
            f"{view}_{at} must be a number, got {cells[at] or 'nothing'!r}; leave all columns of a "
            "view empty where it is absent"
        )
        raise _error(path, line, problem) from None
    row = np.array(numbers)
    if not np.isfinite(row).all():
        raise _error(path, line, f"view {view!r} has a NaN or infinite value")
    return row


def _error(path: Path, line: int, problem: str) -> InvalidInputError:
    return InvalidInputError(f"{path.name}, line {line}: {problem}")


def csv_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a CSV file with their places, for messages."""
    rows = csv_rows(path)
    _, columns = next(rows)
    for line, fields in rows:
        yield f"{path.name}, line {line}", dict(zip(columns, fields, strict=True))


def json_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a JSON lines file with their places, for messages."""
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            raise _error(path, number, f"not JSON ({error})") from error
        if list_in(row) is not None:
            row = {"vectors": row}
        if not isinstance(row, dict):
            raise _error(path, number, "give a JSON object, or a list of numbers, per line")
        yield f"{path.name}, line {number}", row

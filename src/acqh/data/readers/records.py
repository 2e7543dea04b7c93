"""Rows of any table as dictionaries, for items that are not features yet."""

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from acqh.data.readers import tables
from acqh.data.readers.csvfile import CsvFile
from acqh.data.readers.limits import CHUNK_SIZE, MAX_LINE_BYTES
from acqh.data.readers.options import as_path
from acqh.errors import DatasetNotFoundError, InvalidInputError

_CSV = (".csv", ".tsv")
_JSON = (".jsonl", ".ndjson")
_SUFFIXES = (*_CSV, *_JSON, *tables.TABLE_SUFFIXES)


def read_records(path: str | PathLike[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    r"""Yield the rows of a table with the place of each, as many in memory as a chunk has.

    Parameters
    ----------
    path : path
        CSV, TSV (all values are str), JSON lines, Parquet or Arrow, by its ending.

    Yields
    ------
    place : str
        The file and the line or row, for messages.
    row : dict of str to value

    Raises
    ------
    DatasetNotFoundError
        There is no such file.
    CorruptBundleError
        A Parquet or Arrow file is damaged.
    InvalidInputError
        The file is of another kind, or a line cannot be read; the line is named.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "pets.jsonl"
    ...     _ = table.write_text('{"text": "a dog"}\n')
    ...     list(read_records(table))
    [('pets.jsonl, line 1', {'text': 'a dog'})]
    """
    place = as_path(path)
    if not place.is_file():
        raise DatasetNotFoundError(f"there is no file {place}")
    suffix = place.suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidInputError(
            f"{place.name} has an unknown file type; known endings are {', '.join(_SUFFIXES)}"
        )
    if suffix in _CSV:
        return _csv_records(place)
    return _json_records(place) if suffix in _JSON else _arrow_records(place)


def _csv_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with CsvFile(path) as file:
        for line, fields in file.rows():
            yield f"{path.name}, line {line}", dict(zip(file.columns, fields, strict=True))


def _json_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open("rb") as file:
        lines = iter(lambda: file.readline(MAX_LINE_BYTES), b"")
        for line, content in enumerate(lines, start=1):
            place = f"{path.name}, line {line}"
            if len(content) == MAX_LINE_BYTES:
                raise InvalidInputError(f"{place}: longer than {MAX_LINE_BYTES:,} bytes")
            if not content.strip():
                continue
            try:
                row = json.loads(content)
            except (ValueError, RecursionError) as error:
                raise InvalidInputError(f"{place}: not JSON ({error})") from error
            if not isinstance(row, dict):
                raise InvalidInputError(f"{place}: give a JSON object per line")
            yield place, row


def _arrow_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    table = tables.ArrowTable(path)
    batches = table.batches(table.columns, CHUNK_SIZE)
    rows = (row for batch in batches for row in batch.to_pylist())
    for number, row in enumerate(rows, start=1):
        yield f"{path.name}, row {number}", row

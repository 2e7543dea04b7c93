"""Parquet and Arrow IPC tables, in one file or several: a column for each view.

Requested columns are read together, some rows at a time. A scan by ``pyarrow.dataset`` would
unpack complete row groups.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Bools
from acqh._core.files import parse_json
from acqh._core.imports import require
from acqh.data.readers.columns import (
    CHUNK_SIZE,
    Entry,
    Options,
    Parts,
    Role,
    Table,
    chain_files,
    check_unpacked_size,
    data_files,
    guarded,
    label_sets,
    parts_of,
)
from acqh.errors import CorruptBundleError, InvalidInputError, LabelError, ViewError

_PARQUET, _ARROW, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_SPLIT = "split"
# Number of records in memory at a time; records may have images.
_RECORD_ROWS = 256
# Number of rows unpacked at a time: small, so that their memory is reused.
_BATCH_ROWS = 1_024
_OPEN_FILES = 8
# A small buffer: otherwise each compressed column of a row group would be in memory.
_PARQUET_OPTIONS: dict[str, Any] = {"pre_buffer": False, "buffer_size": 2**20}
# Parquet's physical types of fixed width. Texts and bytes take at least the size of their pages.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class ArrowTable(Table):
    """The rows of one file, or the concatenated rows of the files of a folder.

    Raises CorruptBundleError: a file is damaged. Raises InvalidInputError: there are no files, or
    their columns differ.
    """

    title, magics = "Parquet or Arrow", (_PARQUET, _ARROW, _STREAM)
    suffixes = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
    noun = "column"
    is_paired = True
    no_views = (
        "no column with lists of numbers, so no view; acqh build encodes images and texts instead"
    )

    def _open(self) -> None:
        self._file = lru_cache(_OPEN_FILES)(_open_file)
        self.opened.callback(self._close)
        # Position after the last read: the columns, the next row, the batches after it.
        self._position: tuple[Any, int] = ((), -1)
        self._stream: Iterator[Any] = iter(())
        self._rest: Any = None
        self.parts = self.parts or list_parts(_find_files(self.path), self._file)
        self.files = self.parts[""]
        self._file_size = sum(part.path.stat().st_size for part in self.files)
        self.schema = self._file(self.files[0].path).schema
        self.n_rows = self.files[-1].first_row + self.files[-1].n_rows
        # Images are read only as records: reading them with vectors would be too slow.
        shown = [field for field in self.schema if not _is_image(field.type)]
        self.entries = {field.name: self._entry(field) for field in shown}
        if all(split_of(file.path) for file in self.files) and _SPLIT not in self.schema.names:
            self.entries[_SPLIT] = Entry(_SPLIT, (self.n_rows,), "O", form=_SPLIT)

    def _close(self) -> None:
        self._stream = iter(())
        self._file.cache_clear()

    def class_names(self, labels: str) -> tuple[str, ...] | None:
        """Return the names of class numbers from Hugging Face's features, if there are any."""
        return class_names(self.schema.metadata or {}, labels)

    def _entry(self, field: Any) -> Entry:
        types = require("pyarrow").types
        if _is_list(field.type) and _is_number(field.type.value_type):
            is_fixed = types.is_fixed_size_list(field.type)
            width = field.type.list_size if is_fixed else -1
            if is_fixed and width <= 0:
                raise CorruptBundleError(f"{self._where(field.name)} is {field.type}")
            return Entry(field.name, (self.n_rows, width), _numpy_kind(field.type.value_type))
        kind = "U" if _is_text(field.type) else "O"
        return Entry(
            field.name, (self.n_rows,), _numpy_kind(field.type) if _is_number(field.type) else kind
        )

    def resolve_width(self, entry: Entry) -> Entry:
        """Return a view with the width of its first row."""
        if entry.shape[1] >= 0:
            return entry
        for column in self._whole_column(entry.name):
            lengths = _list_lengths(column)
            if lengths.size:
                return Entry(entry.name, (self.n_rows, int(lengths[0])), entry.kind)
        raise ViewError(f"{self._where(entry.name)} is empty in every row")

    def batches(self, names: Sequence[str], start: int, stop: int) -> Iterator[Any]:
        """Yield some rows of some columns as record batches of at most 1,024 rows.

        Sequential reads continue from the last position; other reads seek.
        """
        if (names, start) != self._position:
            self._stream, self._rest = self._batches_from(names, start, stop - start), None
        # If the caller stops early, the next read must seek.
        self._position, n_bytes, at = ((), -1), 0, start
        while at < stop:
            batch = next(self._stream, None) if self._rest is None else self._rest
            if batch is None:
                raise CorruptBundleError(
                    f"{self.files[-1].path.name} ends before row {stop - 1} of the whole"
                )
            n_rows = min(batch.num_rows, stop - at)
            self._rest = batch.slice(n_rows) if n_rows < batch.num_rows else None
            batch = batch.slice(0, n_rows)
            n_bytes += sum(map(_unpacked_bytes, batch.columns))
            check_unpacked_size(self.path, n_bytes, self._file_size, self.options.max_bytes)
            yield batch
            at += n_rows
        self._position = names, stop

    def _batches_from(self, names: Sequence[str], start: int, n_rows: int) -> Iterator[Any]:
        size = min(n_rows, _BATCH_ROWS)
        for part in parts_of(self.parts, start, self.n_rows)[""]:
            file = self._file(part.path)
            if not {*names} <= {*file.schema.names} or file.n_rows != part.n_rows:
                raise CorruptBundleError(f"{part.path.name} has changed since it was listed")
            skip, limit = max(start - part.first_row, 0), self.options.max_bytes
            with _named(part.path):
                yield from file.batches(names, size, skip, limit)

    def column(self, batch: Any, name: str) -> Any:
        """Return a column of a batch, with its dictionary expanded unless the schema has it."""
        column, kind = batch.column(name), self.schema.field(name).type
        return column if column.type.equals(kind) else column.cast(kind)

    def _whole_column(self, name: str) -> Iterator[Any]:
        for start in range(0, self.n_rows, CHUNK_SIZE):
            for batch in self.batches((name,), start, min(start + CHUNK_SIZE, self.n_rows)):
                yield self.column(batch, name)

    def take(self, entry: Entry, start: int, stop: int) -> Any:
        """Return a column: numbers without nulls as an array of numbers, others as objects."""
        return self.take_all([("items", entry)], start, stop)[0]

    def take_all(self, columns: Sequence[tuple[Role, Entry]], start: int, stop: int) -> list[Any]:
        """Return rows of several columns, read in one pass; matrices are filled batch by batch."""
        stored = [(role, entry, list[Any]()) for role, entry in columns if entry.form != _SPLIT]
        names = tuple(dict.fromkeys(entry.name for _, entry, _ in stored))
        at = start
        for batch in self.batches(names, start, stop) if names else ():
            for role, entry, values in stored:
                column = self.column(batch, entry.name)
                if not self._is_matrix(role, entry):
                    values.append(self._values(role, entry, column, at))
                    continue
                numbers, present = self._numbers(role, entry, column, at)
                if not values:
                    shape = (stop - start, entry.shape[1])
                    values += np.zeros(shape, numbers.dtype), np.zeros(shape[:1], bool)
                rows = slice(at - start, at - start + len(present))
                values[0][rows][... if present.all() else present] = numbers
                values[1][rows] = present
            at += batch.num_rows
        joined = (self._join(*column) for column in stored)
        return [
            self._splits(start, stop) if entry.form == _SPLIT else next(joined)
            for _, entry in columns
        ]

    def _join(self, role: Role, entry: Entry, values: list[Any]) -> Any:
        """Return all rows of a column."""
        if self._is_matrix(role, entry):
            return tuple(values) if role == "view" else values[0]
        return list(chain.from_iterable(values)) if role == "labels" else np.concatenate(values)

    def _splits(self, start: int, stop: int) -> Array:
        files = parts_of(self.parts, start, stop)[""]
        ends = [min(stop, file.first_row + file.n_rows) for file in files]
        names = np.array([split_of(file.path) for file in files], object)
        return np.repeat(names, np.diff([start, *ends]))

    def _is_matrix(self, role: Role, entry: Entry) -> bool:
        return role == "view" or (role == "labels" and self._is_multi_hot(entry))

    def _numbers(
        self, role: Role, entry: Entry, column: Any, first_row: int
    ) -> tuple[Array, Bools]:
        """Return the numbers of the rows that are not null, and which rows these are.

        Raises ViewError or LabelError, which name the row: a list has another length or a null.
        """
        where, width = self._where(entry.name), entry.shape[1]
        error = ViewError if role == "view" else LabelError
        present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
        lengths, values = _list_lengths(column), column.flatten()
        ragged = np.flatnonzero(lengths != width)
        if ragged.size:
            row = first_row + np.flatnonzero(present)[ragged[0]]
            raise error(
                f"{where} has {lengths[ragged[0]]} numbers in row {row}, but {width} elsewhere; "
                "every row of a view needs as many"
            )
        if values.null_count:
            missing = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
            row = first_row + np.flatnonzero(present)[missing // width]
            raise error(
                f"{where} has a null among its numbers in row {row}; make the whole list null if "
                "the view is absent"
            )
        numbers = values.to_numpy(zero_copy_only=False)
        return numbers.reshape(len(lengths), width), present

    def _values(self, role: Role, entry: Entry, column: Any, first_row: int) -> Any:
        """Return labels as lists, numbers without nulls as numbers, and others as objects."""
        where, kind = self._where(entry.name), column.type
        if role == "labels":
            sets = label_sets(column.to_pylist())
            for row, names in enumerate(sets, start=first_row):
                if None in names:
                    raise LabelError(f"{where} has a null in the list of row {row}")
            return sets
        if role == "ids":
            if column.null_count:
                row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise InvalidInputError(f"{where} is null in row {row}; every item needs an id")
            if _is_text(kind):
                return np.asarray(column.to_pylist(), dtype=str)
            if not require("pyarrow").types.is_integer(kind):
                raise InvalidInputError(f"{where} is {kind}; ids are whole numbers or strings")
        if not column.null_count and _is_number(kind):
            return column.to_numpy(zero_copy_only=False)
        return np.fromiter(column.to_pylist(), dtype=object, count=len(column))

    def distinct_labels(self, entry: Entry) -> set[Any] | None:
        """Return all labels; None if they are rows of 0 and 1."""
        types, kind = require("pyarrow").types, self.schema.field(entry.name).type
        if self._is_multi_hot(entry):
            return None
        value = kind.value_type if _is_list(kind) else kind
        value = value.value_type if types.is_dictionary(value) else value
        if not (_is_text(value) or types.is_integer(value)):
            raise LabelError(
                f"{self._where(entry.name)} is {kind}; give labels as names or whole numbers, as "
                "lists of them, or as fixed-size lists of 0 and 1"
            )
        labels: set[Any] = set()
        for column in self._whole_column(entry.name):
            values = column.flatten() if _is_list(kind) else column
            labels.update(values.unique().drop_null().to_pylist())
        return labels

    def _is_multi_hot(self, entry: Entry) -> bool:
        return len(entry.shape) == 2 and bool(
            require("pyarrow").types.is_fixed_size_list(self.schema.field(entry.name).type)
        )

    def _where(self, name: str) -> str:
        return f"column {name!r} of {self.path.name}"


def arrow_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a table with their places; classes are replaced by their names."""
    table = ArrowTable(path, Options())
    names = tuple(table.schema.names)
    classes = [table.class_names(name) for name in names]
    number = 0
    for start in range(0, table.n_rows, _RECORD_ROWS):
        for batch in table.batches(names, start, min(start + _RECORD_ROWS, table.n_rows)):
            columns = [table.column(batch, name).to_pylist() for name in names]
            for row in zip(*columns, strict=True):
                number += 1
                values = map(_record_value, row, classes)
                yield f"{path.name}, row {number}", dict(zip(names, values, strict=True))


def _record_value(value: Any, classes: tuple[str, ...] | None) -> Any:
    if isinstance(value, dict) and value.keys() == {"bytes", "path"}:
        return value["path"] if value["bytes"] is None else value["bytes"]
    if classes is not None and isinstance(value, int):
        return classes[value] if 0 <= value < len(classes) else None
    return value


def _find_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = dataset_files(path) or data_files(path.rglob("*"), ArrowTable.suffixes)
    if not files:
        raise InvalidInputError(f"{path} has no Parquet or Arrow files")
    return files


def list_parts(files: Iterable[Path], open_file: Any = None) -> Parts:
    """Return files with their row ranges; all files must have the same columns."""
    counts: list[tuple[Path, int]] = []
    schema = None
    for path in files:
        file = (open_file or _open_file)(path)
        schema = schema or file.schema
        if not file.schema.equals(schema):
            raise InvalidInputError(
                f"{path.name} has other columns or types than {counts[0][0].name}; all files of a "
                "folder must have the same"
            )
        counts.append((path, file.n_rows))
    return {"": chain_files(counts)}


def _named(path: Path) -> AbstractContextManager[None]:
    """Add the name of the file to errors of Arrow."""
    errors = (require("pyarrow").ArrowException, OSError, UnicodeDecodeError)
    return guarded(path.name, *errors)


def _open_file(path: Path) -> "_ParquetFile | _ArrowFile":
    require("pyarrow")
    with path.open("rb") as handle:
        magic = handle.read(len(_ARROW))
    if not magic.startswith(ArrowTable.magics):
        raise CorruptBundleError(f"{path.name} is neither a Parquet nor an Arrow IPC file")
    with _named(path):
        file = (_ParquetFile if magic.startswith(_PARQUET) else _ArrowFile)(path)
        names = list(file.schema.names)  # names could be invalid Unicode
    if len(set(names)) != len(names):
        raise InvalidInputError(f"{path.name} has two columns of one name")
    return file


class _ParquetFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader = require("pyarrow.parquet").ParquetFile(path, **_PARQUET_OPTIONS)
        self._metadata = self._reader.metadata
        self.schema = self._reader.schema_arrow
        self.n_rows = int(self._metadata.num_rows)
        _check_metadata(self._metadata, path)

    def batches(
        self, names: Sequence[str], size: int, skip: int, max_bytes: int | None
    ) -> Iterator[Any]:
        """Yield rows after the first `skip`; does not read earlier row groups."""
        groups, texts, requested = list[int](), set[str](), {*names}
        for number in range(self._metadata.num_row_groups):
            group = self._metadata.row_group(number)
            if not groups and skip >= group.num_rows:
                skip -= group.num_rows
                continue
            groups.append(number)
            declared: Counter[str] = Counter()
            for leaf in map(group.column, range(group.num_columns)):
                path = leaf.path_in_schema
                name = path if path in requested else path.partition(".")[0]
                if name in requested:
                    declared[name] += _leaf_bytes(leaf)
                    texts |= {path} if _may_repeat(leaf) else set()
            most = max(declared.values(), default=0)
            check_unpacked_size(self._path, most, self._path.stat().st_size, max_bytes)
        reader = self._reader
        if texts:
            # A text that all rows share is then in memory once, until its size is checked.
            reader = require("pyarrow.parquet").ParquetFile(
                self._path, metadata=self._metadata, read_dictionary=texts, **_PARQUET_OPTIONS
            )
        for batch in reader.iter_batches(size, groups, list(names), use_threads=False):
            batch.validate(full=True)  # texts could be invalid Unicode
            yield batch.slice(min(skip, batch.num_rows))
            skip -= min(skip, batch.num_rows)


class _ArrowFile:
    """A file of record batches, or a stream of them without a table of offsets."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as handle:
            self._is_stream = handle.read(len(_STREAM)) == _STREAM
        self.schema = self._open().schema

    def _open(self, **options: Any) -> Any:
        """Open the file again: each reader of a stream has its own position."""
        arrow = require("pyarrow")
        opening = arrow.ipc.open_stream if self._is_stream else arrow.ipc.open_file
        source = arrow.memory_map(str(self._path))
        return opening(source, options=arrow.ipc.IpcReadOptions(**options))

    @cached_property
    def n_rows(self) -> int:
        """Number of rows, from the metadata."""
        with _named(self._path):
            if self._is_stream:
                return sum(batch.num_rows for batch in self._open(included_fields=[0]))
            system = require("pyarrow.fs").LocalFileSystem()
            file_format = require("pyarrow.dataset").IpcFileFormat()
            return int(file_format.make_fragment(str(self._path), system).count_rows())

    def batches(self, names: Sequence[str], size: int, skip: int, _: int | None) -> Iterator[Any]:
        """Yield rows after the first `skip`; does not unpack other columns."""
        reader = self._open(included_fields=[self.schema.names.index(name) for name in names])
        is_file = not self._is_stream
        for batch in map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader:
            batch.validate(full=True)  # checks offsets, which could be outside the file
            for start in range(skip, batch.num_rows, size):
                yield batch.slice(start, size)
            skip = max(skip - batch.num_rows, 0)


class _WithoutValues(io.RawIOBase):
    """A file object of this size that raises `Reached` on read."""

    class Reached(Exception):  # noqa: N818
        """The reader has reached the first values."""

    def __init__(self, n_bytes: int) -> None:
        self._n_bytes = n_bytes
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + (self._n_bytes if whence == io.SEEK_END else 0)
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, _: int = -1) -> bytes:
        raise self.Reached


def _check_metadata(metadata: Any, path: Path) -> None:
    """Let Arrow validate the metadata of all columns; it raises OSError for damaged metadata.

    Accessing a damaged entry would crash the process. The reader checks all entries before it
    reads values.
    """
    file = require("pyarrow.parquet").ParquetFile(
        _WithoutValues(path.stat().st_size), metadata=metadata, pre_buffer=True
    )
    try:
        file.read_row_groups(range(metadata.num_row_groups), use_threads=False)
    except _WithoutValues.Reached as reached:
        # Arrow keeps the exception, and its traceback would keep every file on the stack open.
        reached.__traceback__ = None


def _leaf_bytes(leaf: Any) -> int:
    """Return a lower bound of the unpacked size of a column of a row group, from its metadata.

    A few bytes can encode any number of equal values, so the bound counts values, not pages.
    """
    values = leaf.num_values * _WIDTHS.get(leaf.physical_type, 0)
    return max(int(leaf.total_uncompressed_size), int(values))


def _may_repeat(leaf: Any) -> bool:
    """Whether rows may repeat a long text of the dictionary, so that sizes underestimate."""
    return (
        leaf.physical_type == "BYTE_ARRAY"
        and any("DICTIONARY" in encoding for encoding in leaf.encodings)
        and leaf.total_uncompressed_size * leaf.num_values > 2**28
    )


def _unpacked_bytes(array: Any) -> int:
    """Return the size of an Arrow array with its dictionary expanded."""
    types, kind = require("pyarrow").types, array.type
    if types.is_dictionary(kind):
        used = array.indices.drop_null().to_numpy(zero_copy_only=False)
        if not _is_text(kind.value_type):
            return 16 * len(used)
        lengths = require("pyarrow.compute").binary_length(array.dictionary).fill_null(0)
        lengths = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
        return int(lengths[used].sum()) if len(used) else 0
    if types.is_struct(kind):
        return sum(map(_unpacked_bytes, array.flatten()))
    if types.is_nested(kind) and hasattr(array, "flatten"):
        return _unpacked_bytes(array.flatten()) + 8 * len(array)
    return int(array.nbytes)


def _is_list(kind: Any) -> bool:
    types = require("pyarrow").types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_text(kind: Any) -> bool:
    types = require("pyarrow").types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_number(kind: Any) -> bool:
    types = require("pyarrow").types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _is_image(kind: Any) -> bool:
    """Whether a type is the image type of Hugging Face."""
    types = require("pyarrow").types
    return bool(types.is_struct(kind)) and {field.name for field in kind} == {"bytes", "path"}


def _numpy_kind(kind: Any) -> str:
    return str(np.dtype(kind.to_pandas_dtype()).kind)


def _list_lengths(column: Any) -> Array:
    """Return the lengths of the lists that are not null."""
    lengths = require("pyarrow.compute").list_value_length(column).drop_null()
    return np.asarray(lengths.to_numpy(zero_copy_only=False))


# Metadata in the folder of a split, and in the folder above several splits.
_STATE, _SPLITS = "state.json", "dataset_dict.json"
# File names on the Hub.
_SPLIT_FILE = re.compile(r"(\w+)-\d{5}-of-\d{5}")


def dataset_files(path: Path) -> list[Path]:
    """Return the files that ``save_to_disk`` wrote, split by split; empty for other folders.

    Other files in the folder are Hugging Face's cache. Raises CorruptBundleError if the metadata
    does not list the files.
    """
    if (path / _STATE).is_file():
        return _files_of_split(path)
    if not (path / _SPLITS).is_file():
        return []
    names = _read_json(path / _SPLITS).get("splits")
    return [
        file
        for folder in _plain_names(names, path / _SPLITS)
        for file in _files_of_split(path / folder)
    ]


def _files_of_split(folder: Path) -> list[Path]:
    listed = _read_json(folder / _STATE).get("_data_files")
    entries = listed if isinstance(listed, list) else []
    names = [entry.get("filename") if isinstance(entry, dict) else None for entry in entries]
    return [folder / name for name in _plain_names(names, folder / _STATE)]


def _plain_names(names: Any, where: Path) -> list[str]:
    if not isinstance(names, list) or not names or not all(map(_is_plain_name, names)):
        raise CorruptBundleError(f"{where} does not list the files or folders next to it")
    return list(names)


def _is_plain_name(name: Any) -> bool:
    """Whether this is the name of a file in its folder, without a path."""
    return (
        isinstance(name, str)
        and Path(name).name == name
        and name not in ("", "..")
        and "\0" not in name
    )


def _read_json(path: Path) -> dict[str, Any]:
    with guarded(str(path), OSError, ValueError, problem="cannot be read"):
        content = parse_json(path.read_bytes())
    return content if isinstance(content, dict) else {}


def split_of(file: Path) -> str:
    """Return the split of a file, or an empty string."""
    if (file.parent / _STATE).is_file() and (file.parent.parent / _SPLITS).is_file():
        return file.parent.name
    match = _SPLIT_FILE.match(file.name)
    return match[1] if match and not (file.parent / _STATE).is_file() else ""


def class_names(metadata: Mapping[bytes, bytes], column: str) -> tuple[str, ...] | None:
    """Return the class names of a column from the features in a schema, or None."""
    try:
        feature = parse_json(metadata[b"huggingface"])["info"]["features"][column]
        return tuple(map(str, feature.get("feature", feature)["names"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None

"""Parquet and Arrow IPC tables, in one file or several: a column for each view.

Each column is read by itself, some rows at a time: a scan by ``pyarrow.dataset`` would unpack whole
row groups.
"""

import io
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Bools
from acqh._core.imports import require
from acqh.data.readers.columns import (
    CHUNK_SIZE,
    Entry,
    Options,
    Parts,
    Table,
    chain_files,
    check_unpacked_size,
    data_files,
    guarded,
    label_sets,
    parts_of,
)
from acqh.data.readers.hugging_face import class_names, dataset_files, split_of
from acqh.errors import CorruptBundleError, InvalidInputError, LabelError, ViewError

_PARQUET, _ARROW, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_SPLIT = "split"
# Rows of records, which may be images, in memory at a time.
_RECORD_ROWS = 256
# Rows unpacked at a time: few, so that the memory for them is used again and again.
_BATCH_ROWS = 1_024
_KEPT_FILES = 8
# Parquet's physical types of one width. Texts and bytes take what their pages take, or more.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class ArrowTable(Table):
    """The rows of one file, or of the files of a folder one after another.

    Raises CorruptBundleError: a file is damaged. Raises InvalidInputError: there are no files, or
    their columns differ.
    """

    title, magics = "Parquet or Arrow", (_PARQUET, _ARROW, _STREAM)
    suffixes = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
    noun = "column"
    is_paired = True
    no_views = (
        "no column with lists of numbers, so no view; images and texts are described by acqh build"
    )

    def _open(self) -> None:
        self._cursors: dict[str, _Cursor] = {}
        self._opened: dict[Path, _ParquetFile | _ArrowFile] = {}
        self._rows, self._n_bytes = (0, 0), 0
        self.parts = self.parts or list_parts(_find_files(self.path))
        self.files = self.parts[""]
        self._file_size = sum(part.path.stat().st_size for part in self.files)
        self.schema = self.file(self.files[0].path).schema
        self.n_rows = self.files[-1].first_row + self.files[-1].n_rows
        # Images are read as records only: to carry them beside vectors would cost too much.
        shown = [field for field in self.schema if not _is_image(field.type)]
        self.entries = {field.name: self._entry(field) for field in shown}
        if all(split_of(file.path) for file in self.files) and _SPLIT not in self.schema.names:
            self.entries[_SPLIT] = Entry(_SPLIT, (self.n_rows,), "O", form=_SPLIT)

    def class_names(self, labels: str) -> tuple[str, ...] | None:
        """Return what class numbers count where Hugging Face's features say it."""
        return class_names(self.schema.metadata or {}, labels)

    def file(self, path: Path) -> "_ParquetFile | _ArrowFile":
        """Return an open file; a few are kept open for other columns."""
        file = self._opened.pop(path, None) or _open(path)
        self._opened[path] = file
        if len(self._opened) > _KEPT_FILES:
            del self._opened[next(iter(self._opened))]
        return file

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

    def settle(self, entry: Entry) -> Entry:
        """Return a view with as many numbers as the first row that has it."""
        if entry.shape[1] >= 0:
            return entry
        for column in self._all_columns(entry):
            lengths = _list_lengths(column)
            if lengths.size:
                return Entry(entry.name, (self.n_rows, int(lengths[0])), entry.kind)
        raise ViewError(f"{self._where(entry.name)} is empty in every row")

    def _columns(self, entry: Entry, start: int, stop: int) -> Iterator[Any]:
        """Yield rows as Arrow has them; what they take is counted with that of other columns."""
        if (start, stop) != self._rows:
            self._rows, self._n_bytes = (start, stop), 0
        if entry.name not in self._cursors:
            self._cursors[entry.name] = _Cursor(self, entry.name)
        kind = self.schema.field(entry.name).type
        for column in self._cursors[entry.name].columns(start, stop):
            self._n_bytes += _unpacked_bytes(column)
            check_unpacked_size(self.path, self._n_bytes, self._file_size, self.options.max_bytes)
            yield column if column.type.equals(kind) else column.cast(kind)

    def _all_columns(self, entry: Entry) -> Iterator[Any]:
        for start in range(0, self.n_rows, CHUNK_SIZE):
            yield from self._columns(entry, start, min(start + CHUNK_SIZE, self.n_rows))

    def _column(self, entry: Entry, start: int, stop: int) -> Any:
        kind = self.schema.field(entry.name).type
        return require("pyarrow").chunked_array(list(self._columns(entry, start, stop)), kind)

    def take(self, entry: Entry, start: int, stop: int) -> Array:
        """Return any column: numbers without nulls as they are, everything else as objects."""
        if entry.form == _SPLIT:
            files = parts_of(self.parts, start, stop)[""]
            ends = [min(stop, file.first_row + file.n_rows) for file in files]
            names = np.array([split_of(file.path) for file in files], object)
            return np.repeat(names, np.diff([start, *ends]))
        column = self._column(entry, start, stop)
        if not column.null_count and _is_number(column.type):
            return np.asarray(column.to_numpy())
        return np.fromiter(column.to_pylist(), dtype=object, count=len(column))

    def take_view(self, entry: Entry, start: int, stop: int) -> tuple[Array, Bools]:
        """Return a matrix, whose rows are put in their place as they come, and which are there.

        Raises ViewError: a list of another length, or with a null inside; the row is named.
        """
        n_rows, width, done = stop - start, entry.shape[1], 0
        matrix, present = np.empty((0, width)), np.empty(n_rows, dtype=bool)
        for column in self._columns(entry, start, stop):
            rows = slice(done, done + len(column))
            found, present[rows] = self._matrix(column, entry, start + done)
            if len(column) == n_rows:
                return found, present
            if done == 0:
                matrix = np.empty((n_rows, width), found.dtype)
            matrix[rows] = found
            done = rows.stop
        return matrix, present

    def _matrix(self, column: Any, entry: Entry, first_row: int) -> tuple[Array, Bools]:
        where, width = self._where(entry.name), entry.shape[1]
        present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
        rows = first_row + np.flatnonzero(present)
        lengths = _list_lengths(column)
        ragged = np.flatnonzero(lengths != width)
        if ragged.size:
            at = ragged[0]
            raise ViewError(
                f"{where} has {lengths[at]} numbers in row {rows[at]}, but {width} elsewhere; "
                "every row of a view needs as many"
            )
        values = column.flatten()
        if values.null_count:
            missing = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
            raise ViewError(
                f"{where} has a null among its numbers in row {rows[missing // width]}; make the "
                "whole list null where the view is absent"
            )
        numbers = values.to_numpy(zero_copy_only=False).reshape(len(lengths), width)
        if present.all():
            return numbers, present
        matrix = np.zeros((len(present), width), dtype=numbers.dtype)
        matrix[present] = numbers
        return matrix, present

    def take_labels(self, entry: Entry, start: int, stop: int) -> Any:
        """Return a matrix where lists have one size, or else a list of labels for each row."""
        if self._is_multi_hot(entry):
            try:
                return self.take_view(entry, start, stop)[0]
            except ViewError as error:
                raise LabelError(str(error)) from error
        sets = label_sets(self._column(entry, start, stop).to_pylist())
        for row, names in enumerate(sets, start=start):
            if None in names:
                raise LabelError(f"{self._where(entry.name)} has a null in the list of row {row}")
        return sets

    def distinct_labels(self, entry: Entry) -> set[Any] | None:
        """Return all labels; None where they are rows of 0 and 1."""
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
        found: set[Any] = set()
        for column in self._all_columns(entry):
            values = column.flatten() if _is_list(kind) else column
            found.update(values.unique().drop_null().to_pylist())
        return found

    def _is_multi_hot(self, entry: Entry) -> bool:
        return len(entry.shape) == 2 and bool(
            require("pyarrow").types.is_fixed_size_list(self.schema.field(entry.name).type)
        )

    def take_ids(self, entry: Entry, start: int, stop: int) -> Array:
        """Return whole numbers or strings, none of them null."""
        column = self._column(entry, start, stop)
        where = self._where(entry.name)
        if column.null_count:
            row = start + int(np.argmax(column.is_null().to_numpy()))
            raise InvalidInputError(f"{where} is null in row {row}; every item needs an id")
        if require("pyarrow").types.is_integer(column.type):
            return np.asarray(column.to_numpy())
        if not _is_text(column.type):
            raise InvalidInputError(f"{where} is {column.type}; ids are whole numbers or strings")
        return np.asarray(column.to_pylist(), dtype=str)

    def _where(self, name: str) -> str:
        return f"column {name!r} of {self.path.name}"


def arrow_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a table with the place of each; classes that have names by these."""
    table = ArrowTable(path, Options())
    names = table.schema.names
    classes = {name: table.class_names(name) for name in names}
    for start in range(0, table.n_rows, _RECORD_ROWS):
        stop = min(start + _RECORD_ROWS, table.n_rows)
        columns = [table._column(Entry(name, (), "O"), start, stop) for name in names]
        values = zip(*(column.to_pylist() for column in columns), strict=True)
        for number, row in enumerate(values, start=start + 1):
            record = {
                name: _record_value(value, classes[name])
                for name, value in zip(names, row, strict=True)
            }
            yield f"{path.name}, row {number}", record


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


def list_parts(files: Iterable[Path]) -> Parts:
    """Return files, which must have the same columns, with the rows that each of them has."""
    counts: list[tuple[Path, int]] = []
    schema = None
    for path in files:
        file = _open(path)
        schema = schema or file.schema
        if not file.schema.equals(schema):
            raise InvalidInputError(
                f"{path.name} has other columns or types than {counts[0][0].name}; all files of a "
                "folder must have the same"
            )
        counts.append((path, file.n_rows))
    return {"": chain_files(counts)}


class _Cursor:
    """Rows of a column of files one after another, from any row on; reading on costs no search."""

    def __init__(self, table: ArrowTable, name: str) -> None:
        self._table = table
        self._name = name
        self._position = -1
        self._source: Iterator[Any] = iter(())
        self._left: Any = None

    def columns(self, start: int, stop: int) -> Iterator[Any]:
        """Yield some rows; what is not asked for of the last ones is kept."""
        if start != self._position:
            self._source = self._from(start, min(stop - start, _BATCH_ROWS))
            self._left = None
        # Where rows are given up half-way, the next ones must be searched for.
        self._position = -1
        while start < stop:
            column = next(self._source, None) if self._left is None else self._left
            if column is None:
                raise CorruptBundleError(
                    f"{self._table.files[-1].path.name} ends before row {stop - 1} of the whole"
                )
            n_rows = min(len(column), stop - start)
            self._left = column.slice(n_rows) if n_rows < len(column) else None
            start += n_rows
            yield column.slice(0, n_rows)
        self._position = stop

    def _from(self, start: int, size: int) -> Iterator[Any]:
        table = self._table
        for part in parts_of(table.parts, start, table.n_rows)[""]:
            file = table.file(part.path)
            if self._name not in file.schema.names or file.n_rows != part.n_rows:
                raise CorruptBundleError(f"{part.path.name} has changed since it was listed")
            skip, limit = max(start - part.first_row, 0), table.options.max_bytes
            with _named(part.path):
                yield from file.columns(self._name, size, skip, limit)


def _named(path: Path) -> AbstractContextManager[None]:
    """Name the file where Arrow does not."""
    errors = (require("pyarrow").ArrowException, OSError, UnicodeDecodeError)
    return guarded(path.name, *errors)


def _open(path: Path) -> "_ParquetFile | _ArrowFile":
    require("pyarrow")
    with path.open("rb") as handle:
        magic = handle.read(len(_ARROW))
    if not magic.startswith(ArrowTable.magics):
        raise CorruptBundleError(f"{path.name} is neither a Parquet nor an Arrow IPC file")
    with _named(path):
        file = _ParquetFile(path) if magic.startswith(_PARQUET) else _ArrowFile(path)
        names = list(file.schema.names)  # which could be no Unicode
    if len(set(names)) != len(names):
        raise InvalidInputError(f"{path.name} has two columns of one name")
    return file


class _ParquetFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader = require("pyarrow.parquet").ParquetFile(path, pre_buffer=False)
        self._metadata = self._reader.metadata
        self._leaves: list[dict[str, list[Any]]] = []  # of each row group, by column
        self.schema = self._reader.schema_arrow
        self.n_rows = int(self._metadata.num_rows)
        _check_metadata(self._metadata, path)

    def columns(self, name: str, size: int, skip: int, max_bytes: int | None) -> Iterator[Any]:
        """Yield rows after the first `skip`; row groups before are not read."""
        groups, texts, file_size = list[int](), set[str](), self._path.stat().st_size
        for number, leaves in enumerate(self._list_leaves()):
            n_rows = self._metadata.row_group(number).num_rows
            if not groups and skip >= n_rows:
                skip -= n_rows
                continue
            groups.append(number)
            declared = sum(map(_leaf_bytes, leaves[name]))
            check_unpacked_size(self._path, declared, file_size, max_bytes)
            texts |= {leaf.path_in_schema for leaf in leaves[name] if _may_repeat(leaf)}
        reader = self._reader
        if texts:
            # A text that all rows share is then in memory once, until its size has been checked.
            reader = require("pyarrow.parquet").ParquetFile(
                self._path, metadata=self._metadata, read_dictionary=texts, pre_buffer=False
            )
        for batch in reader.iter_batches(size, groups, [name], use_threads=False):
            column = batch.column(0)
            column.validate(full=True)  # texts could be no Unicode
            yield column.slice(min(skip, len(column)))
            skip -= min(skip, len(column))

    def _list_leaves(self) -> list[dict[str, list[Any]]]:
        if not self._leaves:
            for group in map(self._metadata.row_group, range(self._metadata.num_row_groups)):
                leaves: dict[str, list[Any]] = {name: [] for name in self.schema.names}
                for leaf in map(group.column, range(group.num_columns)):
                    leaves.setdefault(leaf.path_in_schema.partition(".")[0], []).append(leaf)
                self._leaves.append(leaves)
        return self._leaves


class _ArrowFile:
    """A file of record batches, or a stream of them, which has no list of where they are."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as handle:
            self._is_stream = handle.read(len(_STREAM)) == _STREAM
        self.schema = self._open().schema

    def _open(self, **options: Any) -> Any:
        """Open the file anew: readers of a stream go on where they are, each by itself."""
        arrow = require("pyarrow")
        opening = arrow.ipc.open_stream if self._is_stream else arrow.ipc.open_file
        source = arrow.memory_map(str(self._path))
        return opening(source, options=arrow.ipc.IpcReadOptions(**options))

    def _batches(self, **options: Any) -> Iterator[Any]:
        reader = self._open(**options)
        if self._is_stream:
            yield from reader
        else:
            yield from map(reader.get_batch, range(reader.num_record_batches))

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are, by what stands before the values."""
        with _named(self._path):
            if self._is_stream:
                return sum(batch.num_rows for batch in self._batches(included_fields=[0]))
            system = require("pyarrow.fs").LocalFileSystem()
            file_format = require("pyarrow.dataset").IpcFileFormat()
            return int(file_format.make_fragment(str(self._path), system).count_rows())

    def columns(self, name: str, size: int, skip: int, _: int | None) -> Iterator[Any]:
        """Yield rows after the first `skip`; of other columns nothing is unpacked."""
        for batch in self._batches(included_fields=[self.schema.names.index(name)]):
            column = batch.column(0)
            column.validate(full=True)  # offsets of a damaged file could point anywhere
            for start in range(skip, len(column), size):
                yield column.slice(start, size)
            skip = max(skip - len(column), 0)


class _WithoutValues(io.RawIOBase):
    """Stands for a file of this many bytes, none of which can be read."""

    class Reached(Exception):  # noqa: N818
        """The reader has come as far as the first values."""

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
    """Have Arrow go through the metadata of all columns, which raises OSError if one is damaged.

    To ask for one that is damaged would end the process. The reader looks at all before it reads.
    """
    file = require("pyarrow.parquet").ParquetFile(
        _WithoutValues(path.stat().st_size), metadata=metadata, pre_buffer=True
    )
    with suppress(_WithoutValues.Reached):
        file.read_row_groups(range(metadata.num_row_groups), use_threads=False)


def _leaf_bytes(leaf: Any) -> int:
    """Return what the values of a column of a row group take at least, by its metadata.

    A few bytes can stand for any number of equal values, so values count, not pages.
    """
    values = leaf.num_values * _WIDTHS.get(leaf.physical_type, 0)
    return max(int(leaf.total_uncompressed_size), int(values))


def _may_repeat(leaf: Any) -> bool:
    """Whether each row may repeat a long text of the dictionary: its size says little then."""
    return (
        leaf.physical_type == "BYTE_ARRAY"
        and any("DICTIONARY" in encoding for encoding in leaf.encodings)
        and leaf.total_uncompressed_size * leaf.num_values > 2**28
    )


def _unpacked_bytes(array: Any) -> int:
    """Return what an Arrow array takes with every text of a dictionary written out."""
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
    """Whether a type is that of Hugging Face's images."""
    types = require("pyarrow").types
    return bool(types.is_struct(kind)) and {field.name for field in kind} == {"bytes", "path"}


def _numpy_kind(kind: Any) -> str:
    return str(np.dtype(kind.to_pandas_dtype()).kind)


def _list_lengths(column: Any) -> Array:
    """Return the lengths of the lists that are not null."""
    lengths = require("pyarrow.compute").list_value_length(column).drop_null()
    return np.asarray(lengths.to_numpy(zero_copy_only=False))

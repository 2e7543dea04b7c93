"""How much memory the rows of Parquet and Arrow files take, known before they are unpacked."""

import io
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.imports import require
from acqh.data.readers.arrowcolumns import is_text

_MAGIC_BYTES, _CONTINUATION = 6, 0xFFFFFFFF
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
# Parquet's physical types of one width. Texts and bytes take what their pages take, or more.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class _NothingReadError(Exception):
    """The reader has come as far as the first values."""


class _WithoutValues(io.RawIOBase):
    """Stands for a file of this many bytes, none of which can be read."""

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
        raise _NothingReadError


def check_parquet_metadata(metadata: Any, path: Path) -> None:
    """Have Arrow go through the metadata of all columns, which raises OSError if one is damaged.

    To ask for one that is damaged would end the process. The reader looks at all before it reads.
    """
    file = require("pyarrow.parquet").ParquetFile(
        _WithoutValues(path.stat().st_size), metadata=metadata, pre_buffer=True
    )
    with suppress(_NothingReadError):
        file.read_row_groups(range(metadata.num_row_groups), use_threads=False)


def parquet_group_bytes(group: Any) -> int:
    """Return what the values of a row group take at least, by its metadata.

    A few bytes can stand for any number of equal values, so values count, not pages.
    """
    total = 0
    for number in range(group.num_columns):
        column = group.column(number)
        values = column.num_values * _WIDTHS.get(column.physical_type, 0)
        total += max(column.total_uncompressed_size, values)
    return total


def text_leaves(metadata: Any, columns: list[str]) -> list[str]:
    """Return the paths of those leaves of a Parquet file whose texts may be written once for many.

    Each row may repeat the longest text of the dictionary, so its size says little.
    """
    found = set()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if (
                column.physical_type == "BYTE_ARRAY"
                and column.path_in_schema.partition(".")[0] in columns
                and any("DICTIONARY" in encoding for encoding in column.encodings)
                and column.total_uncompressed_size * column.num_values > 2**28
            ):
                found.add(column.path_in_schema)
    return sorted(found)


def unpacked_bytes(array: Any) -> int:
    """Return what an Arrow array takes with every text of a dictionary written out."""
    arrow = require("pyarrow")
    kind = array.type
    if arrow.types.is_dictionary(kind):
        lengths = _value_bytes(array.dictionary)
        used = array.indices.drop_null().to_numpy(zero_copy_only=False)
        return int(lengths[used].sum()) if len(used) else 0
    if arrow.types.is_struct(kind):
        return sum(map(unpacked_bytes, array.flatten()))
    if arrow.types.is_nested(kind) and hasattr(array, "flatten"):
        return unpacked_bytes(array.flatten()) + 8 * len(array)
    return int(array.nbytes)


def _value_bytes(values: Any) -> Any:
    """Return what each value of a dictionary takes: its text, or some bytes."""
    if is_text(values.type):
        lengths = require("pyarrow.compute").binary_length(values).fill_null(0)
        return lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.full(len(values), 16, dtype=np.int64)


def ipc_batches(content: Any) -> list[tuple[int, int]]:
    """Return rows and unpacked bytes of every record batch of an Arrow IPC file.

    Dictionaries count to the first batch, with which they are read. `content`: pyarrow.Buffer; the
    whole file, mapped. Raises ArrowInvalid: the file contradicts itself.
    """
    view = memoryview(content)
    try:
        (length,) = struct.unpack_from("<i", view, len(view) - _MAGIC_BYTES - 4)
        footer = _Table.root(view, len(view) - _MAGIC_BYTES - 4 - length)
        shared = sum(_batch(view, at)[1] for at in footer.blocks(2))
        found = [_batch(view, at) for at in footer.blocks(3)]
    except (struct.error, ValueError, RecursionError) as error:
        raise require("pyarrow").ArrowInvalid(str(error)) from error
    if found:
        found[0] = (found[0][0], found[0][1] + shared)
    return found


def _batch(view: memoryview, offset: int) -> tuple[int, int]:
    """Return rows and unpacked bytes of the record batch, or dictionary, at a place of the file."""
    first, size = struct.unpack_from("<Ii", view, offset)
    # Old files have no continuation mark before the size.
    start, size = (offset + 8, size) if first == _CONTINUATION else (offset + 4, first)
    message = _Table.root(view, start)
    batch = message.table(2)
    if message.number(1, "B") == _DICTIONARY_BATCH:
        batch = batch.table(1)
    elif message.number(1, "B") != _RECORD_BATCH:
        raise ValueError("a block is neither a record batch nor a dictionary")
    is_packed = batch.has(3)
    total = 0
    for place, length in batch.pairs(2):
        if is_packed and length >= 8:
            # A packed buffer starts with its length, or with -1 where it is not packed after all.
            (unpacked,) = struct.unpack_from("<q", view, start + size + place)
            length = length - 8 if unpacked == -1 else unpacked
        if length < 0:
            raise ValueError(f"a buffer of {length} bytes")
        total += length
    rows = batch.number(0, "q")
    if rows < 0:
        raise ValueError(f"a batch of {rows} rows")
    return rows, total


class _Table:
    """A table of a flatbuffer: fields by number, each of which may be left out."""

    def __init__(self, view: memoryview, place: int) -> None:
        self._view = view
        self._place = place
        self._fields = place - struct.unpack_from("<i", view, place)[0]
        (self._length,) = struct.unpack_from("<H", view, self._fields)

    @classmethod
    def root(cls, view: memoryview, start: int) -> "_Table":
        return cls(view, start + struct.unpack_from("<I", view, start)[0])

    def _offset(self, field: int) -> int:
        entry = 4 + 2 * field
        if entry + 2 > self._length:
            return 0
        return int(struct.unpack_from("<H", self._view, self._fields + entry)[0])

    def has(self, field: int) -> bool:
        return self._offset(field) > 0

    def number(self, field: int, kind: str) -> int:
        offset = self._offset(field)
        return int(
            struct.unpack_from(f"<{kind}", self._view, self._place + offset)[0] if offset else 0
        )

    def _follow(self, field: int) -> int:
        if not self.has(field):
            raise ValueError("a part is missing")
        place = self._place + self._offset(field)
        return place + int(struct.unpack_from("<I", self._view, place)[0])

    def table(self, field: int) -> "_Table":
        return _Table(self._view, self._follow(field))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """Yield the entries of a list of pairs of 64-bit numbers."""
        for place in self._entries(field, 16):
            yield struct.unpack_from("<qq", self._view, place)

    def blocks(self, field: int) -> Iterator[int]:
        """Yield where the blocks of a footer start."""
        for place in self._entries(field, 24):
            yield struct.unpack_from("<q", self._view, place)[0]

    def _entries(self, field: int, size: int) -> range:
        if not self.has(field):
            return range(0)
        start = self._follow(field)
        (count,) = struct.unpack_from("<I", self._view, start)
        if start + 4 + count * size > len(self._view):
            raise ValueError("a list goes beyond the end")
        return range(start + 4, start + 4 + count * size, size)

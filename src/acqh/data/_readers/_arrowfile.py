"""The rows of Parquet and Arrow IPC files, in batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acqh._core.errors import CorruptBundleError, InvalidInputError
from acqh._core.optional import require
from acqh.data._readers._limits import check_unpacked_size

TABLE_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
PARQUET_MAGIC, ARROW_MAGIC = b"PAR1", b"ARROW1"
# A value of a view or a label takes at most so much.
_VALUE_BYTES = 8


class ArrowTable:
    """The rows of one file, or of the files of a folder one after another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = _find_files(path)
        with _open_file(self.files[0]) as file:
            self.schema = file.schema
        for other in self.files[1:]:
            with _open_file(other) as file:
                if not file.schema.equals(self.schema):
                    raise InvalidInputError(
                        f"{other.name} has other columns or types than {self.files[0].name}; "
                        "all files of a folder must have the same"
                    )
        self.columns: list[str] = list(self.schema.names)
        if len(set(self.columns)) != len(self.columns):
            raise InvalidInputError(f"{path.name} has two columns of one name")

    def check_size(self, max_bytes: int | None) -> None:
        """Refuse files that would unpack to far more than their size."""
        for path in self.files:
            with _open_file(path) as file:
                declared = file.count_values() * _VALUE_BYTES
            check_unpacked_size(path, declared, path.stat().st_size, max_bytes)

    def batches(self, columns: list[str], size: int) -> Iterator[Any]:
        """Yield record batches of some columns, of at most `size` rows."""
        for path in self.files:
            with _open_file(path) as file:
                yield from file.batches(columns, size)


def _find_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(
        file
        for file in path.rglob("*")
        if file.suffix in TABLE_SUFFIXES and not file.name.startswith((".", "_"))
    )
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
                yield _ParquetFile(reader)
        else:
            with arrow.memory_map(str(path)) as source, arrow.ipc.open_file(source) as reader:
                yield _ArrowFile(reader)
    except (arrow.ArrowException, OSError) as error:
        raise CorruptBundleError(f"{path.name} is damaged: {error}") from error


class _ParquetFile:
    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.schema = reader.schema_arrow

    def count_values(self) -> int:
        groups = [self._reader.metadata.row_group(i) for i in range(self._reader.num_row_groups)]
        return sum(g.column(j).num_values for g in groups for j in range(g.num_columns))

    def batches(self, columns: list[str], size: int) -> Iterator[Any]:
        yield from self._reader.iter_batches(size, columns=columns, use_threads=False)


class _ArrowFile:
    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.schema = reader.schema

    def count_values(self) -> int:
        # Mapped into memory, not unpacked.
        return 0

    def batches(self, columns: list[str], size: int) -> Iterator[Any]:
        for index in range(self._reader.num_record_batches):
            batch = self._reader.get_batch(index).select(columns)
            # Offsets of a hostile file could point anywhere.
            batch.validate(full=True)
            for start in range(0, batch.num_rows, size):
                yield batch.slice(start, size)


def rebatch(batches: Iterator[Any], size: int) -> Iterator[Any]:
    """Yield tables of `size` rows, the last one shorter."""
    arrow = require("pyarrow")
    pending: list[Any] = []
    n_pending = 0
    for batch in batches:
        pending.append(batch)
        n_pending += batch.num_rows
        if n_pending >= size:
            table = arrow.Table.from_batches(pending)
            yield table.slice(0, size)
            # A batch has at most `size` rows, so that less than one chunk is left.
            pending = table.slice(size).to_batches()
            n_pending -= size
    if n_pending:
        yield arrow.Table.from_batches(pending)

"""The rows of Parquet and Arrow IPC files, in batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acqh._core.errors import CorruptBundleError, InvalidInputError
from acqh._core.optional import require
from acqh.data._readers._limits import CHUNK_SIZE, check_unpacked_size

TABLE_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
PARQUET_MAGIC, ARROW_MAGIC = b"PAR1", b"ARROW1"


class ArrowTable:
    """The rows of one file, or of the files of a folder one after another.

    Parameters
    ----------
    path : Path

    Raises
    ------
    CorruptBundleError
        A file is damaged.
    InvalidInputError
        There are no files, or their columns differ.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = _find_files(path)
        with _open_file(self.files[0]) as file:
            self.schema = file.schema
            self.columns: list[str] = list(file.schema.names)
        for other in self.files[1:]:
            with _open_file(other) as file:
                if not file.schema.equals(self.schema):
                    raise InvalidInputError(
                        f"{other.name} has other columns or types than {self.files[0].name}; "
                        "all files of a folder must have the same"
                    )
        if len(set(self.columns)) != len(self.columns):
            raise InvalidInputError(f"{path.name} has two columns of one name")

    def batches(self, columns: list[str], size: int) -> Iterator[Any]:
        """Yield record batches of some columns, of at most `size` rows."""
        for path in self.files:
            with _open_file(path) as file:
                yield from file.batches(columns, size)

    def whole(self, max_bytes: int | None) -> Any:
        """Return all rows; stop where they unpack to far more than the files' size."""
        file_size = sum(file.stat().st_size for file in self.files)
        batches, n_bytes = [], 0
        for batch in self.batches(self.columns, CHUNK_SIZE):
            n_bytes += batch.nbytes
            check_unpacked_size(self.path, n_bytes, file_size, max_bytes)
            batches.append(batch)
        return require("pyarrow").Table.from_batches(batches, schema=self.schema)


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
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptBundleError(f"{path.name} is damaged: {error}") from error


class _ParquetFile:
    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.schema = reader.schema_arrow

    def batches(self, columns: list[str], size: int) -> Iterator[Any]:
        for batch in self._reader.iter_batches(size, columns=columns, use_threads=False):
            # Texts could be no Unicode.
            batch.validate(full=True)
            yield batch


class _ArrowFile:
    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.schema = reader.schema

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

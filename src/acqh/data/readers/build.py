"""Rows of data from columns of tables and from arrays, in one or several sets of files."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self

import numpy as np

from acqh._core.arrays import Array
from acqh.data.checks import check_splits
from acqh.data.multiview import MultiViewData
from acqh.data.readers import arrowcolumns as arrow
from acqh.data.readers.arrays import Header, file_rows, read_file_header
from acqh.data.readers.classes import Classes
from acqh.data.readers.limits import check_unpacked_size
from acqh.data.readers.options import column_splits
from acqh.data.readers.pieces import ReadRows, RowSource
from acqh.data.readers.tables import File, FileRows, TableCursor, files_of
from acqh.errors import CorruptBundleError, ViewError


class Column(NamedTuple):
    """A column of one of several sets of files; arrays are one column, without a name."""

    source: str
    name: str = ""


@dataclass(frozen=True)
class Files(Generic[File]):
    """Files whose rows follow one another."""

    path: Path
    files: tuple[File, ...]

    def only(self, start: int, stop: int) -> Self:
        """Return this without files that have none of these rows."""
        return replace(self, files=files_of(self.files, start, stop))


@dataclass(frozen=True)
class Tables(Files[FileRows]):
    """Some columns of tables."""

    columns: tuple[str, ...]

    def reader(self) -> Callable[[int, int], Iterator[Any]]:
        """Return what gives some rows in batches, which have columns by name."""
        return TableCursor(self.files, [*dict.fromkeys(self.columns)]).batches


@dataclass(frozen=True)
class NpyFile(FileRows):
    """A .npy file, and what its header said when it was listed."""

    header: Header


@dataclass(frozen=True)
class Arrays(Files[NpyFile]):
    """Arrays in .npy files."""

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a row."""
        return self.files[0].header.shape[1:]

    def reader(self) -> Callable[[int, int], Iterator[Any]]:
        """Return what gives some rows in batches, which are arrays."""
        return self._batches

    def _batches(self, start: int, stop: int) -> Iterator[Array]:
        for file in files_of(self.files, start, stop):
            if read_file_header(file.path) != file.header:
                raise CorruptBundleError(f"{file.path} has changed since it was listed")
            first, last = max(start, file.first_row), min(stop, file.last_row + 1)
            take = file_rows(file.path, file.header)
            yield take(first - file.first_row, last - file.first_row)


@dataclass(frozen=True)
class ColumnRows(RowSource):
    """The rows of columns that are paired in the order of their files."""

    sources: Mapping[str, Tables | Arrays]
    views: Mapping[str, Column]
    widths: Mapping[str, int]
    labels: Column | None
    classes: Classes
    # All that have ids: they must agree.
    ids: tuple[Column, ...]
    items: Mapping[str, Column]

    @contextmanager
    def open(self) -> Iterator[ReadRows]:
        """Open the files, as their rows are read."""
        readers = {name: source.reader() for name, source in self.sources.items()}
        labels = () if self.labels is None else (self.labels,)

        def read(start: int, stop: int) -> MultiViewData:
            views = {
                view: arrow.ViewRows(stop - start, self.widths[view], self._where(column), start)
                for view, column in self.views.items()
            }
            pieces: dict[Column, list[Any]] = {
                column: [] for column in (*labels, *self.ids, *self.items.values())
            }
            for source, batches in readers.items():
                for batch in batches(start, stop):
                    for view, column in self.views.items():
                        if column.source == source:
                            views[view].add(arrow.column_of(batch, column.name))
                    for column, found in pieces.items():
                        if column.source == source:
                            found.append(arrow.column_of(batch, column.name))
            joined = {column: arrow.join(found) for column, found in pieces.items()}
            return self._build(views, joined, range(start, stop))

        yield read

    def _build(
        self, views: Mapping[str, arrow.ViewRows], columns: Mapping[Column, Any], rows: range
    ) -> MultiViewData:
        labels: Any = None
        if self.labels is not None:
            found, where = columns[self.labels], self._where(self.labels)
            labels = arrow.label_values(found, self.classes, where, rows.start)
        return MultiViewData(
            {view: each.matrix for view, each in views.items()},
            labels,
            ids=self._ids(columns, rows),
            items={name: arrow.item_values(columns[column]) for name, column in self.items.items()},
            label_names=None if labels is None else self.classes.names,
            present={view: each.present for view, each in views.items()},
            name=self.path.stem,
        )

    def _ids(self, columns: Mapping[Column, Any], rows: range) -> Array:
        found = [
            arrow.id_values(columns[column], self._where(column), rows.start) for column in self.ids
        ]
        for column, values in zip(self.ids[1:], found[1:], strict=True):
            differ = found[0] != values
            if np.any(differ):
                row = int(np.argmax(differ))
                raise ViewError(
                    f"row {rows[row]} has the id {found[0][row]} in {self._path(self.ids[0])} but "
                    f"{values[row]} in {self._path(column)}; rows are paired in the order of the "
                    "files"
                )
        return found[0] if found else np.arange(rows.start, rows.stop)

    def whole(self) -> MultiViewData:
        """Read all rows, with the official split where a column has one.

        Raises InvalidInputError: they would unpack to far more than the files' size.
        """
        for source in self.sources.values():
            n_bytes = sum(file.n_bytes for file in source.files)
            file_size = sum(file.path.stat().st_size for file in source.files)
            check_unpacked_size(source.path, n_bytes, file_size, source.files[0].max_bytes)
        data = super().whole()
        return data._replace(splits=check_splits(column_splits(data.items), len(data)))

    def only(self, start: int, stop: int) -> Self:
        """Return this without files that have none of these rows."""
        fewer = {name: source.only(start, stop) for name, source in self.sources.items()}
        return replace(self, sources=fewer)

    def files(self) -> Iterable[Path]:
        """Return the files that rows are read from."""
        return [file.path for source in self.sources.values() for file in source.files]

    def _path(self, column: Column) -> Path:
        return self.sources[column.source].path

    def _where(self, column: Column) -> str:
        return f"column {column.name!r} of {self._path(column).relative_to(self.path.parent)}"

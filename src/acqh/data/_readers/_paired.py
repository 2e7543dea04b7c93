"""A folder with a folder for each view and for the labels, whose files are cut differently."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, Bools, Matrix
from acqh.data._multiview import MultiViewData
from acqh.data._readers import _columns
from acqh.data._readers._arrowfile import (
    TABLE_SUFFIXES,
    ArrowTable,
    FileRows,
    TableCursor,
    files_of,
    natural_order,
)
from acqh.data._readers._classes import Classes, find_classes
from acqh.data._readers._limits import check_names_have_labels
from acqh.data._readers._parquet import class_names, view_width
from acqh.data._readers._pieces import ReadRows, RowSource
from acqh.data._readers._store import Header, file_rows, read_file_header
from acqh.data._readers._tables import ID_COLUMNS, LABEL_COLUMNS, NamedOptions, find_column
from acqh.errors import CorruptBundleError, InvalidInputError, LabelError, ViewError

WELL_KNOWN_FOLDERS = ("image", "text", *LABEL_COLUMNS, *ID_COLUMNS)


@dataclass(frozen=True)
class _NpyFile(FileRows):
    header: Header


@dataclass(frozen=True)
class _Arrays:
    """The rows of the .npy files of a folder, one after another."""

    folder: Path
    parts: tuple[_NpyFile, ...]

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.parts[0].header.shape[1:]

    def only(self, start: int, stop: int) -> "_Arrays":
        return replace(self, parts=files_of(self.parts, start, stop))

    def reader(self) -> Callable[[int, int], Array]:
        return self._read

    def _read(self, start: int, stop: int) -> Array:
        blocks = []
        for part in files_of(self.parts, start, stop):
            if read_file_header(part.path) != part.header:
                raise CorruptBundleError(f"{part.path} has changed since it was listed")
            rows = max(start, part.first_row), min(stop, part.last_row + 1)
            take = file_rows(part.path, part.header)
            blocks.append(take(rows[0] - part.first_row, rows[1] - part.first_row))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


@dataclass(frozen=True)
class _TableColumn:
    """A column of the tables of a folder."""

    folder: Path
    parts: tuple[FileRows, ...]
    name: str

    def only(self, start: int, stop: int) -> "_TableColumn":
        return replace(self, parts=files_of(self.parts, start, stop))

    def reader(self) -> Callable[[int, int], Any]:
        cursor = TableCursor(self.parts, [self.name])
        return lambda start, stop: cursor.read(start, stop).column(0)


_Rows = _Arrays | _TableColumn


@dataclass(frozen=True)
class PairedRows(RowSource):
    """The rows of folders, paired in the order of their files."""

    views: Mapping[str, _Rows]
    widths: Mapping[str, int]
    labels: _Rows | None
    classes: Classes
    # All that have ids: they must agree.
    ids: tuple[_Rows, ...]

    @contextmanager
    def open(self) -> Iterator[ReadRows]:
        """Open the files, as their rows are read."""
        views = {view: rows.reader() for view, rows in self.views.items()}
        ids = [rows.reader() for rows in self.ids]
        labels = None if self.labels is None else self.labels.reader()

        def read(start: int, stop: int) -> MultiViewData:
            matrices, present = {}, {}
            for view, take in views.items():
                matrices[view], present[view] = self._view(view, take(start, stop), start)
            sets = None if labels is None else self._labels(labels(start, stop), start)
            return MultiViewData(
                matrices,
                sets,
                ids=self._ids([take(start, stop) for take in ids], start, stop),
                label_names=None if sets is None else self.classes.names,
                present=present,
                name=self.path.stem,
            )

        yield read

    def _view(self, view: str, values: Any, start: int) -> tuple[Matrix, Bools]:
        if isinstance(values, np.ndarray):
            return values, np.ones(len(values), dtype=bool)
        rows = self.views[view]
        return _columns.view_matrix(values, self.widths[view], _where(rows), start)

    def _labels(self, values: Any, start: int) -> Any:
        if isinstance(values, np.ndarray):
            return self.classes.named(values)
        if _columns.is_multi_hot(values.type):
            return _columns.label_matrix(values, _where(self.labels), start)
        return _columns.label_sets(values.combine_chunks(), _where(self.labels), start)

    def _ids(self, found: list[Any], start: int, stop: int) -> Array:
        if not found:
            return np.arange(start, stop)
        columns = [
            values
            if isinstance(values, np.ndarray)
            else _columns.id_values(values.combine_chunks(), _where(rows), start)
            for rows, values in zip(self.ids, found, strict=True)
        ]
        for rows, column in zip(self.ids[1:], columns[1:], strict=True):
            differ = columns[0] != column
            if np.any(differ):
                row = int(np.argmax(differ))
                raise ViewError(
                    f"row {start + row} has the id {columns[0][row]} in {self.ids[0].folder} but "
                    f"{column[row]} in {rows.folder}; rows are paired in the order of the files"
                )
        return columns[0]

    def only(self, start: int, stop: int) -> Self:
        """Return this without files that have none of these rows."""
        return replace(
            self,
            views={view: rows.only(start, stop) for view, rows in self.views.items()},
            labels=None if self.labels is None else self.labels.only(start, stop),
            ids=tuple(rows.only(start, stop) for rows in self.ids),
        )

    def files(self) -> Iterable[Path]:
        """Return the files of all folders."""
        others = () if self.labels is None else (self.labels,)
        return {
            part.path for rows in (*self.views.values(), *others, *self.ids) for part in rows.parts
        }


def is_paired(path: Path, views: Mapping[str, str] | None) -> bool:
    """Whether a folder has folders of the usual names, or those that were named for views."""
    names = WELL_KNOWN_FOLDERS if views is None else views.values()
    return any((path / name).is_dir() for name in names)


def find_paired_rows(path: Path, _: int, options: NamedOptions) -> PairedRows:
    """Look at the files of all folders, and read labels where their names have to be collected."""
    there = [each.name for each in sorted(path.iterdir()) if _has_data(each)]
    own = {
        what: find_column(there, given, usual, path.name, what)
        for what, given, usual in (
            ("labels", options.labels, LABEL_COLUMNS),
            ("ids", options.ids, ID_COLUMNS),
        )
    }
    named = options.views
    if named is None:
        named = {name: name for name in there if name not in own.values()}
    for view, name in named.items():
        find_column(there, name, (), path.name, f"view {view!r}")
    if not named:
        raise InvalidInputError(f"{path} has no folder with a view, only {', '.join(there)}")
    used = [*dict.fromkeys([*named.values(), *(n for n in own.values() if n is not None)])]
    folders = {name: _open_folder(path / name) for name in used}
    views = {view: _find_view(folders[name], view) for view, name in named.items()}
    n_rows = _check_totals([*folders.values()], path)
    labels = _find_labels(folders, own["labels"], [*named.values()])
    if labels is None:
        check_names_have_labels(options.label_names, path)
    classes = _find_classes(labels, folders, n_rows, options.label_names)
    return PairedRows(
        path=path,
        n_rows=n_rows,
        views={view: rows for view, (rows, _) in views.items()},
        widths={view: width for view, (_, width) in views.items()},
        # Where no row has a label there are no columns for them.
        labels=None if classes.names == () else labels,
        classes=classes,
        ids=_find_ids(folders, own["ids"], [*named.values()]),
    )


def _has_data(folder: Path) -> bool:
    return folder.is_dir() and not folder.name.startswith((".", "_")) and bool(_data_files(folder))


def _data_files(folder: Path) -> list[Path]:
    kinds = (".npy", *TABLE_SUFFIXES)
    found = (each for each in folder.iterdir() if each.suffix in kinds)
    return sorted(
        (each for each in found if not each.name.startswith((".", "_"))), key=natural_order
    )


def _open_folder(folder: Path) -> _Arrays | ArrowTable:
    files = _data_files(folder)
    arrays = [file for file in files if file.suffix == ".npy"]
    if not arrays:
        return ArrowTable(folder)
    if len(arrays) < len(files):
        raise InvalidInputError(f"{folder} has both .npy files and tables; keep one kind")
    parts: list[_NpyFile] = []
    first_row = 0
    for file in arrays:
        header = read_file_header(file)
        if not header.shape:
            raise InvalidInputError(f"{file} holds a single number, not rows")
        parts.append(_NpyFile(file, first_row, header.shape[0], header))
        first_row += header.shape[0]
        if (header.shape[1:], header.dtype) != (parts[0].header.shape[1:], parts[0].header.dtype):
            raise InvalidInputError(
                f"{file} has rows of shape {header.shape[1:]} and dtype {header.dtype}, "
                f"{parts[0].path.name} of {parts[0].header.shape[1:]} and {parts[0].header.dtype}; "
                "all files of a folder must have the same"
            )
    return _Arrays(folder, tuple(parts))


def _find_view(content: _Arrays | ArrowTable, view: str) -> tuple[_Rows, int]:
    if isinstance(content, _Arrays):
        kind = content.parts[0].header.dtype.kind
        if len(content.row_shape) != 1 or kind not in "buif":
            raise ViewError(
                f"{content.folder} has rows of shape {content.row_shape} and kind {kind!r}; a view "
                "has a row of numbers for each item"
            )
        return content, content.row_shape[0]
    vectors = [
        field.name
        for field in content.schema
        if _columns.is_vector(field.type) and field.name not in LABEL_COLUMNS
    ]
    if view in vectors:
        vectors = [view]
    if len(vectors) != 1:
        raise InvalidInputError(
            f"{content.path} has {len(vectors)} columns with lists of numbers: "
            f"{', '.join(vectors) or 'none'}; it needs one, or one called {view!r}"
        )
    rows = _TableColumn(content.path, content.files, vectors[0])
    return rows, view_width(content, vectors[0])


def _find_labels(
    folders: Mapping[str, _Arrays | ArrowTable], own: str | None, views: list[str]
) -> _Rows | None:
    """Return the labels' own folder, or the one view folder whose tables have labels."""
    if own is not None:
        return _only_column(folders[own], LABEL_COLUMNS)
    found = _columns_beside(folders, views, LABEL_COLUMNS)
    if len(found) > 1:
        raise LabelError(
            f"there are labels in {' and in '.join(str(rows.folder) for rows in found)}; name the "
            "folder to take with labels=NAME"
        )
    return found[0] if found else None


def _find_ids(
    folders: Mapping[str, _Arrays | ArrowTable], own: str | None, views: list[str]
) -> tuple[_Rows, ...]:
    """Return all there are, so that they can be compared."""
    beside = _columns_beside(folders, views, ID_COLUMNS)
    return tuple(beside) if own is None else (_only_column(folders[own], ID_COLUMNS), *beside)


def _columns_beside(
    folders: Mapping[str, _Arrays | ArrowTable], views: list[str], usual: tuple[str, ...]
) -> list[_Rows]:
    found: list[_Rows] = []
    for name in dict.fromkeys(views):
        content = folders[name]
        if isinstance(content, ArrowTable):
            column = next((each for each in usual if each in content.columns), None)
            if column is not None:
                found.append(_TableColumn(content.path, content.files, column))
    return found


def _only_column(content: _Arrays | ArrowTable, usual: tuple[str, ...]) -> _Rows:
    if isinstance(content, _Arrays):
        return content
    column = next((each for each in usual if each in content.columns), None)
    if column is None and len(content.columns) == 1:
        column = content.columns[0]
    if column is None:
        raise InvalidInputError(
            f"{content.path} has the columns {', '.join(content.columns)}; call one {usual[0]!r}"
        )
    return _TableColumn(content.path, content.files, column)


def _check_totals(contents: Sequence[_Arrays | ArrowTable], path: Path) -> int:
    parts = [each.parts if isinstance(each, _Arrays) else each.files for each in contents]
    totals = [sum(file.n_rows for file in files) for files in parts]
    if len(set(totals)) > 1:
        shown = "; ".join(
            f"{total} in {', '.join(str(file.path.relative_to(path)) for file in files[:4])}"
            f"{', ...' if len(files) > 4 else ''}"
            for files, total in zip(parts, totals, strict=True)
        )
        raise ViewError(f"{path.name} has unpaired rows: {shown}; rows are paired in this order")
    return totals[0]


def _find_classes(
    labels: _Rows | None,
    folders: Mapping[str, _Arrays | ArrowTable],
    n_rows: int,
    names: Sequence[str] | None,
) -> Classes:
    if labels is None:
        return Classes()
    content = folders[labels.folder.name]
    if isinstance(labels, _TableColumn) and isinstance(content, ArrowTable):
        return Classes(class_names(content, labels.name, names))
    if isinstance(labels, _Arrays) and not labels.row_shape:
        return find_classes(labels.reader(), n_rows, names, str(labels.folder))
    return Classes(None if names is None else tuple(str(name) for name in names))


def _where(rows: _Rows | None) -> str:
    return f"column {rows.name!r} of {rows.folder}" if isinstance(rows, _TableColumn) else ""

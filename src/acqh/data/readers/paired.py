"""A folder with a folder for each view and for the labels, whose files are cut differently."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from acqh.data.readers import arrowcolumns as arrow
from acqh.data.readers.arrays import read_file_header
from acqh.data.readers.build import Arrays, Column, ColumnRows, NpyFile, Tables
from acqh.data.readers.classes import Classes, find_classes
from acqh.data.readers.limits import check_any_rows, check_names_have_labels
from acqh.data.readers.options import ID_COLUMNS, LABEL_COLUMNS, NamedOptions, find_column
from acqh.data.readers.parquet import table_classes, view_width
from acqh.data.readers.tables import TABLE_SUFFIXES, ArrowTable, data_files
from acqh.errors import InvalidInputError, LabelError, ViewError

WELL_KNOWN_FOLDERS = ("image", "text", *LABEL_COLUMNS, *ID_COLUMNS)
# What each folder has, by its name.
_Folders = Mapping[str, Arrays | ArrowTable]


def is_paired(path: Path, views: Mapping[str, str] | None) -> bool:
    """Whether a folder has folders of the usual names, or those that were named for views."""
    names = WELL_KNOWN_FOLDERS if views is None else views.values()
    return any((path / name).is_dir() for name in names)


def find_paired_rows(path: Path, _: int, options: NamedOptions) -> ColumnRows:
    """Look at the files of all folders, and read labels where their names have to be collected."""
    there = [each.name for each in sorted(path.iterdir()) if _has_data(each)]
    own_labels = find_column(there, options.labels, LABEL_COLUMNS, path.name, "labels")
    own_ids = find_column(there, options.ids, ID_COLUMNS, path.name, "ids")
    named = options.views
    if named is None:
        named = {name: name for name in there if name not in (own_labels, own_ids)}
    for view, name in named.items():
        find_column(there, name, (), path.name, f"view {view!r}")
    if not named:
        raise InvalidInputError(f"{path} has no folder with a view, only {', '.join(there)}")
    used = dict.fromkeys([*named.values(), own_labels, own_ids])
    folders = {name: _open_folder(path / name) for name in used if name is not None}
    views = {view: _find_view(folders, name, view) for view, name in named.items()}
    n_rows = _check_totals([*folders.values()], path)
    labels = _find_labels(folders, own_labels, named.values())
    classes = _find_classes(labels, folders, n_rows, options.label_names, path)
    # Where no row has a label there are no columns for them.
    labels = None if classes.names == () else labels
    ids = _columns_beside(folders, named.values(), ID_COLUMNS)
    if own_ids is not None:
        ids.insert(0, _only_column(folders, own_ids, ID_COLUMNS))
    columns: dict[str, list[str]] = {}
    for column in [*(it for it, _ in views.values()), *ids, *([labels] if labels else [])]:
        columns.setdefault(column.source, []).append(column.name)
    return ColumnRows(
        path=path,
        n_rows=n_rows,
        sources={name: _source(folders[name], names) for name, names in columns.items()},
        views={view: column for view, (column, _) in views.items()},
        widths={view: width for view, (_, width) in views.items()},
        labels=labels,
        classes=classes,
        ids=tuple(ids),
        items={},
    )


def _source(content: Arrays | ArrowTable, columns: list[str]) -> Arrays | Tables:
    if isinstance(content, Arrays):
        return content
    return Tables(content.path, content.files, tuple(columns))


def _has_data(folder: Path) -> bool:
    return folder.is_dir() and not folder.name.startswith((".", "_")) and bool(_files(folder))


def _files(folder: Path) -> list[Path]:
    return data_files(folder.iterdir(), (".npy", *TABLE_SUFFIXES))


def _open_folder(folder: Path) -> Arrays | ArrowTable:
    files = _files(folder)
    arrays = [file for file in files if file.suffix == ".npy"]
    if not arrays:
        return ArrowTable(folder)
    if len(arrays) < len(files):
        raise InvalidInputError(f"{folder} has both .npy files and tables; keep one kind")
    parts: list[NpyFile] = []
    first_row = 0
    for file in arrays:
        header = read_file_header(file)
        if not header.shape:
            raise InvalidInputError(f"{file} holds a single number, not rows")
        parts.append(NpyFile(file, first_row, header.shape[0], header))
        first_row += header.shape[0]
        if (header.shape[1:], header.dtype) != (parts[0].header.shape[1:], parts[0].header.dtype):
            raise InvalidInputError(
                f"{file} has rows of shape {header.shape[1:]} and dtype {header.dtype}, "
                f"{parts[0].path.name} of {parts[0].header.shape[1:]} and {parts[0].header.dtype}; "
                "all files of a folder must have the same"
            )
    return Arrays(folder, tuple(parts))


def _find_view(folders: _Folders, name: str, view: str) -> tuple[Column, int]:
    """Return the column of a view, and how many numbers it has."""
    content = folders[name]
    if isinstance(content, Arrays):
        kind = content.files[0].header.dtype.kind
        if len(content.row_shape) != 1 or kind not in "buif":
            raise ViewError(
                f"{content.path} has rows of shape {content.row_shape} and kind {kind!r}; a view "
                "has a row of numbers for each item"
            )
        return Column(name), content.row_shape[0]
    vectors = [
        field.name
        for field in content.schema
        if arrow.is_vector(field.type) and field.name.lower() not in LABEL_COLUMNS
    ]
    if view in vectors:
        vectors = [view]
    if len(vectors) != 1:
        raise InvalidInputError(
            f"{content.path} has {len(vectors)} columns with lists of numbers: "
            f"{', '.join(vectors) or 'none'}; it needs one, or one called {view!r}"
        )
    return Column(name, vectors[0]), view_width(content, vectors[0])


def _find_labels(folders: _Folders, own: str | None, views: Iterable[str]) -> Column | None:
    """Return the labels' own folder, or the one view folder whose tables have labels."""
    if own is not None:
        return _only_column(folders, own, LABEL_COLUMNS)
    found = _columns_beside(folders, views, LABEL_COLUMNS)
    if len(found) > 1:
        raise LabelError(
            f"there are labels in {' and in '.join(str(folders[c.source].path) for c in found)}; "
            "name the folder to take with labels=NAME"
        )
    return found[0] if found else None


def _columns_beside(
    folders: _Folders, views: Iterable[str], usual: tuple[str, ...]
) -> list[Column]:
    """Return the columns of a usual name in the tables of views."""
    found = []
    for name in dict.fromkeys(views):
        content = folders[name]
        if isinstance(content, ArrowTable):
            column = find_column(content.columns, None, usual, name, "")
            found += [] if column is None else [Column(name, column)]
    return found


def _only_column(folders: _Folders, name: str, usual: tuple[str, ...]) -> Column:
    """Return the column of a folder of its own."""
    content = folders[name]
    if isinstance(content, Arrays):
        return Column(name)
    column = find_column(content.columns, None, usual, name, "")
    if column is None and len(content.columns) == 1:
        column = content.columns[0]
    if column is None:
        raise InvalidInputError(
            f"{content.path} has the columns {', '.join(content.columns)}; call one {usual[0]!r}"
        )
    return Column(name, column)


def _check_totals(contents: Sequence[Arrays | ArrowTable], path: Path) -> int:
    parts = [each.files for each in contents]
    totals = [sum(file.n_rows for file in files) for files in parts]
    if len(set(totals)) > 1:
        shown = "; ".join(
            f"{total} in {', '.join(str(file.path.relative_to(path)) for file in files[:4])}"
            f"{', ...' if len(files) > 4 else ''}"
            for files, total in zip(parts, totals, strict=True)
        )
        raise ViewError(f"{path.name} has unpaired rows: {shown}; rows are paired in this order")
    check_any_rows(totals[0], path)
    return totals[0]


def _find_classes(
    labels: Column | None,
    folders: _Folders,
    n_rows: int,
    names: Sequence[str] | None,
    path: Path,
) -> Classes:
    if labels is None:
        check_names_have_labels(names, path)
        return Classes()
    content = folders[labels.source]
    if isinstance(content, ArrowTable):
        return table_classes(content, labels.name, names)
    if content.row_shape:
        return Classes(None if names is None else tuple(str(name) for name in names))
    batches = content.reader()
    return find_classes(
        lambda start, stop: arrow.join([*batches(start, stop)]),
        n_rows,
        names,
        str(content.path),
    )

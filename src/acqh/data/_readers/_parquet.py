"""Read Parquet and Arrow IPC tables: a column for each view, whole or in chunks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from acqh._core.optional import require
from acqh.data._checks import check_splits
from acqh.data._multiview import MultiViewData
from acqh.data._readers import _columns
from acqh.data._readers._arrowfile import ArrowTable, FileRows, TableCursor, files_of
from acqh.data._readers._columns import is_list, is_multi_hot, is_vector, list_lengths
from acqh.data._readers._limits import CHUNK_SIZE, check_names_have_labels, check_unpacked_size
from acqh.data._readers._pieces import ReadRows, RowSource
from acqh.data._readers._tables import (
    ID_COLUMNS,
    LABEL_COLUMNS,
    NamedOptions,
    column_splits,
    find_column,
    sort_names,
)
from acqh.errors import InvalidInputError, LabelError, ViewError


@dataclass(frozen=True)
class TableOptions(NamedOptions):
    """What a caller may say about a table."""

    max_bytes: int | None = None


@dataclass(frozen=True)
class _Plan:
    """Which column is what; the width of each view; the names of the label columns."""

    views: Mapping[str, str]
    labels: str | None
    ids: str | None
    items: tuple[str, ...]
    widths: Mapping[str, int]
    multi_hot: bool
    names: tuple[str, ...] | None

    @property
    def narrow_columns(self) -> list[str]:
        """The columns that are read beside views."""
        singles = [name for name in (self.labels, self.ids) if name is not None]
        return [*dict.fromkeys([*singles, *self.items])]

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return [*dict.fromkeys([*self.views.values(), *self.narrow_columns])]


@dataclass(frozen=True)
class TableRows(RowSource):
    """The rows of a table: its files, and what their columns are."""

    plan: _Plan
    parts: tuple[FileRows, ...]

    @contextmanager
    def open(self) -> Iterator[ReadRows]:
        """Open the files, as their rows are read."""
        cursor = TableCursor(self.parts, self.plan.columns)

        def read(start: int, stop: int) -> MultiViewData:
            return _build(cursor.batches(start, stop), self.plan, range(start, stop), self.path)

        yield read

    def whole(self) -> MultiViewData:
        """Read all rows, with the official split where a column has one.

        Raises InvalidInputError: they would unpack to far more than the files' size.
        """
        file_size = sum(part.path.stat().st_size for part in self.parts)
        n_bytes = sum(part.n_bytes for part in self.parts)
        check_unpacked_size(self.path, n_bytes, file_size, self.parts[0].max_bytes)
        data = super().whole()
        return data._replace(splits=check_splits(column_splits(data.items), len(data)))

    def only(self, start: int, stop: int) -> Self:
        """Return this without files that have none of these rows."""
        return replace(self, parts=files_of(self.parts, start, stop))

    def files(self) -> Iterable[Path]:
        """Return the files."""
        return [part.path for part in self.parts]


def find_table_rows(
    path: Path, _: int, options: TableOptions, files: Sequence[Path] | None = None
) -> TableRows:
    """Look at the columns of a table, and read those of labels where these have to be collected."""
    table = ArrowTable(path, files, options.max_bytes)
    plan = _make_plan(table, options)
    return TableRows(path, table.n_rows, plan, table.files)


def _build(batches: Iterable[Any], plan: _Plan, rows: range, path: Path) -> MultiViewData:
    """Make data of the rows of some batches, which are these of the whole."""

    def where(name: str) -> str:
        return f"column {name!r} of {path.name}"

    views = {
        view: _columns.ViewRows(len(rows), plan.widths[view], where(name), rows.start)
        for view, name in plan.views.items()
    }
    pieces: dict[str, list[Any]] = {name: [] for name in plan.narrow_columns}
    for batch in batches:
        for view, name in plan.views.items():
            views[view].add(batch.column(name))
        for name, found in pieces.items():
            found.append(batch.column(name))
    columns = {name: require("pyarrow").chunked_array(found) for name, found in pieces.items()}
    labels: Any = None
    if plan.labels is not None and plan.multi_hot:
        labels = _columns.label_matrix(columns[plan.labels], where(plan.labels), rows.start)
    elif plan.labels is not None and plan.names:
        joined = columns[plan.labels].combine_chunks()
        labels = _columns.label_sets(joined, where(plan.labels), rows.start)
    ids: Any = np.arange(rows.start, rows.stop)
    if plan.ids is not None:
        ids = _columns.id_values(columns[plan.ids].combine_chunks(), where(plan.ids), rows.start)
    items = {name: _columns.item_values(columns[name].combine_chunks()) for name in plan.items}
    return MultiViewData(
        {view: each.matrix for view, each in views.items()},
        labels,
        ids=ids,
        items=items,
        label_names=None if labels is None else plan.names,
        present={view: each.present for view, each in views.items()},
        name=path.stem,
    )


def _make_plan(table: ArrowTable, options: TableOptions) -> _Plan:
    """Decide what each column is, by its name and type."""
    file = table.path.name
    labels = find_column(table.columns, options.labels, LABEL_COLUMNS, file, "labels")
    ids = find_column(table.columns, options.ids, ID_COLUMNS, file, "ids")
    if options.views is None:
        views = {
            name: name
            for name in table.columns
            if name not in (labels, ids) and is_vector(table.schema.field(name).type)
        }
    else:
        views = dict(options.views)
        for view, name in views.items():
            find_column(table.columns, name, (), file, f"view {view!r}")
            if not is_vector(table.schema.field(name).type):
                raise ViewError(
                    f"column {name!r} of {file} is {table.schema.field(name).type}; a view needs "
                    "a list of numbers in each row"
                )
    if not views:
        shown = ", ".join(f"{field.name} {field.type}" for field in table.schema)
        raise InvalidInputError(
            f"{file} has no column with lists of numbers, so no view; its columns are: {shown}"
        )
    taken = {labels, ids, *views.values()}
    return _Plan(
        views=views,
        labels=labels,
        ids=ids,
        items=tuple(name for name in table.columns if name not in taken),
        multi_hot=labels is not None and is_multi_hot(table.schema.field(labels).type),
        widths={view: view_width(table, name) for view, name in views.items()},
        names=class_names(table, labels, options.label_names),
    )


def view_width(table: ArrowTable, name: str) -> int:
    """Return how many numbers a view has: declared, or those of the first row that has it."""
    kind = table.schema.field(name).type
    if require("pyarrow").types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for batch in table.batches([name], CHUNK_SIZE):
        lengths = list_lengths(batch.column(0))
        if lengths.size:
            return int(lengths[0])
    raise ViewError(f"column {name!r} of {table.path.name} is empty in every row")


def class_names(
    table: ArrowTable, labels: str | None, given: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Return the names of the label columns; one pass over that column finds those in use."""
    if labels is None:
        check_names_have_labels(given, table.path)
        return None
    if given is not None:
        return tuple(str(name) for name in given)
    kind = table.schema.field(labels).type
    if is_multi_hot(kind):
        return None
    value = kind.value_type if is_list(kind) else kind
    types = require("pyarrow").types
    if types.is_dictionary(value):
        value = value.value_type
    if not (types.is_string(value) or types.is_large_string(value) or types.is_integer(value)):
        raise LabelError(
            f"column {labels!r} of {table.path.name} is {kind}; give labels as names or whole "
            "numbers, as lists of them, or as fixed-size lists of 0 and 1"
        )
    found: set[Any] = set()
    for batch in table.batches([labels], CHUNK_SIZE):
        column = batch.column(0)
        values = column.flatten() if is_list(kind) else column
        found.update(values.unique().drop_null().to_pylist())
    return sort_names(found)

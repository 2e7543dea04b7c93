"""Read Parquet and Arrow IPC tables: a column for each view, whole or in chunks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.imports import require
from acqh.data.readers.arrowcolumns import is_list, is_multi_hot, is_text, is_vector, list_lengths
from acqh.data.readers.build import Column, ColumnRows, Tables
from acqh.data.readers.classes import Classes, settle_classes
from acqh.data.readers.limits import CHUNK_SIZE, check_names_have_labels
from acqh.data.readers.options import (
    ID_COLUMNS,
    LABEL_COLUMNS,
    NamedOptions,
    find_column,
)
from acqh.data.readers.tables import ArrowTable
from acqh.errors import CorruptBundleError, InvalidInputError, LabelError, ViewError


@dataclass(frozen=True)
class TableOptions(NamedOptions):
    """What a caller may say about a table."""

    max_bytes: int | None = None


def find_table_rows(
    path: Path, _: int, options: TableOptions, files: Sequence[Path] | None = None
) -> ColumnRows:
    """Decide what each column of a table is, by its name and type.

    Those of labels are read where their names have to be collected.
    """
    table = ArrowTable(path, files, options.max_bytes)
    labels = find_column(table.columns, options.labels, LABEL_COLUMNS, path.name, "labels")
    ids = find_column(table.columns, options.ids, ID_COLUMNS, path.name, "ids")
    views = _find_views(table, options.views, {labels, ids})
    taken = {labels, ids, *views.values()}
    classes = table_classes(table, labels, options.label_names)
    return ColumnRows(
        path=path,
        n_rows=table.n_rows,
        sources={"": Tables(path, table.files, tuple(table.columns))},
        views={view: Column("", name) for view, name in views.items()},
        widths={view: view_width(table, name) for view, name in views.items()},
        # Where no row has a label there are no columns for them.
        labels=None if labels is None or classes.names == () else Column("", labels),
        classes=classes,
        ids=() if ids is None else (Column("", ids),),
        items={name: Column("", name) for name in table.columns if name not in taken},
    )


def _find_views(
    table: ArrowTable, given: Mapping[str, str] | None, others: set[str | None]
) -> Mapping[str, str]:
    """Return the columns of views: those that were named, or all with lists of numbers."""
    file = table.path.name
    if given is None:
        given = {
            name: name
            for name in table.columns
            if name not in others and is_vector(table.schema.field(name).type)
        }
    for view, name in given.items():
        find_column(table.columns, name, (), file, f"view {view!r}")
        if not is_vector(table.schema.field(name).type):
            raise ViewError(
                f"column {name!r} of {file} is {table.schema.field(name).type}; a view needs a "
                "list of numbers in each row"
            )
    if not given:
        shown = ", ".join(f"{field.name} {field.type}" for field in table.schema)
        raise InvalidInputError(
            f"{file} has no column with lists of numbers, so no view; its columns are: {shown}"
        )
    return given


def view_width(table: ArrowTable, name: str) -> int:
    """Return how many numbers a view has: declared, or those of the first row that has it."""
    kind = table.schema.field(name).type
    if require("pyarrow").types.is_fixed_size_list(kind):
        if kind.list_size <= 0:
            raise CorruptBundleError(f"column {name!r} of {table.path.name} is {kind}")
        return int(kind.list_size)
    for batch in table.batches([name], CHUNK_SIZE):
        lengths = list_lengths(batch.column(0))
        if lengths.size:
            return int(lengths[0])
    raise ViewError(f"column {name!r} of {table.path.name} is empty in every row")


def table_classes(table: ArrowTable, labels: str | None, given: Sequence[str] | None) -> Classes:
    """Return the names of the label columns; one pass over that column finds those in use."""
    if labels is None:
        check_names_have_labels(given, table.path)
        return Classes()
    names = None if given is None else tuple(str(name) for name in given)
    kind = table.schema.field(labels).type
    if is_multi_hot(kind):
        return Classes(names)
    value = kind.value_type if is_list(kind) else kind
    types = require("pyarrow").types
    if types.is_dictionary(value):
        value = value.value_type
    if not (is_text(value) or types.is_integer(value)):
        raise LabelError(
            f"column {labels!r} of {table.path.name} is {kind}; give labels as names or whole "
            "numbers, as lists of them, or as fixed-size lists of 0 and 1"
        )
    if names is not None and is_text(value):
        return Classes(names)
    found: set[Any] = set()
    for batch in table.batches([labels], CHUNK_SIZE):
        column = batch.column(0)
        values = column.flatten() if is_list(kind) else column
        found.update(values.unique().drop_null().to_pylist())
    if not found:
        return Classes(names or ())
    return settle_classes(np.array(sorted(found)), names, f"column {labels!r} of {table.path.name}")

"""From the columns of a table to MultiViewData: all rows, or some of them."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Ints
from acqh.data.checks import check_splits
from acqh.data.multiview import MultiViewData
from acqh.data.readers.columns import Entry, Layout, Options, Parts, Table, choose, parts_of
from acqh.errors import CorruptBundleError, LabelError


@dataclass(frozen=True)
class Classes:
    """Names of the label columns, and from where class numbers count them, unless they are them."""

    names: tuple[str, ...] | None = None
    first: int | None = None

    def named(self, labels: Any) -> Any:
        """Return labels as they are, or the names that class numbers count."""
        if self.first is None or self.names is None:
            return labels
        if isinstance(labels, list):
            return [[self.names[number - self.first] for number in row] for row in labels]
        return np.asarray(self.names)[labels.astype(np.int64) - self.first]


@dataclass(frozen=True)
class Source:
    """What a look at a file or folder has found out: all that reading some of its rows takes.

    Small, and can be pickled. Views, label columns and ids are settled here once, so that they are
    the same whoever reads whichever rows.
    """

    path: Path
    n_rows: int
    kind: type[Table]
    options: Options
    parts: Parts
    layout: Layout
    classes: Classes
    table: Table | None = None  # where it is in memory

    def open(self) -> AbstractContextManager[Table]:
        """Open what has the rows; reading on where the last rows ended costs no search."""
        if self.table is not None:
            return nullcontext(self.table)
        table = self.kind(self.path, self.options, self.parts)
        layout = self.layout
        entries = [*layout.views.values(), layout.labels, layout.ids, *layout.items.values()]
        for entry in entries:
            if entry is not None and not table.parts and _is_other(table.entries, entry):
                table.__exit__(None, None, None)
                raise CorruptBundleError(
                    f"{entry.name!r} of {self.path.name} has changed since it was listed"
                )
        return table

    def only(self, start: int, stop: int) -> "Source":
        """Return what is needed for these rows alone, under the same row numbers."""
        return replace(self, table=None, parts=parts_of(self.parts, start, stop))

    def files(self) -> Iterable[Path]:
        """Return all files that rows are read from."""
        if self.parts:
            return [part.path for parts in self.parts.values() for part in parts]
        if self.path.is_dir():
            return (file for file in self.path.rglob(self.kind.pattern) if file.is_file())
        return [self.path]

    def read(self, table: Table, start: int, stop: int) -> MultiViewData:
        """Read some rows."""
        layout = self.layout
        views, present = {}, {}
        for view, entry in layout.views.items():
            views[view], mask = table.take_view(entry, start, stop)
            if mask is not None:
                present[view] = mask
        present |= {view: table.take(entry, start, stop) for view, entry in layout.present.items()}
        labels = None
        if layout.labels is not None:
            labels = self.classes.named(table.take_labels(layout.labels, start, stop))
        ids = np.arange(start, stop)
        if layout.ids is not None:
            ids = table.take_ids(layout.ids, start, stop)
        return MultiViewData(
            views,
            labels,
            ids=ids,
            items={name: table.take(entry, start, stop) for name, entry in layout.items.items()},
            label_names=None if labels is None else self.classes.names,
            present=present,
            name=self.path.stem,
        )

    def read_whole(self, table: Table) -> MultiViewData:
        """Read all rows, with the official split where there is one."""
        data = self.read(table, 0, self.n_rows)
        splits = _column_splits(data.items) if table.is_paired else {}
        for part, entry in self.layout.splits.items():
            splits[part] = table.take(entry, 0, entry.shape[0])
        return data._replace(splits=check_splits(splits, len(data)))


def _is_other(entries: Mapping[str, Entry], listed: Entry) -> bool:
    there = entries.get(listed.name)
    return there is None or (there.shape[:1], there.kind) != (listed.shape[:1], listed.kind)


def look(table: Table, options: Options) -> Source:
    """Find out what the columns of an open table are, and which labels are in use."""
    layout = choose(table)
    classes = _find_classes(table, layout.labels)
    if layout.labels is not None and classes.names == ():
        layout = replace(layout, labels=None)  # no row has a label
    return Source(
        path=table.path,
        n_rows=layout.n_items,
        kind=type(table),
        options=options,
        parts=table.parts,
        layout=layout,
        classes=classes,
        table=table if table.in_memory else None,
    )


def _find_classes(table: Table, labels: Entry | None) -> Classes:
    """Return the label columns of all rows: those in use, or the names that there are for them."""
    given = table.options.label_names
    if labels is None:
        if given is not None:
            raise LabelError(f"label_names were given, but {table.path.name} has no labels")
        return Classes()
    names = (
        _stored_names(table, labels.name) if given is None else tuple(str(name) for name in given)
    )
    if names is not None and labels.kind in "UO":
        return Classes(names)
    found = table.distinct_labels(labels)
    return Classes(names) if found is None else _settle(list(found), names, table)


def _stored_names(table: Table, labels: str) -> tuple[str, ...] | None:
    entry = table.entries.get("label_names")
    if entry is None or table.is_paired:
        return table.class_names(labels)
    if len(entry.shape) != 1 or entry.kind not in "UO":
        raise CorruptBundleError(
            f"label_names of {table.path.name} must be a list of strings, got {entry.kind!r} of "
            f"shape {entry.shape}"
        )
    return tuple(str(name) for name in table.take(entry, 0, entry.shape[0]))


def _settle(found: list[Any], names: tuple[str, ...] | None, table: Table) -> Classes:
    """Compare the class ids in use with names, which they may count; numbers may be floats."""
    if found and all(isinstance(value, float) and value.is_integer() for value in found):
        found = [int(value) for value in found]
    found = sorted(found)
    as_names = tuple(str(value) for value in found)
    if names is None:
        return Classes(as_names)
    if set(as_names) <= set(names):
        return Classes(names)
    if isinstance(found[0], int):
        # A 0 among the numbers is the first in any case.
        first = min(table.first_class, max(found[0], 0))
        if found[0] >= first and found[-1] - first < len(names):
            return Classes(names, first)
    raise LabelError(
        f"the class ids of {table.path.name} go from {found[0]} to {found[-1]} and neither are nor "
        f"count the {len(names)} label names"
    )


def _column_splits(items: Mapping[str, Array]) -> dict[str, Ints]:
    """Return the splits that columns ``split`` and ``split_NAME`` with train and test give."""
    found: dict[str, Ints] = {}
    for name, column in items.items():
        split, _, suffix = name.partition("_")
        parts = {value for value in column.tolist() if isinstance(value, str) and value}
        if split != "split" or not {"train", "test"} <= parts:
            continue
        for part in sorted(parts):
            found[f"{part}_{suffix}" if suffix else part] = np.flatnonzero(column == part)
    return found

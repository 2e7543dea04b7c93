"""Roles of the columns of a file, for all formats: views, labels, ids and the item table.

A format is a `Table`: it lists its columns as entries and reads rows of them. `resolve_columns`
assigns a role to each entry. A `Source` reads rows.
"""

import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from acqh._core.arrays import Array, Bools, Ints, slices
from acqh._core.fields import FIELDS
from acqh.data.checks import check_splits
from acqh.data.multiview import MultiViewData
from acqh.errors import AcqhError, CorruptBundleError, InvalidInputError, LabelError, ViewError

# Default number of rows read at once.
CHUNK_SIZE = 8_192

LABEL_NAMES = (*FIELDS["labels"].names, "class_id")
ID_NAMES = (*FIELDS["id"].names, "image_id")
# For paired tables: there an image may have several rows, so image_id is not an id.
_COLUMN_IDS = (*ID_NAMES[:2], "assetid")
ITEM_PREFIX = "item_"
PRESENT_PREFIX = "present_"
SPLIT_SUFFIX = "_idx"
# Common names of labels, in any case, that the reader does not accept by default.
LIKELY_LABELS = ("l", "y", "class", "classes", "target", "targets")
# A view of this name with another number of rows is an error, not an unrelated array.
_STANDARD_VIEWS = ("image", "text")

# A compressed file of any size may unpack to this much ...
_ALWAYS_ALLOWED_BYTES = 256 * 2**20
# ... and beyond that to this many times its size. Real feature files stay far below.
_ALWAYS_ALLOWED_RATIO = 200


@dataclass(frozen=True)
class Options:
    """The caller's options for a file; None means the default names."""

    views: Mapping[str, Any] | None = None
    labels: Any = None
    ids: str | None = None
    splits: Mapping[str, str] | None = None
    label_names: Iterable[str] | None = None
    label_separator: str | None = None
    orientation: str | None = None
    fill_missing: bool = False
    max_bytes: int | None = None


@dataclass(frozen=True)
class Entry:
    """Name, shape and kind of one column of a table."""

    name: str
    # Of all rows; the width is -1 if only reading reveals it.
    shape: tuple[int, ...]
    kind: str  # of the values, as NumPy's dtype.kind
    form: str = ""  # the storage layout, if a format has several

    @property
    def is_view_like(self) -> bool:
        """Whether it is a matrix of numbers."""
        return len(self.shape) == 2 and self.kind in "buif"


@dataclass(frozen=True)
class FileRows:
    """One of several files whose rows are concatenated, and its range of rows."""

    path: Path
    first_row: int
    n_rows: int


Parts = Mapping[str, tuple[FileRows, ...]]

Role = Literal["view", "labels", "ids", "items"]
# Names of the label columns, and the class number of the first name.
_Classes = tuple[tuple[str, ...] | None, int | None]


class Table(AbstractContextManager["Table"], ABC):
    """The columns of a file or folder, which reads ranges of rows.

    `parts`: the files that hold the rows to read, by column, or under ``""`` for all columns.
    Empty means all files. Raises CorruptBundleError for a damaged file.
    """

    title: ClassVar[str] = "NumPy"  # name of the format in errors
    # The format is detected by the file extension, or else by the first bytes.
    suffixes: ClassVar[tuple[str, ...]] = ()
    magics: ClassVar[tuple[bytes, ...]] = ()
    own_options: ClassVar[tuple[str, ...]] = ()  # in addition to the common ones
    noun: ClassVar[str] = "array"  # name of a column in errors
    # Whether all columns have a value for each item; columns without a role are item columns.
    is_paired: ClassVar[bool] = False
    first_class: ClassVar[int] = 0  # lowest class number
    in_memory: ClassVar[bool] = False  # whether opening reads all rows
    pattern: ClassVar[str] = "*"  # of the files in a folder
    no_views: ClassVar[str] = "no matrix of numbers"

    def __init__(self, path: Path, options: Options, parts: Parts | None = None) -> None:
        self.path = path
        self.options = options
        self.parts: Parts = parts or {}
        self.entries: dict[str, Entry] = {}
        self.opened = ExitStack()  # resources to close
        try:
            self._open()
        except BaseException:
            self.opened.close()
            raise

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.opened.close()

    @abstractmethod
    def _open(self) -> None:
        """Open the file and set `entries`."""

    @abstractmethod
    def take(self, entry: Entry, start: int, stop: int) -> Any:
        """Return the rows of a column from `start` up to, not including, `stop`."""

    def take_view(self, entry: Entry, start: int, stop: int) -> tuple[Any, Bools | None]:
        """Return rows of a view, and a mask of the present ones or None for all."""
        return self.take(entry, start, stop), None

    def take_labels(self, entry: Entry, start: int, stop: int) -> Any:
        """Return labels as a matrix, as class ids, or as one list of labels per row."""
        return self.take(entry, start, stop)

    def take_ids(self, entry: Entry, start: int, stop: int) -> Any:
        """Return ids: integers or texts."""
        return self.take(entry, start, stop)

    def take_all(self, columns: Sequence[tuple[Role, Entry]], start: int, stop: int) -> list[Any]:
        """Return rows of several columns in this order, each according to its role."""
        by_role: dict[str, Callable[[Entry, int, int], Any]] = {
            "view": self.take_view,
            "labels": self.take_labels,
            "ids": self.take_ids,
            "items": self.take,
        }
        return [by_role[role](entry, start, stop) for role, entry in columns]

    def distinct_labels(self, entry: Entry) -> Iterable[Any] | None:
        """Return all class ids or names in use; None if labels are a matrix."""
        if len(entry.shape) != 1:
            return None
        labels_in_use: set[Any] = set()
        for rows in slices(entry.shape[0], 2**20):
            labels = self.take_labels(entry, rows.start, rows.stop)
            is_sets = isinstance(labels, list)
            labels_in_use.update(
                chain.from_iterable(labels) if is_sets else np.unique(labels).tolist()
            )
        return labels_in_use

    def class_names(self, labels: str) -> tuple[str, ...] | None:
        """Return the class names of a paired table, or None if it has none."""
        del labels
        return None

    def resolve_width(self, entry: Entry) -> Entry:
        """Return a view with its width resolved."""
        return entry


class LoadedTable(Table):
    """A table that loads all rows when opened."""

    in_memory = True

    def __init__(self, path: Path, options: Options, parts: Parts | None = None) -> None:
        self._columns: dict[str, Any] = {}
        self._present: dict[str, Bools] = {}
        super().__init__(path, options, parts)

    def add(self, name: str, values: Any) -> None:
        """Add a column: an array, or a sparse matrix."""
        self._columns[name] = values
        self.entries[name] = Entry(name, values.shape, values.dtype.kind)

    def add_view(
        self, name: str, rows: Sequence[Any], width: int, place: Callable[[int], str]
    ) -> None:
        """Add a view with `width` numbers per row, None for absent rows; `place` names a row."""
        matrix = np.zeros((len(rows), width))
        for number, row in enumerate(rows):
            if row is None:
                continue
            try:
                values = np.array(row, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                values = np.empty(0)
            if values.shape != (width,):
                raise ViewError(
                    f"{place(number)}: {name!r} must be a list of {width} numbers, as in the first "
                    f"row that has it, got {row!r:.60}"
                )
            matrix[number] = values
        self.add(name, matrix)
        self._present[name] = np.array([row is not None for row in rows])

    def take(self, entry: Entry, start: int, stop: int) -> Any:
        """Return some rows of a column."""
        return self._columns[entry.name][start:stop]

    def take_view(self, entry: Entry, start: int, stop: int) -> tuple[Any, Bools | None]:
        """Return rows of a view, and a mask of the present ones or None for all."""
        present = self._present.get(entry.name)
        return self.take(entry, start, stop), None if present is None else present[start:stop]


@dataclass(frozen=True)
class Source:
    """The resolved columns of a file or folder: everything needed to read rows.

    Small and picklable. Views, label columns and ids are resolved once, so every process that
    reads rows agrees on them.
    """

    path: Path
    kind: type[Table]
    options: Options
    parts: Parts
    n_items: int
    views: Mapping[str, Entry]
    labels: Entry | None
    ids: Entry | None
    present: Mapping[str, Entry]
    items: Mapping[str, Entry]
    splits: Mapping[str, Entry]
    label_names: tuple[str, ...] | None = None
    first_class: int | None = None  # class number of the first name; None if classes are names
    table: Table | None = None  # the table, if it is in memory

    @property
    def entries(self) -> list[Entry]:
        """All columns with a value for each item."""
        columns = [*self.views.values(), self.labels, self.ids, *self.items.values()]
        return [entry for entry in (*columns, *self.present.values()) if entry is not None]

    def open(self) -> AbstractContextManager[Table]:
        """Open the table; sequential reads need no seek."""
        if self.table is not None:
            return nullcontext(self.table)
        table = self.kind(self.path, self.options, self.parts)
        for entry in () if table.parts else self.entries:
            stored = table.entries.get(entry.name)
            if stored is None or (stored.shape[:1], stored.kind) != (entry.shape[:1], entry.kind):
                table.__exit__(None, None, None)
                raise CorruptBundleError(
                    f"{entry.name!r} of {self.path.name} has changed since it was listed"
                )
        return table

    def only(self, start: int, stop: int) -> "Source":
        """Return a source for these rows alone, with unchanged row numbers."""
        return replace(self, table=None, parts=parts_of(self.parts, start, stop))

    def files(self) -> Iterable[Path]:
        """Return all files that hold rows."""
        if self.parts:
            return [part.path for parts in self.parts.values() for part in parts]
        if self.path.is_dir():
            return (file for file in self.path.rglob(self.kind.pattern) if file.is_file())
        return [self.path]

    def read(self, table: Table, start: int, stop: int) -> MultiViewData:
        """Read some rows."""
        columns: list[tuple[Role, Entry]] = [("view", entry) for entry in self.views.values()]
        columns += [("labels", self.labels)] if self.labels else []
        columns += [("ids", self.ids)] if self.ids else []
        columns += [("items", entry) for entry in (*self.present.values(), *self.items.values())]
        values = iter(table.take_all(columns, start, stop))
        views, present = {}, {}
        for view in self.views:
            views[view], mask = next(values)
            if mask is not None:
                present[view] = mask
        labels = None if self.labels is None else self._named(next(values))
        ids = np.arange(start, stop) if self.ids is None else next(values)
        present |= {view: next(values) for view in self.present}
        return MultiViewData(
            views,
            labels,
            ids=ids,
            items={name: next(values) for name in self.items},
            label_names=None if labels is None else self.label_names,
            present=present,
            name=self.path.stem,
        )

    def _named(self, labels: Any) -> Any:
        """Return labels unchanged, or the names of class numbers."""
        if self.first_class is None or self.label_names is None:
            first = next(filter(None, labels), [""])[0] if isinstance(labels, list) else ""
            # Lists of one number each would be read as the rows of a 0/1 matrix.
            return labels if isinstance(first, str) else [list(map(str, row)) for row in labels]
        if isinstance(labels, list):
            return [[self.label_names[n - self.first_class] for n in row] for row in labels]
        return np.asarray(self.label_names)[labels.astype(np.int64) - self.first_class]

    def read_whole(self, table: Table) -> MultiViewData:
        """Read all rows, with the official split if the file has one."""
        data = self.read(table, 0, self.n_items)
        splits = _column_splits(data.items) if table.is_paired else {}
        for part, entry in self.splits.items():
            splits[part] = table.take(entry, 0, entry.shape[0])
        return data._replace(splits=check_splits(splits, len(data)))


def resolve_columns(table: Table, requested: Options) -> Source:
    """Assign a role to each entry of an open table by its name, type and number of rows.

    By default labels and ids have standard names, and all matrices with as many rows are views.
    Raises InvalidInputError if a requested name does not exist or the views are ambiguous. Raises
    ViewError if the view image or text has another number of rows than the labels.
    """
    options, entries = table.options, table.entries
    usual_labels = LABEL_NAMES[:2] if table.is_paired else LABEL_NAMES
    labels = _find(table, options.labels, usual_labels, "labels")
    ids = _find(table, options.ids, _COLUMN_IDS if table.is_paired else ID_NAMES, "ids")
    named = {} if table.is_paired else _prefixed(entries, ITEM_PREFIX)
    marks = {} if table.is_paired else _prefixed(entries, PRESENT_PREFIX)
    splits = {} if table.is_paired else _find_splits(table)
    if options.views is None:
        if labels is None and not table.is_paired:
            _reject_likely_labels(table)
        used = {entry.name for entry in (labels, ids, *named.values(), *marks.values()) if entry}
        views, n_items = _guess_views(table, labels or ids, used)
    else:
        views = {view: _get(table, name, f"view {view!r}") for view, name in options.views.items()}
        n_items = next((entry.shape[0] for entry in views.values() if entry.shape), 0)
        _check_views(table, views)
    # Ids under a standard name count only if there is one per row.
    if options.ids is None and ids is not None and ids.shape != (n_items,):
        ids = None
    if table.is_paired:
        used = {entry.name for entry in (labels, ids, *views.values()) if entry}
        rest = {name: entry for name, entry in entries.items() if name not in used}
        # A view and a column of the item table may share a name.
        short = {name: name.removeprefix(ITEM_PREFIX) for name in rest}
        named = {short[n] if short[n] in views else n: entry for n, entry in rest.items()}
    source = Source(
        path=table.path,
        kind=type(table),
        options=requested,
        parts=table.parts,
        n_items=n_items,
        views={view: table.resolve_width(entry) for view, entry in views.items()},
        labels=labels,
        ids=ids,
        present={view: entry for view, entry in marks.items() if view in views},
        items=named,
        splits=splits,
        table=table if table.in_memory else None,
    )
    if n_items == 0:
        raise ViewError(f"{table.path.name} has no rows; give at least one item")
    for entry in source.entries:
        if not entry.shape or entry.shape[0] != n_items:
            raise ViewError(
                f"{table.path.name}: {entry.name!r} has "
                f"{entry.shape[0] if entry.shape else 'no'} rows, but there are {n_items} items; "
                "all columns are paired by row"
            )
    label_names, first_class = _find_classes(table, labels)
    if label_names == ():
        labels = None  # no row has a label
    return replace(source, labels=labels, label_names=label_names, first_class=first_class)


def _find_splits(table: Table) -> dict[str, Entry]:
    """Return the row numbers of the parts: the requested ones, or all arrays ``NAME_idx``."""
    if table.options.splits is not None:
        return {
            part: _get(table, name, f"split {part!r}")
            for part, name in table.options.splits.items()
        }
    return {
        name.removesuffix(SPLIT_SUFFIX): entry
        for name, entry in table.entries.items()
        if name.endswith(SPLIT_SUFFIX)
        and not name.startswith((ITEM_PREFIX, PRESENT_PREFIX))
        and len(entry.shape) == 1
    }


def _check_views(table: Table, views: Mapping[str, Entry]) -> None:
    for entry in views.values():
        if table.is_paired and not entry.is_view_like:
            raise ViewError(
                f"{table.noun} {entry.name!r} of {table.path.name} is not a view; choose one with "
                f"a list of numbers in each row: {format_entries(table)}"
            )


def _get(table: Table, name: str, purpose: str) -> Entry:
    if name not in table.entries:
        raise InvalidInputError(
            f"{table.path.name} has no {table.noun} {name!r}, requested for {purpose}; "
            f"{format_entries(table)}"
        )
    return table.entries[name]


def _find(table: Table, name: str | None, usual: tuple[str, ...], purpose: str) -> Entry | None:
    """Return the requested entry, or the first one with a usual name, or None."""
    if name is not None:
        return _get(table, name, purpose)
    name = find_name(table.entries, usual)
    return None if name is None else table.entries[name]


def find_name(names: Iterable[str], usual: tuple[str, ...]) -> str | None:
    """Return the first of the usual names that occurs; an exact match precedes another case."""
    listed = list(names)
    small = {name.lower(): name for name in reversed(listed)}
    exact = next((name for name in usual if name in listed), None)
    return exact or next((small[name] for name in usual if name in small), None)


def _prefixed(entries: Mapping[str, Entry], prefix: str) -> dict[str, Entry]:
    return {n.removeprefix(prefix): e for n, e in entries.items() if n.startswith(prefix)}


def _guess_views(
    table: Table, counter: Entry | None, used: set[str]
) -> tuple[dict[str, Entry], int]:
    """Return all matrices with as many rows as `counter` (labels or ids), and that number."""
    file = table.path.name
    matrices = {
        name: entry
        for name, entry in table.entries.items()
        if entry.is_view_like and name not in used
    }
    hint = f"{format_entries(table)}; select the views with views={{'image': NAME}}"
    if counter is not None and counter.shape:
        n_items = counter.shape[0]
    elif not matrices:
        raise InvalidInputError(f"{file} has {table.no_views}; {hint}")
    else:
        counts = {entry.shape[0] for entry in matrices.values()}
        if len(counts) > 1:
            raise InvalidInputError(
                f"{file} has neither labels nor ids, and matrices of different row counts; {hint}"
            )
        n_items = counts.pop()
    views = {name: entry for name, entry in matrices.items() if entry.shape[0] == n_items}
    for name in _STANDARD_VIEWS:
        if name in matrices and name not in views:
            raise ViewError(
                f"{file}: view {name!r} has {matrices[name].shape[0]} rows, but there are "
                f"{n_items} items; views are paired by row"
            )
    if not views:
        rows = "" if table.is_paired else f" with {n_items} rows"
        raise InvalidInputError(f"{file} has {table.no_views}{rows}; {hint}")
    return views, n_items


def _reject_likely_labels(table: Table) -> None:
    """Raise InvalidInputError for an array that is probably the labels under another name."""
    for name in table.entries:
        if name.lower() in LIKELY_LABELS:
            raise InvalidInputError(
                f"{table.path.name} has no array 'labels', but one called {name!r}; rename it to "
                "'labels' if it holds the labels, or to another name if it is a view. In Python "
                f"you can also pass labels={name!r} or views={{'image': NAME}}"
            )


def format_entries(table: Table) -> str:
    """Return the entries with their shapes, for an error message."""
    shown = (
        f"{entry.name} {' x '.join(map(str, entry.shape)).replace('-1', '?') or 'scalar'}"
        f"{'' if entry.kind in 'buif' else ' texts' if entry.kind in 'U' else ' objects'}"
        for entry in table.entries.values()
    )
    return f"it has: {', '.join(shown)}" if table.entries else "it is empty"


def check_unpacked_size(path: Path, declared: int, file_size: int, max_bytes: int | None) -> None:
    """Reject a file that would unpack to far more memory than its size on disk suggests.

    `declared`: size of the unpacked arrays in bytes. `file_size`: size of the file. `max_bytes`:
    the caller's limit, which replaces the default. Raises InvalidInputError above the limit.
    """
    limit = max_bytes
    if limit is None:
        limit = max(_ALWAYS_ALLOWED_BYTES, _ALWAYS_ALLOWED_RATIO * file_size)
    if declared > limit:
        raise InvalidInputError(
            f"{path.name} has {file_size:,} bytes but its arrays would take {declared:,}, more "
            f"than the {limit:,} allowed; if you trust the file, give max_bytes={declared}"
        )


@contextmanager
def guarded(where: str, *kinds: type[Exception], problem: str = "is damaged") -> Iterator[None]:
    """Run another library's reader; raise its errors (or these kinds) as CorruptBundleError."""
    errors = kinds or (Exception,)
    try:
        yield
    except AcqhError:
        raise
    except MemoryError as error:
        if not isinstance(error, kinds):
            raise
        # Arrow raises it too: a damaged length can request any amount.
        needs = "is damaged or needs more memory than there is"
        raise CorruptBundleError(f"{where} {needs}: {error}") from error
    except errors as error:
        reason = str(error) or type(error).__name__
        raise CorruptBundleError(f"{where} {problem}: {reason}") from error


def label_sets(values: Iterable[Any]) -> list[list[Any]]:
    """Return one list of labels per row, from lists, single labels and None."""
    return [row if isinstance(row, list) else [] if row is None else [row] for row in values]


def data_files(paths: Iterable[Path], suffixes: tuple[str, ...]) -> list[Path]:
    """Return the visible files with these extensions in natural order: 2 before 10."""
    shown = (path for path in paths if not path.name.startswith((".", "_")))
    return sorted((path for path in shown if path.suffix.lower() in suffixes), key=_natural_order)


def _natural_order(path: Path) -> list[str | int]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(path))]


def chain_files(counts: Iterable[tuple[Path, int]]) -> tuple[FileRows, ...]:
    """Return the files with their row ranges in the concatenated table."""
    listed, first_row = [], 0
    for path, n_rows in counts:
        listed.append(FileRows(path, first_row, n_rows))
        first_row += n_rows
    return tuple(listed)


def parts_of(parts: Parts, start: int, stop: int) -> dict[str, tuple[FileRows, ...]]:
    """Return the files with rows from `start` up to, not including, `stop`."""
    selected = {}
    for name, files in parts.items():
        first = bisect_left(files, start, key=lambda file: file.first_row + file.n_rows - 1)
        selected[name] = files[first : bisect_left(files, stop, key=lambda file: file.first_row)]
    return selected


def _find_classes(table: Table, labels: Entry | None) -> _Classes:
    """Return the names of all label columns: the stored or requested names, or classes in use."""
    requested = table.options.label_names
    if labels is None:
        if requested is not None:
            raise LabelError(
                f"{table.path.name} has no labels; pass labels=NAME, or omit label_names"
            )
        return None, None
    names = (
        _stored_names(table, labels.name)
        if requested is None
        else tuple(str(name) for name in requested)
    )
    if names is not None and labels.kind in "UO":
        return names, None
    classes = table.distinct_labels(labels)
    return (names, None) if classes is None else _match_classes(list(classes), names, table)


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


def _match_classes(classes: list[Any], names: tuple[str, ...] | None, table: Table) -> _Classes:
    """Match the class ids in use with names: ids are names, or numbers that index them."""
    if classes and all(isinstance(value, float) and value.is_integer() for value in classes):
        classes = [int(value) for value in classes]
    classes = sorted(classes)
    as_names = tuple(str(value) for value in classes)
    if names is None:
        return as_names, None
    if set(as_names) <= set(names):
        return names, None
    if isinstance(classes[0], int):
        # If 0 occurs, it is the first class.
        first = min(table.first_class, max(classes[0], 0))
        if classes[0] >= first and classes[-1] - first < len(names):
            return names, first
    raise LabelError(
        f"the class ids of {table.path.name}, from {classes[0]} to {classes[-1]}, do not match "
        f"the {len(names)} label names; pass one name per class"
    )


def _column_splits(items: Mapping[str, Array]) -> dict[str, Ints]:
    """Return the splits of the columns ``split`` and ``split_NAME``."""
    splits: dict[str, Ints] = {}
    for name, column in items.items():
        split, _, suffix = name.partition("_")
        parts = {value for value in column.tolist() if isinstance(value, str) and value}
        if split != "split" or not {"train", "test"} <= parts:
            continue
        for part in sorted(parts):
            splits[f"{part}_{suffix}" if suffix else part] = np.flatnonzero(column == part)
    return splits

"""What the columns of a file are: views, labels, ids, the item table. The same for all formats.

A format is a `Table`: it lists its columns as entries and gives some rows of one. `look` decides
what each entry is, and a `Source` reads rows.
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

# Rows taken together where the caller does not say.
CHUNK_SIZE = 8_192

LABEL_NAMES = (*FIELDS["labels"].names, "class_id")
ID_NAMES = (*FIELDS["id"].names, "image_id")
# Of tables in which every column has a value for each item; an image may have several rows there.
_COLUMN_IDS = (*ID_NAMES[:2], "assetid")
ITEM_PREFIX = "item_"
PRESENT_PREFIX = "present_"
SPLIT_SUFFIX = "_idx"
# Names by which files call labels that the reader does not take by itself, whatever their case.
LIKELY_LABELS = ("l", "y", "class", "classes", "target", "targets")
# Views by these names are meant to be read: one with other rows is a mistake, not a stranger.
_WELL_KNOWN_VIEWS = ("image", "text")

# A compressed file may unpack to this much whatever its size ...
_ALWAYS_ALLOWED_BYTES = 256 * 2**20
# ... and beyond that to this many times its size. Real feature files stay far below.
_ALWAYS_ALLOWED_RATIO = 200


@dataclass(frozen=True)
class Options:
    """What a caller may say of a file; None means by the usual names."""

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
    """One column of a table, not read yet."""

    name: str
    # Of all rows; -1 for how many numbers each has where only reading tells.
    shape: tuple[int, ...]
    kind: str  # of the values, as NumPy's dtype.kind
    form: str = ""  # how it is stored, where a format has several ways

    @property
    def is_view_like(self) -> bool:
        """Whether it is a matrix of numbers."""
        return len(self.shape) == 2 and self.kind in "buif"


@dataclass(frozen=True)
class FileRows:
    """A file among several whose rows follow one another, and which of all rows it has."""

    path: Path
    first_row: int
    n_rows: int


Parts = Mapping[str, tuple[FileRows, ...]]
# What a column is read as.
Role = Literal["view", "labels", "ids", "items"]
# Names of label columns, and from where class numbers count them.
_Classes = tuple[tuple[str, ...] | None, int | None]


class Table(AbstractContextManager["Table"], ABC):
    """The columns of a file or folder, some rows of which can be taken.

    `parts`: of a column in several files, or of all columns (under the name ``""``), the files that
    have the rows that will be read; all, where there are none given. Raises CorruptBundleError:
    the file is damaged.
    """

    title: ClassVar[str] = "NumPy"  # what the format is called in an error
    # By which endings of a file or else by which first bytes it is told.
    suffixes: ClassVar[tuple[str, ...]] = ()
    magics: ClassVar[tuple[bytes, ...]] = ()
    own_options: ClassVar[tuple[str, ...]] = ()  # beyond the common ones
    noun: ClassVar[str] = "array"  # what a column is called in an error
    # Whether all columns have a value for each item: what is nothing else is an item column.
    is_paired: ClassVar[bool] = False
    first_class: ClassVar[int] = 0  # from where class numbers count
    in_memory: ClassVar[bool] = False  # whether all has been read when it is open
    pattern: ClassVar[str] = "*"  # of the files, if it is a folder
    no_views: ClassVar[str] = "no matrix of numbers"

    def __init__(self, path: Path, options: Options, parts: Parts | None = None) -> None:
        self.path = path
        self.options = options
        self.parts: Parts = parts or {}
        self.entries: dict[str, Entry] = {}
        self.opened = ExitStack()  # what is to be closed
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
        """Open the file, and list its columns as `entries`."""

    @abstractmethod
    def take(self, entry: Entry, start: int, stop: int) -> Any:
        """Return the rows of a column from `start` up to, not including, `stop`."""

    def take_view(self, entry: Entry, start: int, stop: int) -> tuple[Any, Bools | None]:
        """Return rows of a view, and which of them are there if some are not."""
        return self.take(entry, start, stop), None

    def take_labels(self, entry: Entry, start: int, stop: int) -> Any:
        """Return labels as a matrix, as class ids, or as a list of labels for each row."""
        return self.take(entry, start, stop)

    def take_ids(self, entry: Entry, start: int, stop: int) -> Any:
        """Return ids, which are whole numbers or texts."""
        return self.take(entry, start, stop)

    def take_all(self, wanted: Sequence[tuple[Role, Entry]], start: int, stop: int) -> list[Any]:
        """Return rows of several columns, in this order, each by its role."""
        by_role: dict[str, Callable[[Entry, int, int], Any]] = {
            "view": self.take_view,
            "labels": self.take_labels,
            "ids": self.take_ids,
            "items": self.take,
        }
        return [by_role[role](entry, start, stop) for role, entry in wanted]

    def distinct_labels(self, entry: Entry) -> Iterable[Any] | None:
        """Return all class ids or names in use; None where labels are a matrix."""
        if len(entry.shape) != 1:
            return None
        found: set[Any] = set()
        for rows in slices(entry.shape[0], 2**20):
            labels = self.take_labels(entry, rows.start, rows.stop)
            is_sets = isinstance(labels, list)
            found.update(chain.from_iterable(labels) if is_sets else np.unique(labels).tolist())
        return found

    def class_names(self, labels: str) -> tuple[str, ...] | None:
        """Return the names that class numbers of a paired table count, where it has them."""
        del labels
        return None

    def settle(self, entry: Entry) -> Entry:
        """Return a view with the numbers in each row known."""
        return entry


class LoadedTable(Table):
    """A table that is in memory when it is open."""

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
        """Add `width` numbers for each row, None where they are absent; `place` names a row."""
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
        """Return rows of a view, and which of them are there if some may not be."""
        present = self._present.get(entry.name)
        return self.take(entry, start, stop), None if present is None else present[start:stop]


@dataclass(frozen=True)
class Source:
    """What a look at a file or folder has found out: all that reading some of its rows takes.

    Small, and can be pickled. Views, label columns and ids are settled here once, so that they are
    the same whoever reads whichever rows.
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
    first_class: int | None = None  # from where class numbers count names, unless they are them
    table: Table | None = None  # where it is in memory

    @property
    def entries(self) -> list[Entry]:
        """What has a value for each item."""
        own = [*self.views.values(), self.labels, self.ids, *self.items.values()]
        return [entry for entry in (*own, *self.present.values()) if entry is not None]

    def open(self) -> AbstractContextManager[Table]:
        """Open what has the rows; reading on where the last rows ended costs no search."""
        if self.table is not None:
            return nullcontext(self.table)
        table = self.kind(self.path, self.options, self.parts)
        for entry in () if table.parts else self.entries:
            there = table.entries.get(entry.name)
            if there is None or (there.shape[:1], there.kind) != (entry.shape[:1], entry.kind):
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
        wanted: list[tuple[Role, Entry]] = [("view", entry) for entry in self.views.values()]
        wanted += [("labels", self.labels)] if self.labels else []
        wanted += [("ids", self.ids)] if self.ids else []
        wanted += [("items", entry) for entry in (*self.present.values(), *self.items.values())]
        taken = iter(table.take_all(wanted, start, stop))
        views, present = {}, {}
        for view in self.views:
            views[view], mask = next(taken)
            if mask is not None:
                present[view] = mask
        labels = None if self.labels is None else self._named(next(taken))
        ids = np.arange(start, stop) if self.ids is None else next(taken)
        present |= {view: next(taken) for view in self.present}
        return MultiViewData(
            views,
            labels,
            ids=ids,
            items={name: next(taken) for name in self.items},
            label_names=None if labels is None else self.label_names,
            present=present,
            name=self.path.stem,
        )

    def _named(self, labels: Any) -> Any:
        """Return labels as they are, or the names that class numbers count."""
        if self.first_class is None or self.label_names is None:
            first = next(filter(None, labels), [""])[0] if isinstance(labels, list) else ""
            # As numbers, lists of one class each would be taken for the rows of a 0/1 matrix.
            return labels if isinstance(first, str) else [list(map(str, row)) for row in labels]
        if isinstance(labels, list):
            return [[self.label_names[n - self.first_class] for n in row] for row in labels]
        return np.asarray(self.label_names)[labels.astype(np.int64) - self.first_class]

    def read_whole(self, table: Table) -> MultiViewData:
        """Read all rows, with the official split where there is one."""
        data = self.read(table, 0, self.n_items)
        splits = _column_splits(data.items) if table.is_paired else {}
        for part, entry in self.splits.items():
            splits[part] = table.take(entry, 0, entry.shape[0])
        return data._replace(splits=check_splits(splits, len(data)))


def look(table: Table, given: Options) -> Source:
    """Decide what each entry of an open table is, by its name, its type and its number of rows.

    By default labels and ids have usual names, and views are all matrices of numbers with as many
    rows. Raises InvalidInputError: a name that was given is not there, or what the views are cannot
    be told. Raises ViewError: views called image or text have other row counts than the labels.
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
            _refuse_likely_labels(table)
        own = {each.name for each in (labels, ids, *named.values(), *marks.values()) if each}
        views, n_items = _guess_views(table, labels or ids, own)
    else:
        views = {view: _get(table, name, f"view {view!r}") for view, name in options.views.items()}
        n_items = next((entry.shape[0] for entry in views.values() if entry.shape), 0)
        _check_views(table, views)
    # Ids by a usual name belong to the rows only if they are as many.
    if options.ids is None and ids is not None and ids.shape != (n_items,):
        ids = None
    if table.is_paired:
        taken = {each.name for each in (labels, ids, *views.values()) if each}
        rest = {name: entry for name, entry in entries.items() if name not in taken}
        # A view and a column of the item table may share a name.
        short = {name: name.removeprefix(ITEM_PREFIX) for name in rest}
        named = {short[n] if short[n] in views else n: entry for n, entry in rest.items()}
    source = Source(
        path=table.path,
        kind=type(table),
        options=given,
        parts=table.parts,
        n_items=n_items,
        views={view: table.settle(entry) for view, entry in views.items()},
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
                "everything is paired by row"
            )
    label_names, first_class = _find_classes(table, labels)
    if label_names == ():
        labels = None  # no row has a label
    return replace(source, labels=labels, label_names=label_names, first_class=first_class)


def _find_splits(table: Table) -> dict[str, Entry]:
    """Return the row numbers of parts: those that were named, or all called ``NAME_idx``."""
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
                f"{table.noun} {entry.name!r} of {table.path.name} is no view: a view needs a list "
                f"of numbers in each row; {describe(table)}"
            )


def _get(table: Table, name: str, what: str) -> Entry:
    if name not in table.entries:
        raise InvalidInputError(
            f"{table.path.name} has no {table.noun} {name!r}, named for {what}; {describe(table)}"
        )
    return table.entries[name]


def _find(table: Table, given: str | None, usual: tuple[str, ...], what: str) -> Entry | None:
    """Return the entry that was named, or the first that has a usual name, or None."""
    if given is not None:
        return _get(table, given, what)
    name = find_name(table.entries, usual)
    return None if name is None else table.entries[name]


def find_name(names: Iterable[str], usual: tuple[str, ...]) -> str | None:
    """Return the first name that is a usual one, or is but for capital letters."""
    listed = list(names)
    small = {name.lower(): name for name in reversed(listed)}
    exact = next((name for name in usual if name in listed), None)
    return exact or next((small[name] for name in usual if name in small), None)


def _prefixed(entries: Mapping[str, Entry], prefix: str) -> dict[str, Entry]:
    return {n.removeprefix(prefix): e for n, e in entries.items() if n.startswith(prefix)}


def _guess_views(
    table: Table, counter: Entry | None, own: set[str]
) -> tuple[dict[str, Entry], int]:
    """Return every matrix that pairs with `counter`, the labels or ids, and the row count."""
    file = table.path.name
    matrices = {
        name: entry
        for name, entry in table.entries.items()
        if entry.is_view_like and name not in own
    }
    hint = f"{describe(table)}; say which are the views with views={{'image': NAME}}"
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
    for name in _WELL_KNOWN_VIEWS:
        if name in matrices and name not in views:
            raise ViewError(
                f"{file}: view {name!r} has {matrices[name].shape[0]} rows, but there are "
                f"{n_items} items; views are paired by row"
            )
    if not views:
        rows = "" if table.is_paired else f" with {n_items} rows"
        raise InvalidInputError(f"{file} has {table.no_views}{rows}; {hint}")
    return views, n_items


def _refuse_likely_labels(table: Table) -> None:
    """Refuse to take for a view, or to pass over, what may be the labels."""
    for name in table.entries:
        if name.lower() in LIKELY_LABELS:
            raise InvalidInputError(
                f"{table.path.name} has no array 'labels', but one called {name!r}; rename it: to "
                "'labels' if it holds the labels, to another name if it is a view. Python can also "
                f"read it as it is: labels={name!r}, or views={{'image': NAME}}"
            )


def describe(table: Table) -> str:
    """Return a list of what there is, for an error."""
    shown = (
        f"{entry.name} {' x '.join(map(str, entry.shape)).replace('-1', '?') or 'scalar'}"
        f"{'' if entry.kind in 'buif' else ' texts' if entry.kind in 'U' else ' objects'}"
        for entry in table.entries.values()
    )
    return f"it has: {', '.join(shown)}" if table.entries else "it is empty"


def check_unpacked_size(path: Path, declared: int, file_size: int, max_bytes: int | None) -> None:
    """Refuse a file that would unpack to far more memory than its size on disk suggests.

    `declared`: bytes the arrays of the file would take. `file_size`: bytes the file takes.
    `max_bytes`: the caller's own limit, which replaces the usual one. Raises InvalidInputError: the
    limit is exceeded.
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
def guarded(where: str, *kinds: type[Exception], what: str = "is damaged") -> Iterator[None]:
    """Run another library's reader in a block; errors of these kinds, or any, mean damage."""
    errors = kinds or (Exception,)
    try:
        yield
    except AcqhError:
        raise
    except MemoryError as error:
        if not isinstance(error, kinds):
            raise
        # Arrow's: a damaged length can ask for any amount.
        needs = "is damaged or needs more memory than there is"
        raise CorruptBundleError(f"{where} {needs}: {error}") from error
    except errors as error:
        reason = str(error) or type(error).__name__
        raise CorruptBundleError(f"{where} {what}: {reason}") from error


def label_sets(values: Iterable[Any]) -> list[list[Any]]:
    """Return the labels of each row, whether it has a list of them, one or none."""
    return [row if isinstance(row, list) else [] if row is None else [row] for row in values]


def data_files(found: Iterable[Path], suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files of these endings, without hidden ones, by name: 2 before 10."""
    shown = (each for each in found if not each.name.startswith((".", "_")))
    return sorted((each for each in shown if each.suffix.lower() in suffixes), key=_natural_order)


def _natural_order(path: Path) -> list[str | int]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(path))]


def chain_files(counts: Iterable[tuple[Path, int]]) -> tuple[FileRows, ...]:
    """Return files, each with its number of rows, as one table whose rows follow one another."""
    listed, first_row = [], 0
    for path, n_rows in counts:
        listed.append(FileRows(path, first_row, n_rows))
        first_row += n_rows
    return tuple(listed)


def parts_of(parts: Parts, start: int, stop: int) -> dict[str, tuple[FileRows, ...]]:
    """Return the files that have some of the rows from `start` up to, not including, `stop`."""
    found = {}
    for name, files in parts.items():
        first = bisect_left(files, start, key=lambda file: file.first_row + file.n_rows - 1)
        found[name] = files[first : bisect_left(files, stop, key=lambda file: file.first_row)]
    return found


def _find_classes(table: Table, labels: Entry | None) -> _Classes:
    """Return the label columns of all rows: those in use, or the names that there are for them."""
    given = table.options.label_names
    if labels is None:
        if given is not None:
            raise LabelError(f"label_names were given, but {table.path.name} has no labels")
        return None, None
    names = (
        _stored_names(table, labels.name) if given is None else tuple(str(name) for name in given)
    )
    if names is not None and labels.kind in "UO":
        return names, None
    found = table.distinct_labels(labels)
    return (names, None) if found is None else _settle(list(found), names, table)


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


def _settle(found: list[Any], names: tuple[str, ...] | None, table: Table) -> _Classes:
    """Compare the class ids in use with names, which they may count; numbers may be floats."""
    if found and all(isinstance(value, float) and value.is_integer() for value in found):
        found = [int(value) for value in found]
    found = sorted(found)
    as_names = tuple(str(value) for value in found)
    if names is None:
        return as_names, None
    if set(as_names) <= set(names):
        return names, None
    if isinstance(found[0], int):
        # A 0 among the numbers is the first in any case.
        first = min(table.first_class, max(found[0], 0))
        if found[0] >= first and found[-1] - first < len(names):
            return names, first
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

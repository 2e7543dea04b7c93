"""Read CSV files: image paths, texts and labels, and numbers of views where there are any."""

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, slices
from acqh._core.labels import as_label_matrix, split_labels
from acqh.data.multiview import MultiViewData
from acqh.data.readers.csvfile import CsvFile, Mark
from acqh.data.readers.limits import check_names_have_labels
from acqh.data.readers.manifest import Manifest
from acqh.data.readers.options import (
    ID_COLUMNS,
    LABEL_COLUMNS,
    column_splits,
    find_column,
    sort_names,
)
from acqh.data.readers.pieces import ReadRows, RowSource
from acqh.errors import CorruptBundleError, DuplicateIdError, InvalidInputError

_NUMBERED = re.compile(r"(.+)_(\d+)")


@dataclass(frozen=True)
class CsvOptions:
    """What a caller may say about a CSV file; None means by the usual column names."""

    image: str | None = None
    text: str | None = None
    labels: str | None = None
    ids: str | None = None
    label_names: Sequence[str] | None = None
    label_separator: str | None = None


@dataclass(frozen=True)
class _Plan:
    """Positions of the columns; those of a view in the order of their numbers."""

    items: Mapping[str, int]
    image: int | None
    labels: int | None
    ids: int | None
    views: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class _Block:
    """Some rows: a manifest, and the numbers of its views."""

    manifest: Manifest
    views: dict[str, Floats]
    present: dict[str, Bools]

    def data(self) -> MultiViewData:
        return self.manifest.with_views(self.views, present=self.present)


def read_csv(path: Path, options: CsvOptions) -> MultiViewData:
    """Read a whole file that has numbers of views."""
    with CsvFile(path) as file:
        return _read(file, _make_plan(file, options), options).data()


def read_manifest_file(path: Path, options: CsvOptions) -> Manifest:
    """Read a whole manifest; numbers of views, if any, are left out."""
    with CsvFile(path) as file:
        return _read(file, _make_plan(file, options, views=False), options).manifest


@dataclass(frozen=True)
class CsvRows(RowSource):
    """The rows of a file: what its columns are, and where every few rows start."""

    plan: _Plan
    options: CsvOptions
    marks: tuple[tuple[int, Mark], ...]

    @contextmanager
    def open(self) -> Iterator[ReadRows]:
        """Open the file for its rows."""
        with self.open_blocks() as read:
            yield lambda start, stop: read(start, stop).data()

    @contextmanager
    def open_blocks(self) -> Iterator[Callable[[int, int], _Block]]:
        """Open the file, for manifests too."""
        position = -1
        with CsvFile(self.path) as file:

            def read(start: int, stop: int) -> _Block:
                nonlocal position
                if start != position:
                    position, mark = self._mark_before(start)
                    file.go_to(mark)
                    for _ in itertools.islice(file.rows(), start - position):
                        pass
                position = stop
                return _read(file, self.plan, self.options, range(start, stop))

            yield read

    def only(self, start: int, stop: int) -> Self:  # noqa: ARG002
        """Return this without marks other than the one to start from."""
        return replace(self, marks=(self._mark_before(start),))

    def _mark_before(self, row: int) -> tuple[int, Mark]:
        return self.marks[bisect_right(self.marks, row, key=lambda each: each[0]) - 1]


def find_csv_rows(
    path: Path, chunk_size: int, options: CsvOptions, *, views: bool = True
) -> CsvRows:
    """Go through the lines once, without reading numbers: for labels, and for where rows start."""
    found: set[str] = set()
    marks, n_rows = [], 0
    with CsvFile(path) as file:
        plan = _make_plan(file, options, views=views)
        mark = file.mark()
        for line, fields in file.rows():
            if n_rows % chunk_size == 0:
                marks.append((n_rows, mark))
            n_rows += 1
            if plan.labels is not None and options.label_names is None:
                found.update(_labels(fields[plan.labels], line, file, options))
            if n_rows % chunk_size == 0:
                mark = file.mark()
    if n_rows == 0:
        raise _no_rows(path)
    if options.label_names is None:
        options = replace(options, label_names=sort_names(found))
    return CsvRows(path, n_rows, plan, options, tuple(marks))


def read_manifest_file_chunks(
    path: Path, chunk_size: int, options: CsvOptions
) -> Iterator[Manifest]:
    """Read a manifest a given number of rows at a time."""
    rows = find_csv_rows(path, chunk_size, options, views=False)
    with rows.open_blocks() as read:
        for part in slices(rows.n_rows, chunk_size):
            yield read(part.start, part.stop).manifest


def _make_plan(file: CsvFile, options: CsvOptions, *, views: bool = True) -> _Plan:
    """Decide what each column is, by its name; `views`: whether these are needed, or left out."""
    columns, name = file.columns, file.path.name
    place = {column: position for position, column in enumerate(columns)}
    found = _find_views(file)
    numbered = {position for positions in found.values() for position in positions}
    free = [column for j, column in enumerate(columns) if j not in numbered]
    image = find_column(free, options.image, ("image",), name, "images")
    text = find_column(free, options.text, ("text",), name, "texts")
    labels = find_column(free, options.labels, LABEL_COLUMNS, name, "labels")
    ids = find_column(free, options.ids, ID_COLUMNS, name, "ids")
    if labels is None:
        check_names_have_labels(options.label_names, file.path)
    if image is None and text is None and not found:
        raise InvalidInputError(
            f"{name} has neither images nor texts nor views; its columns are: "
            f"{', '.join(columns)}; name them with image=COLUMN and text=COLUMN, or give the "
            "numbers of a view in columns image_0, image_1, ..."
        )
    if views and not found:
        raise InvalidInputError(
            f"{name} has no numbers of views (columns image_0, image_1, ...), only an item table; "
            "acqh build makes a collection of such a manifest, and acqh.data.read_manifest reads "
            "it in Python"
        )
    renamed = {image: "image", text: "text"}
    items = {
        renamed.get(column, column): place[column] for column in free if column not in (labels, ids)
    }
    return _Plan(
        items=items,
        image=None if image is None else place[image],
        labels=None if labels is None else place[labels],
        ids=None if ids is None else place[ids],
        views=found if views else {},
    )


def _find_views(file: CsvFile) -> dict[str, tuple[int, ...]]:
    """Return the columns called NAME_0, NAME_1, ..., which are a view of that name."""
    groups: dict[str, dict[int, int]] = {}
    for position, column in enumerate(file.columns):
        if match := _NUMBERED.fullmatch(column):
            group = groups.setdefault(match[1], {})
            if int(match[2]) in group:
                raise file.error(1, f"two columns are number {int(match[2])} of {match[1]!r}")
            group[int(match[2])] = position
    views = {}
    for view, group in groups.items():
        if 0 not in group:
            continue
        if sorted(group) != list(range(len(group))):
            gap = next(number for number in itertools.count() if number not in group)
            raise file.error(1, f"view {view!r} has no column {view}_{gap}, but later ones")
        views[view] = tuple(group[number] for number in range(len(group)))
    return views


def _read(file: CsvFile, plan: _Plan, options: CsvOptions, rows: range | None = None) -> _Block:
    """Read the next rows, which are these of the whole; or all, where that is None."""
    lines: list[int] = []
    items: dict[str, list[str]] = {name: [] for name in plan.items}
    labels: list[list[str]] = []
    ids: list[str] = []
    views: dict[str, list[Floats]] = {view: [] for view in plan.views}
    present: dict[str, list[bool]] = {view: [] for view in plan.views}
    for line, fields in itertools.islice(file.rows(), None if rows is None else len(rows)):
        lines.append(line)
        for name, place in plan.items.items():
            items[name].append(fields[place])
        if plan.labels is not None:
            labels.append(_labels(fields[plan.labels], line, file, options))
        if plan.ids is not None:
            ids.append(fields[plan.ids])
        for view, places in plan.views.items():
            cells = [fields[place].strip() for place in places]
            views[view].append(_numbers(cells, line, view, file))
            present[view].append(any(cells))
    if not lines and rows is not None:
        raise CorruptBundleError(f"{file.path.name} has changed since it was listed")
    if not lines:
        raise _no_rows(file.path)
    if plan.image is not None:
        folder = file.path.absolute().parent  # images are named relative to it; none is opened
        items["image"] = [str(folder / name) if name else "" for name in items["image"]]
    matrix, names = None, tuple[str, ...]()
    if options.label_names or any(labels):
        matrix, names = as_label_matrix([set(row) for row in labels], options.label_names)
    table = {name: np.fromiter(them, object, len(them)) for name, them in items.items()}
    first = 0 if rows is None else rows.start
    manifest = Manifest(
        table,
        np.arange(first, first + len(lines)) if plan.ids is None else _ids(ids, lines, file),
        matrix,
        names,
        column_splits(table) if rows is None else {},
        file.path.stem,
    )
    return _Block(
        manifest,
        {view: np.array(them) for view, them in views.items()},
        {view: np.array(them) for view, them in present.items()},
    )


def _no_rows(path: Path) -> InvalidInputError:
    return InvalidInputError(f"{path.name} has a header but no rows; give at least one item")


def _ids(ids: list[str], lines: list[int], file: CsvFile) -> Array:
    seen: dict[str, int] = {}
    for line, value in zip(lines, ids, strict=True):
        if not value:
            raise file.error(line, "the id is empty; give each item one")
        if value in seen:
            raise DuplicateIdError(
                f"{file.path.name}: the id {value!r} is on the lines {seen[value]} and {line}; "
                "ids must differ"
            )
        seen[value] = line
    return np.asarray(ids, dtype=str)


def _labels(cell: str, line: int, file: CsvFile, options: CsvOptions) -> list[str]:
    try:
        return split_labels(cell, options.label_separator)
    except InvalidInputError as error:
        raise file.error(line, str(error)) from None


def _numbers(cells: list[str], line: int, view: str, file: CsvFile) -> Floats:
    """Return the numbers of a row of a view; all cells empty means absent."""
    if not any(cells):
        return np.zeros(len(cells))
    numbers: list[float] = []
    try:
        numbers.extend(map(float, cells))
    except ValueError:
        at = len(numbers)  # those before the wrong one are there
        raise file.error(
            line,
            f"{view}_{at} must be a number, got {cells[at] or 'nothing'!r}; leave all columns of a "
            "view empty where it is absent",
        ) from None
    row = np.array(numbers)
    if not np.isfinite(row).all():
        raise file.error(line, f"view {view!r} has a NaN or infinite value")
    return row

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

from acqh._core.arrays import Array, Bools, Floats
from acqh._core.labels import as_label_matrix, split_labels
from acqh.data._multiview import MultiViewData
from acqh.data._readers._csvfile import CsvFile, Mark
from acqh.data._readers._limits import CHUNK_SIZE, check_names_have_labels
from acqh.data._readers._manifest import Manifest
from acqh.data._readers._pieces import ReadRows, RowSource
from acqh.data._readers._tables import (
    ID_COLUMNS,
    LABEL_COLUMNS,
    column_splits,
    find_column,
    sort_names,
)
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
    """Some rows, column by column."""

    lines: list[int]
    items: dict[str, list[str]]
    labels: list[list[str]]
    ids: list[str]
    views: dict[str, Floats]
    present: dict[str, Bools]


def read_csv(path: Path, options: CsvOptions) -> MultiViewData:
    """Read a whole file that has numbers of views."""
    with CsvFile(path) as file:
        plan = _make_plan(file, options)
        _need_views(plan, file)
        block = _join(list(_blocks(file, plan, CHUNK_SIZE, options)), path)
    manifest = _make_manifest(block, plan, options.label_names, path)
    return manifest.with_views(block.views, present=block.present)


def read_manifest_file(path: Path, options: CsvOptions) -> Manifest:
    """Read a whole manifest; numbers of views, if any, are left out."""
    with CsvFile(path) as file:
        plan = _without_views(_make_plan(file, options))
        block = _join(list(_blocks(file, plan, CHUNK_SIZE, options)), path)
    return _make_manifest(block, plan, options.label_names, path)


@dataclass(frozen=True)
class CsvRows(RowSource):
    """The rows of a file: what its columns are, and where every few rows start."""

    plan: _Plan
    names: Sequence[str] | None
    options: CsvOptions
    marks: tuple[tuple[int, Mark], ...]

    @contextmanager
    def open(self) -> Iterator[ReadRows]:
        """Open the file."""
        with self.open_blocks() as read:

            def read_views(start: int, stop: int) -> MultiViewData:
                block, manifest = read(start, stop)
                return manifest.with_views(block.views, present=block.present)

            yield read_views

    @contextmanager
    def open_blocks(self) -> Iterator[Callable[[int, int], tuple[_Block, Manifest]]]:
        """Open the file, for rows without their views."""
        position = -1
        with CsvFile(self.path) as file:

            def read(start: int, stop: int) -> tuple[_Block, Manifest]:
                nonlocal position
                if start != position:
                    position, mark = self._mark_before(start)
                    file.go_to(mark)
                    for _ in itertools.islice(file.rows(), start - position):
                        pass
                position = stop
                block = next(_blocks(file, self.plan, stop - start, self.options), None)
                if block is None:
                    raise CorruptBundleError(f"{self.path.name} has changed since it was listed")
                return block, _make_manifest(block, self.plan, self.names, self.path, start=start)

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
        plan = _make_plan(file, options)
        if views:
            _need_views(plan, file)
        else:
            plan = _without_views(plan)
        mark = file.mark()
        for _, fields in file.rows():
            if n_rows % chunk_size == 0:
                marks.append((n_rows, mark))
            n_rows += 1
            if plan.labels is not None and options.label_names is None:
                found.update(split_labels(fields[plan.labels], options.label_separator))
            if n_rows % chunk_size == 0:
                mark = file.mark()
    if n_rows == 0:
        _join([], path)
    names = sort_names(found) if options.label_names is None else options.label_names
    return CsvRows(path, n_rows, plan, names, options, tuple(marks))


def read_manifest_file_chunks(
    path: Path, chunk_size: int, options: CsvOptions
) -> Iterator[Manifest]:
    """Read a manifest a given number of rows at a time."""
    rows = find_csv_rows(path, chunk_size, options, views=False)
    with rows.open_blocks() as read:
        for start in range(0, rows.n_rows, chunk_size):
            yield read(start, min(start + chunk_size, rows.n_rows))[1]


def _make_plan(file: CsvFile, options: CsvOptions) -> _Plan:
    """Decide what each column is, by its name."""
    columns, name = file.columns, file.path.name
    place = {column: position for position, column in enumerate(columns)}
    views = _find_views(file)
    numbered = {position for positions in views.values() for position in positions}
    free = [column for j, column in enumerate(columns) if j not in numbered]
    image = find_column(free, options.image, ("image",), name, "images")
    text = find_column(free, options.text, ("text",), name, "texts")
    labels = find_column(free, options.labels, LABEL_COLUMNS, name, "labels")
    ids = find_column(free, options.ids, ID_COLUMNS, name, "ids")
    if labels is None:
        check_names_have_labels(options.label_names, file.path)
    if image is None and text is None and not views:
        raise InvalidInputError(
            f"{name} has neither images nor texts nor views; its columns are: "
            f"{', '.join(columns)}; name them with image=COLUMN and text=COLUMN, or give the "
            "numbers of a view in columns image_0, image_1, ..."
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
        views=views,
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


def _need_views(plan: _Plan, file: CsvFile) -> None:
    if not plan.views:
        raise InvalidInputError(
            f"{file.path.name} has no numbers of views (columns image_0, image_1, ...), only an "
            "item table; acqh build makes a collection of such a manifest, and "
            "acqh.data.read_manifest reads it in Python"
        )


def _without_views(plan: _Plan) -> _Plan:
    return _Plan(plan.items, plan.image, plan.labels, plan.ids, views={})


def _blocks(file: CsvFile, plan: _Plan, size: int, options: CsvOptions) -> Iterator[_Block]:
    rows = file.rows()
    while batch := list(itertools.islice(rows, size)):
        lines = [line for line, _ in batch]
        fields = [row for _, row in batch]
        items = {name: [row[j] for row in fields] for name, j in plan.items.items()}
        if plan.image is not None:
            items["image"] = [_resolve(file.path, value) for value in items["image"]]
        labels = [] if plan.labels is None else [row[plan.labels] for row in fields]
        ids = [] if plan.ids is None else [row[plan.ids] for row in fields]
        views, present = {}, {}
        for view, positions in plan.views.items():
            cells = [[row[j].strip() for j in positions] for row in fields]
            views[view], present[view] = _numbers(cells, lines, view, file)
        yield _Block(
            lines=lines,
            items=items,
            labels=[split_labels(value, options.label_separator) for value in labels],
            ids=ids,
            views=views,
            present=present,
        )


def _resolve(file: Path, value: str) -> str:
    """Return an image's path, given relative to the file that names it; it is not opened."""
    return str(file.absolute().parent / value) if value else ""


def _check_ids(block: _Block, path: Path) -> None:
    seen: dict[str, int] = {}
    for line, value in zip(block.lines, block.ids, strict=True):
        if not value:
            raise InvalidInputError(
                f"{path.name}, line {line}: the id is empty; give each item one"
            )
        if value in seen:
            raise DuplicateIdError(
                f"{path.name}: the id {value!r} is on the lines {seen[value]} and {line}; "
                "ids must differ"
            )
        seen[value] = line


def _numbers(
    cells: list[list[str]], lines: list[int], view: str, file: CsvFile
) -> tuple[Floats, Bools]:
    """Return the numbers of a view and which rows have it; all cells empty means absent."""
    present = np.array([any(row) for row in cells])
    matrix = np.zeros((len(cells), len(cells[0])))
    for at in np.flatnonzero(present):
        try:
            matrix[at] = [float(cell) for cell in cells[at]]
        except ValueError:
            raise file.error(lines[at], _bad_number(cells[at], view)) from None
        if not np.isfinite(matrix[at]).all():
            raise file.error(lines[at], f"view {view!r} has a NaN or infinite value")
    return matrix, present


def _bad_number(row: list[str], view: str) -> str:
    number = next(number for number, cell in enumerate(row) if not _is_number(cell))
    return (
        f"{view}_{number} must be a number, got {row[number] or 'nothing'!r}; leave all columns "
        "of a view empty where it is absent"
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _join(blocks: list[_Block], path: Path) -> _Block:
    if not blocks:
        raise InvalidInputError(f"{path.name} has a header but no rows; give at least one item")
    if len(blocks) == 1:
        return blocks[0]
    return _Block(
        lines=[line for block in blocks for line in block.lines],
        items={n: [v for block in blocks for v in block.items[n]] for n in blocks[0].items},
        labels=[names for block in blocks for names in block.labels],
        ids=[value for block in blocks for value in block.ids],
        views={v: np.concatenate([b.views[v] for b in blocks]) for v in blocks[0].views},
        present={v: np.concatenate([b.present[v] for b in blocks]) for v in blocks[0].views},
    )


def _make_manifest(
    block: _Block,
    plan: _Plan,
    label_names: Sequence[str] | None,
    path: Path,
    start: int | None = None,
) -> Manifest:
    """Make a manifest of some rows, or of all where `start`, the number of the first, is None."""
    labels, names = None, tuple[str, ...]()
    if plan.labels is not None and (label_names or any(block.labels)):
        labels, names = as_label_matrix([set(row) for row in block.labels], label_names)
    items = {name: _strings(values) for name, values in block.items.items()}
    first = start or 0
    ids: Array = np.arange(first, first + len(block.lines))
    if plan.ids is not None:
        _check_ids(block, path)
        ids = np.asarray(block.ids, dtype=str)
    splits = column_splits(items) if start is None else {}
    return Manifest(items, ids, labels, names, splits, path.stem)


def _strings(values: list[str]) -> Array:
    return np.fromiter(values, dtype=object, count=len(values))

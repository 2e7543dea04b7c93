"""Tables of results: what is in a cell, which is best, what stands under it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any, Literal

from acqh.bench.report.results import Kind, Run, Summary, group, summarise

Verdict = Literal["better", "worse", "even"]
# A row is a label and what its database was coded from.
RowId = tuple[str, str]

CODED_FROM = {"learnt": "labels", "hashed": "searched view", "unified": "all views"}


@dataclass(frozen=True)
class Quantity:
    """What a table shows."""

    column: str  # of a ResultRow
    title: str
    note: str  # how it is defined, to stand under the table
    digits: int = 3  # after the decimal point
    higher_is_better: bool = True
    has_directions: bool = True  # whether it differs between directions


def _map_note(cutoff: str) -> str:
    return (
        f"Average precision, cut-off {cutoff}, divided by the number of relevant items within the "
        "cut-off; ties in expectation; relevant: shares a label; queries without a relevant item "
        "are left out."
    )


QUANTITIES: Mapping[str, Quantity] = {
    "map_all": Quantity("map_all", "MAP@all", _map_note("all (the whole ranking)")),
    "map_50": Quantity("map_50", "MAP@50", _map_note("50")),
    "map_100": Quantity("map_100", "MAP@100", _map_note("100")),
    "map_5000": Quantity("map_5000", "MAP@5000", _map_note("5000")),
    "fit_seconds": Quantity(
        "fit_seconds", "Training, s", "Wall-clock seconds to fit, feature maps included.",
        2, higher_is_better=False, has_directions=False,
    ),
    "query_seconds": Quantity(
        "query_seconds", "Queries, s",
        "Wall-clock seconds to project all queries and to find the first 1,000 items for each.",
        3, higher_is_better=False,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One figure of a table."""

    summary: Summary
    # 1 for the best of its column, 2 for the second, otherwise 0.
    place: int = 0
    verdict: Verdict | None = None  # against the best baseline
    p_value: float | None = None  # of that comparison, corrected
    marks: tuple[str, ...] = ()  # letters of the table's `marks`


@dataclass(frozen=True)
class Column:
    """A column: its heading, and the heading of the group it is in."""

    group: str
    name: str


@dataclass(frozen=True)
class TableRow:
    """A method in a table."""

    label: str
    database: str  # what its database was coded from
    kind: Kind
    entries: tuple[Entry | None, ...]  # one per column; None where there is no result
    marks: tuple[str, ...] = ()  # letters of the table's `marks` that hold for the whole row

    @property
    def coded_from(self) -> str:
        """What its database was coded from, in words."""
        return CODED_FROM.get(self.database, self.database)


@dataclass(frozen=True)
class Table:
    """A table, ready to be written as a page, CSV or LaTeX."""

    name: str  # for file names
    title: str
    quantity: Quantity
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]  # what must stand under it
    marks: Mapping[str, str] = field(default_factory=dict)  # letters at figures, and what they mean

    @property
    def spans(self) -> list[tuple[str, int]]:
        """Groups of neighbouring columns, and how many columns each has."""
        groups = groupby(column.group for column in self.columns)
        return [(name, len(list(columns))) for name, columns in groups]

    @property
    def names(self) -> list[str]:
        """Headings of what names a row: the second where databases were coded in several ways."""
        return ["method", "coded from"][: min(2, len({row.database for row in self.rows}))]


@dataclass
class RunTable:
    """The runs of a table, by row and column."""

    columns: list[Column]
    runs: dict[tuple[RowId, int], list[Run]]  # one run per seed
    kinds: dict[RowId, Kind]

    @property
    def rows(self) -> list[RowId]:
        """All rows, in the order of first appearance."""
        return list(self.kinds)

    def cell(self, row: RowId, column: int) -> list[Run]:
        """Return the runs of a cell."""
        return self.runs.get((row, column), [])


def arrange(
    runs: Sequence[Run],
    size_of: Callable[[Run], int | None],
    size_name: Callable[[int], str],
    *,
    has_directions: bool = True,
) -> RunTable:
    """Put runs in rows by method and in columns by direction and size.

    Runs without a size, such as controls that have no choice of it, fill all columns.
    """
    sizes = sorted({size for run in runs if (size := size_of(run)) is not None})
    directions = list(dict.fromkeys(run.direction for run in runs))
    if not has_directions:
        directions = directions[:1]
    choices: Sequence[int | None] = sizes or [None]
    places = [(direction, size) for direction in directions for size in choices]
    columns = [
        Column(
            arrow(direction) if has_directions else "",
            "any size" if size is None else size_name(size),
        )
        for direction, size in places
    ]
    cells: dict[tuple[RowId, int], list[Run]] = {}
    kinds: dict[RowId, Kind] = {}
    by_cell = group(runs, lambda run: (row_id(run), run.direction, size_of(run)))
    for (row, direction, size), found in by_cell.items():
        kinds.setdefault(row, found[0].kind)
        for number, (at_direction, at_size) in enumerate(places):
            if direction == at_direction and size in (None, at_size):
                cells[row, number] = found
    return RunTable(columns, cells, kinds)


def row_id(run: Run) -> RowId:
    """Return the row of a run."""
    return run.label, str(run.setting["database"])


def arrow(direction: str) -> str:
    """Return a direction as people write it.

    Examples
    --------
    >>> arrow("image->text")
    'image → text'
    """
    return direction.replace("->", " → ")


def make_table(
    name: str,
    title: str,
    quantity: Quantity,
    grid: RunTable,
    *,
    order: Callable[[RowId], Any],
    remarks: Callable[[Sequence[Run]], Iterable[str]],
    verdicts: Mapping[tuple[RowId, int], tuple[Verdict, float]] = MappingProxyType({}),
    notes: Sequence[str] = (),
) -> Table:
    """Return a table of the means over seeds.

    `order`: sort key of rows. `remarks`: gives sentences about a cell; each becomes a letter at the
    figure, or at the row or a note under the table if it is true of all of it.
    `verdicts`: by row and column. `notes`: sentences that stand under
    the table besides those about seeds and definition.
    """
    told = {cell: list(dict.fromkeys(remarks(runs))) for cell, runs in grid.runs.items()}
    always = _common(told.values())
    letters: dict[str, str] = {}

    def mark(texts: Iterable[str]) -> tuple[str, ...]:
        found = [letters.setdefault(text, letter(len(letters))) for text in texts]
        return tuple(sorted(found, key=lambda sign: (len(sign), sign)))

    places = [_places(grid, quantity, number) for number in range(len(grid.columns))]
    rows = []
    for row in sorted(grid.rows, key=order):
        of_row = _common(texts for (name, _), texts in told.items() if name == row)
        row_marks = mark(text for text in of_row if text not in always)
        entries: list[Entry | None] = []
        for number in range(len(grid.columns)):
            runs = grid.cell(row, number)
            if not runs:
                entries.append(None)
                continue
            marks = mark(text for text in told[row, number] if text not in of_row)
            summary = summarise(run.row[quantity.column] for run in runs)
            verdict, p_value = verdicts.get((row, number), (None, None))
            place = places[number].get(row, 0)
            entries.append(Entry(summary, place, verdict, p_value, marks))
        rows.append(TableRow(*row, grid.kinds[row], tuple(entries), row_marks))
    all_notes = (_seeds_note(grid), quantity.note, _counts_note(grid), *notes, *always)
    marks_by_letter = {sign: text for text, sign in letters.items()}
    return Table(
        name, title, quantity, tuple(grid.columns), tuple(rows), all_notes, marks_by_letter
    )


def _common(lists: Iterable[Sequence[str]]) -> list[str]:
    """Return what is in all lists, in the order of the first."""
    first, *others = list(lists) or [[]]
    return [text for text in first if all(text in other for other in others)]


def letter(number: int) -> str:
    """Return a mark: a, b, ..., z, aa, ab, ...

    Examples
    --------
    >>> letter(0), letter(25), letter(26)
    ('a', 'z', 'aa')
    """
    high, low = divmod(number, len(ascii_lowercase))
    return (letter(high - 1) if high else "") + ascii_lowercase[low]


def _places(grid: RunTable, quantity: Quantity, number: int) -> dict[RowId, int]:
    means = {
        row: summarise(run.row[quantity.column] for run in runs).mean
        for row in grid.rows
        if (runs := grid.cell(row, number))
    }
    ranked = sorted(set(means.values()), reverse=quantity.higher_is_better)[:2]
    return {row: ranked.index(mean) + 1 for row, mean in means.items() if mean in ranked}


def _seeds_note(grid: RunTable) -> str:
    seeds = sorted({run.seed for runs in grid.runs.values() for run in runs})
    if len(seeds) == 1:
        return f"One split, seed {seeds[0]}."
    named = ", ".join(map(str, seeds))
    return f"Mean ± standard deviation (over n - 1) of {len(seeds)} splits, seeds {named}."


def _counts_note(grid: RunTable) -> str:
    counts = {
        (run.row["n_train"], run.row["n_query"], run.row["n_database"])
        for runs in grid.runs.values()
        for run in runs
    }
    told = "; ".join(
        f"{n_train:,} items learnt from, {n_query:,} queries, {n_database:,} items searched"
        for n_train, n_query, n_database in sorted(counts)[:3]
    )
    return f"{told}."

"""Tables of results: methods at equal bytes per item, one comparison per data set and database."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby, product
from string import ascii_lowercase

import numpy as np

from acqh.bench.protocol import PROTOCOLS
from acqh.bench.report.results import Grid, Kind, Result, Results, RowId, Summary, group, summarise
from acqh.bench.report.verdicts import NOTE, Verdict, verdicts

_ENCODED_FROM = {"training": "labels", "single": "searched view", "fused": "all views"}
# Headings of the names of a row, and where they are in a TableRow.
ROW_NAMES = {"method": "label", "encoded from": "encoded_from", "follows": "follows"}
_RANKING_NOTE = "Bold: best of the column; underlined: second; trivial baselines count."
_MAP_NOTE = (
    "Average precision, cut-off {}, divided by the number of relevant items within the cut-off; "
    "ties in expectation; relevant: shares a label; queries without a relevant item are skipped."
)


@dataclass(frozen=True)
class Quantity:
    """Quantity that a table shows."""

    column: str  # of a ResultRow
    title: str
    note: str  # its definition, shown under the table
    digits: int = 3  # after the decimal point
    higher_is_better: bool = True
    has_directions: bool = True  # whether it differs between directions


_QUANTITIES = (
    Quantity("map_all", "MAP@all", _MAP_NOTE.format("all (the whole ranking)")),
    Quantity("map_50", "MAP@50", _MAP_NOTE.format("50")),
    Quantity("map_100", "MAP@100", _MAP_NOTE.format("100")),
    Quantity("map_5000", "MAP@5000", _MAP_NOTE.format("5000")),
    Quantity(
        "fit_seconds", "Training, s", "Wall-clock seconds to fit, feature maps included.",
        2, higher_is_better=False, has_directions=False,
    ),
    Quantity(
        "query_seconds", "Queries, s",
        "Wall-clock seconds to project all queries and to find the first 1,000 items for each.",
        3, higher_is_better=False,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One value of a table."""

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
    encoded_from: str  # source of its database codes, as text
    kind: Kind
    follows: str  # what the implementation follows: authors' code, paper, reconstructed, ...
    entries: tuple[Entry | None, ...]  # one per column; None without a result
    marks: tuple[str, ...] = ()  # letters of the table's `marks` for the whole row


@dataclass(frozen=True)
class Table:
    """A table, to be written as HTML, CSV, LaTeX or Markdown."""

    name: str  # for file names
    title: str
    quantity: Quantity
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]  # notes under the table
    marks: Mapping[str, str]  # letters in the table, and their meaning

    @property
    def spans(self) -> list[tuple[str, int]]:
        """Groups of adjacent columns, and their numbers of columns."""
        groups = groupby(column.group for column in self.columns)
        return [(name, len(list(columns))) for name, columns in groups]

    @property
    def names(self) -> list[str]:
        """Headings of the row names: the method, and what differs between rows."""
        return [
            heading
            for heading, name in ROW_NAMES.items()
            if name == "label" or len({getattr(row, name) for row in self.rows}) > 1
        ]


@dataclass(frozen=True)
class Comparison:
    """Tables of the same results, one per quantity."""

    name: str
    title: str
    description: str
    results: tuple[Result, ...]
    tables: tuple[Table, ...]


def compare(results: Results) -> list[Comparison]:
    """Return the tables at equal bytes per item: one comparison per data set and database.

    Each has mean average precision at three cut-offs, training time and query time.
    """
    groups = group(results.results, _comparison_of, unique=False)
    return [_compare(results, chosen, *name) for name, chosen in groups.items()]


def _comparison_of(result: Result) -> tuple[str, str, str | None]:
    protocol = result.setting["protocol"]
    # For a labelled database each method uses the codes of its paper; otherwise one kind per table.
    is_mixed = PROTOCOLS[protocol].database_is_train
    return result.setting["dataset"], protocol, None if is_mixed else result.setting["database"]


def _compare(
    results: Results, chosen: Sequence[Result], dataset: str, protocol: str, database: str | None
) -> Comparison:
    name = "-".join(filter(None, ("fair", slug(dataset), protocol, database)))
    encoded = "" if database is None else f", encoded from {_ENCODED_FROM[database]}"
    title = f"{dataset}: {PROTOCOLS[protocol].title}{encoded}"
    description = f"{PROTOCOLS[protocol].description.capitalize()}{encoded}."
    tables = [
        _make_table(name, title, quantity, chosen, results)
        for quantity in _QUANTITIES
        if quantity.column != "map_5000" or protocol == "field"
    ]
    return Comparison(name, title, description, tuple(chosen), tuple(tables))


def slug(name: str) -> str:
    """Return a unique name for files and URLs.

    Examples
    --------
    >>> slug("wiki")
    'wiki'
    >>> slug("../My data")
    'my-data-da73c4e5'
    """
    plain = re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")
    return plain if plain == name else f"{plain}-{sha256(name.encode()).hexdigest()[:8]}"


def byte_name(n_bytes: int) -> str:
    """Return a size as text."""
    return f"{n_bytes} byte{'s' * (n_bytes != 1)}"


def arrow(direction: str) -> str:
    """Return a direction with an arrow.

    Examples
    --------
    >>> arrow("image->text")
    'image → text'
    """
    return direction.replace("->", " → ")


def letter(number: int) -> str:
    """Return a mark: a, b, ..., z, aa, ab, ...

    Examples
    --------
    >>> letter(0), letter(25), letter(26)
    ('a', 'z', 'aa')
    """
    high, low = divmod(number, len(ascii_lowercase))
    return (letter(high - 1) if high else "") + ascii_lowercase[low]


def _arrange(chosen: Sequence[Result], has_directions: bool) -> tuple[list[Column], Grid]:
    """Arrange results in rows by method and in columns by direction and size.

    Results of methods with a fixed size, such as trivial baselines, fill all columns.
    """
    sizes = sorted({result.n_bytes for result in chosen if result.n_bytes is not None})
    directions = list(dict.fromkeys(result.direction for result in chosen))
    choices: Sequence[int | None] = sizes or [None]
    places = list(product(directions if has_directions else directions[:1], choices))
    columns = [
        Column(arrow(way) if has_directions else "", byte_name(size) if size else "any size")
        for way, size in places
    ]
    grid: dict[RowId, list[list[Result]]] = {}
    entries = group(chosen, lambda result: (result.row_id, result.direction, result.n_bytes))
    for (row, direction, n_bytes), same in entries.items():
        line = grid.setdefault(row, [[] for _ in places])
        for number, (way, size) in enumerate(places):
            if direction == way and n_bytes in (None, size):
                line[number] = same
    # By mean average precision over all columns, best first, trivial baselines last.
    quality = {
        row: -np.mean([result.row["map_all"] for same in line for result in same])
        for row, line in grid.items()
    }
    is_trivial = {result.row_id: result.kind == "trivial" for result in chosen}
    return columns, {
        row: grid[row] for row in sorted(grid, key=lambda row: (is_trivial[row], quality[row], row))
    }


def _make_table(
    name: str, title: str, quantity: Quantity, chosen: Sequence[Result], results: Results
) -> Table:
    """Return a table of the means over seeds.

    A remark about a value becomes a letter at the value, at its row if it applies to the whole row,
    or a note under the table if it applies to all values.
    """
    columns, grid = _arrange(chosen, quantity.has_directions)
    seeds = sorted({result.seed for result in chosen})
    remarks = {
        (row, number): list(_remarks(same, len(seeds)))
        for row, line in grid.items()
        for number, same in enumerate(line)
        if same
    }
    always = _common(remarks.values())
    letters: dict[str, str] = {}

    def mark(texts: Iterable[str]) -> tuple[str, ...]:
        marks = [letters.setdefault(text, letter(len(letters))) for text in texts]
        return tuple(sorted(marks, key=lambda sign: (len(sign), sign)))

    is_tested = quantity.column == "map_all"
    tested = verdicts(grid, results) if is_tested else {}
    summaries = {
        place: summarise(result.row[quantity.column] for result in grid[place[0]][place[1]])
        for place in remarks
    }
    best: list[list[float]] = []
    for number in range(len(columns)):
        means = {summary.mean for (_, at), summary in summaries.items() if at == number}
        best.append(sorted(means, reverse=quantity.higher_is_better)[:2])
    kinds = {result.row_id: (result.kind, result.follows) for result in chosen}
    rows = []
    for row in grid:
        of_row = _common(texts for (at, _), texts in remarks.items() if at == row)
        row_marks = mark(text for text in of_row if text not in always)
        entries: list[Entry | None] = []
        for number, top in enumerate(best):
            if (row, number) not in summaries:
                entries.append(None)
                continue
            summary = summaries[row, number]
            marks = mark(text for text in remarks[row, number] if text not in of_row)
            place = top.index(summary.mean) + 1 if summary.mean in top else 0
            verdict, p_value = tested.get((row, number), (None, None))
            entries.append(Entry(summary, place, verdict, p_value, marks))
        label, database = row
        encoded_from = _ENCODED_FROM.get(database, database)
        rows.append(TableRow(label, encoded_from, *kinds[row], tuple(entries), row_marks))
    return Table(
        f"{name}-{quantity.column.replace('_', '-')}",
        f"{title}, {quantity.title}",
        quantity,
        tuple(columns),
        tuple(rows),
        (
            _seeds_note(seeds), quantity.note, _counts_note(chosen), _RANKING_NOTE,
            *([NOTE] if is_tested else []), *always,
        ),
        {sign: text for text, sign in letters.items()},
    )  # fmt: skip


def _remarks(same: Sequence[Result], n_seeds: int) -> Iterable[str]:
    stored, requested = same[0].row["bytes_per_item"], same[0].n_bytes
    if requested is None:
        yield f"Fixed size: {byte_name(stored)} per item in every column."
    elif stored != requested:
        yield f"Stores {byte_name(stored)} per item: the requested size is not possible."
    if len(same) < n_seeds:
        yield f"Mean of {len(same)} of {n_seeds} splits: other runs failed or are pending."


def _common(lists: Iterable[Sequence[str]]) -> list[str]:
    """Return the texts common to all lists, in the order of the first."""
    first, *others = list(lists) or [[]]
    return [text for text in first if all(text in other for other in others)]


def _seeds_note(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"One split, seed {seeds[0]}."
    named = ", ".join(map(str, seeds))
    return f"Mean ± standard deviation (over n - 1) of {len(seeds)} splits, seeds {named}."


def _counts_note(chosen: Iterable[Result]) -> str:
    names = ("n_train", "n_query", "n_database")
    counts = {tuple(result.row[name] for name in names) for result in chosen}
    shown = "; ".join(
        f"{n_train:,} training items, {n_query:,} queries, {n_database:,} items searched"
        for n_train, n_query, n_database in sorted(counts)[:3]
    )
    return f"{shown}."

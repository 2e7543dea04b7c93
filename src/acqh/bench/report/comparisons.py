"""The tables of a report: fair ones at equal bytes, and the paper's own beside its figures."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import numpy as np

from acqh.bench.protocol import PROTOCOLS
from acqh.bench.report.published import PaperQuantity, differences, load_paper, paper_figure
from acqh.bench.report.results import Results, Run, group
from acqh.bench.report.tables import (
    CODED_FROM,
    QUANTITIES,
    RowId,
    RunTable,
    Table,
    arrange,
    make_table,
)
from acqh.bench.report.verdicts import NOTE, verdicts

CUTOFFS = {"map_all": "all", "map_50": "50", "map_100": "100"}
# By column, what the paper prints of it, and where.
_IN_PAPER: Mapping[str, tuple[PaperQuantity, str]] = {
    **dict.fromkeys(CUTOFFS, ("map", "Tables 1 to 3")),
    "fit_seconds": ("fit_seconds", "Table 4"),
    "query_seconds": ("query_seconds", "Table 5"),
}

_RANKING_NOTE = "Bold: best of the column; underlined: second; controls count."
_PAPER_NOTE = "Second line: the paper's printed figure, and ours minus it."


@dataclass(frozen=True)
class Comparison:
    """Tables of the same runs, one per quantity."""

    name: str
    title: str
    description: str
    runs: tuple[Run, ...]
    tables: tuple[Table, ...]


def fair_comparisons(results: Results) -> list[Comparison]:
    """Return the tables at equal bytes per item: one comparison per data set and database.

    Each has mean average precision at three cut-offs, training time and query time.
    """
    found = group(results.of("fair"), _fair_group, unique=False)
    return [_fair(results, runs, *name) for name, runs in found.items()]


def _fair_group(run: Run) -> tuple[str, str, str | None]:
    protocol = run.setting["protocol"]
    # A labelled database is coded in each method's own way; an unlabelled one in one way a table.
    own_way = PROTOCOLS[protocol].database_is_train
    return run.setting["dataset"], protocol, None if own_way else run.setting["database"]


def _fair(
    results: Results, runs: Sequence[Run], dataset: str, protocol: str, database: str | None
) -> Comparison:
    name = "-".join(filter(None, ("fair", slug(dataset), protocol, database)))
    coded = "" if database is None else f", coded from {CODED_FROM[database]}"
    title = f"{dataset}: {PROTOCOLS[protocol].title}{coded}"
    description = f"{PROTOCOLS[protocol].description.capitalize()}{coded}."
    n_seeds = len({run.seed for run in runs})
    tables = []
    for quantity in QUANTITIES.values():
        if quantity.column == "map_5000" and protocol != "field":
            continue
        grid = arrange(
            runs, lambda run: run.n_bytes, _byte_name, has_directions=quantity.has_directions
        )
        is_tested = quantity.column == "map_all"
        table = make_table(
            f"{name}-{quantity.column.replace('_', '-')}",
            f"{title}, {quantity.title}",
            quantity,
            grid,
            order=_by_quality(grid),
            remarks=lambda cell: _fair_remarks(cell, n_seeds),
            verdicts=verdicts(grid, results) if is_tested else {},
            notes=(_RANKING_NOTE, *([NOTE] if is_tested else [])),
        )
        tables.append(table)
    return Comparison(name, title, description, tuple(runs), tuple(tables))


def slug(name: str) -> str:
    """Return a name for files and addresses; different names give different ones.

    Examples
    --------
    >>> slug("wiki")
    'wiki'
    >>> slug("../My data")
    'my-data-da73c4e5'
    """
    plain = re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")
    return plain if plain == name else f"{plain}-{sha256(name.encode()).hexdigest()[:8]}"


def _byte_name(n_bytes: int) -> str:
    return f"{n_bytes} byte{'s' * (n_bytes != 1)}"


def _fair_remarks(runs: Sequence[Run], n_seeds: int) -> Iterable[str]:
    run = runs[0]
    stored = run.row["bytes_per_item"]
    if run.n_bytes is None:
        yield f"No choice of size: {_byte_name(stored)} per item in every column."
    elif stored != run.n_bytes:
        yield f"Stores {_byte_name(stored)} per item: the data carry no more, or fewer do not do."
    yield from _fewer_seeds(runs, n_seeds)


def _fewer_seeds(runs: Sequence[Run], n_seeds: int) -> Iterable[str]:
    if len(runs) < n_seeds:
        yield f"Mean of {len(runs)} of {n_seeds} splits: others failed or have not been run."


def _by_quality(grid: RunTable) -> Callable[[RowId], tuple[int, float, RowId]]:
    """Sort rows by mean average precision over all columns, best first, controls last."""

    def order(row: RowId) -> tuple[int, float, RowId]:
        cells = [grid.cell(row, number) for number in range(len(grid.columns))]
        found = [run.row["map_all"] for runs in cells for run in runs]
        return int(grid.kinds[row] == "control"), -float(np.mean(found)), row

    return order


def paper_comparisons(results: Results) -> list[Comparison]:
    """Return the paper's Tables 1 to 5 for every data set that was run, beside its figures.

    Each has mean average precision at three cut-offs, training time and query time.
    """
    found = group(results.of("paper-map"), lambda run: run.setting["dataset"], unique=False)
    return [_paper(dataset, runs) for dataset, runs in found.items()]


def _paper(dataset: str, runs: Sequence[Run]) -> Comparison:
    n_seeds = len({run.seed for run in runs})
    name, title = f"paper-{slug(dataset)}", f"{dataset}: the paper's tables"
    machine = f"Times were measured here; the paper's on a {load_paper()['machine']}."
    tables = []
    for column, (printed, where) in _IN_PAPER.items():
        quantity = QUANTITIES[column]
        grid = arrange(
            runs,
            lambda run: run.n_components,
            lambda size: f"K = {size}",
            has_directions=quantity.has_directions,
        )
        table = make_table(
            f"{name}-{column.replace('_', '-')}",
            f"{dataset}, {quantity.title}, as in the paper's {where}",
            quantity,
            grid,
            order=_as_in_paper(grid),
            remarks=lambda cell: [*differences(cell[0], n_seeds), *_fewer_seeds(cell, n_seeds)],
            paper=partial(_printed, quantity=printed),
            notes=(_RANKING_NOTE, _PAPER_NOTE, *([] if column in CUTOFFS else [machine])),
        )
        tables.append(table)
    description = (
        "The paper's setting: equal length K of query vectors or codes, the database is the "
        "training set. Storage is not equal: ACQH takes four bytes per item at any K, a binary "
        "method K bits."
    )
    return Comparison(name, title, description, tuple(runs), tuple(tables))


def _as_in_paper(grid: RunTable) -> Callable[[RowId], tuple[int, int, RowId]]:
    """Sort rows as the paper does: its baselines, other methods, ACQH; then controls."""
    names = [method for ours in load_paper()["methods"].values() for method in ours]
    kinds = ("baseline", "ours", "control")

    def order(row: RowId) -> tuple[int, int, RowId]:
        place = names.index(row[0]) if row[0] in names else len(names)
        return kinds.index(grid.kinds[row]), place, row

    return order


def _printed(run: Run, quantity: PaperQuantity = "map") -> float | None:
    """Return what the paper prints for a run, None if nothing."""
    dataset = run.setting["dataset"]
    return paper_figure(quantity, dataset, run.method, run.n_components, run.direction)


@dataclass(frozen=True)
class CutoffDistance:
    """How far the figures at one cut-off are from the paper's."""

    dataset: str
    rows: str  # ``"acqh-paper"``, or ``"all methods"``
    cutoff: str
    mean_difference: float  # mean absolute difference over sizes, directions and methods
    n_figures: int
    is_closest: bool  # whether it is the smallest of the three cut-offs


def cutoff_distances(results: Results) -> list[CutoffDistance]:
    """Return how close each cut-off comes to the paper's figures: it does not state its own.

    One for every data set of the paper that was run, of the method itself and of all methods.
    """
    # Of two methods that may be a row of the paper's, the likelier one counts.
    first = {ours[0] for ours in load_paper()["methods"].values()}
    runs = [
        run
        for run in results.of("paper-map")
        if run.method in first and run.label == run.method and _printed(run) is not None
    ]
    found = []
    for dataset, chosen in group(runs, lambda run: run.setting["dataset"], unique=False).items():
        for title, rows in (
            ("acqh-paper", [run for run in chosen if run.method == "acqh-paper"]),
            ("all methods", chosen),
        ):
            if rows:
                found += _distances(dataset, title, rows)
    return found


def _distances(dataset: str, title: str, runs: Sequence[Run]) -> list[CutoffDistance]:
    cells = group(runs, lambda run: (run.method, run.n_components, run.direction))
    printed = np.array([_printed(cell[0]) for cell in cells.values()], dtype=np.float64)
    distance = {}
    for column in CUTOFFS:
        ours = [np.mean([run.row[column] for run in cell]) for cell in cells.values()]
        distance[column] = float(np.abs(ours - printed).mean())
    closest = min(distance, key=lambda column: distance[column])
    return [
        CutoffDistance(dataset, title, CUTOFFS[column], value, len(cells), column == closest)
        for column, value in distance.items()
    ]

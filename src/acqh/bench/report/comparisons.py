"""The tables of a report: methods at equal bytes per item."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from acqh.bench.protocol import PROTOCOLS
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

_RANKING_NOTE = "Bold: best of the column; underlined: second; controls count."


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
    found = group(results.runs, _fair_group, unique=False)
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

"""What the figures of a report show, as plain numbers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Array
from acqh.bench.report.comparisons import Comparison
from acqh.bench.report.results import Kind, Results, Run, group, summarise
from acqh.bench.report.tables import RowId, arrow, row_id

# The size at which curves are drawn.
_MIDDLE_BYTES = 4
# Points of a drawn curve; more cannot be told apart.
_MAX_POINTS = 40


@dataclass(frozen=True)
class Series:
    """A line or, with a single point, a dot; without a size, a level across the panel."""

    label: str
    kind: Kind
    # Without x, y is one level.
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Plot:
    """A figure."""

    name: str  # for file names
    title: str
    caption: str
    x_label: str
    y_label: str
    panels: tuple[Panel, ...]
    x_log: bool = False


def fair_plots(results: Results, comparison: Comparison) -> list[Plot]:
    """Return quality against bytes and against time, and the curves at the middle size.

    The comparison is a fair one.
    """
    runs = comparison.runs
    sizes = sorted({run.n_bytes for run in runs if run.n_bytes is not None})
    has_middle = _MIDDLE_BYTES in sizes or not sizes
    middle = _MIDDLE_BYTES if has_middle else sizes[len(sizes) // 2]
    at_middle = [run for run in runs if run.n_bytes in (None, middle)]
    size = f"{middle} byte{'s' * (middle != 1)} per item" if sizes else "any size"
    of = f"{comparison.title}; mean over seeds"
    return [
        Plot(
            f"{comparison.name}-bytes", "Quality against bytes",
            f"{of}. Levels: methods with no choice of size.", "bytes per item", "MAP@all",
            _panels(runs, lambda rows: _by_size(rows, lambda run: run.n_bytes)), x_log=True,
        ),
        Plot(
            f"{comparison.name}-time", "Quality against training time",
            f"{of}, {size}.", "seconds to fit", "MAP@all",
            _panels(at_middle, _time_and_quality), x_log=True,
        ),
        *_curve_plots(results, comparison, at_middle, size),
    ]  # fmt: skip


def _curve_plots(
    results: Results, comparison: Comparison, runs: Sequence[Run], size: str
) -> list[Plot]:
    caption = f"{comparison.title}; mean over seeds, {size}."

    def top_n(rows: Sequence[Run]) -> tuple[Sequence[float], Sequence[float]]:
        return _thin(
            np.mean([results.curve(run, "top_n") for run in rows], axis=0),
            np.mean([results.curve(run, "precision_top_n") for run in rows], axis=0),
        )

    def precision_recall(rows: Sequence[Run]) -> tuple[Sequence[float], Sequence[float]]:
        pairs = [(results.curve(run, "recall"), results.curve(run, "precision")) for run in rows]
        levels = np.linspace(
            max(recall[0] for recall, _ in pairs), min(recall[-1] for recall, _ in pairs), 200
        )
        means = np.mean([np.interp(levels, *pair) for pair in pairs], axis=0)
        return _thin(levels, means)

    return [
        Plot(
            f"{comparison.name}-topn", "topN-precision", f"{caption} Ties in expectation.",
            "N", "precision of the first N", _panels(runs, top_n), x_log=True,
        ),
        Plot(
            f"{comparison.name}-pr", "Precision and recall", f"{caption} By rank.",
            "recall", "precision", _panels(runs, precision_recall),
        ),
    ]  # fmt: skip


def _panels(
    runs: Sequence[Run], points: Callable[[Sequence[Run]], tuple[Sequence[float], Sequence[float]]]
) -> tuple[Panel, ...]:
    """Return a panel per direction, with a series per row; the best stand first."""
    panels = []
    for direction in dict.fromkeys(run.direction for run in runs):
        rows = group((run for run in runs if run.direction == direction), row_id, unique=False)
        ranked = sorted(rows, key=lambda row: -summarise(r.row["map_all"] for r in rows[row]).mean)
        series = []
        for row in ranked:
            x, y = points(rows[row])
            series.append(Series(_name(row, rows), rows[row][0].kind, tuple(x), tuple(y)))
        panels.append(Panel(arrow(direction), tuple(series)))
    return tuple(panels)


def _name(row: RowId, rows: Iterable[RowId]) -> str:
    is_alone = sum(label == row[0] for label, _ in rows) == 1
    return row[0] if is_alone else f"{row[0]} ({row[1]})"


def _by_size(
    runs: Sequence[Run], size_of: Callable[[Run], float | None]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return sizes and mean figures; no sizes but a single figure where there is no choice."""
    by_size = group(runs, size_of)
    means = {
        size: summarise(run.row["map_all"] for run in rows).mean for size, rows in by_size.items()
    }
    if set(means) == {None}:
        return (), (means[None],)
    sizes = sorted(means)
    return tuple(map(float, sizes)), tuple(means[size] for size in sizes)


def _time_and_quality(runs: Sequence[Run]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    seconds = summarise(run.row["fit_seconds"] for run in runs).mean
    return (seconds,), (summarise(run.row["map_all"] for run in runs).mean,)


def _thin(x: Array, y: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    kept = np.unique(np.linspace(0, len(x) - 1, _MAX_POINTS).round().astype(int))
    return _floats(x[kept]), _floats(y[kept])


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)

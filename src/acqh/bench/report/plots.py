"""Plots of a report, as plain numbers."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Array
from acqh.bench.report.results import Kind, Result, Results, group, summarise
from acqh.bench.report.tables import Comparison, arrow, byte_name

# The size at which curves are drawn.
_MIDDLE_BYTES = 4
# Points of a drawn curve; more are indistinguishable.
_MAX_POINTS = 40

_Points = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Series:
    """A line, a dot (a single point), or a horizontal line (no x)."""

    label: str
    kind: Kind

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


def plots_of(results: Results, comparison: Comparison) -> list[Plot]:
    """Return quality against bytes and against time, and the curves at the middle size."""
    chosen = comparison.results
    sizes = sorted({result.n_bytes for result in chosen if result.n_bytes is not None})
    has_middle = _MIDDLE_BYTES in sizes or not sizes
    middle = _MIDDLE_BYTES if has_middle else sizes[len(sizes) // 2]
    at_middle = [
        result for result in chosen if result.n_bytes in (None, middle) and result.has_curves
    ]
    of = f"{comparison.title}; mean over seeds"
    at_size = f"{of}, {f'{byte_name(middle)} per item' if sizes else 'any size'}."

    def top_n(rows: Sequence[Result]) -> _Points:
        names = ("top_n", "precision_top_n")
        return _thin(*(np.mean([results.curve(r, name) for r in rows], axis=0) for name in names))

    def precision_recall(rows: Sequence[Result]) -> _Points:
        pairs = [(results.curve(r, "recall"), results.curve(r, "precision")) for r in rows]
        levels = np.linspace(
            max(recall[0] for recall, _ in pairs), min(recall[-1] for recall, _ in pairs), 200
        )
        return _thin(levels, np.mean([np.interp(levels, *pair) for pair in pairs], axis=0))

    return [
        Plot(
            f"{comparison.name}-bytes", "Quality against bytes",
            f"{of}. Levels: methods with no choice of size.", "bytes per item", "MAP@all",
            _panels(chosen, _by_size), x_log=True,
        ),
        Plot(
            f"{comparison.name}-time", "Quality against training time", at_size,
            "seconds to fit", "MAP@all", _panels(at_middle, _time_and_quality), x_log=True,
        ),
        Plot(
            f"{comparison.name}-topn", "topN-precision", f"{at_size} Ties in expectation.",
            "N", "precision of the first N", _panels(at_middle, top_n), x_log=True,
        ),
        Plot(
            f"{comparison.name}-pr", "Precision and recall", f"{at_size} By rank.",
            "recall", "precision", _panels(at_middle, precision_recall),
        ),
    ]  # fmt: skip


def _panels(
    results: Sequence[Result], points: Callable[[Sequence[Result]], _Points]
) -> tuple[Panel, ...]:
    """Return a panel per direction, with a series per row; the best stand first."""
    panels = []
    for direction in dict.fromkeys(result.direction for result in results):
        of_way = (result for result in results if result.direction == direction)
        rows = group(of_way, lambda result: result.row_id, unique=False)
        labels = Counter(label for label, _ in rows)
        series = []
        for row in sorted(rows, key=lambda row: -_mean(rows[row], "map_all")):
            name = row[0] if labels[row[0]] == 1 else f"{row[0]} ({row[1]})"
            series.append(Series(name, rows[row][0].kind, *points(rows[row])))
        panels.append(Panel(arrow(direction), tuple(series)))
    return tuple(panels)


def _mean(results: Iterable[Result], column: str) -> float:
    return summarise(result.row[column] for result in results).mean


def _by_size(results: Sequence[Result]) -> _Points:
    """Return sizes and mean quality; no sizes but a single value if there is no choice."""
    by_size = group(results, lambda result: result.n_bytes)
    if set(by_size) == {None}:
        return (), (_mean(by_size[None], "map_all"),)
    sizes = sorted(by_size)
    return tuple(map(float, sizes)), tuple(_mean(by_size[size], "map_all") for size in sizes)


def _time_and_quality(results: Sequence[Result]) -> _Points:
    return (_mean(results, "fit_seconds"),), (_mean(results, "map_all"),)


def _thin(x: Array, y: Array) -> _Points:
    points = np.unique(np.linspace(0, len(x) - 1, _MAX_POINTS).round().astype(int))
    return tuple(map(float, x[points])), tuple(map(float, y[points]))

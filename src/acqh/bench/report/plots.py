"""Plots of a report: their numbers, and drawing as SVG, PNG and PDF files."""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.imports import require
from acqh.bench.report.results import Kind, Result, Results, group, summarise
from acqh.bench.report.tables import Comparison, arrow, byte_name
from acqh.methods.registry import list as list_methods

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
    at_middle = [result for result in chosen if result.n_bytes in (None, middle)]
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


FORMATS = ("svg", "png", "pdf")

_OURS = ("#e03131", "#f76707", "#be4bdb", "#e64980")
_BASELINES = (
    "#1c7ed6", "#2b8a3e", "#7048e8", "#0c8599", "#a0703c",
    "#5f7a8a", "#4263eb", "#66a80f", "#94a518", "#12a37f",
)  # fmt: skip
_TRIVIAL_COLOR = "#868e96"
_DASHES: tuple[Any, ...] = (
    (0, (5, 2)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1.5)), (0, (2, 3))
)  # fmt: skip
# These have the same look in all figures of all reports.
_KNOWN_OURS = ("acqh", "acqh rbf", "acqh-paper", "acqh-paper rbf", "acqh kernel")
_KNOWN_TRIVIAL = ("label-ridge", "label-ridge rbf", "random", "cca")
_MARKERS = "osD^vP<X>h"
_PANEL_INCHES = (3.7, 2.9)
_LEGEND_COLUMNS = 6
# Lines of more points are drawn without markers.
_MAX_MARKERS = 12
_MAX_TICKS = 8
_SMALL = 1e-3

_Style = dict[str, Any]


def draw(plot: Plot, kind: str = "svg") -> bytes:
    """Draw a figure: the same bytes for the same plot.

    `kind`: one of FORMATS. Raises MissingExtraError: Matplotlib is not installed.
    """
    matplotlib = require("matplotlib")
    buffer, style = io.BytesIO(), files(__package__) / "page_files" / "plots.mplstyle"
    with as_file(style) as path, matplotlib.rc_context({"svg.hashsalt": plot.name}, path):
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        _figure(plot).savefig(buffer, format=kind, metadata=metadata, transparent=kind == "svg")
    return buffer.getvalue()


def _figure(plot: Plot) -> Any:
    styles = _styles(plot)
    width, height = _PANEL_INCHES
    legend_height = 0.2 * -(-len(styles) // _LEGEND_COLUMNS)
    # Not through pyplot, which keeps every figure and may open windows.
    figure = require("matplotlib.figure").Figure(
        figsize=(width * max(len(plot.panels), 2), height + legend_height), layout="constrained"
    )
    axes = figure.subplots(1, len(plot.panels), squeeze=False)[0]
    for ax, panel in zip(axes, plot.panels, strict=True):
        _draw_panel(ax, panel, plot, styles)
    axes[0].set_ylabel(plot.y_label)
    _draw_legend(figure, styles)
    return figure


def _styles(plot: Plot) -> dict[str, _Style]:
    """Return the style of each line: constant over panels, and over figures for known methods."""
    kinds = {series.label: series.kind for panel in plot.panels for series in panel.series}
    known_others = {*_KNOWN_OURS, *_KNOWN_TRIVIAL}
    baselines = tuple(name for name in list_methods() if name not in known_others)
    names_by_kind = {"ours": _KNOWN_OURS, "baseline": baselines, "trivial": _KNOWN_TRIVIAL}
    styles: dict[str, _Style] = {}
    for kind, names in names_by_kind.items():
        labels = [label for label in kinds if kinds[label] == kind]
        order = [*names, *(label for label in labels if label not in names)]
        styles |= {label: _style(kind, order.index(label)) for label in labels}
    return styles


def _style(kind: str, number: int) -> _Style:
    # When colours repeat, shift the markers too, so that points stay distinguishable.
    marker = _MARKERS[(number + number // len(_BASELINES)) % len(_MARKERS)]
    if kind == "ours":
        color = _OURS[number % len(_OURS)]
        return {"color": color, "linewidth": 2.0, "marker": marker, "markersize": 4.5, "zorder": 4}
    if kind == "trivial":
        line = {"linestyle": _DASHES[number % len(_DASHES)], "marker": "_|x+"[number % 4]}
        return {"color": _TRIVIAL_COLOR, "linewidth": 1.4, "markersize": 7, "zorder": 3, **line}
    # The palette repeats with dashes, to distinguish twice as many lines.
    is_dashed = number // len(_BASELINES) % 2
    return {
        "color": _BASELINES[number % len(_BASELINES)], "linewidth": 1.0,
        "linestyle": (0, (3, 1.2)) if is_dashed else "-", "marker": marker, "markersize": 3,
        "zorder": 2,
    }  # fmt: skip


def _draw_panel(ax: Any, panel: Panel, plot: Plot, styles: dict[str, _Style]) -> None:
    ax.set_title(panel.title)
    ax.set_xlabel(plot.x_label)
    if plot.x_log:
        ax.set_xscale("log")
    for series in panel.series:
        style = dict(styles[series.label])
        if not series.x:
            style.pop("marker")
            style.pop("markersize", None)
            ax.axhline(series.y[0], **style)
            continue
        if len(series.x) > (1 if series.kind == "trivial" else _MAX_MARKERS):
            style["marker"] = ""
        ax.plot(series.x, series.y, **style)
    _plain_ticks(ax, plot, panel.series)


def _plain_ticks(ax: Any, plot: Plot, series: Sequence[Series]) -> None:
    """Format ticks as plain numbers; set them at the sizes if there are few, such as 1, 2, 4."""
    ticker = require("matplotlib.ticker")
    if plot.x_log:
        ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _short(value)))
        ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    sizes = sorted({x for line in series for x in line.x})
    if plot.x_log and 1 < len(sizes) <= _MAX_TICKS and any(len(line.x) > 1 for line in series):
        ax.set_xticks(sizes)
        ax.minorticks_off()


def _short(value: float) -> str:
    """Return a number as it is, or a very small one as a power of ten."""
    return f"{value:g}" if value >= _SMALL else f"{value:.0e}".replace("e-0", "e-")


def _draw_legend(figure: Any, styles: dict[str, _Style]) -> None:
    lines = require("matplotlib.lines")
    handles = [lines.Line2D([], [], **style) for style in styles.values()]
    # Matplotlib omits names that start with an underscore.
    names = [f" {name}" if name.startswith("_") else name for name in styles]
    figure.legend(
        handles, names, loc="outside lower center", ncols=min(len(names), _LEGEND_COLUMNS),
        fontsize=7, handlelength=2.4, columnspacing=1.2,
    )  # fmt: skip

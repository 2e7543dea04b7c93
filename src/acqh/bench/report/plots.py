"""What the figures of a report show, as plain numbers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from acqh._core.arrays import Array
from acqh.bench.report.comparisons import Comparison
from acqh.bench.report.results import Kind, Results, Run, group, summarise
from acqh.bench.report.tables import RowId, arrow, row_id

# The size at which curves are drawn, as in the paper; as storage, four bytes.
_MIDDLE_COMPONENTS = 32
_MIDDLE_BYTES = 4
# Points of a drawn curve; more cannot be told apart.
_MAX_POINTS = 40
_SENSITIVITY = {
    "sensitivity-mu": ("label_ridge", "μ (label_ridge)", True),
    "sensitivity-lambda": ("label_weight", "λ (label_weight)", True),
    "sensitivity-codebooks": ("n_codebooks", "number of codebooks", False),
}


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
    y_log: bool = False
    y_from_zero: bool = False  # whether the axis starts at 0, so that small differences look small


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


def paper_plots(results: Results, comparison: Comparison) -> list[Plot]:
    """Return the curves that the paper draws at its middle code length.

    The comparison is one in the paper's setting. None where that length was not run.
    """
    chosen = [run for run in comparison.runs if run.n_components in (None, _MIDDLE_COMPONENTS)]
    if all(run.n_components is None for run in chosen):
        return []
    return _curve_plots(results, comparison, chosen, f"K = {_MIDDLE_COMPONENTS}")


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


def study_plots(results: Results) -> list[Plot]:
    """Return training time by size, convergence and sensitivities, as far as they were run."""
    return [*_training_size(results), *_convergence(results), *_sensitivities(results)]


def _training_size(results: Results) -> Iterable[Plot]:
    found = group(results.of("training-size"), lambda run: run.setting["dataset"], unique=False)
    panels = []
    for dataset, runs in found.items():
        one_way = [run for run in runs if run.direction == runs[0].direction]
        size, name = (lambda run: run.row["n_train"]), (lambda run: run.label)
        panels.append(Panel(dataset, _lines(one_way, name, size, "fit_seconds")))
    if panels:
        yield Plot(
            "training-size", "Training time against training set size",
            f"K = {_MIDDLE_COMPONENTS}; mean over seeds.", "training items", "seconds to fit",
            tuple(panels), y_log=True,
        )  # fmt: skip


def _convergence(results: Results) -> Iterable[Plot]:
    chosen = [run for run in results.of("convergence") if run.record.get("objective")]
    series = []
    for name, runs in group(chosen, _label_and_data).items():
        traces = [np.asarray(run.record["objective"], dtype=np.float64) for run in runs]
        # A run that has converged earlier stays where it is.
        length = max(map(len, traces))
        padded = [np.pad(trace, (0, length - len(trace)), mode="edge") for trace in traces]
        mean = np.mean([trace / np.abs(trace).max() for trace in padded], axis=0)
        series.append(Series(name, runs[0].kind, tuple(range(1, length + 1)), _floats(mean)))
    if series:
        yield Plot(
            "convergence", "Convergence",
            f"Objective over its largest value; K = {_MIDDLE_COMPONENTS}; mean over seeds.",
            "sweep", "objective", (Panel("", tuple(series)),), y_from_zero=True,
        )  # fmt: skip


def _sensitivities(results: Results) -> Iterable[Plot]:
    for experiment, (parameter, title, is_log) in _SENSITIVITY.items():
        runs = results.of(experiment)
        panels = []
        for direction in dict.fromkeys(run.direction for run in runs):
            one_way = [run for run in runs if run.direction == direction]
            lines = _lines(one_way, _label_and_data, partial(_parameter, parameter))
            panels.append(Panel(arrow(direction), lines))
        if panels:
            yield Plot(
                experiment, f"Sensitivity to {title}",
                f"K = {_MIDDLE_COMPONENTS}; mean over seeds.", title, "MAP@all",
                tuple(panels), x_log=is_log, y_from_zero=True,
            )  # fmt: skip


def _lines(
    runs: Sequence[Run],
    name: Callable[[Run], str],
    size_of: Callable[[Run], float],
    column: str = "map_all",
) -> tuple[Series, ...]:
    """Return a line per name: mean figures by size."""
    return tuple(
        Series(label, rows[0].kind, *_by_size(rows, size_of, column))
        for label, rows in group(runs, name, unique=False).items()
    )


def _label_and_data(run: Run) -> str:
    return f"{run.label}, {run.setting['dataset']}"


def _parameter(name: str, run: Run) -> float:
    return float(run.setting["params"][name])


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
    runs: Sequence[Run], size_of: Callable[[Run], float | None], column: str = "map_all"
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return sizes and mean figures; no sizes but a single figure where there is no choice."""
    by_size = group(runs, size_of)
    means = {
        size: summarise(run.row[column] for run in rows).mean for size, rows in by_size.items()
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

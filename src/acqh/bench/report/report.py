"""From what a bench stored to a page, tables and figures."""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from acqh.bench.report.comparisons import (
    CutoffDistance,
    cutoff_distances,
    fair_comparisons,
    paper_comparisons,
)
from acqh.bench.report.drawing import draw
from acqh.bench.report.formats import to_csv, to_latex
from acqh.bench.report.page import Report, render_page
from acqh.bench.report.plots import fair_plots, paper_plots, study_plots
from acqh.bench.report.results import Results, load_results
from acqh.io.write import replace_file


@dataclass(frozen=True)
class ReportFiles:
    """What was written.

    Attributes
    ----------
    page : Path
        One HTML file that needs no other.
    tables, figures : tuple of Path
        CSV and LaTeX; SVG, PNG and PDF.
    n_cells, n_failed : int
    distances : tuple of CutoffDistance
        How close each cut-off comes to the paper's figures.

    Examples
    --------
    >>> import acqh
    >>> made = acqh.bench.write_report("results")  # doctest: +SKIP
    >>> made.page  # doctest: +SKIP
    PosixPath('results/report/index.html')
    """

    page: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    n_cells: int
    n_failed: int
    distances: tuple[CutoffDistance, ...]


def write_report(
    path: str | PathLike[str],
    out: str | PathLike[str] | None = None,
    *,
    title: str = "Cross-modal retrieval: bench report",
    on_step: Callable[[str], None] = lambda _: None,
) -> ReportFiles:
    """Write the page, tables and figures of what ``acqh bench`` stored.

    Parameters
    ----------
    path : path-like
        Folder that bench wrote to; it may hold only some experiments, or be still written to.
    out : path-like, optional
        Folder for the report; ``report`` in the other one by default.
    title : str
    on_step : callable
        Told what is being done.

    Returns
    -------
    ReportFiles

    Raises
    ------
    InvalidInputError
        There is no such folder, or it holds no results.
    CorruptBundleError
        What it holds is damaged.
    MissingExtraError
        Matplotlib is not installed.

    Examples
    --------
    >>> import acqh
    >>> acqh.bench.run("wiki", methods=["acqh", "dch"], out="results")  # doctest: +SKIP
    >>> acqh.bench.write_report("results").page  # doctest: +SKIP
    PosixPath('results/report/index.html')
    """
    on_step("reading results")
    report = make_report(load_results(path), on_step)
    folder = Path(path) / "report" if out is None else Path(out)
    for part in ("tables", "figures"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    tables, figures, drawn = [], [], {}
    for table in report.tables:
        for kind, text in (("csv", to_csv(table)), ("tex", to_latex(table))):
            tables.append(folder / "tables" / f"{table.name}.{kind}")
            replace_file(tables[-1], text.encode())
    for plot in report.figures:
        on_step(f"drawing {plot.name}")
        for kind, content in draw(plot).items():
            figures.append(folder / "figures" / f"{plot.name}.{kind}")
            replace_file(figures[-1], content)
            if kind == "svg":
                drawn[plot.name] = content
    page = folder / "index.html"
    replace_file(page, render_page(report, drawn, title).encode())
    results = report.results
    return ReportFiles(
        page=page,
        tables=tuple(tables),
        figures=tuple(figures),
        n_cells=len({run.record["key"] for run in results.runs}),
        n_failed=len(results.failures),
        distances=tuple(report.distances),
    )


def make_report(results: Results, on_step: Callable[[str], None] = lambda _: None) -> Report:
    """Return the tables and figures of some results, not yet written anywhere."""
    on_step("comparing methods")
    fair, paper = fair_comparisons(results), paper_comparisons(results)
    plots = {
        **{made.name: fair_plots(results, made) for made in fair},
        **{made.name: paper_plots(results, made) for made in paper},
        "": study_plots(results),
    }
    return Report(results, fair, paper, cutoff_distances(results), plots)

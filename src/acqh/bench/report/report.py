"""Write the report of a bench: one HTML document, and tables as CSV, LaTeX and Markdown."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from acqh.bench.report.drawing import draw
from acqh.bench.report.formats import to_csv, to_latex, to_markdown
from acqh.bench.report.page import render_page
from acqh.bench.report.plots import plots_of
from acqh.bench.report.results import load_results
from acqh.bench.report.tables import compare
from acqh.io.write import replace_file

# By the ending of their files.
_FORMATS = {"csv": to_csv, "tex": to_latex, "md": to_markdown}


@dataclass(frozen=True)
class ReportFiles:
    """Files and counts of a report.

    Attributes
    ----------
    page : Path
        The self-contained HTML file.
    tables : tuple of Path
        CSV, LaTeX and Markdown.
    n_runs, n_failed : int

    Examples
    --------
    >>> import acqh
    >>> report = acqh.bench.write_report("results")  # doctest: +SKIP
    >>> report.page  # doctest: +SKIP
    PosixPath('results/report/index.html')
    """

    page: Path
    tables: tuple[Path, ...]
    n_runs: int
    n_failed: int


def write_report(
    path: str | PathLike[str],
    out: str | PathLike[str] | None = None,
    *,
    merge: Iterable[str | PathLike[str]] = (),
    title: str = "Cross-modal retrieval: bench report",
    on_step: Callable[[str], None] = lambda _: None,
) -> ReportFiles:
    """Write an HTML report with tables and plots from the results of ``acqh bench``.

    Parameters
    ----------
    path : path-like
        Folder with results; a bench may be running in it.
    out : path-like, optional
        Folder for the report. Default: ``report`` in `path`.
    merge : iterable of path-like
        CSV files with the columns of ``results.csv``: results of others, shown in the same tables.
        Significance tests and curves leave them out.
    title : str
    on_step : callable
        Called with a message at each step.

    Returns
    -------
    ReportFiles

    Raises
    ------
    InvalidInputError
        The folder does not exist or has no results, or a CSV file has a wrong column or value.
    CorruptBundleError
        A stored result is damaged.
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
    results = load_results(path, merge)
    on_step("comparing methods")
    comparisons = compare(results)
    plots = {comparison.name: plots_of(results, comparison) for comparison in comparisons}
    folder = Path(path) / "report" if out is None else Path(out)
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    tables, drawn = [], {}
    for table in (table for comparison in comparisons for table in comparison.tables):
        for kind, write in _FORMATS.items():
            tables.append(folder / "tables" / f"{table.name}.{kind}")
            replace_file(tables[-1], write(table).encode())
    for plot in (plot for group in plots.values() for plot in group):
        on_step(f"drawing {plot.name}")
        drawn[plot.name] = draw(plot)
    page = folder / "index.html"
    replace_file(page, render_page(results, comparisons, plots, drawn, title).encode())
    return ReportFiles(
        page=page,
        tables=tuple(tables),
        n_runs=len({run.record["key"] for run in results.results}),
        n_failed=len(results.failures),
    )

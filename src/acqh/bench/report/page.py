"""The page of a report, put together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from string import Template

from acqh import __version__
from acqh.bench.report.comparisons import Comparison, CutoffDistance
from acqh.bench.report.field import render_field
from acqh.bench.report.page_facts import (
    CITATION,
    render_failures,
    render_methods,
    render_settings,
)
from acqh.bench.report.page_tables import (
    render_figure,
    render_plain_table,
    render_table,
    render_tabs,
)
from acqh.bench.report.paper import load_paper
from acqh.bench.report.plots import Plot
from acqh.bench.report.results import Results
from acqh.bench.report.tables import Table


@dataclass(frozen=True)
class Report:
    """All that a report shows."""

    results: Results
    fair: Sequence[Comparison]
    paper: Sequence[Comparison]
    distances: Sequence[CutoffDistance]
    # By the name of the comparison they belong to; the others under ``""``.
    plots: Mapping[str, Sequence[Plot]]

    @property
    def tables(self) -> list[Table]:
        """Every table of the report."""
        return [table for made in (*self.fair, *self.paper) for table in made.tables]

    @property
    def figures(self) -> list[Plot]:
        """Every figure of the report."""
        return [plot for plots in self.plots.values() for plot in plots]


@dataclass
class _Sections:
    """Sections of a page, and the list of them."""

    body: list[str] = field(default_factory=list)
    contents: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, name: str, title: str, content: str, level: int = 2) -> None:
        self.contents.append((level, name, title))
        heading = f'<h{level} id="{escape(name)}">{escape(title)}</h{level}>'
        self.body.append(f"{heading}\n{content}")

    def listed(self) -> str:
        lines: list[str] = []
        for level, name, title in self.contents:
            link = f'<a href="#{escape(name)}">{escape(title)}</a>'
            lines.append(f"<li>{link}</li>" if level == 2 else f"<li><ol><li>{link}</li></ol></li>")
        return "\n".join(lines)


def render_page(report: Report, drawn: Mapping[str, bytes], title: str) -> str:
    """Return the page as one HTML document that needs nothing from elsewhere.

    `drawn` has the SVG of every figure, by name.
    """
    sections = _Sections()
    _add_fair(sections, report, drawn)
    if any(run.setting["protocol"] == "field" for run in report.results.runs):
        lead = (
            "<p>What others have printed under the field's protocol, each cut-off for itself. "
            "None of it was measured here. Compare only with a table of the same cut-off, and mind "
            "features and how the epoch was chosen; a dash: not printed.</p>"
        )
        sections.add("published", "Published figures", lead + render_field())
    _add_paper(sections, report, drawn)
    if report.plots.get(""):
        figures = [(plot.title, render_figure(plot, drawn[plot.name])) for plot in report.plots[""]]
        sections.add("studies", "Studies of the method", render_tabs("studies", figures))
    if report.results.failures:
        lead = "<p>These cells were run and failed; nothing above includes them.</p>"
        sections.add("failures", "What failed", lead + render_failures(report.results))
    if report.results.runs:
        sections.add("methods", "Methods", render_methods(report.results))
        sections.add("settings", "Settings", render_settings(report.results))
    sections.add("cite", "How to cite", f"<pre><code>{escape(CITATION)}</code></pre>")
    return Template(_read("page.html")).substitute(
        title=escape(title),
        version=__version__,
        style=_read("page.css"),
        script=_read("page.js"),
        contents=sections.listed(),
        body="\n".join([_header(report, title), *sections.body]),
    )


def _read(name: str) -> str:
    return files("acqh.bench.report").joinpath("page_files", name).read_text(encoding="utf-8")


def _header(report: Report, title: str) -> str:
    runs, failures = report.results.runs, report.results.failures
    counts = {
        "data sets": len({run.setting["dataset"] for run in runs}),
        "methods": len({run.label for run in runs}),
        "splits": len({run.seed for run in runs}),
        "cells run": len({run.record["key"] for run in runs}),
    }
    tiles = "".join(f"<li><b>{count:,}</b> {name}</li>" for name, count in counts.items())
    if failures:
        tiles += f'<li class="alarm"><b>{len(failures):,}</b> <a href="#failures">failed</a></li>'
    left_out = report.results.n_left_out
    told = (
        f'<p class="soft">{left_out:,} older cells are left out: data or the code of methods have '
        "changed since, or the same setting was run with other threads.</p>"
        if left_out
        else ""
    )
    return (
        f'<header><h1>{escape(title)}</h1><button type="button" class="theme">Light / dark</button>'
        f'<p class="soft">Made by acqh {__version__}. Click a heading to sort; point at a line to '
        f'see its name.</p></header>\n<ul class="tiles">{tiles}</ul>{told}'
    )


def _add_fair(sections: _Sections, report: Report, drawn: Mapping[str, bytes]) -> None:
    if not report.fair:
        return
    lead = (
        "<p>Every method gets the same number of bytes per item. Controls say what is trivial: "
        "<i>label-ridge</i> is a ridge regression to the labels whose database is not compressed, "
        "<i>random</i> knows nothing.</p>"
    )
    sections.add("fair", "Fair comparison: equal bytes", lead + _winners(report.fair))
    for comparison in report.fair:
        _add_comparison(sections, report, comparison, drawn)


def _winners(comparisons: Sequence[Comparison]) -> str:
    """Return who is first in each column of each fair table."""
    sizes: dict[str, None] = {}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    ours = set()
    for comparison in comparisons:
        table = comparison.tables[0]
        for row in table.rows:
            if row.kind == "ours":
                ours.add(row.label)
            for column, entry in zip(table.columns, row.entries, strict=True):
                sizes[column.name] = None
                if entry is not None and entry.place == 1:
                    found = rows.setdefault((comparison.title, column.group), {})
                    figure = f" {entry.summary.mean:.{table.quantity.digits}f}"
                    equal = found.get(column.name, "").removesuffix(figure)
                    found[column.name] = f"{equal} and {row.label}{figure}".removeprefix(" and ")
    return render_plain_table(
        ("database", "direction", *sizes),
        [(*name, *(found.get(size, "–") for size in sizes)) for name, found in rows.items()],
        caption="First of each column by MAP@all, controls included",
        stands_out=lambda text: text.rpartition(" ")[0] in ours,
    )


def _add_paper(sections: _Sections, report: Report, drawn: Mapping[str, bytes]) -> None:
    if not report.paper:
        return
    lead = (
        f"<p>The settings of the paper, beside its printed figures ({escape(load_paper().source)})."
        " Letters at figures say where data or protocol are not the paper's.</p>"
    )
    sections.add("paper", "The paper's tables and figures", lead + _distances(report.distances))
    for comparison in report.paper:
        _add_comparison(sections, report, comparison, drawn)


def _distances(distances: Sequence[CutoffDistance]) -> str:
    if not distances:
        return ""
    rows: dict[tuple[str, str, int], dict[str, str]] = {}
    for entry in distances:
        row = rows.setdefault((entry.dataset, entry.rows, entry.n_figures), {})
        row[f"@{entry.cutoff}"] = f"{entry.mean_difference:.3f}"
        if entry.is_closest:
            row["closest"] = f"@{entry.cutoff}"
    lead = (
        "<p>The paper does not state the cut-off of its average precision. Mean absolute "
        "difference of our figures, at three cut-offs, from its printed ones:</p>"
    )
    names = [*dict.fromkeys(f"@{entry.cutoff}" for entry in distances), "closest"]
    columns = ("data", "rows compared", "figures", *names)
    return lead + render_plain_table(
        columns, [(*name, *(row[key] for key in names)) for name, row in rows.items()]
    )


def _add_comparison(
    sections: _Sections, report: Report, comparison: Comparison, drawn: Mapping[str, bytes]
) -> None:
    tables = [(table.quantity.title, render_table(table)) for table in comparison.tables]
    plots = report.plots.get(comparison.name, ())
    figures = [(plot.title, render_figure(plot, drawn[plot.name])) for plot in plots]
    content = f"<p>{escape(comparison.description)}</p>" + render_tabs(comparison.name, tables)
    if figures:
        content += render_tabs(f"{comparison.name}-figures", figures)
    sections.add(f"section-{comparison.name}", comparison.title, content, level=3)

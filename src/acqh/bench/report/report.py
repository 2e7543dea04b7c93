"""Write the report of a bench: one HTML document, and tables as CSV, LaTeX and Markdown."""

import json
import shlex
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

from acqh import __version__
from acqh.bench.protocol import PROTOCOLS
from acqh.bench.report.formats import plain_html, to_csv, to_html, to_latex, to_markdown
from acqh.bench.report.plots import Plot, draw, plots_of
from acqh.bench.report.results import Results, group, load_results
from acqh.bench.report.tables import Comparison, compare
from acqh.bench.running.store import Record
from acqh.bench.running.trivial import TRIVIAL
from acqh.bench.running.variants import find_method
from acqh.io.write import replace_file
from acqh.methods.registry import list as list_methods

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
    title : str
    on_step : callable
        Called with a message at each step.

    Returns
    -------
    ReportFiles

    Raises
    ------
    InvalidInputError
        The folder does not exist or has no results.
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
    results = load_results(path)
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
    for plot in (plot for drawings in plots.values() for plot in drawings):
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


# What to cite, as BibTeX.
CITATION = f"""\
@article{{wang2020acqh,
  author = {{Wang, Lu and Yang, Jie}},
  title  = {{Asymmetric Correlation Quantization Hashing for Cross-modal Retrieval}},
  year   = {{2020}}
}}
@software{{acqh,
  author  = {{{{the acqh authors}}}},
  title   = {{acqh: cross-modal retrieval from a few bytes per item}},
  version = {{{__version__}}}
}}"""


# Level of the heading, id, title, and content as HTML.
Section = tuple[int, str, str, str]


def render_page(
    results: Results,
    comparisons: Sequence[Comparison],
    plots: Mapping[str, Sequence[Plot]],
    drawn: Mapping[str, bytes],
    title: str,
) -> str:
    """Return one self-contained HTML document.

    `plots`: by the name of their comparison. `drawn`: the SVG of every plot, by name.
    """
    sections = [
        (
            3,
            f"section-{comparison.name}",
            comparison.title,
            _comparison(comparison, plots.get(comparison.name, ()), drawn),
        )
        for comparison in comparisons
    ]
    contents, body = [], [_header(results, title)]
    for level, name, heading, content in _sections(results, comparisons, sections):
        link = f'<li><a href="#{escape(name)}">{escape(heading)}</a></li>'
        contents.append(link if level == 2 else f"<li><ol>{link}</ol></li>")
        body.append(f'<h{level} id="{escape(name)}">{escape(heading)}</h{level}>\n{content}')
    return Template(_read("page.html")).substitute(
        title=escape(title),
        version=__version__,
        style=_read("page.css"),
        script=_read("page.js"),
        contents="\n".join(contents),
        body="\n".join(body),
    )


def _read(name: str) -> str:
    return files(__package__).joinpath("page_files", name).read_text(encoding="utf-8")


def _sections(
    results: Results, comparisons: Sequence[Comparison], sections: Sequence[Section]
) -> Iterator[Section]:
    if comparisons:
        lead = (
            "<p>Every method gets the same number of bytes per item. Trivial baselines: "
            "<i>label-ridge</i> is ridge regression to the labels, <i>cca</i> canonical "
            "correlation analysis, both with a database that is not compressed; <i>random</i> "
            "draws codes at random.</p>"
        )
        yield 2, "fair", "Fair comparison: equal bytes", lead + _winners(comparisons)
        yield from sections
    if results.failures:
        lead = "<p>These runs failed; nothing above includes them.</p>"
        yield 2, "failures", "Failed runs", lead + _failures(results)
    if results.results:
        yield 2, "methods", "Methods", _methods(results)
        yield 2, "settings", "Settings", _settings(results)
    yield 2, "cite", "How to cite", f"<pre><code>{escape(CITATION)}</code></pre>"


def _header(results: Results, title: str) -> str:
    runs, failures = results.results, results.failures
    counts = {
        "data sets": len({run.setting["dataset"] for run in runs}),
        "methods": len({run.label for run in runs}),
        "splits": len({run.seed for run in runs}),
        "runs": len({run.record["key"] for run in runs}),
    }
    tiles = "".join(
        f"<li><b>{count:,}</b> {name.removesuffix('s' * (count == 1))}</li>"
        for name, count in counts.items()
    )
    if failures:
        tiles += f'<li class="alarm"><b>{len(failures):,}</b> <a href="#failures">failed</a></li>'
    skipped = results.n_skipped
    skipped_note = (
        f'<p class="soft">{skipped:,} older runs are skipped: data or the code of methods have '
        "changed since, or the same setting was run with other threads.</p>"
        if skipped
        else ""
    )
    return (
        f'<header><h1>{escape(title)}</h1><button type="button" class="theme">Light / dark</button>'
        f'<p class="soft">Made by acqh {__version__}. Click a heading to sort.</p>'
        f'</header>\n<ul class="tiles">{tiles}</ul>{skipped_note}'
    )


def _winners(comparisons: Sequence[Comparison]) -> str:
    """Return a table of the best method of each column of each comparison."""
    sizes: dict[str, None] = {}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    ours = []
    for comparison in comparisons:
        table = comparison.tables[0]
        for row in table.rows:
            for column, entry in zip(table.columns, row.entries, strict=True):
                sizes[column.name] = None
                if entry is not None and entry.place == 1:
                    winners = rows.setdefault((comparison.title, column.group), {})
                    figure = f" {entry.summary.mean:.{table.quantity.digits}f}"
                    equal = winners.get(column.name, "").removesuffix(figure)
                    winners[column.name] = f"{equal} and {row.label}{figure}".removeprefix(" and ")
                    ours += [row.label + figure] if row.kind == "ours" else []
    return plain_html(
        ("database", "direction", *sizes),
        [(*name, *(winners.get(size, "–") for size in sizes)) for name, winners in rows.items()],
        caption="First of each column by MAP@all, trivial baselines included",
        highlighted=ours,
    )


def _comparison(comparison: Comparison, plots: Sequence[Plot], drawn: Mapping[str, bytes]) -> str:
    tables = [(table.quantity.title, to_html(table)) for table in comparison.tables]
    content = f"<p>{escape(comparison.description)}</p>" + _tabs(comparison.name, tables)
    return content + (_figures(f"{comparison.name}-figures", plots, drawn) if plots else "")


def _figures(name: str, plots: Sequence[Plot], drawn: Mapping[str, bytes]) -> str:
    """Return figures with their captions."""
    tabs = []
    for plot in plots:
        key, title, caption = map(escape, (plot.name, plot.title, plot.caption))
        image = b64encode(drawn[plot.name]).decode()
        figure = (
            f'<figure id="{key}"><div class="scroll"><img alt="{title}. {caption}" '
            f'src="data:image/svg+xml;base64,{image}"></div>\n'
            f"<figcaption><b>{title}.</b> {caption}</figcaption></figure>"
        )
        tabs.append((plot.title, figure))
    return _tabs(name, tabs)


def _tabs(name: str, tabs: Iterable[tuple[str, str]]) -> str:
    """Return panels with labels above them: the browser shows one, print shows all.

    `name` is unique in the document; a tab is a label, as text, and content, as HTML.
    """
    labels, panels = [], []
    for number, (label, content) in enumerate(tabs):
        checked = " checked" if number == 0 else ""
        key = f"{escape(name)}-tab-{number}"
        labels.append(
            f'<input type="radio" name="{escape(name)}-tabs" id="{key}"{checked}>'
            f'<label for="{key}">{escape(label)}</label>'
        )
        panels.append(f'<section aria-label="{escape(label)}">{content}</section>')
    return f'<div class="tabs">{"".join(labels)}\n{"".join(panels)}</div>'


def _failures(results: Results) -> str:
    """Return a table of failed runs, one row per reason."""
    by_reason: dict[tuple[str, ...], list[Record]] = {}
    for record in results.failures:
        setting = record["setting"]
        name = (record["label"], setting["dataset"], setting["protocol"], setting["database"])
        by_reason.setdefault((*name, str(record.get("reason") or "unknown")), []).append(record)
    return plain_html(
        ("method", "data", "protocol", "database", "reason", "sizes", "seeds"),
        [(*name, _sizes(records), _seeds(records)) for name, records in by_reason.items()],
    )


def _sizes(records: Sequence[Record]) -> str:
    sizes = {
        f"{record['bytes_requested']} bytes"
        if record.get("bytes_requested")
        else f"K = {record.get('n_components_requested')}"
        for record in records
    }
    return ", ".join(sorted(sizes))


def _seeds(records: Iterable[Record]) -> str:
    return ", ".join(map(str, sorted({record["setting"]["seed"] for record in records})))


def _settings(results: Results) -> str:
    """Return data, splits, parameters, versions and machine of all runs in the report."""
    records = [*{run.record["key"]: run.record for run in results.results}.values()]
    tabs = [
        ("Data", _data(records)),
        ("Splits", _splits(records)),
        ("Parameters", _parameters(records)),
        ("Machine and versions", _machines([*records, *results.failures])),
    ]
    command = (results.store.plan() or {}).get("command", [])
    last = f"<p>Last command: <code>{escape(shlex.join(map(str, command)))}</code></p>"
    return (last if command else "") + _tabs("settings", tabs)


def _data(records: Sequence[Record]) -> str:
    rows = {}
    for record in records:
        setting = record["setting"]
        row = record["rows"][0]
        counts = tuple(f"{row[name]:,}" for name in ("n_train", "n_query", "n_database"))
        prepared = "; ".join(
            f"{view}: {_map_name(feature_map)}"
            for view, feature_map in (setting.get("preparation") or {}).items()
        )
        name = (setting["dataset"], setting["protocol"], *counts)
        digest = str(setting.get("data_sha256", ""))[:16]
        rows[name] = (*name, prepared or "none", digest)
    columns = ("data", "protocol", "training", "queries", "database", "preparation", "sha256")
    definitions = " ".join(f"{p.name.capitalize()}: {p.description}." for p in PROTOCOLS.values())
    return f"<p>{definitions}</p>{plain_html(columns, sorted(rows.values()))}"


def _map_name(stored: Any) -> str:
    if not isinstance(stored, Mapping) or "class" not in stored:
        return str(stored)
    params = {key: value for key, value in stored.get("params", {}).items() if value is not None}
    return f"{stored['class']}({', '.join(f'{key}={value}' for key, value in params.items())})"


def _splits(records: Sequence[Record]) -> str:
    rows = set()
    for record in records:
        setting = record["setting"]
        kind = "official" if setting.get("official") else "drawn"
        name = (setting["dataset"], setting["protocol"], setting["seed"], kind)
        rows.add((*name, str(record["split_hash"])[:32]))
    columns = ("data", "protocol", "seed", "split", "sha256 (first half)")
    return plain_html(columns, sorted(rows))


def _parameters(records: Sequence[Record]) -> str:
    """Return one row per label: the constant parameters, and the values of the varied ones."""
    by_label: dict[str, dict[str, list[Any]]] = {}
    for record in records:
        values = by_label.setdefault(record["label"], {})
        for name, value in record["setting"]["params"].items():
            distinct = values.setdefault(name, [])
            if value not in distinct:
                distinct.append(value)
    rows = []
    for label, values in sorted(by_label.items()):
        fixed = [
            f"{name}={json.dumps(distinct[0])}"
            for name, distinct in values.items()
            if len(distinct) == 1
        ]
        varied = [
            f"{name}: {_listed(distinct)}" for name, distinct in values.items() if len(distinct) > 1
        ]
        rows.append((label, ", ".join(fixed), "; ".join(varied)))
    return plain_html(("method", "the same in all runs", "varied"), rows)


def _listed(values: Sequence[Any]) -> str:
    """Return values as JSON: sorted numbers first."""
    numbers = sorted(value for value in values if isinstance(value, int | float))
    others = [value for value in values if not isinstance(value, int | float)]
    return ", ".join(json.dumps(value) for value in (*numbers, *others))


def _machines(records: Sequence[Record]) -> str:
    rows: dict[tuple[str, ...], int] = {}
    for record in records:
        machine = ", ".join(f"{key}: {value}" for key, value in record["machine"].items())
        versions = ", ".join(f"{key} {value}" for key, value in record["versions"].items())
        name = (machine, versions, str(record["setting"].get("n_threads", "unknown")))
        rows[name] = rows.get(name, 0) + 1
    columns = ("machine", "versions", "threads", "runs")
    return plain_html(columns, [(*name, count) for name, count in rows.items()])


def _methods(results: Results) -> str:
    """Return the table of methods: reference, status, differences from the source."""
    registered = {*list_methods(), *TRIVIAL}
    rows = []
    columns = ("rows", "method", "reference", "code", "learns from", "status", "differences")
    for method, runs in sorted(
        group(results.results, lambda run: run.setting["method"], unique=False).items()
    ):
        labels = ", ".join(dict.fromkeys(run.label for run in runs))
        if method not in registered:
            rows.append((labels, *[""] * (len(columns) - 1)))
            continue
        info = find_method(method).info
        learns = " or ".join(["labels"] * info.supervised + ["pairs alone"] * bool(info.label_free))
        facts = (info.title, info.reference, info.code, learns, runs[0].follows)
        rows.append((labels, *facts, info.reconstruction or "–"))
    return plain_html(columns, rows)

"""Write the report of a bench: one HTML document, and tables as CSV, LaTeX and Markdown."""

import json
import shlex
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import product
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
    folder = Path(path) / "report" if out is None else Path(out)
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    tables = []
    figures: dict[str, list[tuple[Plot, bytes]]] = {}
    for comparison in comparisons:
        for table, (kind, write) in product(comparison.tables, _FORMATS.items()):
            tables.append(folder / "tables" / f"{table.name}.{kind}")
            replace_file(tables[-1], write(table).encode())
        for plot in plots_of(results, comparison):
            on_step(f"drawing {plot.name}")
            figures.setdefault(comparison.name, []).append((plot, draw(plot)))
    page = folder / "index.html"
    replace_file(page, render_page(results, comparisons, figures, title).encode())
    return ReportFiles(
        page=page,
        tables=tuple(tables),
        n_runs=len({run.record["key"] for run in results.results}),
        n_failed=len(results.failures),
    )


# Of each comparison, by name: its plots and their SVG.
Figures = Mapping[str, Sequence[tuple[Plot, bytes]]]


def render_page(
    results: Results, comparisons: Sequence[Comparison], figures: Figures, title: str
) -> str:
    """Return one self-contained HTML document."""
    contents, body = [], [_header(results, title)]
    for level, name, heading, content in _sections(results, comparisons, figures):
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
    results: Results, comparisons: Sequence[Comparison], figures: Figures
) -> Iterator[tuple[int, str, str, str]]:
    """Yield level, id and text of each heading, and the HTML under it."""
    if comparisons:
        lead = (
            "<p>Every method gets the same number of bytes per item. Trivial baselines: "
            "<i>label-ridge</i> is ridge regression to the labels, <i>cca</i> canonical "
            "correlation analysis, both with a database that is not compressed; <i>random</i> "
            "draws codes at random.</p>"
        )
        yield 2, "fair", "Fair comparison: equal bytes", lead + _winners(comparisons)
    for comparison in comparisons:
        tables = [(table.quantity.title, to_html(table)) for table in comparison.tables]
        content = f"<p>{escape(comparison.description)}</p>" + _tabs(comparison.name, tables)
        drawn = [(plot.title, _figure(plot, svg)) for plot, svg in figures[comparison.name]]
        content += _tabs(f"{comparison.name}-figures", drawn)
        yield 3, f"section-{comparison.name}", comparison.title, content
    if results.failures:
        lead = "<p>These runs failed; nothing above includes them.</p>"
        yield 2, "failures", "Failed runs", lead + _failures(results)
    if results.results:
        yield 2, "methods", "Methods", _methods(results)
        yield 2, "settings", "Settings", _settings(results)
    bibtex = Template((files("acqh") / "citation.bib").read_text("utf-8"))
    shown = escape(bibtex.substitute(version=__version__))
    yield 2, "cite", "How to cite", f"<pre><code>{shown}</code></pre>"


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


def _figure(plot: Plot, svg: bytes) -> str:
    """Return a figure with its caption."""
    key, title, caption = map(escape, (plot.name, plot.title, plot.caption))
    return (
        f'<figure id="{key}"><div class="scroll"><img alt="{title}. {caption}" '
        f'src="data:image/svg+xml;base64,{b64encode(svg).decode()}"></div>\n'
        f"<figcaption><b>{title}.</b> {caption}</figcaption></figure>"
    )


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
    sizes: dict[tuple[str, ...], set[str]] = defaultdict(set)
    seeds: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for record in results.failures:
        setting, n_bytes = record["setting"], record.get("bytes_requested")
        reason = str(record.get("reason") or "unknown")
        facts = (setting[name] for name in ("dataset", "protocol", "database"))
        name = (record["label"], *facts, reason)
        sizes[name].add(
            f"{n_bytes} bytes" if n_bytes else f"K = {record.get('n_components_requested')}"
        )
        seeds[name].add(setting["seed"])
    return plain_html(
        ("method", "data", "protocol", "database", "reason", "sizes", "seeds"),
        [
            (*name, ", ".join(sorted(sizes[name])), ", ".join(map(str, sorted(seeds[name]))))
            for name in sizes
        ],
    )


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
    rows = set()
    for record in records:
        setting = record["setting"]
        counts = (f"{record['rows'][0][name]:,}" for name in ("n_train", "n_query", "n_database"))
        prepared = "; ".join(
            f"{view}: {_map_name(feature_map)}"
            for view, feature_map in (setting.get("preparation") or {}).items()
        )
        digest = str(setting.get("data_sha256", ""))[:16]
        rows.add((setting["dataset"], setting["protocol"], *counts, prepared or "none", digest))
    columns = ("data", "protocol", "training", "queries", "database", "preparation", "sha256")
    definitions = " ".join(f"{p.name.capitalize()}: {p.description}." for p in PROTOCOLS.values())
    return f"<p>{definitions}</p>{plain_html(columns, sorted(rows))}"


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
    values: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for name, value in record["setting"]["params"].items():
            distinct = values[record["label"]][name]
            if value not in distinct:
                distinct.append(value)
    rows = []
    for label, by_name in sorted(values.items()):
        fixed = [f"{name}={json.dumps(v[0])}" for name, v in by_name.items() if len(v) == 1]
        varied = [f"{name}: {_listed(v)}" for name, v in by_name.items() if len(v) > 1]
        rows.append((label, ", ".join(fixed), "; ".join(varied)))
    return plain_html(("method", "the same in all runs", "varied"), rows)


def _listed(values: Sequence[Any]) -> str:
    """Return values as JSON: sorted numbers first."""
    numbers = sorted(value for value in values if isinstance(value, int | float))
    others = [value for value in values if not isinstance(value, int | float)]
    return ", ".join(json.dumps(value) for value in (*numbers, *others))


def _machines(records: Sequence[Record]) -> str:
    rows: Counter[tuple[str, ...]] = Counter()
    for record in records:
        machine = ", ".join(f"{key}: {value}" for key, value in record["machine"].items())
        versions = ", ".join(f"{key} {value}" for key, value in record["versions"].items())
        rows[machine, versions, str(record["setting"].get("n_threads", "unknown"))] += 1
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

"""One HTML page: the paper's tables and figures with our results next to the printed ones."""

from base64 import b64encode
from collections import defaultdict
from html import escape

import numpy as np

import acqh
from acqh.bench.report.drawing import draw
from acqh.bench.report.plots import Panel, Plot, Series
from acqh.bench.running.variants import find_method
from benchmarks.paper.experiments import METHODS, MIDDLE, NUSWIDE, SYNTHETIC, TRIVIAL
from benchmarks.paper.published import PAPER, paper_result, paper_row

TITLES = {"map": "MAP", "fit_seconds": "training time, s", "query_seconds": "query time, s"}
# Errors and omissions of the paper that explain a difference; see docs/explanation/paper-errors.md.
REASONS = {
    "acqh-paper": "The paper's Algorithm 1 with its formulas corrected: as printed, eq. 11 has the "
    "opposite sign and eq. 16 to 18 lack a factor, so the objective rises. The paper does not "
    "state the cut-off of its average precision.",
    "acqh": "Not in the paper: the closed form of the same problem. It is level with label-ridge, "
    "because a database encoded from labels is a look-up of labels.",
    "dcmh-discrete": "Two methods are called DCMH; the paper's printed results are at chance on "
    "Wiki, which neither gives.",
    "dcmh-discriminant": "The other method called DCMH.",
    "adch": "The printed result on Wiki is the same at every length, close to chance; "
    "measured here, it rises.",
    "label-ridge": "Trivial baseline, not in the paper: ridge regression to the labels, 4 bytes "
    "per label.",
    "cca": "Trivial baseline, not in the paper: canonical correlation analysis, no labels.",
}
STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child, .text { text-align: left; }
td small { color: GrayText; display: block; }
tr.trivial { font-style: italic; } tr.acqh { background: var(--soft); }
.red { color: #c00; font-weight: bold; } .wide { overflow-x: auto; }
@media (prefers-color-scheme: dark) { .red { color: #f77; } img { background: #ddd; } }
figure { margin: 1rem 0; } img { max-width: 100%; } caption { text-align: left; font-weight: bold; }
"""


def render(results, sources, failed, n_left, is_quick):
    """Return the page; `results` are pairs of an experiment and its result."""
    names = list(sources)
    intro = (
        f"Printed: {escape(PAPER['source'])}. Measured here: acqh {acqh.__version__}, mean and "
        "standard deviation over random splits. Small print: the paper's. Training times "
        "are processor seconds of one thread here, of an unknown number of threads on a "
        f"{escape(PAPER['machine'])} there."
    )
    parts = ["<h1>The experiments of the ACQH paper, repeated</h1>", f"<p>{intro}</p>"]
    if is_quick:
        parts.append(
            '<p class="red">Quick run: fewer lengths, splits and values than the paper.</p>'
        )
    if n_left:
        parts.append(
            f'<p class="red">Interrupted: {n_left} experiments are left. The same command '
            "continues.</p>"
        )
    parts += ["<h2>Data</h2>", _data(sources)]
    for number in sorted({table["table"] for table in PAPER["tables"]}):
        parts += _tables(number, results, sources)
    parts += ["<h2>Figures</h2>", *_figures(results, names)]
    parts += ["<h2>Differences, and what explains them</h2>", *_cutoffs(results, names), _reasons()]
    if failed:
        rows = [[_text(job), reason] for job, reason in failed]
        parts += ["<h2>Failed</h2>", _table(["experiment", "reason"], rows)]
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><title>ACQH paper, repeated</title><style>{STYLE}</style>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}'
        '<meta name="viewport" content="width=device-width, initial-scale=1"></head>\n'
        f"<body>{body}</body></html>\n"
    )


def _data(sources):
    infos = {info.name: info for info in acqh.list_datasets()}
    rows = []
    for name in PAPER["counts"]:
        counts = PAPER["counts"][name]
        printed = f"{counts['n_train'] + counts['n_query']:,}"
        if name in sources:
            source = sources[name]
            rows.append([name, printed, f"{len(source.data):,}", infos[name].differences])
        elif name == NUSWIDE and SYNTHETIC in sources:
            text = (
                '<span class="red">Synthetic data of the same widths and sparsity: only times can '
                "be compared, MAP means nothing. Get the data: acqh datasets.</span>"
            )
            rows.append([name, printed, f"{len(sources[SYNTHETIC].data):,} synthetic", text])
        else:
            command = f"acqh datasets prepare {name} --from FOLDER"
            rows.append([name, printed, "not there", f"<code>{command}</code>"])
    heads = ["data set", "pairs in the paper", "pairs here", "what differs"]
    return _table(heads, rows, is_html=True)


def _tables(number, results, sources):
    printed = [table for table in PAPER["tables"] if table["table"] == number]
    yield f"<h2>Table {number}: {TITLES[printed[0]['quantity']]}</h2>"
    for table in printed:
        quantity, data = table["quantity"], table["dataset"]
        column = "map_all" if quantity == "map" else quantity
        measured_on = SYNTHETIC if data == NUSWIDE and SYNTHETIC in sources else data
        n_items = len(sources[measured_on].data) if measured_on in sources else 0
        if not n_items:
            yield f"<p>{data}: not there; see Data.</p>"
            continue
        values = defaultdict(list)
        for job, result in results:
            if job["part"] == "map" and job["data"] == measured_on:
                directions = result["directions"]
                direction = table["direction"] or next(iter(directions))
                values[job["method"], job["K"]].append(directions[direction][column])
        direction = table["direction"] or ""
        title = f"{data} {direction.replace('->', ' → ')}"
        if measured_on == SYNTHETIC:
            yield (
                f'<p class="red">{title}: measured on {n_items:,} synthetic items; the '
                "paper's 186,577 are real.</p>"
            )
        yield _compare(title, quantity, data, direction, values)


def _compare(title, quantity, data, direction, values):
    lengths = PAPER["n_components"]
    lines = []
    for method in METHODS:
        is_trivial = method in TRIVIAL
        cells = []
        for length in lengths:
            measured = values.get((method, MIDDLE if is_trivial else length), [])
            printed = paper_result(quantity, data, method, length, direction)
            digits = 3 if quantity == "map" else 2
            text = f"{np.mean(measured):.{digits}f}" if measured else "–"
            if len(measured) > 1:
                text += f" ± {np.std(measured, ddof=1):.{digits}f}"
            paper = "" if printed is None else f"<small>{printed:.{digits}f}</small>"
            cells.append(f"<td>{text}{paper}</td>")
        kind = "trivial" if is_trivial else "acqh" if method.startswith("acqh") else ""
        row = paper_row(method) or "–"
        follows = find_method(method).info.status
        lines.append(
            f'<tr class="{kind}"><td>{method}</td><td class="text">{row}</td>'
            f'<td class="text">{escape(follows)}</td>{"".join(cells)}</tr>'
        )
    heads = [f'<th class="text">{head}</th>' for head in ("method", "in the paper", "follows")]
    heads += [f"<th>K = {length}</th>" for length in lengths]
    return (
        f'<div class="wide"><table><caption>{escape(title)}</caption><tr>'
        + "".join(heads)
        + f"</tr>{''.join(lines)}</table></div>"
    )


def _figures(results, names):
    for data in names:
        of_data = [(job, result) for job, result in results if job["data"] == data]
        for name, title, x, y in (
            ("top_n", "Precision of the first N", "N", "precision"),
            ("precision_recall", "Precision and recall", "recall", "precision"),
        ):
            panels = defaultdict(list)
            for job, result in of_data if data != SYNTHETIC else []:
                for direction, values in result.get("directions", {}).items():
                    if name in values:
                        points = map(tuple, values[name])
                        panels[direction].append(Series(job["method"], _kind(job), *points))
            yield from _draw(f"{data}-{name}", f"{title}, {data}, K = {MIDDLE}", x, y, panels)
        sizes = defaultdict(dict)
        for job, result in of_data:
            if job["part"] == "training-size":
                sizes[job["method"]][result["n_train"]] = result["fit_seconds"]
        series = [
            Series(method, _kind({"method": method}), *_points(points))
            for method, points in sizes.items()
        ]
        title = f"Training time by number of items, {data}, K = {MIDDLE}"
        yield from _draw(f"{data}-size", title, "training items", "processor s", {"": series})
        curves = [
            Series("acqh-paper", "ours", tuple(range(len(r["objective"]))), tuple(r["objective"]))
            for job, r in of_data
            if job["part"] == "convergence"
        ]
        title = f"Convergence of Algorithm 1, {data}"
        yield from _draw(
            f"{data}-convergence", title, "sweeps", "objective, relative", {"": curves}
        )
        panels = defaultdict(lambda: defaultdict(dict))
        for job, result in of_data:
            if job["part"] == "sensitivity":
                for direction, values in result["directions"].items():
                    panels[job["parameter"]][direction][job["value"]] = values["map_all"]
        drawn = {
            parameter: [Series(way, "baseline", *_points(points)) for way, points in by_way.items()]
            for parameter, by_way in panels.items()
        }
        title = f"MAP of Algorithm 1 by its parameters, {data}"
        yield from _draw(f"{data}-sensitivity", title, "value", "MAP", drawn, x_log=True)


def _points(values):
    return tuple(sorted(values)), tuple(values[x] for x in sorted(values))


def _kind(job):
    method = job["method"]
    return "trivial" if method in TRIVIAL else "ours" if method.startswith("acqh") else "baseline"


def _draw(name, title, x, y, panels, x_log=False):
    panels = tuple(Panel(key.replace("->", " → "), tuple(s)) for key, s in panels.items() if s)
    if panels:
        image = b64encode(draw(Plot(name, title, "", x, y, panels, x_log))).decode()
        yield (
            f'<figure><figcaption>{escape(title)}</figcaption><img alt="{escape(title)}" '
            f'src="data:image/svg+xml;base64,{image}"></figure>'
        )


def _cutoffs(results, names):
    """Yield the mean distance of our MAP from the printed one, by cut-off."""
    distances = defaultdict(list)
    for job, result in results:
        if job["part"] == "map" and job["data"] in names and job["data"] != SYNTHETIC:
            for direction, values in result["directions"].items():
                place = job["data"], job["method"], job["K"], direction
                printed = paper_result("map", *place)
                for column in ("map_all", "map_50", "map_100") if printed is not None else ():
                    distances[job["data"], column].append(abs(values[column] - printed))
    rows = [[data, column, f"{np.mean(d):.3f}", len(d)] for (data, column), d in distances.items()]
    if rows:
        yield "<p>The paper does not state the cut-off of its average precision. Mean distance of "
        yield "our MAP from the printed one:</p>"
        yield _table(["data set", "cut-off", "mean distance", "values"], rows)


def _reasons():
    rows = []
    for method in METHODS:
        info = find_method(method).info
        reason = " ".join(filter(None, (REASONS.get(method, ""), info.reconstruction)))
        rows.append([method, paper_row(method) or "–", info.status, reason or "no known reason"])
    return _table(["method", "in the paper", "follows", "what explains a difference"], rows)


def _text(job):
    return ", ".join(f"{name} {value}" for name, value in job.items())


def _table(heads, rows, is_html=False):
    lines = "".join(
        "<tr>"
        + "".join(f'<td class="text">{cell if is_html else escape(str(cell))}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    titles = "".join(f'<th class="text">{head}</th>' for head in heads)
    return f'<div class="wide"><table><tr>{titles}</tr>{lines}</table></div>'

"""One HTML page: the paper's tables and figures with our results next to the printed ones."""

from base64 import b64encode
from collections import defaultdict
from html import escape

import numpy as np

import acqh
from acqh.bench.report.plots import Panel, Plot, Series, draw
from acqh.bench.running.variants import find_method
from benchmarks.paper.experiments import (
    AS_PRINTED,
    CUTOFFS,
    METHODS,
    MIDDLE,
    NUSWIDE,
    PRINTED,
    SYNTHETIC,
    TRIVIAL,
)
from benchmarks.paper.published import PAPER, paper_result, paper_row

TITLES = {"map": "MAP", "fit_seconds": "training time, s", "query_seconds": "query time, s"}
# Means of MAP that differ by less agree; printed means this close to chance are chance.
AGREES, AT_CHANCE = 0.025, 0.015
CAUSES = {
    "agrees": f"The mean difference is below {AGREES}.",
    "the paper's errors": "The algorithm as printed, errors included, is closer to the printed "
    "result than the corrected one.",
    "cut-off": "The errors explain little: as printed, the algorithm is nearly as far from the "
    "printed result as corrected. The average precision of the first 500 is close to the printed "
    "one; the paper does not state its cut-off.",
    "printed at chance": "The printed mean is that of random codes. Neither of the two methods "
    "called DCMH, nor any other, is that low here.",
    "printed constant": "The printed result is the same at every length: all items had one code.",
    "database codes": "Measured: training codes, which depend on the labels of the database, as in "
    "the row of ACQH. Printed: closer to codes from one modality, which do not. The paper compares "
    "the two kinds, which exaggerates the lead of ACQH.",
    "reconstructed": "Parts of the method are not published; the list is below.",
    "another algorithm": "Not in the paper: the closed form of the same problem.",
    "trivial": "Trivial baseline, not in the paper: label-ridge is ridge regression to the labels, "
    "cca canonical correlation analysis without labels. Neither is compressed.",
    "data": "No other reason is known, and the data differ from those of the paper; see Data.",
    "not explained": "No reason is known.",
}
# Of tables: Algorithm 1 with its errors follows the corrected one.
ROWS = [
    row
    for method in METHODS
    for row in ((method, *PRINTED) if method == "acqh-paper" else (method,))
]
PARAMETERS = {"label_ridge": "\u03bc", "label_weight": "\u03bb", "n_codebooks": "codebooks"}
STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th, td:not(.text) { white-space: nowrap; }
th:first-child, td:first-child, .text { text-align: left; } .text:last-child { min-width: 16rem; }
small { color: GrayText; display: block; }
tr.trivial { font-style: italic; } tr.acqh { background: var(--soft); }
.red { color: #c00; } p.red, span.red { font-weight: bold; } .wide { overflow-x: auto; }
@media (prefers-color-scheme: dark) { .red { color: #f77; } img { background: #ddd; } }
@media (max-width: 40rem) { body { font-size: 14px; margin: 1rem auto; } h1 { font-size: 1.5rem; } }
figure { margin: 1rem 0; } img { max-width: 100%; } caption { text-align: left; font-weight: bold; }
"""


def render(results, sources, failed, n_left, is_quick):
    """Return the page; `results` are pairs of an experiment and its result."""
    names = list(sources)
    intro = (
        f"Printed: {escape(PAPER['source'])}. Measured here: acqh {acqh.__version__}, mean and "
        "standard deviation over random splits. Small print: the paper's. Binary codes take K / 8 "
        "bytes per item, ACQH four whatever K is, label-ridge four per label. Training times "
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
    parts += ["<h2>Data</h2>", _data(sources, is_quick)]
    for number in sorted({table["table"] for table in PAPER["tables"]}):
        parts += _tables(number, results, sources)
    parts += ["<h2>Figures</h2>", *_figures(results, names)]
    parts += ["<h2>Differences, and what explains them</h2>", *_differences(results, sources)]
    parts += [*_cutoffs(results, names), _reasons()]
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


def _data(sources, is_quick):
    infos = {info.name: info for info in acqh.list_datasets()}
    rows = []
    for name in PAPER["counts"]:
        counts = PAPER["counts"][name]
        printed = f"{counts['n_train'] + counts['n_query']:,}"
        if name in sources:
            source = sources[name]
            rows.append([name, printed, f"{len(source.data):,}", infos[name].differences])
        elif name == NUSWIDE and SYNTHETIC in sources:
            n_items = len(sources[SYNTHETIC].data)
            comparable = "nothing" if f"{n_items:,}" != printed else "only times"
            text = (
                f'<span class="red">Synthetic data of the same widths and sparsity: {comparable} '
                "can be compared. MAP means nothing. Get the data: acqh datasets.</span>"
            )
            rows.append([name, printed, f"{n_items:,} synthetic", text])
        elif is_quick and name != "wiki":
            rows.append([name, printed, "not in a quick run", "run without --quick"])
        else:
            command = f"acqh datasets prepare {name} --from FOLDER"
            rows.append([name, printed, "not there", f"<code>{command}</code>"])
    heads = ["data set", "pairs in the paper", "pairs here", "what differs"]
    return _table(heads, rows, is_html=True)


def _tables(number, results, sources):
    printed = [table for table in PAPER["tables"] if table["table"] == number]
    names = list(dict.fromkeys(table["dataset"] for table in printed))
    yield f"<h2>Table {number}: {TITLES[printed[0]['quantity']]}, {' and '.join(names)}</h2>"
    for data in names:
        measured_on = SYNTHETIC if data == NUSWIDE and SYNTHETIC in sources else data
        if measured_on not in sources:
            yield f"<p>{data}: not measured; see Data.</p>"
            continue
        if measured_on == SYNTHETIC:
            yield (
                f'<p class="red">{data}: measured on {len(sources[SYNTHETIC].data):,} synthetic '
                "items; the paper's 186,577 are real.</p>"
            )
        for table in printed:
            if table["dataset"] == data:
                yield _compare(table, measured_on, results)


def _values(results, data, direction, column):
    """Return results by method and length; those of trivial baselines at every length."""
    values = defaultdict(list)
    for job, result in results:
        if job["part"] in ("map", "as-printed") and job["data"] == data:
            directions = result["directions"]
            value = directions[direction or next(iter(directions))].get(column)
            lengths = PAPER["n_components"] if job["method"] in TRIVIAL else [job["K"]]
            for length in lengths if value is not None else ():
                values[job["method"], length].append(value)
    return values


def _compare(table, data, results):
    """Return a table of the paper with our results."""
    quantity, direction = table["quantity"], table["direction"]
    column = "map_all" if quantity == "map" else quantity
    values, digits = _values(results, data, direction, column), 3 if quantity == "map" else 2
    lines = []
    for method in ROWS:
        if not any(name == method for name, _ in values):
            continue
        cells = []
        for length in PAPER["n_components"]:
            measured = values[method, length]
            printed = paper_result(quantity, table["dataset"], method, length, direction)
            text = f"{np.mean(measured):.{digits}f}" if measured else "–"
            if len(measured) > 1:
                text += f" ± {np.std(measured, ddof=1):.{digits}f}"
            paper = "" if printed is None else f"<small>{printed:.{digits}f}</small>"
            cells.append(f"<td>{text}{paper}</td>")
        kind = "trivial" if method in TRIVIAL else "acqh" if method.startswith("acqh") else ""
        facts = ", ".join(filter(None, (paper_row(method), _follows(method))))
        lines.append(
            f'<tr class="{kind}"><td>{method}<small>{facts}</small></td>{"".join(cells)}</tr>'
        )
    heads = ["<th>method<small>in the paper, follows</small></th>"]
    heads += [f"<th>K = {length}</th>" for length in PAPER["n_components"]]
    title = f"{data} {(direction or '').replace('->', ' → ')}"
    return (
        f'<div class="wide"><table{" class=red" if data == SYNTHETIC else ""}>'
        f"<caption>{escape(title)}</caption><tr>{''.join(heads)}</tr>{''.join(lines)}</table></div>"
    )


def _follows(method):
    if method in PRINTED:
        return "paper"
    return "trivial baseline" if method in TRIVIAL else find_method(method).info.status


def _differences(results, sources):
    """Yield, for each data set and direction, how far our MAP is from the printed one, and why."""
    yield (
        "<p>Means over the measured lengths. <em>One modality</em>: the same model, with the "
        "database encoded from the searched modality alone and without labels.</p>"
    )
    for data in (name for name in PAPER["counts"] if name in sources):
        chance = _chance(sources[data].data.labels)
        counts = PAPER["counts"][data]
        is_same_data = len(sources[data].data) == counts["n_train"] + counts["n_query"]
        for direction in ("image->text", "text->image"):
            values = _values(results, data, direction, "map_all")
            at_500 = _values(results, data, direction, "map_500")
            single = defaultdict(list)
            for job, result in results:
                if job["part"] == "map" and job["data"] == data and "single" in result:
                    single[job["method"]].append(result["single"][direction])
            rows = []
            for method in ROWS:
                lengths = [length for name, length in values if name == method]
                if not lengths:
                    continue
                ours, first = (_mean(cells, method) for cells in (values, at_500))
                printed = [paper_result("map", data, method, k, direction) for k in lengths]
                alone = np.mean(single[method]) if single[method] else None
                if printed[0] is None:
                    rows.append([method, "–", f"{ours:.3f}", _three(alone), "–", "trivial"])
                    continue
                others = _mean(values, AS_PRINTED), first
                cause = cause_of(
                    method, printed, ours, alone, chance, others, is_same_data=is_same_data
                )
                difference = f"{ours - np.mean(printed):+.3f}"
                rows.append(
                    [method, _three(np.mean(printed)), _three(ours), _three(alone), difference,
                     cause]
                )  # fmt: skip
            heads = ["method", "printed", "measured", "one modality", "difference", "explanation"]
            title = f"{data} {direction.replace('->', ' → ')}; chance: {chance:.3f}"
            yield _table(heads, rows, caption=title)
    yield _table(["explanation", "what it means"], [[*row] for row in CAUSES.items()])


def cause_of(method, printed, ours, alone, chance, others, *, is_same_data=True):
    """Return which of CAUSES explains the distance of our mean from the printed results.

    `others`: the means of Algorithm 1 as printed, and of the method at a cut-off of 500.
    """
    difference = ours - np.mean(printed)
    unknown = "not explained" if is_same_data else "data"
    as_printed, at_500 = (
        np.inf if value is None else abs(value - np.mean(printed)) for value in others
    )
    if abs(difference) < AGREES:
        return "agrees"
    if method == "acqh":
        return "another algorithm"
    if method == "acqh-paper" or method in PRINTED:
        if method == "acqh-paper" and as_printed < abs(difference) / 2:
            return "the paper's errors"
        return "cut-off" if at_500 < AGREES else unknown
    if len(printed) > 1 and np.ptp(printed) < 1e-9:
        return "printed constant"
    if np.mean(printed) < chance + AT_CHANCE:
        return "printed at chance"
    if alone is not None and abs(alone - np.mean(printed)) < abs(difference) / 2:
        return "database codes"
    return "reconstructed" if _follows(method) == "reconstructed" else unknown


def _chance(labels):
    """Return the mean share of relevant items."""
    rows = labels.toarray() if hasattr(labels, "toarray") else np.asarray(labels)
    sets, counts = np.unique(rows, axis=0, return_counts=True)
    related = (sets.astype(np.int64) @ sets.T.astype(np.int64)) > 0
    return float(counts @ related @ counts / counts.sum() ** 2)


def _mean(values, method):
    """Return the mean of a method over its lengths; None without any."""
    means = [np.mean(cell) for (name, _), cell in values.items() if name == method and cell]
    return float(np.mean(means)) if means else None


def _three(value):
    return "–" if value is None else f"{value:.3f}"


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
            Series(
                "corrected" if job["part"] == "convergence" else job["method"],
                "ours" if job["part"] == "convergence" else "baseline",
                tuple(range(first, first + len(r["objective"]))),
                tuple(r["objective"]),
            )
            for job, r in of_data
            if "objective" in r and job["seed"] == 0 and job.get("K", MIDDLE) == MIDDLE
            for first in (0 if job["part"] == "convergence" else 1,)
        ]
        title = f"Convergence of Algorithm 1, {data}, K = {MIDDLE}"
        label = "objective, relative to zero vectors"
        yield from _draw(f"{data}-convergence", title, "sweeps", label, {"": curves})
        panels = defaultdict(lambda: defaultdict(dict))
        for job, result in of_data:
            if job["part"] == "sensitivity":
                for direction, values in result["directions"].items():
                    way = direction.replace("->", " → ")
                    panels[PARAMETERS[job["parameter"]]][way][job["value"]] = values["map_all"]
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
    """Yield MAP of ACQH at several cut-offs, next to the printed one."""
    rows = []
    for data in (name for name in names if name in PAPER["counts"]):
        for direction in ("image->text", "text->image"):
            for method in ("acqh-paper", *PRINTED):
                by_cutoff = {}
                for column in CUTOFFS:
                    values = _values(results, data, direction, column)
                    by_cutoff[column] = _mean(values, method)
                lengths = [k for name, k in values if name == method]
                if lengths:
                    printed = [paper_result("map", data, method, k, direction) for k in lengths]
                    way = direction.replace("->", " → ")
                    shown = [_three(value) for value in by_cutoff.values()]
                    rows.append([f"{data} {way}", method, _three(np.mean(printed)), *shown])
    if rows:
        yield "<p>The paper does not state the cut-off of its average precision. Means over the "
        yield "measured lengths:</p>"
        heads = [f"@{column.removeprefix('map_')}" for column in CUTOFFS]
        yield _table(["data", "method", "printed", *heads], rows)


def _reasons():
    rows = []
    for method in METHODS:
        info = find_method(method).info
        rows.append([method, info.reference, _follows(method), info.reconstruction or "–"])
    return _table(["method", "reference", "follows", "differs from its source"], rows)


def _text(job):
    return ", ".join(f"{name} {value}" for name, value in job.items())


def _table(heads, rows, is_html=False, caption=""):
    lines = "".join(
        "<tr>"
        + "".join(f'<td class="text">{cell if is_html else escape(str(cell))}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    titles = "".join(f'<th class="text">{head}</th>' for head in heads)
    caption = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="wide"><table>{caption}<tr>{titles}</tr>{lines}</table></div>'

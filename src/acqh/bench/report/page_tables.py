"""Tables and figures as parts of a page; whatever comes from a store is escaped."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from acqh.bench.report.drawing import FORMATS, to_inline_svg
from acqh.bench.report.plots import Plot
from acqh.bench.report.table_formats import to_latex
from acqh.bench.report.tables import Entry, Table, TableRow

_VERDICTS = {
    "better": '<span class="up" title="better than the best baseline, p = {p:.2g}">▲</span>',
    "worse": '<span class="down" title="worse than the best baseline, p = {p:.2g}">▼</span>',
}
_PLACES = {1: "best", 2: "second"}
# Entries of plain tables longer than this many characters may be broken into lines.
_WRAP = 40


def render_table(table: Table) -> str:
    """Return a table with its notes and what it can be copied or saved as."""
    notes = [escape(note) for note in table.notes]
    notes += [f"<sup>{mark}</sup> {escape(text)}" for mark, text in table.marks.items()]
    name = escape(table.name)
    body = "\n".join(_row(table, row) for row in table.rows)
    return (
        f'<div class="scroll"><table id="{name}">'
        f"<caption>{escape(table.title)}</caption>\n"
        f"<thead>{_headings(table)}</thead>\n<tbody>\n{body}\n</tbody></table></div>\n"
        f'<ul class="notes">{"".join(f"<li>{note}</li>" for note in notes)}</ul>\n'
        f'<div class="tools"><button type="button" data-copy="{name}-tex">Copy as LaTeX</button>'
        f'<span>Beside this page: <a href="tables/{name}.csv">CSV</a>, '
        f'<a href="tables/{name}.tex">LaTeX</a></span></div>\n'
        f'<pre id="{name}-tex" hidden>{escape(to_latex(table))}</pre>'
    )


def _headings(table: Table) -> str:
    n_names = 2 if table.shows_coded_from else 1
    names = ["method", "coded from"][:n_names]
    leaves = [_heading(name, number, "text") for number, name in enumerate(names)]
    for number, (column, edge) in enumerate(zip(table.columns, _edges(table), strict=True)):
        leaves.append(_heading(column.name, n_names + number, edge))
    groups = ""
    if any(name for name, _ in table.spans):
        titles = "".join(
            f'<th class="group edge" colspan="{width}" scope="colgroup">{escape(name)}</th>'
            for name, width in table.spans
        )
        groups = f'<tr><th colspan="{n_names}"></th>{titles}</tr>\n'
    return f"{groups}<tr>{''.join(leaves)}</tr>"


def _edges(table: Table) -> list[str]:
    """Return the class of each column: whether it is the first of its group."""
    return [kind for _, width in table.spans for kind in ("edge", *[""] * (width - 1))]


def _heading(name: str, number: int, kind: str) -> str:
    return (
        f'<th class="{kind}" scope="col" data-column="{number}">'
        f'<button type="button">{escape(name)}</button></th>'
    )


def _row(table: Table, row: TableRow) -> str:
    cells = [f'<th scope="row">{escape(row.label)}{_marks(row.marks)}</th>']
    if table.shows_coded_from:
        cells.append(f'<td class="text">{escape(row.coded_from)}</td>')
    for entry, edge in zip(row.entries, _edges(table), strict=True):
        cells.append(_cell(table, entry, edge))
    return f'<tr class="{row.kind}">{"".join(cells)}</tr>'


def _cell(table: Table, entry: Entry | None, edge: str) -> str:
    if entry is None:
        return f'<td class="{edge} none">–</td>'
    digits, summary = table.quantity.digits, entry.summary
    parts = [f'<span class="figure">{summary.mean:.{digits}f}</span>']
    if summary.std is not None:
        spread = f"{summary.std:.{digits}f}"
        parts.append(f"<small>±{spread.removeprefix('0')}</small>")
    if entry.verdict in _VERDICTS:
        parts.append(_VERDICTS[entry.verdict].format(p=entry.p_value))
    parts.append(_marks(entry.marks))
    if entry.paper is not None:
        difference = f"{summary.mean - entry.paper:+.{digits}f}".replace("-", "−")
        parts.append(f'<small class="printed">{entry.paper:.{digits}f} ({difference})</small>')
    kind = " ".join(filter(None, (edge, _PLACES.get(entry.place))))
    return f'<td class="{kind}" data-value="{summary.mean:.6g}">{"".join(parts)}</td>'


def _marks(marks: Sequence[str]) -> str:
    return f"<sup>{','.join(marks)}</sup>" if marks else ""


def render_figure(plot: Plot, svg: bytes) -> str:
    """Return a figure with its caption and the files it can be had as."""
    name = escape(plot.name)
    files = ", ".join(f'<a href="figures/{name}.{kind}">{kind.upper()}</a>' for kind in FORMATS)
    return (
        f'<figure id="{name}"><div class="scroll">{to_inline_svg(svg, plot)}</div>\n'
        f"<figcaption><b>{escape(plot.title)}.</b> {escape(plot.caption)} "
        f"<span>Beside this page: {files}</span></figcaption></figure>"
    )


def render_tabs(name: str, tabs: Iterable[tuple[str, str]]) -> str:
    """Return panels of which one is shown, chosen by labels above them; on paper all are.

    `name` is unique on the page; a tab is a label, as text, and content, as HTML.
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


def render_plain_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    caption: str = "",
    stands_out: Callable[[str], bool] = lambda _: False,
) -> str:
    """Return a table of text; entries are escaped, long ones wrapped, chosen ones stand out."""
    heads = "".join(_heading(name, number, "text") for number, name in enumerate(columns))
    lines = []
    for row in rows:
        texts = [str(value) for value in row]
        kinds = [
            " ".join(("text", *["wrap"] * (len(text) > _WRAP), *["out"] * stands_out(text)))
            for text in texts
        ]
        cells = [
            f'<td class="{kind}">{escape(text)}</td>'
            for kind, text in zip(kinds, texts, strict=True)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table>{title}<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )

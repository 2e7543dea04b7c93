"""Tables as HTML, LaTeX, Markdown and CSV."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from acqh.bench.report.tables import ROW_NAMES, Column, Entry, Table, TableRow

# Characters that mean something to LaTeX or that its usual fonts lack.
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "→": r"$\to$", "±": r"$\pm$",
    "▲": "$^{+}$", "▼": "$^{-}$",
}  # fmt: skip
_LATEX_VERDICTS = {"better": "$^{+}$", "worse": "$^{-}$"}
_LATEX_PLACES = {1: r"\textbf{%s}", 2: r"\underline{%s}"}
_MARKDOWN_PLACES = {1: "**%s**", 2: "<u>%s</u>"}
_HTML_VERDICTS = {
    "better": '<span class="up" title="better than the best baseline, p = {p:.2g}">▲</span>',
    "worse": '<span class="down" title="worse than the best baseline, p = {p:.2g}">▼</span>',
}
_HTML_PLACES = {1: "best", 2: "second"}
_CSV_COLUMNS = (
    "table", "quantity", "label", "encoded_from", "kind", "follows", "group", "column",
    "mean", "std",    "n_seeds", "place", "verdict", "p_value", "remarks",
)  # fmt: skip
# Entries of plain tables longer than this many characters may be broken into lines.
_WRAP = 40


class _Value(NamedTuple):
    """A value of a table as it is written; without an entry there is no result."""

    column: Column
    entry: Entry | None
    is_edge: bool  # whether its column is the first of a group
    mean: str = ""
    spread: str = ""  # empty for a single seed


def _rows(table: Table) -> Iterator[tuple[TableRow, list[str], list[_Value]]]:
    """Yield every row with its names and its values, written with the table's digits."""
    edges = [number == 0 for _, width in table.spans for number in range(width)]
    digits = table.quantity.digits
    for row in table.rows:
        values = []
        for column, is_edge, entry in zip(table.columns, edges, row.entries, strict=True):
            numbers = () if entry is None else (entry.summary.mean, entry.summary.std)
            texts = ["" if number is None else f"{number:.{digits}f}" for number in numbers]
            values.append(_Value(column, entry, is_edge, *texts))
        yield row, [getattr(row, ROW_NAMES[name]) for name in table.names], values


def to_csv(table: Table) -> str:
    """Return a table as CSV with one line per value.

    Means and deviations are not rounded.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for row, _, values in _rows(table):
        for column, entry, *_ in values:
            if entry is None:
                continue
            writer.writerow(
                (
                    table.name, table.quantity.column, row.label, row.encoded_from, row.kind,
                    row.follows, column.group, column.name, entry.summary.mean, entry.summary.std,
                    entry.summary.n, entry.place or None, entry.verdict, entry.p_value,
                    " ".join(table.marks[mark] for mark in (*row.marks, *entry.marks)),
                )
            )  # fmt: skip
    return text.getvalue()


def to_markdown(table: Table) -> str:
    """Return a table as Markdown: the best value of a column is bold, the second underlined."""
    heads = [f"{column.group} {column.name}".strip() for column in table.columns]
    lines = [[*table.names, *heads], ["---"] * (len(table.names) + len(heads))]
    for row, names, values in _rows(table):
        is_trivial = row.kind == "trivial"
        label, *others = (re.sub(r"([\\`*_|<>\[\]])", r"\\\1", name) for name in names)
        cells = [
            _MARKDOWN_PLACES.get(v.entry.place, "%s") % v.mean if v.entry else "" for v in values
        ]
        lines.append([f"*{label}*" if is_trivial else label, *others, *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def escape_latex(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    Examples
    --------
    >>> print(escape_latex("50 % of a_b"))
    50 \% of a\_b
    """
    return "".join(_LATEX.get(character, character) for character in text)


def to_latex(table: Table) -> str:
    """Return a table as a LaTeX float; it needs the packages booktabs and graphicx.

    The best value of a column is bold, the second underlined; marks, verdicts and all that
    must be said of the values are under it.
    """
    n_names = len(table.names)
    body: list[str] = []
    was_trivial = True
    for row, names, values in _rows(table):
        is_trivial = row.kind == "trivial"
        body += ["\\midrule"] if is_trivial and not was_trivial else []
        was_trivial = is_trivial
        first, *others = map(escape_latex, names)
        cells = [first + _latex_marks(row.marks), *others, *map(_latex_value, values)]
        body.append(f"{' & '.join(cells)} \\\\")
    marks = [f"$^{{{mark}}}$~{escape_latex(text)}" for mark, text in table.marks.items()]
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        "\\begin{table*}[t]",
        "\\centering",
        f"\\caption{{{escape_latex(table.title)}.}}",
        f"\\label{{tab:{table.name}}}",
        "\\resizebox{\\textwidth}{!}{%",
        f"\\begin{{tabular}}{{@{{}}{'l' * n_names}{'r' * len(table.columns)}@{{}}}}",
        "\\toprule",
        *_latex_headings(table),
        "\\midrule",
        *body,
        "\\bottomrule",
        "\\end{tabular}}",
        "\\par\\smallskip\\begin{minipage}{\\textwidth}\\footnotesize",
        *map(escape_latex, table.notes),
        *marks,
        "\\end{minipage}",
        "\\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _latex_headings(table: Table) -> Iterable[str]:
    names = "&" * len(table.names)
    if any(name for name, _ in table.spans):
        titles = [f"\\multicolumn{{{n}}}{{c}}{{{escape_latex(name)}}}" for name, n in table.spans]
        yield f"{names} {' & '.join(titles)} \\\\"
        start, rules = 1 + len(names), []
        for _, width in table.spans:
            rules.append(f"\\cmidrule(lr){{{start}-{start + width - 1}}}")
            start += width
        yield "".join(rules)
    columns = [escape_latex(column.name) for column in table.columns]
    yield f"{' & '.join([*table.names, *columns])} \\\\"


def _latex_value(value: _Value) -> str:
    entry = value.entry
    if entry is None:
        return "--"
    text = _LATEX_PLACES.get(entry.place, "%s") % value.mean
    if value.spread:
        text += f"\\,{{\\scriptsize$\\pm$\\,{value.spread}}}"
    return text + _LATEX_VERDICTS.get(entry.verdict or "", "") + _latex_marks(entry.marks)


def _latex_marks(marks: Sequence[str]) -> str:
    return f"$^{{{','.join(marks)}}}$" if marks else ""


def to_html(table: Table) -> str:
    """Return a table with its notes and what it can be copied or saved as."""
    notes = [escape(note) for note in table.notes]
    notes += [f"<sup>{mark}</sup> {escape(text)}" for mark, text in table.marks.items()]
    name, groups = escape(table.name), ""
    key = f' id="{name}"'
    if any(group for group, _ in table.spans):
        titles = "".join(
            f'<th class="group edge" colspan="{width}" scope="colgroup">{escape(group)}</th>'
            for group, width in table.spans
        )
        groups = f'<tr><th colspan="{len(table.names)}"></th>{titles}</tr>\n'
    heads, lines = [], []
    for row, (label, *others), values in _rows(table):
        heads = [(value.column.name, "edge" * value.is_edge) for value in values]
        cells = [f'<th scope="row">{escape(label)}{_html_marks(row.marks)}</th>']
        cells += [f'<td class="text">{escape(other)}</td>' for other in others]
        cells += map(_html_value, values)
        lines.append(f'<tr class="{row.kind}">{"".join(cells)}</tr>')
    heads = [*((heading, "text") for heading in table.names), *heads]
    return (
        f"{_html_table(heads, lines, table.title, groups, key)}\n"
        f'<ul class="notes">{"".join(f"<li>{note}</li>" for note in notes)}</ul>\n'
        f'<div class="tools"><button type="button" data-copy="{name}-tex">Copy as LaTeX</button>'
        f'<span>Download: <a href="tables/{name}.csv">CSV</a>, '
        f'<a href="tables/{name}.tex">LaTeX</a></span></div>\n'
        f'<pre id="{name}-tex" hidden>{escape(to_latex(table))}</pre>'
    )


def _html_value(value: _Value) -> str:
    entry, edge = value.entry, "edge" * value.is_edge
    if entry is None:
        return f'<td class="{edge} none">–</td>'
    text = f'<span class="figure">{value.mean}</span>'
    if value.spread:
        text += f"<small>±{value.spread.removeprefix('0')}</small>"
    text += _HTML_VERDICTS.get(entry.verdict or "", "").format(p=entry.p_value or 0.0)
    text += _html_marks(entry.marks)
    kind = " ".join(filter(None, (edge, _HTML_PLACES.get(entry.place))))
    return f'<td class="{kind}" data-value="{entry.summary.mean:.6g}">{text}</td>'


def _html_marks(marks: Sequence[str]) -> str:
    return f"<sup>{','.join(marks)}</sup>" if marks else ""


def plain_html(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    caption: str = "",
    highlighted: Iterable[str] = (),
) -> str:
    """Return a table of escaped text; long entries are wrapped, chosen ones highlighted."""
    chosen, lines = set(highlighted), []
    for row in rows:
        cells = [
            f'<td class="text{" wrap" * (len(text) > _WRAP)}{" out" * (text in chosen)}">'
            f"{escape(text)}</td>"
            for text in map(str, row)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return _html_table([(name, "text") for name in columns], lines, caption)


def _html_table(
    heads: Iterable[tuple[str, str]],
    rows: Iterable[str],
    caption: str,
    groups: str = "",
    key: str = "",
) -> str:
    """Return a table that can be sorted: headings are texts and classes, rows are HTML."""
    titles = "".join(
        f'<th class="{kind}" scope="col" data-column="{number}">'
        f'<button type="button">{escape(name)}</button></th>'
        for number, (name, kind) in enumerate(heads)
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "\n".join(rows)
    return (
        f'<div class="scroll"><table{key}>{title}\n<thead>{groups}<tr>{titles}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )

"""Tables as CSV, for programs, and as LaTeX, for papers."""

import csv
import io
from collections.abc import Iterable
from itertools import groupby

from acqh.bench.report.tables import Entry, Table, TableRow

# Characters that mean something to LaTeX or that its usual fonts lack.
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "→": r"$\to$",
    "±": r"$\pm$",
    "▲": "$^{+}$",
    "▼": "$^{-}$",
}
_VERDICTS = {"better": "$^{+}$", "worse": "$^{-}$", "even": "", None: ""}
_COLUMNS = (
    "table", "quantity", "label", "coded_from", "kind", "group", "column", "mean", "std",
    "n_seeds", "place", "paper", "difference", "verdict", "p_value", "remarks",
)  # fmt: skip


def to_csv(table: Table) -> str:
    """Return a table as CSV with one line per figure.

    Means and deviations are not rounded.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in table.rows:
        for column, entry in zip(table.columns, row.entries, strict=True):
            if entry is None:
                continue
            name = (table.name, table.quantity.column, row.label, row.coded_from, row.kind)
            place = (column.group, column.name)
            writer.writerow((*name, *place, *_csv_figures(table, row, entry)))
    return text.getvalue()


def _csv_figures(table: Table, row: TableRow, entry: Entry) -> Iterable[object]:
    summary = entry.summary
    difference = None if entry.paper is None else summary.mean - entry.paper
    remarks = " ".join(table.marks[mark] for mark in (*row.marks, *entry.marks))
    yield from (summary.mean, summary.std, summary.n, entry.place or None)
    yield from (entry.paper, difference, entry.verdict, entry.p_value, remarks)


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

    The best figure of a column is bold, the second underlined; marks, verdicts and all that
    must be said of the figures are under it.
    """
    n_names = 2 if table.shows_coded_from else 1
    body = [
        "% needs \\usepackage{booktabs,graphicx}",
        "\\begin{table*}[t]",
        "\\centering",
        f"\\caption{{{escape_latex(table.title)}.}}",
        f"\\label{{tab:{table.name}}}",
        "\\resizebox{\\textwidth}{!}{%",
        f"\\begin{{tabular}}{{@{{}}{'l' * n_names}{'r' * len(table.columns)}@{{}}}}",
        "\\toprule",
        *_headings(table),
        "\\midrule",
    ]
    for position, (is_control, rows) in enumerate(
        groupby(table.rows, key=lambda row: row.kind == "control")
    ):
        if position and is_control:
            body.append("\\midrule")
        for row in rows:
            body += _latex_row(table, row)
    notes = [f"{escape_latex(note)}" for note in table.notes]
    notes += [f"$^{{{mark}}}$~{escape_latex(text)}" for mark, text in table.marks.items()]
    body += [
        "\\bottomrule",
        "\\end{tabular}}",
        "\\par\\smallskip\\begin{minipage}{\\textwidth}\\footnotesize",
        *notes,
        "\\end{minipage}",
        "\\end{table*}",
    ]
    return "\n".join(body) + "\n"


def _headings(table: Table) -> Iterable[str]:
    spans = table.spans
    if any(name for name, _ in spans):
        titles = [f"\\multicolumn{{{n}}}{{c}}{{{escape_latex(name)}}}" for name, n in spans]
        names = "&" * (2 if table.shows_coded_from else 1)
        yield f"{names} {' & '.join(titles)} \\\\"
        start, rules = 1 + len(names), []
        for _, width in spans:
            rules.append(f"\\cmidrule(lr){{{start}-{start + width - 1}}}")
            start += width
        yield "".join(rules)
    names = " & ".join(escape_latex(column.name) for column in table.columns)
    coded_from = "coded from & " if table.shows_coded_from else ""
    yield f"method & {coded_from}{names} \\\\"


def _latex_row(table: Table, row: TableRow) -> Iterable[str]:
    figures = " & ".join(_latex_figure(table, entry) for entry in row.entries)
    coded_from = f"{escape_latex(row.coded_from)} & " if table.shows_coded_from else ""
    yield f"{escape_latex(row.label)}{_latex_marks(row.marks)} & {coded_from}{figures} \\\\"
    if any(entry is not None and entry.paper is not None for entry in row.entries):
        printed = " & ".join(_latex_printed(table, entry) for entry in row.entries)
        skipped = "& " if table.shows_coded_from else ""
        yield f"\\quad{{\\scriptsize paper}} & {skipped}{printed} \\\\"


def _latex_figure(table: Table, entry: Entry | None) -> str:
    if entry is None:
        return "--"
    digits, summary = table.quantity.digits, entry.summary
    text = f"{summary.mean:.{digits}f}"
    text = {1: f"\\textbf{{{text}}}", 2: f"\\underline{{{text}}}"}.get(entry.place, text)
    if summary.std is not None:
        text += f"\\,{{\\scriptsize$\\pm$\\,{summary.std:.{digits}f}}}"
    return text + _VERDICTS[entry.verdict] + _latex_marks(entry.marks)


def _latex_marks(marks: tuple[str, ...]) -> str:
    return f"$^{{{','.join(marks)}}}$" if marks else ""


def _latex_printed(table: Table, entry: Entry | None) -> str:
    if entry is None or entry.paper is None:
        return ""
    digits = table.quantity.digits
    difference = f"{entry.summary.mean - entry.paper:+.{digits}f}"
    return f"{{\\scriptsize {entry.paper:.{digits}f} (${difference}$)}}"

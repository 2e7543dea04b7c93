import csv
import io
import re

import pytest

from acqh.bench.report.comparisons import fair_comparisons, paper_comparisons
from acqh.bench.report.formats import escape_latex, to_csv, to_latex
from acqh.bench.report.results import load_results


@pytest.fixture
def tables(written):
    """Return a fair and a paper table of MAP@all with a hostile name."""
    for label, value in (("acqh-paper", 0.5), ("dch", 0.4), (r"a_b & \c{d}$1%", 0.3)):
        for seed in (0, 1):
            written.add(label, ap=[value, value + 0.02 * seed], seed=seed)
    written.add("random", ap=[0.1], database="hashed", row={"bytes_per_item": 2})
    results = load_results(written.path)
    return fair_comparisons(results)[0].tables[0], paper_comparisons(results)[0].tables[0]


def body(latex):
    lines = latex.splitlines()
    inside = lines[lines.index("\\toprule") + 1 : lines.index("\\bottomrule")]
    return [line for line in inside if not re.match(r"\\(midrule|cmidrule)", line)]


def test_csv_has_a_line_for_each_figure_and_loses_no_digit(tables):
    for table in tables:
        lines = list(csv.DictReader(io.StringIO(to_csv(table))))
        assert len(lines) == sum(len(row.entries) for row in table.rows)
        by_name = {(line["label"], line["group"]): line for line in lines}
        for row in table.rows:
            line = by_name[row.label, "image → text"]
            assert float(line["mean"]) == row.entries[0].summary.mean
            assert line["verdict"] == (row.entries[0].verdict or "")
            assert line["coded_from"] == row.coded_from


def test_csv_of_the_paper_gives_its_figure_and_the_difference(tables):
    lines = csv.DictReader(io.StringIO(to_csv(tables[1])))
    line = next(line for line in lines if line["label"] == "acqh-paper")
    assert float(line["paper"]) == 0.3239
    assert float(line["difference"]) == pytest.approx(float(line["mean"]) - 0.3239)


def test_latex_has_as_many_cells_in_every_line_and_balanced_braces(tables):
    for table in tables:
        latex = to_latex(table)
        n_columns = len(re.search(r"\{@\{\}(l+r+)@\{\}\}", latex)[1])
        for line in body(latex):
            bare = re.sub(r"\\.", "", line)  # no escaped signs
            spans = [int(width) for width in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            assert bare.count("&") + 1 + sum(spans) - len(spans) == n_columns, line
            assert line.endswith(r"\\")
        plain = latex.replace(r"\{", "").replace(r"\}", "")
        assert plain.count("{") == plain.count("}")
        assert plain.isascii() or "·" in plain


def test_latex_shows_best_second_controls_and_what_must_be_said(tables):
    latex = to_latex(tables[0])
    assert r"acqh-paper & labels & \textbf{0.505}\,{\scriptsize$\pm$\,0.007}" in latex
    assert r"dch & labels & \underline{0.405}" in latex
    assert re.search(r"\\midrule\nrandom.* & searched view", latex)
    for phrase in ("ties in expectation", "cut-off all", "seeds 0, 1", "within the cut-off"):
        assert phrase in latex


def test_latex_of_the_paper_has_its_figures_below_ours(tables):
    assert r"{\scriptsize 0.324 ($+0.181$)}" in to_latex(tables[1])


def test_names_cannot_break_latex(tables):
    assert r"a\_b \& \textbackslash{}c\{d\}\$1\% & labels" in to_latex(tables[0])
    assert escape_latex("#^~<>") == (
        r"\#\textasciicircum{}\textasciitilde{}\textless{}\textgreater{}"
    )

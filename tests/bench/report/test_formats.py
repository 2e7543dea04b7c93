import csv
import io
import re

import pytest

from acqh.bench.report.formats import escape_latex, to_csv, to_latex, to_markdown
from acqh.bench.report.results import load_results
from acqh.bench.report.tables import compare


@pytest.fixture
def table(written):
    """Return a table of MAP@all with a hostile name."""
    for label, value in (("acqh-paper", 0.5), ("dch", 0.4), (r"a_b & \c{d}$1%", 0.3)):
        for seed in (0, 1):
            written.add(label, ap=[value, value + 0.02 * seed], seed=seed)
    written.add("random", ap=[0.1], database="single", row={"bytes_per_item": 2})
    return compare(load_results(written.path))[0].tables[0]


def body(latex):
    lines = latex.splitlines()
    inside = lines[lines.index("\\toprule") + 1 : lines.index("\\bottomrule")]
    return [line for line in inside if not re.match(r"\\(midrule|cmidrule)", line)]


def test_csv_has_a_line_for_each_value_and_loses_no_digit(table):
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert len(lines) == sum(len(row.entries) for row in table.rows)
    by_name = {(line["label"], line["group"]): line for line in lines}
    for row in table.rows:
        line = by_name[row.label, "image → text"]
        assert float(line["mean"]) == row.entries[0].summary.mean
        assert line["verdict"] == (row.entries[0].verdict or "")
        assert (line["encoded_from"], line["follows"]) == (row.encoded_from, row.follows)


def test_latex_has_as_many_values_in_every_line_and_balanced_braces(table):
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


def test_latex_shows_best_and_second_results_trivial_baselines_and_notes(table):
    latex = to_latex(table)
    assert r"acqh-paper & labels & paper & \textbf{0.505}\,{\scriptsize$\pm$\,0.007}" in latex
    assert r"dch & labels & paper & \underline{0.405}" in latex
    assert re.search(r"\\midrule\nrandom.* & searched view", latex)
    for phrase in ("ties in expectation", "cut-off all", "seeds 0, 1", "within the cut-off"):
        assert phrase in latex


def test_markdown_has_as_many_values_in_every_line_and_marks_the_best(table):
    lines = to_markdown(table).splitlines()
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
    assert bars == {len(table.names) + len(table.columns) + 1}
    assert lines[2].startswith("| acqh-paper | labels | paper | **0.505** |")
    assert lines[-1].startswith("| *random* | searched view |")


def test_names_cannot_break_latex(table):
    assert r"a\_b \& \textbackslash{}c\{d\}\$1\% & labels" in to_latex(table)
    assert escape_latex("#^~<>") == (
        r"\#\textasciicircum{}\textasciitilde{}\textless{}\textgreater{}"
    )

"""The paper by one command: stored results, resumption, and what the page says."""

import json
import re

import numpy as np
import pytest

import acqh
from acqh.data import save_npz
from benchmarks.paper import __main__ as command
from benchmarks.paper import as_printed
from benchmarks.paper.experiments import AS_PRINTED, Plan
from benchmarks.paper.page import CAUSES, cause_of

pytestmark = pytest.mark.slow


@pytest.fixture
def tiny(monkeypatch):
    plan = Plan(
        lengths=(8,), n_seeds=1, n_synthetic=300, synthetic_lengths=(32,), shares=(1.0,),
        sensitivity={},
    )  # fmt: skip
    monkeypatch.setattr(command, "QUICK", plan)
    monkeypatch.delenv("ACQH_DATA", raising=False)


def table_of(page, caption):
    """Return the rows of the first table with this caption, as lists of texts."""
    table = page.partition(f"<caption>{caption}")[2].partition("</table>")[0]
    return [re.findall(r"<td[^>]*>([^<]*)", row) for row in table.split("<tr")[2:]]


def test_without_data_the_stand_in_runs_says_so_in_red_and_resumes(tiny, tmp_path, capsys):
    arguments = ["--quick", "--out", str(tmp_path)]
    assert command.main(arguments) == 0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'class="red">Synthetic data' in page
    assert "acqh datasets prepare wiki" in page
    assert "0.3126" not in page  # no table of Wiki without Wiki
    stored = tmp_path / "results.jsonl"
    lines = stored.read_text().splitlines()
    assert all(json.loads(line)["result"] for line in lines)
    # A run that was killed in the middle of a line.
    stored.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:40])
    capsys.readouterr()
    assert command.main(arguments) == 0
    assert f"{len(lines)} experiments, 1 to run" in capsys.readouterr().err
    assert command.main(arguments) == 0
    assert f"{len(lines)} experiments, 0 to run" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::acqh.errors.DatasetWarning")
def test_every_table_compares_with_the_paper_and_explains_differences(tiny, tmp_path):
    rng = np.random.default_rng(0)
    classes = np.arange(200) % 10
    views = {"image": rng.random((200, 128)), "text": rng.random((200, 10))}
    views["text"][np.arange(200), classes] += 1
    save_npz(acqh.MultiViewData(views, classes), tmp_path / "wiki.npz")
    arguments = ["--quick", "--data-dir", str(tmp_path), "--out", str(tmp_path)]
    assert command.main(arguments) == 0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    measured = {row[0]: row for row in table_of(page, "wiki image → text</caption>")}
    assert {"label-ridge", "cca", "acqh-paper", "acqh-paper as printed"} <= measured.keys()
    assert "label-ridge<small>trivial baseline</small>" in page
    assert "fdch<small>FDCH, reconstructed</small>" in page
    assert "<small>0.313</small>" in page  # ACQH in print, 8 components
    explained = {row[0]: row[1:] for row in table_of(page, "wiki image → text; chance: 0.100")}
    assert all(row[-1] in CAUSES for row in explained.values())
    assert explained["label-ridge"][-1] == "trivial"
    printed, ours, _, difference = explained["acqh-paper"][:4]
    assert float(difference) == pytest.approx(float(ours) - float(printed), abs=2e-3)
    assert "<table class=red><caption>synthetic-nuswide10 image → text" in page


def test_the_algorithm_as_printed_returns_its_own_objective():
    data = acqh.make_multiview(80, n_labels=4, random_state=0)
    labels = data.labels.astype(float)
    projections, vectors, objective = as_printed.run(
        data.views, data.labels, 4, 2, np.random.default_rng(0)
    )
    pairs = labels @ labels.T
    errors = [
        np.sum((data.views[view] @ projections[view] @ vectors.T - pairs) ** 2)
        for view in data.views
    ]
    # The terms of the label regression weigh less than the tolerance.
    assert objective[-1] == pytest.approx(sum(errors) / (2 * np.sum(pairs**2)), rel=1e-3)
    assert objective[-1] < objective[0]


@pytest.mark.parametrize(
    ("method", "printed", "ours", "alone", "others", "expected"),
    [
        ("dch", [0.24, 0.26], 0.26, None, (None, None), "agrees"),
        ("dch", [0.24, 0.26], 0.35, 0.28, (None, None), "database codes"),
        ("dch", [0.24, 0.26], 0.35, 0.34, (None, None), "not explained"),
        ("fdch", [0.24, 0.26], 0.35, 0.34, (None, None), "reconstructed"),
        ("adch", [0.2, 0.2], 0.35, None, (None, None), "printed constant"),
        ("adch", [0.11, 0.12], 0.35, None, (None, None), "printed at chance"),
        ("acqh-paper", [0.32, 0.32], 0.37, None, (0.33, 0.32), "the paper's errors"),
        ("acqh-paper", [0.32, 0.32], 0.37, None, (0.36, 0.32), "cut-off"),
        (AS_PRINTED, [0.32, 0.32], 0.36, None, (0.36, 0.28), "not explained"),
        ("acqh", [0.32, 0.32], 0.38, None, (0.36, 0.32), "another algorithm"),
    ],
)
def test_a_difference_has_the_cause_that_its_results_show(
    method, printed, ours, alone, others, expected
):
    assert cause_of(method, printed, ours, alone, 0.1, others) == expected
    data = "data" if expected == "not explained" else expected
    causes = cause_of(method, printed, ours, alone, 0.1, others, is_same_data=False)
    assert causes == data

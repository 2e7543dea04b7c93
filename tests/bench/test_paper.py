"""The paper by one command: stored results, resumption, and what the page says."""

import json

import pytest

from benchmarks.paper import __main__ as command
from benchmarks.paper.experiments import Plan

pytestmark = pytest.mark.slow


@pytest.fixture
def tiny(monkeypatch):
    plan = Plan(
        lengths=(8,), n_seeds=1, n_synthetic=300, synthetic_lengths=(32,), shares=(1.0,),
        sensitivity={},
    )  # fmt: skip
    monkeypatch.setattr(command, "QUICK", plan)
    monkeypatch.delenv("ACQH_DATA", raising=False)


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

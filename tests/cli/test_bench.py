import json

import pytest
from typer.testing import CliRunner

import acqh
from acqh.cli import app
from acqh.data import save_npz


@pytest.fixture(scope="module")
def data_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "tiny.npz"
    save_npz(acqh.make_multiview(120, n_labels=3, random_state=0), path)
    return str(path)


def run(*arguments):
    return CliRunner().invoke(app, ["bench", *arguments])


def test_a_dry_run_lists_runs_and_writes_nothing(tmp_path, data_file):
    out = tmp_path / "out"
    options = ("--methods", "acqh,random", "--splits", "2", "--out", str(out), "--dry-run")
    plan = json.loads(run(data_file, *options, "--json").stdout)
    # Five lengths and two seeds; labelled, hashed and unified.
    assert plan["n_to_run"] == len(plan["runs"]) == 2 * 5 * 2 * 3
    assert plan["seconds"] == pytest.approx(3 * plan["n_to_run"])
    assert len({run["key"] for run in plan["runs"]}) == plan["n_to_run"]
    assert "60 to run" in run(data_file, *options).stdout
    once = (*options[:2], *options[4:], "--json")
    assert json.loads(run(data_file, *once).stdout)["n_to_run"] == 30
    assert not out.exists()


def test_trivial_baselines_are_added_to_named_methods(tmp_path, data_file):
    options = ("--methods", "acqh", "--bytes", "2", "--out", str(tmp_path / "out"), "--dry-run")
    options += ("--trivial",)
    plan = json.loads(run(data_file, *options, "--json").stdout)
    assert {run["method"] for run in plan["runs"]} == {"acqh", "label-ridge", "cca", "random"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--bytes", "1,x"), "whole numbers"),
        (("--bytes", "17"), "from 1 to 16"),
        (("--protocol", "other"), "labelled, unlabelled"),
    ],
)
def test_a_wrong_call_is_rejected_with_the_reason(tmp_path, data_file, options, message):
    done = run(data_file, "--methods", "random", "--out", str(tmp_path / "out"), *options)
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())

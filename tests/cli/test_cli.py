import json
import subprocess
import sys

import pytest


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "acqh", *arguments], capture_output=True, text=True, check=False,
        env={**__import__("os").environ, **environment},
    )  # fmt: skip


def test_version_and_help():
    assert run("--version").stdout.startswith("acqh 0.")
    assert "datasets" in run("--help").stdout


def test_a_wrong_call_exits_with_two():
    assert run("datasets", "--nonsense").returncode == 2
    assert run("nonsense").returncode == 2


def test_datasets_lists_all_and_says_what_is_missing(tmp_path):
    done = run("datasets", "--data-dir", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    known = {entry["name"]: entry for entry in json.loads(done.stdout)}
    assert set(known) >= {"emoji", "wiki", "mirflickr25k", "nuswide10", "uci_mfeat"}
    assert known["emoji"]["found"]
    assert not known["wiki"]["found"]
    table = run("datasets", "--data-dir", str(tmp_path)).stdout
    assert "wiki: missing wiki.npz" in table


@pytest.mark.slow
def test_the_demo_prints_both_directions_and_both_protocols():
    done = run("demo", "--no-serve", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["protocol"] for row in rows} == {"labelled", "unlabelled"}
    assert {row["direction"] for row in rows} == {"image->text", "text->image"}
    for row in rows:
        # Chance is 0.13.
        assert row["map_all"] > 0.4 if row["protocol"] == "labelled" else 0.2

import csv
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from acqh._core.imports import load_plugins
from acqh.bench.running.variants import load_method_file
from acqh.errors import InvalidInputError

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "plugin"


@pytest.fixture
def site(tmp_path):
    """Return a folder that says what an installed example would say."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    folder = tmp_path / "site" / "acqh_plugin_example-0.1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines))
    return folder.parent


def bench(*arguments, out, path=()):
    places = os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "acqh", "bench", *arguments, "--bytes", "1", "--splits", "1",
         "--protocol", "labelled", "--threads", "1", "--out", str(out)],
        env={**os.environ, "PYTHONPATH": places}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with (out / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_the_example_runs_once_it_is_installed(tmp_path, site):
    rows = bench(
        "rings", "--methods", "label-centroids", out=tmp_path / "out", path=(site, EXAMPLE)
    )
    assert {row["status"] for row in rows} == {"done"}
    assert [row["direction"] for row in rows] == ["image->text", "text->image"]
    assert {(row["dataset"], row["method"], row["bytes_per_item"]) for row in rows} == {
        ("rings", "label-centroids", "1")
    }
    result = {row["direction"]: float(row["map_all"]) for row in rows}
    # The means of rings are all in the middle, so positions say nothing; radii say a lot.
    assert result["text->image"] > 0.3


@pytest.mark.slow
def test_the_example_runs_from_its_file(tmp_path):
    file = f"{EXAMPLE / 'acqh_plugin_example.py'}:LabelCentroids"
    rows = bench("emoji", "--methods", "random", "--method-file", file, out=tmp_path / "out")
    assert {row["label"]: row["status"] for row in rows} == {
        "label-centroids": "done", "random": "done",
    }  # fmt: skip
    result = {
        row["label"]: float(row["map_all"]) for row in rows if row["direction"] == "image->text"
    }
    assert result["label-centroids"] > result["random"]


@pytest.mark.parametrize(
    ("argument", "content", "message"),
    [
        ("mine.py", "", "FILE.py:CLASS"),
        ("other.py:Mine", "", "no such file"),
        ("mine.py:Mine", "", "no class Mine that derives"),
        ("mine.py:Mine", "1 / 0", "ZeroDivisionError"),
        (
            "mine.py:Mine",
            "from acqh.methods import BaseMethod\nclass Mine(BaseMethod): pass",
            "not registered",
        ),
    ],
)
def test_a_file_without_a_method_is_rejected_with_the_reason(tmp_path, argument, content, message):
    (tmp_path / "mine.py").write_text(content)
    with pytest.raises(InvalidInputError, match=message):
        load_method_file(str(tmp_path / argument))


def test_a_broken_plugin_is_a_warning(tmp_path, monkeypatch):
    folder = tmp_path / "broken-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: broken\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[acqh.tests]\nbroken = no_such_module:Thing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match="'broken'.*cannot be loaded"):
        assert load_plugins.__wrapped__("acqh.tests") == {}

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import acqh


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "acqh", *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_the_package_is_a_program():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"acqh {acqh.__version__}\n")


def test_help_lists_commands(call):
    assert "datasets" in call("--help")[1]


def test_the_citation_is_that_of_the_documentation_and_of_citation_cff(call):
    root = Path(__file__).resolve().parents[2]
    cited = call("--cite")[1].strip()
    assert cited in (root / "docs" / "project" / "citing.md").read_text(encoding="utf-8")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    for text in ("arXiv:2001.04625", "https://arxiv.org/abs/2001.04625", acqh.__version__):
        assert text in cited
        assert text in citation


def test_a_wrong_call_exits_with_two(call):
    assert call("datasets", "--nonsense")[0] == 2
    assert call("nonsense")[0] == 2


def test_datasets_lists_all_names_and_missing_files(tmp_path, call):
    code, shown, _ = call("datasets", "--data-dir", tmp_path, "--json")
    assert code == 0
    entries = {entry["name"]: entry for entry in json.loads(shown)}
    assert set(entries) >= {"emoji", "wiki", "mirflickr25k", "nuswide10", "uci_mfeat"}
    assert entries["emoji"]["available"]
    assert not entries["wiki"]["available"]
    table = call("datasets", "--data-dir", tmp_path)[1]
    assert "Missing: wiki.npz" in table
    assert "acqh datasets prepare wiki --from" in table


@pytest.mark.slow
def test_the_demo_prints_both_directions_and_both_protocols_and_ends(tmp_path):
    done = run("demo", "--evaluate", "--json", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["protocol"] for row in rows} == {"labelled", "unlabelled"}
    assert {row["direction"] for row in rows} == {"image->text", "text->image"}
    assert {row["method"]: row["bytes_per_item"] for row in rows} == {"acqh": 4, "label-ridge": 36}
    for row in rows:
        # Chance is 0.13.
        assert row["map_all"] > (0.65 if row["protocol"] == "labelled" else 0.4)
    with acqh.load(tmp_path / "acqh" / "emoji.acqh") as collection:
        result = collection.search(text="red flower", k=8).hits
    assert {hit.labels for hit in result} == {("Animals & Nature", "plant-flower")}


def test_verify_distinguishes_intact_from_damaged_bundles(tmp_path, call):
    path = tmp_path / "index.acqh"
    acqh.HammingIndex(8).add([[7], [9]]).save(path)
    code, shown, _ = call("verify", path)
    assert code == 0
    assert "OK: " in shown
    member = next(path.glob("*.safetensors"))
    content = bytearray(member.read_bytes())
    content[-1] ^= 1
    member.write_bytes(content)
    code, shown, _ = call("verify", path, "--json")
    assert code == 1
    assert json.loads(shown)["problems"]


def test_verify_names_missing_files(tmp_path, call):
    code, shown, message = call("verify", tmp_path / "nothing.acqh")
    assert code == 1
    assert "nothing.acqh" in shown + message

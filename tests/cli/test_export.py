"""``acqh export`` and its errors for wrong calls."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from acqh import CodeIndex
from acqh.cli import app
from acqh.collection import Collection, Item


@pytest.fixture
def index(tmp_path):
    CodeIndex(np.eye(3)[np.newaxis]).add([[0], [2], [1]]).save(tmp_path / "i.acqh")
    return tmp_path / "i.acqh"


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["export", *map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    return done


@pytest.mark.parametrize("to", ["faiss", "parquet"])
@pytest.mark.parametrize("options", [[], ["--codes"]])
def test_files_are_written_and_their_size_is_printed(index, tmp_path, to, options):
    out = tmp_path / "out"
    facts = json.loads(run(to, index, "--out", out, "--json", *options).stdout)
    assert facts["n_items"] == 3
    assert facts["files"] == [str(out)]
    assert facts["n_bytes"] == out.stat().st_size
    assert isinstance(run(to, index, "--out", out, code=1).exception, FileExistsError)
    assert "3 items" in run(to, index, "--out", out, "--overwrite").stdout


def test_wrong_calls_and_failures_have_different_exit_codes(index, tmp_path):
    run("parquet", index, code=2)
    run("oracle", index, "--out", tmp_path / "o", code=2)
    run("faiss", index, "--out", tmp_path / "o", "--captions", code=2)
    missing = run("faiss", tmp_path / "none", "--out", tmp_path / "o", code=1)
    assert isinstance(missing.exception, FileNotFoundError)


def test_a_site_has_only_the_items_that_meet_the_filter(tmp_path):
    items = [
        Item(text=f"a {word} {n}", labels=[word], id=f"{word}{n}", fields={"year": 2000 + n})
        for word in ("cat", "car")
        for n in range(3)
    ]
    Collection.build(items, tmp_path / "c.acqh", text_encoder="tfidf").close()
    site = ("site", tmp_path / "c.acqh", "--out", tmp_path / "public", "--json")
    assert json.loads(run(*site).stdout)["n_items"] == 6
    assert json.loads(run(*site, "--where", "label=cat").stdout)["n_items"] == 3
    both = ("--where", "label=cat", "--where", "year=2001", "--fields", "year")
    assert json.loads(run(*site, *both).stdout)["n_items"] == 1

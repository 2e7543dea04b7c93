"""``acqh export`` and what it says of wrong calls."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from acqh import CodeIndex
from acqh.cli import app


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
def test_files_are_written_and_their_size_is_said(index, tmp_path, to, options):
    out = tmp_path / "out"
    facts = json.loads(run(index, "--to", to, "--out", out, "--json", *options).stdout)
    assert facts["n_items"] == 3
    assert facts["files"] == [str(out)]
    assert facts["n_bytes"] == out.stat().st_size
    assert isinstance(run(index, "--to", to, "--out", out, code=1).exception, FileExistsError)
    assert "3 items" in run(index, "--to", to, "--out", out, "--overwrite").stdout


def test_wrong_calls_are_told_apart_from_failures(index, tmp_path):
    run(index, "--to", "parquet", code=2)
    run(index, "--to", "oracle", "--out", tmp_path / "o", code=2)
    missing = run(tmp_path / "none", "--to", "faiss", "--out", tmp_path / "o", code=1)
    assert isinstance(missing.exception, FileNotFoundError)

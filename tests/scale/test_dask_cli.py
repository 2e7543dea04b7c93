"""Commands give the same results with ``--dask``."""

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import acqh
from acqh.cli import app
from acqh.errors import ClusterError, MissingExtraError
from acqh.scale import CodeParts, cluster, connect

pytest.importorskip("distributed")


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def run(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_commands_give_the_same_result_on_a_cluster(client, items_file, tmp_path, monkeypatch):
    # Relative paths are those of the command, wherever workers were started.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.npz").symlink_to(items_file)
    on_dask = ("--dask", client.scheduler.address)
    run("fit", "items.npz", "--out", "model", "--chunk-size", 100, *on_dask)
    run("encode", "model", "items.npz", "--out", "here", "--chunk-size", 100)
    run("encode", "model", "items.npz", "--out", "there", "--chunk-size", 100, *on_dask)
    run("index", "model", "here", "--out", "whole")
    assert "230 items" in run("index", "model", "there", "--out", "shards", "--shards", 2, *on_dask)
    assert "230 items in 2 parts" in run("verify", "shards")
    for local, other in zip(CodeParts("here"), CodeParts("there"), strict=True):
        np.testing.assert_array_equal(local.codes, other.codes)
    queries = ("items.npz", "--model", "model", "--modality", "text", "-k", 50)
    run("query", "whole", *queries, "--out", "whole.csv", "--chunk-size", 70)
    run("query", "shards", *queries, "--out", "shards.csv", "--chunk-size", 70, *on_dask)
    assert Path("shards.csv").read_text() == Path("whole.csv").read_text()


def test_wrong_calls_are_reported(items_file, tmp_path):
    result = call("index", tmp_path, items_file, "--out", tmp_path / "index", "--dask", "local")
    assert result.exit_code == 2
    assert "--shards" in result.output


def test_an_address_without_a_scheduler_is_reported(monkeypatch):
    monkeypatch.setattr(cluster, "_SCHEDULER_SECONDS", 0.2)
    for address in ("tcp://127.0.0.1:9", "nonsense"):
        message = f"no Dask scheduler answers at {address}"
        with pytest.raises(ClusterError, match=message), connect(address):
            pass


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"acqh\[dask\]"), connect("local"):
        pass


def test_workers_with_another_version_are_rejected(client, monkeypatch):
    monkeypatch.setattr(cluster, "__version__", "0.0")
    with pytest.raises(ClusterError, match=r"0\.0"):
        acqh.scale.fit(acqh.ACQH(), "items.npz", client=client)

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import wait
from pathlib import Path

import numpy as np
import pytest

import acqh
from acqh import bench
from acqh.bench.running.evaluate import open_data
from acqh.bench.running.plan import Plan
from acqh.bench.running.runs import plan_runs
from acqh.bench.running.store import Store
from acqh.bench.running.variants import find_method, load_method_file, make_variant
from acqh.bench.running.worker import Workbench, WorkerSettings
from acqh.data import save_npz
from acqh.errors import InvalidInputError
from acqh.methods import registry
from acqh.metrics import mean_average_precision, relevance

PLUGINS = Path(__file__).with_name("plugin_methods.py")
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
# Seconds after which a run that does nothing is given up.
PATIENCE = 240
TIMES = {"fit_seconds", "encode_seconds", "query_seconds"}


@pytest.fixture(scope="module")
def data_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "tiny.npz"
    save_npz(acqh.make_multiview(330, n_labels=3, random_state=0), path)
    return path


def runs_of(data_file, *labels, seeds=(0,), protocols=("labelled", "unlabelled")):
    variants = [make_variant(label) for label in labels]
    source = open_data(str(data_file))
    return plan_runs(
        [source], variants, lengths=(8,), protocols=protocols, seeds=seeds, n_threads=1
    )


def settings_of(data_file, *classes):
    files = tuple(f"{PLUGINS}:{name}" for name in classes)
    for file in files:
        load_method_file(file)
    return WorkerSettings(1, {"tiny": str(data_file)}, method_files=files)


def without_times(rows):
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


@pytest.fixture(scope="module", autouse=True)
def isolated_registry():
    """Take the methods of these tests out again: other tests use every registered method."""
    registry.list()  # loads the package's own
    methods = dict(registry._METHODS)
    yield
    registry._METHODS.clear()
    registry._METHODS.update(methods)
    for name in [name for name in sys.modules if name.startswith("acqh_plugin_")]:
        del sys.modules[name]


def run_in_process(runs, data_file):
    """Return what the runs give in this process."""
    workbench = Workbench(WorkerSettings(1, {"tiny": str(data_file)}))
    return {run.key: workbench.run(run) for run in runs}


def test_every_run_is_stored_and_none_runs_twice(tmp_path, data_file):
    runs = runs_of(data_file, "acqh", "label-ridge", "random")
    store = Store(tmp_path)
    summary = Plan(tuple(runs), store, settings_of(data_file)).run()
    assert (summary.n_done, summary.n_failed, summary.n_left) == (len(runs), 0, 0)
    assert {record["key"] for record in store.records()} == {run.key for run in runs}
    for record in store.records():
        assert record["peak_bytes"] > 1e6
        assert 0 <= record["fit_cpu_seconds"] < 1000
    again = Plan(tuple(runs), Store(tmp_path), settings_of(data_file)).run()
    assert (again.n_stored, again.n_done) == (len(runs), 0)


def test_a_second_run_gives_the_same_results(tmp_path):
    data_file = tmp_path / "tiny.npz"
    save_npz(acqh.make_multiview(150, n_labels=3, random_state=0), data_file)
    runs = runs_of(data_file, "acqh rbf", "dch", "random")
    runs += runs_of(data_file, "acqh kernel", protocols=("unlabelled",))
    first, second = run_in_process(runs, data_file), run_in_process(runs[::-1], data_file)
    for key, (facts, curves, _) in first.items():
        other_facts, other_curves, _ = second[key]
        assert without_times(facts["rows"]) == without_times(other_facts["rows"])
        assert curves.keys() == other_curves.keys()
        for name, values in curves.items():
            np.testing.assert_array_equal(values, other_curves[name])


@pytest.mark.slow
def test_failures_and_crashes_become_rows_and_the_bench_continues(tmp_path, data_file):
    settings = settings_of(data_file, "Raising", "Killed")
    runs = runs_of(data_file, "raising", "killed", "random", protocols=("labelled",))
    store = Store(tmp_path)
    plan = Plan(tuple(runs), store, settings)
    summary = plan.run()
    assert (summary.n_done, summary.n_failed) == (1, 2)
    reasons = {record["label"]: record["reason"] for record in store.records()}
    assert reasons["raising"] == "RuntimeError: this method cannot"
    assert "SIGKILL" in reasons["killed"]
    assert reasons["random"] is None
    assert plan.pending() == []
    assert plan.pending(retry_failed=True) == runs[:2]


def test_ways_to_encode_the_database_share_one_fit(data_file):
    runs = runs_of(data_file, "acqh", protocols=("unlabelled",))
    assert [run.database for run in runs] == ["single", "fused"]
    rows = [facts["rows"][0] for facts, *_ in run_in_process(runs, data_file).values()]
    assert rows[0]["fit_seconds"] == rows[1]["fit_seconds"]
    alone, *_ = run_in_process(runs[1:], data_file)[runs[1].key]
    assert alone["rows"][0]["map_all"] == rows[1]["map_all"]


def test_curves_agree_with_the_results(data_file):
    runs = runs_of(data_file, "acqh", protocols=("labelled",))
    facts, curves, _ = run_in_process(runs, data_file)[runs[0].key]
    assert facts["status"] == "done"
    for place, row in enumerate(facts["rows"]):
        assert np.nanmean(curves[f"ap_{place}"]) == pytest.approx(row["map_all"], abs=1e-6)
        assert len(curves[f"ap_{place}"]) == row["n_query"]
        assert len(curves["top_n"]) == len(curves[f"precision_top_n_{place}"])
        recall = curves[f"recall_{place}"]
        assert len(recall) == len(curves[f"precision_{place}"]) <= 200
        assert recall[-1] == 1
        assert (np.diff(recall) >= 0).all()


@pytest.mark.slow
def test_stored_rankings_reproduce_the_results(tmp_path):
    data = acqh.make_multiview(200, n_labels=3, random_state=0)
    options = {"methods": ["acqh", "dch", "label-ridge"], "bits": [8], "protocol": "labelled"}
    summary = bench.run(data, out=tmp_path, n_splits=1, n_threads=1, **options)
    assert (summary.n_done, summary.n_failed, summary.out) == (3, 0, tmp_path)
    split = bench.make_split(data, "labelled", seed=0)
    store = Store(tmp_path)
    for record in store.records():
        for row, ranking in zip(record["rows"], store.rankings(record["key"]), strict=True):
            assert ranking.shape == (len(split.query), len(split.database))
            assert set(ranking[0]) == set(split.database)
            relevant = relevance(data.labels[split.query], data.labels)
            result = mean_average_precision(ranking, relevant, cutoff=50, kind="ranking")
            # Stored rankings put ties in the order of rows, figures are their expectation.
            assert result == pytest.approx(row["map_50"], abs=0.08)


def test_classes_and_files_name_methods_as_names_do(tmp_path, data_file):
    from acqh.methods import CVH

    planned = bench.plan(
        [data_file], out=tmp_path, methods=[CVH, f"{PLUGINS}:Raising", "random"], bits=[8]
    )
    assert {run.label for run in planned.runs} == {"cvh", "raising", "random"}
    assert planned.settings.method_files == (f"{PLUGINS}:Raising",)
    assert not (tmp_path / "results.csv").exists()
    with pytest.raises(InvalidInputError, match="methods must be"):
        bench.plan([data_file], out=tmp_path, methods=[3])
    with pytest.raises(InvalidInputError, match="multiples of 8"):
        bench.plan([data_file], out=tmp_path, bits=[12])
    with pytest.raises(InvalidInputError, match="unlabelled"):
        bench.plan([data_file], out=tmp_path, protocol="other")
    with pytest.raises(InvalidInputError, match="'tiny'"):
        bench.plan([data_file, str(data_file)[:-4] + ".npz"] * 2, out=tmp_path)


def test_without_labels_only_methods_that_need_none_are_trained(data_file, tmp_path):
    planned = bench.plan(data_file, out=tmp_path, bits=[16], protocol="label-free", n_splits=1)
    names = {run.method for run in planned.runs}
    assert {"acqh", "cmfh", "lssh", "ccq", "stacked", "cvh", "fsh", "cre", "random"} <= names
    assert all(find_method(name).info.label_free for name in names)
    chosen = [run for run in planned.runs if run.method in ("acqh", "cvh", "random")]
    for facts, *_ in run_in_process(chosen, data_file).values():
        assert facts["reason"] is None
        assert {row["protocol"] for row in facts["rows"]} == {"label-free"}


@pytest.fixture
def pipes(tmp_path):
    for name in ("begun", "go"):
        os.mkfifo(tmp_path / name)
    return tmp_path


def read_message(process, pipe):
    """Return what a process writes to a pipe; fail where it ends before that, or never does."""
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        for _ in range(PATIENCE):
            is_over = process.poll() is not None
            # Not by select, which takes no file numbers from 1,024 on.
            if wait([reader], 1) and (output := reader.read()):
                return output.decode()
            assert not is_over, process.communicate(timeout=PATIENCE)[1]
    raise AssertionError("the run has not begun")


def let_go(process, pipe):
    """Open and close a pipe as soon as the process reads it; fail where it ends before that."""
    for _ in range(PATIENCE):
        try:
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody reads it yet
            assert process.poll() is None, process.communicate(timeout=PATIENCE)[1]
            time.sleep(1)
        else:
            return
    raise AssertionError("the run does not wait")


@pytest.fixture
def waiting_run(tmp_path, data_file, pipes):
    """Start three runs. The second one reports that it has begun, and waits."""
    command = [
        sys.executable, "-m", "acqh", "bench", str(data_file), "--methods", "waiting",
        "--method-file", f"{PLUGINS}:Waiting", "--bytes", "1", "--protocol", "labelled",
        "--splits", "3", "--threads", "1", "--out", str(tmp_path / "out"), "--json",
    ]  # fmt: skip
    with subprocess.Popen(
        command,
        env={**os.environ, "WAITING_PIPES": str(pipes)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert read_message(process, pipes / "begun") == "fit"
            yield process
        finally:
            process.kill()


@needs_pipes
def test_a_killed_bench_resumes_with_the_interrupted_run(tmp_path, data_file, waiting_run):
    with (
        pytest.raises(InvalidInputError, match="another process"),
        Store(tmp_path / "out").locked(),
    ):
        pass
    waiting_run.kill()
    waiting_run.communicate(timeout=PATIENCE)
    store = Store(tmp_path / "out")
    assert [record["setting"]["seed"] for record in store.records()] == [0]
    settings = settings_of(data_file, "Waiting")
    runs = runs_of(data_file, "waiting", protocols=("labelled",), seeds=(0, 1, 2))
    summary = Plan(tuple(runs), store, settings).run()
    assert (summary.n_stored, summary.n_done) == (1, 2)
    full = run_in_process(runs, data_file)
    for record in Store(tmp_path / "out").records():
        rows = full[record["key"]][0]["rows"]
        assert without_times(record["rows"]) == without_times(rows)


def test_results_are_not_written_into_a_bundle(tmp_path):
    acqh.CodeIndex(np.zeros((1, 256, 2), np.float32)).save(tmp_path / "index.acqh")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInputError, match="index"):
        bench.plan(["emoji"], out=tmp_path / "index.acqh", methods=["random"], bits=[8])
    assert sorted(tmp_path.rglob("*")) == before


@needs_pipes
def test_an_interrupt_stops_after_the_current_run(tmp_path, pipes, waiting_run):
    waiting_run.send_signal(signal.SIGINT)
    let_go(waiting_run, pipes / "go")
    output, errors = waiting_run.communicate(timeout=PATIENCE)
    assert waiting_run.returncode == 1
    summary = json.loads(output)
    assert (summary["n_done"], summary["n_left"]) == (2, 1), errors
    assert "Traceback" not in errors
    assert len(Store(tmp_path / "out").records()) == 2

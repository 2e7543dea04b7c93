import json
from dataclasses import fields
from hashlib import sha256

import numpy as np
import pytest

import acqh
from acqh.bench import ResultRow, Store
from acqh.bench.running.evaluate import open_data
from acqh.bench.running.runs import plan_runs
from acqh.bench.running.variants import make_variant
from acqh.bench.running.worker import Workbench, WorkerSettings, machine, versions
from acqh.data import save_npz

# Importing this one registers methods that are for one test's run only.
collect_ignore = ["run/plugin_methods.py"]


@pytest.fixture(scope="session")
def bench_folder(tmp_path_factory):
    """Return a folder with runs of a tiny data set, run by the real runner."""
    folder = tmp_path_factory.mktemp("bench")
    data_file = folder / "tiny.npz"
    save_npz(acqh.make_multiview(120, n_labels=3, random_state=0), data_file)
    labels = ("acqh", "acqh-paper", "dch", "cvh", "label-ridge", "random")
    variants = tuple(make_variant(label) for label in labels)
    grid = {"lengths": (8, 32), "protocols": ("labelled", "unlabelled"), "seeds": (0, 1)}
    runs = plan_runs([open_data(str(data_file))], variants, **grid, n_threads=1)
    bench = Workbench(WorkerSettings(1, {"tiny": str(data_file)}))
    store = Store(folder / "results")
    context = {"versions": versions(), "machine": machine(), "finished": 0.0}
    for run in runs:
        facts, curves, _ = bench.run(run)
        store.write({**run.header(), **facts, **context}, curves)
    return store.path


class Written:
    """A store of made-up runs, for tests that need to know every value."""

    def __init__(self, path):
        self.store = Store(path)
        self.path = path

    def add(self, label="acqh", *, ap=(0.5, 0.5), status="done", **facts):
        """Write a run in two directions whose queries have these average precisions."""
        settings = {
            "dataset": "wiki", "data_sha256": "0" * 64, "preparation": {}, "protocol": "labelled",
            "database": "training", "method": label.split()[0], "params": {"n_bits": 32},
            "feature_maps": None, "seed": 0, "code": "0" * 64, "official": False, "n_threads": 1,
        }  # fmt: skip
        setting = {name: facts.pop(name, value) for name, value in settings.items()}
        row = {field.name: 0 for field in fields(ResultRow)}
        row |= {name: setting[name] for name in ("dataset", "protocol", "method", "database")}
        row |= {"bytes_per_item": 4, "n_components": 32, "fit_seconds": 1.0, "query_seconds": 0.5}
        row |= {"n_train": 2173, "n_query": 693, "n_database": 2173, "seed": setting["seed"]}
        row |= {"map_all": np.nanmean(ap), "map_50": 0.9 * np.nanmean(ap)}
        row |= {"map_100": 0.8 * np.nanmean(ap)}
        row |= facts.pop("row", {})
        rows = [{**row, "direction": way} for way in ("image->text", "text->image")]
        record = {
            "key": sha256(json.dumps([setting, facts], default=str).encode()).hexdigest()[:16],
            "setting": setting, "label": label,
            "n_components_requested": 32, "bytes_requested": 4, "status": status, "reason": None,
            "rows": rows if status == "done" else [], "objective": None, "peak_bytes": 1,
            "split_hash": f"split {setting['seed']}", "versions": {"acqh": "0.1.0"},
            "machine": {"processor": "abacus"}, "finished": float(len(self.store.records())),
            **facts,
        }  # fmt: skip
        curves = {"top_n": np.array([1, 2, 3])}
        for place in range(2):
            curves[f"ap_{place}"] = np.asarray(ap, dtype=np.float32)
            curves[f"precision_top_n_{place}"] = np.array([0.9, 0.8, 0.7])
            curves[f"recall_{place}"] = np.array([0.1, 0.5, 1.0])
            curves[f"precision_{place}"] = np.array([0.9, 0.8, 0.7])
        self.store.write(record, curves if status == "done" else None)
        return record["key"]


@pytest.fixture
def written(tmp_path):
    """Return an empty store to which made-up runs can be added."""
    return Written(tmp_path / "results")

"""Kernel maps against linear and RBF-anchor maps: retrieval, seconds, memory and model size.

``python -m benchmarks.quality.kernel_maps`` prints one JSON line a setting; needs the data files
(set ACQH_DATA). MIRFlickr25K has deep features, 10,000 training pairs, 2,000 queries, 3,677
database items outside the training set and without labels, encoded in 4 bytes from the one view
searched, or from both. Wiki is a labelled database, with its official split or (``--data
wiki-random``) the mean of five random ones, as in published results. MAP over the whole ranking,
image and text queries. Bandwidths, kernels, their weights and ridges are chosen on training rows
alone. Every setting runs in a process of its own; seconds are those of ``fit``, with as many
threads as BLAS is given, and those of all its threads together (``fit_cpu_seconds``), which other
work on the machine stretches less. Queries are timed one by one and in a batch of 512, in
milliseconds of all threads.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

import acqh
from acqh.bench import make_split
from acqh.features import KernelMap, RBFAnchors, SignedRoot
from acqh.metrics import mean_average_precision, relevance
from benchmarks._measure import emit, resident

GOALS = {"one": (0.785, 0.805), "both": (0.865, 0.805), "wiki": (0.43, 0.80)}
RANDOM_SPLITS = 5
MAPS = ("linear", "rbf 500", "rbf 2000", "kernel 2000", "kernel")


def make_maps(name: str, seed: int) -> Any:
    kind, _, n_anchors = name.partition(" ")
    if kind == "linear":
        return None
    if kind == "rbf":
        anchors = RBFAnchors(int(n_anchors), variant="rbf_scaled", random_state=seed)
        return make_pipeline(SignedRoot(), anchors)
    few = {"n_anchors": int(n_anchors)} if n_anchors else {}
    return KernelMap(random_state=seed, **few)


def fit(data: Any, split: Any, maps: str, seed: int) -> tuple[acqh.ACQH, Any, dict[str, Any]]:
    parts = split.parts(data)
    model = acqh.ACQH(32, n_codebooks=4, feature_maps=make_maps(maps, seed), random_state=seed)
    warm = acqh.make_multiview(60, n_labels=3, random_state=0)
    acqh.ACQH(4, n_codebooks=1, feature_maps="kernel", random_state=0).fit(warm.views, warm.labels)
    before, start, cpu = resident("VmHWM"), time.perf_counter(), time.process_time()
    model.fit(parts.train)
    cost = {
        "fit_cpu_seconds": round(time.process_time() - cpu, 1),
        "fit_seconds": round(time.perf_counter() - start, 1),
        "peak_mb": round((resident("VmHWM") - before) / 2**20),
    }
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    cost["model_mb"] = round(size / 2**20, 1)
    for view in ("image", "text"):
        queries = parts.query.views[view]
        single = [queries[row : row + 1] for row in range(50)]
        model.project(single[0], view=view)
        start = time.process_time()
        for query in single:
            model.project(query, view=view)
        cost[f"{view}_query_cpu_ms"] = round(1000 * (time.process_time() - start) / 50, 3)
        start = time.process_time()
        model.project(queries[:512], view=view)
        cost[f"{view}_batch_cpu_ms"] = round(1000 * (time.process_time() - start) / 512, 3)
    return model, parts, cost


def scores(model: acqh.ACQH, parts: Any, codes: dict[str, Any]) -> dict[str, Any]:
    """Return MAP of image and text queries, each on the items that are its database."""
    relevant = relevance(parts.query.labels, parts.database_labels)
    values = []
    for view, items in codes.items():
        queries = model.project(parts.query.views[view], view=view)
        ranked = (queries @ items.T).astype(np.float32)
        values.append(round(mean_average_precision(ranked, relevant), 4))
    return {"map_all": values}


def mirflickr(maps: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    data = acqh.load_dataset("mirflickr25k", arguments.data_dir, features="deep")
    seed = arguments.seed
    split = make_split(data, "unlabelled", seed=seed, n_train=arguments.n_train)
    model, parts, cost = fit(data, split, maps, seed)
    views = {view: parts.database.views[view] for view in ("image", "text")}
    alone = {view: {view: rows} for view, rows in views.items()}
    ways = {
        "one": {"image": alone["text"], "text": alone["image"]},
        "both": {"image": views, "text": views},
    }
    lines = []
    for way, views_of in ways.items():
        coded = {
            view: model.decode(model.encode(view_rows)) for view, view_rows in views_of.items()
        }
        exact = {view: model.embed(view_rows) for view, view_rows in views_of.items()}
        record = scores(model, parts, coded)
        record["real_valued"] = scores(model, parts, exact)["map_all"]
        goal = GOALS[way] if maps == "kernel" and arguments.n_train == 10_000 else None
        reached = None if goal is None else bool(np.all(np.array(record["map_all"]) >= goal))
        record |= {"database": f"{way}, unlabelled", "goal": goal, "reached": reached}
        lines.append({**record, **cost, "chosen": chosen(model)})
    return lines


def predictions_alone(model: acqh.ACQH, parts: Any) -> list[float]:
    """Return MAP where the map's predictions of label vectors rank, without a second regression."""
    items = model.space_.embedding.transform(np.asarray(parts.train.labels))
    relevant = relevance(parts.query.labels, parts.database_labels)
    values = []
    for view in ("image", "text"):
        ranked = model.feature_maps_[view].transform(parts.query.views[view]) @ items.T
        values.append(round(mean_average_precision(ranked.astype(np.float32), relevant), 4))
    return values


def wiki(maps: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    data = acqh.load_dataset("wiki", arguments.data_dir)
    split = make_split(data, "labelled", official=True)
    model, parts, cost = fit(data, split, maps, arguments.seed)
    items = model.decode(model.encode(labels=parts.train.labels))
    record = scores(model, parts, {"image": items, "text": items})
    record |= {"database": "labelled", **against(record["map_all"], maps)}
    if maps.startswith("kernel"):
        record["predictions_alone"] = predictions_alone(model, parts)
    return [{**record, **cost, "chosen": chosen(model)}]


def wiki_random(maps: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the mean over random splits; every seed draws its split and starts its model."""
    data = acqh.load_dataset("wiki", arguments.data_dir)
    values, seconds = [], []
    for seed in range(arguments.seed, arguments.seed + RANDOM_SPLITS):
        split = make_split(data, "labelled", seed=seed)
        model, parts, cost = fit(data, split, maps, seed)
        items = model.decode(model.encode(labels=parts.train.labels))
        values.append(scores(model, parts, {"image": items, "text": items})["map_all"])
        seconds.append(cost["fit_cpu_seconds"])
    mean = np.mean(values, axis=0).round(4).tolist()
    record = {"map_all": mean, "std": np.std(values, axis=0, ddof=1).round(4).tolist()}
    record |= {"database": "labelled", **against(mean, maps), "splits": values}
    return [{**record, "fit_cpu_seconds": round(float(np.mean(seconds)), 1)}]


def against(values: list[float], maps: str) -> dict[str, Any]:
    """Return the goal of Wiki, and whether kernels of all rows reach it."""
    goal = GOALS["wiki"] if maps == "kernel" else None
    return {"goal": goal, "reached": goal and bool(np.all(np.array(values) >= goal))}


def chosen(model: acqh.ACQH) -> dict[str, Any]:
    settings = {}
    for view, feature_map in model.feature_maps_.items():
        if isinstance(feature_map, KernelMap):
            settings[view] = {
                "weights": feature_map.weights_.round(3).tolist(),
                "ridge": round(feature_map.ridge_, 4),
                "held_out_error": round(feature_map.error_, 4),
                "anchors": feature_map.anchors_.shape[0],
                "stored_as": str(feature_map.anchors_.dtype),
            }
    return settings


DATA = {"mirflickr": mirflickr, "wiki": wiki, "wiki-random": wiki_random}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=None, help="folder with the data; default $ACQH_DATA")
    parser.add_argument("--data", choices=tuple(DATA), default=None)
    parser.add_argument("--maps", choices=MAPS, default=None)
    parser.add_argument("--n-train", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.data and arguments.maps:
        for record in DATA[arguments.data](arguments.maps, arguments):
            line = {"benchmark": "kernel_maps", "data": arguments.data, "maps": arguments.maps}
            emit({**line, "seed": arguments.seed, **record})
        return
    for data in [arguments.data] if arguments.data else DATA:
        for maps in [arguments.maps] if arguments.maps else MAPS:
            command = [
                sys.executable,
                "-m",
                "benchmarks.quality.kernel_maps",
                "--data",
                data,
                "--maps",
                maps,
            ]
            command += ["--n-train", str(arguments.n_train), "--seed", str(arguments.seed)]
            command += ["--data-dir", arguments.data_dir] if arguments.data_dir else []
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()

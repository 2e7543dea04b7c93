"""The experiments of the ACQH paper: which there are, and how one is carried out.

Query vectors and codes have K = 8 to 128 components or bits, additive codes four codebooks, and
the database is the training set, as in the paper. Figures are at K = 32.
"""

import json
import time
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
import scipy.sparse as sp

import acqh
from acqh._core.runtime import limit_threads
from acqh.bench import make_split
from acqh.bench.running.evaluate import check_database, measure, of_memory, open_data, prepare
from acqh.bench.running.variants import make_variant
from acqh.metrics import mean_average_precision, relevance
from benchmarks.paper import as_printed
from benchmarks.paper.published import PAPER

LENGTHS, MIDDLE, N_CODEBOOKS = tuple(PAPER["n_components"]), 32, 4
TRIVIAL = ("label-ridge", "cca")
METHODS = (*(name for names in PAPER["methods"].values() for name in names), *TRIVIAL)
# With the errors that acqh-paper corrects, and with one of them corrected: weights of a term of h.
AS_PRINTED, WITH_WEIGHT = "acqh-paper as printed", "acqh-paper as printed, \u03bb in h"
PRINTED = {AS_PRINTED: 1.0, WITH_WEIGHT: as_printed.LABEL_WEIGHT}
TIMED_BY_SIZE = ("acqh", "acqh-paper", "dch", "fdch")
TRAIN_SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
TOP_N = (1, 2, 5, 10, 20, 50, *range(100, 1001, 100))
N_CURVE_POINTS = 40
CUTOFFS = {"map_all": None, "map_500": 500, "map_100": 100, "map_50": 50}
# Around the paper's values, 1e-2, 1e-4 and 4; its figures show no scale.
SENSITIVITY = {
    "label_ridge": (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e2),
    "label_weight": (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    "n_codebooks": (1, 2, 3, 4, 6, 8),
}
NUSWIDE, SYNTHETIC = "nuswide10", "synthetic-nuswide10"


@dataclass(frozen=True)
class Plan:
    """Extent of the experiments."""

    lengths: tuple[int, ...] = LENGTHS
    n_seeds: int = PAPER["n_runs"]
    n_synthetic: int | None = None  # items of the synthetic NUS-WIDE; None: as many as the real one
    synthetic_lengths: tuple[int, ...] = LENGTHS
    shares: tuple[float, ...] = TRAIN_SHARES
    sensitivity: dict = field(default_factory=lambda: SENSITIVITY)


QUICK = Plan(
    lengths=(8, 32, 128),
    n_seeds=2,
    n_synthetic=4_000,
    synthetic_lengths=(MIDDLE,),
    shares=(0.2, 0.6, 1.0),
    sensitivity={name: values[::2] for name, values in SENSITIVITY.items()},
)


def list_jobs(datasets, plan):
    """Return all experiments as dicts, in the order in which they are carried out."""
    jobs = []
    for data in datasets:
        lengths = plan.synthetic_lengths if data == SYNTHETIC else plan.lengths
        # Synthetic data say nothing of quality, so one split is enough for its times.
        n_seeds = 1 if data == SYNTHETIC else plan.n_seeds
        for seed in range(n_seeds):
            for method in METHODS:
                sizes = lengths if method not in TRIVIAL else (MIDDLE,)
                jobs += [
                    {"part": "map", "data": data, "method": method, "K": length, "seed": seed}
                    for length in sizes
                ]
        jobs += [
            {"part": "training-size", "data": data, "method": method, "share": share, "seed": 0}
            for method in TIMED_BY_SIZE
            for share in plan.shares
        ]
        if data == SYNTHETIC:
            continue
        jobs += [
            {"part": "as-printed", "data": data, "method": method, "K": length, "seed": seed}
            for seed in range(n_seeds)
            for method in PRINTED
            for length in lengths
        ]
        jobs.append({"part": "convergence", "data": data, "method": "acqh-paper", "seed": 0})
        jobs += [
            {"part": "sensitivity", "data": data, "method": "acqh-paper", "parameter": parameter,
             "value": value, "seed": 0}
            for parameter, values in plan.sensitivity.items()
            for value in values
        ]  # fmt: skip
    return jobs


def key_of(job, sources):
    """Return what identifies a result: the experiment, the contents of the data, the version."""
    return json.dumps([job, sources[job["data"]].sha256, acqh.__version__], sort_keys=True)


def open_sources(data_dir, plan):
    """Return the data sets of the paper that are there, and a synthetic NUS-WIDE if it is not."""
    available = {info.name for info in acqh.list_datasets(data_dir) if info.is_available}
    sources = {name: open_data(name, data_dir) for name in PAPER["counts"] if name in available}
    if NUSWIDE not in sources:
        options = {} if plan.n_synthetic is None else {"n_items": plan.n_synthetic}
        sources[SYNTHETIC] = of_memory(acqh.make_multiview_like(NUSWIDE, random_state=0, **options))
    return sources


def make_method(name, length, seed, **settings):
    """Return an unfitted method with codes or vectors of a length."""
    variant = make_variant(name)
    params = variant.cls().get_params(deep=False)
    if "n_bits" in params:
        settings["n_bits"] = length
    elif "n_codebooks" in params:
        settings = {"n_components": length, "n_codebooks": N_CODEBOOKS, **settings}
    if "random_state" in params:
        settings["random_state"] = seed
    return variant.cls(**{**variant.params, **settings})


class Runner:
    """Carries out experiments on one thread; keeps the last split."""

    def __init__(self, sources):
        self.sources = sources
        self._split = None, None, None

    def run(self, job):
        """Return the result of an experiment as JSON values; times are processor seconds."""
        split, parts = self._parts(job)
        if job["part"] == "as-printed":
            with limit_threads(1):
                return _run_as_printed(parts, job)
        settings = {job["parameter"]: job["value"]} if "parameter" in job else {}
        method = make_method(job["method"], job.get("K", MIDDLE), job["seed"], **settings)
        with limit_threads(1):
            started = time.process_time()
            method.fit(parts.train.views, parts.train.labels)
            fit_seconds = time.process_time() - started
            if job["part"] == "training-size":
                return {"n_train": len(parts.train), "fit_seconds": fit_seconds}
            if job["part"] == "convergence":
                labels = _dense(parts.train.labels).astype(float)
                constant = len(parts.train.views) * np.sum((labels.T @ labels) ** 2)
                return {"objective": (np.asarray(method.objective_) / constant).tolist()}
            database = check_database(method, parts, method.info.modes[0])
            has_curves = job["part"] == "map" and job.get("K") == MIDDLE and job["seed"] == 0
            measured = measure(
                method, split, parts, database, fit_seconds, top_n=TOP_N if has_curves else (),
                curve=has_curves, n_threads=1,
            )  # fmt: skip
        columns = ("map_all", "map_50", "map_100", "fit_seconds", "query_seconds")
        directions = {
            row.direction: {name: getattr(row, name) for name in columns}
            | (_curves(result) if has_curves else {})
            for row, result, _ in measured
        }
        result = {"directions": directions, "n_train": len(split.train)}
        result["n_query"] = len(split.query)
        if job["part"] == "map" and job["data"] != SYNTHETIC:
            for direction, values in directions.items():
                values["map_500"] = _map_at(method, parts, database, direction, 500)
        if job["part"] == "map" and database != "single" and job["data"] != SYNTHETIC:
            with limit_threads(1):
                rows = measure(method, split, parts, "single", fit_seconds, n_threads=1)
            result["single"] = {row.direction: row.map_all for row, *_ in rows}
        return result

    def _parts(self, job):
        share = job.get("share", 1.0)
        key = job["data"], job["seed"], share
        if self._split[0] != key:
            source = self.sources[job["data"]]
            n_all = len(make_split(source.data, "labelled", seed=job["seed"]).train)
            n_train = None if share == 1.0 else round(share * n_all)
            split = make_split(source.data, "labelled", seed=job["seed"], n_train=n_train)
            self._split = key, split, split.parts(prepare(source, split))
        return self._split[1:]


def _map_at(method, parts, database, direction, cutoff):
    """Return the mean average precision of the first items, with ties in expectation."""
    view, searched = direction.split("->")
    items = parts.database
    views = dict(items.views) if database == "fused" else {searched: items.views[searched]}
    labels = {"labels": items.labels} if database == "training" else {}
    distinct, code_of = np.unique(
        method.encode(views, mode=database, **labels), axis=0, return_inverse=True
    )
    queries = method.embed_queries(parts.query.views[view], view=view)
    # Equal codes must have equal scores.
    scores = np.asarray(queries @ method.decode(distinct).T, dtype=np.float32)[:, code_of.ravel()]
    relevant = relevance(parts.query.labels, parts.database_labels)
    return mean_average_precision(scores, relevant, cutoff=cutoff)


def _dense(labels):
    return labels.toarray() if sp.issparse(labels) else np.asarray(labels)


def _run_as_printed(parts, job):
    """Return MAP and the objective of Algorithm 1 with the errors in its formulas."""
    train, labels = parts.train.views, _dense(parts.train.labels)
    rng = np.random.default_rng(job["seed"])
    projections, vectors, objective = as_printed.run(
        train, labels, job["K"], N_CODEBOOKS, rng, PRINTED[job["method"]]
    )
    relevant = relevance(parts.query.labels, parts.database_labels)
    directions = {}
    for view, searched in permutations(train):
        scores = (parts.query.views[view] @ projections[view]) @ vectors.T
        directions[f"{view}->{searched}"] = {
            column: mean_average_precision(scores, relevant, cutoff=cutoff)
            for column, cutoff in CUTOFFS.items()
        }
    return {"directions": directions, "objective": objective}


def _curves(result):
    recall, precision = result.curve.recall, result.curve.precision
    ranks = np.unique(np.linspace(0, len(recall) - 1, N_CURVE_POINTS).astype(int))
    return {
        "top_n": [list(result.top_n), np.round(result.precision, 4).tolist()],
        "precision_recall": [recall[ranks].round(4).tolist(), precision[ranks].round(4).tolist()],
    }

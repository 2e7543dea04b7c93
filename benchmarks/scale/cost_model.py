"""What an item costs, stage by stage, and what that says for up to 10^11 of them; one JSON line.

A model of few constants, each measured here on one core and small data: seconds per item for the
sums, for codes, for an index; milliseconds per query; bytes per item on disk, in memory and on the
network. ``--check`` takes the JSON lines that ``scale/billion.py``, ``scale/out_of_core.py`` and
``scale/dask_scaling.py`` printed and says how far off the model is on longer runs;
``--plot`` draws it.

The work of the sums grows with the squares of the views' widths and that of coding with the widths,
so both are measured at two widths and the rest is a straight line.
"""

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Before NumPy is imported.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import numpy as np

import acqh
from acqh.scale import build_index
from acqh.scale.parts import encode_chunk
from acqh.stats import Statistics
from benchmarks._measure import emit
from benchmarks.scale.billion import Codes, write_codes

N_COMPONENTS, N_CODEBOOKS, N_LABELS = 32, 4, 24
N_ITEMS = 16_384
WIDTHS = (256, 1024)
INDEX_SIZES = (10**6, 10**7, 10**8)
N_QUERIES, K = 100, 10
# What is estimated: two views of 512 numbers, as CLIP gives, in partitions of this many items, with
# this many different label sets.
VIEWS = (512, 512)
PARTITION, N_SETS = 65_536, 1000
SIZES = (10**9, 10**10, 10**11)
# Rows of an index are numbered in 32 bits.
MAX_SHARD = 2**32 - 1
# A machine that can be hired anywhere; the system and the work get a quarter of its memory.
CORES, MEMORY = 16, 64 * 2**30
Record = dict[str, Any]


@dataclass(frozen=True)
class Costs:
    """What one core of this machine takes; bytes are of features in float32.

    Attributes
    ----------
    sums_square, sums_width : float
        Seconds per item for the sums of a view, by the square of its width and by its width.
    code_width, code_rest : float
        Seconds to encode an item, by the width of its views, and the rest.
    build_scale, build_power : float
        Building an index of N items takes ``build_scale * N ** build_power`` seconds: more than N
        times one item, since the larger an index is, the less of it the caches hold.
    query_scale, query_power : float
        A query of it takes ``query_scale * N ** query_power`` seconds.
    stored_bytes : float
        Bytes per item of an index, with running numbers as ids.
    """

    sums_square: float
    sums_width: float
    code_width: float
    code_rest: float
    build_scale: float
    build_power: float
    query_scale: float
    query_power: float
    stored_bytes: float

    def sums(self, n_items: float, widths: tuple[int, ...]) -> float:
        """Seconds to collect the sums that a model is learnt from."""
        item = sum(self.sums_square * width**2 + self.sums_width * width for width in widths)
        return n_items * item

    def codes(self, n_items: float, widths: tuple[int, ...]) -> float:
        """Seconds to encode items from their views."""
        return n_items * (self.code_width * sum(widths) + self.code_rest)

    def build(self, n_items: float) -> float:
        """Seconds to build as few indexes as can hold the items."""
        n_shards = math.ceil(n_items / MAX_SHARD)
        return float(n_shards * self.build_scale * (n_items / n_shards) ** self.build_power)

    def query(self, n_items: float) -> float:
        """Seconds to find the ten best of all items, in as few indexes as can hold them."""
        n_shards = math.ceil(n_items / MAX_SHARD)
        return float(n_shards * self.query_scale * (n_items / n_shards) ** self.query_power)


def fastest(work: Callable[[], Any], n_rounds: int = 5) -> float:
    """Return the processor's seconds of the quickest of several rounds, after one to warm up."""
    work()
    seconds = []
    for _ in range(n_rounds):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def measure(codes: Path) -> Costs:
    """Return the constants of this machine."""
    sums, coding = zip(*map(item_costs, WIDTHS), strict=True)
    # Two equations of two unknowns each.
    squares = np.linalg.solve([[width**2, width] for width in WIDTHS], sums)
    lines = np.linalg.solve([[width, 1.0] for width in WIDTHS], coding)
    paths = write_codes(codes, INDEX_SIZES[-1])
    codebooks, queries = (np.load(codes / f"{name}.npy") for name in ("codebooks", "queries"))
    costs = [index_costs(codebooks, Codes(paths, n), queries[:N_QUERIES]) for n in INDEX_SIZES]
    building, searching, stored = zip(*costs, strict=True)
    laws = [*power_law(building), *power_law(searching)]
    return Costs(*map(float, [*squares, *lines, *laws, stored[-1]]))


def power_law(seconds: tuple[float, ...]) -> tuple[float, float]:
    """Return scale and power of the law nearest to what indexes of growing size took."""
    power, scale = np.polyfit(np.log(INDEX_SIZES), np.log(seconds), 1)
    return np.exp(scale), power


def item_costs(width: int) -> tuple[float, float]:
    """Return the seconds per item for sums and for codes, of one view."""
    items = make_items(width)
    model = acqh.ACQH(N_COMPONENTS, n_codebooks=N_CODEBOOKS, random_state=0).fit(items)
    sums = fastest(lambda: Statistics.from_views(items.views, items.labels))
    coding = fastest(lambda: encode_chunk(model, items))
    return sums / N_ITEMS, coding / N_ITEMS


def index_costs(codebooks: Any, codes: Codes, queries: Any) -> tuple[float, float, float]:
    """Return the seconds to build, the seconds per query, and the bytes per item."""
    build_index(codebooks, Codes(codes.paths, 1000))  # compiles
    started = time.process_time()
    index = build_index(codebooks, codes)
    building = time.process_time() - started
    searching = fastest(lambda: index.search(queries, K, n_threads=1))
    return building, searching / len(queries), index.bytes_per_item


def make_items(width: int) -> acqh.MultiViewData:
    """Return items of one view of this width, with two labels each."""
    rng = np.random.default_rng(0)
    labels = np.zeros((N_ITEMS, N_LABELS), dtype=np.uint8)
    for column in rng.integers(N_LABELS, size=(2, N_ITEMS)):
        labels[np.arange(N_ITEMS), column] = 1
    noise = rng.standard_normal((N_ITEMS, width), dtype=np.float32)
    view = labels @ rng.standard_normal((N_LABELS, width), dtype=np.float32) + 2 * noise
    return acqh.MultiViewData({"image": view}, labels)


def estimate(costs: Costs, n_items: int) -> Record:
    """Return what that many items take: hours, machines, memory, network."""
    index_bytes = costs.stored_bytes * n_items
    n_machines = max(1, math.ceil(index_bytes / (0.75 * MEMORY)))
    hours = {
        "sums": costs.sums(n_items, VIEWS) / 3600,
        "codes": costs.codes(n_items, VIEWS) / 3600,
        "index": costs.build(n_items) / 3600,
    }
    # A partition's sums are sent once; codes and shards are written where they are made.
    sums_bytes = 8 * sum(width**2 + N_SETS * width for width in VIEWS)
    return {
        "n_items": n_items,
        "core_hours": {name: float(f"{value:.2g}") for name, value in hours.items()},
        "machines": n_machines,
        "hours_on_them": round(sum(hours.values()) / (CORES * n_machines), 1),
        "features_tb": round(4 * sum(VIEWS) * n_items / 1e12, 1),
        "index_gb": round(index_bytes / 1e9, 1),
        "shards": max(n_machines, math.ceil(n_items / MAX_SHARD)),
        "query_ms_one_core": round(1e3 * costs.query(n_items), 2),
        "network_bytes_an_item": round(sums_bytes / PARTITION, 1),
        "items_a_code": round(n_items / 256**N_CODEBOOKS, 2),
    }


def check(costs: Costs, records: list[Record]) -> list[Record]:
    """Return the predictions of the model and the measurements of longer runs."""
    lines = []
    for record in records:
        n_items = record.get("n_items", record.get("rows"))
        ours: dict[str, float] = {}
        match record["benchmark"], record["case"]:
            case "billion", "clustered vectors":
                ours["build_s"] = costs.build(n_items)
                ours["top10_batch_ms"] = 1e3 * costs.query(n_items)
                ours["bytes_per_item"] = costs.stored_bytes
            case "out_of_core", "fit":
                ours["seconds"] = costs.sums(n_items, (1024, 1024))
            case "out_of_core", "encode":
                ours["seconds"] = costs.codes(n_items, (1024, 1024))
            case "dask_scaling", "fit":
                ours["workers_1_s"] = costs.sums(n_items, (512, 256))
            case "dask_scaling", "encode":
                ours["workers_1_s"] = costs.codes(n_items, (512, 256))
        for quantity, value in ours.items():
            line = {"run": f"{record['benchmark']}, {record['case']}", "n_items": n_items}
            line |= {"what": quantity, "model": float(f"{value:.3g}"), "measured": record[quantity]}
            lines.append(line | {"ratio": round(record[quantity] / value, 2)})
    return lines


def draw(costs: Costs, checks: list[Record], path: Path) -> None:
    """Draw hours of one core and milliseconds per query against the number of items."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "acqh"
    sizes = np.logspace(6, 11, 101)
    figure, (work, query) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    stages = {
        "sums of two views of 512": lambda n: costs.sums(n, VIEWS),
        "codes": lambda n: costs.codes(n, VIEWS),
        "index": costs.build,
    }
    for name, seconds in stages.items():
        work.loglog(sizes, [seconds(n) / 3600 for n in sizes], label=name)
    query.loglog(sizes, [1e3 * costs.query(n) for n in sizes], label="model, measured to 10⁸")
    for quantity, axes, unit in (("build_s", work, 3600), ("top10_batch_ms", query, 1)):
        runs = [line for line in checks if line["what"] == quantity]
        points = [[line["n_items"] for line in runs], [line["measured"] / unit for line in runs]]
        axes.loglog(*points, "ko", markersize=4, label="measured" if axes is query else None)
    for axes in (work, query):
        axes.axvline(MAX_SHARD, color="0.7", linewidth=1, linestyle=":")
        axes.set_xlabel("items")
        axes.grid(visible=True, which="major", color="0.9")
        axes.legend(frameon=False, fontsize=8)
    work.set_title("Hours of one core", fontsize=10)
    query.set_title("Milliseconds per query, one core", fontsize=10)
    place = {"xycoords": ("data", "axes fraction"), "xytext": (4, 4), "textcoords": "offset points"}
    query.annotate("rows in 32 bits", (MAX_SHARD, 0.0), fontsize=7, color="0.4", **place)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codes", type=Path, help="folder of codes, as of billion.py")
    parser.add_argument("--check", type=Path, nargs="*", default=[], metavar="JSONL")
    parser.add_argument("--plot", type=Path, metavar="SVG")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        costs = measure(arguments.codes or Path(folder))
    lines = [line for path in arguments.check for line in path.read_text().splitlines()]
    checks = check(costs, [json.loads(line) for line in lines if line.startswith("{")])
    if arguments.plot is not None:
        draw(costs, checks, arguments.plot)
    record: Record = {
        "benchmark": "cost_model",
        "costs": {name: float(f"{value:.3g}") for name, value in asdict(costs).items()},
        "estimated": [estimate(costs, n_items) for n_items in SIZES],
        "checks": checks,
    }
    emit(record)


if __name__ == "__main__":
    main()

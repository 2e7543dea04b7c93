"""Recall of the true ten, milliseconds and bytes: acqh, Faiss, hnswlib, usearch and RaBitQ.

One JSON line a point. Items are the clustered vectors of ``speed/search.py`` (32 components),
queries of the same kind; recall is the share of the ten vectors of highest inner product that are
found. Times are milliseconds of processor time per query in a batch of 100, the best of
``--rounds``, in which all points of all curves take turns, so that what else the machine does meets
all of them. Bytes are those an item takes in memory, Faiss's with its 8 bytes for an id; what lies
on disk for re-ranking is listed separately. Every quantizer learns from the same 20,000 vectors,
acqh's being `AdditiveQuantizer`; "the same codes" are Faiss's inverted lists over the codes that
acqh searches. All search on one thread. ``--only FastScan`` leaves other baselines out, ``--plot``
draws the curves.

The last lines, of case "ahead", say for each baseline whether acqh reaches the same recall in less
time with no more bytes in memory; times between two points of a curve are interpolated. Compared
with an index of full vectors, which take more memory, acqh may also re-rank by vectors in memory.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np

from acqh._core.imports import require
from acqh.index import CodeIndex
from acqh.quantize import AdditiveQuantizer
from benchmarks._measure import emit
from benchmarks.speed.search import N_COMPONENTS, N_QUERIES, Vectors, build, recall, true_best

K = 10
# Recalls at which times are compared.
RECALLS = (0.3, 0.5, 0.8, 0.9, 0.95)
# Times that a point is timed when it is its turn.
N_IN_A_ROW = 3
# Vectors that all quantizers are trained on.
N_SAMPLE = 20_000
PRODUCT = faiss.METRIC_INNER_PRODUCT
Record = dict[str, Any]


def cpu_seconds(job: Callable[[], Any]) -> float:
    """Return the processor's time for a job, which others on the machine disturb little."""
    start = time.process_time()
    job()
    return time.process_time() - start


class Case:
    """The vectors, the queries and their true ten."""

    def __init__(self, vectors: Vectors, n: int, sizes: list[int]) -> None:
        self.items, self.queries = vectors.take(n), vectors.queries
        self.sizes = sizes  # bytes of a code
        self.n, self.truth = n, true_best(self.items, self.queries, K)

    @cache  # noqa: B019
    def index(self, n_codebooks: int) -> CodeIndex:
        """Return acqh's index of all items."""
        quantizer = AdditiveQuantizer(n_codebooks, random_state=0).fit(self.items[:N_SAMPLE])
        return build(quantizer.codebooks_, quantizer.encode(self.items))[0]


class Point(NamedTuple):
    """A search that returns ids, and what it takes."""

    index: str
    setting: str
    size: float
    search: Callable[[], np.ndarray]
    disk: float = 0

    def record(self, case: Case, seconds: float) -> Record:
        """Return what is printed of it."""
        return {
            "case": "recall curve",
            "index": self.index,
            "setting": self.setting,
            "n_items": case.n,
            "ms": round(seconds / N_QUERIES * 1e3, 5),
            "recall_of_true_10": recall(self.search(), case.truth),
            "bytes_per_item": round(self.size, 2),
            "disk_bytes_per_item": round(self.disk, 2),
        }


def measure(case: Case, points: list[Point], n_rounds: int) -> Iterator[Record]:
    """Time all points in turns; yield what is known of each."""
    best = [np.inf] * len(points)
    for _ in range(n_rounds):
        for i, point in enumerate(points):
            # Several times in a row: the first finds the cache full of what came before.
            best[i] = min([best[i], *(cpu_seconds(point.search) for _ in range(N_IN_A_ROW))])
    for point, seconds in zip(points, best, strict=True):
        yield point.record(case, seconds)


def ours(case: Case, folder: str) -> Iterator[Point]:
    scaled = case.items * (127 / np.abs(case.items).max())
    np.save(f"{folder}/full.npy", np.round(scaled).astype(np.int8))
    full = np.load(f"{folder}/full.npy", mmap_mode="r")

    def search_ids(index: CodeIndex, **settings: Any) -> np.ndarray:
        return index.search(case.queries, K, n_threads=1, **settings).ids

    for n_codebooks in case.sizes:
        index = case.index(n_codebooks)
        name, size, search = (
            f"acqh, {n_codebooks} codebooks",
            index.bytes_per_item,
            partial(search_ids, index),
        )
        for budget in (10, 20, 50, 100, 200, 300, 1000, 3000, 10_000):
            yield Point(name, f"budget={budget}", size, partial(search, budget=budget))
        for target in (0.5, 0.8, 0.95):
            yield Point(f"{name}, recall=", f"{target}", size, partial(search, recall=target))
        yield Point(name, "exact", size, search)
        efforts = ((20, 100), (20, 300), (50, 300), (30, 600), (50, 1000), (100, 1000))
        for n_again, budget in (*efforts, (200, 3000), (1000, 10_000)):
            yield Point(
                f"{name}, int8 on disk",
                f"rerank_k={n_again}, budget={budget}",
                size,
                partial(search, rerank=full, rerank_k=n_again, budget=budget),
                full.shape[1],
            )


def inverted(case: Case, only: str) -> Iterator[Point]:
    """Faiss's inverted lists over additive codes, product codes by FastScan, and RaBitQ."""
    n_lists = 1 << int(np.log2(np.sqrt(case.n)) + 1)
    additive = faiss.AdditiveQuantizer.ST_LUT_nonorm
    shape = (N_COMPONENTS, n_lists)
    builders: dict[str, tuple[Callable[[Any], Any], float]] = {
        "Faiss IVF, RaBitQ": (
            lambda lists: faiss.IndexIVFRaBitQ(lists, *shape, PRODUCT),
            N_COMPONENTS / 8 + 8 + 8,
        )
    }
    for n in case.sizes:
        builders |= {
            f"Faiss IVF, residual codes, {n} bytes": (
                lambda lists, n=n: faiss.IndexIVFResidualQuantizer(
                    lists, *shape, n, 8, PRODUCT, additive
                ),
                n + 8,
            ),
            f"Faiss IVF, the same codes, {n} bytes": (
                lambda lists, n=n: same_codes(case, lists, n_lists, n),
                n + 8,
            ),
            f"Faiss IVF, residual FastScan, {n} bytes": (
                lambda lists, n=n: faiss.IndexIVFResidualQuantizerFastScan(
                    lists, *shape, 2 * n, 4, PRODUCT, additive
                ),
                n + 8,
            ),
            f"Faiss IVF, PQ FastScan, {n} bytes": (
                lambda lists, n=n: faiss.IndexIVFPQFastScan(lists, *shape, 2 * n, 4, PRODUCT),
                n + 8,
            ),
        }

    def search_ids(index: Any, n_probe: int) -> np.ndarray:
        index.nprobe = n_probe
        return index.search(case.queries, K)[1]

    for name, (make, size) in builders.items():
        if only not in name:
            continue
        lists = faiss.IndexFlatIP(N_COMPONENTS)
        index = make(lists)
        if not index.is_trained:
            index.train(case.items[:N_SAMPLE])
            index.add(case.items)
        for n_probe in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            yield Point(name, f"nprobe={n_probe}", size, partial(search_ids, index, n_probe))


def same_codes(case: Case, lists: Any, n_lists: int, n_codebooks: int) -> Any:
    """Return Faiss's inverted lists over acqh's codes, which are not relative to the list."""
    index = case.index(n_codebooks)
    additive = faiss.AdditiveQuantizer.ST_LUT_nonorm
    faiss.IndexIVFFlat(lists, N_COMPONENTS, n_lists, PRODUCT).train(case.items[:N_SAMPLE])
    ivf = faiss.IndexIVFResidualQuantizer(
        lists, N_COMPONENTS, n_lists, n_codebooks, 8, PRODUCT, additive
    )
    ivf.by_residual = False
    theirs = index.to_faiss()  # kept, since its quantizer goes with it
    ivf.rq = theirs.rq
    ivf.is_trained = True
    places = ivf.quantizer.search(case.items, 1)[1][:, 0]
    codes = np.ascontiguousarray(index.codes)
    for number in np.unique(places):
        rows = np.flatnonzero(places == number)
        some = np.ascontiguousarray(codes[rows])
        ivf.invlists.add_entries(int(number), len(rows), faiss.swig_ptr(rows), faiss.swig_ptr(some))
    ivf.ntotal = case.n
    return ivf


def graphs(case: Case, only: str) -> Iterator[Point]:
    if only in "hnswlib, float32":
        graph = require("hnswlib").Index(space="ip", dim=N_COMPONENTS)
        graph.init_index(max_elements=case.n, M=16, ef_construction=100)
        graph.set_num_threads(1)
        graph.add_items(case.items)
        size = graph.index_file_size() / case.n

        def search_ids(effort: int) -> np.ndarray:
            graph.set_ef(effort)
            return graph.knn_query(case.queries, k=K)[0]

        for effort in (10, 20, 50, 100, 200, 400, 1000):
            yield Point("hnswlib, float32", f"ef={effort}", size, partial(search_ids, effort))
    if only in "usearch, float16":
        index_class = require("usearch.index").Index
        other = index_class(ndim=N_COMPONENTS, metric="ip", dtype="f16", connectivity=16)
        other.add(np.arange(case.n), case.items, threads=1)

        def search_graph(effort: int) -> np.ndarray:
            other.expansion_search = effort
            return other.search(case.queries, K, threads=1).keys

        for effort in (16, 32, 64, 128, 256, 1024):
            size = other.memory_usage / case.n
            yield Point("usearch, float16", f"ef={effort}", size, partial(search_graph, effort))


def time_at(points: list[tuple[float, float]], target: float) -> float | None:
    """Return the least time of a recall between points of (recall, time); None beyond the best."""
    best: float | None = None
    for recall_here, spent in points:
        if recall_here >= target:
            best = spent if best is None else min(best, spent)
        for higher, longer in points:
            if recall_here < target < higher and longer > spent:
                share = (target - recall_here) / (higher - recall_here)
                between = spent ** (1 - share) * longer**share
                best = between if best is None else min(best, between)
    return best


def ahead(records: list[Record]) -> Iterator[Record]:
    """Compare times at equal recall, of every baseline and acqh indexes that are no larger."""
    curves, sizes = defaultdict(list), {}
    for record in records:
        point = record["recall_of_true_10"], record["ms"]
        curves[record["index"]].append(point)
        sizes[record["index"]] = record["bytes_per_item"], record["disk_bytes_per_item"]
    for baseline, size in sizes.items():
        if baseline.startswith("acqh"):
            continue
        own_points = [
            point
            for name, points in curves.items()
            if name.startswith("acqh") and sum(sizes[name]) <= size[0]
            for point in points
        ]
        for target in RECALLS:
            ms, theirs = time_at(own_points, target), time_at(curves[baseline], target)
            yield {
                "case": "ahead",
                "baseline": baseline,
                "bytes_per_item": size[0],
                "recall": target,
                "acqh_ms": ms and round(ms, 4),
                "rival_ms": theirs and round(theirs, 4),
                "ahead": verdict(ms, theirs),
            }


def verdict(ours: float | None, theirs: float | None) -> str:
    if ours is None:
        return "neither" if theirs is None else "no"
    return "yes" if theirs is None or ours < theirs else "no"


def plot(records: list[Record], path: Path) -> None:
    """Draw recall against time, a line an index."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axes = figure.subplots()
    curves = defaultdict(list)
    for record in records:
        if record["index"].endswith("recall="):
            continue  # lies on the line of budgets
        label = f"{record['index']}: {record['bytes_per_item']:.0f} B"
        curves[label].append((record["ms"], record["recall_of_true_10"]))
    for label, points in curves.items():
        style = "-" if label.startswith("acqh") else "--"
        axes.plot(*zip(*sorted(points), strict=True), style, marker="o", markersize=3, label=label)
    axes.set(
        xscale="log",
        xlabel="milliseconds of processor time per query",
        ylabel="recall of the true ten",
    )
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, nargs="+", default=[4, 8], help="of a code")
    parser.add_argument("--plot", type=Path, help="write the curves as an SVG file")
    parser.add_argument("--only", default="", help="baselines whose name has this in it")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    case, only = Case(Vectors(), arguments.items, arguments.bytes), arguments.only
    records = []
    with tempfile.TemporaryDirectory() as folder:
        points = [*ours(case, folder), *inverted(case, only), *graphs(case, only)]
        for record in measure(case, points, arguments.rounds):
            records.append(record)
            emit(record)
    for record in ahead(records):
        emit(record)
    if arguments.plot:
        plot(records, arguments.plot)


if __name__ == "__main__":
    main()

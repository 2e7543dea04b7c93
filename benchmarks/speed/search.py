"""Search over codes against Faiss, hnswlib and usearch, one JSON line per case.

Times are milliseconds per query in a batch of 100 on one thread, tables included, the best of
several rounds in which all take turns. Faiss's additive index has the same codebooks and codes, and
its answers are checked: the same scores to 1e-5, the same ids except ties within that.

Items are clustered continuous vectors; every one is encoded on its own, greedily, with codebooks
that Faiss trained by residual k-means on a sample, so nearly all codes differ. The case ``graphs``
needs hnswlib and usearch and is skipped without them. ``--full`` adds 100 million items, growth to
20 million, and graphs over a million vectors: an hour and 8 GB.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from acqh import CodeIndex, compress
from acqh._core.imports import require
from acqh.errors import MissingExtraError
from acqh.quantize import decode
from acqh.scale.chunks import read_queries
from benchmarks._measure import emit, seconds, take_turns, timed

N_QUERIES = 100
N_COMPONENTS = 32
N_CODEBOOKS = 4
N_CENTRES = 1000
N_TRAIN = 50_000
CHUNK = 20_000
MILLION = 1_000_000
# (items, k, times faster than Faiss's additive index that must be reached)
GOALS = [
    (MILLION, 10, 150),
    (MILLION, 100, None),
    (MILLION, 1000, None),
    (10 * MILLION, 10, 1500),
    (10 * MILLION, 1000, 150),
]
FULL_GOALS = [(100 * MILLION, 10, 5000), (100 * MILLION, 1000, None)]
Record = dict[str, Any]


class Vectors:
    """Clustered vectors, any number of them, the same each time; and codes of them."""

    def __init__(self, n_codebooks: int = N_CODEBOOKS) -> None:
        rng = np.random.default_rng(0)
        scale = (1 + np.arange(N_COMPONENTS)) ** -0.5
        self.scale = (scale / np.sqrt(np.mean(scale**2))).astype(np.float32)
        self.centres = self.noise(rng, N_CENTRES)
        quantizer = faiss.ResidualQuantizer(N_COMPONENTS, n_codebooks, 8)
        quantizer.train(self.take(N_TRAIN))
        words = faiss.vector_to_array(quantizer.codebooks)
        self.codebooks = words.reshape(n_codebooks, 256, N_COMPONENTS)
        self.queries = self._chunk(10**9)[:N_QUERIES]

    def noise(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return what tells n vectors of one cluster apart, before it is scaled down."""
        return rng.standard_normal((n, N_COMPONENTS), dtype=np.float32) * self.scale

    def _chunk(self, number: int) -> np.ndarray:
        rng = np.random.default_rng([1, number])
        centres = self.centres[rng.integers(N_CENTRES, size=CHUNK)]
        return centres + np.float32(0.5) * self.noise(rng, CHUNK)

    def take(self, n: int) -> np.ndarray:
        """Return the first n vectors."""
        return np.concatenate([self._chunk(number) for number in range(-(-n // CHUNK))])[:n]

    def codes(self, n: int) -> np.ndarray:
        """Return the codes of the first n vectors: in each codebook the word nearest the rest."""
        halves = 0.5 * np.sum(self.codebooks**2, axis=2)
        codes = np.empty((n, len(self.codebooks)), dtype=np.uint8)
        for start in range(0, n, CHUNK):
            rest = self._chunk(start // CHUNK)[: n - start]
            for words, half, column in zip(self.codebooks, halves, codes.T, strict=True):
                word = np.argmax(rest @ words.T - half, axis=1)
                column[start : start + len(rest)] = word
                rest = rest - words[word]
        return codes


def best_times(jobs: dict[str, Callable[[], Any]], n_rounds: int, n_queries: int) -> Record:
    """Return milliseconds per query of each job; they take turns so noise affects all of them."""
    times = take_turns(jobs, n_rounds)
    return {f"{name}_ms": round(min(all_) / n_queries * 1e3, 5) for name, all_ in times.items()}


def same_answers(ours: Any, scores: np.ndarray, ids: np.ndarray) -> bool:
    """Whether scores agree to rounding and no id is missing that is clearly among the best."""
    slack = 1e-5 * np.abs(scores).max()
    if not np.allclose(ours.scores, scores, rtol=1e-5, atol=slack):
        return False
    clear = scores > scores[:, -1:] + slack
    return all(
        set(theirs[sure]) <= set(mine)
        for theirs, sure, mine in zip(ids, clear, ours.ids, strict=True)
    )


def build(codebooks: np.ndarray, codes: np.ndarray) -> tuple[CodeIndex, Record]:
    elapsed, index = timed(lambda: CodeIndex(codebooks).add(codes))
    return index, {
        "build_s_per_million": round(elapsed / len(codes) * MILLION, 3),
        "bytes_per_item": round(index.bytes_per_item, 3),
    }


def against_faiss(
    index: CodeIndex, queries: np.ndarray, k: int, goal: float | None, n_rounds: int = 5
) -> Record:
    theirs = index.to_faiss()
    ours = index.search(queries, k, n_threads=1)
    same = same_answers(ours, *theirs.search(queries, k))
    quick = {"acqh": lambda: index.search(queries, k, n_threads=1)}
    times = best_times(
        {**quick, "faiss": lambda: theirs.search(queries, k)}, n_rounds, len(queries)
    )
    times |= best_times(quick, 4 * n_rounds, len(queries)) if times["acqh_ms"] < 1 else {}
    ratio = times["faiss_ms"] / times["acqh_ms"]
    return {
        "n_items": len(index),
        "k": k,
        **times,
        "times_faster": round(ratio, 1),
        "goal": goal,
        "reached": goal is None or ratio >= goal,
        "same_answers": same,
    }


def distinct_codes(
    vectors: Vectors, goals: list[tuple[int, int, float | None]]
) -> Iterator[Record]:
    """Items whose codes nearly all differ."""
    for n in sorted({n for n, _, _ in goals}):
        codes = vectors.codes(n)
        index, built = build(vectors.codebooks, codes)
        share = len(np.unique(codes.view(np.uint32))) / n if n <= 10 * MILLION else None
        for size, k, goal in goals:
            if size == n:
                n_rounds = 5 if n <= MILLION else 1
                record = against_faiss(index, vectors.queries, k, goal, n_rounds)
                yield {"case": "distinct codes", **record, **built, "share_distinct": share}


def codebooks(vectors: Vectors, n: int = MILLION) -> Iterator[Record]:
    """Codes of more words: how many are scanned and scored in full, exactly or stopped."""
    for n_codebooks in (4, 8, 16):
        more = vectors if n_codebooks == N_CODEBOOKS else Vectors(n_codebooks)
        index, built = build(more.codebooks, more.codes(n))
        exact = index.search(more.queries, 10, n_threads=1)
        for stop in ({}, {"recall": 0.95}, {"budget": n // 1000}):
            result = index.search(more.queries, 10, n_threads=1, **stop)
            job = partial(index.search, more.queries, 10, n_threads=1, **stop)
            yield {
                "case": "codebooks",
                "n_items": n,
                "n_codebooks": n_codebooks,
                **stop,
                **best_times({"acqh": job}, 5, N_QUERIES),
                "share_scanned": round(float(result.n_scanned.mean()) / n, 6),
                "share_scored": round(float(result.n_scored.mean()) / n, 6),
                "share_proven": float(result.exact.mean()),
                "recall_of_exact_10": recall(result.ids, exact.ids),
                **built,
            }


def labelled(vectors: Vectors) -> Iterator[Record]:
    """Search a million items that share 2,000 codes, as items with the same labels do."""
    rng = np.random.default_rng(2)
    distinct = np.unique(vectors.codes(CHUNK), axis=0)
    distinct = distinct[rng.permutation(len(distinct))[:2000]]
    index, built = build(vectors.codebooks, distinct[rng.integers(2000, size=MILLION)])
    yield {"case": "2,000 codes", **against_faiss(index, vectors.queries, 100, 1000), **built}


def without_structure(vectors: Vectors) -> Iterator[Record]:
    """Where pruning cannot help: half of all items wanted, or codebooks and codes at random."""
    index, _ = build(vectors.codebooks, vectors.codes(MILLION))
    record = against_faiss(index, vectors.queries[:5], MILLION // 2, 1, n_rounds=2)
    yield {"case": "half of all items", **record}
    record = against_faiss(index, np.zeros((5, N_COMPONENTS), dtype=np.float32), 10, 1)
    yield {"case": "all scores equal", **record}
    rng = np.random.default_rng(3)
    for n_codebooks, k in ((4, 1000), (8, 10), (16, 10)):
        words = rng.standard_normal((n_codebooks, 256, N_COMPONENTS), dtype=np.float32)
        codes = rng.integers(256, size=(MILLION, n_codebooks), dtype=np.uint8)
        index, built = build(words, codes)
        record = against_faiss(index, vectors.queries, k, 1, n_rounds=2)
        yield {"case": "random codes", "n_codebooks": n_codebooks, **record, **built}


def true_best(vectors: np.ndarray, queries: np.ndarray, k: int = 10) -> np.ndarray:
    return np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :k]


def recall(hit_ids: np.ndarray, truth: np.ndarray) -> float:
    hits = [len(set(mine) & set(best)) for mine, best in zip(hit_ids, truth, strict=True)]
    return round(float(np.mean(hits)) / truth.shape[1], 4)


def same_bytes(vectors: Vectors, n: int = MILLION) -> Iterator[Record]:
    """Faiss's quickest indexes with the same 4 bytes per item: time and recall of the true ten."""
    items, queries = vectors.take(n), vectors.queries
    truth = true_best(items, queries)
    product = faiss.METRIC_INNER_PRODUCT
    baselines = {
        "IndexPQFastScan": faiss.IndexPQFastScan(N_COMPONENTS, 8, 4, product),
        "IndexResidualQuantizerFastScan": faiss.IndexResidualQuantizerFastScan(
            N_COMPONENTS, 8, 4, product, faiss.AdditiveQuantizer.ST_LUT_nonorm
        ),
    }
    index, _ = build(vectors.codebooks, vectors.codes(n))
    jobs: dict[str, Callable[[], Any]] = {"acqh": lambda: index.search(queries, 10, n_threads=1)}
    recalls = {"acqh": recall(index.search(queries, 10).ids, truth)}
    for name, baseline in baselines.items():
        baseline.train(items[:N_TRAIN])
        baseline.add(items)
        jobs[name] = lambda baseline=baseline: baseline.search(queries, 10)
        recalls[name] = recall(baseline.search(queries, 10)[1], truth)
    times = best_times(jobs, 5, N_QUERIES)
    for name in jobs:
        record = {"index": name, "n_items": n, "k": 10, "ms": times[f"{name}_ms"]}
        yield {"case": "same bytes per item", **record, "recall_of_true_10": recalls[name]}


def processor_ms(jobs: dict[str, Callable[[], Any]], n_rounds: int, n_queries: int) -> Record:
    """Return processor milliseconds per query of each job, the fewest of rounds in turns."""
    best = dict.fromkeys(jobs, np.inf)
    for name in [*jobs] * n_rounds:
        started = time.process_time()
        jobs[name]()
        best[name] = min(best[name], time.process_time() - started)
    return {f"{name}_ms": round(1e3 * value / n_queries, 5) for name, value in best.items()}


def at_equal_recall(name: str, index: CodeIndex, queries: np.ndarray, k: int = 10) -> Record:
    """Exact search of codes, against Faiss that scans them all and against Faiss's inverted lists.

    IVF holds the reconstructions as floats and scans the fewest lists (a power of two) that give
    99 % of the exact answer. Processor time of one thread.
    """
    vectors = np.ascontiguousarray(decode(index.codes, index.codebooks), dtype=np.float32)
    exact = index.search(queries, k, n_threads=1).ids
    n_lists = int(4 * np.sqrt(len(vectors)))
    quantizer = faiss.IndexFlatIP(vectors.shape[1])
    lists = faiss.IndexIVFFlat(quantizer, vectors.shape[1], n_lists, faiss.METRIC_INNER_PRODUCT)
    rng = np.random.default_rng(0)
    lists.train(vectors[rng.permutation(len(vectors))[: 64 * n_lists]])
    lists.add(vectors)
    lists.nprobe, row_of = 1, {int(item): row for row, item in enumerate(index.ids)}
    truth = np.array([[row_of[int(item)] for item in row] for row in exact])
    while recall(lists.search(queries, k)[1], truth) < 0.99 and lists.nprobe < n_lists:
        lists.nprobe *= 2
    flat = index.to_faiss()
    jobs = {
        "acqh": lambda: index.search(queries, k, n_threads=1),
        "faiss_ivf": lambda: lists.search(queries, k),
        "faiss_flat": lambda: flat.search(queries, k),
    }
    return {
        "case": "equal recall",
        "data": name,
        "n_items": len(vectors),
        "k": k,
        **processor_ms(jobs, 5, len(queries)),
        "acqh_recall": 1.0,
        "ivf_recall": recall(lists.search(queries, k)[1], truth),
        "ivf_lists": f"{lists.nprobe} of {n_lists}",
        "acqh_bytes": round(index.bytes_per_item, 1),
        "ivf_bytes": 4 * vectors.shape[1] + 8,
    }


def equal_recall(vectors: Vectors, pairs: list[list[str]]) -> Iterator[Record]:
    """Search synthetic and real vectors at the same recall."""
    for name, items, queries in pairs:
        rows, others = read_vectors(items), read_vectors(queries)
        small = compress(rows, queries=others, bytes_per_item=8, random_state=0)
        compared = np.ascontiguousarray(others[:N_QUERIES], dtype=np.float32)
        yield at_equal_recall(name, small.index, compared)
    index, _ = build(vectors.codebooks, vectors.codes(MILLION))
    yield at_equal_recall("synthetic", index, vectors.queries)


def read_vectors(place: str) -> np.ndarray:
    """Return the vectors of a file; the view is after a colon."""
    path, _, view = place.partition(":")
    return np.asarray(read_queries(path, view or None), dtype=np.float32)


def graphs(vectors: Vectors, n: int) -> Iterator[Record]:
    """Graphs over the real vectors: time, memory and recall of the true ten."""
    hnswlib, usearch = require("hnswlib"), require("usearch.index")
    items, queries = vectors.take(n), vectors.queries
    truth = true_best(items, queries)
    case = {"case": "graphs over real vectors", "n_items": n, "k": 10}
    index, built = build(vectors.codebooks, vectors.codes(n))
    job = {"acqh": lambda: index.search(queries, 10, n_threads=1)}
    own_row = {"ms": best_times(job, 5, N_QUERIES)["acqh_ms"], "bytes": built["bytes_per_item"]}
    yield {
        **case,
        "index": "acqh",
        **own_row,
        "recall_of_true_10": recall(index.search(queries, 10).ids, truth),
    }
    graph = hnswlib.Index(space="ip", dim=N_COMPONENTS)
    graph.init_index(max_elements=n, M=16, ef_construction=200)
    graph.set_num_threads(1)
    elapsed = seconds(lambda: graph.add_items(items))
    size = round(graph.index_file_size() / n, 1)
    for effort in (20, 100, 400):
        graph.set_ef(effort)
        times = best_times({"it": lambda: graph.knn_query(queries, k=10)}, 3, N_QUERIES)
        graph_recall = recall(graph.knn_query(queries, k=10)[0], truth)
        yield {
            **case,
            "index": f"hnswlib, ef={effort}",
            "ms": times["it_ms"],
            "bytes": size,
            "recall_of_true_10": graph_recall,
            "build_s_per_million": round(elapsed / n * MILLION, 1),
        }
    other = usearch.Index(ndim=N_COMPONENTS, metric="ip", dtype="f32", connectivity=16)
    elapsed = seconds(lambda: other.add(np.arange(n), items, threads=1))
    times = best_times({"it": lambda: other.search(queries, 10, threads=1)}, 3, N_QUERIES)
    graph_recall = recall(other.search(queries, 10, threads=1).keys, truth)
    yield {
        **case,
        "index": "usearch",
        "ms": times["it_ms"],
        "bytes": round(other.memory_usage / n, 1),
        "recall_of_true_10": graph_recall,
        "build_s_per_million": round(elapsed / n * MILLION, 1),
    }


def growth(vectors: Vectors, sizes: list[int]) -> Iterator[Record]:
    """Time searches against the number of items, and the largest on two threads."""
    codes = vectors.codes(max(sizes))
    for n in sizes:
        search = CodeIndex(vectors.codebooks).add(codes[:n]).search
        jobs = {f"k_{k}": partial(search, vectors.queries, k, n_threads=1) for k in (10, 100, 1000)}
        yield {"case": "growth", "n_items": n, **best_times(jobs, 10, N_QUERIES)}
    batch = np.tile(vectors.queries, (20, 1))
    jobs = {str(n): partial(search, batch, 10, n_threads=n) for n in (1, 2)}
    times = best_times(jobs, 8, len(batch))
    for n_threads in jobs:
        per_second = round(1000 / times[f"{n_threads}_ms"])
        case = {"case": "throughput", "n_items": max(sizes), "k": 10, "n_threads": int(n_threads)}
        yield {**case, "queries_per_s": per_second}


def changes(vectors: Vectors) -> Iterator[Record]:
    """Time changes and filters of an index of a million items with ids of their own."""
    codes = vectors.codes(MILLION)
    index = CodeIndex(vectors.codebooks).add(codes, ids=np.arange(MILLION) * 3)
    for size in (1, 1000):
        start = time.perf_counter()
        for number in range(100):
            index.add(codes[:size], ids=np.arange(size) * 3 + 1 + number * size * 3)
        added = time.perf_counter()
        for number in range(100):
            index.remove(np.arange(size) * 3 + 1 + number * size * 3)
        removed = time.perf_counter()
        record = {"add_ms": (added - start) * 10, "remove_ms": (removed - added) * 10}
        yield {"case": "changes", "n_items": MILLION, "items_a_call": size, **record}
    for part in (2, 100, 10_000):
        allowed = index.ids % part == 0
        job = {"acqh": partial(index.search, vectors.queries, 10, filter=allowed, n_threads=1)}
        times = best_times(job, 5, N_QUERIES)
        yield {"case": "filter", "n_items": MILLION, "k": 10, "one_item_in": part, **times}


def plot(records: list[Record], path: Path) -> None:
    """Draw time against the number of items."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    sizes = [record["n_items"] for record in records]
    for k in (1000, 100, 10):
        axes.plot(sizes, [record[f"k_{k}_ms"] for record in records], marker="o", label=f"k = {k}")
    axes.set(xscale="log", yscale="log", xlabel="items", ylabel="milliseconds per query")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="also the cases that take an hour")
    parser.add_argument("--only", nargs="*", help="names of the functions to run")
    parser.add_argument(
        "--pair", nargs=3, action="append", default=[], metavar="NAME ITEMS QUERIES"
    )
    parser.add_argument("--plot", type=Path, help="write the growth as an SVG file")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    vectors = Vectors()
    sizes = [MILLION // 10, MILLION // 2, MILLION, 2 * MILLION, 5 * MILLION]
    cases: dict[str, Callable[[], Iterator[Record]]] = {
        "distinct_codes": lambda: distinct_codes(
            vectors, GOALS + FULL_GOALS if arguments.full else GOALS
        ),
        "codebooks": lambda: codebooks(vectors),
        "labelled": lambda: labelled(vectors),
        "without_structure": lambda: without_structure(vectors),
        "same_bytes": lambda: same_bytes(vectors),
        "equal_recall": lambda: equal_recall(vectors, arguments.pair),
        "graphs": lambda: graphs(vectors, MILLION if arguments.full else MILLION // 20),
        "growth": lambda: growth(
            vectors, [*sizes, 10 * MILLION, 20 * MILLION] if arguments.full else sizes
        ),
        "changes": lambda: changes(vectors),
    }
    for name in arguments.only or cases:
        records = []
        try:
            for record in cases[name]():
                emit({"benchmark": "search", **record})
                records.append(record)
        except MissingExtraError as error:
            emit({"benchmark": "search", "case": name, "skipped": str(error)})
        if name == "growth" and arguments.plot:
            plot([record for record in records if record["case"] == "growth"], arguments.plot)


if __name__ == "__main__":
    main()

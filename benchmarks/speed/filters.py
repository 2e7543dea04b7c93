"""Recall and time of filtered search against Faiss IVF, IVF-PQ and HNSW, one JSON line per case.

Each index finds the best 10 of those items that a filter leaves, from all of them to one in ten
thousand: drawn at random (``random``), or the furthest in one direction (``region``), as a filter
by language, place or kind. ``recall`` is against exact search over the vectors of the items left.
``milliseconds`` are per query in a batch of 100 on one thread, the best of three rounds in which
all take turns. Filters are prepared outside of it
(a mask here, `IDSelectorBatch` there). ``bytes_per_item`` are of codes or of vectors and links,
without ids. Items are clustered vectors of unit length. ``--plot``
draws recall and time against the share of items left.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import faiss
import numpy as np

from acqh import CodeIndex
from acqh.quantize import AdditiveQuantizer
from benchmarks._measure import emit, take_turns
from benchmarks.speed.search import Vectors

K = 10
N_TRAIN = 20_000
SHARES = (1.0, 0.1, 0.01, 0.001, 0.0001)
N_LISTS, N_PROBES = 316, 16
N_LINKS, EF_SEARCH = 32, 64
Find = Callable[[np.ndarray], Callable[[], np.ndarray]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=8)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the curves as an SVG file")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    indexes = Vectors()
    items, queries = unit(indexes.take(arguments.items)), unit(indexes.queries)
    methods = make_indices(items, queries, arguments.bytes)
    rng = np.random.default_rng(1)
    side = items @ rng.normal(size=items.shape[1])
    orders = {"random": rng.permutation(len(items)), "region": np.argsort(-side)}
    lines = []
    for kind, order in orders.items():
        for share in SHARES:
            left = np.sort(order[: max(round(share * len(items)), K)])
            best = left[np.argsort(-(queries @ items[left].T), axis=1)[:, :K]]
            jobs = {name: find(left) for name, (_, find) in methods.items()}
            times = take_turns(jobs, 3)
            for name, (n_bytes, _) in methods.items():
                hit_ids = jobs[name]()
                hits = [len(np.intersect1d(*pair)) for pair in zip(best, hit_ids, strict=True)]
                line = {"benchmark": "filters", "n_items": len(items), "filter": kind}
                line |= {"share": share, "method": name, "bytes_per_item": n_bytes}
                line |= {"recall": round(float(np.mean(hits)) / K, 3)}
                line |= {"milliseconds": round(1e3 * min(times[name]) / len(queries), 4)}
                emit(line)
                lines.append(line)
    if arguments.plot is not None:
        draw(lines, arguments.plot)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def make_indices(
    items: np.ndarray, queries: np.ndarray, n_bytes: int
) -> dict[str, tuple[int, Find]]:
    """Return by name the bytes that an index keeps per item, and what finds the best of some."""
    width, metric = items.shape[1], faiss.METRIC_INNER_PRODUCT
    coder = AdditiveQuantizer(n_bytes, random_state=0).fit(items[:N_TRAIN])
    codes = CodeIndex(coder.codebooks_).add(coder.encode(items))

    def find_codes(left: np.ndarray) -> Callable[[], np.ndarray]:
        mask = None if len(left) == len(items) else np.zeros(len(items), dtype=bool)
        if mask is not None:
            mask[left] = True
        return lambda: codes.search(queries, K, filter=mask, n_threads=1).ids

    def find_faiss(
        index: faiss.Index, settings: Callable[..., faiss.SearchParameters], left: np.ndarray
    ) -> Callable[[], np.ndarray]:
        sel = None if len(left) == len(items) else faiss.IDSelectorBatch(left)
        return lambda: index.search(queries, K, params=settings(sel=sel))[1]

    coarse = [faiss.IndexFlatIP(width), faiss.IndexFlatIP(width)]
    pq = faiss.IndexIVFPQ(coarse[0], width, N_LISTS, n_bytes, 8, metric)
    flat = faiss.IndexIVFFlat(coarse[1], width, N_LISTS, metric)
    graph = faiss.IndexHNSWFlat(width, N_LINKS, metric)
    for index in (pq, flat, graph):
        index.train(items[:N_TRAIN])
        index.add(items)
    lists, all_lists = (partial(faiss.SearchParametersIVF, nprobe=n) for n in (N_PROBES, N_LISTS))
    links = partial(faiss.SearchParametersHNSW, efSearch=EF_SEARCH)
    return {
        "acqh codes": (n_bytes, find_codes),
        "Faiss IVF-PQ": (n_bytes, partial(find_faiss, pq, lists)),
        "Faiss IVF-PQ, all lists": (n_bytes, partial(find_faiss, pq, all_lists)),
        "Faiss IVF-Flat": (4 * width, partial(find_faiss, flat, lists)),
        "Faiss HNSW": (4 * width + 8 * N_LINKS, partial(find_faiss, graph, links)),
    }


def draw(lines: list[dict], path: Path) -> None:
    """Draw recall and time against the share of items that a filter leaves."""
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(line["filter"] for line in lines))
    figure = Figure(figsize=(9, 6.6), layout="constrained")
    axes = figure.subplots(2, len(kinds), sharex=True, sharey="row")
    titles = {"random": "items drawn at random", "region": "items of one region"}
    for column, kind in enumerate(kinds):
        for name in dict.fromkeys(line["method"] for line in lines):
            chosen = [line for line in lines if (line["filter"], line["method"]) == (kind, name)]
            shares = [100 * line["share"] for line in chosen]
            label = f"{name}, {chosen[0]['bytes_per_item']} bytes"
            for row, value in enumerate(("recall", "milliseconds")):
                values = [line[value] for line in chosen]
                axes[row, column].plot(shares, values, marker="o", label=label)
        axes[0, column].set_title(titles[kind])
        axes[1, column].set(xscale="log", yscale="log", xlabel="items that the filter leaves (%)")
    axes[0, 0].set(ylabel="recall@10", ylim=(0, 1.02))
    axes[1, 0].set(ylabel="milliseconds per query")
    axes[1, 0].invert_xaxis()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize="small")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()

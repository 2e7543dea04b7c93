"""Error and recall of small codes against Faiss, with queries like the items and with others.

Prints one JSON line for each data set, size and method. Items are encoded by PQ, OPQ, a residual
quantizer with beam 16, LSQ++ (`LocalSearchQuantizer`) and RaBitQ (at its own size) of Faiss, and by
`AdditiveQuantizer`. Its default generalizes to new items (``new``). With ``ridge=0`` it is for the
database alone, as in `acqh.compress`: ``euclidean``, and ``query-aware`` with half of the queries.
``error`` is the squared error of the database, which the codebooks are trained on, relative to its
variance; ``error_new`` that of items outside it. ``recall_items`` and ``recall_queries`` are
recall@10 against exact search, with the items outside and with the other half of the queries.
``recall_new`` is the latter on a database of items that took no part in training.
``seconds`` are of one core's processor time, training and encoding the database; ``error_ratio``
and ``time_ratio`` are relative to LSQ++ in the same run.

The synthetic set has a known gap: items vary most where queries look least. ``--pair NAME ITEMS
QUERIES`` adds sets from files of any kind that `acqh.data.read` takes, a view after a colon:

    --pair clip clip_pairs.npz:image clip_pairs.npz:text --words 16
    --pair coco coco.npz:items coco.npz:queries          (tools/coco_vectors.py)
    --pair text2image base.1M.fbin query.learn.50M.fbin  (big-ann-benchmarks)

With ``--words 16`` a codeword takes half a byte; else sets of a thousand items are memorized.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from acqh._core.imports import require
from acqh._core.runtime import limit_threads
from acqh.quantize import AdditiveQuantizer
from acqh.scale.chunks import read_queries
from benchmarks._measure import emit

MAX_QUERIES = 1_000
METHODS = ("pq", "opq", "rq16", "lsq", "rabitq", "new", "euclidean", "query-aware")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--items", type=int, default=5_000, help="of each set, at most")
    parser.add_argument("--words", type=int, default=256, choices=[16, 256])
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--pair", nargs=3, action="append", default=[])
    parser.add_argument("--no-synthetic", action="store_true")
    arguments = parser.parse_args()
    require("faiss").omp_set_num_threads(1)
    # So that loading compiled code, once per process, is not part of any time.
    warm = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
    AdditiveQuantizer(2, 16, random_state=0).fit(warm, queries=warm).encode(warm)
    with limit_threads(1):
        compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    sets = [] if arguments.no_synthetic else [("synthetic", *make_gap(arguments.items + 1_000))]
    sets += [(name, load(items), load(queries)) for name, items, queries in arguments.pair]
    for name, items, queries in sets:
        split = Split(items, queries, arguments.items)
        for n_bytes in arguments.bytes:
            rows = []
            for method in arguments.methods:
                rows.append({"method": method, **measure(split, method, n_bytes, arguments.words)})
                lsq = next((row for row in rows if row["method"] == "lsq"), None)
                if lsq is not None and "error" in rows[-1]:
                    if lsq["error"] > 0:  # else memorized
                        rows[-1]["error_ratio"] = round(rows[-1]["error"] / lsq["error"], 3)
                    rows[-1]["time_ratio"] = round(rows[-1]["seconds"] / lsq["seconds"], 3)
                facts = {"benchmark": "compress", "data": name, "n_items": len(split.base)}
                facts |= {"n_components": split.base.shape[1], "bytes": n_bytes}
                emit(facts | rows[-1])


def load(place: str) -> np.ndarray:
    path, _, view = place.partition(":")
    return read_queries(path, view or None)


def make_gap(n_items: int, n_components: int = 64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(200, n_components))
    falling = 0.95 ** np.arange(n_components)
    items = (
        centres[rng.integers(0, 200, n_items)] + rng.normal(size=(n_items, n_components))
    ) * falling
    queries = rng.normal(size=(2 * MAX_QUERIES, n_components)) * falling[::-1]
    return items.astype(np.float32), queries.astype(np.float32)


class Split:
    """Items of the database, items and queries to search with, and queries to learn from."""

    def __init__(self, items: np.ndarray, queries: np.ndarray, n_items: int) -> None:
        rng = np.random.default_rng(1)
        items = items[rng.permutation(len(items))]
        queries = queries[rng.permutation(len(queries))]
        n_probes = min(MAX_QUERIES // 2, len(items) // 10)
        half = len(queries) // 2
        self.probes, self.base = items[:n_probes], items[n_probes:][:n_items]
        self.later = items[n_probes + n_items :][:n_items]
        self.learn, self.test = queries[half:], queries[:half][:MAX_QUERIES]

    def recall(self, find: Callable[[np.ndarray], np.ndarray]) -> dict[str, float]:
        """Return recall@10 with both kinds of queries."""
        query_sets = {"recall_items": self.probes, "recall_queries": self.test}
        return {
            name: round(recall(self.base, queries, find(queries)), 4)
            for name, queries in query_sets.items()
        }


def recall(base: np.ndarray, queries: np.ndarray, hits: np.ndarray, k: int = 10) -> float:
    best = best_of(queries @ base.T, k)
    return float(
        np.mean([len({*a} & {*b}) / k for a, b in zip(best.tolist(), hits.tolist(), strict=True)])
    )


def best_of(scores: np.ndarray, k: int = 10) -> np.ndarray:
    return np.argpartition(-scores, k - 1, axis=1)[:, :k]


def measure(split: Split, method: str, n_bytes: int, n_words: int) -> dict[str, Any]:
    begin = time.process_time()
    if method == "rabitq":
        return measure_rabitq(split, begin)
    n_codebooks = n_bytes * (1 if n_words == 256 else 2)
    if method in ("new", "euclidean", "query-aware"):
        decoded, again = train_ours(split, method, n_codebooks, n_words)
    else:
        decoded, again = train_faiss(split.base, method, n_codebooks, n_words.bit_length() - 1)
    seconds = time.process_time() - begin
    mean = split.base.mean(axis=0)
    errors = {"error": (split.base, decoded), "error_new": (split.probes, again(split.probes))}
    return {
        "seconds": round(seconds, 2),
        **{
            name: round(float(np.square(rows - coded).sum() / np.square(rows - mean).sum()), 5)
            for name, (rows, coded) in errors.items()
        },
        **split.recall(lambda queries: best_of(queries @ decoded.T)),
        **recall_new(split, again),
    }


def recall_new(split: Split, again: Callable[[np.ndarray], np.ndarray]) -> dict[str, float]:
    """Return recall@10 of a database of items that took no part in training, if there are any."""
    if len(split.later) < 100:
        return {}
    hits = best_of(split.test @ again(split.later).T)
    return {"recall_new": round(recall(split.later, split.test, hits), 4)}


def measure_rabitq(split: Split, begin: float) -> dict[str, Any]:
    faiss = require("faiss")
    index = faiss.IndexRaBitQ(split.base.shape[1], faiss.METRIC_INNER_PRODUCT)
    index.train(split.base)
    index.add(split.base)
    seconds = time.process_time() - begin
    facts = {"bytes": int(index.code_size), "seconds": round(seconds, 2)}
    return facts | split.recall(lambda queries: index.search(queries, 10)[1])


# What the codes of the database stand for, and the way from other items to what theirs stand for.
Trained = tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]


def train_ours(split: Split, method: str, n_codebooks: int, n_words: int) -> Trained:
    ridge = None if method == "new" else 0.0
    quantizer = AdditiveQuantizer(n_codebooks, n_words, ridge=ridge, random_state=0)
    quantizer.fit(split.base, queries=split.learn if method == "query-aware" else None)
    codes = quantizer.encode(split.base, start=quantizer.training_codes_)
    return quantizer.decode(codes), lambda rows: quantizer.decode(quantizer.encode(rows))


def train_faiss(base: np.ndarray, method: str, n_codebooks: int, n_bits: int) -> Trained:
    faiss = require("faiss")
    n_components = base.shape[1]
    if method in ("pq", "opq"):
        rotation = faiss.OPQMatrix(n_components, n_codebooks)
        rotation.pq = faiss.ProductQuantizer(n_components, n_codebooks, n_bits)
        if method == "opq":
            rotation.train(base)
        quantizer = faiss.ProductQuantizer(n_components, n_codebooks, n_bits)
    elif method == "rq16":
        quantizer = faiss.ResidualQuantizer(n_components, n_codebooks, n_bits)
        quantizer.max_beam_size = 16
    else:
        quantizer = faiss.LocalSearchQuantizer(n_components, n_codebooks, n_bits)
    quantizer.train(rotation.apply(base) if method == "opq" else base)

    def again(rows: np.ndarray) -> np.ndarray:
        turned = rotation.apply(rows) if method == "opq" else rows
        decoded = quantizer.decode(quantizer.compute_codes(turned))
        return rotation.reverse_transform(decoded) if method == "opq" else decoded

    return again(base), again


if __name__ == "__main__":
    main()

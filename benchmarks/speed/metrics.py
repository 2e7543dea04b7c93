"""Seconds for MAP@all, @50 and @100 with exact ties against one argsort of the same scores.

Prints one JSON line. ``ratio`` is our time over NumPy's, both on one thread, taken block by
block in turn; acqh also computes relevance from ten labels.
"""

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from acqh.metrics import RetrievalMetrics, average_precision, relevance
from benchmarks._measure import emit

N_DATABASE = 184_577
N_LABELS = 10
LABEL_RATE = 0.2
BLOCK = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--full", action="store_true", help="2,000 queries")
    arguments = parser.parse_args()
    n_queries = 2_000 if arguments.full else arguments.queries
    with threadpool_limits(limits=1):
        emit(measure(n_queries))


def measure(n_queries: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    database = (rng.random((N_DATABASE, N_LABELS)) < LABEL_RATE).astype(np.uint8)
    queries = (rng.random((n_queries, N_LABELS)) < LABEL_RATE).astype(np.uint8)
    compile_kernels()
    metrics = RetrievalMetrics(cutoffs=(None, 50, 100))
    ours = theirs = worst = 0.0
    for start in range(0, n_queries, BLOCK):
        labels = queries[start : start + BLOCK]
        scores = rng.standard_normal((len(labels), N_DATABASE), dtype=np.float32)
        begin = time.perf_counter()
        relevant = relevance(labels, database)
        metrics.update(scores, relevant)
        middle = time.perf_counter()
        np.argsort(scores, axis=1)
        theirs += time.perf_counter() - middle
        ours += middle - begin
        if start == 0:
            worst = disagreement(scores[:5], relevant[:5])
    result = metrics.result()
    return {
        "benchmark": "metrics",
        "n_queries": n_queries,
        "n_database": N_DATABASE,
        "seconds": round(ours, 3),
        "argsort_seconds": round(theirs, 3),
        "ratio": round(ours / theirs, 3),
        "map": {str(cutoff): value for cutoff, value in result.mean_average_precision.items()},
        "n_empty": result.n_empty,
        "largest_difference": worst,
    }


def compile_kernels() -> None:
    RetrievalMetrics().update(np.zeros((1, 2), dtype=np.float32), [[True, False]])


def disagreement(scores: np.ndarray, relevant: np.ndarray) -> float:
    """Return how far AP@all in database order within ties is from the textbook computation."""
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(relevant, order, axis=1)
    precision = ranked.cumsum(axis=1) / np.arange(1, ranked.shape[1] + 1)
    plain = (precision * ranked).sum(axis=1) / np.maximum(ranked.sum(axis=1), 1)
    ours = average_precision(scores, relevant, ties="stable")
    return float(np.nanmax(np.abs(ours - plain)))


if __name__ == "__main__":
    main()

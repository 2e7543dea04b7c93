"""Time a Hamming search against Faiss's flat binary index, with the same codes, on one thread.

One JSON line per case: milliseconds per query in a batch of 100, the best of several rounds in
which both take turns, and the ratio of the two. Answers must have the same distances. Faiss is
timed in both of its modes, a heap and counting; the quicker one counts.
"""

import json
import time
from collections.abc import Callable

import faiss
import numpy as np

from acqh import HammingIndex

N_ITEMS = 1_000_000
N_QUERIES = 100
N_ROUNDS = 5
CASES = [(64, 10), (64, 100), (64, 1000), (32, 10), (128, 10), (256, 10)]


def best_times(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return milliseconds per query of each job, which take turns so that noise hits all alike."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(N_ROUNDS):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            best[name] = min(best[name], (time.perf_counter() - start) / N_QUERIES * 1e3)
    return best


def run(n_bits: int, k: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (N_ITEMS, n_bits // 8), dtype=np.uint8)
    queries = rng.integers(0, 256, (N_QUERIES, n_bits // 8), dtype=np.uint8)
    ours = HammingIndex(n_bits).add(codes)
    heap, counting = faiss.IndexBinaryFlat(n_bits), faiss.IndexBinaryFlat(n_bits)
    heap.add(codes)
    counting.add(codes)
    counting.use_heap = False
    found = ours.search(queries, k, n_threads=1)
    expected = np.sort(heap.search(queries, k)[0], axis=1)
    assert np.array_equal(ours.distances(found.scores), expected)
    times = best_times(
        {
            "acqh_ms": lambda: ours.search(queries, k, n_threads=1),
            "faiss_heap_ms": lambda: heap.search(queries, k),
            "faiss_counting_ms": lambda: counting.search(queries, k),
        }
    )
    faiss_ms = min(times["faiss_heap_ms"], times["faiss_counting_ms"])
    case = {"benchmark": "hamming", "n_items": N_ITEMS, "n_bits": n_bits, "k": k}
    rounded = {name: round(value, 4) for name, value in times.items()}
    return case | rounded | {"times_faster": round(faiss_ms / times["acqh_ms"], 2)}


if __name__ == "__main__":
    faiss.omp_set_num_threads(1)
    for case in CASES:
        print(json.dumps(run(*case)), flush=True)

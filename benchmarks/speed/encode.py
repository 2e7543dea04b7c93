"""Seconds and error of code search against Faiss's residual quantizer, same codebooks, same beam.

Prints one JSON line. Codebooks are trained by Faiss. For each beam width and number of threads,
``time_ratio`` is our time over that of Faiss with or without its lookup tables, whichever is
faster; runs alternate, and the best of each counts. ``error_ratio`` is our mean squared error
over that of Faiss. ``beam+icm`` is the default of `search_codes`: the beam, then word by word.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from acqh._core.imports import require
from acqh._core.runtime import limit_threads
from acqh.quantize import quantization_errors, search_codes
from benchmarks._measure import emit, timed

N_CODEBOOKS = 4
N_COMPONENTS = 32
N_TRAIN = 20_000
BEAMS = (1, 5, 16)
WIDEST_PLAIN = 5  # beyond, Faiss without lookup tables is several times slower than with them
THREADS = (1, 2)
OURS = ("beam", "beam+icm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    faiss = require("faiss")
    train, items = np.split(make_clusters(N_TRAIN + arguments.items), [N_TRAIN])
    quantizer = faiss.ResidualQuantizer(N_COMPONENTS, N_CODEBOOKS, 8)
    quantizer.train(train)
    codebooks = faiss.vector_to_array(quantizer.codebooks)
    codebooks = codebooks.reshape(N_CODEBOOKS, -1, N_COMPONENTS)
    rows = []
    for n_threads in THREADS:
        faiss.omp_set_num_threads(n_threads)
        with threadpool_limits(limits=n_threads), limit_threads(n_threads):
            rows += [
                measure(quantizer, codebooks, items, beam, n_threads, arguments.repeats)
                for beam in BEAMS
            ]
    emit({"benchmark": "encode", "n_items": len(items), "results": rows})


def make_clusters(n_items: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = 2 * rng.standard_normal((50, N_COMPONENTS)) * 0.90 ** np.arange(N_COMPONENTS)
    noise = rng.standard_normal((n_items, N_COMPONENTS)) * 0.93 ** np.arange(N_COMPONENTS)
    return (centres[rng.integers(0, 50, n_items)] + noise).astype(np.float32)


def measure(
    quantizer: Any,
    codebooks: np.ndarray,
    items: np.ndarray,
    beam_width: int,
    n_threads: int,
    repeats: int,
) -> dict[str, object]:
    def theirs(use_tables: int) -> Callable[[], np.ndarray]:
        def run() -> np.ndarray:
            quantizer.max_beam_size = beam_width
            quantizer.use_beam_LUT = use_tables
            return quantizer.compute_codes(items)

        return run

    def ours(search: str) -> Callable[[], np.ndarray]:
        return lambda: search_codes(items, codebooks, search=search, beam_width=beam_width)

    runs = {"faiss_tables": theirs(1)} | {name: ours(name) for name in OURS}
    if beam_width <= WIDEST_PLAIN:
        runs["faiss"] = theirs(0)
    ours("beam+icm")()  # compile
    seconds = dict.fromkeys(runs, np.inf)
    errors = {}
    for _ in range(repeats):
        for name, run in runs.items():
            elapsed, codes = timed(run)
            seconds[name] = min(seconds[name], elapsed)
            errors[name] = float(quantization_errors(items, codes, codebooks).mean())
    faiss = [name for name in runs if name not in OURS]
    fastest = min(seconds[name] for name in faiss)
    lowest = min(errors[name] for name in faiss)
    return {
        "beam_width": beam_width,
        "n_threads": n_threads,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "time_ratio": {name: round(seconds[name] / fastest, 3) for name in OURS},
        "error_ratio": {name: round(errors[name] / lowest, 6) for name in OURS},
    }


if __name__ == "__main__":
    main()

"""Time and memory of a whole ACQH fit against the bare Gram products of the same arrays.

Synthetic data of the shape of NUS-WIDE (500-d dense, 1,000-d sparse 0/1, 10 labels). Prints one
JSON line: ``ratio`` is the fit over the products in double precision, which the fit needs, both on
one core. ``ratio_all_cores`` lets both use all cores, which the products do better.
``ratio_float32`` is over products in the precision of the arrays, whose error would be a million
times larger. ``alternating_ratio`` is Algorithm 1 run item by item, as the
paper has it, over the fit.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import acqh
from acqh.methods.acqh import paper
from acqh.stats import Statistics, regress
from benchmarks._measure import emit, reset_peak, resident, seconds, take_turns

N_ITEMS = 184_577
# The paper stops "under 40 iterations".
PAPER_SWEEPS = 40
SETTINGS = {"n_codebooks": 4, "random_state": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=N_ITEMS)
    arguments = parser.parse_args()
    emit(measure(arguments.items))


def measure(n_items: int) -> dict[str, object]:
    data = acqh.make_multiview_like("nuswide10", n_items=n_items, random_state=0)
    views, labels = dict(data.views), data.labels
    image, text = views["image"], views["text"]
    wide = text.astype(np.float64)
    acqh.ACQH(32, **SETTINGS).fit({k: v[:500] for k, v in views.items()}, labels[:500])
    # First of all: later fits reuse memory that earlier ones have freed.
    peak = peak_bytes(lambda: acqh.ACQH(32, **SETTINGS).fit(views, labels))
    jobs = {
        "fit": lambda: acqh.ACQH(32, **SETTINGS).fit(views, labels),
        "gram": lambda: (gram64(image), wide.T @ wide),
        "narrow": lambda: (image.T @ image, wide.T @ wide),
    }
    with one_core():
        alone = medians(jobs)
    together = medians(jobs)
    stats = Statistics.from_views(views, labels)
    by_items = time_alternating(stats, views, labels)
    sizes = [n_items // 8, n_items // 4, n_items // 2, n_items]
    fit = together["fit"]
    return {
        "benchmark": "fit",
        "data": data.name,
        "n_items": n_items,
        "n_label_sets": len(stats.label_sets),
        "seconds": round(fit, 3),
        "seconds_one_core": round(alone["fit"], 3),
        "gram_seconds_one_core": round(alone["gram"], 3),
        "ratio": round(alone["fit"] / alone["gram"], 3),
        "ratio_all_cores": round(fit / together["gram"], 3),
        "ratio_float32": round(alone["fit"] / alone["narrow"], 3),
        "peak_megabytes_over_input": round(peak / 2**20, 1),
        **by_items,
        "alternating_ratio": round(by_items["alternating_seconds"] / fit, 1),
        "seconds_by_items": {
            n: round(
                seconds(
                    lambda n=n: acqh.ACQH(32, **SETTINGS).fit(
                        {k: v[:n] for k, v in views.items()}, labels[:n]
                    ),
                    2,
                ),
                3,
            )
            for n in sizes
        },
        "peak_megabytes_by_items": {
            n: round(
                peak_bytes(
                    lambda n=n: acqh.ACQH(32, **SETTINGS).fit(
                        {k: v[:n] for k, v in views.items()}, labels[:n]
                    )
                )
                / 2**20,
                1,
            )
            for n in sizes
        },
        "seconds_by_components": {
            k: round(seconds(lambda k=k: acqh.ACQH(k, **SETTINGS).fit(views, labels), 2), 3)
            for k in (8, 32, 128)
        },
    }


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process, its threads and its BLAS to a single core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        with threadpool_limits(1):
            yield
    finally:
        os.sched_setaffinity(0, cores)


def medians(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    return {name: float(np.median(times)) for name, times in take_turns(jobs, 5).items()}


def gram64(matrix: np.ndarray) -> np.ndarray:
    """Return X^T X in double precision, as plain NumPy would, without a copy of the whole."""
    total = np.zeros((matrix.shape[1],) * 2)
    for start in range(0, len(matrix), 16_384):
        block = matrix[start : start + 16_384].astype(np.float64)
        total += block.T @ block
    return total


def time_alternating(
    stats: Statistics, views: dict[str, Any], labels: np.ndarray
) -> dict[str, float]:
    """Time sweeps of Algorithm 1 item by item, and the paper's 40 of them.

    ``alternating_sweep_seconds`` is a sweep as printed: with S kept as L L^T, but with the
    codewords projected on all items, C^x of eq. 14, and their products with one another and
    with S, which eqs. 15 to 17 need. They are timed on an eighth of the items and multiplied:
    every one of them is linear in the number of items. ``collapsed_sweep_seconds`` is our own
    algebra and our own code search, with one row per item instead of one per label set.
    """
    model = acqh.methods.ACQHPaper(n_components=32, n_codebooks=4, max_iter=100, random_state=0)
    needed = model.fit_stats(stats).n_iter_
    L = labels.astype(np.float64)
    sets = stats.label_sets.matrix().astype(np.float64)
    solutions = [regress(view, sets, 0.0, fit_intercept=False) for view in stats.views.values()]
    gram = L.T @ L
    agreement = sum(
        sets.T @ view.set_totals @ f.coefficients
        for f, view in zip(solutions, stats.views.values(), strict=True)
    )
    problem = paper.PaperProblem(L, np.ones(len(L)), agreement, 2 * np.sum(gram**2), L, 1e-4, 1e-2)
    state = paper.random_start(problem, 32, 4, 256, np.random.default_rng(0))
    words = state.codebooks.reshape(-1, 32).astype(np.float32)
    maps = [(f.coefficients @ state.query_map).astype(np.float32) for f in solutions]
    part = len(labels) // 8

    def printed() -> None:
        for view, projection in zip(views.values(), maps, strict=True):
            for start in range(0, part, 16_384):
                rows = slice(start, min(start + 16_384, part))
                projected_words = (view[rows] @ projection) @ words.T
                projected_words.T @ projected_words
                L[rows].T.astype(np.float32) @ projected_words

    collapsed = seconds(lambda: paper.sweep(problem, state), 2)
    once = 8 * seconds(printed, 2) + collapsed
    return {
        "collapsed_sweep_seconds": round(collapsed, 3),
        "alternating_sweep_seconds": round(once, 3),
        "alternating_sweeps_needed": needed,
        "alternating_seconds": round(once * PAPER_SWEEPS, 2),
    }


def peak_bytes(work: Callable[[], object]) -> int:
    """Return by how much resident memory rose at most; the kernel keeps the high-water mark."""
    reset_peak()
    before = resident()
    work()
    return resident("VmHWM") - before


if __name__ == "__main__":
    main()

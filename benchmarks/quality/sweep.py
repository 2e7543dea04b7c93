"""Recall and processor time of a sweep of sizes, and of each size trained by itself.

    python -m benchmarks.quality.sweep mirflickr25k_deep.npz --bytes 2 4 8 16

Items are 43,441 vectors of 214 dimensions: principal components of the image features of a file,
and mixtures of two of them, 0.8 and 0.2. A thousand other rows of the file are the queries. One
thread works.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import acqh
from acqh.scale import sweep

N_ITEMS, N_COMPONENTS, N_QUERIES = 43_441, 214, 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("features", type=Path, help="an .npz file with an array 'image'")
    parser.add_argument("--bytes", type=int, nargs="+", default=[2, 4, 8, 16])
    arguments = parser.parse_args()
    items, queries = make_vectors(np.load(arguments.features)["image"].astype(np.float32))
    started = time.process_time()
    reports, _ = sweep(items, queries, arguments.bytes, n_threads=1)
    print(f"sweep: {time.process_time() - started:.1f} s")
    for size, report in reports.items():
        started = time.process_time()
        alone = acqh.compress(items, queries, size, n_threads=1).report
        seconds = time.process_time() - started
        reranked = ", ".join(f"{share:.3f} of {n}" for n, share in report.reranked_recall.items())
        print(
            f"{size} bytes: recall@10 {report.recall[10]:.3f}, re-ranked {reranked}; "
            f"alone {alone.recall[10]:.3f}, {seconds:.1f} s"
        )


def make_vectors(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return items and queries."""
    rng = np.random.default_rng(0)
    features = features[rng.permutation(len(features))]
    centred = features - features.mean(axis=0)
    directions = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    queries, rows = np.split(centred @ directions[:, :N_COMPONENTS], [N_QUERIES])
    first, second = rng.integers(len(rows), size=(2, N_ITEMS - len(rows)))
    mixtures = 0.8 * rows[first] + 0.2 * rows[second]
    return np.concatenate([rows, mixtures]).astype(np.float32), queries


if __name__ == "__main__":
    main()

"""Data with more features, or more labels, than items: seconds and memory of a whole fit.

``python -m benchmarks.speed.wide`` prints one JSON line per case. Each runs in a process of its
own, whose peak is compared with that of the interpreter with its imports; the peer is
scikit-learn's ridge regression from the same features to the same labels.
"""

import argparse
import subprocess
import sys

import numpy as np
import scipy.sparse as sp

import acqh
from benchmarks._measure import emit, resident, seconds

N_ITEMS = 300
CASES = {
    "sparse_features": {"n_features": 50_000, "n_labels": 20},
    "fewer_sparse_features": {"n_features": 8_000, "n_labels": 20},
    "many_labels": {"n_features": 200, "n_labels": 10_000},
}


def make(n_features, n_labels):
    rng = np.random.default_rng(0)
    image = sp.random_array((N_ITEMS, n_features), density=0.002, rng=rng, format="csr")
    text = rng.normal(size=(N_ITEMS, 50))
    labels = (rng.random((N_ITEMS, n_labels)) < max(3 / n_labels, 0.001)).astype(np.uint8)
    labels[np.arange(N_ITEMS), rng.integers(0, n_labels, N_ITEMS)] = 1
    return {"image": image, "text": text}, labels


def measure(name):
    from sklearn.linear_model import Ridge

    views, labels = make(**CASES[name])
    warm = acqh.make_multiview(50, n_labels=3, random_state=0)
    acqh.ACQH(4, n_codebooks=1, random_state=0).fit(warm.views, warm.labels)
    before = resident("VmHWM")
    model = acqh.ACQH(32, n_codebooks=4, random_state=0)
    fitted = seconds(lambda: model.fit(views, labels))
    after = resident("VmHWM")
    few = labels.astype(float)[:, :20]
    ridge = seconds(lambda: Ridge(solver="lsqr").fit(views["image"], few))
    return {
        "benchmark": "wide",
        "case": name,
        **CASES[name],
        "n_items": N_ITEMS,
        "seconds": round(fitted, 2),
        "goal_seconds": 10,
        "peak_mb": round((after - before) / 2**20),
        "goal_mb": 1024,
        "times_ridge_to_20_labels": round(fitted / ridge, 1),
        "n_codes": len(np.unique(model.encode(labels=labels), axis=0)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=sorted(CASES))
    arguments = parser.parse_args()
    if arguments.case:
        emit(measure(arguments.case))
        return
    for name in CASES:
        subprocess.run([sys.executable, "-m", "benchmarks.speed.wide", "--case", name], check=True)


if __name__ == "__main__":
    main()

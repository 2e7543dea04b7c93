"""Fit seconds of every registered method on MIRFlickr-shaped data, as ratios to ``acqh``.

A code takes 16 and then 64 bits. Binary methods get as many as `n_bits`; methods with codebooks
get a codebook of 256 words for every eight bits, and vectors of as many components as there are
bits; a method without codes does the same at both lengths. A number of bits that the data do not
carry is answered with fewer, as the method warns. All other settings are the defaults: methods
that are quadratic in the items thus draw their own documented subset.

Every method is fitted in turn, and `acqh` again before each, so that a ratio compares two fits of
the same moment. Whatever torch or BLAS would run in threads is kept to one.
"""

import argparse
import json
import sys
import time
import warnings
from typing import Any

from threadpoolctl import threadpool_limits

import acqh

N_ITEMS = 5000
BITS = (16, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=N_ITEMS)
    parser.add_argument("--full", action="store_true", help="as many items as MIRFlickr has")
    parser.add_argument("--methods", nargs="*", default=acqh.methods.list())
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    data = acqh.make_like(
        "mirflickr25k", None if arguments.full else arguments.items, random_state=0
    )
    with threadpool_limits(1):
        results = {bits: measure(data, bits, arguments.methods) for bits in BITS}
    print(json.dumps({"benchmark": "methods_fit", "n_items": len(data), "bits": results}))


def measure(data: Any, n_bits: int, names: list[str]) -> dict[str, Any]:
    small = data.subset(range(500))
    make("acqh", n_bits).fit(small)  # compile and warm up
    found = {}
    for name in names:
        base = min(fit_seconds("acqh", n_bits, data) for _ in range(2))
        seconds = fit_seconds(name, n_bits, data)
        if seconds < 5.0:
            seconds = min(seconds, fit_seconds(name, n_bits, data))
        found[name] = {"seconds": round(seconds, 3), "ratio": round(seconds / base, 2)}
        print(n_bits, name, found[name], file=sys.stderr)
    return found


def make(name: str, n_bits: int) -> Any:
    cls = acqh.methods.get(name)
    sizes = {
        "n_bits": n_bits,
        "n_codebooks": n_bits // 8,
        "n_components": n_bits,
        "codebook_size": 256,
        "random_state": 0,
    }
    known = cls().get_params()
    return cls(**{key: value for key, value in sizes.items() if key in known})


def fit_seconds(name: str, n_bits: int, data: Any) -> float:
    method = make(name, n_bits)
    started = time.perf_counter()
    method.fit(data)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()

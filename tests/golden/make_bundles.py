"""Save small indexes as this version of acqh writes them, with answers they must always give.

``python tests/golden/make_bundles.py NAME`` makes ``tests/golden/bundles/NAME``, which must not be
there yet: what is there was written by the version it is named after, and is never made again.
"""

import json
import sys
from pathlib import Path

import numpy as np

from acqh import CodeIndex, HammingIndex

BUNDLES = Path(__file__).parent / "bundles"


def indexes() -> dict[str, CodeIndex | HammingIndex]:
    """Return one index of each layout, with each kind of ids, changed after they were made."""
    rng = np.random.default_rng(0)
    # Whole numbers, so that scores are exact.
    codebooks = rng.integers(-9, 10, (3, 16, 4))
    distinct, shared = rng.integers(16, size=(300, 3)), rng.integers(2, size=(300, 3))
    bits = np.packbits(rng.integers(2, size=(50, 20)), axis=1)
    lists = CodeIndex(codebooks).add(distinct, rng.permutation(1000)[:300])
    grouped = CodeIndex(codebooks).add(shared[:290]).add(shared[290:])
    hamming = HammingIndex(20).add(bits, [f"bit {i} é" for i in range(50)])
    for index in (lists, grouped, hamming):
        index.remove(index.ids[5:9])
    return {"lists": lists, "grouped": grouped, "hamming": hamming}


def answers(index: CodeIndex | HammingIndex) -> dict[str, object]:
    """Return ids, codes and the best ten of some queries."""
    width = index.n_bits if isinstance(index, HammingIndex) else 4
    queries = np.random.default_rng(1).integers(-3, 4, (4, width)).astype(float)
    result = index.search(queries, 10)
    return {
        "ids": index.ids.tolist(),
        "codes": index.codes.tolist(),
        "queries": queries.tolist(),
        "found": result.ids.tolist(),
        "scores": result.scores.tolist(),
    }


if __name__ == "__main__":
    folder = BUNDLES / sys.argv[1]
    folder.mkdir(parents=True)
    for name, index in indexes().items():
        index.save(folder / f"{name}.acqh", name=f"golden {name}")
        (folder / f"{name}.json").write_text(json.dumps(answers(index)) + "\n")

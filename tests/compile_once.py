"""Compile what tests call, in one process, so that workers find it in the cache.

Each of them would compile the same loops otherwise, at the same time.
"""

import numpy as np

import acqh
import acqh.index.compiled.search
import acqh.quantize.compiled  # what is loaded is used, however little there is to do


def main() -> None:
    """Search, train and measure on a few rows of both precisions."""
    rng = np.random.default_rng(0)
    data = acqh.make_multiview(40, random_state=0)
    for dtype in (np.float32, np.float64):
        vectors = rng.normal(size=(64, 8)).astype(dtype)
        acqh.compress(vectors, queries=vectors[:20], bytes_per_item=2)
        views = {view: matrix.astype(dtype) for view, matrix in data.views.items()}
        model = acqh.ACQH(4, n_codebooks=2, codebook_size=8, random_state=0)
        model.fit(views, data.labels)
        index = acqh.CodeIndex(model.codebooks_).add(model.encode(views))
        queries = model.project(next(iter(views.values())), view=next(iter(views)))
        result = index.search(queries, k=5)
        index.search(queries, k=5, budget=10)
        index.search(queries, k=5, recall=0.9)
    acqh.metrics.evaluate(result, data.labels, data.labels, ids=np.arange(40))


if __name__ == "__main__":
    main()

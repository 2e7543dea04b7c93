"""Which rows of many are the anchors of a kernel map: by leverage, or by k-means."""

from collections.abc import Callable

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils.extmath import row_norms

from acqh._core.arrays import Floats, Ints, Matrix
from acqh.features.base import row_blocks
from acqh.features.kernel.arithmetic import HOST, Arithmetic, Numbers
from acqh.features.kernel.choice import Choice
from acqh.features.kernel.kernels import KERNELS, prepare
from acqh.features.kernel.solve import DualSystem

# Rows of a batch of k-means, and passes over the rows at most.
_BATCH, _MAX_PASSES = 4096, 20


def leverage_rows(
    block: Callable[[Ints, Ints], Numbers],
    n_rows: int,
    n_chosen: int,
    rng: np.random.Generator,
    arithmetic: Arithmetic = HOST,
) -> Ints:
    """Draw rows by their ridge leverage, what other rows do not say of them.

    `block`: from two arrays of row numbers to their kernel. `arithmetic`: of what `block` gives.
    Gives (n_chosen,), rising.

    Notes
    -----
    Leverages are those over a uniform sample, with a ridge of one: about 1 for a row far from
    all others, next to 0 for one among many like it.
    """
    sample = np.sort(rng.choice(n_rows, min(n_rows, 1000), replace=False))
    inner = arithmetic.widen(block(sample, sample))
    system = DualSystem.of(lambda i, j: inner[i, j], len(sample), 1.0, arithmetic)
    found = []
    for part in row_blocks(n_rows, len(sample), arithmetic.block_values):
        across = arithmetic.widen(block(np.arange(part.start, part.stop), sample)).T
        found.append(1.0 - (across * system.solve_once(across)).sum(0))
    scores = np.maximum(np.concatenate([arithmetic.on_host(it) for it in found]), 1e-6)
    chosen = rng.choice(n_rows, n_chosen, replace=False, p=scores / scores.sum())
    return np.sort(chosen)


def central_rows(
    X: Matrix, choice: Choice, idf: Floats, n_chosen: int, rng: np.random.Generator
) -> Ints:
    """Return the rows nearest to the centres of k-means.

    `X`: (n_rows, n_features), dense or CSR. Clustered as the kernel of the largest weight compares
    rows, for intersections by the roots of counts. `idf`: (n_features,). Gives (n_chosen,), rising,
    fewer than there are rows: one of each cluster, and rows drawn at random in the place of
    clusters that are empty.
    """
    name = KERNELS[int(np.argmax(choice.weights))]
    rows = prepare("hellinger" if name == "intersection" else name, X, idf).rows
    means = MiniBatchKMeans(
        n_chosen,
        init="random",
        n_init=1,
        batch_size=max(_BATCH, n_chosen),
        max_iter=_MAX_PASSES,
        random_state=int(rng.integers(2**31)),
    ).fit(rows)
    centres, labels = means.cluster_centers_, means.labels_
    distances = row_norms(centres, squared=True)[labels]
    for part in row_blocks(X.shape[0], X.shape[1]):
        inner = rows[part] * centres[labels[part]]  # sparse where rows are
        distances[part] -= 2.0 * np.asarray(inner.sum(axis=1)).ravel()
    distances += row_norms(rows, squared=True)
    order = np.lexsort((distances, labels))
    first = np.unique(labels[order], return_index=True)[1]
    chosen = order[first]
    others = np.setdiff1d(np.arange(X.shape[0]), chosen)
    drawn = rng.choice(others, n_chosen - len(chosen), replace=False)
    return np.sort(np.concatenate([chosen, drawn]))

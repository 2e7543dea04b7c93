"""k-means of weighted points, few or many."""

import numpy as np

from acqh._core.arrays import Floats, Ints, slices
from acqh._core.runtime import loops
from acqh.quantize.codebooks import sum_by_word

MAX_LLOYD = 5
# Points tried for each seed; more make a better start, which sweeps over all codebooks soon forget.
_TRIALS = 3
# Components that k-means begins with, at least.
_FEWEST = 8
# Lloyd's steps of k-means of many points, times the components they look at, and steps at most:
# with few components a step is cheap, and with one step for each number of components the error of
# 50,000 items in 16 codebooks is a quarter higher.
_WORK = 256
_MOST_STEPS = 10
# Of many points these are enough to draw seeds from and to find the principal components.
_SEED_POINTS_PER_WORD = 16
_POINTS_PER_COMPONENT = 4
# Distances from all words are kept for this many points at a time: they stay in the cache.
_BLOCK_ROWS = 512


def weighted_kmeans(
    points: Floats,
    weights: Floats,
    n_words: int,
    rng: np.random.Generator,
    *,
    max_iter: int = MAX_LLOYD,
    is_quick: bool = False,
) -> tuple[Floats, Ints]:
    """Cluster weighted points: seeds by greedy k-means++, then Lloyd's steps.

    Parameters
    ----------
    points : (n_items, n_components)
    weights : (n_items,)
        Not negative, some positive. A point of weight w counts as w copies of it.
    n_words : int
        From 1 to 256.
    rng : Generator
    max_iter : int, default 5
        Few steps are enough where least squares follows.
    is_quick : bool
        Whether distances are compared in single precision.

    Returns
    -------
    words : (n_words, n_components) float64
    codes : (n_items,) uint8
        The nearest word of each point.

    Notes
    -----
    A word that loses all its points moves to the point with the largest weighted error, each
    such word to another point. Where fewer distinct points than words have weight, the words
    that are left over are zero vectors.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [9.0]])
    >>> words, codes = weighted_kmeans(points, np.ones(3), 2, np.random.default_rng(0))
    >>> sorted(words.ravel().tolist())
    [0.5, 9.0]
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    weights = np.asarray(weights, dtype=np.float64)
    mean, scale, small = np.zeros(points.shape[1]), 1.0, points
    if is_quick:
        mean = np.average(points, axis=0, weights=weights)
        scale = np.abs(points - mean).max() or 1.0
        small = ((points - mean) / scale).astype(np.float32)

    def nearest(words: Floats) -> Ints:
        return _nearest(small, ((words - mean) / scale).astype(small.dtype))

    words = _seed(points, weights, n_words, rng)
    codes = nearest(words)
    for _ in range(max_iter):
        words = _means(points, weights, codes, n_words)
        moved = nearest(words)
        if np.array_equal(moved, codes):
            break
        codes = moved
    return words, codes


def sampled_kmeans(
    points: Floats,
    weights: Floats,
    n_words: int,
    rng: np.random.Generator,
) -> Floats:
    """Cluster many weighted points: first by their principal components, then by all.

    Seeds and principal components come from a sample. Lloyd's steps look at eight components, then
    at twice as many and so on; the more components, the fewer steps. Where there are many, most of
    the distance between two points is noise that no word can take up; to begin with what matters
    gives lower errors in the end.

    Takes what `weighted_kmeans` does and gives its words, several times quicker, and better where
    points and components are many.

    Examples
    --------
    >>> points = np.repeat([[0.0], [1.0], [9.0]], [40, 40, 40], axis=0)
    >>> words = sampled_kmeans(points, np.ones(120), 3, np.random.default_rng(0))
    >>> np.sort(words.ravel()).round(3) + 0.0
    array([0., 1., 9.])
    """
    # Near zero and of size one, so that single precision keeps the distances.
    mean = weights.astype(points.dtype) @ points / points.dtype.type(weights.sum())
    small = (points - mean).astype(np.float32, copy=False)
    small /= np.abs(small).max() or 1.0
    enough = max(_SEED_POINTS_PER_WORD * n_words, _POINTS_PER_COMPONENT * points.shape[1])
    sample = np.sort(rng.choice(len(points), min(len(points), enough), replace=False))
    if not weights[sample].any():
        sample = np.arange(len(points))
    *narrow, _ = _widths(small.shape[1])
    few, masses = small[sample], weights[sample, np.newaxis].astype(np.float32)
    directions = np.linalg.eigh(few.T @ (few * masses))[1][:, ::-1]
    turned = small @ directions[:, : max(narrow, default=0)]
    views = [*(np.ascontiguousarray(turned[:, :width]) for width in narrow), small]
    words = _seed(views[0][sample], weights[sample], n_words, rng)
    before = views[0]
    for view in views:
        for _ in range(max(1, min(_MOST_STEPS, _WORK // view.shape[1]))):
            codes = _nearest(before, words.astype(np.float32))
            words = _means(view, weights, codes, n_words)
            before = view
    codes = _nearest(small, words.astype(np.float32))
    return _means(points, weights, codes, n_words)


def _widths(n_components: int) -> list[int]:
    """Return how many components Lloyd's steps look at: each twice the one before, then all."""
    widths = [n_components]
    while widths[-1] >= 2 * _FEWEST:
        widths.append(widths[-1] // 2)
    return widths[::-1]


def _seed(points: Floats, weights: Floats, n_words: int, rng: np.random.Generator) -> Floats:
    """Choose points to start from, each the best of several draws (greedy k-means++).

    A draw falls on a point with probability proportional to its weight times its squared distance
    from the points chosen before; the best leaves the lowest error. Words are zero where no error
    is left.
    """
    draws = rng.random((n_words, _TRIALS))
    # Single precision is quicker, and points near zero and of size one keep their distances in it.
    centred = (points - np.average(points, axis=0, weights=weights)).T
    centred /= np.abs(centred).max() or 1.0
    columns = np.ascontiguousarray(centred, np.float32)
    run = loops("acqh.quantize", 3 * draws.size * columns.size)
    tried = np.empty((_TRIALS, len(points)), dtype=np.float32)
    closest, mass = np.full(len(points), np.inf, dtype=np.float32), np.cumsum(weights)
    words = np.zeros((n_words, points.shape[1]))
    for word, row in zip(words, draws, strict=True):
        if not mass[-1] > 0:
            break
        places = np.searchsorted(mass, row * mass[-1], side="right")
        places = np.minimum(places, len(points) - 1)  # rounding could reach the end
        run.fill_distances(columns, places, tried)
        np.minimum(tried, closest, out=tried)
        masses = np.cumsum(weights * tried, axis=1)
        best = int(np.argmin(masses[:, -1]))
        word[:] = points[places[best]]
        closest, mass = tried[best].copy(), masses[best]
    return words


def _nearest(points: Floats, words: Floats) -> Ints:
    """Return the nearest word of each point, in the precision of both; single is quicker."""
    norms = np.einsum("jk,jk->j", words, words)
    doubled = np.ascontiguousarray(-2.0 * words.T)
    codes = np.empty(len(points), dtype=np.uint8)
    costs = np.empty((_BLOCK_ROWS, len(words)), dtype=points.dtype)
    for rows in slices(len(points), _BLOCK_ROWS):
        block = np.matmul(points[rows], doubled, out=costs[: len(points[rows])])
        block += norms
        codes[rows] = block.argmin(axis=1)
    return codes


def _means(points: Floats, weights: Floats, codes: Ints, n_words: int) -> Floats:
    """Move each word to the weighted mean of its points; give words without any a new place."""
    mass = np.bincount(codes, weights, n_words)
    used = mass > 0
    sums = sum_by_word(points, weights, codes[:, np.newaxis], n_words)[0]
    words = np.zeros(sums.shape)
    words[used] = sums[used] / mass[used, np.newaxis]
    empty = np.flatnonzero(~used)
    if empty.size:
        errors = weights * np.square(points - words[codes]).sum(axis=1)
        worst = np.argsort(-errors, kind="stable")[: empty.size]
        worst = worst[errors[worst] > 0]
        words[empty[: worst.size]] = points[worst]
    return words

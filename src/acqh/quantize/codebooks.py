"""Codebooks: decoding, quantization errors, checks, least squares for fixed codes, k-means."""

from typing import Any

import numpy as np

from acqh._core.arrays import Floats, Ints, as_rows, is_tensor
from acqh._core.linalg import solve_spd
from acqh._core.runtime import loops, run_blocks
from acqh.errors import InvalidInputError

# Proximal weight of least squares, relative to the weight of the items of a codeword: far above
# rounding, without effect on the error.
PROXIMITY = 1e-8
# Steps of conjugate gradients between code searches: more than ten lower the final error by no more
# than another seed does.
_GRADIENT_STEPS = 10
# Relative tolerance of the squared gradient of a dimension: the rest is rounding, which further
# steps along singular directions would amplify.
_CG_TOLERANCE = 1e-22
MAX_LLOYD = 5
# Candidates per seed of k-means++; with more, later sweeps end with the same error.
_TRIALS = 3
# Minimal number of principal components that k-means starts with.
_FEWEST = 8
# Lloyd's steps times their number of components, and maximal steps, for many points: with few
# components a step is cheap. With one step for each number of components the error of 50,000 items
# in 16 codebooks is a quarter higher.
_WORK = 256
_MOST_STEPS = 10
# Of many points these are enough to draw seeds from and to find the principal components.
_SEED_POINTS_PER_WORD = 16
_POINTS_PER_COMPONENT = 4
# Distances from all codewords are kept for this many points at a time: they stay in the cache.
_BLOCK_ROWS = 512
# Points that a thread takes at a time, and components where sums over points are taken: the sums
# have the same order for any number of threads.
_TASK_ROWS = 8 * _BLOCK_ROWS
_TASK_COLUMNS = 64


def decode(codes: Ints, codebooks: Floats) -> Floats:
    """Return the reconstructions of codes: sums of one codeword per codebook.

    Parameters
    ----------
    codes : (n_items, n_codebooks)
    codebooks : (n_codebooks, codebook_size, n_components)

    Returns
    -------
    (n_items, n_components) of the dtype of `codebooks`

    Examples
    --------
    >>> decode(np.array([[1, 0]]), np.array([[[0.0], [2.0]], [[0.5], [0.0]]]))
    array([[2.5]])
    """
    if is_tensor(codes) or len(codes) <= _TASK_ROWS:
        return _sum_words(codes, codebooks)
    vectors = np.empty((len(codes), codebooks.shape[2]), dtype=codebooks.dtype)

    def fill(rows: slice) -> None:
        vectors[rows] = _sum_words(codes[rows], codebooks)

    run_blocks(fill, len(codes), _TASK_ROWS)
    return vectors


def _sum_words(codes: Ints, codebooks: Floats) -> Floats:
    vectors: Floats = codebooks[0][codes[:, 0]]
    for s in range(1, len(codebooks)):
        vectors += codebooks[s][codes[:, s]]
    return vectors


def quantization_errors(targets: Floats, codes: Ints, codebooks: Floats) -> Floats:
    """Return the squared distance of every target from its reconstruction.

    Parameters
    ----------
    targets : (n_items, n_components)
    codes : (n_items, n_codebooks)
    codebooks : (n_codebooks, codebook_size, n_components)

    Returns
    -------
    (n_items,)

    Examples
    --------
    >>> quantization_errors(np.array([[3.0]]), np.array([[1]]), np.array([[[0.0], [2.0]]]))
    array([1.])
    """
    errors = np.empty(len(targets), dtype=np.result_type(targets, codebooks))

    def measure(rows: slice) -> None:
        residuals = targets[rows] - _sum_words(codes[rows], codebooks)
        errors[rows] = np.einsum("ik,ik->i", residuals, residuals)

    run_blocks(measure, len(targets), _TASK_ROWS)
    return errors


def check_codes(codes: Any, codebooks: Floats, n_items: int | None = None) -> Any:
    """Return codes as uint8, a tensor as it is, or raise InvalidInputError.

    `n_items`: how many there must be.
    """
    if not is_tensor(codes):
        codes = as_rows(codes, "codes", InvalidInputError)
    n_codebooks, n_words, _ = codebooks.shape
    rows = codes.shape[:1] if n_items is None else (n_items,)
    kind = str(codes.dtype).removeprefix("torch.")
    if codes.shape != (*rows, n_codebooks) or not kind.startswith(("int", "uint")):
        raise InvalidInputError(
            f"codes must be whole numbers of shape {(*rows, n_codebooks)}, "
            f"got {kind} of shape {tuple(codes.shape)}"
        )
    if len(codes) and not 0 <= codes.min() <= codes.max() < n_words:
        raise InvalidInputError(
            f"codes must lie from 0 to {n_words - 1}, got {int(codes.min())} to {int(codes.max())}"
        )
    return codes if is_tensor(codes) else np.asarray(codes, dtype=np.uint8)


def least_squares_codebooks(
    targets: Floats, weights: Floats, codes: Ints, codebooks: Floats
) -> Floats:
    """Return the codebooks that fit the targets best for fixed codes.

    Minimises ``sum_i w_i ||z_i - sum_s C_s[a_is]||^2``, all codebooks at once.

    Parameters
    ----------
    targets : (n_items, n_components)
    weights : (n_items,)
        Not negative.
    codes : (n_items, n_codebooks)
    codebooks : (n_codebooks, codebook_size, n_components)
        Where to start from.

    Returns
    -------
    (n_codebooks, codebook_size, n_components) float64

    Notes
    -----
    Let A be the 0/1 matrix of chosen codewords. With two or more codebooks the normal matrix
    ``A^T W A`` is singular: a vector can be moved from one codebook to another. Of all solutions,
    this is the nearest to the initial codebooks. It solves

        (A^T W A + e D) (C - C_given) = A^T W (Z - A C_given),    D = diag(A^T W A),

    with e = 1e-8. The proximal term cannot raise the error, the system is positive definite for all
    codes, and an unused codeword keeps its value. The paper's eq. 13 has the inverse without this
    term; its metric G drops out once the targets are ``G^-1 z``.
    """
    gram = _word_gram(codes, weights, codebooks.shape[1])
    right = _misfit(targets, weights, codes, codebooks)
    used = np.diag(gram)
    gram[np.diag_indices_from(gram)] += np.where(used > 0, PROXIMITY * used, 1.0)
    return codebooks + solve_spd(gram, right.reshape(len(gram), -1)).reshape(codebooks.shape)


def improve_codebooks(
    targets: Floats,
    weights: Floats,
    codes: Ints,
    codebooks: Floats,
    *,
    n_steps: int = _GRADIENT_STEPS,
    ridge: float = 0.0,
    towards: Floats | None = None,
) -> Floats:
    """Return codebooks with a lower or equal error for fixed codes.

    Approaches `least_squares_codebooks` by conjugate gradients. A step costs one scan of the items,
    independently of the number of codewords; the exact solution costs its cube.

    Parameters
    ----------
    targets : (n_items, n_components)
    weights : (n_items,)
        Not negative.
    codes : (n_items, n_codebooks)
    codebooks : (n_codebooks, codebook_size, n_components)
        Where to start from.
    n_steps : int
    ridge : float
        Weight of the pull of every codeword towards `towards`, in the unit of item weights.
    towards : (n_codebooks, codebook_size, n_components), optional
        Default: `codebooks`.

    Returns
    -------
    (n_codebooks, codebook_size, n_components) float64

    Notes
    -----
    Every step lowers the error of every dimension, plus the ridge times the squared distances from
    `towards`. Steps never leave the range of ``A^T W A``, and an unused codeword keeps its value.

    Examples
    --------
    >>> codebooks = np.array([[[0.0], [1.0]]])
    >>> improve_codebooks(np.array([[2.0], [4.0]]), np.ones(2), np.array([[1], [1]]), codebooks)
    array([[[0.],
            [3.]]])
    """
    codebooks, towards = codebooks.astype(np.float64), codebooks if towards is None else towards
    mass: Floats = np.stack(
        [np.bincount(column, weights, codebooks.shape[1]) for column in codes.T]
    )
    mass = mass + ridge
    scale = np.where(mass > 0, mass, 1.0)[:, :, np.newaxis]
    left = _misfit(targets, weights, codes, codebooks)
    if ridge:
        left += ridge * (towards - codebooks)
    scaled = left / scale
    direction = scaled.copy()
    power = np.einsum("sjk,sjk->k", left, scaled)
    arrived = _CG_TOLERANCE * power
    product, run = np.empty_like(codebooks), loops("acqh.quantize", n_steps * 8 * targets.size)

    def multiply(columns: slice) -> None:
        part = np.ascontiguousarray(direction[:, :, columns])
        sums = np.zeros_like(part)
        run.normal_product(codes, weights, part, sums)
        product[:, :, columns] = sums

    for _ in range(n_steps):
        direction[:, :, power <= arrived] = 0.0
        run_blocks(multiply, codebooks.shape[2], _TASK_COLUMNS)
        if ridge:
            product += ridge * direction
        curvature = np.einsum("sjk,sjk->k", direction, product)
        length = _ratio(power, curvature)
        codebooks += length * direction
        left -= length * product
        np.divide(left, scale, out=scaled)
        before, power = power, np.einsum("sjk,sjk->k", left, scaled)
        direction *= _ratio(power, before)
        direction += scaled
    return codebooks


def _ratio(numerators: Floats, denominators: Floats) -> Floats:
    """Return ratios; 0 where the denominator is 0, which means that a dimension has converged."""
    return np.divide(
        numerators, denominators, out=np.zeros_like(numerators), where=denominators > 0
    )


def _misfit(targets: Floats, weights: Floats, codes: Ints, codebooks: Floats) -> Floats:
    """Return ``A^T W (Z - A C)``, of the shape of the codebooks: half of minus the gradient."""
    return sum_by_word(targets - decode(codes, codebooks), weights, codes, codebooks.shape[1])


def sum_by_word(rows: Floats, weights: Floats, codes: Ints, n_words: int) -> Floats:
    """Return weighted sums of rows by codeword: (n_codebooks, n_words, n_components) float64."""
    sums = np.empty((codes.shape[1], n_words, rows.shape[1]))
    run, codes = loops("acqh.quantize", 4 * codes.shape[1] * rows.size), np.ascontiguousarray(codes)

    def add(columns: slice) -> None:
        part = np.ascontiguousarray(rows[:, columns])
        total = np.zeros((*sums.shape[:2], part.shape[1]))
        run.sum_rows(part, weights, codes, total)
        sums[:, :, columns] = total

    run_blocks(add, rows.shape[1], _TASK_COLUMNS)
    return sums


def _word_gram(codes: Ints, weights: Floats, n_words: int) -> Floats:
    """Return ``A^T W A``: the weight of the items that use both codewords of a pair."""
    n_codebooks = codes.shape[1]
    gram = np.empty((n_codebooks, n_words, n_codebooks, n_words))
    codewords = codes.astype(np.int64)
    for s in range(n_codebooks):
        for t in range(s, n_codebooks):
            both = np.bincount(
                codewords[:, s] * n_words + codewords[:, t], weights, n_words * n_words
            )
            gram[s, :, t] = both.reshape(n_words, n_words)
            gram[t, :, s] = gram[s, :, t].T
    return gram.reshape(n_codebooks * n_words, n_codebooks * n_words)


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
    codewords : (n_words, n_components) float64
    codes : (n_items,) uint8
        The nearest codeword of each point.

    Notes
    -----
    A codeword that loses all its points moves to the point with the largest weighted error, each
    such codeword to another point. Where fewer distinct points than codewords have weight, the
    codewords that are left over are zero vectors.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [9.0]])
    >>> codewords, codes = weighted_kmeans(points, np.ones(3), 2, np.random.default_rng(0))
    >>> sorted(codewords.ravel().tolist())
    [0.5, 9.0]
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    weights = np.asarray(weights, dtype=np.float64)
    mean, scale, small = np.zeros(points.shape[1]), 1.0, points
    if is_quick:
        mean = np.average(points, axis=0, weights=weights)
        scale = np.abs(points - mean).max() or 1.0
        small = ((points - mean) / scale).astype(np.float32)

    def nearest(codewords: Floats) -> Ints:
        return _nearest(small, ((codewords - mean) / scale).astype(small.dtype))

    codewords = _seed(points, weights, n_words, rng)
    codes = nearest(codewords)
    for _ in range(max_iter):
        codewords = _means(points, weights, codes, n_words)
        moved = nearest(codewords)
        if np.array_equal(moved, codes):
            break
        codes = moved
    return codewords, codes


def sampled_kmeans(
    points: Floats, weights: Floats, n_words: int, rng: np.random.Generator
) -> Floats:
    """Cluster many weighted points: first by their principal components, then by all.

    Seeds and principal components come from a sample. Lloyd's steps use eight components, then
    twice as many and so on; the more components, the fewer steps. In many dimensions most of the
    distance between two points is noise; starting with the leading components ends with lower
    errors.

    Same arguments and result as `weighted_kmeans`; several times faster, with lower errors for many
    points and dimensions.

    Examples
    --------
    >>> points = np.repeat([[0.0], [1.0], [9.0]], [40, 40, 40], axis=0)
    >>> codewords = sampled_kmeans(points, np.ones(120), 3, np.random.default_rng(0))
    >>> np.sort(codewords.ravel()).round(3) + 0.0
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
    codewords = _seed(views[0][sample], weights[sample], n_words, rng)
    before = views[0]
    for view in views:
        for _ in range(max(1, min(_MOST_STEPS, _WORK // view.shape[1]))):
            codes = _nearest(before, codewords.astype(np.float32))
            codewords = _means(view, weights, codes, n_words)
            before = view
    codes = _nearest(small, codewords.astype(np.float32))
    return _means(points, weights, codes, n_words)


def _widths(n_components: int) -> list[int]:
    """Return the numbers of components of Lloyd's steps: doubling, up to all."""
    widths = [n_components]
    while widths[-1] >= 2 * _FEWEST:
        widths.append(widths[-1] // 2)
    return widths[::-1]


def _seed(points: Floats, weights: Floats, n_words: int, rng: np.random.Generator) -> Floats:
    """Choose points to start from, each the best of several draws (greedy k-means++).

    A draw falls on a point with probability proportional to its weight times its squared distance
    from the points chosen before; the best leaves the lowest error. Codewords are zero where no
    error is left.
    """
    draws = rng.random((n_words, _TRIALS))
    # Single precision is quicker, and points near zero and of size one keep their distances in it.
    centred = (points - np.average(points, axis=0, weights=weights)).T
    centred /= np.abs(centred).max() or 1.0
    columns = np.ascontiguousarray(centred, np.float32)
    run = loops("acqh.quantize", 3 * draws.size * columns.size)
    tried, errors = np.empty((_TRIALS, len(points)), dtype=np.float32), np.empty(_TRIALS)
    closest, mass = np.full(len(points), np.inf, dtype=np.float32), np.cumsum(weights)
    codewords = np.zeros((n_words, points.shape[1]))
    for codeword, row in zip(codewords, draws, strict=True):
        if not mass[-1] > 0:
            break
        places = np.searchsorted(mass, row * mass[-1], side="right")
        places = np.minimum(places, len(points) - 1)  # rounding could reach the end
        run.shrink_distances(columns, places, closest, weights, tried, errors)
        best = int(np.argmin(errors))
        codeword[:] = points[places[best]]
        closest = tried[best].copy()
        mass = np.cumsum(weights * closest)
    return codewords


def _nearest(points: Floats, codewords: Floats) -> Ints:
    """Return the nearest codeword of each point, in the precision of both; single is quicker."""
    norms = np.einsum("jk,jk->j", codewords, codewords)
    doubled = np.ascontiguousarray(-2.0 * codewords.T)
    codes = np.empty(len(points), dtype=np.uint8)
    run = loops("acqh.quantize", 2 * len(points) * len(codewords))

    def search(rows: slice) -> None:
        costs = np.empty((_BLOCK_ROWS, len(codewords)), dtype=points.dtype)
        for start in range(rows.start, rows.stop, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, rows.stop)
            block = np.matmul(points[start:stop], doubled, out=costs[: stop - start])
            run.nearest(block, norms, codes[start:stop])

    run_blocks(search, len(points), _TASK_ROWS)
    return codes


def _means(points: Floats, weights: Floats, codes: Ints, n_words: int) -> Floats:
    """Return the weighted mean of the points of each codeword; relocate unused codewords."""
    mass = np.bincount(codes, weights, n_words)
    used = mass > 0
    sums = sum_by_word(points, weights, codes[:, np.newaxis], n_words)[0]
    codewords = np.zeros(sums.shape)
    codewords[used] = sums[used] / mass[used, np.newaxis]
    empty = np.flatnonzero(~used)
    if empty.size:
        errors = weights * np.square(points - codewords[codes]).sum(axis=1)
        worst = np.argsort(-errors, kind="stable")[: empty.size]
        worst = worst[errors[worst] > 0]
        codewords[empty[: worst.size]] = points[worst]
    return codewords

"""What codes stand for: decoding, errors, checks, and codebooks for given codes."""

from typing import Any

import numpy as np

from acqh._core.arrays import Floats, Ints, as_rows, is_tensor
from acqh._core.linalg import solve_spd
from acqh._core.runtime import loops
from acqh.errors import InvalidInputError

# How firmly least squares holds words where they are, relative to the weight of the items that
# use them: far above rounding, far below what could be felt in the error.
PROXIMITY = 1e-8
# Steps of conjugate gradients after which codes are better searched again: more than ten lower
# the error that training ends with by no more than another seed does.
_GRADIENT_STEPS = 10
# Share of the squared gradient at which a component has arrived: what is left is rounding, which
# further steps along singular directions would blow up.
_ARRIVED = 1e-22


def decode(codes: Ints, codebooks: Floats) -> Floats:
    """Return the vectors that codes stand for, one word of each codebook added up.

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
    vectors: Floats = codebooks[0][codes[:, 0]]
    for s in range(1, len(codebooks)):
        vectors += codebooks[s][codes[:, s]]
    return vectors


def quantization_errors(targets: Floats, codes: Ints, codebooks: Floats) -> Floats:
    """Return the squared distance of every target from what its code stands for.

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
    residuals = targets - decode(codes, codebooks)
    return np.asarray(np.einsum("ik,ik->i", residuals, residuals))


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
    With A the 0/1 matrix of chosen words, the normal matrix ``A^T W A`` is singular whenever
    there are two codebooks, since a vector can be moved from one to the other; among all
    solutions this takes the one nearest to the codebooks given, by solving

        (A^T W A + e D) (C - C_given) = A^T W (Z - A C_given),    D = diag(A^T W A),

    with e = 1e-8. The pull towards what was given cannot raise the error, the system is positive
    definite whatever the codes, and a word that no weight uses keeps its value. The paper's
    eq. 13 has the plain inverse; its metric G drops out once the targets are ``G^-1 z``.
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
    """Return codebooks that fit the targets better for fixed codes, none of them worse.

    Goes towards `least_squares_codebooks` by conjugate gradients. A step costs one pass over the
    items, whatever the number of words, where the solution costs the cube of that number.

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
        Weight by which every word is held to where `towards` has it, as if that much weight of
        items were there.
    towards : (n_codebooks, codebook_size, n_components), optional
        By default where to start from.

    Returns
    -------
    (n_codebooks, codebook_size, n_components) float64

    Notes
    -----
    Every step lowers the error of every component, with a ridge the sum of it and of the ridge
    times squared distances from `towards`. The singular directions of ``A^T W A`` are
    never entered, and a word that no weight uses keeps its value.

    Examples
    --------
    >>> codebooks = np.array([[[0.0], [1.0]]])
    >>> improve_codebooks(np.array([[2.0], [4.0]]), np.ones(2), np.array([[1], [1]]), codebooks)
    array([[[0.],
            [3.]]])
    """
    codebooks, towards = codebooks.astype(np.float64), codebooks if towards is None else towards
    mass: Floats = np.stack([np.bincount(it, weights, codebooks.shape[1]) for it in codes.T])
    mass = mass + ridge
    scale = np.where(mass > 0, mass, 1.0)[:, :, np.newaxis]
    left = _misfit(targets, weights, codes, codebooks)
    if ridge:
        left += ridge * (towards - codebooks)
    scaled = left / scale
    direction = scaled.copy()
    power = np.einsum("sjk,sjk->k", left, scaled)
    arrived = _ARRIVED * power
    product, run = np.empty_like(codebooks), loops("acqh.quantize", n_steps * 8 * targets.size)
    for _ in range(n_steps):
        direction[:, :, power <= arrived] = 0.0
        product[:] = 0.0
        run.normal_product(codes, weights, direction, product)
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
    """Divide; where there is nothing to divide by, nothing is left to be done."""
    return np.divide(
        numerators, denominators, out=np.zeros_like(numerators), where=denominators > 0
    )


def _misfit(targets: Floats, weights: Floats, codes: Ints, codebooks: Floats) -> Floats:
    """Return ``A^T W (Z - A C)``, of the shape of the codebooks: half of minus the gradient."""
    return sum_by_word(targets - decode(codes, codebooks), weights, codes, codebooks.shape[1])


def sum_by_word(rows: Floats, weights: Floats, codes: Ints, n_words: int) -> Floats:
    """Return the weighted sum of each word's rows; (n_codebooks, n_words, n_components) float64."""
    sums = np.zeros((codes.shape[1], n_words, rows.shape[1]))
    run = loops("acqh.quantize", 4 * codes.shape[1] * rows.size)
    run.sum_rows(np.ascontiguousarray(rows), weights, np.ascontiguousarray(codes), sums)
    return sums


def _word_gram(codes: Ints, weights: Floats, n_words: int) -> Floats:
    """Return ``A^T W A``: the weight of the items that use both words of a pair."""
    n_codebooks = codes.shape[1]
    gram = np.empty((n_codebooks, n_words, n_codebooks, n_words))
    words = codes.astype(np.int64)
    for s in range(n_codebooks):
        for t in range(s, n_codebooks):
            both = np.bincount(words[:, s] * n_words + words[:, t], weights, n_words * n_words)
            gram[s, :, t] = both.reshape(n_words, n_words)
            gram[t, :, s] = gram[s, :, t].T
    return gram.reshape(n_codebooks * n_words, n_codebooks * n_words)

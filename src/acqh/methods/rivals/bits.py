"""Discrete coordinate descent: the bits of a code, one after another, each solved exactly."""

import numpy as np

from acqh._core.arrays import Floats

MAX_SWEEPS = 10
# Rows are independent; a block of them stays in the cache while its bits are swept.
BLOCK_ROWS = 2048


def descend_bits(signs: Floats, H: Floats, Q: Floats, *, max_sweeps: int = MAX_SWEEPS) -> Floats:
    """Minimise ``tr(B H Bᵀ) - 2 tr(B Qᵀ)`` over signs B, one bit at a time.

    Bit k becomes ``sgn(q_k - Σ_{j≠k} b_j H_jk)``, which is its exact minimiser for the other
    bits as they are, so the objective never rises. Where the argument is exactly zero, both
    signs are as good and the bit stays. Sweeps over all bits go on until no bit changes.

    `signs`: (n_items, n_bits); the start, of -1 and 1. `H`: (n_bits, n_bits); symmetric; its
    diagonal does not matter. `Q`: (n_items, n_bits). Gives (n_items, n_bits) float64, of -1 and 1.

    Notes
    -----
    A sweep takes O(n_items n_bits²). Rows do not depend on each other, so later sweeps visit
    only the rows that changed in the one before.

    Examples
    --------
    >>> descend_bits(np.array([[1.0, 1.0]]), np.eye(2), np.array([[-3.0, 0.0]]))
    array([[-1.,  1.]])
    """
    others = np.array(H, dtype=np.float64)
    np.fill_diagonal(others, 0.0)
    found = np.array(signs, dtype=np.float64)
    for start in range(0, len(found), BLOCK_ROWS):
        rows = np.arange(start, min(start + BLOCK_ROWS, len(found)))
        for _ in range(max_sweeps):
            swept = _sweep(found[rows], others, Q[rows])
            changed = np.any(swept != found[rows], axis=1)
            found[rows] = swept
            rows = rows[changed]
            if rows.size == 0:
                break
    return found


def _sweep(signs: Floats, others: Floats, Q: Floats) -> Floats:
    swept = np.array(signs, order="F")
    for k in range(swept.shape[1]):
        swept[:, k] = keep_sign(Q[:, k] - swept @ others[:, k], swept[:, k])
    return swept


def keep_sign(values: Floats, previous: Floats) -> Floats:
    """Return the signs of values, and the previous sign where a value is exactly zero.

    Examples
    --------
    >>> keep_sign(np.array([2.0, 0.0, -0.5]), np.array([-1.0, -1.0, 1.0]))
    array([ 1., -1., -1.])
    """
    return np.where(values == 0, previous, np.where(values > 0, 1.0, -1.0))


def random_signs(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return independent fair signs, float64.

    Examples
    --------
    >>> random_signs(np.random.default_rng(0), (1, 4))
    array([[ 1.,  1.,  1., -1.]])
    """
    return 2.0 * rng.integers(2, size=shape).astype(np.float64) - 1.0

"""Kernel ridge regression with fewer anchors than rows: preconditioned conjugate gradients."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from acqh._core.arrays import Array, Floats, Ints
from acqh._core.linalg import factor_spd
from acqh.features._base import row_blocks
from acqh.features._kernel_solve import DualSystem

# From rows to their kernel with all anchors.
KernelRows: TypeAlias = Callable[[slice], Array]
_MAX_ITERATIONS = 50
_TOLERANCE = 1e-5
# Random signs by which the trace of the smoother is estimated.
_PROBES = 16


def leverage_rows(
    block: Callable[[Ints, Ints], Array], n_rows: int, n_chosen: int, rng: np.random.Generator
) -> Ints:
    """Draw rows by their ridge leverage, what other rows do not say of them.

    Parameters
    ----------
    block : callable
        From two arrays of row numbers to their kernel.
    n_rows, n_chosen : int
    rng : Generator

    Returns
    -------
    (n_chosen,), rising

    Notes
    -----
    Leverages are those over a uniform sample, with a ridge of one: about 1 for a row far from
    all others, next to 0 for one among many like it.
    """
    sample = np.sort(rng.choice(n_rows, min(n_rows, 1000), replace=False))
    inner = block(sample, sample).astype(np.float64)
    solve = factor_spd(inner + np.eye(len(sample)))
    scores = np.empty(n_rows)
    for part in row_blocks(n_rows, len(sample)):
        rows = np.arange(part.start, part.stop)
        across = block(rows, sample).astype(np.float64)
        scores[rows] = 1.0 - np.einsum("ij,ji->i", across, solve(across.T))
    scores = np.maximum(scores, 1e-6)
    chosen = rng.choice(n_rows, n_chosen, replace=False, p=scores / scores.sum())
    return np.sort(chosen)


def solve_nystrom(
    kernel_rows: KernelRows,
    system: DualSystem,
    targets: Floats,
    ridge: float,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Regress on the kernels with anchors, and predict every row as if it were left out.

    Minimises ``||Y - K_nm A||^2 + ridge tr(A^T K_mm A)``.

    Parameters
    ----------
    kernel_rows : callable
    system : DualSystem
        Of the anchors, with a ridge of ``ridge * n_anchors / n_rows``.
    targets : (n_rows, n_targets)
    ridge : float
    rng : Generator

    Returns
    -------
    coefficients : (n_anchors, n_targets)
    left_out : (n_rows, n_targets)
        By generalised leave-one-out, which takes the mean leverage for that of every row.

    Notes
    -----
    Falkon's preconditioner [1]_ takes ``(n / m) K_mm`` for ``K_mn K_nm / K_mm``. Here the factor
    of ``K_mm + c I`` serves for both of its factors, so that one matrix is held instead of two;
    they differ only where eigenvalues are below c, in directions that the ridge takes out.

    References
    ----------
    .. [1] A. Rudi, L. Carratino, L. Rosasco, "FALKON: an optimal large scale kernel method", 2017.
    """
    n_rows, n_targets = targets.shape
    n_anchors = len(system.matrix)
    signs = rng.choice([-1.0, 1.0], (n_rows, _PROBES))
    right = np.concatenate([targets, signs], axis=1)
    blocks = [*row_blocks(n_rows, n_anchors)]

    def multiply(points: Floats) -> Floats:
        total = ridge * system.multiply(points)
        for rows in blocks:
            block = kernel_rows(rows).astype(system.matrix.dtype, copy=False)
            total += block.T @ (block @ points.astype(block.dtype))
        return total

    def precondition(points: Floats) -> Floats:
        return np.asarray(system.solve_once(system.solve_once(points)) * (n_anchors / n_rows))

    start = np.zeros((n_anchors, right.shape[1]))
    for rows in blocks:
        start += kernel_rows(rows).T @ right[rows]
    solution = conjugate_gradients(multiply, precondition, start)
    fitted = np.concatenate([kernel_rows(rows) @ solution for rows in blocks])
    freedom = float(np.sum(signs * fitted[:, n_targets:]) / (_PROBES * n_rows))
    left = max(1.0 - freedom, 1.0 / n_rows)
    return solution[:, :n_targets], targets - (targets - fitted[:, :n_targets]) / left


def conjugate_gradients(
    multiply: Callable[[Floats], Floats],
    precondition: Callable[[Floats], Floats],
    right: Floats,
) -> Floats:
    """Solve a positive definite system for many right sides, each with its own step lengths.

    Parameters
    ----------
    multiply, precondition : callable
        The matrix, and roughly its inverse, times (n, k).
    right : (n, k)

    Returns
    -------
    (n, k)

    Examples
    --------
    >>> gram = np.diag([1.0, 4.0])
    >>> conjugate_gradients(lambda x: gram @ x, lambda x: x, np.array([[2.0], [4.0]])).round(6)
    array([[2.],
           [1.]])
    """
    tiny = np.finfo(float).tiny
    solution, residual = np.zeros_like(right), right
    guess = precondition(residual)
    direction = guess
    energy = np.sum(residual * guess, axis=0)
    first = energy.copy()
    for _ in range(_MAX_ITERATIONS):
        product = multiply(direction)
        curvature = np.sum(direction * product, axis=0)
        step = np.where(curvature > 0, energy / np.maximum(curvature, tiny), 0.0)
        solution += step * direction
        residual = residual - step * product  # not in place: a guess may be the residual itself
        guess = precondition(residual)
        before, energy = energy, np.sum(residual * guess, axis=0)
        if np.all(energy <= _TOLERANCE**2 * first):
            break
        direction = guess + energy / np.maximum(before, tiny) * direction
    return solution

"""Kernel ridge regression with fewer anchors than rows: preconditioned conjugate gradients."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from acqh._core.arrays import Ints
from acqh.errors import InvalidInputError
from acqh.features import _kernel_solve as solving
from acqh.features._base import row_blocks
from acqh.features._kernel_arithmetic import HOST, Arithmetic, Numbers
from acqh.features._kernel_solve import DualSystem, Kernel

# From rows to their kernel with all anchors.
KernelRows: TypeAlias = Callable[[slice], Numbers]
_MAX_ITERATIONS = 100
# Added to the diagonal of normal equations, as a share of its mean: beyond what rounding leaves.
_JITTER = 1e-12
_TOLERANCE = 1e-5
# Random signs by which the trace of the smoother is estimated.
_PROBES = 16


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


def solve_nystrom(
    kernel_rows: KernelRows,
    system: DualSystem,
    targets: Numbers,
    ridge: float,
    rng: np.random.Generator,
) -> tuple[Numbers, Numbers]:
    """Regress on the kernels with anchors, and predict every row as if it were left out.

    Minimises ``||Y - K_nm A||^2 + ridge tr(A^T K_mm A)``: by its normal equations up to 4,096
    anchors, where that is both exact and quicker, by conjugate gradients above.

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
    n_anchors, arithmetic = system.n_rows, system.arithmetic
    signs = arithmetic.here(rng.choice([-1.0, 1.0], (n_rows, _PROBES)))
    right = arithmetic.zeros((n_rows, n_targets + _PROBES))
    right[:, :n_targets], right[:, n_targets:] = targets, signs
    blocks = [*row_blocks(n_rows, n_anchors, arithmetic.block_values)]

    def multiply(points: Numbers) -> Numbers:
        total = ridge * system.multiply(points)
        work = arithmetic.like(points, system.matrix)
        for rows in blocks:
            block = kernel_rows(rows)
            total += block.T @ (block @ work)
        return total

    def precondition(points: Numbers) -> Numbers:
        return system.solve_once(system.solve_once(points)) * (n_anchors / n_rows)

    start = arithmetic.zeros((n_anchors, right.shape[1]))
    for rows in blocks:
        start += arithmetic.widen(kernel_rows(rows)).T @ right[rows]
    solution = None
    if n_anchors <= solving.SMALL:
        solution = _solve_normal(kernel_rows, blocks, system, ridge, start)
    if solution is None:
        solution = conjugate_gradients(multiply, precondition, start)
    fitted = arithmetic.zeros((n_rows, right.shape[1]))
    for rows in blocks:
        fitted[rows] = arithmetic.widen(kernel_rows(rows)) @ solution
    freedom = float((signs * fitted[:, n_targets:]).sum()) / (_PROBES * n_rows)
    left = max(1.0 - freedom, 1.0 / n_rows)
    return solution[:, :n_targets], targets - (targets - fitted[:, :n_targets]) / left


def _solve_normal(
    kernel_rows: KernelRows, blocks: list[slice], system: DualSystem, ridge: float, right: Numbers
) -> Numbers:
    """Solve the normal equations; None where rounding leaves them not positive definite."""
    gram = ridge * system.kernel()
    for rows in blocks:
        block = system.arithmetic.widen(kernel_rows(rows))
        gram += block.T @ block
    least = _JITTER * float(gram.diagonal().mean())
    try:
        return DualSystem.of(
            lambda i, j: gram[i, j], system.n_rows, least, system.arithmetic
        ).solve(right)
    except InvalidInputError:
        return None


def solve_some(
    inner: Kernel,
    across: Kernel,
    n_anchors: int,
    targets: Numbers,
    ridge: float,
    max_memory: int,
    rng: np.random.Generator,
    arithmetic: Arithmetic,
) -> tuple[Numbers, Numbers]:
    """Solve for anchors that are some of the rows; keep kernels where memory allows.

    Parameters
    ----------
    inner, across : callable
        From two slices to kernels: of anchors with anchors, of rows with anchors.
    n_anchors : int
    targets : (n_rows, n_targets)
    ridge : float
    max_memory : int
        Bytes.
    rng : Generator
    arithmetic : Arithmetic

    Returns
    -------
    coefficients, left_out
        As `solve_nystrom` gives them.
    """
    n_rows = len(targets)
    system = DualSystem.of(inner, n_anchors, ridge * n_anchors / n_rows, arithmetic)
    is_kept = 4 * n_anchors * (n_rows + n_anchors) <= max_memory
    kept: dict[int, Numbers] = {}

    def kernel_rows(part: slice) -> Numbers:
        if part.start in kept:
            return kept[part.start]
        found: Numbers = arithmetic.like(across(part, slice(0, n_anchors)), system.matrix)
        if is_kept:
            kept[part.start] = found
        return found

    return solve_nystrom(kernel_rows, system, targets, ridge, rng)


def conjugate_gradients(
    multiply: Callable[[Numbers], Numbers],
    precondition: Callable[[Numbers], Numbers],
    right: Numbers,
) -> Numbers:
    """Solve a positive definite system for many right sides, each with its own step lengths.

    `multiply`, `precondition`: the matrix, and roughly its inverse, times (n, k). `right`: (n, k).
    Gives (n, k).

    Examples
    --------
    >>> gram = np.diag([1.0, 4.0])
    >>> conjugate_gradients(lambda x: gram @ x, lambda x: x, np.array([[2.0], [4.0]])).round(6)
    array([[2.],
           [1.]])
    """
    tiny = np.finfo(float).tiny
    solution, residual = 0.0 * right, right
    guess = precondition(residual)
    direction = guess
    energy = (residual * guess).sum(0)
    first = energy
    for _ in range(_MAX_ITERATIONS):
        product = multiply(direction)
        curvature = (direction * product).sum(0)
        step = (curvature > 0) * energy / curvature.clip(tiny)
        solution = solution + step * direction
        residual = residual - step * product
        guess = precondition(residual)
        before, energy = energy, (residual * guess).sum(0)
        if bool((energy <= _TOLERANCE**2 * first).all()):
            break
        direction = guess + energy / before.clip(tiny) * direction
    return solution

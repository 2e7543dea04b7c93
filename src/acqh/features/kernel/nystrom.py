"""Kernel ridge regression with fewer anchors than rows: preconditioned conjugate gradients."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from acqh.errors import InvalidInputError
from acqh.features.base import row_blocks
from acqh.features.kernel import solve as solving
from acqh.features.kernel.arithmetic import Arithmetic, Numbers
from acqh.features.kernel.solve import DualSystem, Kernel

# From rows to their kernel with all anchors.
KernelRows: TypeAlias = Callable[[slice], Numbers]
_MAX_ITERATIONS = 200
# Added to the diagonal of normal equations, as a share of its mean: beyond what rounding leaves.
_JITTER = 1e-12
# Of the error of predictions, as a share of theirs: where conjugate gradients stop.
_TOLERANCE = 1e-7
# What rounding adds to the eigenvalues of the anchors' kernel, over the root of their number, in
# single precision and in double (there what rounded coefficients bear); it is added to them too.
_NOISE, _WIDE_NOISE = 2.0**-24, 2.0**-28
# Where the anchors' kernel cannot be factored, more is added by this factor.
_RAISED = 8.0
# Anchors by which leverages are told where there are too many.
_SOME = 1024
# Random signs by which the trace of the smoother is estimated.
_PROBES = 16


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
        Of the anchors, with as small a ridge as can be.
    targets : (n_rows, n_targets)
    ridge : float
    rng : Generator

    Returns
    -------
    coefficients : (n_anchors, n_targets)
    left_out : (n_rows, n_targets)
        With the anchors as they are: exact where the normal equations are solved. Otherwise the
        leverages of rows are those with about 1,000 of the anchors, scaled to the sum that they
        have by random signs.

    Notes
    -----
    Falkon's preconditioner [1]_ takes ``(n / m) K_mm^2`` for ``K_mn K_nm``. With ``K_mm = L L^T``
    and ``c = ridge m / n`` it is ``L (L^T L + c I) L^T n / m``: two factors. Products with
    kernels are summed in double precision. The norm of a residual under the
    preconditioner is about the error of predictions, which is what conjugate gradients stop by.

    References
    ----------
    .. [1] A. Rudi, L. Carratino, L. Rosasco, "FALKON: an optimal large scale kernel method", 2017.
    """
    n_rows, n_targets = targets.shape
    n_anchors, arithmetic = system.n_rows, system.arithmetic
    blocks = [*row_blocks(n_rows, n_anchors, arithmetic.block_values)]
    signs = arithmetic.here(rng.choice([-1.0, 1.0], (n_rows, _PROBES)))
    right = arithmetic.zeros((n_rows, n_targets + _PROBES))
    right[:, :n_targets], right[:, n_targets:] = targets, signs
    start = arithmetic.zeros((n_anchors, right.shape[1]))
    for rows in blocks:
        start += arithmetic.widen(kernel_rows(rows)).T @ right[rows]
    normal = None
    if n_anchors <= solving.SMALL:
        normal = _normal(kernel_rows, blocks, system.kernel(), ridge, arithmetic)
    if normal is None:
        solution = _solve_gradients(kernel_rows, blocks, system, start, ridge)
    else:
        solution = normal.solve(start)
    fitted = arithmetic.zeros((n_rows, right.shape[1]))
    for rows in blocks:
        fitted[rows] = arithmetic.widen(kernel_rows(rows)) @ solution
    if normal is None:
        freedom = float((signs * fitted[:, n_targets:]).sum()) / _PROBES
        leverages = _likely_leverages(kernel_rows, blocks, system, ridge, freedom)
    else:
        leverages = _leverages(kernel_rows, blocks, normal)
    left = (1.0 - leverages).clip(1.0 / n_rows)[:, None]
    return solution[:, :n_targets], targets - (targets - fitted[:, :n_targets]) / left


def _solve_gradients(
    kernel_rows: KernelRows, blocks: list[slice], system: DualSystem, right: Numbers, ridge: float
) -> Numbers:
    """Solve by conjugate gradients; products are summed in double precision."""
    arithmetic, n_rows = system.arithmetic, blocks[-1].stop
    noise = _noise(system.n_rows, system.is_wide)
    share = system.n_rows / n_rows
    turned = DualSystem.of(
        system.turned(), system.n_rows, ridge * share, arithmetic, system.is_wide
    )

    def multiply(points: Numbers) -> Numbers:
        total = ridge * (system.multiply(points) + noise * points)
        for rows in blocks:
            block = arithmetic.widen(kernel_rows(rows))
            total += block.T @ (block @ points)
        return total

    def precondition(points: Numbers) -> Numbers:
        return share * system.solve_back(turned.solve_once(system.solve_down(points)))

    return conjugate_gradients(multiply, precondition, right)


def _noise(n_anchors: int, is_wide: bool) -> float:
    return (_WIDE_NOISE if is_wide else _NOISE) * float(np.sqrt(n_anchors))


def _factored(
    inner: Kernel, n_anchors: int, most: float, arithmetic: Arithmetic, is_wide: bool
) -> DualSystem:
    """Return the anchors' system with the least ridge that its precision allows."""
    ridge = min(_noise(n_anchors, is_wide), most)
    while True:
        try:
            return DualSystem.of(inner, n_anchors, ridge, arithmetic, is_wide)
        except InvalidInputError:
            if ridge == most:
                raise
            ridge = min(_RAISED * ridge, most)


def _normal(
    kernel_rows: KernelRows,
    blocks: list[slice],
    kernel: Numbers,
    ridge: float,
    arithmetic: Arithmetic,
) -> DualSystem | None:
    """Return the normal equations; None where rounding leaves them not positive definite."""
    gram = ridge * kernel
    for rows in blocks:
        block = arithmetic.widen(kernel_rows(rows))
        gram += block.T @ block
    least = _JITTER * float(gram.diagonal().mean())
    try:
        return DualSystem.of(lambda i, j: gram[i, j], len(kernel), least, arithmetic, True)
    except InvalidInputError:
        return None


def _leverages(kernel_rows: KernelRows, blocks: list[slice], normal: DualSystem) -> Numbers:
    """Return how much every row's own target counts for its prediction, (n_rows,)."""
    found = normal.arithmetic.zeros((blocks[-1].stop,))
    for rows in blocks:
        across = normal.solve_down(normal.arithmetic.widen(kernel_rows(rows)).T)
        found[rows] = (across**2).sum(0)
    return found


def _likely_leverages(
    kernel_rows: KernelRows, blocks: list[slice], system: DualSystem, ridge: float, freedom: float
) -> Numbers:
    """Return leverages as they are with some of the anchors, scaled to a sum that is known."""
    step = -(-system.n_rows // _SOME)

    def fewer(rows: slice) -> Numbers:
        return kernel_rows(rows)[:, ::step]

    normal = _normal(fewer, blocks, system.kernel(step), ridge, system.arithmetic)
    if normal is None:
        return system.arithmetic.zeros((blocks[-1].stop,)) + freedom / blocks[-1].stop
    found = _leverages(fewer, blocks, normal)
    return found * (freedom / float(found.sum())) if step > 1 else found


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

    `inner`, `across`: from two slices to kernels: of anchors with anchors, of rows with anchors.
    `targets`: (n_rows, n_targets). `max_memory`: bytes. Gives what `solve_nystrom` gives.
    """
    n_rows = len(targets)
    numbers = n_anchors * (n_rows + 2 * n_anchors)
    is_wide, is_kept = (size * numbers <= max_memory for size in (8, 4))
    is_wide = is_wide or n_anchors <= solving.SMALL
    system = _factored(inner, n_anchors, ridge * n_anchors / n_rows, arithmetic, is_wide)
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
        # The best step along a direction, however exact it is: the objective never rises.
        step = (curvature > 0) * (residual * direction).sum(0) / curvature.clip(tiny)
        solution = solution + step * direction
        residual = residual - step * product
        guess = precondition(residual)
        before, energy = energy, (residual * guess).sum(0)
        if bool((energy <= _TOLERANCE**2 * first).all()):
            break
        direction = guess + energy / before.clip(tiny) * direction
    return solution

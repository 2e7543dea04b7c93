"""Kernel ridge regression, exact: by all rows as anchors, or by some of them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from scipy.linalg import lapack

from acqh._core.arrays import Array, Floats, Ints, slices
from acqh.errors import InvalidInputError
from acqh.features.base import row_blocks

# With this many rows or fewer, everything is computed in float64; anchors are no more than this
# where they are not all rows.
SMALL = 4096
# Rows of a block that is converted to float64, or inverted, at a time.
BLOCK = 1024
_REFINEMENTS = 2
# Ridges are tried by this factor, no more than this many times in either direction.
_RIDGE_STEP = 2.0
_MAX_STEPS = 6
# Jitter on the diagonal of normal equations, as a share of its mean; the next is tried if the
# factorization fails.
_JITTERS = (1e-12, 1e-10, 1e-8)
# From two slices of rows to their kernel.
Kernel: TypeAlias = Callable[[slice, slice], Floats]


class Dual:
    """The matrix ``A = K + ridge I`` of all rows, and its Cholesky factor L.

    L lies below the diagonal of the matrix, K stays above it: nothing is held twice.

    `kernel`: gives blocks of rows onwards. `ridge`: positive. Raises InvalidInputError: the ridge
    is too small for the precision of the kernel.
    """

    def __init__(self, kernel: Kernel, n_rows: int, ridge: float) -> None:
        dtype = np.float64 if n_rows <= SMALL else np.float32
        self.matrix: Array = np.empty((n_rows, n_rows), dtype, order="F")
        for rows in slices(n_rows, BLOCK):
            block = kernel(rows, slice(rows.start, n_rows))
            self.matrix[rows, rows.start :] = block
            self.matrix[rows.start :, rows] = block.T
        self.matrix.flat[:: n_rows + 1] += ridge
        self.diagonal = self.matrix.diagonal().astype(np.float64)
        potrf, self._potrs, self._trtri, self._trtrs = lapack.get_lapack_funcs(
            ("potrf", "potrs", "trtri", "trtrs"), (self.matrix,)
        )
        _, failed = potrf(self.matrix, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise InvalidInputError(
                f"the kernel matrix with ridge {ridge:g} is not positive definite; raise ridge"
            )

    def solve(self, right: Floats) -> Floats:
        """Return ``A^-1 right`` in float64, (n_rows, k), refined where the factor is single."""
        solution = self.solve_once(right)
        for _ in range(_REFINEMENTS if self.matrix.itemsize < 8 else 0):
            solution += self.solve_once(right - self.multiply(solution))
        return solution

    def solve_once(self, right: Floats) -> Floats:
        """Return the solution in the precision of the factor, (n_rows, k) in float64."""
        solution, _ = self._potrs(self.matrix, right.astype(self.matrix.dtype), lower=1)
        return np.asarray(solution, dtype=np.float64)

    def solve_lower(self, right: Floats) -> Floats:
        """Return ``L^-1 right``."""
        solution, _ = self._trtrs(self.matrix, right.astype(self.matrix.dtype), lower=1)
        return np.asarray(solution)

    def multiply(self, right: Floats) -> Floats:
        """Return ``A right``, (n_rows, k), in float64."""
        product = self.diagonal[:, np.newaxis] * right
        for rows in slices(len(right), BLOCK):
            upper = self.matrix[rows, rows.start :].astype(np.float64)
            diagonal_block = upper[:, : len(upper)]
            diagonal_block[...] = np.triu(diagonal_block, 1)
            product[rows] += upper @ right[rows.start :]
            product[rows.start :] += upper.T @ right[rows]
        return product

    def invert_diagonal(self) -> Floats:
        """Return the diagonal of ``A^-1``, (n_rows,), from ``L^-1``, which replaces the factor."""
        self._trtri(self.matrix, lower=1, overwrite_c=1)
        diagonal = np.empty(len(self.matrix))
        for rows in slices(len(self.matrix), BLOCK):
            diagonal_block, below = self.matrix[rows, rows], self.matrix[rows.stop :, rows]
            diagonal[rows] = np.square(np.tril(diagonal_block), dtype=np.float64).sum(axis=0)
            diagonal[rows] += np.square(below, dtype=np.float64).sum(axis=0)
        return diagonal


def solve_all(
    inner: Kernel, targets: Floats, offset: Floats, ridge: float
) -> tuple[Floats, Floats]:
    """Regress with every row as an anchor.

    `targets`: (n_rows, n_targets). `offset`: (n_targets,); subtracted from them first. Returns the
    coefficients and the leave-one-out predictions, both (n_rows, n_targets); the latter from the
    diagonal of the inverse.
    """
    system = Dual(inner, len(targets), ridge)
    solution = system.solve(targets - offset)
    return solution, targets - solution / system.invert_diagonal()[:, None]


def solve_some(
    inner: Floats,
    across: Callable[[slice], Floats],
    targets: Floats,
    offset: Floats,
    ridge: float,
    max_memory: int,
) -> tuple[Floats, Floats]:
    """Regress on kernels with anchors that are some of the rows, by the normal equations.

    Minimises ``||Y - K_nm A||^2 + ridge tr(A^T K_mm A)``.

    `inner`: (n_anchors, n_anchors). `across`: from a slice of rows to their kernel with the
    anchors. `max_memory`: bytes; kernels that take no more are computed once. Returns coefficients
    and leave-one-out predictions as `solve_all`; the anchors stay the same for all rows.
    """
    n_rows, n_anchors = len(targets), len(inner)
    blocks = [*row_blocks(n_rows, n_anchors)]
    kernels = {}
    gram, start = ridge * _float64(inner), np.zeros((n_anchors, targets.shape[1]))
    for rows in blocks:
        block = _float64(across(rows))
        gram += block.T @ block
        start += block.T @ (targets[rows] - offset)
        if 8 * n_rows * n_anchors <= max_memory:
            kernels[rows.start] = block
    normal = _normal(gram)
    solution = normal.solve(start)
    left_out = 0.0 * targets
    for rows in blocks:
        block = kernels[rows.start] if rows.start in kernels else _float64(across(rows))
        # Weight of each row's target in its own prediction.
        leverages = (normal.solve_lower(block.T) ** 2).sum(0)
        errors = targets[rows] - offset - block @ solution
        errors /= (1.0 - leverages).clip(1.0 / n_rows)[:, None]
        left_out[rows] = targets[rows] - errors
    return solution, left_out


def _normal(gram: Floats) -> Dual:
    """Factorize normal equations, with the smallest sufficient jitter on their diagonal."""
    mean = float(gram.diagonal().mean())
    for jitter in _JITTERS:
        try:
            return Dual(lambda i, j: gram[i, j], len(gram), jitter * mean)
        except InvalidInputError:
            if jitter == _JITTERS[-1]:
                raise
    raise AssertionError  # the loop returns or raises


def leverage_rows(
    block: Callable[[Ints, Ints], Floats], n_rows: int, n_chosen: int, rng: np.random.Generator
) -> Ints:
    """Draw rows with probabilities proportional to their ridge leverage.

    `block`: from two arrays of row numbers to their kernel. Returns (n_chosen,), rising.

    Notes
    -----
    Leverages are computed over a uniform sample, with a ridge of one: about 1 for an outlier, near
    0 for a row with many similar rows.
    """
    sample = np.sort(rng.choice(n_rows, min(n_rows, 1000), replace=False))
    inner = _float64(block(sample, sample))
    system = Dual(lambda i, j: inner[i, j], len(sample), 1.0)
    leverages = []
    for part in row_blocks(n_rows, len(sample)):
        across = _float64(block(np.arange(part.start, part.stop), sample)).T
        leverages.append(1.0 - (across * system.solve_once(across)).sum(axis=0))
    scores = np.maximum(np.concatenate(leverages), 1e-6)
    return np.sort(rng.choice(n_rows, n_chosen, replace=False, p=scores / scores.sum()))


def refine_ridge(kernel: Floats, targets: Floats, ridge: float) -> float:
    """Return a ridge near `ridge` with a smaller exact leave-one-out error.

    Ridges are tried upwards, then downwards, while the error falls.

    `kernel`: (n_rows, n_rows). `targets`: (n_rows, k).
    """

    def error(strength: float) -> float:
        try:
            _, left_out = solve_all(lambda i, j: kernel[i, j], targets, np.zeros(1), strength)
        except InvalidInputError:  # too small for repeated rows
            return np.inf
        return float(((targets - left_out) ** 2).sum())

    return descend(error, ridge, (_RIDGE_STEP, 1.0 / _RIDGE_STEP), _MAX_STEPS)


def descend(
    error: Callable[[float], float], start: float, factors: Sequence[float], n_steps: int
) -> float:
    """Multiply a number by the first factor that lowers its error, while the error falls.

    Examples
    --------
    >>> descend(lambda x: abs(x - 9.0), 1.0, (0.5, 2.0), 5)
    8.0
    """
    best, least = start, error(start)
    for factor in factors:
        for _ in range(n_steps):
            tried = error(best * factor)
            if tried >= least:
                break
            best, least = best * factor, tried
        if best != start:
            break
    return best


def _float64(values: Floats) -> Floats:
    return values.astype(np.float64, copy=False)

"""Kernel ridge regression by blocks: Cholesky in place, exact leave-one-out, refined solutions.

The kernel matrix is stored once: its lower blocks become the factor, its upper blocks stay. Heavy
steps are products of blocks, of arrays or of tensors; what differs is in `_kernel_arithmetic`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from acqh._core.arrays import slices
from acqh.errors import InvalidInputError
from acqh.features.kernel.arithmetic import HOST, Arithmetic, Numbers, arithmetic_of

# Rows of a block; its triangles are factored in float64.
BLOCK = 1024
# With this many rows or fewer, everything is computed in float64.
SMALL = 4096
_REFINEMENTS = 2
# Ridges are tried by this factor, no more than this many times in either direction.
_RIDGE_STEP = 2.0
_MAX_STEPS = 6

Kernel = Callable[[slice, slice], Numbers]


@dataclass
class DualSystem:
    """The matrix ``K + ridge I`` of all rows, factored in the place of its lower blocks.

    Of tensors there may be many at once: what follows has axes before the two that are named.
    """

    matrix: Numbers  # below its diagonal blocks the Cholesky factor, above them the kernel
    ridge: Any  # of many, a tensor of shape (n_systems, 1, 1)
    arithmetic: Arithmetic = HOST
    block: int | None = None  # rows of a block
    kernels: list[Numbers] = field(default_factory=list)  # diagonal blocks of the kernel
    # Inverses of the diagonal blocks of the factor.
    inverses: list[Numbers] = field(default_factory=list)
    failed: Any = False  # whether the matrix is not positive definite; of many, a tensor

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        n_rows: int,
        ridge: float,
        arithmetic: Arithmetic = HOST,
        is_wide: bool | None = None,
    ) -> "DualSystem":
        """Compute a kernel and factor it.

        `kernel`: from two slices of rows to their block. `ridge`: positive. `arithmetic`: of what
        the kernel gives. `is_wide`: whether in double precision; by default up to 4,096 rows.
        Raises InvalidInputError: the ridge is too small for the precision of the kernel.
        """
        is_wide = n_rows <= SMALL if is_wide is None else is_wide
        system = cls(arithmetic.empty((n_rows, n_rows), is_wide), ridge, arithmetic)
        for rows in system.blocks:
            onwards, below = slice(rows.start, n_rows), slice(rows.stop, n_rows)
            block = kernel(rows, onwards)
            system.matrix[rows, onwards] = block
            system.matrix[below, rows] = block[:, rows.stop - rows.start :].T
        system.factor()
        if bool(system.failed):
            raise InvalidInputError(
                f"the kernel matrix with ridge {ridge:g} is not positive definite; raise ridge"
            )
        return system

    @property
    def n_rows(self) -> int:
        """Rows of the matrix."""
        return int(self.matrix.shape[-1])

    @property
    def is_wide(self) -> bool:
        """Whether the matrix is in double precision."""
        return bool(self.matrix.itemsize == 8)

    @property
    def blocks(self) -> list[slice]:
        """Slices of rows."""
        return [*slices(self.n_rows, self.block or BLOCK)]

    def factor(self) -> None:
        """Factor column by column of blocks, each corrected by those to its left."""
        matrix, arithmetic = self.matrix, self.arithmetic
        for rows in self.blocks:
            done, below = slice(0, rows.start), slice(rows.stop, None)
            own = matrix[..., rows, done]
            kernel = arithmetic.copy(matrix[..., rows, rows], None)
            self.kernels.append(kernel)
            size = rows.stop - rows.start
            block = arithmetic.copy(kernel, True) + self.ridge * arithmetic.eye(size)
            inverse, failed = arithmetic.inverse_factor(block - own @ own.mT)
            self.failed = self.failed | failed
            if failed is True:
                return
            inverse = arithmetic.like(inverse, matrix)
            self.inverses.append(inverse)
            panel = matrix[..., below, rows] - matrix[..., below, done] @ own.mT
            matrix[..., below, rows] = panel @ inverse.mT

    def solve(self, right: Numbers) -> Numbers:
        """Return ``(K + ridge I)^-1 right`` in float64, (n_rows, k)."""
        solution = self.solve_once(right)
        for _ in range(_REFINEMENTS):
            left = right - self.multiply(solution) - self.ridge * solution
            solution += self.solve_once(left)
        return solution

    def solve_once(self, right: Numbers) -> Numbers:
        """Return the solution in the precision of the factor, (n_rows, k) in float64."""
        return self.solve_back(self.solve_down(right))

    def solve_down(self, right: Numbers) -> Numbers:
        """Return ``L^-1 right`` for the factor L, in its precision."""
        work = self.arithmetic.like(self.arithmetic.copy(right, None), self.matrix)
        for rows, inverse in zip(self.blocks, self.inverses, strict=True):
            done = slice(0, rows.start)
            known = self.matrix[..., rows, done] @ work[..., done, :]
            work[..., rows, :] = inverse @ (work[..., rows, :] - known)
        return work

    def solve_back(self, right: Numbers) -> Numbers:
        """Return ``L^-T right`` in float64."""
        work = self.arithmetic.like(self.arithmetic.copy(right, None), self.matrix)
        for rows, inverse in zip(self.blocks[::-1], self.inverses[::-1], strict=True):
            below = slice(rows.stop, None)
            known = self.matrix[..., below, rows].mT @ work[..., below, :]
            work[..., rows, :] = inverse.mT @ (work[..., rows, :] - known)
        return self.arithmetic.widen(work)

    def turned(self) -> Kernel:
        """Return what gives blocks of ``L^T L`` for the factor L, as `of` asks for them."""
        matrix, arithmetic = self.matrix, self.arithmetic
        starts = {rows.start: place for place, rows in enumerate(self.blocks)}
        diagonal = [arithmetic.inverse(it) for it in self.inverses]

        def block(rows: slice, onwards: slice) -> Numbers:
            size = rows.stop - rows.start
            found = arithmetic.empty((size, onwards.stop - rows.start), self.is_wide)
            for columns in self.blocks[starts[rows.start] :]:
                below = slice(columns.stop, None)
                own = diagonal[starts[columns.start]]
                left = own if columns == rows else matrix[columns, rows]
                here = slice(columns.start - rows.start, columns.stop - rows.start)
                found[:, here] = left.T @ own + matrix[below, rows].T @ matrix[below, columns]
            return found

        return block

    def multiply(self, right: Numbers) -> Numbers:
        """Return ``K right``, (n_rows, k), in float64."""
        widen = self.arithmetic.widen
        found = self.arithmetic.zeros((self.n_rows, right.shape[1]))
        for rows, kernel in zip(self.blocks, self.kernels, strict=True):
            above = slice(rows.stop, None)
            upper = widen(self.matrix[rows, above])
            found[rows] += widen(kernel) @ right[rows] + upper @ right[above]
            found[above] += upper.T @ right[rows]
        return found

    def kernel(self, step: int = 1) -> Numbers:
        """Return the kernel of all rows, or of one in `step`, with each other, in float64."""
        found = self.arithmetic.zeros(((self.n_rows - 1) // step + 1,) * 2)
        for rows, kernel in zip(self.blocks, self.kernels, strict=True):
            first = -(-rows.start // step)
            stop = -(-rows.stop // step)
            skip = first * step - rows.start
            found[first:stop, first:stop] = kernel[skip::step, skip::step]
            upper = self.matrix[rows, rows.stop :][skip::step, stop * step - rows.stop :: step]
            found[first:stop, stop:] = upper
            found[stop:, first:stop] = upper.T
        return found

    def take_inverse_diagonal(self) -> Numbers:
        """Return the diagonal of ``(K + ridge I)^-1``, (n_rows,); the factor is used up.

        The factor is inverted in place, row by row of blocks; the diagonal is the squared length
        of the columns of its inverse.
        """
        matrix, blocks, inverses = self.matrix, self.blocks, self.inverses
        widen = self.arithmetic.widen
        total = self.arithmetic.zeros((self.n_rows,))
        for place, rows in enumerate(blocks):
            inverse = inverses[place]
            total[rows] += (widen(inverse) ** 2).sum(0)
            found = []
            for column, its in zip(blocks[:place], inverses[:place], strict=True):
                product = matrix[rows, column] @ its
                between = slice(column.stop, rows.start)
                product += matrix[rows, between] @ matrix[between, column]
                found.append(-(inverse @ product))
            for column, block in zip(blocks[:place], found, strict=True):
                matrix[rows, column] = block
                total[column] += (widen(block) ** 2).sum(0)
        self.inverses = []
        return total


def leave_one_out(targets: Numbers, solution: Numbers, inverse_diagonal: Numbers) -> Numbers:
    """Return what every row is predicted as when it is left out of the regression.

    `targets`: (n_rows, k). `solution`: (n_rows, k); ``(K + ridge I)^-1 targets``.
    `inverse_diagonal`: (n_rows,); of the same inverse.
    """
    return targets - solution / inverse_diagonal[:, None]


def refine_ridge(kernel: Numbers, targets: Numbers, ridge: float) -> float:
    """Return a ridge near the one given with a smaller exact leave-one-out error.

    Ridges are tried upwards, then downwards, while the error falls.

    `kernel`: (n_rows, n_rows). `targets`: (n_rows, k).
    """

    def error(strength: float) -> float:
        try:
            system = DualSystem.of(
                lambda i, j: kernel[i, j], len(kernel), strength, arithmetic_of(kernel)
            )
        except InvalidInputError:  # too small for rows that repeat others
            return np.inf
        solution = system.solve(targets)
        left = solution / system.take_inverse_diagonal()[:, None]
        return float((left**2).sum())

    return descend(error, ridge, (_RIDGE_STEP, 1.0 / _RIDGE_STEP), _MAX_STEPS)


def descend(
    error: Callable[[float], float], start: float, factors: Sequence[float], n_steps: int
) -> float:
    """Multiply a number by the first factor that lowers its error, for as long as it does.

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

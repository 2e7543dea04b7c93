"""Kernel ridge regression by blocks: Cholesky in place, exact leave-one-out, refined solutions.

The kernel matrix is stored once: its lower blocks become the factor, its upper blocks stay. Heavy
steps are products of blocks, so that arrays of any library with slices and ``@`` would do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh._core.linalg import inverse_factor
from acqh.errors import InvalidInputError

# Rows of a block; its triangles are factored in float64.
BLOCK = 1024
# With this many rows or fewer, everything is computed in float64.
SMALL = 4096
_REFINEMENTS = 2
# Ridges are tried by this factor, no more than this many times in either direction.
_RIDGE_STEP = 2.0
_MAX_STEPS = 6

Kernel = Callable[[slice, slice], Array]


@dataclass
class DualSystem:
    """The matrix ``K + ridge I`` of all rows, factored in the place of its lower blocks.

    Attributes
    ----------
    matrix : (n_rows, n_rows)
        Below its diagonal blocks the Cholesky factor, above them the kernel.
    kernels : list of (block, block)
        Diagonal blocks of the kernel.
    inverses : list of (block, block)
        Inverses of the diagonal blocks of the factor.
    ridge : float
    """

    matrix: Array
    ridge: float
    kernels: list[Array] = field(default_factory=list)
    inverses: list[Array] = field(default_factory=list)

    @classmethod
    def of(cls, kernel: Kernel, n_rows: int, ridge: float) -> "DualSystem":
        """Compute a kernel and factor it.

        Parameters
        ----------
        kernel : callable
            From two slices of rows to their block.
        n_rows : int
        ridge : float
            Positive.

        Raises
        ------
        InvalidInputError
            The ridge is too small for the precision of the kernel.
        """
        dtype = np.float64 if n_rows <= SMALL else np.float32
        system = cls(np.empty((n_rows, n_rows), dtype), ridge)
        for place, rows in enumerate(system.blocks):
            for columns in system.blocks[place:]:
                block = kernel(rows, columns)
                system.matrix[rows, columns] = block
                if rows != columns:
                    system.matrix[columns, rows] = block.T
        system._factor()
        return system

    @property
    def blocks(self) -> list[slice]:
        """Slices of rows."""
        n_rows = len(self.matrix)
        return [slice(i, min(i + BLOCK, n_rows)) for i in range(0, n_rows, BLOCK)]

    def _factor(self) -> None:
        """Factor column by column of blocks, each corrected by those to its left."""
        matrix = self.matrix
        for rows in self.blocks:
            done, below = slice(0, rows.start), slice(rows.stop, None)
            own = matrix[rows, done]
            block = matrix[rows, rows].astype(np.float64)
            self.kernels.append(matrix[rows, rows].copy())
            block[np.diag_indices(len(block))] += self.ridge
            try:
                inverse = inverse_factor(block - own @ own.T).astype(matrix.dtype)
            except np.linalg.LinAlgError as error:
                raise InvalidInputError(
                    f"the kernel matrix with ridge {self.ridge:g} is not positive definite; "
                    "raise ridge"
                ) from error
            self.inverses.append(inverse)
            panel = matrix[below, rows] - matrix[below, done] @ own.T
            matrix[below, rows] = panel @ inverse.T

    def solve(self, right: Floats) -> Floats:
        """Return ``(K + ridge I)^-1 right`` in float64, (n_rows, k)."""
        right = np.asarray(right, dtype=np.float64)
        solution = self.solve_once(right)
        for _ in range(_REFINEMENTS):
            left = right - self.multiply(solution) - self.ridge * solution
            solution += self.solve_once(left)
        return solution

    def solve_once(self, right: Floats) -> Floats:
        """Return the solution in the precision of the factor, (n_rows, k) in float64."""
        work = np.array(right, dtype=self.matrix.dtype)
        matrix, blocks = self.matrix, self.blocks
        for rows, inverse in zip(blocks, self.inverses, strict=True):
            done = slice(0, rows.start)
            work[rows] = inverse @ (work[rows] - matrix[rows, done] @ work[done])
        for rows, inverse in zip(blocks[::-1], self.inverses[::-1], strict=True):
            below = slice(rows.stop, None)
            work[rows] = inverse.T @ (work[rows] - matrix[below, rows].T @ work[below])
        return work.astype(np.float64)

    def multiply(self, right: Floats) -> Floats:
        """Return ``K right``, (n_rows, k), summed over blocks in float64."""
        found = np.zeros((len(self.matrix), right.shape[1]))
        work = right.astype(self.matrix.dtype)
        for rows, kernel in zip(self.blocks, self.kernels, strict=True):
            above = slice(rows.stop, None)
            upper = self.matrix[rows, above]
            found[rows] += kernel @ work[rows] + upper @ work[above]
            found[above] += upper.T @ work[rows]
        return found

    def take_inverse_diagonal(self) -> Floats:
        """Return the diagonal of ``(K + ridge I)^-1``, (n_rows,); the factor is used up.

        The factor is inverted in place, row by row of blocks; the diagonal is the squared length
        of the columns of its inverse.
        """
        matrix, blocks, inverses = self.matrix, self.blocks, self.inverses
        total = np.zeros(len(matrix))
        for place, rows in enumerate(blocks):
            inverse = inverses[place]
            total[rows] += np.square(inverse, dtype=np.float64).sum(axis=0)
            found = []
            for column, its in zip(blocks[:place], inverses[:place], strict=True):
                product = matrix[rows, column] @ its
                between = slice(column.stop, rows.start)
                product += matrix[rows, between] @ matrix[between, column]
                found.append(-(inverse @ product))
            for column, block in zip(blocks[:place], found, strict=True):
                matrix[rows, column] = block
                total[column] += np.square(block, dtype=np.float64).sum(axis=0)
        self.inverses = []
        return total


def leave_one_out(targets: Floats, solution: Floats, inverse_diagonal: Floats) -> Floats:
    """Return what every row is predicted as when it is left out of the regression.

    Parameters
    ----------
    targets : (n_rows, k)
    solution : (n_rows, k)
        ``(K + ridge I)^-1 targets``.
    inverse_diagonal : (n_rows,)
        Of the same inverse.
    """
    return targets - solution / inverse_diagonal[:, np.newaxis]


def refine_ridge(kernel: Array, targets: Floats, ridge: float) -> float:
    """Return a ridge near the one given with a smaller exact leave-one-out error.

    Ridges are tried upwards, then downwards, while the error falls.

    Parameters
    ----------
    kernel : (n_rows, n_rows)
    targets : (n_rows, k)
    ridge : float
    """

    def error(strength: float) -> float:
        try:
            system = DualSystem.of(lambda i, j: kernel[i, j], len(kernel), strength)
        except InvalidInputError:  # too small for rows that repeat others
            return np.inf
        solution = system.solve(targets)
        left = solution / system.take_inverse_diagonal()[:, np.newaxis]
        return float(np.sum(left**2))

    best, least = ridge, error(ridge)
    for factor in (_RIDGE_STEP, 1.0 / _RIDGE_STEP):
        start = best
        for _ in range(_MAX_STEPS):
            tried = error(best * factor)
            if tried >= least:
                break
            best, least = best * factor, tried
        if best != start:
            break
    return best

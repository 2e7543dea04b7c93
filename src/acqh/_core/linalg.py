"""The one policy for linear systems: symmetric, ridged where singular, never a bare inverse."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from acqh._core.arrays import Array, Floats, is_sparse, is_tensor
from acqh.errors import ViewError

# Eigenvalues below this share of the largest count as zero.
RANK_TOLERANCE = 1e-10
# Squares and their sums keep their digits between these sizes of the largest number.
_SMALLEST, _LARGEST = 1e-60, 1e60
# Sums of squares about zero lose the square of mean over spread: beyond this, too many digits.
_FARTHEST = 1e3
# Eigenvectors are few where the matrix is more than this many times as wide.
_FEW = 4


def solve_spd(gram: Floats, right: Floats) -> Floats:
    """Solve ``gram @ x = right`` for a symmetric positive semi-definite matrix.

    Cholesky where the matrix is positive definite beyond rounding; otherwise the solution of
    least norm, with eigenvalues below ``RANK_TOLERANCE`` of the largest taken as zero. So
    collinear features, unused labels and empty codewords need no special case elsewhere.

    `gram`: (n, n); symmetric, positive semi-definite up to rounding. `right`: (n, k) or (n,). Gives
    (n, k) or (n,) float64.

    Examples
    --------
    >>> solve_spd(np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([4.0, 0.0]))
    array([2., 0.])
    """
    return factor_spd(gram)(right)


def factor_spd(gram: Floats) -> Callable[[Floats], Floats]:
    """Return what solves ``gram @ x = right`` for many right sides, as `solve_spd` does.

    `gram`: (n, n); symmetric, positive semi-definite up to rounding; factored here, once. What is
    returned takes (n, k) or (n,) and gives the solution, of the same shape.

    Examples
    --------
    >>> solve = factor_spd(np.diag([2.0, 4.0]))
    >>> solve(np.array([2.0, 2.0]))
    array([1. , 0.5])
    """
    gram = np.asarray(gram, dtype=np.float64)
    scale = np.sqrt(np.maximum(np.diag(gram), 0.0))
    try:
        factor, lower = scipy.linalg.cho_factor(gram, lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return _least_norm_solver(gram)
    pivots = np.abs(np.diag(factor))
    # A pivot far below its own diagonal means that column is a combination of earlier ones.
    if np.any(pivots <= np.sqrt(RANK_TOLERANCE) * scale):
        return _least_norm_solver(gram)

    def solve(right: Floats) -> Floats:
        right = np.asarray(right, dtype=np.float64)
        return np.asarray(scipy.linalg.cho_solve((factor, lower), right, check_finite=False))

    return solve


def _least_norm_solver(gram: Floats) -> Callable[[Floats], Floats]:
    values, vectors = scipy.linalg.eigh(gram, check_finite=False)
    keep = values > RANK_TOLERANCE * max(values[-1], 0.0)
    inverse = np.zeros_like(values)
    inverse[keep] = 1.0 / values[keep]

    def solve(right: Floats) -> Floats:
        coefficients = vectors.T @ np.asarray(right, dtype=np.float64)
        return np.asarray(vectors @ (coefficients.T * inverse).T)

    return solve


def whiten(gram: Floats, ridge: float = 0.0, *, floor: float = 0.0) -> Floats:
    """Return the directions in which a symmetric matrix is the identity.

    The columns R satisfy ``R.T @ (gram + ridge * I) @ R = I`` and span what the matrix itself
    spans: directions with an eigenvalue below ``RANK_TOLERANCE`` of the largest are left out,
    whatever the ridge, since nothing is known of them.

    `gram`: (n, n); symmetric, positive semi-definite up to rounding. `ridge`: not negative.
    `floor`: eigenvalues up to this one count as zero too. Gives (n, rank) float64; by falling
    eigenvalue; no columns where the matrix is zero.

    Examples
    --------
    >>> np.abs(whiten(np.diag([4.0, 0.0])))
    array([[0.5],
           [0. ]])
    """
    values, vectors = scipy.linalg.eigh(np.asarray(gram, dtype=np.float64), check_finite=False)
    return whitening(values, vectors, ridge, floor=floor)


def whitening(values: Floats, vectors: Floats, ridge: float = 0.0, *, floor: float = 0.0) -> Floats:
    """Return what `whiten` does of a matrix whose eigenpairs are known.

    `values`: (n,); eigenvalues, rising. `vectors`: (n, n); eigenvectors, one per column. `ridge`,
    `floor`: as `whiten` takes them.

    Examples
    --------
    >>> whitening(np.array([0.0, 4.0]), np.eye(2))
    array([[0. ],
           [0.5]])
    """
    keep = values > max(RANK_TOLERANCE * values[-1], floor)
    return np.asarray((vectors[:, keep] / np.sqrt(values[keep] + ridge))[:, ::-1])


def principal_directions(gram: Floats, n_directions: int) -> Floats:
    """Return the eigenvectors of the largest eigenvalues of a symmetric matrix.

    `gram`: (n, n); symmetric, positive semi-definite up to rounding. Gives (n, n_found) float64; by
    falling eigenvalue; fewer than asked for where the others are zero.

    Examples
    --------
    >>> np.abs(principal_directions(np.diag([1.0, 4.0, 0.0]), 3))
    array([[0., 1.],
           [1., 0.],
           [0., 0.]])
    """
    first = max(len(gram) - n_directions, 0)
    values, vectors = scipy.linalg.eigh(
        np.asarray(gram, dtype=np.float64),
        subset_by_index=(first, len(gram) - 1),
        check_finite=False,
    )
    keep = values > RANK_TOLERANCE * max(values[-1], 0.0)
    return np.ascontiguousarray(vectors[:, keep][:, ::-1])


@dataclass(frozen=True)
class Tridiagonal:
    """A symmetric matrix as ``Q T Q^T``, Q orthogonal and T tridiagonal.

    Solves ``(gram + shift * I) x = right`` for many shifts in linear time each, at a third of the
    cost of an eigendecomposition.

    Examples
    --------
    >>> gram = np.array([[2.0, 1.0, 1.0], [1.0, 3.0, 0.0], [1.0, 0.0, 4.0]])
    >>> form = Tridiagonal.of(gram)
    >>> rotated = form.rotate(np.eye(3))
    >>> inverse = form.rotate_back(form.solve(0.5, rotated))
    >>> np.allclose(inverse @ (gram + 0.5 * np.eye(3)), np.eye(3))
    True
    """

    diagonal: Floats  # (n,): of T
    off_diagonal: Floats  # (n - 1,): of T
    # (n, n): Q as LAPACK keeps it: Householder vectors below the first subdiagonal.
    reflectors: Array
    scales: Floats  # (n - 1,): their scales

    @classmethod
    def of(cls, gram: Floats) -> "Tridiagonal":
        """Reduce a symmetric matrix, (n, n)."""
        work = int(lapack.dsytrd_lwork(len(gram), lower=1)[0])
        reflectors, diagonal, off_diagonal, scales, _ = lapack.dsytrd(gram, lower=1, lwork=work)
        return cls(diagonal, off_diagonal, reflectors, scales)

    def eigenvalues(self) -> Floats:
        """Return the eigenvalues of the matrix, rising: (n,)."""
        return np.asarray(
            scipy.linalg.eigvalsh_tridiagonal(
                self.diagonal, self.off_diagonal, check_finite=False, lapack_driver="sterf"
            )
        )

    def leading(self, n_vectors: int) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues, falling, and their eigenvectors.

        `n_vectors`: all of them where there are fewer. Gives `values`, (n_found,), and `vectors`,
        (n, n_found).
        """
        n = len(self.diagonal)
        # Eigenvalues are found one by one where some are asked for, which takes longer than all.
        which = "i" if n > _FEW * n_vectors else "a"
        find = partial(
            scipy.linalg.eigh_tridiagonal,
            self.diagonal,
            self.off_diagonal,
            select=which,
            select_range=(max(n - n_vectors, 0), n - 1) if which == "i" else None,
            check_finite=False,
        )
        try:
            values, vectors = find(lapack_driver="stemr")
        except scipy.linalg.LinAlgError:
            # Gives up on some matrices, such as those of many zeros; bisection is slower but sure.
            values, vectors = find(lapack_driver="stebz")
        values, vectors = values[::-1][:n_vectors], vectors[:, ::-1][:, :n_vectors]
        return values, np.ascontiguousarray(self.rotate_back(vectors))

    def rotate(self, right: Floats) -> Floats:
        """Return ``Q^T right``, (n, k)."""
        return self._apply(right, "T")

    def rotate_back(self, rotated: Floats) -> Floats:
        """Return ``Q rotated``, (n, k)."""
        return self._apply(rotated, "N")

    def solve(self, shift: float, rotated: Floats) -> Floats:
        """Return ``(T + shift * I)^-1 rotated``, (n, k), for a shift that makes it definite.

        Raises
        ------
        LinAlgError
            It is not positive definite.
        """
        # The wrapper wants an entry beside the diagonal even of a single number.
        off_diagonal = self.off_diagonal if len(self.off_diagonal) else np.zeros(1)
        *_, solution, failed = lapack.dptsv(self.diagonal + shift, off_diagonal, rotated)
        if failed:
            raise scipy.linalg.LinAlgError("the shifted matrix is not positive definite")
        return np.asarray(solution)

    def _apply(self, right: Floats, side: str) -> Floats:
        """Multiply by Q or its transpose, which leave the first row alone."""
        result = np.array(right, dtype=np.float64, order="F")
        if len(self.scales):
            # The Householder vectors are those of a QR decomposition, one row further down.
            vectors = self.reflectors[1:, :-1]
            rest = result[1:]
            work = int(lapack.dormqr("L", side, vectors, self.scales, rest, lwork=-1)[1][0])
            result[1:] = lapack.dormqr("L", side, vectors, self.scales, rest, lwork=work)[0]
        return result


def mean_diagonal(gram: Floats) -> float:
    """Return the mean diagonal entry, the scale that relative ridge strengths refer to.

    Examples
    --------
    >>> mean_diagonal(np.diag([1.0, 3.0]))
    2.0
    """
    return float(np.trace(gram) / len(gram))


def fix_signs(vectors: Floats) -> Floats:
    """Return eigenvectors, one per column, with the entry of largest size positive.

    The sign of an eigenvector is arbitrary; this makes it depend on the matrix alone, not on
    rounding.

    Examples
    --------
    >>> fix_signs(np.array([[0.6, 0.8], [-0.8, 0.6]]))
    array([[-0.6,  0.8],
           [ 0.8,  0.6]])
    """
    largest = np.argmax(np.abs(vectors), axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return np.asarray(vectors * np.where(signs == 0, 1.0, signs))


def find_origin(rows: Any) -> Floats:
    """Return what to take from rows before their squares are summed: (n_features,).

    `rows`: dense, CSR or tensor. The mean where it is too far from zero for sums of squares,
    otherwise zeros, as always of CSR. Raises ViewError: numbers too large or too small to square.

    Examples
    --------
    >>> find_origin(np.array([[1e8], [1e8 + 2.0]])), find_origin(np.array([[1.0], [2.0]]))
    (array([1.00000001e+08]), array([0.]))
    """
    wide = rows.data if is_sparse(rows) else rows.double() if is_tensor(rows) else rows
    largest = float(abs(wide).max()) if wide.shape[0] else 0.0
    if largest and not _SMALLEST <= largest <= _LARGEST:
        raise ViewError(
            f"the largest number is {largest:.0e}, and squares of such numbers cannot be summed; "
            f"scale the features to between {_SMALLEST:.0e} and {_LARGEST:.0e}"
        )
    nothing = np.zeros(rows.shape[1])
    if is_sparse(rows) or not largest:
        return nothing
    mean = wide.mean(0) if is_tensor(rows) else rows.mean(axis=0, dtype=np.float64)
    spread = float(((wide - mean) ** 2).mean()) ** 0.5
    # Rows that are all the same say nothing of how far apart others will be.
    is_far = spread > 0 and float(abs(mean).max()) > _FARTHEST * spread
    return np.asarray(mean.cpu() if is_tensor(rows) else mean) if is_far else nothing

"""Linear systems: symmetric solvers that handle singular matrices; no explicit inverses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh._core.device import to_tensor
from acqh._core.imports import require
from acqh.errors import ViewError

# Eigenvalues below this share of the largest count as zero.
RANK_TOLERANCE = 1e-10
# Sums of squares are precise if the largest number is in this range.
_SMALLEST, _LARGEST = 1e-60, 1e60
# Above this ratio of mean to standard deviation, sums of squares about zero lose too many digits.
_MAX_MEAN_RATIO = 1e3


def solve_spd(gram: Floats, right: Floats) -> Floats:
    """Solve ``gram @ x = right`` for a symmetric positive semi-definite matrix.

    Uses Cholesky if the matrix is numerically positive definite. Otherwise returns the solution of
    least norm, with eigenvalues below ``RANK_TOLERANCE`` of the largest set to zero. So callers
    need no special case for collinear features, unused labels and empty codewords.

    `gram`: (n, n); symmetric, positive semi-definite up to rounding. `right`: (n, k) or (n,).
    Returns (n, k) or (n,) float64.

    Examples
    --------
    >>> solve_spd(np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([4.0, 0.0]))
    array([2., 0.])
    """
    return factor_spd(gram)(right)


def factor_spd(gram: Floats) -> Callable[[Floats], Floats]:
    """Factorize ``gram`` once; return a function that solves ``gram @ x = right``.

    `gram`: (n, n); symmetric, positive semi-definite up to rounding. The function maps (n, k) or
    (n,) to the solution of the same shape, see `solve_spd`.

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
    # A pivot far below its diagonal entry: the column is a combination of earlier ones.
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

    The columns R satisfy ``R.T @ (gram + ridge * I) @ R = I`` and span the range of the matrix:
    directions with an eigenvalue below ``RANK_TOLERANCE`` of the largest are dropped, for any
    ridge.

    `gram`: (n, n); symmetric, positive semi-definite up to rounding. `ridge`: not negative.
    `floor`: eigenvalues up to this one also count as zero. Returns (n, rank) float64 by falling
    eigenvalue; no columns if the matrix is zero.

    Examples
    --------
    >>> np.abs(whiten(np.diag([4.0, 0.0])))
    array([[0.5],
           [0. ]])
    """
    form = EigenForm.of(np.asarray(gram, dtype=np.float64))
    keep = form.values > max(RANK_TOLERANCE * form.values[-1], floor)
    return np.asarray((form.vectors[:, keep] / np.sqrt(form.values[keep] + ridge))[:, ::-1])


def principal_directions(gram: Floats, n_directions: int) -> Floats:
    """Return the eigenvectors of the largest eigenvalues of a symmetric matrix.

    `gram`: (n, n); symmetric, positive semi-definite up to rounding. Returns (n, n_vectors) float64
    by falling eigenvalue; fewer than `n_directions` if the others are zero.

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
class EigenForm:
    """A symmetric matrix as ``V diag(values) V^T``.

    Solves ``(gram + shift * I) x = right`` for many shifts in linear time each.

    Examples
    --------
    >>> gram = np.array([[2.0, 1.0, 1.0], [1.0, 3.0, 0.0], [1.0, 0.0, 4.0]])
    >>> form = EigenForm.of(gram)
    >>> inverse = form.vectors @ form.solve(0.5, form.vectors.T)
    >>> np.allclose(inverse @ (gram + 0.5 * np.eye(3)), np.eye(3))
    True
    """

    values: Floats  # (n,): eigenvalues, rising
    vectors: Floats  # (n, n): eigenvectors, one per column

    @classmethod
    def of(cls, gram: Floats, device: Any = None) -> "EigenForm":
        """Decompose a symmetric matrix, (n, n), on the host or on a torch device."""
        if device is None:
            return cls(*scipy.linalg.eigh(gram, driver="evd", check_finite=False))
        torch = require("torch")
        values, vectors = torch.linalg.eigh(to_tensor(gram, device, torch.float64))
        return cls(values.cpu().numpy(), vectors.cpu().numpy())

    def leading(self, n_vectors: int) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues, falling, and their eigenvectors, at most `n_vectors`."""
        order = slice(None, -n_vectors - 1, -1)
        return self.values[order], np.ascontiguousarray(self.vectors[:, order])

    def solve(self, shift: float, rotated: Floats) -> Floats:
        """Return ``(diag(values) + shift * I)^-1 rotated``, (n, k), for a positive shift.

        `rotated`: ``V^T right``.
        """
        # Zero eigenvalues may be negative by rounding.
        return np.asarray(rotated / (np.maximum(self.values, 0.0) + shift)[:, None])


def mean_diagonal(gram: Floats) -> float:
    """Return the mean diagonal entry, the scale that relative ridge strengths refer to.

    Examples
    --------
    >>> mean_diagonal(np.diag([1.0, 3.0]))
    2.0
    """
    return float(np.trace(gram) / len(gram))


def fix_signs(vectors: Floats) -> Floats:
    """Return eigenvectors, one per column, with a positive entry of largest magnitude.

    This makes the arbitrary sign of an eigenvector independent of rounding.

    Examples
    --------
    >>> fix_signs(np.array([[0.6, 0.8], [-0.8, 0.6]]))
    array([[-0.6,  0.8],
           [ 0.8,  0.6]])
    """
    largest = np.argmax(np.abs(vectors), axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return np.asarray(vectors * np.where(signs == 0, 1.0, signs))


def centering_offset(rows: Matrix) -> Floats:
    """Return the offset to subtract from rows for precise sums of squares: (n_features,).

    `rows`: dense or CSR. The offset is the mean if it is much larger than the standard
    deviation, otherwise zeros; always zeros for CSR. Raises ViewError: numbers too large or too
    small to square.

    Examples
    --------
    >>> centering_offset(np.array([[1e8], [1e8 + 2.0]]))
    array([1.00000001e+08])
    >>> centering_offset(np.array([[1.0], [2.0]]))
    array([0.])
    """
    wide = rows.data if is_sparse(rows) else rows
    largest = float(abs(wide).max()) if wide.shape[0] else 0.0
    if largest and not _SMALLEST <= largest <= _LARGEST:
        raise ViewError(
            f"the largest number is {largest:.0e}, and its square over- or underflows; scale the "
            f"features to between {_SMALLEST:.0e} and {_LARGEST:.0e}"
        )
    zeros = np.zeros(rows.shape[1])
    if is_sparse(rows) or not largest:
        return zeros
    mean = rows.mean(axis=0, dtype=np.float64)
    spread = float(((wide - mean) ** 2).mean()) ** 0.5
    # Identical rows do not show the spread of other rows.
    is_far = spread > 0 and float(abs(mean).max()) > _MAX_MEAN_RATIO * spread
    return np.asarray(mean) if is_far else zeros

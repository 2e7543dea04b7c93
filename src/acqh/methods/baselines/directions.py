"""Directions in which views agree: the generalised eigenproblems behind CCA-like methods."""

import warnings
from collections.abc import Sequence

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats, Matrix
from acqh._core.linalg import whiten
from acqh.errors import FewerBitsWarning, InvalidInputError
from acqh.methods.baselines.rows import Rows, unit_label_rows

# Covariances below this share of the largest that could be are rounding noise.
ZERO_SHARE = 1e-6


def semantic_cross(left: Rows, right: Rows, labels: Matrix) -> Floats:
    """Return the cross product of two views weighted by label similarity, ``Xᵀ S Y``.

    ``S = 2 L̂ L̂ᵀ - 1 1ᵀ`` with the rows of the labels scaled to norm one. S is never formed:
    both views are centred, so the second term is zero, and the first is a product of totals by
    label.

    `labels`: 0/1 (n_items, n_labels), dense or CSR. Gives (n_left, n_right) float64.
    """
    unit = unit_label_rows(labels)
    return 2.0 * left.transpose_times(unit) @ right.transpose_times(unit).T


def paired_directions(
    whiten_left: Floats, whiten_right: Floats, cross: Floats, *, scale: float = 1.0
) -> tuple[Floats, Floats, Floats]:
    """Return the pairs of directions that covary, each uncorrelated with the others.

    Maximises ``aᵀ C b`` subject to ``aᵀ G_left a = bᵀ G_right b = 1`` by the singular value
    decomposition of the whitened cross product, which solves
    ``C G_right⁻¹ Cᵀ a = r² G_left a`` together with ``b = G_right⁻¹ Cᵀ a / r``.

    Parameters
    ----------
    whiten_left : (n_left, rank_left)
        From `acqh._core.linalg.whiten`.
    whiten_right : (n_right, rank_right)
    cross : (n_left, n_right)
    scale : float
        The largest covariance that could be: one for pairs, the number of items where each
        meets every other.

    Returns
    -------
    left : (n_left, n_pairs)
    right : (n_right, n_pairs)
    covariances : (n_pairs,)
        Falling; those that are not zero, at most as many as the smaller rank.
    """
    u, covariances, vt = scipy.linalg.svd(
        whiten_left.T @ cross @ whiten_right, full_matrices=False, check_finite=False
    )
    keep = covariances > ZERO_SHARE * scale
    return whiten_left @ u[:, keep], whiten_right @ vt[keep].T, covariances[keep]


def joint_directions(
    grams: Sequence[Floats], coupling: Sequence[Sequence[Floats]], ridge: float, n_directions: int
) -> tuple[list[Floats], Floats]:
    """Return the directions of largest coupling over any number of views.

    Maximises ``sum_uv a_uᵀ M_uv a_v`` subject to ``sum_v a_vᵀ (G_v + ridge I) a_v = 1`` and to
    being uncorrelated with the directions before: the generalised symmetric eigenproblem of the
    block matrix M and the block diagonal G, within what each G_v spans.

    Parameters
    ----------
    grams : sequence of (n_v, n_v)
    coupling : sequence of sequences of (n_u, n_v)
        Symmetric as one block matrix.
    ridge : float
    n_directions : int

    Returns
    -------
    directions : list of (n_v, n_found)
        Of each view; no more than the smallest rank of a view.
    couplings : (n_found,)
        Falling.
    """
    whiteners = [whiten(gram, ridge) for gram in grams]
    ranks = [white.shape[1] for white in whiteners]
    whitened = np.block(
        [
            [left.T @ block @ right for right, block in zip(whiteners, row, strict=True)]
            for left, row in zip(whiteners, coupling, strict=True)
        ]
    )
    n_found = min(n_directions, *ranks)
    if n_found == 0:
        return [white[:, :0] for white in whiteners], np.zeros(0)
    last = len(whitened) - 1
    values, vectors = scipy.linalg.eigh(
        whitened, subset_by_index=(last - n_found + 1, last), check_finite=False
    )
    values, vectors = values[::-1], vectors[:, ::-1]
    parts = np.split(vectors, np.cumsum(ranks)[:-1])
    return [white @ part for white, part in zip(whiteners, parts, strict=True)], values


def limit_bits(n_bits: int, n_directions: int, method: str) -> int:
    """Return how many bits the data carry; warn where that is fewer than were asked for.

    Raises InvalidInputError: they carry none.
    """
    if n_directions == 0:
        raise InvalidInputError(
            f"{method} finds no direction in which the views agree; are they paired by row?"
        )
    if n_directions < n_bits:
        warnings.warn(
            f"{method} finds {n_directions} directions in which the views agree, so codes have "
            f"{n_directions} bits, not {n_bits}; kernel features (feature_maps='rbf_mean2') give "
            "more",
            FewerBitsWarning,
            stacklevel=3,
        )
    return min(n_bits, n_directions)

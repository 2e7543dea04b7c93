"""Compiled sparse coding; `tests/methods` holds the NumPy twin."""

import numpy as np

from acqh._core.arrays import Floats
from acqh._core.runtime import kernel


@kernel()
def lasso(
    gram: Floats,
    products: Floats,
    penalties: Floats,
    codes: Floats,
    max_sweeps: int,
    tolerance: float,
) -> None:
    """Minimise ``½ ||x - s D||² + λ |s|₁`` for many rows x, one entry of s after another.

    Every entry is set to its exact minimum, the others held. A sweep over all entries is
    followed by sweeps over those that are not zero, until they settle; the whole ends when a
    sweep over all changes next to nothing.

    Parameters
    ----------
    gram : (n_atoms, n_atoms)
        ``D Dᵀ``.
    products : (n_items, n_atoms)
        ``X Dᵀ``.
    penalties : (n_items,)
        λ of each row.
    codes : (n_items, n_atoms)
        The start; overwritten.
    max_sweeps : int
        Most sweeps over all entries, and most over those not zero after each.
    tolerance : float
        Largest change of ``s D`` by one entry that counts as nothing.
    """
    n_items, n_atoms = products.shape
    slopes = np.empty(n_atoms)
    for i in range(n_items):
        for k in range(n_atoms):
            slopes[k] = products[i, k]
        for j in range(n_atoms):
            if codes[i, j] != 0.0:
                for k in range(n_atoms):
                    slopes[k] -= codes[i, j] * gram[j, k]
        for _ in range(max_sweeps):
            if _sweep(gram, slopes, penalties[i], codes, i, False) <= tolerance:
                break
            for _ in range(max_sweeps):
                if _sweep(gram, slopes, penalties[i], codes, i, True) <= tolerance:
                    break


@kernel()
def _sweep(
    gram: Floats, slopes: Floats, penalty: float, codes: Floats, item: int, active: bool
) -> float:
    """Minimise over each entry in turn, or only over those not zero; return the largest change."""
    n_atoms = len(slopes)
    largest = 0.0
    for j in range(n_atoms):
        old = codes[item, j]
        norm = gram[j, j]
        if norm <= 0.0 or (active and old == 0.0):
            continue
        pull = slopes[j] + norm * old
        new = np.sign(pull) * max(abs(pull) - penalty, 0.0) / norm
        if new != old:
            codes[item, j] = new
            for k in range(n_atoms):
                slopes[k] -= (new - old) * gram[j, k]
            largest = max(largest, abs(new - old) * np.sqrt(norm))
    return largest

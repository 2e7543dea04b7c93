"""ACQH in closed form, up to the quantization: principal components of label vectors."""

from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Floats
from acqh.methods.acqh._problem import Problem, spectrum


@dataclass(frozen=True)
class SpectralMaps:
    """The best maps without quantization."""

    # (n_dimensions, n_components): J: from predicted label embeddings to query vectors.
    query_map: Floats
    target_map: Floats  # (n_dimensions, n_components): from label embeddings to code vectors


def solve_spectral(problem: Problem, n_components: int) -> SpectralMaps:
    """Return the global optimum of the objective without its discrete constraint.

    The objective is ``sum_u n_u ||H^(1/2) (J b_u - f_u)||^2`` up to a constant and the label
    terms, so the code vectors are the principal components of ``H^(1/2) f_u``. Multiplying
    codes and dividing queries by a number changes nothing in it: the scale is fixed by a mean
    squared length of one, where the label terms are negligible.

    There are at most `n_components`, and none beyond the rank, which could hold nothing; there is
    at least one, which is zero if nothing can be predicted.
    """
    return spectral_maps(*spectrum(problem), problem.counts.sum(), n_components)


def spectral_maps(
    values: Floats,
    vectors: Floats,
    root: Floats,
    inverse_root: Floats,
    total: float,
    n_components: int,
) -> SpectralMaps:
    """Return the maps of principal components, given as `acqh.methods.acqh._problem.components`.

    `values`: (rank,). `vectors`: (n_dimensions, rank). `root`, `inverse_root`: (n_dimensions,
    n_dimensions). `total`: the weight of all points.
    """
    if len(values) == 0:
        nothing = np.zeros((len(root), 1))
        return SpectralMaps(nothing, nothing)
    axes = vectors[:, :n_components]
    scale = np.sqrt(total / np.sum(values[:n_components]))
    return SpectralMaps(inverse_root @ axes / scale, root @ axes * scale)

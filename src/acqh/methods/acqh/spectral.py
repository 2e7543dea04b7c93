"""Principal components in a metric: the best maps without quantization."""

from typing import NamedTuple

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats
from acqh._core.linalg import RANK_TOLERANCE, fix_signs


class SpectralMaps(NamedTuple):
    """The best maps without quantization."""

    # (n_dimensions, n_components): J: from predicted label embeddings to query vectors.
    query_map: Floats
    target_map: Floats  # (n_dimensions, n_components): from label embeddings to code vectors


class Components(NamedTuple):
    """The principal components of weighted points in a metric."""

    values: Floats  # (rank,): eigenvalues, falling; those that are zero are left out
    vectors: Floats  # (n_dimensions, rank)
    root: Floats  # (n_dimensions, n_dimensions): of the metric
    inverse_root: Floats  # (n_dimensions, n_dimensions): its pseudo-inverse

    @classmethod
    def of(cls, points: Floats, weights: Floats, metric: Floats) -> "Components":
        """Find them, of points (n_points, n_dimensions), in a semi-definite metric."""
        root, inverse_root = _roots(metric)
        mapped = points @ root
        return cls(*_leading((mapped.T * weights) @ mapped), root, inverse_root)

    @classmethod
    def of_moment(cls, moment: Floats, metric: Floats) -> "Components":
        """Find them from the second moment of the points alone."""
        root, inverse_root = _roots(metric)
        return cls(*_leading(root @ moment @ root), root, inverse_root)

    def maps(self, total: float, n_components: int) -> SpectralMaps:
        """Return the maps to the leading components of points of this weight in total.

        There are at most `n_components`, and none beyond the rank, which could hold nothing; there
        is at least one, which is zero if nothing can be predicted. Multiplying codes and dividing
        queries by a number changes no score: code vectors have a mean squared length of one.
        """
        if len(self.values) == 0:
            nothing = np.zeros((len(self.root), 1))
            return SpectralMaps(nothing, nothing)
        axes = self.vectors[:, :n_components]
        scale = np.sqrt(total / np.sum(self.values[:n_components]))
        return SpectralMaps(self.inverse_root @ axes / scale, self.root @ axes * scale)


def _roots(metric: Floats) -> tuple[Floats, Floats]:
    """Return the symmetric root of a metric, and its pseudo-inverse."""
    strengths, axes = scipy.linalg.eigh(metric, check_finite=False)
    strengths = np.maximum(strengths, 0.0)
    keep = strengths > RANK_TOLERANCE * strengths[-1]
    roots = np.sqrt(np.where(keep, strengths, 0.0))
    return (axes * roots) @ axes.T, (axes[:, keep] / roots[keep]) @ axes[:, keep].T


def _leading(gram: Floats) -> tuple[Floats, Floats]:
    values, vectors = scipy.linalg.eigh(gram, check_finite=False)
    values, vectors = values[::-1], vectors[:, ::-1]
    positive = values > RANK_TOLERANCE * max(values[0], np.finfo(float).tiny)
    return values[positive], fix_signs(vectors[:, positive])

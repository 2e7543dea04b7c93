"""What is best without quantization: principal components in the metric of queries."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats, slices
from acqh._core.linalg import RANK_TOLERANCE, fix_signs
from acqh.quantize.query_metric import expected_error

# Shares of the real queries in the metric that are tried; the rest are those of training rows.
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.9)
# Points that are weighted at a time.
_BLOCK_ROWS = 1024


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


@dataclass(frozen=True)
class Problem:
    """What is left of the data when similarities are inner products of label embeddings."""

    # (n_sets, n_dimensions): F: one vector per distinct label set; its inner products are
    # the similarities.
    embeddings: Floats
    counts: Floats  # (n_sets,): how many items carry each set
    # (n_dimensions, n_dimensions): H: summed over views, embedding times prediction; see
    # `acqh.stats.regress`.
    agreement: Floats
    constant: float  # the sum over views of ``||S_p||^2``


def similarity_error(problem: Problem, query_map: Floats, codes: Floats) -> float:
    """Return the first term of the paper's objective (6): errors of all similarities, squared.

    `query_map`: (n_dimensions, n_components); J. `codes`: (n_sets, n_components); B.
    """
    weighted = codes.T * problem.counts
    overlap = weighted @ codes
    cross = weighted @ problem.embeddings
    reached = problem.agreement @ query_map
    pairs = np.sum((query_map.T @ reached) * overlap) - 2.0 * np.sum(reached * cross.T)
    return float(pairs + problem.constant)


def lower_bound(problem: Problem, found: Components, n_components: int) -> float:
    """Return the least value of (6) over all code vectors of that many components.

    Without the discrete constraint the codes are a weighted principal component analysis, so
    the least value is the constant minus the leading eigenvalues of the `spectrum`; the label terms
    are never negative.
    """
    return problem.constant - float(np.sum(found.values[:n_components]))


def spectrum(problem: Problem) -> Components:
    """Return the principal components of the vectors ``H^(1/2) f_u``, weighted by counts.

    The objective is ``sum_u n_u ||H^(1/2) (J b_u - f_u)||^2`` up to a constant and the label
    terms, so these are the code vectors of its global optimum without the discrete constraint.
    """
    return Components.of(problem.embeddings, problem.counts, problem.agreement)


def weighted_gram(points: Floats, weights: Floats) -> Floats:
    """Return the sum of points times themselves, by their weights: (n_dimensions, n_dimensions)."""
    total = np.zeros((points.shape[1], points.shape[1]))
    for rows in slices(len(points), _BLOCK_ROWS):
        scaled = points[rows] * np.sqrt(weights[rows])[:, None]
        total += scaled.T @ scaled  # a product with itself takes half the time
    return total


def second_moment(queries: Floats, weights: Floats) -> Floats:
    """Return the second moment of queries, scaled to a trace of one.

    `queries`: (n_queries, n_dimensions). `weights`: (n_queries,). Gives (n_dimensions,
    n_dimensions).
    """
    moment = weighted_gram(queries, weights)
    return np.asarray(moment / max(np.trace(moment), np.finfo(float).tiny))


def blend_metric(
    usual: Floats, queries: Floats, weights: Floats, moment: Floats, n_bits: int
) -> tuple[Floats, float]:
    """Return the metric of real queries, blended with the usual one, and their share.

    The share is chosen on queries held out: half of them make the metric, the others judge it,
    and the other way round. What is judged is the error of scores that codes of that many bits must
    at least make, which has a closed form.

    Parameters
    ----------
    usual : (n_dimensions, n_dimensions)
        The metric of training rows, of trace one.
    queries : (n_queries, n_dimensions)
        Blocks of real queries.
    weights : (n_queries,)
        How often each was asked.
    moment : (n_dimensions, n_dimensions)
        Mean of the items' blocks times themselves.
    n_bits : int
        Of a code.

    Returns
    -------
    metric : (n_dimensions, n_dimensions)
    share : float
    """
    share = 0.0
    if len(queries) > 1:
        moments = [second_moment(queries[half::2], weights[half::2]) for half in (0, 1)]
        errors = [
            sum(
                expected_error(
                    (1 - share) * usual + share * moments[fold], moments[1 - fold], moment, n_bits
                )
                for fold in (0, 1)
            )
            for share in _SHARES
        ]
        share = _SHARES[int(np.argmin(errors))]
    return (1 - share) * usual + share * second_moment(queries, weights), share

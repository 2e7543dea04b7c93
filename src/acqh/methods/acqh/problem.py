"""ACQH as a problem on weighted label sets: its objective and what every solver shares."""

from dataclasses import dataclass

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh._core.linalg import solve_spd
from acqh.methods.acqh.spectral import Components


@dataclass(frozen=True)
class Problem:
    """What is left of the data when similarities are inner products of label embeddings."""

    # (n_sets, n_dimensions): F: one vector per distinct label set; its inner products are
    # the similarities.
    embeddings: Floats
    labels: Array  # (n_sets, n_labels): L: the label sets as 0/1 rows
    counts: Floats  # (n_sets,): how many items carry each set
    # (n_dimensions, n_dimensions): H: summed over views, embedding times prediction; see
    # `acqh.stats.regress`.
    agreement: Floats
    constant: float  # the sum over views of ``||S_p||^2``
    # The paper's lambda and mu.
    label_weight: float
    label_ridge: float


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


def objective(
    problem: Problem, query_map: Floats, codes: Floats, label_map: Floats, drift: Floats
) -> float:
    """Return the paper's objective (6), every term of it, from sums alone.

    Parameters
    ----------
    problem : Problem
    query_map : (n_dimensions, n_components)
        J: ``W_p = P_p J`` for the label predictor P_p of every view.
    codes : (n_sets, n_components)
        B: the code vector of each label set.
    label_map : (n_labels, n_components)
        M.
    drift : (n_sets,)
        t.

    Notes
    -----
    With a ridge on the regressions, the penalty ``rho ||W_p B^T||^2`` of each view is part of
    the value; without one the value is (6) itself.
    """
    misfit = codes - problem.labels @ label_map - drift[:, None]
    points = problem.counts @ np.sum(misfit**2, axis=1)
    return float(
        similarity_error(problem, query_map, codes)
        + problem.label_weight * points
        + problem.label_ridge * np.sum(label_map**2)
    )


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


def solve_label_map(problem: Problem, targets: Floats) -> Floats:
    """Minimise ``lam ||targets - L M||^2 + mu ||M||^2`` over M, with the counts as weights.

    Without a label weight, M has no part in the objective but its penalty, so it is zero. Where
    labels outnumber label sets, the same M comes from a system as large as there are sets.
    """
    n_sets, n_labels = problem.labels.shape
    if problem.label_weight == 0.0:
        return np.zeros((n_labels, targets.shape[1]))
    ridge = problem.label_ridge / problem.label_weight
    if n_labels > n_sets:
        roots = np.sqrt(problem.counts)[:, np.newaxis]
        rows = roots * problem.labels
        return rows.T @ solve_spd(rows @ rows.T + ridge * np.eye(n_sets), roots * targets)
    weighted = problem.labels.T * problem.counts
    return solve_spd(weighted @ problem.labels + ridge * np.eye(n_labels), weighted @ targets)

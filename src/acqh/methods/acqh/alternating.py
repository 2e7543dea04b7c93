"""Algorithm 1 of the paper, corrected, on weighted label sets: one pure function a step.

Two items with the same labels start with the same code and get the same code in every sweep, so
one row per distinct label set, weighted by how many items carry it, is the whole algorithm.
"""

from dataclasses import dataclass, replace

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh._core.linalg import solve_spd
from acqh.methods.acqh.problem import Problem, objective, solve_label_map
from acqh.quantize import decode, least_squares_codebooks, search_codes


@dataclass(frozen=True)
class State:
    """All variables of the objective."""

    # (n_dimensions, n_components): J: ``W_p = P_p J``, so one small matrix stands for the
    # projections of all views.
    query_map: Floats
    label_map: Floats  # (n_labels, n_components): M
    drift: Floats  # (n_sets,): t
    codebooks: Floats  # (n_codebooks, codebook_size, n_components): C
    codes: Array  # uint8 (n_sets, n_codebooks): A


def random_start(
    problem: Problem,
    n_components: int,
    n_codebooks: int,
    codebook_size: int,
    rng: np.random.Generator,
) -> State:
    """Draw M and C at random, give each label set the code nearest to ``M^T l``; t is zero."""
    label_map = rng.standard_normal((problem.labels.shape[1], n_components))
    codebooks = rng.standard_normal((n_codebooks, codebook_size, n_components))
    codes = search_codes(problem.labels @ label_map, codebooks, search="greedy")
    query_map = update_query_map(problem, decode(codes, codebooks))
    return State(query_map, label_map, np.zeros(len(codes)), codebooks, codes)


def sweep(problem: Problem, state: State) -> State:
    """Run every step of Algorithm 1 once; the objective does not rise."""
    vectors = decode(state.codes, state.codebooks)
    query_map = update_query_map(problem, vectors)
    label_map = update_label_map(problem, vectors, state.drift)
    drift = update_drift(problem, vectors, label_map)
    state = replace(state, query_map=query_map, label_map=label_map, drift=drift)
    metric, linear = code_problem(problem, state)
    codebooks = update_codebooks(problem, state, metric, linear)
    codes = update_codes(state.codes, codebooks, metric, linear)
    return replace(state, codebooks=codebooks, codes=codes)


def state_objective(problem: Problem, state: State) -> float:
    """Return the objective (6) of a state."""
    vectors = decode(state.codes, state.codebooks)
    return objective(problem, state.query_map, vectors, state.label_map, state.drift)


def update_query_map(problem: Problem, vectors: Floats) -> Floats:
    """Solve the projections for fixed codes: ``J = F^T B (B^T B)^-1``, eqs. 8 and 9.

    Parameters
    ----------
    problem : Problem
    vectors : (n_sets, n_components)
        B.

    Returns
    -------
    (n_dimensions, n_components)

    Notes
    -----
    ``B^T B`` is singular when there are more components than the label embeddings have
    dimensions; the solution of least norm is taken then.
    """
    weighted = vectors.T * problem.counts
    return solve_spd(weighted @ vectors, weighted @ problem.embeddings).T


def update_label_map(problem: Problem, vectors: Floats, drift: Floats) -> Floats:
    """Solve the label regression for fixed codes and drift, eq. 11.

    Notes
    -----
    The paper prints the opposite sign, with which the objective rises.
    """
    return solve_label_map(problem, vectors - drift[:, None])


def update_drift(problem: Problem, vectors: Floats, label_map: Floats) -> Floats:
    """Return the mean misfit of each label set over the components, eq. 12."""
    return np.asarray(np.mean(vectors - problem.labels @ label_map, axis=1))


def code_problem(problem: Problem, state: State) -> tuple[Floats, Floats]:
    """Return G and z: the objective is ``sum_u n_u (b^T G b - 2 b^T z_u)`` plus what is fixed.

    Returns
    -------
    metric : (n_components, n_components)
        ``G = J^T H J + lam I``.
    linear : (n_sets, n_components)
        ``z = J^T H f + lam (M^T l + t 1)``.

    Notes
    -----
    In the paper the last term of h (eq. 17) lacks its lambda.
    """
    reached = state.query_map.T @ problem.agreement
    weight = problem.label_weight
    metric = reached @ state.query_map + weight * np.eye(len(reached))
    pulled = problem.labels @ state.label_map + state.drift[:, None]
    return metric, problem.embeddings @ reached.T + weight * pulled


def update_codebooks(problem: Problem, state: State, metric: Floats, linear: Floats) -> Floats:
    """Solve the codebooks for fixed codes, eq. 13.

    The metric drops out of the normal equations: the targets are ``G^-1 z``, and every word is
    part of a least squares fit to them.

    Notes
    -----
    ``A^T A`` is singular for two codebooks or more, since each block of A sums to one.
    """
    targets = solve_spd(metric, linear.T).T
    return least_squares_codebooks(targets, problem.counts, state.codes, state.codebooks)


def update_codes(codes: Array, codebooks: Floats, metric: Floats, linear: Floats) -> Array:
    """Choose codewords codebook after codebook, eqs. 16 to 18.

    Notes
    -----
    The greedy pass starts from nothing each time, so it can end above the old code; an item
    keeps its old code unless the new one is better.
    """
    return search_codes(linear, codebooks, search="greedy", metric=metric, start=codes)

"""Algorithm 1 of the paper, corrected, on weighted label sets: one pure function a step.

Two items with the same labels start with the same code and get the same code in every sweep, so
one row per distinct label set, weighted by how many items carry it, is the whole algorithm.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from acqh._core.arrays import Array, Floats, Matrix, is_tensor
from acqh._core.device import to_tensor
from acqh._core.linalg import RANK_TOLERANCE, solve_spd
from acqh._core.runtime import check_rng
from acqh.errors import ViewError
from acqh.methods.acqh.estimator import ACQH
from acqh.methods.acqh.solve import (
    Solution,
    leading_eigenpairs,
    metric_roots,
)
from acqh.methods.acqh.space import Block, Space, embed
from acqh.methods.acqh.targets import LABELS, Target
from acqh.methods.collect import MappedStatistics
from acqh.methods.registry import register
from acqh.quantize import decode, search_codes
from acqh.quantize.codebooks import least_squares_codebooks
from acqh.stats import regress
from acqh.stats.moments import LabelSets


@dataclass(frozen=True)
class PaperProblem:
    """The paper's problem: similarities, which are inner products of label embeddings, and labels.

    All that is left of the data.
    """

    # (n_sets, n_dimensions): F: one vector per distinct label set; its inner products are
    # the similarities.
    embeddings: Floats
    counts: Floats  # (n_sets,): how many items carry each set
    # (n_dimensions, n_dimensions): H: summed over views, embedding times prediction.
    agreement: Floats
    constant: float  # the sum over views of ``||S_p||^2``
    labels: Floats  # (n_sets, n_labels) float64: L: the label sets as 0/1 rows
    # The paper's lambda and mu.
    label_weight: float
    label_ridge: float


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
    problem: PaperProblem,
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


def sweep(problem: PaperProblem, state: State) -> State:
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


def state_objective(problem: PaperProblem, state: State) -> float:
    """Return the objective (6) of a state."""
    vectors = decode(state.codes, state.codebooks)
    return objective(problem, state.query_map, vectors, state.label_map, state.drift)


def update_query_map(problem: PaperProblem, vectors: Floats) -> Floats:
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


def update_label_map(problem: PaperProblem, vectors: Floats, drift: Floats) -> Floats:
    """Solve the label regression for fixed codes and drift, eq. 11.

    Notes
    -----
    The paper prints the opposite sign, with which the objective rises.
    """
    return solve_label_map(problem, vectors - drift[:, None])


def update_drift(problem: PaperProblem, vectors: Floats, label_map: Floats) -> Floats:
    """Return the mean misfit of each label set over the components, eq. 12."""
    return np.asarray(np.mean(vectors - problem.labels @ label_map, axis=1))


def code_problem(problem: PaperProblem, state: State) -> tuple[Floats, Floats]:
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


def update_codebooks(problem: PaperProblem, state: State, metric: Floats, linear: Floats) -> Floats:
    """Solve the codebooks for fixed codes, eq. 13.

    The metric drops out of the normal equations: the targets are ``G^-1 z``, and every word is
    part of a least squares fit to them.

    Notes
    -----
    ``A^T A`` is singular for two or more codebooks: the entries of each block of A add up to one.
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


def similarity_error(problem: PaperProblem, query_map: Floats, codes: Floats) -> float:
    """Return the first term of the paper's objective (6): errors of all similarities, squared.

    `query_map`: (n_dimensions, n_components); J. `codes`: (n_sets, n_components); B.
    """
    weighted = codes.T * problem.counts
    reached = problem.agreement @ query_map
    pairs = np.sum((query_map.T @ reached) * (weighted @ codes))
    pairs -= 2.0 * np.sum(reached * (weighted @ problem.embeddings).T)
    return float(pairs + problem.constant)


def lower_bound(problem: PaperProblem, n_components: int) -> float:
    """Return the least value of (6) over all code vectors of that many components.

    Without the discrete constraint the codes are a principal component analysis of the vectors
    ``H^(1/2) f_u``, weighted by counts, so the least value is the constant minus its leading
    eigenvalues; the label terms are never negative.
    """
    mapped = problem.embeddings @ metric_roots(problem.agreement)[0]
    values, _ = leading_eigenpairs((mapped.T * problem.counts) @ mapped)
    return problem.constant - float(np.sum(values[:n_components]))


def objective(
    problem: PaperProblem, query_map: Floats, codes: Floats, label_map: Floats, drift: Floats
) -> float:
    """Return the paper's objective (6), every term of it, from sufficient statistics.

    Parameters
    ----------
    problem : PaperProblem
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


def solve_label_map(problem: PaperProblem, targets: Floats) -> Floats:
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


@register(name="acqh-paper")
@dataclass(eq=False, repr=False, kw_only=True)
class ACQHPaper(ACQH):
    """The paper's own method: Algorithm 1, with its errors corrected.

    Similarity ``L L^T``, linear maps without intercept or ridge, a random start, codebooks learnt
    from labels alone.

    Parameters
    ----------
    n_components : int
        The paper's K.
    n_codebooks : int
        The paper's m: bytes per item.
    codebook_size : int
        The paper's n.
    feature_maps : mapping of str to feature map, one feature map, or None
    random_state : int, Generator or None
    label_weight : float
        The paper's lambda: weight of the label regression.
    label_ridge : float
        The paper's mu: ridge of the label regression.
    max_iter : int
        The paper's T.
    tol : float
        Stop when a sweep lowers the objective by less than this share.

    Attributes
    ----------
    objective_ : list of float
        The paper's objective (6) after each sweep, with all its terms. Kernel maps enter by their
        leave-one-out features.
    label_sets_ : LabelSets
        The fitted label sets.
    label_codes_ : uint8 (n_sets, n_codebooks)
        Their codes.

    Examples
    --------
    >>> import acqh
    >>> acqh.methods.get("acqh-paper")(16).similarity
    'dot'
    """

    _sample_size: ClassVar[int] = 0
    targets: ClassVar[Mapping[str, float]] = {"labels": 1.0}  # type: ignore[misc]
    similarity: str = field(default="dot", init=False)
    label_weight: float = 1e-4
    label_ridge: float = 1e-2
    ridge: float = field(default=0.0, init=False)
    normalize_items: bool = field(default=False, init=False)
    complete_share: None = field(default=None, init=False)
    max_iter: int = 40
    tol: float = 1e-5
    label_sets_: LabelSets = field(init=False)
    label_codes_: Array = field(init=False)

    def _set_label_codes(self, codes: Any, labels: Matrix) -> None:
        """Give items with fitted label sets the codes of Algorithm 1."""
        numbers = self.label_sets_.number(labels, add=False)
        rows = np.flatnonzero(numbers >= 0)
        label_codes: Any = self.label_codes_[numbers[rows]]
        codes[rows] = to_tensor(label_codes, codes.device) if is_tensor(codes) else label_codes

    def _learn(
        self,
        collected: MappedStatistics,
        targets: Mapping[str, Any],  # noqa: ARG002 - labels
        device: Any,
    ) -> Solution:
        rng = check_rng(self.random_state)
        stats = collected.statistics.compact()
        for name, view in stats.views.items():
            if view.n_items == 0:
                raise ViewError(f"no labelled item has view '{name}', so it cannot be learnt")
        sets, counts = stats.label_sets.matrix(), stats.counts
        embedding = embed(self.similarity, sets, counts, rng)
        vectors = embedding.transform(sets)
        regressions = {
            name: regress(view, vectors, self.ridge, fit_intercept=False, device=device)
            for name, view in stats.views.items()
        }
        agreement = np.sum(
            [
                vectors.T @ view.set_totals @ regressions[name].coefficients
                for name, view in stats.views.items()
            ],
            axis=0,
        )
        power = (vectors.T * counts) @ vectors
        problem = PaperProblem(
            vectors,
            counts,
            (agreement + agreement.T) / 2.0,
            float(
                sum(
                    np.sum(((vectors.T * v.counts) @ vectors) * power) for v in stats.views.values()
                )
            ),
            sets.astype(np.float64),
            float(self.label_weight),
            float(self.label_ridge),
        )
        state, values = self._sweep(problem, rng)
        reached = state.query_map.T @ problem.agreement
        metric = reached @ state.query_map
        # The label terms weigh next to nothing against the similarities, and items without labels
        # have none, so new items are placed by the similarities alone.
        space = Space(
            {LABELS: _label_block(vectors, counts)},
            {view: {LABELS: regression} for view, regression in regressions.items()},
            embedding,
            state.query_map,
            solve_spd(metric, reached).T,
            is_normalized=False,
        )
        bound = lower_bound(problem, self.n_components)
        self.label_sets_, self.label_codes_ = stats.label_sets, state.codes
        return Solution(space, state.codebooks, values, bound, problem.constant, metric)

    def _sweep(self, problem: PaperProblem, rng: np.random.Generator) -> tuple[State, list[float]]:
        """Run Algorithm 1 to its end; return where it ends, and the objective on the way."""
        state = random_start(problem, self.n_components, self.n_codebooks, self.codebook_size, rng)
        values = [state_objective(problem, state)]
        for _ in range(self.max_iter):
            state = sweep(problem, state)
            values.append(state_objective(problem, state))
            if values[-2] - values[-1] <= self.tol * abs(values[-2]):
                return state, values
        warnings.warn(
            f"Algorithm 1 was stopped after {self.max_iter} sweeps; the last one lowered "
            f"the objective by {1 - values[-1] / values[-2]:.1e}; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=2,
        )
        return state, values


def _label_block(vectors: Floats, counts: Floats) -> Block:
    """Return label embeddings as they are, as the block of labels."""
    mean = counts @ vectors / counts.sum()
    away = vectors - mean
    values, axes = np.linalg.eigh((away.T * counts) @ away / counts.sum())
    spread = (axes * np.sqrt(np.maximum(values, RANK_TOLERANCE * values.max() or 1.0))) @ axes.T
    rank = vectors.shape[1]
    return Block(Target(rank=rank), LABELS, np.eye(rank), np.zeros(rank), mean, spread)

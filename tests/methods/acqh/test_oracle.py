"""The solver against a slow transcription of the paper's equations, with the N x N matrix S."""

# ruff: noqa: N802 - the capitals are those of the equations.

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from acqh.methods.acqh import paper
from acqh.methods.acqh.paper import PaperProblem, lower_bound, objective, similarity_error
from acqh.methods.acqh.solve import leading_eigenpairs, metric_roots, spectral_maps
from acqh.methods.acqh.space import SIMILARITIES, embed
from acqh.quantize import decode
from acqh.stats import Statistics, regress

# The pull of a word towards its old value, relative to how often it is used; see
# acqh.quantize.codebooks.
PROXIMITY = 1e-8


class Oracle:
    """Algorithm 1, item by item. Rows are items; S is N x N; nothing is summed up first."""

    def __init__(self, X, L, S, lam, mu, M, C, t, A):
        self.X, self.L, self.S, self.lam, self.mu = X, L.astype(float), S, lam, mu
        self.M, self.C, self.t, self.A = M.copy(), C.copy(), t.copy(), A.copy()
        self.update_W()

    @property
    def B(self):
        return sum(self.C[s][self.A[:, s]] for s in range(len(self.C)))

    def update_W(self):
        B = self.B
        self.W = [
            np.linalg.pinv(x.T @ x) @ x.T @ self.S @ B @ np.linalg.pinv(B.T @ B) for x in self.X
        ]

    def update_M(self):
        ridge = self.mu / self.lam * np.eye(self.L.shape[1])
        self.M = np.linalg.solve(self.L.T @ self.L + ridge, self.L.T @ (self.B - self.t[:, None]))

    def update_t(self):
        self.t = (self.B - self.L @ self.M).mean(axis=1)

    def quadratic(self):
        G = sum(w.T @ x.T @ x @ w for x, w in zip(self.X, self.W, strict=True))
        Z = sum(self.S @ x @ w for x, w in zip(self.X, self.W, strict=True))
        G = G + self.lam * np.eye(len(G))
        return G, Z + self.lam * (self.L @ self.M + self.t[:, None])

    def update_C(self):
        G, Z = self.quadratic()
        m, n, K = self.C.shape
        A = np.concatenate([np.eye(n)[self.A[:, s]] for s in range(m)], axis=1)
        gram, old = A.T @ A, self.C.reshape(m * n, K)
        used = np.diag(gram)
        gram = gram + np.diag(np.where(used > 0, PROXIMITY * used, 1.0))
        right = A.T @ (Z @ np.linalg.inv(G) - A @ old)
        self.C = (old + np.linalg.solve(gram, right)).reshape(m, n, K)

    def update_A(self):
        G, Z = self.quadratic()
        for i in range(len(self.A)):
            code, built = [], np.zeros(G.shape[0])
            for words in self.C:
                r = Z[i] - G @ built
                j = np.argmin([c @ G @ c - 2 * c @ r for c in words])
                code.append(j)
                built = built + words[j]
            old = sum(self.C[s][self.A[i, s]] for s in range(len(self.C)))
            if built @ G @ built - 2 * built @ Z[i] < old @ G @ old - 2 * old @ Z[i]:
                self.A[i] = code

    def sweep(self):
        self.update_W()
        self.update_M()
        self.update_t()
        self.update_C()
        self.update_A()

    def objective(self):
        B = self.B
        return (
            sum(np.sum((x @ w @ B.T - self.S) ** 2) for x, w in zip(self.X, self.W, strict=True))
            + self.lam * np.sum((B - self.L @ self.M - self.t[:, None]) ** 2)
            + self.mu * np.sum(self.M**2)
        )


def draw(seed, n_items=40, n_labels=4, widths=(6, 5)):
    rng = np.random.default_rng(seed)
    L = (rng.random((n_items, n_labels)) < 0.4).astype(np.uint8)
    L[~L.any(axis=1), 0] = 1
    mix = [rng.normal(size=(n_labels, d)) for d in widths]
    X = [L @ m + rng.normal(size=(n_items, m.shape[1])) for m in mix]
    return X, L


def pose(X, L, similarity="dot", lam=1e-2, mu=1e-2):
    """Return the problem on label sets, and which set each item has."""
    views = {str(p): x for p, x in enumerate(X)}
    stats = Statistics.from_views(views, L).compact()
    sets = stats.label_sets.matrix()
    F = embed(similarity, sets, stats.counts, np.random.default_rng(0)).transform(sets)
    result = [regress(view, F, 0.0, fit_intercept=False) for view in stats.views.values()]
    every = (F.T * stats.counts) @ F
    problem = PaperProblem(
        embeddings=F,
        labels=sets.astype(float),
        counts=stats.counts,
        agreement=sum(
            F.T @ view.set_totals @ f.coefficients
            for f, view in zip(result, stats.views.values(), strict=True)
        ),
        constant=len(X) * np.sum(every * every),
        label_weight=lam,
        label_ridge=mu,
    )
    return problem, stats.label_sets.number(L), result


def start(problem, K=3, m=2, n=4, seed=0):
    return paper.random_start(problem, K, m, n, np.random.default_rng(seed))


def oracle_of(X, L, problem, state, numbers):
    return Oracle(
        X,
        L,
        (problem.embeddings @ problem.embeddings.T)[np.ix_(numbers, numbers)],
        problem.label_weight,
        problem.label_ridge,
        state.label_map,
        state.codebooks,
        state.drift[numbers],
        state.codes[numbers].astype(np.int64),
    )


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("seed", range(3))
def test_sweeps_on_label_sets_are_the_papers_sweeps_on_items(seed, similarity):
    X, L = draw(seed)
    problem, numbers, _ = pose(X, L, similarity)
    state = start(problem, seed=seed)
    oracle = oracle_of(X, L, problem, state, numbers)
    for _ in range(6):
        state = paper.sweep(problem, state)
        oracle.sweep()
        np.testing.assert_array_equal(state.codes[numbers], oracle.A)
        assert paper.state_objective(problem, state) == pytest.approx(oracle.objective(), rel=1e-8)


def test_weighted_label_sets_are_repeated_items():
    X, L = draw(5)
    problem, numbers, _ = pose(X, L)
    repeated = PaperProblem(
        problem.embeddings[numbers],
        np.ones(len(numbers)),
        problem.agreement,
        problem.constant,
        problem.labels[numbers],
        problem.label_weight,
        problem.label_ridge,
    )
    state, items = start(problem), start(repeated)
    for _ in range(4):
        state, items = paper.sweep(problem, state), paper.sweep(repeated, items)
        np.testing.assert_array_equal(state.codes[numbers], items.codes)


@pytest.mark.parametrize("step", ["W", "M", "t", "C", "A"])
@pytest.mark.parametrize("seed", range(3))
def test_no_step_raises_the_objective(step, seed):
    X, L = draw(seed)
    problem, numbers, _ = pose(X, L)
    oracle = oracle_of(X, L, problem, start(problem, seed=seed), numbers)
    for _ in range(3):
        before = oracle.objective()
        getattr(oracle, f"update_{step}")()
        assert oracle.objective() <= before * (1 + 1e-9)
        oracle.sweep()


def test_the_printed_sign_of_the_label_map_raises_the_objective():
    X, L = draw(0)
    problem, numbers, _ = pose(X, L)
    oracle = oracle_of(X, L, problem, start(problem), numbers)
    oracle.sweep()
    oracle.M = np.zeros_like(oracle.M)
    without = oracle.objective()
    oracle.update_M()
    oracle.M = -oracle.M
    assert oracle.objective() > without


@pytest.mark.parametrize("seed", range(5))
def test_every_sweep_lowers_the_objective_or_keeps_it(seed):
    X, L = draw(seed, n_items=120, n_labels=6)
    problem, _, _ = pose(X, L)
    state = start(problem, K=4, m=3, n=8, seed=seed)
    values = []
    for _ in range(15):
        state = paper.sweep(problem, state)
        values.append(paper.state_objective(problem, state))
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(values))
    assert values[-1] >= lower_bound(problem, 4)


def numerical_gradient(function, point, step=1e-5):
    gradient = np.zeros_like(point)
    for index in np.ndindex(point.shape):
        shift = np.zeros_like(point)
        shift[index] = step
        gradient[index] = (function(point + shift) - function(point - shift)) / (2 * step)
    return gradient


def test_closed_forms_are_stationary_by_finite_differences():
    X, L = draw(1)
    problem, _, _ = pose(X, L)
    state = paper.sweep(problem, start(problem))
    B = decode(state.codes, state.codebooks)
    J = paper.update_query_map(problem, B)
    M = paper.update_label_map(problem, B, state.drift)
    t = paper.update_drift(problem, B, M)
    scale = abs(problem.constant)
    for function, point in (
        (lambda j: objective(problem, j, B, M, t), J),
        (lambda m: objective(problem, J, B, m, state.drift), M),
        (lambda d: objective(problem, J, B, M, d), t),
    ):
        assert np.abs(numerical_gradient(function, point)).max() < 1e-6 * scale
    metric, linear = paper.code_problem(problem, state)
    C = paper.update_codebooks(problem, state, metric, linear)
    gradient = numerical_gradient(
        lambda c: objective(
            problem, state.query_map, decode(state.codes, c), state.label_map, state.drift
        ),
        C,
    )
    assert np.abs(gradient).max() < 1e-6 * scale


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("K", [1, 2, 4])
def test_the_spectral_solution_reaches_the_lower_bound(similarity, K):
    X, L = draw(3)
    problem, _, _ = pose(X, L, similarity, lam=0.0, mu=0.0)
    F, n = problem.embeddings, problem.counts
    root, inverse = metric_roots(problem.agreement)
    pairs = leading_eigenpairs(root @ (F.T * n) @ F @ root)
    query_map, target_map = spectral_maps(*pairs, root, inverse, n.sum(), K)
    value = similarity_error(problem, query_map, F @ target_map)
    assert value == pytest.approx(lower_bound(problem, K), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_no_random_codes_are_below_the_lower_bound(seed):
    rng = np.random.default_rng(seed)
    X, L = draw(seed)
    problem, _, _ = pose(X, L)
    bound = lower_bound(problem, 2)
    B = rng.normal(size=(len(problem.counts), 2))
    for _ in range(50):
        J = paper.update_query_map(problem, B)
        assert similarity_error(problem, J, B) >= bound * (1 - 1e-12)
        # Block-coordinate descent without quantization converges to the bound.
        B = problem.embeddings @ problem.agreement @ J @ np.linalg.pinv(J.T @ problem.agreement @ J)
    assert similarity_error(problem, J, B) == pytest.approx(bound, rel=2e-2)


def test_sparse_and_dense_features_pose_the_same_problem():
    X, L = draw(4)
    X = [np.where(x > 0.5, x, 0.0) for x in X]
    dense, _, _ = pose(X, L)
    sparse, _, _ = pose([sp.csr_array(x) for x in X], L)
    np.testing.assert_allclose(dense.agreement, sparse.agreement, rtol=1e-9)

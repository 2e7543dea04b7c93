"""The steps that several methods share, against slow and obvious oracles."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from acqh.features import RBFAnchors
from acqh.methods.baselines.binary import descend_bits, keep_sign, random_signs
from acqh.methods.baselines.logistic import fit_logistic, logistic_penalty
from acqh.methods.baselines.rows import LabelSimilarity, Rows

seeds = st.integers(0, 2**32 - 1)


def draw_discrete_problem(seed, integers=False):
    rng = np.random.default_rng(seed)
    n_items, n_bits = rng.integers(1, 40), rng.integers(1, 9)
    root = rng.integers(-2, 3, (n_bits, n_bits)) if integers else rng.normal(size=(n_bits, n_bits))
    Q = rng.integers(-4, 5, (n_items, n_bits)) if integers else rng.normal(size=(n_items, n_bits))
    return random_signs(rng, (n_items, n_bits)), (root @ root.T).astype(float), Q.astype(float)


def discrete_objective(B, H, Q):
    return np.trace(B @ H @ B.T) - 2 * np.trace(B @ Q.T)


def descend_bits_slowly(B, H, Q, max_sweeps):
    B = B.copy()
    n_items, n_bits = B.shape
    for _ in range(max_sweeps):
        for k in range(n_bits):
            for i in range(n_items):
                argument = Q[i, k] - sum(B[i, j] * H[j, k] for j in range(n_bits) if j != k)
                if argument != 0:
                    B[i, k] = np.sign(argument)
    return B


@given(seeds)
def test_descent_equals_the_loop_over_single_bits(seed):
    # Whole numbers: the sums are exact, so ties happen and are distinguished from rounding.
    B, H, Q = draw_discrete_problem(seed, integers=True)
    np.testing.assert_array_equal(
        descend_bits(B, H, Q, max_sweeps=3), descend_bits_slowly(B, H, Q, 3)
    )


@given(seeds)
def test_descent_never_raises_the_objective_and_ends_where_no_bit_helps(seed):
    B, H, Q = draw_discrete_problem(seed)
    result = descend_bits(B, H, Q, max_sweeps=200)
    before, after = discrete_objective(B, H, Q), discrete_objective(result, H, Q)
    assert after <= before + 1e-9 * (1 + abs(before))
    for k in range(B.shape[1]):
        flipped = result.copy()
        flipped[:, k] *= -1
        gains = [
            discrete_objective(flipped[[i]], H, Q[[i]]) - discrete_objective(result[[i]], H, Q[[i]])
            for i in range(len(B))
        ]
        assert min(gains) >= -1e-9


def test_descent_leaves_its_start_alone_and_crosses_blocks_of_rows():
    rng = np.random.default_rng(0)
    H, Q = np.full((3, 3), 0.4), rng.normal(size=(5000, 3))
    start = random_signs(rng, Q.shape)
    start_before = start.copy()
    full = descend_bits(start, H, Q)
    np.testing.assert_array_equal(start, start_before)
    np.testing.assert_array_equal(full[4000:], descend_bits(start[4000:], H, Q[4000:]))


def test_a_zero_keeps_the_previous_sign():
    np.testing.assert_array_equal(keep_sign(np.array([0.0, -0.0, 3.0]), -np.ones(3)), [-1, -1, 1])


@given(seeds, st.booleans())
def test_ridge_is_the_stationary_point_of_its_loss(seed, is_sparse):
    rng = np.random.default_rng(seed)
    n_items, width = rng.integers(1, 12), rng.integers(1, 12)
    dense = rng.normal(size=(n_items, width)) * (rng.random((n_items, width)) < 0.7)
    features = sp.csr_array(dense) if is_sparse else dense
    targets = rng.normal(size=(n_items, 3))
    rows = Rows(features)
    result = rows.ridge(0.5)(targets)
    gradient = dense.T @ (dense @ result - targets) + 0.5 * result
    np.testing.assert_allclose(gradient, 0, atol=1e-9)
    expected = np.square(targets - dense @ result).sum() + 0.5 * np.square(result).sum()
    for given_targets in (targets, sp.csr_array(targets)):
        assert rows.ridge_loss(given_targets, result, 0.5) == pytest.approx(expected)


@given(seeds, st.booleans(), st.sampled_from(["cosine", "signed"]))
def test_label_products_equal_those_with_the_whole_matrix(seed, is_sparse, kind):
    rng = np.random.default_rng(seed)
    L = (rng.random((rng.integers(1, 15), rng.integers(1, 6))) < 0.4).astype(np.uint8)
    norms = np.sqrt(L.sum(axis=1, keepdims=True))
    unit = np.divide(L, norms, out=np.zeros(L.shape), where=norms > 0)
    S = {"cosine": unit @ unit.T, "signed": 2 * unit @ unit.T - 1}
    result = getattr(LabelSimilarity, kind)(sp.csr_array(L) if is_sparse else L)
    M = rng.normal(size=(len(L), 3))
    np.testing.assert_allclose(result @ M, S[kind] @ M, atol=1e-12)
    assert result.squared_norm() == pytest.approx(np.square(S[kind]).sum())
    A = rng.normal(size=M.shape)
    assert result.distance_to_product(3.0, A, M) == pytest.approx(
        np.square(3.0 * S[kind] - A @ M.T).sum()
    )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_logistic_regression_reaches_the_minimum_of_each_bit(is_sparse):
    rng = np.random.default_rng(1)
    features, penalty = rng.normal(size=(60, 4)), 0.3 * np.eye(4)
    signs = np.where(features @ rng.normal(size=(4, 3)) + rng.normal(size=(60, 3)) > 0, 1.0, -1.0)
    result = fit_logistic(sp.csr_array(features) if is_sparse else features, signs, penalty)
    for k in range(3):

        def loss(w, k=k):
            return np.logaddexp(0, -signs[:, k] * (features @ w)).sum() + w @ penalty @ w

        best = scipy.optimize.minimize(loss, np.zeros(4), tol=1e-10)
        assert loss(result[:, k]) == pytest.approx(best.fun, rel=1e-6)
        np.testing.assert_allclose(result[:, k], best.x, atol=1e-2)


def test_logistic_regression_of_a_nearly_singular_kernel_reaches_a_stationary_point():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 2))
    kernel_map = RBFAnchors(40, variant="rbf_mean", random_state=0).fit(X)
    features = kernel_map.transform(X)
    penalty = logistic_penalty(kernel_map, 40, 0.01)
    signs = np.where(np.sin(2 * X[:, :1]) + 0.1 * rng.normal(size=(80, 1)) > 0, 1.0, -1.0)
    result = fit_logistic(features, signs, penalty)
    slope = -signs / (1 + np.exp(signs * (features @ result)))
    gradient = features.T @ slope + 2 * penalty @ result
    assert np.abs(gradient).max() < 1e-2
    assert np.mean(np.sign(features @ result) == signs) > 0.9


def test_only_the_raw_kernel_uses_the_anchor_kernel_as_penalty():
    X = np.random.default_rng(3).normal(size=(9, 2))
    plain = RBFAnchors(5, variant="rbf_mean", random_state=0).fit(X)
    np.testing.assert_allclose(
        logistic_penalty(plain, 5, 0.5), 0.5 * plain.transform(plain.anchors_)
    )
    other = RBFAnchors(5, variant="rbf_mean2", random_state=0).fit(X)
    np.testing.assert_array_equal(logistic_penalty(other, 5, 0.5), 0.5 * np.eye(5))
    np.testing.assert_array_equal(logistic_penalty(None, 2, 0.5), 0.5 * np.eye(2))

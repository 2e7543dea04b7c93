"""CRE: each step is optimal, and the affinity matrix is never formed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.methods.baselines.cre import Affinity, balance, update_codes

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_the_affinity_sums_cosines_of_centred_unit_rows(seed):
    rng = np.random.default_rng(seed)
    views = {"a": rng.normal(size=(20, 4)), "b": rng.random((20, 3))}
    expected = np.zeros((20, 20))
    for name, weight in (("a", 0.25), ("b", 0.75)):
        rows = views[name] / np.linalg.norm(views[name], axis=1, keepdims=True)
        rows -= rows.mean(axis=0)
        expected += weight * rows @ rows.T / np.mean(np.sum(rows**2, axis=1))
    result = Affinity.of(views, {"a": 0.25, "b": 0.75}) @ np.eye(20)
    np.testing.assert_allclose(result, expected, atol=1e-10)


@given(seeds, st.integers(0, 4))
def test_balancing_is_feasible_and_no_other_feasible_point_is_better(seed, rank):
    rng = np.random.default_rng(seed)
    n_items, n_bits = 15, 4
    M = rng.normal(size=(n_items, rank)) @ rng.normal(size=(rank, n_bits)) + rng.normal(size=n_bits)
    Z = balance(M, rng.normal(size=(n_items, n_bits)))
    np.testing.assert_allclose(Z.sum(axis=0), 0, atol=1e-7)
    np.testing.assert_allclose(Z.T @ Z, n_items * np.eye(n_bits), atol=1e-6)
    for _ in range(5):
        other = balance(rng.normal(size=M.shape), M)
        assert np.vdot(other, M) <= np.vdot(Z, M) + 1e-9


def test_balancing_with_fewer_items_than_bits_goes_as_far_as_items_do():
    rng = np.random.default_rng(0)
    Z = balance(rng.normal(size=(4, 9)), rng.normal(size=(4, 9)))
    assert np.linalg.matrix_rank(Z) == 3
    np.testing.assert_allclose(Z.sum(axis=0), 0, atol=1e-9)


@given(seeds)
def test_no_other_codes_are_better_than_the_updated_ones(seed):
    rng = np.random.default_rng(seed)
    views = {"a": rng.normal(size=(12, 4)), "b": rng.random((12, 3))}
    A = Affinity.of(views, {"a": 0.5, "b": 0.5})
    B, Z, pull = (
        rng.choice([-1.0, 1.0], (12, 3)),
        rng.normal(size=(12, 3)),
        rng.normal(size=(12, 3)),
    )
    result = update_codes(B, A, Z, 0.7, pull)
    gain = A @ Z + 0.7 * Z + pull
    assert np.vdot(result, gain) == pytest.approx(np.abs(gain).sum())

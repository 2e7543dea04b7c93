"""LSSH: sparse codes and bases are minima."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import acqh
from acqh.errors import InvalidInputError, ViewError
from acqh.methods.baselines.lssh import (
    LSSH,
    code_sparsely,
    inverse_distances,
    update_basis,
    update_factors,
)

seeds = st.integers(0, 2**32 - 1)


def lasso_slowly(gram, products, penalties, n_sweeps):
    codes = np.zeros_like(products)
    for _ in range(n_sweeps):
        for j in range(len(gram)):
            if gram[j, j] > 0:
                pull = products[:, j] - codes @ gram[:, j] + codes[:, j] * gram[j, j]
                shrunk = np.maximum(np.abs(pull) - penalties, 0)
                codes[:, j] = np.sign(pull) * shrunk / gram[j, j]
    return codes


@given(seeds)
@settings(max_examples=15)
def test_sparse_codes_go_towards_those_of_coordinate_descent(seed):
    rng = np.random.default_rng(seed)
    dictionary = rng.normal(size=(7, 5))
    dictionary[rng.integers(7)] = 0  # an atom that can explain nothing
    rows = rng.normal(size=(6, 5))
    gram, products = dictionary @ dictionary.T, rows @ dictionary.T
    penalties = 0.3 * np.abs(products).max(axis=1)
    result = code_sparsely(rows, dictionary, 0.3, n_steps=2000)
    expected = lasso_slowly(gram, products, penalties, 500)
    np.testing.assert_allclose(result @ dictionary, expected @ dictionary, atol=1e-3)


@given(seeds, st.sampled_from([0.1, 0.3, 0.8]))
@settings(max_examples=15)
def test_a_few_steps_lower_the_cost_of_sparse_codes(seed, sparsity):
    rng = np.random.default_rng(seed)
    dictionary = rng.normal(size=(60, 8))
    rows = rng.normal(size=(5, 8))
    penalties = sparsity * np.abs(rows @ dictionary.T).max(axis=1)

    def cost(codes):
        return np.square(rows - codes @ dictionary).sum(axis=1) / 2 + penalties * abs(codes).sum(1)

    few, many = (code_sparsely(rows, dictionary, sparsity, n_steps=n) for n in (30, 3000))
    assert np.all(cost(few) <= cost(np.zeros_like(few)))
    assert np.all(cost(many) <= cost(few) + 1e-5)
    # Just below the penalty of no atom at all, only those close to the best one are used.
    products = np.abs(rows @ dictionary.T)
    used = code_sparsely(rows, dictionary, 0.9999) != 0
    assert np.all(used <= (products >= 0.99 * products.max(axis=1, keepdims=True)))


def test_few_steps_leave_most_sparse_codes_denser():
    rng = np.random.default_rng(0)
    rows, dictionary = rng.normal(size=(200, 8)), rng.normal(size=(60, 8))
    few, many = (code_sparsely(rows, dictionary, 0.3, n_steps=n) for n in (30, 3000))
    assert np.count_nonzero(few) > 1.1 * np.count_nonzero(many)


def dual(multipliers, gram, products):
    """The dual of the constrained least squares, up to a constant, and its gradient."""
    basis = np.linalg.solve(gram + np.diag(multipliers), products)
    value = np.vdot(products, basis) + multipliers.sum()
    return value, 1 - np.sum(basis**2, axis=1)


@given(seeds)
def test_bases_reach_the_optimum_of_the_dual(seed):
    rng = np.random.default_rng(seed)
    codes, targets = rng.normal(size=(30, 5)), 2 * rng.normal(size=(30, 4))
    targets += codes @ rng.normal(size=(5, 4))
    gram, products = codes.T @ codes, codes.T @ targets
    at = rng.random(5)
    error = scipy.optimize.check_grad(
        lambda m: dual(m, gram, products)[0], lambda m: dual(m, gram, products)[1], at
    )
    assert error < 1e-3
    basis = update_basis(gram, products, np.zeros((5, 4)))
    assert np.all(np.linalg.norm(basis, axis=1) <= 1 + 1e-12)
    primal = np.vdot(basis, gram @ basis) - 2 * np.vdot(products, basis)
    best = scipy.optimize.minimize(
        dual, at, args=(gram, products), jac=True, bounds=[(0, None)] * 5, method="L-BFGS-B"
    )
    assert primal == pytest.approx(-best.fun, rel=1e-3, abs=1e-3)


def test_basis_rows_that_no_code_uses_stay_as_they_were():
    start = np.eye(3)
    result = update_basis(np.diag([2.0, 0.0, 1.0]), np.full((3, 3), 0.1), start)
    np.testing.assert_array_equal(result[1], start[1])
    np.testing.assert_allclose(result[0], 0.05)


@given(seeds)
def test_factors_are_the_least_squares_solution(seed):
    rng = np.random.default_rng(seed)
    Y, U, linked = rng.normal(size=(6, 4)), rng.normal(size=(3, 4)), rng.normal(size=(6, 3))
    result = update_factors(Y @ U.T, linked, U, 0.7)
    stacked = np.vstack([U.T, np.sqrt(0.7) * np.eye(3)])
    targets = np.hstack([Y, np.sqrt(0.7) * linked])
    expected = np.linalg.lstsq(stacked, targets.T, rcond=None)[0].T
    np.testing.assert_allclose(result, expected, atol=1e-9)


def test_inverse_distances_of_dense_and_sparse_rows_are_zero_only_at_the_centre():
    rows = np.array([[1.0, 2.0], [0.0, 0.0], [4.0, 6.0]])
    for matrix in (rows, sp.csr_array(rows)):
        np.testing.assert_allclose(
            inverse_distances(matrix, np.array([1.0, 2.0])), [[0], [5**-0.5], [0.2]]
        )


def test_either_view_can_be_the_sparse_one_and_a_part_can_be_enough():
    data = acqh.make_multiview(150, {"image": 10, "text": 8}, n_labels=3, random_state=0)
    first = LSSH(8, n_atoms=24, random_state=0).fit(data.views)
    assert first.sparse_view_ == "image"
    second = LSSH(8, n_atoms=24, sparse_view="text", max_train=60, random_state=0).fit(data.views)
    assert second.components_.shape == (8, 8)
    assert second.basis_.shape == (8, 10)
    for model in (first, second):
        codes = np.unpackbits(model.encode(data.views, mode="fused"), axis=1).astype(int)
        distance = np.sum(codes[:, None] != codes[None], axis=2)
        alike = data.labels.astype(int) @ data.labels.T > 0
        assert distance[alike].mean() < distance[~alike].mean()
    image = {"image": data.views["image"]}
    np.testing.assert_array_equal(
        first.encode(image, mode="fused"), first.encode(image, mode="single")
    )


def test_a_wrong_or_constant_sparse_view_is_rejected():
    data = acqh.make_multiview(50, {"image": 10, "text": 8}, random_state=0)
    with pytest.raises(ViewError, match="sparse_view is 'sound'"):
        LSSH(8, sparse_view="sound").fit(data.views)
    with pytest.raises(InvalidInputError, match="'image' are constant"):
        LSSH(8).fit({"image": np.ones((50, 2)), "text": data.views["text"]})

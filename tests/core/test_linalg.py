import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from acqh._core.linalg import EigenForm, principal_directions, solve_spd, whiten


@settings(derandomize=True)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_solve_spd_is_the_least_norm_least_squares_solution(n, rank, seed):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n, min(rank, n)))
    gram = factor @ factor.T
    right = gram @ rng.normal(size=(n, 2))
    expected = np.linalg.pinv(gram, rcond=1e-10, hermitian=True) @ right
    result = solve_spd(gram, right)
    np.testing.assert_allclose(gram @ result, right, atol=1e-6 * np.abs(right).max())
    assert np.linalg.norm(result) <= np.linalg.norm(expected) * (1 + 1e-3) + 1e-9


def test_solve_spd_of_a_zero_matrix_is_zero():
    assert not solve_spd(np.zeros((3, 3)), np.zeros((3, 1))).any()


@given(st.integers(1, 8), st.integers(0, 8), st.integers(0, 2**32 - 1))
def test_whitening_makes_the_identity_of_all_that_the_matrix_spans(n, rank, seed):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n, min(rank, n)))
    gram = factor @ factor.T
    result = whiten(gram, ridge=0.5)
    assert result.shape == (n, min(rank, n))
    np.testing.assert_allclose(
        result.T @ (gram + 0.5 * np.eye(n)) @ result, np.eye(result.shape[1]), atol=1e-8
    )
    outside = np.eye(n) - factor @ np.linalg.pinv(factor)
    np.testing.assert_allclose(outside @ result, 0, atol=1e-6)


def test_principal_directions_are_leading_and_no_more_than_the_matrix_spans():
    gram = np.diag([1.0, 0.0, 5.0, 3.0])
    np.testing.assert_allclose(np.abs(principal_directions(gram, 2)), np.eye(4)[:, [2, 3]])
    assert principal_directions(gram, 9).shape == (4, 3)
    assert principal_directions(np.zeros((2, 2)), 1).shape == (2, 0)


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_eigen_form_solves_for_every_shift_and_keeps_the_eigenvalues(n, rank, seed):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n, min(rank, n)))
    gram = factor @ factor.T
    right = rng.normal(size=(n, 3))
    form = EigenForm.of(gram)
    rotated = form.vectors.T @ right
    np.testing.assert_allclose(form.values, np.linalg.eigvalsh(gram), atol=1e-10)
    np.testing.assert_allclose(form.vectors @ rotated, right, atol=1e-10)
    for shift in (0.01, 3.0):
        result = form.vectors @ form.solve(shift, rotated)
        expected = np.linalg.solve(gram + shift * np.eye(n), right)
        np.testing.assert_allclose(result, expected, rtol=1e-7, atol=1e-8)


def test_leading_eigenvectors_belong_to_the_largest_eigenvalues():
    factor = np.random.default_rng(0).normal(size=(30, 30))
    gram = factor @ factor.T
    values, vectors = EigenForm.of(gram).leading(5)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(gram)[::-1][:5])
    np.testing.assert_allclose(gram @ vectors, vectors * values, atol=1e-9)
    assert EigenForm.of(gram).leading(31)[1].shape == (30, 30)


def test_eigenvalues_below_zero_by_rounding_count_as_zero():
    form = EigenForm(np.array([-1e-3, 1.0]), np.eye(2))
    np.testing.assert_array_equal(form.solve(1e-3, np.ones((2, 1)))[0], [1e3])

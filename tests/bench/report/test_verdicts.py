import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from acqh.bench.report.verdicts import holm, paired_p_values
from acqh.errors import InvalidInputError


def scipy_p_value(differences, **options):
    return scipy.stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", vectorized=False, **options
    ).pvalue


@given(st.integers(2, 8), st.integers(0, 1000))
def test_few_pairs_are_tested_exactly_as_scipy_does(n_pairs, seed):
    # Whole numbers: scipy is not careful with sums that differ by rounding alone.
    differences = np.random.default_rng(seed).integers(-6, 10, (n_pairs, 2)).astype(float)
    result = paired_p_values(differences)
    for column, p_value in zip(differences.T, result, strict=True):
        assert p_value == pytest.approx(scipy_p_value(column, n_resamples=np.inf))


def test_many_pairs_agree_with_scipys_draws_and_with_the_normal_limit():
    rng = np.random.default_rng(0)
    differences = rng.normal([0.0, 0.1, 0.15], 1.0, (200, 3))
    result = paired_p_values(differences)
    for column, p_value in zip(differences.T, result, strict=True):
        noise = 4 * np.sqrt(p_value / 4_000) + 1e-3
        drawn = scipy_p_value(column, n_resamples=4_000, rng=np.random.default_rng(1))
        assert p_value == pytest.approx(drawn, abs=noise)
        z = abs(column.sum()) / np.sqrt((column**2).sum())
        assert p_value == pytest.approx(2 * scipy.stats.norm.sf(z), abs=noise)


def test_p_values_do_not_depend_on_the_size_of_blocks(monkeypatch):
    differences = np.random.default_rng(3).normal(0.1, 1, (64, 2))
    expected = paired_p_values(differences)
    monkeypatch.setattr("acqh.bench.report.verdicts._BLOCK_SIGNS", 64 * 100)
    np.testing.assert_array_equal(paired_p_values(differences), expected)


def test_equal_methods_are_tied_and_a_clear_winner_is_significant():
    assert paired_p_values(np.zeros((50, 1)))[0] == 1.0
    assert paired_p_values(np.full((500, 1), 0.1))[0] == pytest.approx(1e-4)
    assert paired_p_values(np.zeros((0, 2))).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("wrong", [np.zeros(3), np.array([[np.nan]]), np.array([[np.inf]])])
def test_differences_must_be_a_finite_matrix(wrong):
    with pytest.raises(InvalidInputError, match="finite matrix"):
        paired_p_values(wrong)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holms_rule_is_its_definition(p_values):
    # The slow, obvious form: walk up from the smallest and never come down again.
    expected, highest = {}, 0.0
    for rank, position in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[position]))
        expected[position] = highest
    assert holm(p_values).tolist() == [expected[i] for i in range(len(p_values))]

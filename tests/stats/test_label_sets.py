import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from acqh.stats.moments import LabelSets


@given(st.integers(1, 90), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_numbers_agree_with_a_dictionary_of_tuples(n_labels, n_items, seed):
    rng = np.random.default_rng(seed)
    labels = (rng.random((n_items, n_labels)) < rng.choice([0.02, 0.5])).astype(np.uint8)
    labels = labels[rng.integers(0, n_items, n_items)]
    for form in (labels, sp.csr_array(labels)):
        sets = LabelSets(n_labels)
        numbers = sets.number(form)
        assert len(sets) == len({tuple(row) for row in labels if row.any()})
        for row, number in zip(labels, numbers, strict=True):
            if row.any():
                np.testing.assert_array_equal(sets.matrix()[number], row)
            else:
                assert number == -1


def test_sets_that_must_not_be_added_are_minus_one():
    sets = LabelSets(2)
    sets.number([[1, 0]])
    assert sets.number([[0, 1], [1, 0]], add=False).tolist() == [-1, 0]
    assert len(sets) == 1


def test_packed_sets_can_be_restored():
    sets = LabelSets(11)
    sets.number(np.eye(11, dtype=np.uint8))
    again = LabelSets(11)
    again.bits = sets.bits
    np.testing.assert_array_equal(again.matrix(), sets.matrix())


@pytest.mark.parametrize("n_labels", [3, 300])
def test_no_sets_is_an_empty_matrix(n_labels):
    assert LabelSets(n_labels).matrix().shape == (0, n_labels)

import numpy as np
import pytest
import scipy.sparse as sp

from acqh._core.labels import as_label_matrix
from acqh.errors import LabelError


def test_all_forms_of_the_same_labels_agree():
    dense = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]])
    names = ("ant", "bee", "cow")
    forms = [
        dense,
        dense.astype(bool),
        dense.astype(float),
        sp.csr_matrix(dense),
        [{"ant"}, {"bee", "cow"}, set()],
        [["ant"], ["cow", "bee"], []],
    ]
    for form in forms:
        matrix, result_names = as_label_matrix(form, names)
        assert result_names == names
        assert matrix.dtype == np.uint8
        np.testing.assert_array_equal(matrix.toarray() if sp.issparse(matrix) else matrix, dense)


def test_class_ids_become_one_column_a_class_in_sorted_order():
    matrix, names = as_label_matrix(np.array([7, 3, 7]))
    assert names == ("3", "7")
    assert matrix.tolist() == [[0, 1], [1, 0], [0, 1]]


def test_numeric_class_ids_are_ordered_as_numbers():
    assert as_label_matrix(np.array([10, 9]))[1] == ("9", "10")


def test_many_classes_are_kept_sparse():
    matrix, names = as_label_matrix(np.arange(1000))
    assert sp.issparse(matrix)
    assert len(names) == 1000


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([[0, 2]], None, "0 or 1, got 2 at row 0"),
        (sp.csr_matrix([[0, 0], [0, 3]]), None, "row 1"),
        ([[0.5, 0.0]], None, "0 or 1"),
        (np.zeros((2, 0)), None, "no columns"),
        (np.zeros((2, 2, 2)), None, "3 dimensions"),
        ([[0, 1]], ["a"], "1 label names for 2"),
        ([[0, 1]], ["a", "a"], "unique"),
        ([{"x"}], ["a"], "'x' in row 0"),
        (np.array([0.5, 1.5]), None, "whole numbers"),
        ("dog", None, "sequence of sets"),
        (3, None, "sequence of sets"),
    ],
)
def test_wrong_labels_are_rejected_with_the_reason(labels, names, message):
    with pytest.raises(LabelError, match=message):
        as_label_matrix(labels, names)

import numpy as np
import pytest
import scipy.sparse as sp

from acqh.errors import LabelError
from acqh.metrics import relevance, shared_labels


@pytest.fixture
def labels():
    rng = np.random.default_rng(0)
    return (rng.random((13, 5)) < 0.3).astype(np.uint8), (rng.random((29, 5)) < 0.3)


def test_relevant_items_share_a_label_in_every_mix_of_forms(labels):
    queries, database = labels
    counts = np.array([[np.sum((q == 1) & d) for d in database] for q in queries])
    for make_queries in (np.asarray, sp.csr_array, sp.csc_matrix):
        for make_database in (np.asarray, sp.csr_matrix):
            pair = make_queries(queries), make_database(database)
            found = relevance(*pair)
            assert found.dtype == np.bool_
            np.testing.assert_array_equal(found, counts > 0)
            np.testing.assert_array_equal(shared_labels(*pair), counts)


def test_relevance_is_unchanged_by_block_size(labels, monkeypatch):
    whole = relevance(*labels)
    monkeypatch.setitem(relevance.__globals__, "_PAIRS_AT_ONCE", 60)
    np.testing.assert_array_equal(relevance(*labels), whole)


def test_class_ids_and_sets_are_matched_by_name_not_by_position():
    expected = [[False, True, False], [False, False, False]]
    ids = np.array([7, 9]), np.array([3, 7, 8])
    assert relevance(*ids).tolist() == expected
    assert relevance(["g", "i"], ["c", "g", "h"]).tolist() == expected
    assert relevance([{"g"}, {"i"}], [{"c"}, {"g", "h"}, set()]).tolist() == expected
    assert relevance([["g"], ["i"]], [["c"], ["g", "h"], []]).tolist() == expected


def test_more_shared_labels_than_a_byte_holds_are_counted():
    ones = np.ones((2, 300), dtype=np.uint8)
    assert shared_labels(ones, ones).tolist() == [[300, 300], [300, 300]]
    assert shared_labels(sp.csr_array(ones), ones).tolist() == [[300, 300], [300, 300]]


def test_items_without_labels_are_relevant_to_nothing():
    assert not relevance([[0, 0]], [[0, 0], [1, 1]]).any()


@pytest.mark.parametrize(
    ("queries", "database", "message"),
    [
        ([[1, 0]], [[1, 0, 0]], "2 label columns, the database 3"),
        ([[2, 0]], [[1, 0]], "0 or 1"),
        ([[1, 0]], [1, 0], "same form"),
    ],
)
def test_labels_that_do_not_fit_are_refused(queries, database, message):
    with pytest.raises(LabelError, match=message):
        relevance(queries, database)

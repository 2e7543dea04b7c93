import numpy as np
import pytest
import scipy.sparse as sp

from acqh.errors import LabelError
from acqh.metrics import relevance


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
            result = relevance(*pair)
            assert result.dtype == np.bool_
            np.testing.assert_array_equal(result, counts > 0)


def test_relevance_is_unchanged_by_block_size(labels, monkeypatch):
    full = relevance(*labels)
    monkeypatch.setitem(relevance.__globals__, "_PAIRS_AT_ONCE", 60)
    np.testing.assert_array_equal(relevance(*labels), full)


def test_class_ids_and_sets_are_matched_by_name_not_by_position():
    expected = [[False, True, False], [False, False, False]]
    ids = np.array([7, 9]), np.array([3, 7, 8])
    assert relevance(*ids).tolist() == expected
    assert relevance(["g", "i"], ["c", "g", "h"]).tolist() == expected
    assert relevance([{"g"}, {"i"}], [{"c"}, {"g", "h"}, set()]).tolist() == expected
    assert relevance([["g"], ["i"]], [["c"], ["g", "h"], []]).tolist() == expected


def test_as_many_shared_labels_as_a_byte_wraps_around_at_are_relevant():
    ones = np.ones((2, 256), dtype=np.uint8)
    assert relevance(ones, ones).all()
    assert relevance(sp.csr_array(ones), ones).all()


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
def test_labels_that_do_not_fit_are_rejected(queries, database, message):
    with pytest.raises(LabelError, match=message):
        relevance(queries, database)

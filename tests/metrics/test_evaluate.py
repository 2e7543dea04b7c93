"""Results of search results equal those of their rankings."""

import numpy as np
import pytest

import acqh
from acqh.errors import InvalidInputError
from acqh.index import SearchResult
from acqh.metrics import average_precision, evaluate, mean_average_precision, relevance


def a_result(ids, counts=None):
    ids = np.asarray(ids)
    counts = np.full(len(ids), ids.shape[1]) if counts is None else np.asarray(counts)
    return SearchResult(ids, np.zeros(ids.shape, np.float32), counts, counts)


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_results_by_id_equal_those_by_row(kind):
    rng = np.random.default_rng(0)
    labels, queries = rng.integers(0, 2, (40, 5)), rng.integers(0, 2, (6, 5))
    rows = np.stack([rng.permutation(40)[:12] for _ in range(6)])
    ids = rng.permutation(1000)[:40]
    if kind == "texts":
        ids = np.array([f"item {number}" for number in ids])
    result = evaluate(a_result(ids[rows]), queries, labels, ids=ids, cutoffs=(5, 12), top_n=(3,))
    relevant = relevance(queries, labels)
    for cutoff in (5, 12):
        expected = mean_average_precision(rows, relevant, cutoff=cutoff, kind="ranking")
        assert result.mean_average_precision[cutoff] == pytest.approx(expected)
    assert result.precision[0] == pytest.approx(np.take_along_axis(relevant, rows, 1)[:, :3].mean())


def test_row_numbers_are_the_ids_and_the_lists_the_cutoff_by_default():
    result = evaluate(a_result([[1, 0]]), [{"a"}], [{"b"}, {"a"}])
    assert result.mean_average_precision == {2: 1.0}


def test_a_printed_result_has_the_means_but_not_a_number_for_every_query():
    printed = repr(evaluate(a_result([[1, 0]]), [{"a"}], [{"b"}, {"a"}]))
    assert printed.startswith("RetrievalResult(mean_average_precision={2: 1.0}, ")
    assert "average_precision={2: array" not in printed
    assert "curve" not in printed


def test_places_beyond_the_count_are_not_read():
    result = evaluate(a_result([[2, -1]], [1]), [0], [0, 1, 0], cutoffs=(2,))
    expected = average_precision([[2, -1]], [[1, 0, 1]], cutoff=2, kind="ranking")
    assert result.average_precision[2] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cutoffs": (3,)}, "search with k=3"),
        ({"top_n": (3,)}, "search with k=3"),
        ({"ids": ["a", "b", "c"]}, r"holds the id 1, which is not among ids"),
        ({"ids": [1, 0, 0]}, "2 different ids"),
        ({"query_labels": [0, 1]}, "of 1 queries, but 2"),
    ],
)
def test_labels_that_do_not_fit_the_result_are_rejected(changes, message):
    arguments = {"query_labels": [0], "database_labels": [0, 1, 0]} | changes
    with pytest.raises(InvalidInputError, match=message):
        evaluate(a_result([[1, 0]]), **arguments)


def test_a_real_search_is_measured_by_ids():
    data = acqh.make_multiview(200, n_labels=4, random_state=0)
    train, query = data.split(test_size=20, random_state=0)
    model = acqh.ACQH(8, random_state=0).fit(train.views, train.labels)
    index = acqh.CodeIndex(model.codebooks_).add(model.encode(labels=train.labels), ids=train.ids)
    hits = index.search(model.project(query.views["text"], view="text"), k=180)
    result = evaluate(hits, query.labels, train.labels, ids=train.ids, cutoffs=(180,))
    rows = np.searchsorted(train.ids, hits.ids)  # ids of a split rise
    relevant = relevance(query.labels, train.labels)
    expected = mean_average_precision(rows, relevant, kind="ranking")
    assert result.mean_average_precision[180] == pytest.approx(expected)

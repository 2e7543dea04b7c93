"""Recall of acqh indexes and others, compared with exact search."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from acqh.errors import InvalidInputError
from acqh.index import CodeIndex
from acqh.metrics import recall

RNG = np.random.default_rng(0)
ITEMS, QUERIES = (RNG.normal(size=(n, 6)).astype(np.float32) for n in (400, 20))
SCORES = {
    "ip": QUERIES @ ITEMS.T,
    "cosine": QUERIES @ (ITEMS / np.linalg.norm(ITEMS, axis=1, keepdims=True)).T,
    "l2": -np.square(QUERIES[:, None] - ITEMS).sum(axis=2),
}


@pytest.mark.parametrize("metric", SCORES)
def test_exact_answers_have_recall_one_under_their_metric(metric: str) -> None:
    answers = np.argsort(-SCORES[metric], axis=1)[:, :10]
    assert recall(answers, ITEMS, QUERIES, (1, 5, 10), metric=metric).recall == {
        1: 1.0, 5: 1.0, 10: 1.0,
    }  # fmt: skip


def test_recall_is_the_share_of_the_best_that_is_found() -> None:
    answers = np.argsort(-SCORES["ip"], axis=1)[:, :10]
    answers[:, 5:] = np.argsort(SCORES["ip"], axis=1)[:, :5]
    result = recall(answers, ITEMS, QUERIES, k=(1, 10))
    assert result.recall == {1: 1.0, 10: 0.5}
    assert result.seconds_per_query is None


def test_items_may_be_chunks_and_have_ids() -> None:
    ids = np.array([f"i{n}" for n in range(400)])
    answers = ids[np.argsort(-SCORES["ip"], axis=1)[:, :10]]
    chunks = (ITEMS[start : start + 70] for start in range(0, 400, 70))
    assert recall(answers, chunks, QUERIES, ids=ids).recall == {10: 1.0}


def test_an_acqh_index_reports_time_and_bytes() -> None:
    index = CodeIndex(RNG.normal(size=(1, 16, 6)).astype(np.float32))
    index.add(np.arange(400)[:, None] % 16)
    result = recall(index, ITEMS, QUERIES)
    assert 0 < result.recall[10] < 1
    assert result.bytes_per_item == index.memory_bytes / 400
    assert result.seconds_per_query > 0


def test_an_index_of_faiss() -> None:
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatIP(6)
    index.add(ITEMS)
    assert recall(index, ITEMS, QUERIES).recall == {10: 1.0}
    euclidean = faiss.IndexFlatL2(6)
    euclidean.add(ITEMS)
    assert recall(euclidean, ITEMS, QUERIES, metric="l2").recall == {10: 1.0}


def test_an_index_of_hnswlib_by_its_function() -> None:
    hnswlib = pytest.importorskip("hnswlib")
    index = hnswlib.Index("ip", 6)
    index.init_index(400, ef_construction=200, M=32)
    index.add_items(ITEMS)
    index.set_ef(400)
    assert recall(index.knn_query, ITEMS, QUERIES).recall[10] > 0.95


def test_an_index_of_usearch() -> None:
    usearch = pytest.importorskip("usearch.index")
    index = usearch.Index(ndim=6, metric="ip", dtype="f32")
    index.add(np.arange(400), ITEMS)
    result = recall(index, ITEMS, QUERIES)
    assert result.recall[10] > 0.9
    assert result.bytes_per_item > 0


def test_precomputed_neighbours_are_used() -> None:
    truth = np.argsort(-SCORES["ip"], axis=1)[:, :10]
    assert recall(truth, ITEMS, QUERIES, truth=truth).recall == {10: 1.0}
    with pytest.raises(InvalidInputError, match="k=11"):
        recall(truth, ITEMS, QUERIES, k=11, truth=truth)


def test_inputs_that_do_not_fit_are_rejected() -> None:
    with pytest.raises(InvalidInputError, match="dimensions"):
        recall(np.zeros((20, 10)), ITEMS, QUERIES[:, :3])
    with pytest.raises(InvalidInputError, match="answers"):
        recall(np.zeros((3, 10), int), ITEMS, QUERIES)
    with pytest.raises(InvalidInputError, match="metric"):
        recall(np.zeros((20, 10)), ITEMS, QUERIES, metric="dot")


def exact(queries: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(-queries @ ITEMS.T, axis=1)[:, :k]


def test_of_two_integer_arrays_the_second_holds_the_ids() -> None:
    def search(queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        return np.tile(np.arange(k), (len(queries), 1)), exact(queries, k)

    assert recall(search, ITEMS, QUERIES).recall == {10: 1.0}


def test_ids_before_floating_point_scores_are_recognized() -> None:
    def search(queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        return exact(queries, k), np.zeros((len(queries), k))

    assert recall(search, ITEMS, QUERIES).recall == {10: 1.0}


@pytest.mark.parametrize("metric", SCORES)
@pytest.mark.parametrize("width", [3, 64, 515])
def test_items_with_equal_vectors_are_equally_good_answers(metric: str, width: int) -> None:
    rng = np.random.default_rng(1)
    distinct, queries = (rng.normal(size=(n, width)).astype(np.float32) for n in (40, 9))
    items = np.repeat(distinct, 25, axis=0)
    first = {
        "ip": queries @ items.T,
        "cosine": queries @ (items / np.linalg.norm(items, axis=1, keepdims=True)).T,
        "l2": -np.square(queries[:, None] - items).sum(axis=2),
    }[metric].argmax(axis=1)
    answers = (first // 25 * 25 + 24)[:, None] - np.arange(10)  # the last ten of the best group
    assert recall(answers, items, queries, metric=metric).recall == {10: 1.0}
    others = (answers + 25) % len(items)
    assert recall(others, items, queries, metric=metric).recall == {10: 0.0}
    truth = (first // 25 * 25)[:, None] + np.arange(10)
    assert recall(answers, items, queries, metric=metric, truth=truth).recall == {10: 1.0}


def test_distances_far_from_the_origin_keep_their_order() -> None:
    items, queries = ITEMS + 1000, QUERIES + 1000
    answers = np.argsort(-SCORES["l2"], axis=1)
    assert recall(answers[:, :10], items, queries, metric="l2").recall == {10: 1.0}
    assert recall(answers[:, 10:20], items, queries, metric="l2").recall == {10: 0.0}


def test_an_item_that_is_answered_twice_counts_once() -> None:
    answers = exact(QUERIES, 10)
    answers[:, 1:] = answers[:, :1]
    assert recall(answers, ITEMS, QUERIES).recall == {10: pytest.approx(0.1)}


def test_missing_answers_are_not_found() -> None:
    answers = exact(QUERIES, 10)
    answers[:, 5:] = -1
    assert recall(answers, ITEMS, QUERIES).recall == {10: 0.5}
    named = np.array([f"i{n}" for n in range(400)], dtype=object)
    texts = np.where(answers < 0, None, named[answers])
    assert recall(texts, ITEMS, QUERIES, ids=named).recall == {10: 0.5}


def test_sparse_items_are_scored() -> None:
    items = csr_array(np.where(ITEMS > 0.5, ITEMS, 0))
    answers = np.argsort(-QUERIES @ items.toarray().T, axis=1)[:, :10]
    assert recall(answers, items, QUERIES).recall == {10: 1.0}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"queries": QUERIES[:0]}, "queries"),
        ({"items": ITEMS[:0]}, "items"),
        ({"items": ITEMS[:50]}, "not among"),
        ({"ids": [f"i{n}" for n in range(400)]}, "such as 'i0'"),
        ({"ids": np.arange(400) + 7_000}, "not among"),
        ({"ids": np.arange(399)}, "399 ids"),
        ({"searcher": [[1, 2], [3]] * 10}, "answers"),
        ({"searcher": np.full((20, 10), 0.5)}, "answers must be ids"),
        ({"truth": np.full((20, 10), -1)}, "truth"),
        ({"truth": np.arange(10) + np.full((20, 1), 10**9)}, "truth"),
        ({"truth": np.full((20, 10), 0.5)}, "truth"),
        ({"truth": np.zeros((20, 10), int)}, "repeats"),
        ({"truth": [[1, 2], [3]] * 10}, "truth"),
        ({"k": []}, "k "),
    ],
)
def test_input_that_cannot_be_compared_raises(change: dict[str, Any], word: str) -> None:
    arguments = {"searcher": exact(QUERIES, 10), "items": ITEMS, "queries": QUERIES} | change
    with pytest.raises(InvalidInputError, match=word):
        recall(**arguments)


def test_memory_does_not_grow_with_queries_times_items() -> None:
    rng = np.random.default_rng(0)
    items, queries = (rng.normal(size=(n, 8)).astype(np.float32) for n in (20_000, 10_000))
    answers = np.tile(np.arange(10), (10_000, 1))
    tracemalloc.start()
    try:
        result = recall(answers, items, queries)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.n_queries == 10_000
    assert peak < 100e6

"""Recall of indexes of others and of ours, against exact search."""

import numpy as np
import pytest

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
    found = recall(answers, ITEMS, QUERIES, k=(1, 10))
    assert found.recall == {1: 1.0, 10: 0.5}
    assert found.seconds_per_query is None


def test_items_may_come_in_chunks_and_have_ids() -> None:
    ids = np.array([f"i{n}" for n in range(400)])
    answers = ids[np.argsort(-SCORES["ip"], axis=1)[:, :10]]
    chunks = (ITEMS[start : start + 70] for start in range(0, 400, 70))
    assert recall(answers, chunks, QUERIES, ids=ids).recall == {10: 1.0}


def test_an_index_of_ours_says_time_and_bytes() -> None:
    index = CodeIndex(RNG.normal(size=(1, 16, 6)).astype(np.float32))
    index.add(np.arange(400)[:, None] % 16)
    found = recall(index, ITEMS, QUERIES)
    assert 0 < found.recall[10] < 1
    assert found.bytes_per_item == index.memory_bytes / 400
    assert found.seconds_per_query > 0


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
    found = recall(index, ITEMS, QUERIES)
    assert found.recall[10] > 0.9
    assert found.bytes_per_item > 0


def test_known_neighbours_are_taken() -> None:
    truth = np.argsort(-SCORES["ip"], axis=1)[:, :10]
    assert recall(truth, ITEMS, QUERIES, truth=truth).recall == {10: 1.0}
    with pytest.raises(InvalidInputError, match=r"truth has shape \(20, 10\).* k=11"):
        recall(truth, ITEMS, QUERIES, k=11, truth=truth)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="items have 6 components, queries 3"):
        recall(np.zeros((20, 10)), ITEMS, QUERIES[:, :3])
    with pytest.raises(InvalidInputError, match=r"answers have shape \(3, 10\)"):
        recall(np.zeros((3, 10), int), ITEMS, QUERIES)
    with pytest.raises(InvalidInputError, match="metric must be one of ip, cosine, l2"):
        recall(np.zeros((20, 10)), ITEMS, QUERIES, metric="dot")

"""Re-ranking by full vectors gives the best candidates by exact inner product."""

import numpy as np
import pytest

from acqh import CodeIndex
from acqh.errors import InvalidInputError
from acqh.index import rerank as reranking


@pytest.fixture(scope="module")
def items():
    """Vectors, an index of coarse codes of them with some removed, and queries."""
    rng = np.random.default_rng(0)
    codebooks = rng.standard_normal((2, 16, 6))
    codes = rng.integers(16, size=(1500, 2))
    vectors = codebooks[[0, 1], codes].sum(axis=1) + 0.3 * rng.standard_normal((1500, 6))
    names = np.array([f"item {i}" for i in range(1500)], dtype=object)
    index = CodeIndex(codebooks).add(codes[:1100], names[:1100]).add(codes[1100:], names[1100:])
    gone = rng.random(1500) < 0.2
    index.remove(names[gone])
    return index, vectors[~gone], rng.standard_normal((5, 6))


def expected(index, vectors, queries, k, n_candidates):
    result = index.search(queries, n_candidates)
    place = {identifier: row for row, identifier in enumerate(index.ids)}
    for query, ids in zip(queries.astype(np.float32), result.ids, strict=True):
        rows = np.sort([place[identifier] for identifier in ids])
        products = vectors[rows].astype(np.float32) @ query
        order = np.argsort(-products, kind="stable")[:k]
        yield index.ids[rows[order]].tolist(), products[order]


def test_a_batch_ranked_in_parts_is_ranked_as_a_whole(items, monkeypatch):
    index, vectors, queries = items
    filtered = {"filter": np.arange(len(index)) % 40 == 0, "rerank": vectors, "rerank_k": 60}
    full = index.search(queries, 50, **filtered)
    assert (full.counts < 50).all()
    monkeypatch.setattr(reranking, "_MAX_NUMBERS", 2 * 60 * 6)
    parts = index.search(queries, 50, **filtered)
    assert parts.ids.tolist() == full.ids.tolist()
    np.testing.assert_array_equal(parts.scores, full.scores)
    np.testing.assert_array_equal(parts.counts, full.counts)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_candidates_are_ranked_by_their_vectors(items, dtype):
    index, vectors, queries = items
    vectors = vectors.astype(dtype)
    result = index.search(queries, 7, rerank=vectors, rerank_k=60)
    for row, (ids, products) in enumerate(expected(index, vectors, queries, 7, 60)):
        assert result.ids[row].tolist() == ids
        np.testing.assert_allclose(result.scores[row], products, rtol=1e-5)
    assert not result.exact.any()
    assert (result.bound == np.inf).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
def test_mapped_vectors_rank_as_in_memory(items, tmp_path, dtype):
    index, vectors, queries = items
    stored = (vectors * 20).astype(dtype)
    np.save(tmp_path / "full.npy", stored)
    full = np.load(tmp_path / "full.npy", mmap_mode="r")
    result = index.search(queries, 7, rerank=full, rerank_k=60)
    by_path = index.search(queries, 7, rerank=tmp_path / "full.npy", rerank_k=60)
    assert by_path.ids.tolist() == result.ids.tolist()
    same = index.search(queries, 7, rerank=stored.astype(np.float64), rerank_k=60)
    assert result.ids.tolist() == same.ids.tolist()


def test_ranking_again_finds_more_of_the_true_best(items):
    index, vectors, queries = items
    truth = index.ids[np.argsort(-(queries @ vectors.T), axis=1)[:, :10]]

    def hits(result):
        return np.mean([np.isin(a, b).mean() for a, b in zip(result.ids, truth, strict=True)])

    assert hits(index.search(queries, 10, rerank=vectors)) > hits(index.search(queries, 10)) + 0.2


def test_fewer_items_than_k_leave_places_empty(items):
    index, vectors, queries = items
    result = index.search(queries, 4, filter=index.ids[:2], rerank=vectors)
    assert result.counts.tolist() == [2] * 5
    assert (result.ids[:, 2:] == None).all()  # noqa: E711
    assert (result.scores[:, 2:] == -np.inf).all()


def test_vectors_that_do_not_fit_are_rejected(items):
    index, vectors, queries = items
    with pytest.raises(InvalidInputError, match="rerank_k"):
        index.search(queries, 7, rerank=vectors, rerank_k=3)
    with pytest.raises(InvalidInputError, match="rerank"):
        index.search(queries, 7, rerank_k=30)
    with pytest.raises(InvalidInputError, match="ids"):
        index.search(queries, 7, rerank=vectors[1:])
    with pytest.raises(InvalidInputError, match="shape"):
        index.search(queries, 7, rerank=np.ones((len(index), 9)))

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acqh.methods.acqh import space as similarities
from acqh.methods.acqh.space import SIMILARITIES, compare_labels, embed


def slow(name, a, b):
    """Return one similarity, straight from its definition on sets."""
    a, b = set(np.flatnonzero(a)), set(np.flatnonzero(b))
    return {
        "dot": len(a & b),
        "cosine": len(a & b) / np.sqrt(len(a) * len(b)),
        "jaccard": len(a & b) / len(a | b),
        "shared": float(bool(a & b)),
    }[name]


def distinct_sets(seed, n_labels=6, n_sets=20):
    rng = np.random.default_rng(seed)
    drawn = rng.choice(np.arange(1, 2**n_labels), n_sets, replace=False)
    return ((drawn[:, None] >> np.arange(n_labels)) & 1).astype(np.uint8)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from(SIMILARITIES))
def test_similarities_are_their_definitions(seed, name):
    sets = distinct_sets(seed)
    result = compare_labels(name, sets, sets[:5])
    expected = [[slow(name, a, b) for b in sets[:5]] for a in sets]
    np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize("name", ["dot", "cosine", "jaccard"])
def test_inner_products_of_embeddings_are_the_similarities(name):
    sets = distinct_sets(1)
    counts = np.random.default_rng(1).integers(1, 50, len(sets)).astype(float)
    F = embed(name, sets, counts, np.random.default_rng(0)).transform(sets)
    np.testing.assert_allclose(F @ F.T, compare_labels(name, sets, sets), atol=1e-4)


def test_an_indefinite_similarity_is_embedded_as_well_as_its_positive_part_allows():
    sets = distinct_sets(2)
    counts = np.ones(len(sets))
    F = embed("shared", sets, counts, np.random.default_rng(0)).transform(sets)
    S = compare_labels("shared", sets, sets)
    values, vectors = np.linalg.eigh(S)
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(F @ F.T, positive, atol=1e-6)


@pytest.mark.parametrize("name", ["cosine", "dot", "jaccard", "shared"])
def test_eigenpairs_of_many_sets_are_those_of_the_whole_matrix(name):
    # Ten labels, so the dot product has rank ten, far less than a block of vectors.
    sets = distinct_sets(5, n_labels=10, n_sets=700)
    root = np.sqrt(np.random.default_rng(0).zipf(1.5, 700).clip(max=100))
    matrix = root[:, None] * compare_labels(name, sets, sets) * root
    values, vectors = similarities._leading_eigenpairs(matrix)
    exact = np.linalg.eigvalsh(matrix)[::-1]
    np.testing.assert_allclose(values, exact[: len(values)], atol=2e-3 * exact[0])
    np.testing.assert_allclose(values[:10], exact[:10], rtol=1e-5)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-10)
    assert len(values) == 10 if name in ("dot", "cosine") else len(values) > 10


def test_unseen_sets_are_extended_consistently():
    sets = distinct_sets(3, n_sets=40)
    embedding = embed("jaccard", sets[:30], np.ones(30), np.random.default_rng(0))
    F, new = embedding.transform(sets[:30]), embedding.transform(sets[30:])
    expected = compare_labels("jaccard", sets[30:], sets[:30])
    assert np.abs(new @ F.T - expected).mean() < 0.05


def test_many_sets_are_embedded_from_a_sample_without_a_large_matrix(monkeypatch):
    sets = distinct_sets(4, n_labels=10, n_sets=900)
    counts = np.random.default_rng(0).zipf(1.5, 900).clip(max=1000).astype(float)
    exact = embed("shared", sets, counts, np.random.default_rng(0)).transform(sets)
    monkeypatch.setattr(similarities, "MAX_LANDMARKS", 300)
    sampled = embed("shared", sets, counts, np.random.default_rng(0))
    assert len(sampled.landmarks) == 300
    result = sampled.transform(sets)
    W = counts[:, None] * counts
    S = compare_labels("shared", sets, sets)
    lost = np.sum(W * (exact @ exact.T - S) ** 2) / np.sum(W * S**2)
    assert np.sum(W * (result @ result.T - S) ** 2) / np.sum(W * S**2) < lost + 0.02


def test_more_labels_than_a_vector_should_have_are_embedded_too():
    rng = np.random.default_rng(0)
    sets = np.unique((rng.random((60, 3000)) < 0.002).astype(np.uint8), axis=0)
    sets = sets[sets.any(axis=1)]
    embedding = embed("dot", sets, np.ones(len(sets)), rng)
    assert embedding.map.shape[1] <= similarities.MAX_DIMENSIONS
    F = embedding.transform(sets)
    np.testing.assert_allclose(F @ F.T, compare_labels("dot", sets, sets).toarray(), atol=0.2)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_few_of_many_labels_are_compared_at_the_cost_of_those_shared(name):
    rng = np.random.default_rng(0)
    sets = np.zeros((40, 400), dtype=np.uint8)
    sets[np.arange(40), rng.integers(400, size=40)] = 1
    sets[np.arange(40), rng.integers(20, size=40)] = 1
    result = compare_labels(name, sets, sets[:7])
    assert result.nnz == np.count_nonzero(sets.astype(int) @ sets[:7].T)
    # The same labels among few are compared as they are.
    used = sets[:, sets.any(axis=0)]
    np.testing.assert_allclose(result.toarray(), compare_labels(name, used, used[:7]))

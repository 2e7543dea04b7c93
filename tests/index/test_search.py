"""Search gives the exact top k for all codes, layouts, batches and numbers of threads."""

from unittest import mock

import numpy as np
import numpy_reference as reference
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh import CodeIndex, HammingIndex
from acqh.errors import InvalidInputError
from acqh.index import inverted as laying


def brute_force(codebooks, codes, queries, k):
    """Rows and scores of the k best, by scoring every item."""
    codewords = np.asarray(codebooks, dtype=np.float32).transpose(0, 2, 1)
    scores = reference.score_codes(
        reference.tables_of(codewords, np.asarray(queries, dtype=np.float32)), codes
    )
    rows = np.empty((len(queries), min(k, len(codes))), dtype=np.int64)
    for result, one in zip(rows, scores, strict=True):
        result[:] = reference.best_rows(one, k)
    return rows, np.take_along_axis(scores, rows, axis=1)


def assert_exact(result, codebooks, codes, queries, k):
    rows, scores = brute_force(codebooks, codes, queries, k)
    n_found = rows.shape[1]
    np.testing.assert_array_equal(result.counts, n_found)
    np.testing.assert_array_equal(result.ids[:, :n_found], rows)
    np.testing.assert_array_equal(result.scores[:, :n_found], scores)
    assert (result.ids[:, n_found:] == -1).all()
    assert (result.scores[:, n_found:] == -np.inf).all()


@st.composite
def cases(draw):
    """Codebooks, codes, queries and k of any shape; small whole numbers make ties."""
    m = draw(st.integers(1, 16))
    n = draw(st.sampled_from([1, 2, 3, 5, 16, 100, 256]))
    n_components = draw(st.integers(1, 5))
    n_items = draw(st.sampled_from([0, 1, 2, 7, 60, 400]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    used = draw(st.integers(1, n))
    codes = rng.integers(used, size=(n_items, m))
    if draw(st.booleans()):
        codes = codes[rng.integers(max(n_items // 8, 1), size=n_items)] if n_items else codes
    codebooks = rng.standard_normal((m, n, n_components)) * np.geomspace(1, 0.1, m)[:, None, None]
    queries = rng.standard_normal((draw(st.integers(0, 4)), n_components))
    if draw(st.booleans()):
        codebooks, queries = np.round(2 * codebooks), np.round(queries)
    # Large parts that cancel, and magnitudes near both ends of float32, make rounding matter.
    codebooks[::2] += draw(st.sampled_from([0, 1e3, 1e7]))
    codebooks[1::2] -= draw(st.sampled_from([0, 1e3, 1e7]))
    codebooks *= draw(st.sampled_from([1, 1e-42, 1e-20, 1e20]))
    return codebooks, codes, queries, draw(st.integers(1, n_items + 3))


@st.composite
def layouts(draw, m, n):
    """Any number of codewords in both halves of a run's number."""
    side = laying.max_half_length(n)
    n_prefix_a = draw(st.integers(0, min(side, m)))
    n_prefix_b = draw(st.integers(0, min(side, m - n_prefix_a)))
    return n_prefix_a, n_prefix_b


@given(case=cases())
def test_search_equals_brute_force_for_every_shape(case):
    codebooks, codes, queries, k = case
    result = CodeIndex(codebooks).add(codes).search(queries, k)
    assert_exact(result, codebooks, codes, queries, k)


@given(case=cases(), data=st.data())
def test_search_equals_brute_force_for_every_layout(case, data):
    codebooks, codes, queries, k = case
    halves = data.draw(layouts(codebooks.shape[0], codebooks.shape[1]))
    grouped = data.draw(st.booleans())
    with (
        mock.patch.object(laying, "choose_prefix", return_value=halves),
        mock.patch.object(laying, "grouping_pays", return_value=grouped),
    ):
        result = CodeIndex(codebooks).add(codes).search(queries, k)
    assert_exact(result, codebooks, codes, queries, k)


@pytest.fixture(scope="module")
def clustered():
    """Codes with structure, as residual quantization makes them, and queries of the same kind."""
    rng = np.random.default_rng(0)
    codebooks = rng.standard_normal((4, 256, 8)) * np.array([1, 0.5, 0.3, 0.2])[:, None, None]
    codes = rng.integers(256, size=(60_000, 4))
    return codebooks, codes, rng.standard_normal((40, 8))


@pytest.mark.parametrize("k", [1, 10, 1000, 20_000, 59_999, 60_000])
def test_search_is_exact_on_many_items(clustered, k):
    codebooks, codes, queries = clustered
    result = CodeIndex(codebooks).add(codes).search(queries[:4], k)
    assert_exact(result, codebooks, codes, queries[:4], k)


def test_search_is_exact_where_tables_are_flat(clustered):
    codebooks, codes, _ = clustered
    index = CodeIndex(codebooks).add(codes)
    queries = np.zeros((1, 8))
    assert_exact(index.search(queries, 30), codebooks, codes, queries, 30)


def test_search_is_exact_where_the_last_codebook_decides(clustered):
    codebooks, codes, queries = clustered
    codebooks = codebooks[::-1] * np.array([1, 1, 5, 25])[:, None, None]
    index = CodeIndex(codebooks).add(codes)
    assert_exact(index.search(queries[:4], 20), codebooks, codes, queries[:4], 20)


def test_scores_have_the_same_bits_alone_in_a_batch_and_on_threads(clustered):
    codebooks, codes, queries = clustered
    index = CodeIndex(codebooks).add(codes)
    batch = index.search(queries, 50, n_threads=1)
    threaded = index.search(queries, 50, n_threads=3)
    np.testing.assert_array_equal(batch.ids, threaded.ids)
    np.testing.assert_array_equal(batch.scores, threaded.scores)
    for row, query in enumerate(queries):
        alone = index.search(query[None], 50)
        np.testing.assert_array_equal(alone.ids[0], batch.ids[row])
        np.testing.assert_array_equal(alone.scores[0], batch.scores[row])


def test_scores_are_inner_products_with_reconstructions(clustered):
    codebooks, codes, queries = clustered
    index = CodeIndex(codebooks).add(codes)
    result = index.search(queries[:2], 3)
    for query, ids, scores in zip(queries, result.ids, result.scores, strict=False):
        vectors = np.array([index.reconstruct(identifier) for identifier in ids])
        np.testing.assert_allclose(vectors @ query, scores, rtol=1e-5)


def test_an_empty_index_finds_nothing():
    result = CodeIndex(np.ones((2, 4, 3))).search(np.ones((2, 3)), k=2)
    assert result.ids.tolist() == [[-1, -1], [-1, -1]]
    assert result.counts.tolist() == [0, 0]
    assert (result.scores == -np.inf).all()


def test_no_queries_give_an_empty_result():
    result = CodeIndex(np.ones((1, 2, 3))).add([[0]]).search(np.empty((0, 3)), k=5)
    assert result.ids.shape == result.scores.shape == (0, 5)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([[np.nan, 0.0]], "query 0"),
        ([[0.0, 0.0], [np.inf, 0.0]], "query 1"),
        ([[1e60, 0.0]], "float32"),
        ([[1e38, 1e38]], "overflow"),
        ([[0.0, 0.0, 0.0]], "shape"),
        ([0.0, 0.0], "shape"),
        ([["a", "b"]], "must be numbers"),
    ],
)
def test_invalid_queries_are_rejected(queries, message):
    index = CodeIndex([[[1.0, 2.0], [3.0, 4.0]]]).add([[0]])
    with pytest.raises(InvalidInputError, match=message):
        index.search(queries, 1)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2"])
def test_k_must_be_a_positive_whole_number(k):
    with pytest.raises(InvalidInputError, match="k must"):
        CodeIndex([[[1.0]]]).search([[1.0]], k)


@pytest.mark.parametrize(
    "codebooks",
    [
        [[1.0]],
        np.ones((65, 2, 2)),
        np.ones((1, 257, 2)),
        np.ones((0, 2, 2)),
        np.ones((1, 2, 0)),
        np.full((1, 2, 2), np.nan),
        np.full((1, 2, 2), 1e60),
        [[["a"]]],
    ],
)
def test_invalid_codebooks_are_rejected(codebooks):
    with pytest.raises(InvalidInputError, match="codebooks"):
        CodeIndex(codebooks)


@pytest.mark.parametrize(
    ("index", "query"),
    [(CodeIndex(np.eye(3)[np.newaxis]), [[1.0, 0.0, 0.0]]), (HammingIndex(8), [[7]])],
)
def test_an_unknown_keyword_of_search_suggests_the_nearest(index, query):
    with pytest.raises(TypeError, match="did you mean 'k'"):
        index.search(query, top_k=3)

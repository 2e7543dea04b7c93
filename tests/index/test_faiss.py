"""CodeIndex and Faiss's index of additive codes, against the real library."""

import numpy as np
import pytest

from acqh import CodeIndex
from acqh.errors import InvalidInputError

faiss = pytest.importorskip("faiss")


def random_index(m=4, n=256, n_items=3000, n_components=8, seed=0):
    rng = np.random.default_rng(seed)
    codebooks = rng.standard_normal((m, n, n_components))
    return CodeIndex(codebooks).add(rng.integers(n, size=(n_items, m)))


def assert_same_answers(index, theirs, k=20):
    """Same ids and scores; where scores agree to rounding, ids may change places."""
    queries = np.random.default_rng(1).standard_normal((5, index.codebooks.shape[2]))
    ours = index.search(queries, k)
    scores, rows = theirs.search(queries.astype(np.float32), k)
    np.testing.assert_allclose(scores, ours.scores, rtol=1e-5, atol=1e-5)
    for mine, result, their_scores in zip(ours.ids, rows, scores, strict=True):
        surely = their_scores > their_scores[-1] + 1e-4
        assert set(index.ids[result[surely]]) <= set(mine)


@pytest.mark.parametrize(("m", "n"), [(4, 256), (1, 256), (3, 100), (8, 16), (5, 2), (2, 1)])
def test_to_faiss_gives_the_same_answers(m, n):
    index = random_index(m, n)
    theirs = index.to_faiss()
    assert isinstance(theirs, faiss.IndexResidualQuantizer)
    assert_same_answers(index, theirs)


def test_to_faiss_numbers_items_in_order_of_insertion():
    index = random_index(n_items=50)
    index.remove([0, 7])
    assert_same_answers(index, index.to_faiss())


@pytest.mark.parametrize(("m", "n"), [(4, 256), (3, 128), (8, 16)])
def test_from_faiss_inverts_to_faiss(m, n):
    index = random_index(m, n)
    back = CodeIndex.from_faiss(index.to_faiss())
    np.testing.assert_array_equal(back.codebooks, index.codebooks)
    np.testing.assert_array_equal(back.codes, index.codes)


@pytest.mark.parametrize(
    "search_type", ["ST_LUT_nonorm", "ST_decompress", "ST_norm_float", "ST_norm_qint8"]
)
def test_from_faiss_reads_an_index_that_faiss_trained(search_type):
    vectors = np.random.default_rng(0).standard_normal((600, 8)).astype(np.float32)
    theirs = faiss.IndexResidualQuantizer(
        8, 3, 5, faiss.METRIC_INNER_PRODUCT, getattr(faiss.AdditiveQuantizer, search_type)
    )
    theirs.train(vectors)
    theirs.add(vectors)
    index = CodeIndex.from_faiss(theirs)
    np.testing.assert_allclose(index.reconstruct(7), theirs.reconstruct(7), rtol=1e-5, atol=1e-6)
    assert_same_answers(index, theirs)


def test_from_faiss_takes_ids():
    index = CodeIndex.from_faiss(random_index(n_items=3).to_faiss(), ids=["a", "b", "c"])
    assert index.ids.tolist() == ["a", "b", "c"]


def test_from_faiss_rejects_other_indexes():
    with pytest.raises(InvalidInputError, match="IndexFlatIP"):
        CodeIndex.from_faiss(faiss.IndexFlatIP(4))
    with pytest.raises(InvalidInputError, match="trained"):
        CodeIndex.from_faiss(faiss.IndexResidualQuantizer(4, 2, 8, faiss.METRIC_INNER_PRODUCT))
    squared = random_index().to_faiss()
    squared.metric_type = faiss.METRIC_L2
    with pytest.raises(InvalidInputError, match="METRIC_INNER_PRODUCT"):
        CodeIndex.from_faiss(squared)
    wide = faiss.IndexResidualQuantizer(4, 1, 9, faiss.METRIC_INNER_PRODUCT)
    wide.is_trained = True
    with pytest.raises(InvalidInputError, match="512 codewords"):
        CodeIndex.from_faiss(wide)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.errors import DuplicateIdError, InvalidInputError, UnknownIdError
from acqh.index import CodeIndex, HammingIndex
from acqh.index.hamming_index import byte_tables


def random_bits(n_items, n_bits, seed=0):
    return np.random.default_rng(seed).integers(0, 2, (n_items, n_bits), dtype=np.uint8)


def pack(bits):
    return np.packbits(bits, axis=1)


def index_of(bits, ids=None):
    return HammingIndex(bits.shape[1]).add(pack(bits), ids)


def ranked(scores, k):
    """The k best rows of each query: higher score first, then lower row."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


@given(
    n_items=st.integers(1, 200),
    n_bits=st.sampled_from([1, 7, 8, 24, 64, 65, 254, 255, 300]),
    k=st.integers(1, 30),
    n_calls=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_packed_queries_find_the_nearest_and_of_equals_the_first(n_items, n_bits, k, n_calls, seed):
    bits = random_bits(n_items, n_bits, seed)
    queries = random_bits(4, n_bits, seed + 1)
    index = HammingIndex(n_bits)
    for part in np.array_split(bits, n_calls):
        index.add(pack(part))
    distances = (queries[:, None] != bits).sum(axis=2)
    result = index.search(pack(queries), k)
    best = ranked(-distances, k)
    n_found = min(k, n_items)
    assert result.counts.tolist() == [n_found] * 4
    np.testing.assert_array_equal(result.ids[:, :n_found], best)
    expected = np.take_along_axis(distances, best, axis=1)
    np.testing.assert_array_equal(index.distances(result.scores)[:, :n_found], expected)
    np.testing.assert_array_equal(result.scores[:, :n_found], n_bits - 2 * expected)
    assert (result.ids[:, n_found:] == -1).all()
    assert (index.distances(result.scores[:, n_found:]) == -1).all()
    assert (result.scores[:, n_found:] == -np.inf).all()


@given(
    n_items=st.integers(1, 300),
    n_bits=st.sampled_from([1, 7, 8, 24, 64, 65]),
    k=st.integers(1, 30),
    seed=st.integers(0, 2**32 - 1),
)
def test_real_queries_find_the_highest_inner_products(n_items, n_bits, k, seed):
    bits = random_bits(n_items, n_bits, seed)
    # Whole numbers, so that sums are exact in any order and ties are common.
    queries = np.random.default_rng(seed).integers(-3, 4, (4, n_bits)).astype(np.float64)
    result = index_of(bits).search(queries, k)
    scores = queries @ (2.0 * bits - 1).T
    best = ranked(scores, k)
    np.testing.assert_array_equal(result.ids[:, : best.shape[1]], best)
    np.testing.assert_array_equal(
        result.scores[:, : best.shape[1]], np.take_along_axis(scores, best, axis=1)
    )


def test_real_and_packed_queries_of_the_same_signs_give_the_same_answer():
    bits, queries = random_bits(500, 40), random_bits(6, 40, 1)
    index = index_of(bits)
    packed, real = index.search(pack(queries), 50), index.search(2.0 * queries - 1, 50)
    np.testing.assert_array_equal(packed.ids, real.ids)
    np.testing.assert_array_equal(packed.scores, real.scores)


def test_real_queries_score_as_a_code_index_of_the_same_bytes_bit_for_bit():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (3000, 4), dtype=np.uint8)
    queries = rng.normal(size=(5, 32)).astype(np.float32)
    codebooks = np.zeros((4, 256, 32), dtype=np.float32)
    signs = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) * 2.0 - 1
    for s in range(4):
        codebooks[s, :, 8 * s : 8 * s + 8] = signs
    expected = CodeIndex(codebooks).add(codes).search(queries, 100)
    result = HammingIndex(32).add(codes).search(queries, 100)
    np.testing.assert_array_equal(result.ids, expected.ids)
    np.testing.assert_array_equal(result.scores, expected.scores)


def test_byte_tables_hold_the_sums_of_signed_dimensions():
    queries = np.random.default_rng(0).integers(-9, 9, (3, 11)).astype(np.float32)
    tables = byte_tables(queries)
    bits = random_bits(20, 11)
    codes = pack(bits)
    scores = sum(tables[:, s][:, codes[:, s]] for s in range(2))
    np.testing.assert_array_equal(scores, queries @ (2.0 * bits - 1).T)


@pytest.mark.parametrize("real", [False, True])
def test_removed_and_filtered_items_are_never_found(real):
    bits = random_bits(4000, 16)
    index = index_of(bits, ids=range(100, 4100))
    index.remove(range(100, 1100))
    allowed = np.arange(100, 4100) % 3 == 0
    allowed[:1000] = False
    queries = random_bits(3, 16, 1)
    scores = (2.0 * queries - 1) @ (2.0 * bits - 1).T
    scores[:, ~allowed] = -np.inf
    expected = ranked(scores, 25) + 100
    vectors = 2.0 * queries - 1 if real else pack(queries)
    keep = np.flatnonzero(allowed) + 100
    for filter_ in (keep.tolist(), lambda ids: ids % 3 == 0, index.ids % 3 == 0):
        np.testing.assert_array_equal(index.search(vectors, 25, filter=filter_).ids, expected)
    assert index.search(vectors, 5, filter=[]).counts.tolist() == [0, 0, 0]
    assert len(index) == 3000


def test_answers_are_the_same_on_any_number_of_threads():
    index = index_of(random_bits(5000, 32))
    for queries in (pack(random_bits(70, 32, 1)), 2.0 * random_bits(70, 32, 1) - 1):
        one, many = index.search(queries, 20, n_threads=1), index.search(queries, 20, n_threads=3)
        np.testing.assert_array_equal(one.ids, many.ids)
        np.testing.assert_array_equal(one.scores, many.scores)


def test_an_index_changes_under_its_ids():
    bits = random_bits(3, 10)
    index = index_of(bits, ids=["a", "b", "c"])
    np.testing.assert_array_equal(index.codes, pack(bits))
    np.testing.assert_array_equal(index.reconstruct("b"), 2.0 * bits[1] - 1)
    with pytest.raises(DuplicateIdError):
        index.add(pack(bits[:1]), ids=["a"])
    index.upsert(pack(1 - bits[:1]), ids=["a"]).remove(["b"])
    assert index.ids.tolist() == ["c", "a"]
    np.testing.assert_array_equal(index.reconstruct("a"), 1 - 2.0 * bits[0])
    with pytest.raises(UnknownIdError):
        index.reconstruct("b")
    assert "c" in index
    assert "b" not in index
    assert index.bytes_per_item < 4


def test_an_empty_index_finds_nothing():
    result = HammingIndex(8).search(np.zeros((2, 1), np.uint8), 3)
    assert result.counts.tolist() == [0, 0]
    assert result.ids.shape == result.scores.shape == (2, 3)
    assert index_of(random_bits(5, 8)).search(np.empty((0, 1), np.uint8), 3).ids.shape == (0, 3)
    assert index_of(random_bits(5, 8)).search(np.empty((0, 8)), 3).ids.shape == (0, 3)


@pytest.mark.parametrize(
    ("queries", "k", "message"),
    [
        (np.zeros((1, 3), np.uint8), 1, "10 bits"),
        (np.zeros((1, 10), np.uint8), 1, "np.packbits"),
        (np.full((1, 2), 256), 1, "int64"),
        (np.zeros((1, 10), bool), 1, "np.packbits"),
        (np.zeros(2, np.uint8), 1, "shape"),
        (np.full((1, 2), 255, np.uint8), 1, "beyond its 10 bits"),
        (np.zeros((1, 9)), 1, "shape"),
        (np.full((1, 10), np.nan), 1, "NaN"),
        (np.full((1, 10), np.inf), 1, "infinite"),
        (np.full((1, 10), 3e38), 1, "overflow"),
        (np.zeros((1, 2), np.uint8), 0, "k must be"),
        (np.zeros((1, 2), np.uint8), 1.5, "k must be"),
    ],
)
def test_wrong_queries_are_rejected_with_the_reason(queries, k, message):
    with pytest.raises(InvalidInputError, match=message):
        index_of(random_bits(4, 10)).search(queries, k)


@pytest.mark.parametrize("n_bits", [0, -1, 65_529, 1.5, None])
def test_a_wrong_number_of_bits_is_rejected(n_bits):
    with pytest.raises(InvalidInputError, match="n_bits"):
        HammingIndex(n_bits)


@pytest.mark.parametrize("k", [1, 7, 1000, 5000])
@pytest.mark.parametrize("order", ["random", "nearer and nearer", "farther and farther", "equal"])
def test_the_nearest_of_many_items_are_found_in_any_order(k, order):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (5000, 4), dtype=np.uint8)
    norms = np.bitwise_count(codes).sum(axis=1, dtype=int)
    if order == "equal":
        codes[:] = 3
    elif order != "random":
        codes = codes[np.argsort(norms if order.startswith("farther") else -norms)]
    queries = np.array([[0, 0, 0, 0], [1, 2, 3, 4]], dtype=np.uint8)
    distances = np.bitwise_count(queries[:, None] ^ codes).sum(axis=2, dtype=int)
    index = HammingIndex(32).add(codes)
    np.testing.assert_array_equal(index.search(queries, k).ids, ranked(-distances, k))
    allowed = np.flatnonzero(rng.random(5000) < 0.3)
    expected = allowed[ranked(-distances[:, allowed], k)]
    result = index.search(queries, k, filter=allowed).ids
    np.testing.assert_array_equal(result[:, : expected.shape[1]], expected)


@pytest.mark.parametrize("n_bits", [5, 16, 24, 64])
def test_tables_of_two_bytes_score_as_signs_do(monkeypatch, n_bits):
    monkeypatch.setattr("acqh.index.hamming_index._PAIRED_ROWS", 1)
    rng = np.random.default_rng(n_bits)
    bits, queries = rng.random((50, n_bits)) < 0.5, rng.normal(size=(3, n_bits))
    result = HammingIndex(n_bits).add(np.packbits(bits, axis=1)).search(queries, 50)
    expected = np.take_along_axis(queries @ np.where(bits, 1, -1).T, result.ids, axis=1)
    np.testing.assert_allclose(result.scores, expected, atol=1e-4)

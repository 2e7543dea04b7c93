"""Statistics without labels, and the sample of rows: independent of the order of items."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from acqh._core.store import pack, unpack
from acqh.errors import InvalidInputError
from acqh.methods.registry import HOMES
from acqh.stats import Statistics, StatisticsConfig
from acqh.stats.moments import cross_product
from acqh.stats.sample import RowSample, row_keys

CONFIG = StatisticsConfig("all", 12)


def draw(rng, n_items, dtype=np.float64):
    views = {
        "image": rng.normal(size=(n_items, 4)).astype(dtype),
        "text": sp.csr_array((rng.random((n_items, 6)) < 0.3).astype(dtype)),
        "sound": rng.normal(size=(n_items, 2)).astype(dtype),
    }
    labels = (rng.random((n_items, 3)) < 0.3).astype(np.uint8)
    present = {"text": rng.random(n_items) < 0.7, "sound": rng.random(n_items) < 0.5}
    return views, labels, present


def take(part, rows):
    views, labels, present = part
    return (
        {name: matrix[rows] for name, matrix in views.items()},
        labels[rows],
        {name: mask[rows] for name, mask in present.items()},
    )


def assert_same(first, second):
    a, b = pack(first.compact(), HOMES)[1], pack(second.compact(), HOMES)[1]
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_allclose(a[key], b[key], rtol=1e-9, atol=1e-9, err_msg=key)


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_pairwise_statistics_use_the_items_with_both_views(n_items, seed, dtype):
    views, labels, present = draw(np.random.default_rng(seed), n_items, dtype)
    stats = Statistics.from_views(views, labels, present, config=CONFIG)
    dense = {
        name: (X.toarray() if sp.issparse(X) else X).astype(float) for name, X in views.items()
    }
    every = np.ones(n_items, dtype=bool)
    for first, second in (("image", "text"), ("text", "sound"), ("sound", "image")):
        both = present.get(first, every) & present.get(second, every)
        result = stats.moments(first, second)
        assert result.n_items == np.count_nonzero(both)
        if both.any():
            a, b = dense[first][both], dense[second][both]
            np.testing.assert_allclose(result.gram(first), a.T @ a, atol=1e-9)
            np.testing.assert_allclose(result.totals[second], b.sum(axis=0), atol=1e-9)
            np.testing.assert_allclose(result.product(first, second), a.T @ b, atol=1e-9)
    assert stats.n_items == n_items


@settings(max_examples=20)
@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
def test_statistics_and_sample_are_independent_of_chunks_and_order(n_items, seed):
    rng = np.random.default_rng(seed)
    part = draw(rng, n_items)
    full = Statistics.from_views(*part, config=CONFIG)
    rows = [
        part_rows
        for part_rows in np.array_split(rng.permutation(n_items), rng.integers(1, 6))
        if len(part_rows)
    ]
    chunks = [take(part, chunk) for chunk in rows]
    streamed = Statistics.from_views(*chunks[0], config=CONFIG)
    merged = Statistics.from_views(*chunks[0], config=CONFIG)
    for chunk in chunks[1:]:
        streamed.update(*chunk)
        merged = merged + Statistics.from_views(*chunk, config=CONFIG)
    assert_same(full, streamed)
    assert_same(full, merged)
    again = unpack(*pack(full, HOMES), HOMES)
    assert_same(full, again)
    np.testing.assert_array_equal(full.sample.keys, streamed.sample.keys)


@settings(max_examples=20)
@given(st.integers(4, 40), st.integers(0, 2**32 - 1))
def test_subtracting_inverts_adding(n_items, seed):
    part = draw(np.random.default_rng(seed), n_items)
    config = StatisticsConfig("all", 100)
    half = np.arange(n_items // 2)
    full = Statistics.from_views(*part, config=config)
    left = full - Statistics.from_views(*take(part, half), config=config)
    rest = Statistics.from_views(*take(part, np.arange(n_items // 2, n_items)), config=config)
    assert_same(left, rest)


def test_a_full_sample_removes_rows_and_merges_on_the_common_range():
    part = draw(np.random.default_rng(0), 60)
    full = Statistics.from_views(*part, config=CONFIG)
    gone = np.arange(40)
    left = (full - Statistics.from_views(*take(part, gone), config=CONFIG)).sample
    rest = Statistics.from_views(*take(part, np.arange(40, 60)), config=CONFIG).sample
    assert len(left) < 12
    np.testing.assert_array_equal(left.keys, rest.keys[: len(left)])
    with pytest.raises(InvalidInputError, match="not fitted"):
        Statistics.from_views(*take(part, gone), config=CONFIG).sample - rest


def test_equal_rows_are_kept_once_and_counted():
    X = np.repeat(np.eye(3), [4, 1, 2], axis=0)
    sample = Statistics.from_views({"image": X}, None, config=CONFIG).sample
    assert sorted(sample.counts.tolist()) == [1, 2, 4]


def test_a_row_has_the_same_key_sparse_dense_single_or_double():
    X = np.round(np.random.default_rng(0).normal(size=(9, 5)), 1).astype(np.float32)
    X[X < 0] = 0
    forms = [X, X.astype(np.float64), sp.csr_array(X), np.asfortranarray(X)]
    keys = [
        Statistics.from_views({"image": form}, None, config=CONFIG).sample.keys for form in forms
    ]
    for other in keys[1:]:
        np.testing.assert_array_equal(other, keys[0])
    other = Statistics.from_views({"text": X}, None, config=CONFIG).sample.keys
    assert not np.intersect1d(other, keys[0]).size


def test_rows_that_differ_in_one_bit_or_in_the_order_of_columns_have_different_keys():
    X = np.vstack([np.eye(40), 2 * np.eye(40), np.nextafter(np.eye(40), 2)]).astype(np.float64)
    sample = Statistics.from_views({"image": X}, None).sample
    assert len(sample) == len(np.unique(X, axis=0))


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_products_of_a_sparse_and_a_dense_view_are_those_of_dense_ones(dtype):
    rng = np.random.default_rng(0)
    few = sp.random_array((5000, 7), density=0.3, rng=rng, format="csr", dtype=np.float32)
    many = np.asfortranarray(rng.integers(0, 9, (5000, 4)).astype(dtype))
    expected = few.toarray().astype(float).T @ many.astype(float)
    np.testing.assert_allclose(cross_product(few, many), expected, rtol=1e-12)
    np.testing.assert_allclose(cross_product(many, few), expected.T, rtol=1e-12)


def test_a_copy_stays_as_it_was_when_the_original_gets_more():
    views, labels, present = draw(np.random.default_rng(0), 20)
    stats = Statistics.from_views(views, labels, present, config=CONFIG)
    copies = [stats.copy(), stats + Statistics.from_views(views, labels, present, config=CONFIG)]
    before = [pack(copy, HOMES)[1] for copy in copies]
    stats.update(views, labels, present)
    for copy, arrays in zip(copies, before, strict=True):
        for key, array in pack(copy, HOMES)[1].items():
            np.testing.assert_array_equal(array, arrays[key], err_msg=key)


def test_separately_sampled_rows_give_the_same_result():
    views, labels, present = draw(np.random.default_rng(0), 40)
    everyone = {"image": np.ones(40, dtype=bool), **present}
    apart = Statistics.from_views(views, labels, present, config=CONFIG).copy()
    other = Statistics({"image": 4, "text": 6, "sound": 2}, 3, CONFIG)
    other.update(views, labels, present, rows={})
    assert len(other.sample) == 0
    other.add_rows(views, labels, everyone, row_keys(views, labels, everyone))
    assert_same(apart, other)


def test_keys_spread_evenly():
    rows = np.random.default_rng(0).normal(size=(4000, 3))
    sample = RowSample(4000, 0).with_rows(
        {"image": rows}, np.zeros((4000, 0)), {"image": np.ones(4000, dtype=bool)}
    )
    counts = np.bincount((sample.keys >> np.uint64(60)).astype(int), minlength=16)
    assert counts.min() > 190
    assert counts.max() < 310

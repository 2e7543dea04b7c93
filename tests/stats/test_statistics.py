import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from acqh._core.store import pack, unpack
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods.registry import HOMES
from acqh.stats import Statistics
from acqh.stats.moments import add_by_set, mirror, upper_gram


def draw(rng, n_items, n_labels=5, dtype=np.float64):
    views = {
        "image": rng.normal(size=(n_items, 4)).astype(dtype),
        "text": sp.csr_array((rng.random((n_items, 6)) < 0.3).astype(np.uint8)),
    }
    labels = (rng.random((n_items, n_labels)) < 0.3).astype(np.uint8)
    present = {"text": rng.random(n_items) < 0.7}
    return views, labels, present


def take(part, rows):
    views, labels, present = part
    return (
        {name: matrix[rows] for name, matrix in views.items()},
        labels[rows],
        {name: mask[rows] for name, mask in present.items()},
    )


def assert_same(first, second, rtol=1e-9):
    a, b = pack(first.compact(), HOMES)[1], pack(second.compact(), HOMES)[1]
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_allclose(a[key], b[key], rtol=rtol, atol=1e-9, err_msg=key)


def dense_oracle(views, labels, present):
    """Return gram and sums by label set, item by item."""
    grams, sums = {}, {}
    for name, matrix in views.items():
        dense = matrix.toarray() if sp.issparse(matrix) else matrix
        mask = present.get(name, np.ones(len(labels), dtype=bool)) & labels.any(axis=1)
        grams[name] = sum(
            (np.outer(row, row) for row in dense[mask].astype(float)),
            np.zeros((dense.shape[1],) * 2),
        )
        for row, label in zip(dense[mask].astype(float), labels[mask], strict=True):
            key = name, tuple(label.tolist())
            sums[key] = sums.get(key, 0.0) + row
    return grams, sums


@given(st.integers(1, 60), st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_statistics_equal_those_added_item_by_item(n_items, seed, dtype):
    views, labels, present = draw(np.random.default_rng(seed), n_items, dtype=dtype)
    stats = Statistics.from_views(views, labels, present)
    grams, sums = dense_oracle(views, labels, present)
    sets = stats.label_sets.matrix()
    for name, view in stats.views.items():
        np.testing.assert_allclose(view.gram, grams[name], atol=1e-9)
        for row, total in zip(sets, view.set_totals, strict=True):
            expected = sums.get((name, tuple(row.tolist())), np.zeros(view.n_features))
            np.testing.assert_allclose(total, expected, atol=1e-9)
    assert stats.n_items == n_items
    assert stats.counts.sum() == np.count_nonzero(labels.any(axis=1))


@given(st.integers(2, 80), st.integers(0, 2**32 - 1))
def test_statistics_are_independent_of_chunks_and_order(n_items, seed):
    rng = np.random.default_rng(seed)
    part = draw(rng, n_items)
    full = Statistics.from_views(*part)
    rows = np.array_split(rng.permutation(n_items), rng.integers(1, 6))
    chunks = [take(part, chunk) for chunk in rows if len(chunk)]
    streamed = Statistics.from_views(*chunks[0])
    merged = Statistics.from_views(*chunks[0])
    for chunk in chunks[1:]:
        streamed.update(*chunk)
        merged = Statistics.from_views(*chunk) + merged
    assert_same(full, streamed)
    assert_same(full, merged)


@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
def test_forget_inverts_add(n_items, seed):
    part = draw(np.random.default_rng(seed), n_items)
    cut = n_items // 2
    first, second = take(part, slice(0, cut)), take(part, slice(cut, None))
    both = Statistics.from_views(*first) + Statistics.from_views(*second)
    assert_same(both - Statistics.from_views(*second), Statistics.from_views(*first))


def test_forgetting_items_that_were_not_added_is_rejected():
    a = Statistics.from_views({"image": np.eye(2)}, np.eye(2, dtype=np.uint8))
    b = Statistics.from_views({"image": np.eye(2)}, np.array([[1, 1], [1, 1]], dtype=np.uint8))
    with pytest.raises(InvalidInputError, match="forget"):
        a - b


def test_merged_statistics_do_not_share_memory_with_their_parts():
    a = Statistics.from_views({"image": np.eye(2)}, np.eye(2, dtype=np.uint8))
    b = a.copy()
    b.update({"image": np.ones((1, 2))}, np.array([[1, 0]]))
    assert a.n_items == 2
    np.testing.assert_array_equal(a.views["image"].gram, np.eye(2))


def test_other_views_widths_or_label_columns_are_rejected():
    stats = Statistics.from_views({"image": np.eye(2)}, np.eye(2, dtype=np.uint8))
    with pytest.raises(ViewError, match=r"'text'"):
        stats.update({"text": np.eye(2)}, np.eye(2))
    with pytest.raises(ViewError, match="3 columns"):
        stats.update({"image": np.eye(3)}, np.eye(3, 2))
    with pytest.raises(LabelError, match="3 columns"):
        stats.update({"image": np.eye(2)}, np.eye(2, 3))
    with pytest.raises(ViewError, match="same views"):
        stats + Statistics.from_views({"text": np.eye(2)}, np.eye(2, dtype=np.uint8))
    with pytest.raises(LabelError, match="2 and 3 labels"):
        stats + Statistics.from_views({"image": np.eye(2)}, np.eye(2, 3, dtype=np.uint8))


def test_arrays_restore_the_statistics():
    stats = Statistics.from_views(*draw(np.random.default_rng(0), 20))
    assert_same(unpack(*pack(stats, HOMES), HOMES), stats, rtol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int64])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_statistics_equal_those_of_full_matrices(dtype, make):
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 3, size=(5000, 7)).astype(dtype)
    sets = rng.integers(0, 4, size=5000)
    expected = np.zeros((6, 7))
    np.add.at(expected, sets, rows.astype(np.float64))
    sums = np.zeros((6, 7))
    add_by_set(sums, sets, make(rows))
    np.testing.assert_array_equal(sums, expected)
    upper, total = upper_gram(make(rows))
    wide = rows.astype(np.float64)
    np.testing.assert_array_equal(mirror(upper), wide.T @ wide)
    np.testing.assert_array_equal(total, wide.sum(axis=0))

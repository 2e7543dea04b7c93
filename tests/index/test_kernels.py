"""Compiled kernels and their NumPy references give the same bits."""

import numpy as np
import numpy_reference as reference
from hypothesis import given
from hypothesis import strategies as st

from acqh.index import CodeIndex
from acqh.index.compiled import search as search_kernels
from acqh.index.compiled import tables as table_kernels
from acqh.index.compiled.layout import measure_norm_bounds
from acqh.index.ids import NumberIds, TextIds
from acqh.index.inverted import InvertedSegment
from acqh.index.search import NO_KEY, TABLE_WIDTH

seeds = st.integers(0, 2**32)


@given(seed=seeds, m=st.integers(1, 4), n=st.sampled_from([1, 3, 256]), dim=st.integers(1, 40))
def test_fill_tables_agrees_with_the_reference(seed, m, n, dim):
    rng = np.random.default_rng(seed)
    codewords = rng.standard_normal((m, dim, n), dtype=np.float32)
    queries = rng.standard_normal((3, dim), dtype=np.float32)
    tables = np.zeros((3, m, TABLE_WIDTH), dtype=np.float32)
    tops = np.empty((3, m), dtype=np.float32)
    scales = np.empty(3, dtype=np.float32)
    table_kernels.fill_tables(codewords, queries, tables, tops, scales)
    expected = reference.tables_of(codewords, queries)
    np.testing.assert_array_equal(tables[:, :, :n], expected)
    np.testing.assert_array_equal(tops, expected.max(axis=2))
    assert (scales >= np.abs(expected).max(axis=2).sum(axis=1)).all()


def test_scales_detect_overflowing_tables():
    codewords = np.array([[[3e38, -3e38], [3e38, 3e38]]], dtype=np.float32)
    queries = np.array([[1, 1], [10, -10], [1, 0]], dtype=np.float32)
    tables = np.zeros((3, 1, TABLE_WIDTH), dtype=np.float32)
    tops, scales = np.empty((3, 1), dtype=np.float32), np.empty(3, dtype=np.float32)
    table_kernels.fill_tables(codewords, queries, tables, tops, scales)
    assert not np.isfinite(scales).any()


@given(seed=seeds, n=st.integers(1, 200), data=st.data())
def test_select_smallest_agrees_with_partition(seed, n, data):
    k = data.draw(st.integers(1, n))
    keys = np.random.default_rng(seed).integers(data.draw(st.sampled_from([3, 2**60])), size=n)
    chosen = keys.astype(np.uint64)
    search_kernels.select_smallest(chosen, n, k)
    expected = np.partition(keys, k - 1)[:k]
    np.testing.assert_array_equal(np.sort(chosen[:k]), np.sort(expected))


@given(
    stored=st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=30),
    others=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
)
def test_find_numbers_agrees_with_the_reference(stored, others):
    values = np.array(stored, dtype=np.int64)
    queries = np.array(stored + others, dtype=np.int64)
    np.testing.assert_array_equal(
        NumberIds.of(values).find(queries), reference.find(values, queries)
    )


@given(
    stored=st.lists(st.text(max_size=4), unique=True, max_size=30),
    others=st.lists(st.text(max_size=4), max_size=5),
)
def test_find_texts_agrees_with_the_reference(stored, others):
    values = np.array(stored, dtype=object)
    queries = np.array(stored + others, dtype=object)
    np.testing.assert_array_equal(TextIds.of(stored).find(queries), reference.find(values, queries))


@given(
    seed=seeds,
    k=st.integers(1, 40),
    grouped=st.booleans(),
    first_row=st.integers(0, 2**31),
    n_tables=st.integers(1, 2),
)
def test_search_lists_agrees_with_scoring_every_allowed_row(seed, k, grouped, first_row, n_tables):
    rng = np.random.default_rng(seed)
    codes = rng.integers(8, size=(300, 3)).astype(np.uint8)
    if grouped:
        codes = codes[rng.integers(20, size=300)]
    segment = InvertedSegment.of(codes, codebook_size=8)
    codewords = np.round(rng.standard_normal((3, 2, 8)) * 2).astype(np.float32)
    queries = rng.standard_normal((2, 2), dtype=np.float32)
    allowed = rng.random(300) < 0.5
    codewords.setflags(write=False)  # as those of an index are
    tables = np.zeros((n_tables, 3, TABLE_WIDTH), dtype=np.float32)
    tops, scales = np.empty((2, 3), dtype=np.float32), np.empty(2, dtype=np.float32)
    keys = np.empty((2, 2 * k + 1), dtype=np.uint64)
    counts = np.zeros(2, dtype=np.int64)
    worsts = np.full(2, NO_KEY)
    tallies, ceilings = np.zeros((2, 2), dtype=np.int64), np.full(2, -np.inf, dtype=np.float32)
    bounds = (tops, scales, np.zeros(2, dtype=np.float32), np.zeros(2, dtype=np.float32))
    bits = np.packbits(allowed, bitorder="little")
    bits.setflags(write=False)
    best = (keys, counts, worsts, tallies, ceilings)
    query_args, rows = (codewords, queries), (first_row, bits)
    search_kernels.search_lists(query_args, tables, bounds, segment.lists, rows, k, None, best)
    assert tallies.min() >= 1
    assert (ceilings == -np.inf).all()
    scores = reference.score_codes(reference.tables_of(codewords, queries), codes)
    for result, count, one in zip(keys, counts, scores, strict=True):
        best = np.flatnonzero(allowed)[reference.best_rows(one[allowed], k)]
        rows = (np.sort(result[:count]) & np.uint64(2**32 - 1)).astype(np.int64) - first_row
        np.testing.assert_array_equal(rows, best)


@given(seed=seeds, m=st.integers(1, 5), dim=st.integers(1, 9))
def test_measure_norm_bounds_agrees_with_the_reference(seed, m, dim):
    rng = np.random.default_rng(seed)
    codewords = rng.standard_normal((m, 7, dim), dtype=np.float32)
    suffixes = rng.integers(7, size=(50, m), dtype=np.uint8)
    starts = np.concatenate([[0], np.sort(rng.integers(51, size=4)), [50]]).astype(np.uint32)
    step = float(np.linalg.norm(codewords, axis=2).max(axis=1).sum()) / 250
    expected = reference.measure_norm_bounds(starts, suffixes, codewords, step)
    np.testing.assert_array_equal(measure_norm_bounds(starts, suffixes, codewords, step), expected)


def test_few_of_many_clustered_codes_are_scored():
    rng = np.random.default_rng(0)
    codewords = (rng.standard_normal((4, 64, 8)) * np.array([8, 4, 2, 1])[:, None, None]).astype(
        "f4"
    )
    codes = rng.integers(64, size=(20_000, 4)).astype(np.uint8)
    index = CodeIndex(codewords).add(codes)
    result = index.search(rng.standard_normal((5, 8)), 10)
    assert result.n_scored.shape == (5,)
    assert result.n_scored.min() >= 10
    assert result.n_scored.max() < 2_000

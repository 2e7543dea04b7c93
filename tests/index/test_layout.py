"""A layout in bounded memory equals a sort of all items, to the byte."""

from unittest import mock

import numpy as np
import numpy_reference as reference
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.errors import InvalidInputError
from acqh.index import inverted as laying
from acqh.index.compiled import layout as compiled

seeds = st.integers(0, 2**32)


@st.composite
def items(draw):
    """Codes, some of them or all repeated, and how to cut them into blocks, empty ones too."""
    m = draw(st.integers(1, 5))
    n = draw(st.sampled_from([1, 2, 3, 16, 256]))
    n_items = draw(st.sampled_from([0, 1, 2, 23, 24, 25, 150, 700]))
    rng = np.random.default_rng(draw(seeds))
    codes = rng.integers(draw(st.integers(1, n)), size=(n_items, m), dtype=np.uint8)
    if draw(st.booleans()):
        codes = codes[rng.integers(1 + n_items // 9, size=n_items) % max(n_items, 1)]
    cuts = np.sort(rng.integers(n_items + 1, size=draw(st.integers(0, 4))))
    return codes, n, cuts


def in_blocks(codes, rows, cuts):
    """Return blocks that can be read again."""
    blocks = [*zip(np.split(codes, cuts), np.split(rows, cuts), strict=True)]
    return lambda: iter(blocks)


def assert_same(layout, expected):
    for name in layout._fields:
        np.testing.assert_array_equal(getattr(layout, name), getattr(expected, name), err_msg=name)
    for name in ("starts", "suffixes", "rows", "gap_starts", "gaps", "norm_bounds"):
        assert getattr(layout, name).dtype == getattr(expected, name).dtype, name


@given(case=items(), n_prefix=st.booleans())
def test_blocks_are_laid_out_as_by_a_sort(case, n_prefix):
    codes, n, cuts = case
    rows = np.arange(len(codes), dtype=np.uint32)
    blocks = in_blocks(codes, rows, cuts)
    layout = laying.build_lists(blocks, codes.shape[1], n, len(codes) if n_prefix else None)
    assert_same(layout, reference.build_lists(codes, rows, n))


@pytest.mark.parametrize("n_codewords", [2, 256])
@pytest.mark.parametrize("n_distinct", [40_000, 900])
def test_many_items_are_laid_out_as_by_a_sort(n_codewords, n_distinct):
    rng = np.random.default_rng(0)
    # Skewed, so that some runs are long and many short.
    codewords = (n_codewords * rng.random((n_distinct, 4)) ** 3).astype(np.uint8)
    codes = codewords[rng.integers(n_distinct, size=60_000)]
    rows = np.arange(len(codes), dtype=np.uint32)
    blocks = in_blocks(codes, rows, [1, 1, 30_000])
    assert_same(
        laying.build_lists(blocks, 4, n_codewords), reference.build_lists(codes, rows, n_codewords)
    )


def test_rows_may_have_any_32_bits():
    codes = np.array([[1, 0], [0, 0], [1, 0]], dtype=np.uint8)
    rows = np.array([0, 2**31, 2**32 - 2], dtype=np.uint32)
    for grouped in (True, False):
        with (
            mock.patch.object(laying, "grouping_pays", return_value=grouped),
            mock.patch.object(reference, "grouping_pays", return_value=grouped),
        ):
            layout = laying.build_lists(in_blocks(codes, rows, []), 2, 2)
            assert_same(layout, reference.build_lists(codes, rows.astype(np.int64), 2))


def test_lists_too_long_to_point_into_are_not_made():
    codes = np.zeros((1000, 4), dtype=np.uint8)
    blocks = in_blocks(codes, np.arange(1000, dtype=np.uint32), [])
    assert len(laying.build_lists(blocks, 4, 256).gaps) == 1000
    with mock.patch.object(laying, "_MAX_GAP_BYTES", 999):
        layout = laying.build_lists(blocks, 4, 256)
    assert len(layout.gaps) == 0
    np.testing.assert_array_equal(layout.rows.view("<u2")[:, 0], np.arange(1000))


@pytest.mark.parametrize(("n_rows", "n_bytes"), [(1, 1), (256, 1), (257, 2), (65_537, 3)])
def test_row_numbers_take_as_many_bytes_as_the_last(n_rows, n_bytes):
    codes = np.random.default_rng(0).integers(256, size=(n_rows, 8)).astype(np.uint8)
    segment = laying.InvertedSegment.of(codes, 256)
    assert segment.lists.rows.shape == (n_rows, n_bytes)
    np.testing.assert_array_equal(segment.codes(), codes)


@given(case=items(), change=st.sampled_from(["more", "fewer", "others"]))
def test_lists_that_change_between_passes_are_an_error(case, change):
    codes, n, _ = case
    if len(codes) == 0 or n == 1:
        return
    other = {"more": np.vstack([codes, codes[:1]]), "fewer": codes[1:], "others": codes.copy()}
    other["others"][0, 0] = (int(codes[0, 0]) + 1) % n
    readings = iter([codes, other[change]])

    def blocks():
        codes = next(readings)
        return [(codes, np.arange(len(codes), dtype=np.uint32))]

    # Traversal of one codeword; what only other codewords tell is for the caller to compare.
    with (
        mock.patch.object(laying, "choose_prefix", return_value=(1, 0)),
        pytest.raises(InvalidInputError, match="changed"),
    ):
        laying.build_lists(blocks, codes.shape[1], n)


@given(lists=st.lists(st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=20), max_size=8))
def test_lists_read_in_chunks_equal_those_read_at_once(lists):
    rows = np.array([row for one in lists for row in sorted(one)], dtype=np.int64)
    sizes = np.array([len(one) for one in lists], dtype=np.int64)
    gaps, gap_starts = reference.pack_lists(rows, np.cumsum(sizes) - sizes)
    state = np.zeros(3, dtype=np.int64)
    result, codes = [], []
    n_read = 3
    while n_read == 3:
        some, numbers = np.empty((2, 3), dtype=np.int64)
        n_read = compiled.read_row_lists(gap_starts.astype(np.uint32), gaps, state, some, numbers)
        result += some[:n_read].tolist()
        codes += numbers[:n_read].tolist()
    assert result == rows.tolist()
    assert codes == np.repeat(np.arange(len(lists)), sizes).tolist()


@given(case=items(), seed=seeds)
def test_codes_are_read_back_from_inverted_lists(case, seed):
    codes, n, _ = case
    ordered = codes[np.lexsort(codes.T[::-1])]
    m = codes.shape[1]
    n_prefix = min(m, 2)
    run = ordered[:, :n_prefix] @ n ** np.arange(n_prefix)[::-1]
    starts = np.searchsorted(run, np.arange(n**n_prefix + 1)).astype(np.uint32)
    entries = np.flatnonzero(np.random.default_rng(seed).random(len(codes)) < 0.5)
    result = np.empty((len(entries), m), dtype=np.uint8)
    suffixes = np.ascontiguousarray(ordered[:, n_prefix:])
    assert compiled.read_codes(starts, suffixes, n, entries, result)
    np.testing.assert_array_equal(result, ordered[entries])
    highest = int(suffixes[entries].max(initial=0))
    if highest > 0:
        assert not compiled.read_codes(starts, suffixes, highest, entries, result)

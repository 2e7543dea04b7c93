"""Segments keep every code and row, in few bytes, through files and merges."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy_reference import pack_lists, unpack_lists

from acqh.errors import CorruptBundleError
from acqh.index import inverted as segments
from acqh.index.inverted import InvertedSegment

seeds = st.integers(0, 2**32)


@st.composite
def code_arrays(draw, max_items=300):
    m = draw(st.integers(1, 6))
    n = draw(st.sampled_from([1, 2, 16, 256]))
    n_items = draw(st.integers(0, max_items))
    rng = np.random.default_rng(draw(seeds))
    codes = rng.integers(draw(st.integers(1, n)), size=(n_items, m)).astype(np.uint8)
    return codes, n


@given(lists=st.lists(st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=20), max_size=8))
def test_row_lists_are_read_back(lists):
    rows = np.array([row for one in lists for row in sorted(one)], dtype=np.int64)
    sizes = np.array([len(one) for one in lists], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    found_rows, found_sizes = unpack_lists(*pack_lists(rows, starts))
    np.testing.assert_array_equal(found_rows, rows)
    np.testing.assert_array_equal(found_sizes, sizes)


@given(case=code_arrays())
def test_codes_are_read_back_in_order_of_insertion(case):
    codes, n = case
    segment = InvertedSegment.of(codes, n)
    segment.verify()
    np.testing.assert_array_equal(segment.codes(), codes)
    for row in range(0, len(codes), 37):
        np.testing.assert_array_equal(segment.codes(row, row + 1), codes[row : row + 1])


@given(case=code_arrays(), cut=st.integers(1, 100), chunk_size=st.sampled_from([1, 7, 100]))
def test_codes_of_consecutive_rows_are_the_same_for_every_chunk_size(case, cut, chunk_size):
    codes, n = case
    segment = InvertedSegment.of(codes, n)
    with mock.patch.object(segments, "_CHUNK", chunk_size):
        for start in range(0, len(codes), cut):
            stop = min(start + cut, len(codes))
            np.testing.assert_array_equal(segment.codes(start, stop), codes[start:stop])


def test_a_missing_row_is_detected_when_codes_are_read_in_chunks():
    segment = InvertedSegment.of(np.array([[0], [1], [2]], dtype=np.uint8), 256)
    rows = np.array([[0], [7], [2]], dtype=np.uint8)
    damaged = replace(segment, lists=segment.lists._replace(rows=rows))
    with pytest.raises(CorruptBundleError, match="row is missing"):
        damaged.codes()


@given(case=code_arrays(), other=seeds)
def test_join_keeps_the_chosen_rows_in_order(case, other):
    codes, n = case
    rng = np.random.default_rng(other)
    parts = np.array_split(codes, 3)
    keep = [rng.random(len(part)) < 0.6 for part in parts]
    joined = InvertedSegment.join([InvertedSegment.of(part, n) for part in parts], keep)
    joined.verify()
    np.testing.assert_array_equal(joined.codes(), codes[np.concatenate(keep)])


@given(case=code_arrays())
def test_a_segment_is_restored_from_its_arrays(case):
    codes, n = case
    back = InvertedSegment.from_arrays(*InvertedSegment.of(codes, n).to_arrays())
    np.testing.assert_array_equal(back.codes(), codes)


def test_distinct_codes_of_four_codewords_take_at_most_six_and_a_half_bytes():
    rng = np.random.default_rng(0)
    segment = InvertedSegment.of(rng.integers(256, size=(600_000, 4)).astype(np.uint8), 256)
    assert not segment.is_grouped
    assert segment.nbytes / segment.n_rows <= 6.5


def test_repeated_codes_take_about_two_bytes_an_item():
    rng = np.random.default_rng(0)
    distinct = rng.integers(256, size=(2000, 4)).astype(np.uint8)
    segment = InvertedSegment.of(distinct[rng.integers(2000, size=200_000)], 256)
    assert segment.is_grouped
    assert segment.nbytes / segment.n_rows <= 2.2


@pytest.fixture(params=["flat", "grouped"])
def stored(request):
    rng = np.random.default_rng(0)
    codes = rng.integers(16, size=(200, 4)).astype(np.uint8)
    if request.param == "grouped":
        codes = codes[rng.integers(40, size=200)]
    arrays, info = InvertedSegment.of(codes, 16).to_arrays()
    return {name: array.copy() for name, array in arrays.items()}, dict(info)


def test_a_missing_array_is_rejected(stored):
    arrays, info = stored
    for name in arrays:
        others = {key: value for key, value in arrays.items() if key != name}
        with pytest.raises(CorruptBundleError, match=f"'{name}' is missing"):
            InvertedSegment.from_arrays(others, info)


def test_arrays_of_another_type_or_shape_are_rejected(stored):
    arrays, info = stored
    for name, array in arrays.items():
        for wrong in (array.astype(np.int16), np.concatenate([array, array[:1]]), array[None]):
            if wrong.shape == array.shape and wrong.dtype == array.dtype:
                continue
            with pytest.raises(CorruptBundleError):
                InvertedSegment.from_arrays({**arrays, name: wrong}, info)


@pytest.mark.parametrize("value", [-1, 300, 2**70, 1.0, True, None, "4"])
@pytest.mark.parametrize(
    "name", ["n_codebooks", "codebook_size", "n_prefix_a", "n_prefix_b", "n_rows"]
)
def test_counts_that_contradict_the_arrays_are_rejected(stored, name, value):
    arrays, info = stored
    with pytest.raises(CorruptBundleError):
        InvertedSegment.from_arrays(arrays, {**info, name: value})


def test_decreasing_list_starts_are_rejected(stored):
    arrays, info = stored
    for name in ("starts", "gap_starts"):
        if len(arrays[name]):
            wrong = arrays[name].copy()
            wrong[-2] = 2**31
            with pytest.raises(CorruptBundleError, match="must rise"):
                InvertedSegment.from_arrays({**arrays, name: wrong}, info).verify()


def test_ends_of_lists_outside_their_array_are_rejected_at_once(stored):
    arrays, info = stored
    for place in (0, -1):
        wrong = arrays["gap_starts"].copy()
        wrong[place : place + 1 or None] += 1
        if len(wrong):
            with pytest.raises(CorruptBundleError, match="gap_starts"):
                InvertedSegment.from_arrays({**arrays, "gap_starts": wrong}, info)


def test_verify_finds_every_changed_byte_of_codes_and_rows(stored):
    arrays, info = stored
    for name in ("suffixes", "rows", "gaps"):
        for place in range(arrays[name].size):
            changed = arrays[name].copy()
            changed.reshape(-1)[place] ^= 1
            segment = InvertedSegment.from_arrays({**arrays, name: changed}, info)
            if name == "suffixes":
                # Another codeword may leave the codes sorted: only a checksum can tell.
                assert segment.codes().shape == (200, 4)
            else:
                with pytest.raises(CorruptBundleError):
                    segment.verify()

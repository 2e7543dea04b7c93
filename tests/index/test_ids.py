"""Ids of both kinds in every form, looked up, and rejected if invalid."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import acqh
from acqh.errors import CorruptBundleError, DuplicateIdError, InvalidInputError
from acqh.index.ids import (
    NumberIds,
    RunningIds,
    TextIds,
    join_tables,
    read_ids,
    table_from_arrays,
    table_of,
    verify_table,
)

numbers = st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1, max_size=20)
texts = st.lists(st.text(max_size=6), unique=True, min_size=1, max_size=20)
running = st.builds(
    lambda first, n: list(range(first, first + n)), st.integers(-50, 50), st.integers(1, 20)
)


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1],
        (3, 1),
        np.array([3, 1], dtype=np.uint8),
        np.array([3, 1], dtype=object),
        range(3, 0, -2),
    ],
)
def test_numbers_are_read_in_every_form(ids):
    result = read_ids(ids)
    assert result.dtype == np.int64
    assert result.tolist() == [3, 1]


@pytest.mark.parametrize("ids", [["b", "a"], np.array(["b", "a"]), {"b": 1, "a": 2}])
def test_texts_are_read_in_every_form(ids):
    result = read_ids(ids)
    assert result.dtype == object
    assert result.tolist() == ["b", "a"]


@pytest.mark.parametrize(
    "ids",
    [
        "ab",
        b"ab",
        3,
        None,
        [1.0],
        [1, "a"],
        [True],
        [None],
        [[1, 2]],
        np.ones((2, 2), dtype=int),
        [2**63],
        np.array([2**63], dtype=np.uint64),
    ],
)
def test_ids_that_are_neither_numbers_nor_texts_are_rejected(ids):
    with pytest.raises(InvalidInputError):
        read_ids(ids)


def test_half_a_surrogate_pair_is_rejected():
    with pytest.raises(InvalidInputError, match="not valid text"):
        table_of(read_ids(["\ud800"]))


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        ([4, 5, 6], RunningIds),
        ([7], RunningIds),
        ([4, 6], NumberIds),
        ([6, 5], NumberIds),
        ([2**63 - 1, -(2**63)], NumberIds),
        (["4", "5"], TextIds),
    ],
)
def test_the_smallest_table_is_chosen(ids, kind):
    assert isinstance(table_of(read_ids(ids)), kind)


@pytest.mark.parametrize("ids", [[1, 2, 1], [5, 5], ["a", "b", "a"]])
def test_repeated_ids_are_rejected(ids):
    with pytest.raises(DuplicateIdError, match="more than once"):
        table_of(read_ids(ids))


@given(ids=st.one_of(numbers, texts, running))
def test_every_id_maps_to_its_row_and_back(ids):
    values = read_ids(ids)
    table = table_of(values)
    np.testing.assert_array_equal(table.find(values), np.arange(len(ids)))
    assert table.take(np.arange(len(ids))).tolist() == ids
    stored = table_from_arrays(*table.to_arrays(), n=len(ids))
    verify_table(stored)
    assert stored.take(np.arange(len(ids))).tolist() == ids


@given(ids=st.one_of(numbers, texts, running), data=st.data())
def test_joined_tables_hold_the_rows_kept(ids, data):
    cut = data.draw(st.integers(0, len(ids)))
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids))))
    halves = [table_of(read_ids(ids[:cut])), table_of(read_ids(ids[cut:]))]
    halves = [half for half in halves if len(half)]
    masks = [keep] if len(halves) == 1 else [keep[:cut], keep[cut:]]
    joined = join_tables(halves, masks)
    expected = [value for value, is_kept in zip(ids, keep, strict=True) if is_kept]
    assert joined.take(np.arange(len(joined))).tolist() == expected


@pytest.mark.parametrize("ids", [[5, 3, 9], [3, 5, 9], ["b", "a", "c"]])
def test_damaged_tables_are_rejected(ids):
    arrays, info = table_of(read_ids(ids)).to_arrays()
    with pytest.raises(CorruptBundleError):
        table_from_arrays(arrays, info, n=4)
    with pytest.raises(CorruptBundleError, match="unknown"):
        table_from_arrays(arrays, {"ids": "other"}, n=3)
    for name, array in arrays.items():
        with pytest.raises(CorruptBundleError):
            table_from_arrays({**arrays, name: array.astype(np.float64)}, info, n=3)


def test_verify_finds_tables_out_of_order():
    arrays, info = table_of(read_ids(["b", "a", "c"])).to_arrays()
    for order in ([0, 1, 2], [1, 1, 2], [1, 0, 7]):
        wrong = table_from_arrays({**arrays, "id_order": np.array(order, dtype=np.uint32)}, info, 3)
        wrong.find(read_ids(["a", "z"]))
        with pytest.raises(CorruptBundleError):
            verify_table(wrong)
    broken = table_from_arrays(
        {**arrays, "id_text": np.array([98, 255, 99], dtype=np.uint8)}, info, 3
    )
    with pytest.raises(CorruptBundleError, match="not valid text"):
        verify_table(broken)


@given(st.lists(st.integers(-5, 9), unique=True, min_size=1), st.lists(st.integers(-6, 10)))
def test_ids_are_found_with_and_without_compiled_code(stored, requested):
    for kind in (int, lambda number: "é" * (number % 3) + str(number)):
        table = table_of(read_ids([kind(one) for one in stored]))
        ids = read_ids([kind(one) for one in requested]) if requested else table.take(np.arange(0))
        expected = [stored.index(one) if one in stored else -1 for one in requested]
        for largest, many in ((0, 0), (100, 0), (100, 100)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("acqh.index.ids._SMALL_TABLE", largest)
                patch.setattr("acqh.index.ids._MANY", many)
                assert table.find(ids).tolist() == expected


def test_an_index_with_the_largest_number_is_saved_and_loaded(tmp_path):
    index = acqh.HammingIndex(8).add([[1]], ids=[2**63 - 1])
    index.save(tmp_path / "index")
    assert acqh.HammingIndex.load(tmp_path / "index").ids.tolist() == [2**63 - 1]

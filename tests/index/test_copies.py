"""Indexes can be pickled and copied; copies share no later change."""

import copy
import pickle

import numpy as np
import pytest

import acqh
from acqh.index import CodeIndex, HammingIndex

WAYS = {
    "pickle": lambda index: pickle.loads(pickle.dumps(index)),  # noqa: S301
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def code_index(n_items, ids):
    rng = np.random.default_rng(0)
    index = CodeIndex(rng.normal(size=(3, 16, 5)))
    return index.add(rng.integers(0, 16, (n_items, 3)), ids)


def hamming_index(n_items, ids):
    rng = np.random.default_rng(0)
    return HammingIndex(12).add(np.packbits(rng.random((n_items, 12)) < 0.5, axis=1), ids)


@pytest.fixture(params=["memory", "mapped"])
def place(request, tmp_path):
    """Return what gives an index as it is, or saved and opened as a memory map."""

    def placed(index):
        if request.param == "memory":
            return index
        index.save(tmp_path / "index.acqh", info={"by": "test"}, arrays={"kept": np.arange(3)})
        return type(index).load(tmp_path / "index.acqh")

    return placed


def assert_same(index, other):
    queries = np.random.default_rng(1).normal(size=(4, 5 if isinstance(index, CodeIndex) else 12))
    expected, result = (one.search(queries, k=20) for one in (index, other))
    assert result.ids.tolist() == expected.ids.tolist()
    np.testing.assert_array_equal(result.scores, expected.scores)
    np.testing.assert_array_equal(other.codes, index.codes)
    assert other.ids.tolist() == index.ids.tolist()
    assert other.info == index.info
    assert [*other.info_arrays] == [*index.info_arrays]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [code_index, hamming_index])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_copy_answers_as_the_original_does_and_changes_apart(make, place, way, as_text):
    ids = [f"item {i}" for i in range(60)] if as_text else None
    index = place(make(60, ids).remove([f"item {i}" for i in range(5)] if as_text else range(5)))
    other = WAYS[way](index)
    assert_same(index, other)
    index.add(index.codes[:1], ["new"] if as_text else [1_000])
    other.remove(["item 7"] if as_text else [7])
    assert (len(index), len(other)) == (56, 54)
    assert ("new" if as_text else 1_000) not in other
    assert ("item 7" if as_text else 7) in index


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_a_large_index_of_several_parts_answers_as_the_original_does(place, way):
    index = place(code_index(40_000, None).add(np.full((2_000, 3), 7)))
    assert_same(index, WAYS[way](index))


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_index_can_be_copied(way):
    empty = WAYS[way](CodeIndex(np.ones((2, 4, 3))))
    assert len(empty.add([[0, 1]])) == 1


@pytest.mark.parametrize("way", WAYS)
def test_compressed_vectors_can_be_copied_and_grow_apart(way):
    items = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32)
    small = acqh.compress(items, bytes_per_item=2, random_state=0)
    other = WAYS[way](small)
    small.add(items[:3] + 0.01)
    assert (len(small.index), len(other.index)) == (403, 400)
    np.testing.assert_array_equal(other.codes, small.codes[:400])
    assert len(other.add(items[:1]).index) == 401

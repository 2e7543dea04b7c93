"""Saved indexes load unchanged, and stay usable while they are overwritten."""

import json
import threading

import numpy as np
import pytest

import acqh
from acqh import CodeIndex, HammingIndex
from acqh._load import verify
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io import read_bundle, verify_bundle, write_bundle

CODEBOOKS = np.random.default_rng(0).standard_normal((3, 5, 4))


def code_index(ids=None, n=60, seed=0):
    codes = np.random.default_rng(seed).integers(5, size=(n, 3))
    return CodeIndex(CODEBOOKS).add(codes, ids)


def hamming_index(ids=None, n=60, seed=0):
    codes = np.random.default_rng(seed).integers(0, 256, size=(n, 2), dtype=np.uint8)
    return HammingIndex(12).add(codes & [255, 240], ids)


def queries_of(index):
    rng = np.random.default_rng(1)
    return rng.standard_normal((5, 4 if isinstance(index, CodeIndex) else 12))


def assert_same(one, other):
    assert repr(one) == repr(other)
    assert one.ids.dtype == other.ids.dtype
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.codes, other.codes)
    for k in (1, 7, 100):
        first, second = one.search(queries_of(one), k), other.search(queries_of(one), k)
        np.testing.assert_array_equal(first.ids, second.ids)
        np.testing.assert_array_equal(first.scores, second.scores)


MAKERS = pytest.mark.parametrize("make", [code_index, hamming_index])


@MAKERS
@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize(
    "ids", [None, list(range(100, 40, -1)), [f"item {i} é" for i in range(60)]]
)
def test_a_loaded_index_is_the_one_that_was_saved(tmp_path, make, ids, mmap):
    index = make(ids)
    index.remove(index.ids[3:9])
    index.upsert(index.codes[:4], index.ids[10:14])
    index.save(tmp_path / "i.acqh", name="mine")
    for checked in (False, True):
        assert_same(type(index).load(tmp_path / "i.acqh", mmap=mmap, verify=checked), index)
    assert_same(acqh.load(tmp_path / "i.acqh"), index)
    assert read_bundle(tmp_path / "i.acqh").name == "mine"


@MAKERS
def test_an_empty_index_can_be_saved(tmp_path, make):
    index = make(n=2)
    index.remove(index.ids)
    index.save(tmp_path / "i")
    loaded = type(index).load(tmp_path / "i", verify=True)
    assert_same(loaded, index)
    # Numbers of removed items are not given again.
    assert loaded.add(make(n=1).codes).ids.tolist() == [2]


@MAKERS
def test_a_loaded_index_changes_as_any_other(tmp_path, make):
    index = make()
    index.save(tmp_path / "i")
    loaded = type(index).load(tmp_path / "i")
    for one in (index, loaded):
        one.remove([5, 6]).upsert(make(n=3, seed=2).codes, ids=[7, 8, 1000])
        one.add(make(n=30, seed=3).codes)
    assert_same(loaded, index)
    assert loaded.compact().ids.tolist() == index.ids.tolist()


@MAKERS
def test_saving_over_an_open_index_does_not_change_it(tmp_path, make):
    index = make()
    index.save(tmp_path / "i")
    first, second = type(index).load(tmp_path / "i"), type(index).load(tmp_path / "i")
    second.remove(range(40)).save(tmp_path / "i")
    third = type(index).load(tmp_path / "i", verify=True)
    assert_same(first, index)
    assert_same(third, second)
    # A mapped index can be saved in place of its own files, again and again.
    for _ in range(3):
        third.save(tmp_path / "i")
    assert_same(type(index).load(tmp_path / "i", verify=True), second)
    assert verify_bundle(tmp_path / "i").ok


@MAKERS
def test_an_index_saved_during_changes_has_one_published_state(tmp_path, make):
    index = make(n=1)
    codes = make(n=300).codes
    changes = threading.Thread(target=lambda: [index.add(codes[i : i + 1]) for i in range(1, 300)])
    changes.start()
    for _ in range(5):
        index.save(tmp_path / "i")
        saved = type(index).load(tmp_path / "i", verify=True)
        np.testing.assert_array_equal(saved.ids, np.arange(len(saved)))
        np.testing.assert_array_equal(saved.codes, codes[: len(saved)])
    changes.join()


def test_loading_as_another_kind_is_rejected(tmp_path):
    code_index().save(tmp_path / "i")
    with pytest.raises(InvalidInputError, match="binary"):
        HammingIndex.load(tmp_path / "i")
    write_bundle(tmp_path / "other", kind="recipe", arrays={})
    with pytest.raises(InvalidInputError, match="recipe"):
        acqh.load(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match="there is nothing at"):
        acqh.load(tmp_path / "nothing")


def test_another_layout_is_rejected(tmp_path):
    code_index().save(tmp_path / "i")
    bundle = read_bundle(tmp_path / "i")
    members = {member: bundle.arrays(member) for member in bundle.members}
    info = json.loads(json.dumps(bundle.info)) | {"layout": 2}
    write_bundle(tmp_path / "i", kind="code-index", info=info, arrays=members)
    with pytest.raises(CorruptBundleError, match="layout 2"):
        acqh.load(tmp_path / "i")


def test_verify_checks_the_contents_and_not_only_the_checksums(tmp_path):
    code_index().save(tmp_path / "i")
    assert verify(tmp_path / "i").ok
    bundle = read_bundle(tmp_path / "i", mmap=False)
    members = {member: bundle.arrays(member) for member in bundle.members}
    members["part 0"]["rows"] = np.zeros_like(members["part 0"]["rows"])
    write_bundle(tmp_path / "i", kind="code-index", info=bundle.info, arrays=members)
    assert verify_bundle(tmp_path / "i").ok
    assert verify(tmp_path / "i").problems == (
        f"{tmp_path / 'i'}: a row is missing or occurs twice",
    )
    (tmp_path / "i" / "manifest.json").write_text("{}")
    assert len(verify(tmp_path / "i").problems) == 1
    write_bundle(tmp_path / "other", kind="recipe", arrays={})
    assert verify(tmp_path / "other").ok

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file

from acqh._core import files as _files
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io import read_bundle, verify_bundle, write_bundle
from acqh.io.read import kind_of

DTYPES = ["u1", "i1", "<u2", ">u2", "<i2", "<u4", "<i4", ">i8", "<u8", "<i8", "<f2", "<f4", ">f8"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
NAMES = st.text(min_size=1, max_size=6).filter(lambda name: name != "__metadata__")
MEMBERS = st.dictionaries(
    st.text(max_size=6), st.dictionaries(NAMES, ARRAYS, max_size=4), max_size=3
)


def small(path, value=1, **others):
    write_bundle(path, kind="test", arrays={"one": {"x": np.full(3, value)}}, **others)
    return path


@given(members=MEMBERS, info=st.dictionaries(st.text(), JSON, max_size=3), name=st.text())
def test_written_values_are_read_back(members, info, name, tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "b.acqh"
    write_bundle(path, kind="test", name=name, info=info, arrays=members)
    assert kind_of(path) == "test"
    assert verify_bundle(path).ok
    for mmap in (True, False):
        bundle = read_bundle(path, kind="test", mmap=mmap, verify=True)
        assert (bundle.name, bundle.info, bundle.version) == (name, info, 1)
        assert set(bundle.members) == set(members)
        for member, arrays in members.items():
            result = bundle.arrays(member)
            assert set(result) == set(arrays)
            for key, array in arrays.items():
                np.testing.assert_array_equal(result[key], array)
                assert result[key].dtype == array.dtype.newbyteorder("<")
                assert result[key].flags.aligned
                assert not result[key].flags.writeable


def test_members_are_safetensors_files_others_can_read(tmp_path):
    arrays = {"a": np.arange(5, dtype=np.uint8), "b": np.eye(3), "c": np.zeros((0, 4), np.int16)}
    write_bundle(tmp_path / "b", kind="test", arrays={"one": arrays})
    (file,) = (tmp_path / "b").glob("*.safetensors")
    result = load_file(file)
    assert set(result) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(result[name], array)
        assert result[name].dtype == array.dtype


def test_arrays_in_any_memory_order_are_written_row_by_row(tmp_path):
    base = np.random.default_rng(0).normal(size=(2000, 700))
    arrays = {"fortran": np.asfortranarray(base), "strided": base[::3, ::-2], "rows": base[5:]}
    write_bundle(tmp_path / "b", kind="test", arrays={"one": arrays})
    result = read_bundle(tmp_path / "b", verify=True).arrays("one")
    for name, array in arrays.items():
        np.testing.assert_array_equal(result[name], array)


def test_mapped_arrays_outlive_a_save_over_their_bundle(tmp_path):
    path = small(tmp_path / "b", 1)
    old = read_bundle(path).arrays("one")["x"]
    small(path, 2)
    assert read_bundle(path).arrays("one")["x"].tolist() == [2, 2, 2]
    assert old.tolist() == [1, 1, 1]


def test_a_bundle_may_be_overwritten_from_its_mapped_arrays(tmp_path):
    path = small(tmp_path / "b", 7)
    for _ in range(3):
        bundle = read_bundle(path)
        write_bundle(path, kind="test", arrays={"one": bundle.arrays("one"), "two": {}})
    assert read_bundle(path, verify=True).arrays("one")["x"].tolist() == [7, 7, 7]


def test_equal_members_share_one_file(tmp_path):
    arrays = {"x": np.arange(4)}
    write_bundle(tmp_path / "b", kind="test", arrays={"one": arrays, "two": arrays})
    assert len(list((tmp_path / "b").iterdir())) == 2
    assert read_bundle(tmp_path / "b", verify=True).arrays("two")["x"].tolist() == [0, 1, 2, 3]


def test_saving_removes_replaced_files_and_leftovers_only(tmp_path):
    path = small(tmp_path / "b", 1)
    (path / "notes.txt").write_text("mine")
    (path / "model.safetensors").write_text("mine too")
    (path / "tmp-0123456789abcdef.partial").write_text("left by a killed writer")
    (path / ("0" * 32 + ".safetensors")).write_text("left by a killed writer")
    small(path, 2)
    names = {entry.name for entry in path.iterdir()}
    assert {"notes.txt", "model.safetensors", "manifest.json"} < names
    assert len(names) == 4


def test_a_killed_first_save_does_not_block_the_next(tmp_path):
    path = tmp_path / "b"
    path.mkdir()
    (path / "tmp-0123456789abcdef.partial").write_text("x")
    assert read_bundle(small(path)).arrays("one")["x"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("foreign", ["notes.txt", "manifest.json", "model.safetensors"])
def test_a_directory_with_other_files_is_rejected_and_unchanged(tmp_path, foreign):
    (tmp_path / foreign).write_text('{"format": "something else"}')
    with pytest.raises(FileExistsError, match="other files"):
        small(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [foreign]


def test_a_file_is_not_overwritten_by_a_bundle(tmp_path):
    (tmp_path / "b").write_text("mine")
    with pytest.raises(FileExistsError):
        small(tmp_path / "b")
    assert (tmp_path / "b").read_text() == "mine"


@pytest.mark.parametrize("make", [Path, Path.mkdir, Path.touch])
def test_a_missing_bundle_is_a_file_not_found_error(tmp_path, make):
    make(tmp_path / "b")
    for function in (read_bundle, verify_bundle, kind_of):
        with pytest.raises(FileNotFoundError, match=r"nothing|not written"):
            function(tmp_path / "b")


def test_loading_as_another_kind_is_rejected(tmp_path):
    with pytest.raises(InvalidInputError, match="'model'"):
        read_bundle(small(tmp_path / "b"), kind="model")


def test_a_missing_member_is_an_error(tmp_path):
    with pytest.raises(CorruptBundleError, match="'codes'"):
        read_bundle(small(tmp_path / "b")).arrays("codes")


def test_a_newer_version_is_reported(tmp_path):
    path = small(tmp_path / "b")
    fields = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(fields | {"version": 2}))
    with pytest.raises(CorruptBundleError, match="version 2"):
        read_bundle(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrays": {"one": {"x": np.array(["text"])}}}, "'x' has dtype <U4"),
        ({"arrays": {"one": {"x": np.array([True])}}}, "store booleans as uint8"),
        ({"arrays": {"one": {"x": np.array([None])}}}, "dtype object"),
        ({"arrays": {"one": {"x": np.zeros(2, np.complex64)}}}, "dtype complex64"),
        ({"arrays": {"one": {"x": np.zeros((1,) * 9)}}}, "9 dimensions"),
        ({"arrays": {"one": {"__metadata__": np.zeros(2)}}}, "array name"),
        ({"arrays": {"one": {3: np.zeros(2)}}}, "array name"),
        ({"arrays": {"one": {f"{i:1000}": np.zeros(2) for i in range(1100)}}}, "too many"),
        ({"arrays": {1: {}}}, "member names must be strings"),
        ({"arrays": {str(i): {} for i in range(257)}}, "at most 256"),
        ({"info": {"x": float("nan")}}, "JSON"),
        ({"info": {"x": np.int64(1)}}, "JSON"),
        ({"info": {1: "x"}}, "string keys"),
        ({"info": {"x": (1, 2)}}, "JSON"),
        ({"info": {"x": "y" * 5_000_000}}, "store large data as arrays"),
        ({"kind": ""}, "kind"),
        ({"name": None}, "name"),
    ],
)  # fmt: skip
def test_unsupported_values_are_rejected_before_anything_is_written(tmp_path, changes, message):
    with pytest.raises(InvalidInputError, match=message):
        write_bundle(tmp_path / "b", **({"kind": "test", "arrays": {}} | changes))
    assert not (tmp_path / "b").exists()


def test_writers_of_one_path_take_turns(tmp_path):
    path = small(tmp_path / "b")
    threads = [
        threading.Thread(target=lambda v=v: [small(path, v, info={"v": v}) for _ in range(5)])
        for v in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        bundle = read_bundle(path, verify=True)
        assert bundle.arrays("one")["x"].tolist() == [bundle.info.get("v", 1)] * 3
    for thread in threads:
        thread.join()
    assert len(list(path.iterdir())) == 2


def test_a_reader_overtaken_by_a_save_reads_the_newer_bundle(tmp_path, monkeypatch):
    path = small(tmp_path / "b", 1)
    opened = _files.open_regular
    saves = iter([2, 3])

    def overtaken(target):
        file = opened(target)
        for value in saves if target.name == "manifest.json" else ():
            monkeypatch.setattr(_files, "open_regular", opened)
            small(path, value)
            monkeypatch.setattr(_files, "open_regular", overtaken)
            break
        return file

    monkeypatch.setattr(_files, "open_regular", overtaken)
    assert read_bundle(path, verify=True).arrays("one")["x"].tolist() == [3, 3, 3]


@pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX systems")
@pytest.mark.parametrize("kind", ["manifest.json", "*.safetensors"])
def test_links_and_pipes_in_a_bundle_are_rejected_without_waiting(tmp_path, kind):
    path = small(tmp_path / "b")
    (file,) = path.glob(kind)
    file.rename(tmp_path / "away")
    file.symlink_to(tmp_path / "away")
    with pytest.raises(CorruptBundleError, match="link"):
        read_bundle(path)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(CorruptBundleError, match="regular file"):
        read_bundle(path)

"""Damaged and hostile index bundles: wrong answers at worst, never a crash or another error.

With NUMBA_BOUNDSCHECK=1 (and a NUMBA_CACHE_DIR of its own) a read outside an array, in compiled
code too, is an IndexError and fails these tests.
"""

import copy
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import acqh
from acqh import CodeIndex, HammingIndex
from acqh.errors import CorruptBundleError, InvalidInputError, UnknownIdError
from acqh.io import Bundle, read_bundle

KINDS = ("few", "flat", "runs", "grouped", "hamming")


def make(kind, texts, n=40):
    rng = np.random.default_rng(0)
    ids = [f"id {i}" for i in rng.permutation(n)] if texts else rng.permutation(n)
    if kind == "hamming":
        index = HammingIndex(16).add(rng.integers(0, 256, (n, 2), dtype=np.uint8), ids)
        return index.remove(ids[:3])
    m, size = {"few": (3, 4), "flat": (8, 256), "runs": (4, 3), "grouped": (3, 2)}[kind]
    index = CodeIndex(rng.standard_normal((m, size, 2)))
    codes = rng.integers(size, size=(n, m))
    halves = (1, 2) if kind == "runs" else (0, 0)
    with (
        mock.patch("acqh.index.inverted.choose_prefix", return_value=halves),
        mock.patch("acqh.index.snapshot._SMALL", 1),
        mock.patch("acqh.index.code_index.FLAT_MAX_ROWS", 100 if kind == "few" else 0),
    ):
        return index.add(codes[:30], ids[:30]).remove(ids[:3]).add(codes[30:], ids[30:])


@cache
def stored(kind, texts):
    """Return an index's type, info and arrays by member."""
    index = make(kind, texts)
    with tempfile.TemporaryDirectory() as folder:
        index.save(folder + "/i")
        bundle = read_bundle(folder + "/i", mmap=False)
    return type(index), bundle.info, {name: bundle.arrays(name) for name in bundle.members}


def use(index):
    """Call every method of an index; a damaged one may only raise the documented error."""
    dimension = index.n_bits if isinstance(index, HammingIndex) else index.codebooks.shape[2]
    queries = np.random.default_rng(0).standard_normal((3, dimension))
    actions = [
        lambda: index.search(queries, 1),
        lambda: index.search(queries, 1000),
        lambda: index.search(queries[:1], 1000),
        lambda: index.search(queries, 5, filter=lambda ids: np.arange(len(ids)) % 2 == 0),
        lambda: index.search(queries, 5, filter=index.ids[:2]),
        lambda: index.ids,
        lambda: index.codes,
        lambda: [index.reconstruct(identifier) for identifier in index.ids[:5]],
        lambda: index.add(
            index.codes[:2], ["new a", "new b"] if index.ids.dtype == object else [900, 901]
        ),
        lambda: index.remove(index.ids[:6]),
        lambda: index.compact(),
        lambda: index.search(queries, 5),
    ]
    if isinstance(index, HammingIndex):
        actions.append(lambda: index.search(np.zeros((2, 2), np.uint8), 7))
    for action in actions:
        with suppress(CorruptBundleError, InvalidInputError, UnknownIdError):
            action()


def load(index_type, info, members, verify=False):
    bundle = Bundle(Path("here"), index_type._kind, "", 1, info, members)
    with mock.patch("acqh.index.base.read_bundle", return_value=bundle):
        return index_type.load("here", verify=verify)


def try_out(index_type, info, members):
    for verify in (False, True):
        try:
            index = load(index_type, info, members, verify)
        except CorruptBundleError:
            continue
        use(index)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [False, True])
def test_a_stored_index_loads_and_works(kind, texts):
    assert len(load(*stored(kind, texts), verify=True)) == 37
    try_out(*stored(kind, texts))


@given(data=st.data(), kind=st.sampled_from(KINDS), texts=st.booleans())
def test_arrays_with_any_values_types_and_shapes_do_no_harm(data, kind, texts):
    index_type, info, members = stored(kind, texts)
    member = data.draw(st.sampled_from(sorted(members)))
    arrays = dict(members[member])
    for name in data.draw(
        st.sets(st.sampled_from(sorted(arrays) or ["x"]), min_size=1, max_size=2)
    ):
        array = arrays.get(name, np.zeros(3))
        match data.draw(st.sampled_from(["values", "value", "shape", "dtype", "cut", "gone"])):
            case "values":
                raw = np.random.default_rng(data.draw(st.integers(0, 999))).bytes(array.nbytes)
                arrays[name] = np.frombuffer(raw, array.dtype).reshape(array.shape)
            case "value" if array.size:
                place = data.draw(st.integers(0, array.size - 1))
                raw = data.draw(st.binary(min_size=array.itemsize, max_size=array.itemsize))
                arrays[name] = array.copy()
                arrays[name].reshape(-1)[place] = np.frombuffer(raw, array.dtype)[0]
            case "shape":
                arrays[name] = array.reshape(data.draw(st.sampled_from([(-1,), (1, -1), (-1, 1)])))
            case "dtype":
                arrays[name] = array.astype(
                    data.draw(st.sampled_from(["u1", "u4", "i8", "f4", "f8"]))
                )
            case "cut":
                arrays[name] = array[: data.draw(st.integers(0, 3))]
            case _:
                arrays.pop(name, None)
    with np.errstate(all="ignore"):
        try_out(index_type, info, members | {member: arrays})


def paths_of(value, path=()):
    """Return the place of every value in nested dictionaries and lists."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(place for key, inner in items for place in paths_of(inner, (*path, key)))]


@given(data=st.data(), kind=st.sampled_from(KINDS), texts=st.booleans())
def test_any_values_in_the_manifest_do_no_harm(data, kind, texts):
    index_type, info, members = stored(kind, texts)
    info = copy.deepcopy(info)
    *outer, last = data.draw(st.sampled_from(paths_of(info)[1:]))
    target = info
    for key in outer:
        target = target[key]
    old = target[last]
    near = st.integers(-2, 2).map(lambda step: old + step) if isinstance(old, int) else st.nothing()
    target[last] = data.draw(
        st.one_of(
            near, st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
            st.sampled_from([[], {}, [{}], "number", "text", "running", 2**63, 2**62, 0]),
        )
    )  # fmt: skip
    try_out(index_type, info, members)


def test_parts_in_another_order_do_no_harm():
    index_type, info, members = stored("runs", False)
    assert len(info["parts"]) == 2
    swapped = members | {"part 0": members["part 1"], "part 1": members["part 0"]}
    try_out(index_type, info, swapped)
    try_out(index_type, info | {"parts": info["parts"][::-1]}, swapped)
    try_out(index_type, info, dict(reversed(members.items())))


def changed(members, member, **arrays):
    return members | {member: members[member] | arrays}


def test_verifying_finds_values_that_contradict_each_other():
    index_type, info, members = stored("runs", False)
    part = members["part 0"]
    rows, suffixes = part["rows"].copy(), part["suffixes"].copy()
    rows[3] = rows[4]
    wrong_bits = part["live"].copy()
    wrong_bits[0] ^= 1
    wrong = {
        "a row twice": changed(members, "part 0", rows=rows),
        "a row beyond": changed(members, "part 0", rows=rows + np.uint32(1)),
        "codes unsorted": changed(members, "part 0", suffixes=suffixes[::-1].copy()),
        "a codeword beyond": changed(members, "part 0", suffixes=np.full_like(suffixes, 3)),
        "ids unsorted": changed(members, "part 0", id_order=part["id_order"][::-1].copy()),
        "an id twice": changed(members, "part 0", id_values=np.zeros_like(part["id_values"])),
        "a row alive again": changed(members, "part 0", live=wrong_bits),
    }  # fmt: skip
    for name, damaged in wrong.items():
        with pytest.raises(CorruptBundleError):
            pytest.fail(f"{name}: {load(index_type, info, damaged, verify=True)}")
    with pytest.raises(CorruptBundleError):
        load(index_type, info | {"next_number": 3}, members, verify=True)


def test_an_id_in_two_parts_is_found_by_verifying():
    index_type, info, members = stored("runs", False)
    present = members["part 0"]["id_values"][5]
    assert present not in members["part 1"]["id_values"]
    values = members["part 1"]["id_values"].copy()
    order = np.argsort(values)
    values[order[0]] = present
    order = np.argsort(values).astype(np.uint32)
    damaged = changed(members, "part 1", id_values=values, id_order=order)
    load(index_type, info, damaged)
    with pytest.raises(CorruptBundleError, match="ids"):
        load(index_type, info, damaged, verify=True)


@pytest.mark.parametrize("kind", ["runs", "hamming"])
def test_every_flipped_byte_of_a_saved_index_is_detected_or_harmless(tmp_path, kind):
    index = make(kind, texts=False, n=12 if kind == "hamming" else 40)
    index.save(tmp_path / "i")
    rng = np.random.default_rng(0)
    for file in (tmp_path / "i").iterdir():
        with file.open("r+b", buffering=0) as raw:
            for place, byte in enumerate(file.read_bytes()):
                raw.seek(place)
                raw.write(bytes([byte ^ 1 << rng.integers(8)]))
                with suppress(CorruptBundleError):
                    result = acqh.load(tmp_path / "i")
                    assert file.name == "manifest.json"
                    np.testing.assert_array_equal(result.codes, index.codes)
                    np.testing.assert_array_equal(result.ids, index.ids)
                raw.seek(place)
                raw.write(bytes([byte]))

"""Damaged bundles: no crash, and no memory beyond the size of the file."""

import hashlib
import json
import os
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acqh.errors import CorruptBundleError
from acqh.io import read as reading
from acqh.io import read_bundle, verify_bundle, write_bundle
from acqh.io.members import member_arrays

ARRAYS = {
    "one": {"x": np.arange(4, dtype=np.uint16), "y": np.eye(2, dtype=np.float32)},
    "two": {"z": np.array([[1, 2, 3]], dtype=np.int64)},
}


@pytest.fixture
def path(tmp_path):
    write_bundle(tmp_path / "b", kind="test", name="é", info={"n": 4, "r": 0.5}, arrays=ARRAYS)
    return tmp_path / "b"


def same(bundle):
    return (bundle.kind, bundle.name, bundle.info) == ("test", "é", {"n": 4, "r": 0.5}) and all(
        np.array_equal(bundle.arrays(member)[name], array)
        and bundle.arrays(member)[name].dtype == array.dtype
        for member, arrays in ARRAYS.items()
        for name, array in arrays.items()
    )


def rewrite_manifest(path, change):
    """Change the fields of a manifest and give it the right checksum again."""
    fields = json.loads((path / "manifest.json").read_text())
    del fields["manifest_sha256"]
    change(fields)
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    fields["manifest_sha256"] = hashlib.sha256(canonical).hexdigest()
    (path / "manifest.json").write_text(json.dumps(fields))


def flipped_bits(file):
    """Flip each bit of a file in turn, and back again."""
    with file.open("r+b", buffering=0) as raw:
        for place, byte in enumerate(file.read_bytes()):
            for bit in range(8):
                raw.seek(place)
                raw.write(bytes([byte ^ 1 << bit]))
                yield bit
            raw.seek(place)
            raw.write(bytes([byte]))


def test_every_flipped_bit_of_a_manifest_is_detected_on_opening_or_harmless(path):
    detected = 0
    for _ in flipped_bits(path / "manifest.json"):
        try:
            assert same(read_bundle(path))
        except CorruptBundleError:
            detected += 1
    assert detected > 4000


def test_every_flipped_bit_of_a_member_is_detected_by_verifying(path, monkeypatch):
    monkeypatch.setattr(reading, "_ALWAYS_VERIFIED_BYTES", 0)
    for file in path.glob("*.safetensors"):
        for bit in flipped_bits(file):
            with pytest.raises(CorruptBundleError):
                read_bundle(path, verify=True)
            with suppress(CorruptBundleError):
                read_bundle(path)
            if bit == 0:
                assert len(verify_bundle(path).problems) == 1


def test_small_members_are_verified_on_every_opening(tmp_path):
    arrays = {"small": {"x": np.zeros(100, np.uint8)}, "large": {"x": np.zeros(300_000, np.uint8)}}
    write_bundle(tmp_path / "b", kind="test", arrays=arrays)
    for file in (tmp_path / "b").glob("*.safetensors"):
        full = file.read_bytes()
        file.write_bytes(full[:-1] + b"x")
        if len(full) < 1000:
            with pytest.raises(CorruptBundleError, match="SHA-256"):
                read_bundle(tmp_path / "b")
        else:
            assert read_bundle(tmp_path / "b").arrays("large")["x"][-1] == ord("x")
        file.write_bytes(full)


@pytest.mark.parametrize("kind", ["manifest.json", "*.safetensors"])
def test_files_cut_short_or_grown_are_detected_on_opening(path, kind):
    file = min(path.glob(kind))
    full = file.read_bytes()
    file.write_bytes(full + b"\x01")
    with pytest.raises(CorruptBundleError):
        read_bundle(path)
    for length in reversed(range(len(full))):
        os.truncate(file, length)
        with pytest.raises(CorruptBundleError):
            read_bundle(path)


def test_members_swapped_or_missing_are_reported_each(path):
    first, second = sorted(path.glob("*.safetensors"))
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    assert len(verify_bundle(path).problems) == 2
    second.unlink()
    with pytest.raises(CorruptBundleError):
        read_bundle(path, verify=True)
    first.write_bytes(contents[0])
    report = verify_bundle(path)
    assert (report.kind, report.n_members) == ("test", 2)
    assert [problem.endswith("is missing") for problem in report.problems] == [True]


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.update(version="1"),
        lambda f: f.update(version=True),
        lambda f: f.update(version=0),
        lambda f: f.update(kind=""),
        lambda f: f.update(kind=None),
        lambda f: f.update(name=3),
        lambda f: f.update(info=[]),
        lambda f: f.update(members=[]),
        lambda f: f.update(extra=1),
        lambda f: f.pop("info"),
        lambda f: f.update(members={"one": None}),
        lambda f: f["members"]["one"].update(file="../../etc/passwd"),
        lambda f: f["members"]["one"].update(file="/etc/passwd"),
        lambda f: f["members"]["one"].update(sha256="../" + "0" * 61),
        lambda f: f["members"]["one"].update(sha256="0" * 63),
        lambda f: f["members"]["one"].update(sha256="A" * 64),
        lambda f: f["members"]["one"].update(bytes=-1),
        lambda f: f["members"]["one"].update(bytes=1 << 62),
        lambda f: f["members"]["one"].update(bytes=1.0),
        lambda f: f["members"]["one"].update(bytes=True),
        lambda f: f["members"]["one"].update(other=1),
        lambda f: f["members"]["one"].pop("bytes"),
        lambda f: f["members"].update({str(i): f["members"]["one"] for i in range(300)}),
    ],
)
def test_wrong_manifests_with_valid_checksums_are_rejected(path, change):
    rewrite_manifest(path, change)
    with pytest.raises(CorruptBundleError):
        read_bundle(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": "acqh-bundle", "version": 1' + b"0" * 10_000 + b"}",
        b" " * (1 << 23),
        json.dumps({"format": "acqh-bundle", "version": 1, "kind": "k", "name": "", "members": {},
                    "info": {"x": float("inf")}, "manifest_sha256": ""}).encode(),
    ],
)  # fmt: skip
def test_hostile_manifests_are_rejected(path, content):
    (path / "manifest.json").write_bytes(content)
    with pytest.raises(CorruptBundleError):
        read_bundle(path)
    assert not verify_bundle(path).ok


def member(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return np.frombuffer(struct.pack("<Q", len(text)) + text + data, dtype=np.uint8)


def entry(dtype="U8", shape=(4,), start=0, stop=4):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


@pytest.mark.parametrize(
    "content",
    [
        np.zeros(0, np.uint8),
        np.zeros(7, np.uint8),
        np.full(64, 255, np.uint8),
        np.frombuffer(struct.pack("<Q", 1 << 40) + b"{}", np.uint8),
        member(b"{" * 100_000),
        member(b"[]"),
        member(b"\xff"),
        member({"x": entry()}, b"123"),
        member({"x": entry()}, b"12345"),
        member({"x": entry(), "y": entry()}, b"1234"),
        member({"x": entry(), "y": entry(start=8, stop=12)}, b"123456789012"),
        member({"x": entry(), "y": entry(start=2, stop=6)}, b"123456"),
        member({"x": entry(dtype="BOOL")}, b"1234"),
        member({"x": entry(dtype="F8_E4M3")}, b"1234"),
        member({"x": entry(dtype=["U8"])}, b"1234"),
        member({"x": entry(dtype="U16")}, b"1234"),
        member({"x": entry(shape=[-4])}, b"1234"),
        member({"x": entry(shape=[-2, -2])}, b"1234"),
        member({"x": entry(shape=[2.0, 2])}, b"1234"),
        member({"x": entry(shape=[True, 4])}, b"1234"),
        member({"x": entry(shape=[1] * 9 + [4])}, b"1234"),
        member({"x": entry(shape=[1 << 62, 4], stop=0)}),
        member({"x": entry(shape=[1 << 40, 1 << 40], stop=0)}),
        member({"x": entry(shape=[0, 1 << 40, 1 << 40], stop=0)}),
        member({"x": entry(shape=[0, 1 << 60], stop=0)}),
        member({"x": entry(start=-4, stop=0)}, b"1234"),
        member({"x": entry(start=4, stop=0)}, b"1234"),
        member({"x": {"dtype": "U8", "shape": [4]}}, b"1234"),
        member({"x": entry() | {"more": 1}}, b"1234"),
        member({"x": None}, b"1234"),
    ],
)
def test_hostile_members_are_rejected(content):
    with pytest.raises(CorruptBundleError, match="here"):
        member_arrays(content, "here")


def test_arrays_at_odd_places_are_still_read():
    arrays = member_arrays(
        member(
            {"x": entry(shape=[1], stop=1), "y": entry("F64", [1], 1, 9)},
            b"1" + struct.pack("<d", 0.5),
        ),
        "here",
    )
    assert arrays["y"].tolist() == [0.5]
    assert arrays["y"].flags.aligned


VALUES = st.one_of(
    st.integers(-2, 40),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.sampled_from(["U8", "F32", "BOOL", "I64", ""]),
    st.lists(st.integers(-1, 40), max_size=3),
)
ENTRIES = st.one_of(
    VALUES,
    st.fixed_dictionaries({
        "dtype": st.sampled_from(["U8", "I16", "F32", "F64"]) | VALUES,
        "shape": st.lists(st.integers(0, 8), max_size=3) | VALUES,
        "data_offsets": st.lists(st.integers(0, 32), min_size=2, max_size=2) | VALUES,
    }),
)  # fmt: skip


@given(
    header=st.dictionaries(st.sampled_from(["x", "y", "__metadata__"]), ENTRIES),
    n=st.integers(0, 40),
)
@example(header={"x": entry()}, n=4)
def test_any_header_gives_arrays_within_the_file_or_an_error(header, n):
    content = member(header, bytes(n))
    try:
        arrays = member_arrays(content, "here")
    except CorruptBundleError:
        return
    assert sum(array.nbytes for array in arrays.values()) == n
    for array in arrays.values():
        assert not array.any()


@given(content=st.binary(max_size=200))
def test_any_bytes_give_arrays_or_an_error(content):
    with suppress(CorruptBundleError):
        member_arrays(np.frombuffer(content, np.uint8), "here")

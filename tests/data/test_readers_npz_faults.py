"""Damaged and hostile .npz files: a clear error, never code, never runaway memory."""

import contextlib
import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acqh.data import MultiViewData, list_chunks, read, read_chunks
from acqh.errors import AcqhError, CorruptBundleError, InvalidInputError


def iter_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


ARRAYS = {
    "text_data": np.ones(3),
    "text_indices": np.array([0, 1, 0]),
    "text_indptr": np.array([0, 2, 3]),
    "text_shape": np.array([2, 2]),
}


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("code in a file was executed",))


def read_in_chunks(path: Path) -> list[MultiViewData]:
    return list(iter_chunks(path, chunk_size=1))


def npy_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npy_head(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()


def write_zip(path: Path, members: dict[str, bytes], packing: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_pickled_objects_are_rejected_and_never_executed(tmp_path: Path) -> None:
    bomb = np.empty(2, dtype=object)
    bomb[0] = Bomb()
    np.savez(tmp_path / "a.npz", image=np.eye(2), labels=bomb)
    with pytest.raises(InvalidInputError, match="'labels'"):
        read(tmp_path / "a.npz")
    with pytest.raises(InvalidInputError, match="pickled"):
        list(iter_chunks(tmp_path / "a.npz"))


def test_pickled_objects_next_to_the_views_are_ignored(tmp_path: Path) -> None:
    bomb = np.array([Bomb()], dtype=object)
    np.savez(tmp_path / "a.npz", image=np.eye(2), notes=bomb)
    assert list(read(tmp_path / "a.npz").views) == ["image"]


def test_a_pickle_called_npz_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(pickle.dumps({"image": 1}))
    with pytest.raises(CorruptBundleError, match="readable"):
        read(tmp_path / "a.npz")


def test_a_pickle_called_npy_inside_is_rejected(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.npz", {"image.npy": pickle.dumps([1, 2])})
    with pytest.raises(CorruptBundleError, match="readable"):
        read(path)


def test_a_header_that_declares_too_many_values_is_rejected(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.npz", {"image.npy": npy_head((10**12, 10**3)) + b"x" * 8})
    with pytest.raises(CorruptBundleError, match="declares"):
        read(path)


@pytest.mark.parametrize("shape", [(-1, 2), (2, -3)])
def test_negative_shapes_are_rejected(tmp_path: Path, shape) -> None:
    path = write_zip(tmp_path / "a.npz", {"image.npy": npy_head(shape)})
    with pytest.raises(CorruptBundleError, match="declares the shape"):
        read(path)


def test_values_without_size_are_rejected(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.npz", {"image.npy": npy_head((10**15, 1), "<U0")})
    with pytest.raises(CorruptBundleError, match="declares the shape"):
        read(path)


def test_a_zip_bomb_is_rejected_before_it_is_unpacked(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("acqh.data.readers.columns._ALWAYS_ALLOWED_BYTES", 2**20)
    zeros = npy_head((1000, 1000)) + bytes(8_000_000)
    path = write_zip(tmp_path / "a.npz", {"image.npy": zeros}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10_000
    with pytest.raises(InvalidInputError, match=r"would take 8,000,128.*give max_bytes"):
        read(path)


def test_the_limit_of_unpacking_can_be_set(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", image=np.zeros((100, 100)))
    with pytest.raises(InvalidInputError, match="1,000"):
        read(tmp_path / "a.npz", max_bytes=1000)
    assert len(read(tmp_path / "a.npz", max_bytes=10**6)) == 100


def test_an_impossible_compression_ratio_is_rejected(tmp_path: Path) -> None:
    path = write_zip(
        tmp_path / "a.npz", {"image.npy": npy_bytes(np.zeros((50, 8)))}, zipfile.ZIP_DEFLATED
    )
    content = bytearray(path.read_bytes())
    size_at = content.rindex(b"PK\x01\x02") + 24
    struct.pack_into("<I", content, size_at, 2**31)
    path.write_bytes(content)
    with pytest.raises(CorruptBundleError, match="unpack"):
        read(path)


def test_members_that_overlap_are_rejected(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.npz", {"image.npy": npy_bytes(np.zeros((50, 8)))})
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, content.rindex(b"PK\x01\x02") + 20, 2**20)
    path.write_bytes(content)
    with pytest.raises(CorruptBundleError, match="overlap"):
        read(path)


def test_a_member_longer_than_the_file_is_rejected(tmp_path: Path) -> None:
    content = npy_head((100, 8)) + bytes(64)
    path = write_zip(tmp_path / "a.npz", {"image.npy": content})
    changed = bytearray(path.read_bytes())
    size_at = changed.rindex(b"PK\x01\x02") + 24
    struct.pack_into("<I", changed, size_at, len(npy_head((100, 8))) + 6400)
    path.write_bytes(changed)
    with pytest.raises(CorruptBundleError, match="ends too early"):
        read(path)
    with pytest.raises(CorruptBundleError, match="is cut off"):
        read_in_chunks(path)


def test_damage_inside_packed_values_is_found(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(2000, 8))
    np.savez_compressed(tmp_path / "a.npz", image=values)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[60_000:60_100] = bytes(100)
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(CorruptBundleError, match="'image'"):
        read(tmp_path / "a.npz")
    with pytest.raises(CorruptBundleError, match="'image'"):
        read_in_chunks(tmp_path / "a.npz")


def test_compression_that_numpy_never_uses_is_rejected(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.npz", {"image.npy": npy_bytes(np.eye(2))}, zipfile.ZIP_LZMA)
    with pytest.raises(InvalidInputError, match="compression"):
        read(path)


def test_two_arrays_of_one_name_are_rejected(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("image.npy", npy_bytes(np.eye(2)))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("image.npy", npy_bytes(np.eye(3)))
    with pytest.raises(CorruptBundleError, match="'image'"):
        read(tmp_path / "a.npz")


def test_members_that_are_no_arrays_are_ignored(tmp_path: Path) -> None:
    members = {"README.txt": b"hello", "image.npy": npy_bytes(np.eye(2))}
    assert len(read(write_zip(tmp_path / "a.npz", members))) == 2


def test_arrays_of_records_are_rejected_where_needed(tmp_path: Path) -> None:
    records = np.zeros(2, dtype=[("é中", "f8")])
    with pytest.warns(UserWarning, match="format 3.0"):
        content = npy_bytes(records)
    with pytest.raises(CorruptBundleError, match="records"):
        read(write_zip(tmp_path / "a.npz", {"image.npy": content}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text_indptr": np.array([0, 3, 2])}, "pointers fall after row 1"),
        ({"text_indptr": np.array([1, 2, 3])}, "pointers go from 1 to"),
        ({"text_indptr": np.array([0, 2, 9])}, "to 9, but 3 values"),
        ({"text_indptr": np.array([0, 3])}, "expected 3 whole numbers"),
        ({"text_indptr": np.array([0.0, 2.0, 3.0])}, "expected 3 whole numbers"),
        ({"text_indices": np.array([0, 5, 0])}, "index 5, but indices go from 0 to 1"),
        ({"text_indices": np.array([0, -1, 0])}, "index -1, but"),
        ({"text_indices": np.array([0.0, 1.0, 0.0])}, "expected a list of whole numbers"),
        ({"text_data": np.ones(2)}, "damaged"),
        ({"text_shape": np.array([2])}, "must be two whole numbers"),
        ({"text_shape": np.array([2, -2])}, "text_shape of a.npz is 2 x -2"),
        ({"text_shape": np.array([2**62, 2])}, "text_shape of a.npz is"),
        ({"text": np.eye(2)}, "both whole"),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_contradictory_sparse_arrays_are_rejected(tmp_path, change, message, chunked) -> None:
    np.savez(tmp_path / "a.npz", **{**ARRAYS, **change})
    action = read_in_chunks if chunked else read
    with pytest.raises(CorruptBundleError, match=message):
        action(tmp_path / "a.npz")


@pytest.mark.parametrize("missing", ["text_data", "text_shape"])
def test_missing_sparse_arrays_are_named(tmp_path: Path, missing: str) -> None:
    np.savez(tmp_path / "a.npz", **{k: v for k, v in ARRAYS.items() if k != missing})
    with pytest.raises(CorruptBundleError, match=f"'text' of a.npz lacks {missing}"):
        read(tmp_path / "a.npz")


def test_label_names_must_be_strings(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", image=np.eye(2), labels=np.eye(2), label_names=np.arange(2))
    with pytest.raises(CorruptBundleError, match="label_names"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_file_cut_off_anywhere_is_an_error(tmp_path: Path, save) -> None:
    save(tmp_path / "a.npz", image=np.arange(600.0).reshape(100, 6), labels=np.arange(100))
    content = (tmp_path / "a.npz").read_bytes()
    for length in range(0, len(content), 97):
        (tmp_path / "cut.npz").write_bytes(content[:length])
        with pytest.raises(CorruptBundleError):
            read(tmp_path / "cut.npz")


def test_a_flipped_value_fails_the_checksum(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", image=np.full((20, 4), 7.0))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[content.index(np.float64(7.0).tobytes()) + 3] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(CorruptBundleError, match="CRC"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_give_data_or_one_of_our_errors(tmp_path, save, data) -> None:
    path = tmp_path / "a.npz"
    save(
        path,
        image=np.arange(12.0).reshape(4, 3),
        labels=np.arange(4),
        text_data=np.ones(4),
        text_indices=np.arange(4),
        text_indptr=np.arange(5),
        text_shape=np.array([4, 4]),
    )
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    for action in (read, read_in_chunks):
        with contextlib.suppress(AcqhError):
            action(path)

"""Zarr groups in the layout of .npy folders, and hostile ones."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acqh.data import MultiViewData, list_chunks, read, read_chunks
from acqh.errors import CorruptBundleError, InvalidInputError, MissingExtraError, ViewError


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


zarr = pytest.importorskip("zarr")

every_format = pytest.mark.parametrize("form", [2, 3])


def write(path: Path, form: int = 3, chunk_rows: int = 4, **arrays: Any) -> Path:
    group = zarr.open_group(path, mode="w", zarr_format=form)
    for name, values in arrays.items():
        array = np.asarray(values)
        texts = array.dtype.kind == "U"
        written = group.create_array(
            name,
            shape=array.shape,
            dtype=str if texts else array.dtype,
            chunks=(chunk_rows, *array.shape[1:]),
            config={"write_empty_chunks": True},
        )
        written[...] = array.astype(object) if texts else array
    return path


def pairs(n_items: int = 10) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "image": rng.normal(size=(n_items, 3)).astype(np.float32),
        "text": rng.integers(0, 9, size=(n_items, 2)),
        "labels": np.arange(n_items) % 3,
    }


@every_format
def test_a_group_is_read_like_a_folder_of_npy_files(tmp_path: Path, form: int) -> None:
    arrays = pairs()
    data = read(write(tmp_path / "a.zarr", form, **arrays))
    assert repr(data) == "MultiViewData('a': 10 items; image 3 float32, text 2 int64; 3 labels)"
    for view in ("image", "text"):
        np.testing.assert_array_equal(data.views[view], arrays[view])
    chunks = list(read_in_chunks(tmp_path / "a.zarr", chunk_size=3))
    np.testing.assert_array_equal(MultiViewData.concat(chunks).views["image"], arrays["image"])


@every_format
def test_texts_may_have_any_length(tmp_path: Path, form: int) -> None:
    arrays = {"image": np.eye(3), "ids": ["ä", "bbb", ""], "labels": ["x", "yy", "x"]}
    arrays["item_caption"] = ["long " * 50, "", "c"]
    data = read(write(tmp_path / "a.zarr", form, chunk_rows=2, **arrays))
    assert data.ids.tolist() == arrays["ids"]
    assert data.label_names == ("x", "yy")
    assert data.items["caption"].tolist() == arrays["item_caption"]


@every_format
def test_a_missing_chunk_is_an_error_that_names_it(tmp_path: Path, form: int) -> None:
    path = write(tmp_path / "a.zarr", form, **pairs())
    chunk = "image/1.0" if form == 2 else "image/c/1/0"
    (path / chunk).unlink()
    chunks = list_chunks(path, chunk_size=4)
    chunks[0].read()
    with pytest.raises(CorruptBundleError, match=f"'image' of a.zarr lacks the chunk {chunk}"):
        chunks[1].read()
    filled = read(path, fill_missing=True)
    np.testing.assert_array_equal(filled.views["image"][4:8], 0)


@every_format
def test_a_damaged_chunk_is_an_error_that_names_the_array(tmp_path: Path, form: int) -> None:
    path = write(tmp_path / "a.zarr", form, **pairs())
    chunk = path / ("image/1.0" if form == 2 else "image/c/1/0")
    chunk.write_bytes(b"\xff" * 40)
    with pytest.raises(CorruptBundleError, match="'image'"):
        read(path)


def edit(path: Path, name: str, **changes: Any) -> None:
    file = next(
        path / name / name_ for name_ in ("zarr.json", ".zarray") if (path / name / name_).exists()
    )
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@every_format
def test_a_huge_declared_shape_allocates_nothing(tmp_path: Path, form: int) -> None:
    path = write(tmp_path / "a.zarr", form, image=np.ones((4, 2)))
    edit(path, "image", shape=[10**13, 2])
    with pytest.raises(CorruptBundleError, match="lacks the chunk"):
        read(path)
    with pytest.raises(InvalidInputError, match="268,435,456"):
        list_chunks(path, chunk_size=10**12, fill_missing=True)[0].read()


def test_a_huge_declared_chunk_allocates_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zarr", 2, image=np.ones((4, 2)))
    edit(path, "image", chunks=[10**12, 2])
    with pytest.raises(InvalidInputError, match="268,435,456"):
        read(path)


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("dtype", ["<f8", "|O"])
@pytest.mark.parametrize("place", ["compressor", "filters"])
def test_nothing_is_unpickled(tmp_path: Path, dtype: str, place: str) -> None:
    path = write(tmp_path / "a.zarr", 2, image=np.ones((4, 2)))
    (path / "image" / "0.0").write_bytes(pickle.dumps(Bomb(tmp_path / "gone off")))
    codec = {"id": "pickle", "protocol": 5}
    packing = {"compressor": None, "filters": None}
    packing[place] = codec if place == "compressor" else [codec]
    edit(path, "image", dtype=dtype, fill_value=0, **packing)
    with pytest.raises((InvalidInputError, CorruptBundleError), match=r"a\.zarr"):
        read(path)
    assert not (tmp_path / "gone off").exists()


def test_only_known_codecs_are_run(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zarr", 2, image=np.ones((4, 2)))
    edit(path, "image", compressor={"id": "base64"})
    with pytest.raises(InvalidInputError, match="'base64'"):
        read(path)


def test_objects_are_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zarr", 2, image=np.ones((4, 2)), ids=np.arange(4))
    edit(path, "ids", dtype="|O", filters=[{"id": "vlen-bytes"}], fill_value=None)
    with pytest.raises((InvalidInputError, CorruptBundleError)):
        read(path)


@pytest.mark.parametrize(
    "change",
    [{"shape": [-4, 2]}, {"shape": "all"}, {"codecs": [{"name": "unknown"}]}, {"data_type": 5}],
)
def test_metadata_that_are_none_are_an_error_that_names_the_folder(tmp_path, change) -> None:
    path = write(tmp_path / "a.zarr", 3, image=np.ones((4, 2)))
    edit(path, "image", **change)
    with pytest.raises((CorruptBundleError, InvalidInputError, ViewError), match=r"a\.zarr"):
        read(path)


def test_a_single_array_is_no_group(tmp_path: Path) -> None:
    zarr.save_array(tmp_path / "a.zarr", np.eye(3))
    with pytest.raises(CorruptBundleError, match="readable"):
        read(tmp_path / "a.zarr")


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.zarr", **pairs())
    monkeypatch.setitem(__import__("sys").modules, "zarr", None)
    with pytest.raises(MissingExtraError, match=r"acqh\[zarr\]"):
        read(path)


@pytest.mark.parametrize("chunk_rows", [2, 5, 7, 100])
def test_chunks_that_do_not_fit_the_chunks_are_unpacked_once(
    tmp_path: Path, chunk_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acqh.data.readers import groups

    image = np.arange(40.0).reshape(20, 2)
    path = write(tmp_path / "a.zarr", chunk_rows=chunk_rows, image=image)
    spans = []
    plain_read = groups.ZarrGroup._read

    def counted(self, name, start, stop):
        spans.append((start, stop))
        return plain_read(self, name, start, stop)

    monkeypatch.setattr(groups.ZarrGroup, "_read", counted)
    chunks = list(read_in_chunks(path, chunk_size=3))
    np.testing.assert_array_equal(np.concatenate([c.views["image"] for c in chunks]), image)
    assert sum(stop - start for start, stop in spans) == len(image)

"""Files of nearest-neighbour benchmarks: HDF5 of ann-benchmarks, ground truth of big-ann."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import acqh
from acqh.data import list_chunks, read, read_chunks
from acqh.errors import AcqhError, CorruptBundleError, InvalidInputError

RNG = np.random.default_rng(0)
TRAIN, TEST = (RNG.normal(size=(n, 8)).astype(np.float32) for n in (300, 20))
NEIGHBORS = np.argsort(-TEST @ TRAIN.T, axis=1)[:, :10].astype(np.int32)


@pytest.fixture
def ann_file(tmp_path: Path) -> Path:
    """A file as ann-benchmarks' create_dataset.py writes it."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "tiny-8-angular.hdf5"
    with h5py.File(path, "w") as file:
        file.attrs["type"], file.attrs["distance"] = "dense", "angular"
        file.attrs["dimension"], file.attrs["point_type"] = 8, "float"
        file.create_dataset("train", data=TRAIN, compression="gzip", chunks=(64, 8))
        file.create_dataset("test", data=TEST)
        file.create_dataset("neighbors", data=NEIGHBORS)
        file.create_dataset("distances", data=np.zeros((20, 10), "f"))
    return path


def test_items_of_ann_benchmarks_are_its_train(ann_file: Path) -> None:
    data = read(ann_file)
    assert list(data.views) == ["train"]
    np.testing.assert_array_equal(data.views["train"], TRAIN)
    chunks = list_chunks(ann_file, chunk_size=70)
    rows = [chunk.read().views["train"] for chunk in chunks]
    np.testing.assert_array_equal(np.concatenate(rows), TRAIN)
    rows = [chunk.views["train"] for chunk in read_chunks(chunks[1:3])]
    np.testing.assert_array_equal(np.concatenate(rows), TRAIN[70:210])


def test_ann_benchmarks_are_compressed_for_their_queries(ann_file: Path) -> None:
    small = acqh.compress(ann_file, ann_file, 4, query_view="test")
    assert small.report.n_queries == 20
    assert len(small.index) == 300


def test_hdf5_by_the_names_of_arrays(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.bin", "w") as file:
        file["image"], file["labels"] = TRAIN, np.arange(300) % 3
        file["ids"] = [f"é{n}" for n in range(300)]
    data = read(tmp_path / "a.bin")
    assert (data.ids[1], data.label_names) == ("é1", ("0", "1", "2"))
    (tmp_path / "a.bin").rename(tmp_path / "a.h5")
    assert len(read(tmp_path / "a.h5", views={"x": "image"})) == 300


def test_an_hdf5_bomb_is_rejected(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("image", shape=(2**24, 64), dtype="f4", chunks=(2**10, 64))
    with pytest.raises(InvalidInputError, match="arrays"):
        read(tmp_path / "a.h5")


def test_hdf5_with_external_values_is_rejected(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["image"] = h5py.ExternalLink("other.h5", "/image")
    with pytest.raises(InvalidInputError, match="link"):
        read(tmp_path / "a.h5")


def test_damaged_hdf5_raises_an_acqh_error(ann_file: Path) -> None:
    content = ann_file.read_bytes()
    ann_file.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorruptBundleError):
        read(ann_file)
    for at in range(9, len(content), 331):
        ann_file.write_bytes(content[:at] + bytes([content[at] ^ 0x5A]) + content[at + 1 :])
        with suppress(AcqhError):
            read(ann_file)


@pytest.mark.parametrize("name", ["GT_10M", "gt.bin", "gt.ibin"])
def test_ground_truth_of_big_ann_is_detected_by_its_size(tmp_path: Path, name: str) -> None:
    distances = RNG.normal(size=NEIGHBORS.shape).astype("<f4")
    content = np.array(NEIGHBORS.shape, "<u4").tobytes() + NEIGHBORS.astype("<u4").tobytes()
    (tmp_path / name).write_bytes(content + distances.tobytes())
    data = read(tmp_path / name)
    np.testing.assert_array_equal(data.views["neighbors"], NEIGHBORS)
    np.testing.assert_array_equal(data.views["distances"], distances)


def test_ground_truth_that_is_cut_off_is_not_taken_for_something_else(tmp_path: Path) -> None:
    content = np.array(NEIGHBORS.shape, "<u4").tobytes() + NEIGHBORS.astype("<u4").tobytes()
    (tmp_path / "gt.bin").write_bytes(content)
    with pytest.raises(InvalidInputError, match="ground"):
        read(tmp_path / "gt.bin")

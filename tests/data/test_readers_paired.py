"""A folder for each view, split into different files: paired by the order of rows."""

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acqh.data import list_chunks, read
from acqh.errors import CorruptBundleError, InvalidInputError, LabelError, ViewError

N_ITEMS = 23
RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(N_ITEMS, 3)).astype(np.float32)
TEXT = RNG.integers(0, 9, size=(N_ITEMS, 2))
CLASSES = np.arange(N_ITEMS) % 4


def write_arrays(folder: Path, rows: Any, size: int) -> None:
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, len(rows), size)):
        # Not padded: part 10 comes after part 2.
        np.save(folder / f"part-{number}.npy", rows[start : start + size])


def write_pairs(path: Path, sizes: tuple[int, int, int] = (2, 7, 5)) -> Path:
    write_arrays(path / "image", IMAGE, sizes[0])
    write_arrays(path / "text", TEXT, sizes[1])
    write_arrays(path / "labels", CLASSES, sizes[2])
    return path


@settings(max_examples=12)
@given(
    sizes=st.tuples(*[st.integers(1, N_ITEMS)] * 3),
    chunk_size=st.integers(1, N_ITEMS),
    seed=st.integers(0, 9),
)
def test_rows_are_paired_however_the_files_are_cut(sizes, chunk_size, seed) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_pairs(Path(folder) / "pairs", sizes)
        full = read(path)
        np.testing.assert_array_equal(full.views["image"], IMAGE)
        np.testing.assert_array_equal(full.views["text"], TEXT)
        np.testing.assert_array_equal(full.labels.argmax(axis=1), CLASSES)
        chunks = list_chunks(path, chunk_size=chunk_size)
        for number in np.random.default_rng(seed).permutation(len(chunks)):
            chunk = chunks[number]
            rows = slice(chunk.start, chunk.stop)
            data = pickle.loads(pickle.dumps(chunk)).read()  # noqa: S301
            np.testing.assert_array_equal(data.views["image"], IMAGE[rows])
            np.testing.assert_array_equal(data.views["text"], TEXT[rows])
            np.testing.assert_array_equal(data.labels, full.labels[rows])
            np.testing.assert_array_equal(data.ids, np.arange(N_ITEMS)[rows])
            assert data.label_names == ("0", "1", "2", "3")


def test_folder_names_can_be_set(tmp_path: Path) -> None:
    write_arrays(tmp_path / "img_emb", IMAGE, 10)
    write_arrays(tmp_path / "text_emb", TEXT, 9)
    write_arrays(tmp_path / "metadata", np.array([f"k{i:02}" for i in range(N_ITEMS)]), 8)
    data = read(tmp_path, views={"image": "img_emb", "text": "text_emb"}, ids="metadata")
    assert list(data.views) == ["image", "text"]
    assert data.ids[:2].tolist() == ["k00", "k01"]
    assert data.labels is None


def test_totals_that_differ_are_an_error(tmp_path: Path) -> None:
    write_arrays(tmp_path / "image", IMAGE, 20)
    write_arrays(tmp_path / "text", TEXT[:-1], 40)
    with pytest.raises(InvalidInputError, match="image 23 x 3, text"):
        list_chunks(tmp_path)
    write_arrays(tmp_path / "labels", CLASSES, 40)
    with pytest.raises(ViewError, match="view 'text' has 22 rows, but there are 23 items"):
        list_chunks(tmp_path)


def test_only_files_of_the_rows_are_opened(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs", (5, 5, 5))
    chunk = list_chunks(path, chunk_size=5)[1]
    for file in path.rglob("*0.*"):
        file.write_bytes(b"gone")
    assert chunk.read().ids.tolist() == [5, 6, 7, 8, 9]


def test_a_part_that_has_changed_is_named(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs", (5, 5, 5))
    chunk = list_chunks(path, chunk_size=5)[1]
    np.save(path / "image" / "part-1.npy", IMAGE[:3])
    with pytest.raises(CorruptBundleError, match="changed"):
        chunk.read()


def test_names_may_be_counted_by_class_numbers(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs")
    data = read(path, label_names=["ape", "bee", "cat", "dog"])
    assert data.label_names == ("ape", "bee", "cat", "dog")
    np.testing.assert_array_equal(data.labels.argmax(axis=1), CLASSES)
    with pytest.raises(LabelError, match="2 label names"):
        read(path, label_names=["ape", "bee"])


def test_files_of_a_folder_must_have_one_shape_and_type(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs")
    for odd in (IMAGE[:, :2], IMAGE.astype(np.float64), 1.0):
        np.save(path / "image" / "z.npy", odd)
        with pytest.raises(InvalidInputError, match="shape"):
            read(path)


def test_folders_without_rows_are_an_error(tmp_path: Path) -> None:
    for name, rows in (("image", IMAGE[:0]), ("labels", CLASSES[:0])):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", rows)
    with pytest.raises(ViewError, match="least"):
        read(tmp_path)


def test_labels_alone_are_no_data(tmp_path: Path) -> None:
    write_arrays(tmp_path / "labels", CLASSES, 9)
    with pytest.raises(InvalidInputError, match="23 rows"):
        read(tmp_path)

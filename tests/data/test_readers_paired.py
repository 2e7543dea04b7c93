"""A folder for each view, whose files are cut differently: paired by the order of rows."""

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acqh.data import list_pieces, read, read_chunks
from acqh.errors import CorruptBundleError, InvalidInputError, LabelError, ViewError

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

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


def write_tables(folder: Path, size: int, **columns: Any) -> None:
    folder.mkdir(parents=True)
    table = arrow.table({name: list(values) for name, values in columns.items()})
    for number, start in enumerate(range(0, len(table), size)):
        rows = table.slice(start, size)
        parquet.write_table(rows, folder / f"{number}.parquet", row_group_size=2)


def write_pairs(path: Path, sizes: tuple[int, int, int] = (2, 7, 5)) -> Path:
    write_arrays(path / "image", IMAGE, sizes[0])
    write_tables(path / "text", sizes[1], vector=TEXT)
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
        whole = read(path)
        np.testing.assert_array_equal(whole.views["image"], IMAGE)
        np.testing.assert_array_equal(whole.views["text"], TEXT)
        np.testing.assert_array_equal(whole.labels.argmax(axis=1), CLASSES)
        pieces = list_pieces(path, chunk_size=chunk_size)
        for number in np.random.default_rng(seed).permutation(len(pieces)):
            piece = pieces[number]
            rows = slice(piece.start, piece.stop)
            data = pickle.loads(pickle.dumps(piece)).read()  # noqa: S301
            np.testing.assert_array_equal(data.views["image"], IMAGE[rows])
            np.testing.assert_array_equal(data.views["text"], TEXT[rows])
            np.testing.assert_array_equal(data.labels, whole.labels[rows])
            np.testing.assert_array_equal(data.ids, np.arange(N_ITEMS)[rows])
            assert data.label_names == ("0", "1", "2", "3")


def test_other_names_of_folders_are_given(tmp_path: Path) -> None:
    write_arrays(tmp_path / "img_emb", IMAGE, 10)
    write_arrays(tmp_path / "text_emb", TEXT, 9)
    write_tables(tmp_path / "metadata", 8, key=[f"k{i}" for i in range(N_ITEMS)])
    data = read(tmp_path, views={"image": "img_emb", "text": "text_emb"}, ids="metadata")
    assert list(data.views) == ["image", "text"]
    assert data.ids[:2].tolist() == ["k0", "k1"]
    assert data.labels is None


@pytest.mark.parametrize(("id_name", "label_name"), [("id", "labels"), ("Id", "Labels")])
def test_labels_and_ids_may_lie_beside_a_view(tmp_path: Path, id_name, label_name) -> None:
    ids = [f"id {i}" for i in range(N_ITEMS)]
    write_arrays(tmp_path / "image", IMAGE, 10)
    labels = [["dog"] if i % 2 else ["cat", "dog"] for i in range(N_ITEMS)]
    write_tables(tmp_path / "text", 6, **{id_name: ids, "text": TEXT, label_name: labels})
    data = read(tmp_path)
    assert data.ids.tolist() == ids
    assert data.label_names == ("cat", "dog")
    assert data.labels[:2].tolist() == [[1, 1], [0, 1]]


def test_ids_that_differ_between_views_are_an_error_that_names_the_row(tmp_path: Path) -> None:
    write_tables(tmp_path / "image", 6, id=np.arange(N_ITEMS), image=IMAGE)
    other = np.arange(N_ITEMS)
    other[[7, 8]] = [8, 7]
    write_tables(tmp_path / "text", 5, id=other, text=TEXT)
    with pytest.raises(ViewError, match=r"row 7 has the id 7 in .*image but 8 in .*text"):
        list(read_chunks(tmp_path, chunk_size=4))


def test_totals_that_differ_name_the_files(tmp_path: Path) -> None:
    write_arrays(tmp_path / "image", IMAGE, 20)
    write_tables(tmp_path / "text", 40, text=TEXT[:-1])
    message = r"23 in image/part-0.npy, image/part-1.npy; 22 in text/0.parquet; rows are paired"
    with pytest.raises(ViewError, match=message):
        list_pieces(tmp_path)


def test_a_view_may_be_null_in_a_table(tmp_path: Path) -> None:
    write_arrays(tmp_path / "image", IMAGE[:3], 2)
    write_tables(tmp_path / "text", 2, text=[[1.0, 2.0], None, [3.0, 4.0]])
    assert read(tmp_path).present["text"].tolist() == [True, False, True]


def test_only_files_of_the_rows_are_opened(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs", (5, 5, 5))
    piece = list_pieces(path, chunk_size=5)[1]
    for file in path.rglob("*0.*"):
        file.write_bytes(b"gone")
    assert piece.read().ids.tolist() == [5, 6, 7, 8, 9]


def test_a_part_that_has_changed_is_named(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs", (5, 5, 5))
    piece = list_pieces(path, chunk_size=5)[1]
    np.save(path / "image" / "part-1.npy", IMAGE[:3])
    with pytest.raises(CorruptBundleError, match=r"part-1\.npy has changed since it was listed"):
        piece.read()


def test_names_may_be_counted_by_class_numbers(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs")
    data = read(path, label_names=["ape", "bee", "cat", "dog"])
    assert data.label_names == ("ape", "bee", "cat", "dog")
    np.testing.assert_array_equal(data.labels.argmax(axis=1), CLASSES)
    with pytest.raises(LabelError, match="neither are nor count the 2 label names"):
        read(path, label_names=["ape", "bee"])


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda p: np.save(p / "text" / "a.npy", TEXT), "both .npy files and tables"),
        (lambda p: np.save(p / "image" / "z.npy", IMAGE[:, :2]), "z.npy has rows of shape"),
        (lambda p: np.save(p / "image" / "z.npy", 1.0), "z.npy holds a single number"),
        (lambda p: write_arrays(p / "audio", np.ones((N_ITEMS, 2, 2)), 9), "rows of shape"),
        (lambda p: write_arrays(p / "audio", np.array(["a"] * N_ITEMS), 9), "rows of shape"),
        (lambda p: write_tables(p / "audio", 9, a=TEXT, b=TEXT), "2 columns with lists"),
        (lambda p: write_tables(p / "ids", 9, a=CLASSES, b=CLASSES), "call one 'id'"),
    ],
)
def test_what_cannot_be_paired_is_an_error(tmp_path: Path, prepare, message: str) -> None:
    path = write_pairs(tmp_path / "pairs")
    prepare(path)
    with pytest.raises((InvalidInputError, ViewError), match=message):
        read(path)


def test_folders_without_rows_are_an_error(tmp_path: Path) -> None:
    for name, rows in (("image", IMAGE[:0]), ("labels", CLASSES[:0])):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", rows)
    with pytest.raises(ViewError, match="has no rows; give at least one item"):
        read(tmp_path)


def test_labels_in_two_places_must_be_told_apart(tmp_path: Path) -> None:
    for view, rows in (("image", IMAGE), ("text", TEXT)):
        write_tables(tmp_path / view, 9, labels=CLASSES, **{view: rows})
    with pytest.raises(LabelError, match="name the folder to take with labels=NAME"):
        read(tmp_path)
    assert read(tmp_path, labels="text").label_names == ("0", "1", "2", "3")


def test_labels_alone_are_no_data(tmp_path: Path) -> None:
    write_arrays(tmp_path / "labels", CLASSES, 9)
    with pytest.raises(InvalidInputError, match="has no folder with a view"):
        read(tmp_path)

"""Reading .npz files of the usual layout, whole and in chunks."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from acqh.data import MultiViewData, list_chunks, load_dataset, read, read_chunks
from acqh.errors import InvalidInputError, LabelError, ViewError


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


def csr_chunks(name: str, matrix: sp.csr_array) -> dict[str, np.ndarray]:
    return {
        f"{name}_data": matrix.data,
        f"{name}_indices": matrix.indices.astype(np.uint16),
        f"{name}_indptr": matrix.indptr,
        f"{name}_shape": np.array(matrix.shape),
    }


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    tags = sp.random_array((7, 5), density=0.4, format="csr", rng=rng)
    return {
        "image": rng.normal(size=(7, 3)).astype(np.float32),
        **csr_chunks("text", tags),
        "labels": rng.integers(0, 2, size=(7, 4), dtype=np.uint8),
        "class_id": np.arange(7),
        "train_idx": np.array([0, 2, 4, 6], dtype=np.int32),
        "test_idx": np.array([1, 3, 5], dtype=np.int32),
        "label_names": np.array(["a", "b", "c", "d"]),
        "tag_names": np.array(["v", "w", "x", "y", "z"]),
    }


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def test_wiki_is_read_in_one_line_with_its_official_split(data_dir: Path) -> None:
    wiki = MultiViewData.from_files(data_dir / "wiki.npz")
    assert {name: view.shape for name, view in wiki.views.items()} == {
        "image": (2866, 128),
        "text": (2866, 10),
    }
    assert wiki.labels.shape == (2866, 10)
    train, test = wiki.official_split()
    assert (len(train), len(test)) == (2173, 693)
    assert wiki.name == "wiki"


def test_mirflickr_keeps_sparse_tags_and_appends_rows_without_image(data_dir: Path) -> None:
    pairs = read(data_dir / "mirflickr25k.npz")
    assert list(pairs.views) == ["image", "text"]
    assert sp.issparse(pairs.views["text"])
    assert pairs.ids[0] == np.load(data_dir / "mirflickr25k.npz")["image_id"][0]
    assert len(pairs.label_names) == 24
    full = load_dataset("mirflickr25k", data_dir, include_text_only=True)
    assert len(full) == 20_015
    assert int(full.present["image"].sum()) == len(pairs) == 15_677
    assert full.present["text"].all()
    assert (full.labels.sum(axis=1) > 0).all()


def test_views_labels_names_and_split_are_found(tmp_path: Path, arrays) -> None:
    np.savez(tmp_path / "pairs.npz", **arrays)
    data = read(tmp_path / "pairs.npz")
    assert list(data.views) == ["image", "text"]
    np.testing.assert_array_equal(data.views["image"], arrays["image"])
    assert data.views["image"].dtype == np.float32
    expected = sp.csr_array(
        (arrays["text_data"], arrays["text_indices"].astype(int), arrays["text_indptr"]),
        shape=(7, 5),
    )
    np.testing.assert_array_equal(data.views["text"].toarray(), expected.toarray())
    np.testing.assert_array_equal(data.labels, arrays["labels"])
    assert data.label_names == ("a", "b", "c", "d")
    np.testing.assert_array_equal(data.splits["train"], arrays["train_idx"])
    np.testing.assert_array_equal(data.splits["test"], arrays["test_idx"])
    np.testing.assert_array_equal(data.ids, np.arange(7))


def test_chunks_of_class_ids_have_the_same_label_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", image=np.eye(4), labels=np.array([2, 2, 10, 0]))
    chunks = list(read_in_chunks(tmp_path / "a.npz", chunk_size=2))
    assert [chunk.label_names for chunk in chunks] == [("0", "2", "10")] * 2
    np.testing.assert_array_equal(chunks[0].labels, [[0, 1, 0], [0, 1, 0]])
    assert chunks[1].ids.tolist() == [2, 3]


def test_class_numbers_take_the_names_they_count(tmp_path: Path) -> None:
    names = np.array(["cat", "dog", "eel"])
    np.savez(tmp_path / "a.npz", image=np.eye(3), class_id=np.array([2, 0, 2]), label_names=names)
    data = read(tmp_path / "a.npz")
    assert data.label_names == ("cat", "dog", "eel")
    np.testing.assert_array_equal(data.labels, [[0, 0, 1], [1, 0, 0], [0, 0, 1]])


def test_label_names_may_be_in_another_order(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", image=np.eye(2), labels=np.array(["dog", "cat"]))
    assert read(tmp_path / "a.npz", label_names=["dog", "cat"]).labels.tolist() == [[1, 0], [0, 1]]


def test_class_numbers_beyond_the_names_are_an_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", image=np.eye(2), labels=np.array([0, 5]))
    with pytest.raises(LabelError, match="from 0 to 5"):
        read(tmp_path / "a.npz", label_names=["cat", "dog"])


def test_ids_of_other_rows_are_left_alone(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", image=np.eye(2), labels=np.eye(2), image_id=np.arange(5, 10))
    assert read(tmp_path / "a.npz").ids.tolist() == [0, 1]


def test_arrays_of_the_second_format_are_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive, archive.open("x.npy", "w") as member:
        np.lib.format.write_array(member, np.eye(3), version=(2, 0))
    np.testing.assert_array_equal(read(tmp_path / "a.npz").views["x"], np.eye(3))


def test_views_labels_and_ids_can_be_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", img=np.eye(3), L=np.array([0, 1, 1]), key=np.array([7, 8, 9]))
    data = read(tmp_path / "a.npz", views={"image": "img"}, labels="L", ids="key")
    assert list(data.views) == ["image"]
    assert data.labels.shape == (3, 2)
    assert data.ids.tolist() == [7, 8, 9]


def test_without_labels_all_matrices_of_one_row_count_are_views(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", audio=np.eye(3), text=np.eye(3, 8))
    data = read(tmp_path / "a.npz")
    assert list(data.views) == ["audio", "text"]
    assert data.labels is None


def test_big_endian_and_integer_views_are_kept_as_numbers(tmp_path: Path) -> None:
    values = np.arange(6).reshape(3, 2)
    np.savez(tmp_path / "a.npz", image=values.astype(">f4"), text=values.astype(np.int16))
    data = read(tmp_path / "a.npz")
    assert data.views["image"].dtype == np.dtype("=f4")
    assert data.views["text"].dtype == np.int16
    np.testing.assert_array_equal(data.views["image"], values)


@pytest.mark.parametrize(
    ("arrays", "options", "error", "message"),
    [
        ({}, {}, InvalidInputError, "no matrix of numbers; it is empty"),
        ({"names": np.array(["a"])}, {}, InvalidInputError, "no matrix of numbers"),
        (
            {"a": np.eye(2), "b": np.eye(3)},
            {},
            InvalidInputError,
            "row counts",
        ),
        (
            {"a": np.eye(2), "labels": np.array([0, 1, 1])},
            {},
            InvalidInputError,
            "no matrix of numbers with 3 rows",
        ),
        (
            {"image": np.eye(3), "text": np.eye(2), "labels": np.array([0, 1, 1])},
            {},
            ViewError,
            "view 'text' has 2 rows, but there are 3 items",
        ),
        ({"a": np.eye(2)}, {"views": {"image": "b"}}, InvalidInputError, "no array 'b'"),
        ({"a": np.eye(2)}, {"labels": "L"}, InvalidInputError, "'L'"),
        ({"a": np.eye(2)}, {"ids": "key"}, InvalidInputError, "'key'"),
        (
            {"a": np.eye(2), "L": np.eye(3)},
            {"views": {"image": "a"}, "labels": "L"},
            ViewError,
            "'L' has 3 rows, but there are 2 items",
        ),
        (
            {"a": np.eye(2), "b": np.eye(3)},
            {"views": {"image": "a", "text": "b"}},
            ViewError,
            "'b' has 3 rows, but there are 2 items",
        ),
        ({"a": np.empty((0, 2))}, {}, ViewError, "no rows"),
        ({"a": np.array([[np.nan]])}, {}, ViewError, "NaN or infinite value in row 0"),
        ({"a": np.array(3.0), "labels": np.array(1)}, {}, InvalidInputError, "a scalar"),
        (
            {"a": np.eye(2), "train_idx": np.array([0, 5])},
            {},
            InvalidInputError,
            "split 'train' has row numbers from 0 to 5",
        ),
    ],
)
def test_ambiguous_files_are_rejected_with_the_reason(
    tmp_path, arrays, options, error, message
) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(error, match=message):
        read(tmp_path / "a.npz", **options)


def test_chunks_of_no_rows_are_an_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", image=np.empty((0, 2)))
    with pytest.raises(ViewError, match="no rows"):
        next(read_in_chunks(tmp_path / "a.npz"))


def test_row_numbers_of_parts_can_be_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", image=np.eye(3), first=np.array([0, 2]), last=np.array([1]))
    data = read(tmp_path / "a.npz", splits={"train": "first", "test": "last"})
    assert {part: rows.tolist() for part, rows in data.splits.items()} == {
        "train": [0, 2], "test": [1],
    }  # fmt: skip


@pytest.mark.parametrize("names", [None, ["cat", "dog"]])
def test_class_ids_may_be_whole_floats(tmp_path, names) -> None:
    np.savez(tmp_path / "a.npz", image=np.eye(3), labels=np.array([1.0, 0.0, 1.0]))
    data = read(tmp_path / "a.npz", label_names=names)
    assert data.label_names == tuple(names or ("0", "1"))
    np.testing.assert_array_equal(data.labels, [[0, 1], [1, 0], [0, 1]])
    chunks = list(read_in_chunks(tmp_path / "a.npz", chunk_size=2, label_names=names))
    np.testing.assert_array_equal(chunks[1].labels, [[0, 1]])


def test_class_ids_that_are_no_integers_are_rejected(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", image=np.eye(3), labels=np.array([1.5, 0.0, np.nan]))
    with pytest.raises(LabelError, match="numbers"):
        read(tmp_path / "a.npz")

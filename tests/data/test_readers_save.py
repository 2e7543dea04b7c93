"""Writing .npz files: data are read back unchanged, and a crash leaves no partial file."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from acqh.data import MultiViewData, list_chunks, read, read_chunks, save_npz
from acqh.errors import CorruptBundleError, InvalidInputError


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


DTYPES = ("float16", "float32", "float64", "int8", "int64", "uint8", "bool")
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@st.composite
def views(draw, n_items: int):
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    elements = hnp.from_dtype(dtype, allow_nan=False, allow_infinity=False)
    matrix = draw(hnp.arrays(dtype, (n_items, draw(st.integers(1, 4))), elements=elements))
    sparse = draw(st.booleans()) and dtype != np.float16
    return sp.csr_array(matrix) if sparse else matrix


@st.composite
def datasets(draw):
    n = draw(st.integers(1, 6))
    labels = None
    if draw(st.booleans()):
        labels = draw(
            hnp.arrays(np.uint8, (n, draw(st.integers(1, 3))), elements=st.integers(0, 1))
        )
        labels = sp.csr_array(labels) if draw(st.booleans()) else labels
    names = draw(st.lists(NAMES.filter(lambda s: not s.endswith("\0")), unique=True, min_size=3))
    ids = draw(st.none() | st.lists(st.integers(0, 99), min_size=n, max_size=n, unique=True))
    texts = draw(st.lists(NAMES, min_size=n, max_size=n))
    present = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    return MultiViewData(
        {"image": draw(views(n)), "text": draw(views(n))},
        labels,
        ids=ids,
        items={"caption": texts, "size": np.arange(n), "box": np.ones((n, 2)), "image_id": texts},
        label_names=None if labels is None else names[: labels.shape[1]],
        present={"text": present},
        splits={"train": [0], **({"test": [1]} if n > 1 else {})},
        name="saved",
    )


def assert_same_matrix(first, second) -> None:
    assert sp.issparse(first) == sp.issparse(second)
    assert first.dtype == second.dtype
    if sp.issparse(first):
        first, second = first.toarray(), second.toarray()
    np.testing.assert_array_equal(first, second)


def assert_same(first: MultiViewData, second: MultiViewData) -> None:
    assert list(first.views) == list(second.views)
    for view in first.views:
        assert_same_matrix(first.views[view], second.views[view])
        np.testing.assert_array_equal(first.present[view], second.present[view])
    assert (first.labels is None) == (second.labels is None)
    if first.labels is not None:
        assert_same_matrix(first.labels, second.labels)
    assert first.label_names == second.label_names
    np.testing.assert_array_equal(first.ids, second.ids)
    assert list(first.items) == list(second.items)
    for column in first.items:
        assert first.items[column].dtype == second.items[column].dtype
        np.testing.assert_array_equal(first.items[column], second.items[column])
    assert first.splits.keys() == second.splits.keys()
    for part in first.splits:
        np.testing.assert_array_equal(first.splits[part], second.splits[part])
    assert first.name == second.name


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=datasets(), compress=st.booleans())
def test_saved_data_are_read_back_unchanged(tmp_path: Path, data, compress) -> None:
    path = tmp_path / "saved.npz"
    save_npz(data, path, compress=compress)
    assert_same(read(path), data)
    chunks = list(read_in_chunks(path, chunk_size=2))
    parts = list(data.chunks(2))
    assert len(chunks) == len(parts)
    for chunk, part in zip(chunks, parts, strict=True):
        assert_same(chunk, part)


def test_the_same_data_give_the_same_bytes(tmp_path: Path) -> None:
    data = MultiViewData({"image": np.eye(3)}, labels=[0, 1, 2])
    save_npz(data, tmp_path / "a.npz")
    save_npz(data, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_failed_write_leaves_the_old_file_and_no_scratch(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.npz"
    save_npz(MultiViewData({"image": np.eye(2)}), path)
    old = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save_npz(MultiViewData({"image": np.eye(3)}), path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "name", ["labels", "ids", "image_id", "class_id", "item_a", "present_a", "a_idx"]
)
def test_reserved_view_names_are_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="reserved"):
        save_npz(MultiViewData({name: np.eye(2)}), tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["a_data", "a_indptr", "a_utf8"])
def test_reserved_column_names_are_rejected(tmp_path: Path, name: str) -> None:
    data = MultiViewData({"image": np.eye(2)}, items={name: [1, 2]})
    with pytest.raises(InvalidInputError, match="reserved"):
        save_npz(data, tmp_path / "a.npz")


def test_names_that_cannot_be_file_names_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="name"):
        save_npz(MultiViewData({"a/b": np.eye(2)}), tmp_path / "a.npz")


def test_reserved_split_names_are_rejected(tmp_path: Path) -> None:
    data = MultiViewData({"image": np.eye(2)}, splits={"item_a": [0]})
    with pytest.raises(InvalidInputError, match="reserved"):
        save_npz(data, tmp_path / "a.npz")


def test_columns_of_other_objects_are_rejected(tmp_path: Path) -> None:
    data = MultiViewData({"image": np.eye(2)}, items={"picture": [b"x", b"y"]})
    with pytest.raises(InvalidInputError, match="'picture'"):
        save_npz(data, tmp_path / "a.npz")


def test_texts_that_are_invalid_unicode_are_rejected(tmp_path: Path) -> None:
    data = MultiViewData({"image": np.eye(2)}, items={"text": ["a", "\ud800"]})
    with pytest.raises(InvalidInputError, match="column"):
        save_npz(data, tmp_path / "a.npz")


def test_label_names_that_numpy_would_shorten_are_rejected(tmp_path: Path) -> None:
    data = MultiViewData({"image": np.eye(2)}, np.eye(2), label_names=["a", "b\0"])
    with pytest.raises(InvalidInputError, match="NUL"):
        save_npz(data, tmp_path / "a.npz")


def test_the_file_name_must_end_in_npz(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"must end in \.npz"):
        save_npz(MultiViewData({"image": np.eye(2)}), tmp_path / "a.zip")


def test_damaged_texts_are_an_error(tmp_path: Path) -> None:
    good = {"image": np.eye(2), "item_a_offsets": np.array([0, 1, 2])}
    np.savez(tmp_path / "a.npz", **good, item_a_utf8=np.array([255, 65], dtype=np.uint8))
    with pytest.raises(CorruptBundleError, match="'item_a'"):
        read(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", **good, item_a_utf8=np.array([65.0, 65.0]))
    with pytest.raises(CorruptBundleError, match="not bytes"):
        read(tmp_path / "b.npz")


@pytest.mark.parametrize("view", ["y", "Target"])
def test_a_view_that_would_be_read_as_labels_is_rejected_without_labels(tmp_path, view):
    path = tmp_path / "x.npz"
    with pytest.raises(InvalidInputError, match="rename it"):
        save_npz(MultiViewData({view: np.eye(2)}), path)
    save_npz(MultiViewData({view: np.eye(2)}, labels=["cat", "dog"]), path)
    assert list(read(path).views) == [view]

"""Folders of .npy files, memory-mapped."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from acqh.data import MultiViewData, list_chunks, read, read_chunks
from acqh.errors import CorruptBundleError, InvalidInputError


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


def save_folder(folder: Path, **arrays: np.ndarray) -> Path:
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def test_a_folder_is_read_like_an_npz_file(tmp_path: Path) -> None:
    tags = sp.random_array((6, 4), density=0.5, format="csr", rng=np.random.default_rng(0))
    folder = save_folder(
        tmp_path / "pairs",
        image=np.arange(12.0).reshape(6, 2),
        text_data=tags.data,
        text_indices=tags.indices,
        text_indptr=tags.indptr,
        text_shape=np.array(tags.shape),
        labels=np.eye(6, 3, dtype=np.uint8),
        train_idx=np.arange(4),
        test_idx=np.array([4, 5]),
    )
    data = read(folder)
    assert data.name == "pairs"
    assert data.splits["test"].tolist() == [4, 5]
    np.testing.assert_array_equal(data.views["image"], np.arange(12.0).reshape(6, 2))
    np.testing.assert_array_equal(data.views["text"].toarray(), tags.toarray())
    together = MultiViewData.concat(list(read_in_chunks(folder, chunk_size=4)))
    np.testing.assert_array_equal(together.views["image"], data.views["image"])
    np.testing.assert_array_equal(together.views["text"].toarray(), tags.toarray())
    np.testing.assert_array_equal(together.labels, data.labels)


def test_views_of_a_folder_stay_on_disk(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "pairs", image=np.eye(3), text=np.asfortranarray(np.eye(3, 5)))
    data = read(folder)
    for view in data.views.values():
        base = view
        while isinstance(base.base, np.ndarray):
            base = base.base
        assert isinstance(base, np.memmap)
        assert not view.flags.writeable


def test_sparse_labels_in_chunks(tmp_path: Path) -> None:
    labels = sp.csr_array(np.eye(3, dtype=np.uint8))
    folder = save_folder(
        tmp_path / "pairs",
        image=np.eye(3),
        labels_data=labels.data,
        labels_indices=labels.indices,
        labels_indptr=labels.indptr,
        labels_shape=np.array([3, 3]),
    )
    np.testing.assert_array_equal(read(folder).labels.toarray(), np.eye(3))


def test_a_cut_off_array_is_an_error(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "pairs", image=np.eye(30))
    content = (folder / "image.npy").read_bytes()
    (folder / "image.npy").write_bytes(content[:-5])
    with pytest.raises(CorruptBundleError, match="declares"):
        read(folder)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "pairs", image=np.eye(2), labels=np.array([{1}, {2}]))
    with pytest.raises(InvalidInputError, match="pickled"):
        read(folder)


def test_empty_chunks_can_be_mapped(tmp_path: Path) -> None:
    folder = save_folder(
        tmp_path / "pairs",
        image=np.eye(2),
        text_data=np.empty(0),
        text_indices=np.empty(0, dtype=np.int32),
        text_indptr=np.zeros(3, dtype=np.int32),
        text_shape=np.array([2, 4]),
    )
    assert read(folder).views["text"].nnz == 0

"""Options of the wrong type and invalid paths raise acqh errors."""

from pathlib import Path

import numpy as np
import pytest

from acqh.data import list_chunks, read, read_records
from acqh.errors import InvalidInputError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    np.savez(tmp_path / "pets.npz", image=np.eye(3), labels=[0, 1, 0])
    return tmp_path / "pets.npz"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": ["image"]}, r"views must be a mapping .*, got \['image'\]"),
        ({"views": "image"}, "views must be a mapping .*, got 'image'"),
        ({"views": {"image": 3}}, "views must be a mapping"),
        ({"views": {}}, "views must be a mapping"),
        ({"labels": []}, r"labels must be a name, got \[\]"),
        ({"labels": ["labels"]}, "labels must be a name"),
        ({"ids": 3}, "ids must be a name, got 3"),
        ({"max_bytes": "x"}, "max_bytes must be a positive whole number, got 'x'"),
        ({"max_bytes": 0}, "max_bytes must be a positive whole number, got 0"),
        ({"label_names": "cat"}, "label_names must be a list of names, got 'cat'"),
        ({"label_names": 3}, "label_names must be a list of names, got 3"),
        ({"splits": "train"}, "splits must be a mapping .*, got 'train'"),
    ],
)
def test_an_option_of_the_wrong_type_is_named(path, options, message):
    for action in (read, list_chunks):
        with pytest.raises(InvalidInputError, match=message):
            action(path, **options)


def test_a_mat_variable_that_is_no_name_is_rejected(tmp_path):
    (tmp_path / "a.mat").write_bytes(b"")
    for views in (["XAll"], {"image": 3}, {"image": {"train": 3}}):
        with pytest.raises(InvalidInputError, match="mapping"):
            read(tmp_path / "a.mat", views=views)
    with pytest.raises(InvalidInputError, match="labels"):
        read(tmp_path / "a.mat", labels={"train": 3})


def test_whether_missing_chunks_are_filled_is_true_or_false(tmp_path):
    (tmp_path / "zarr.json").touch()
    with pytest.raises(InvalidInputError, match="'yes'"):
        read(tmp_path, fill_missing="yes")


@pytest.mark.parametrize("action", [read, read_records, list_chunks])
@pytest.mark.parametrize("path", [None, 3])
def test_values_that_are_no_paths_are_rejected(action, path):
    with pytest.raises(InvalidInputError, match=f"got {path}"):
        action(path)


def test_an_empty_list_of_files_is_rejected():
    with pytest.raises(InvalidInputError, match="files"):
        list_chunks([])


def test_relative_and_absolute_paths_can_be_listed_together(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    for name in ("a.parquet", "b.parquet"):
        parquet.write_table(pa.table({"image": [[1.0, 2.0]]}), name)
    assert list_chunks(["a.parquet", tmp_path / "b.parquet"]).n_items == 2

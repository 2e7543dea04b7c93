"""Choice of the reader for a file."""

from pathlib import Path

import numpy as np
import pytest
import scipy.io

from acqh.data import MultiViewData, list_chunks, read, read_chunks, read_records
from acqh.errors import DatasetNotFoundError, InvalidInputError, LabelError


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


ARRAYS = {"XAll": np.eye(4, 3), "LAll": np.eye(4, 2)}


@pytest.mark.parametrize("action", [read, read_in_chunks, read_records])
def test_a_missing_file_is_named(tmp_path: Path, action) -> None:
    with pytest.raises(DatasetNotFoundError, match=r"nothing\.npz"):
        action(tmp_path / "nothing.npz")
    with pytest.raises(FileNotFoundError):
        action(str(tmp_path / "nothing.npz"))


def test_files_without_a_known_extension_are_detected_by_their_first_bytes(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    np.savez(tmp_path / "a.npz", image=np.eye(4, 3))
    scipy.io.savemat(tmp_path / "b.mat", ARRAYS)
    parquet.write_table(arrow.table({"image": list(np.eye(4, 3))}), tmp_path / "c.parquet")
    for name in ("a.npz", "b.mat", "c.parquet"):
        plain = (tmp_path / name).rename(tmp_path / f"{name[0]}.bin")
        data = MultiViewData.from_files(plain)
        np.testing.assert_array_equal(data.views["image"], np.eye(4, 3))


def test_endings_may_be_upper_case(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "A.MAT", ARRAYS, appendmat=False)
    assert len(read(tmp_path / "A.MAT")) == 4


def test_a_file_of_unknown_format_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text("hello")
    with pytest.raises(InvalidInputError, match="unknown"):
        read(tmp_path / "a.xyz")


def test_a_folder_of_unknown_files_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="Parquet"):
        read(tmp_path)


def test_an_option_of_another_kind_of_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", image=np.eye(4, 3))
    with pytest.raises(InvalidInputError, match=r"'variables'"):
        read(tmp_path / "a.npz", variables={})


def test_label_names_without_labels_are_rejected(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    np.savez(tmp_path / "a.npz", image=np.eye(4, 3))
    scipy.io.savemat(tmp_path / "a.mat", {"I": np.eye(4, 3), "T": np.eye(4, 2)})
    parquet.write_table(arrow.table({"image": list(np.eye(4, 3))}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("image_0\n1\n")
    for ending in ("npz", "mat", "parquet", "csv"):
        path = tmp_path / f"a.{ending}"
        with pytest.raises(LabelError, match="label_names"):
            read(path, label_names=["x"])


@pytest.mark.parametrize("chunk_size", [0, -1, 1.5, True])
def test_chunk_sizes_are_positive_whole_numbers(tmp_path: Path, chunk_size) -> None:
    with pytest.raises(InvalidInputError, match="number"):
        list_chunks(tmp_path / "a.npz", chunk_size=chunk_size)

"""Damaged and hostile Matlab files: a clear error, nothing executed, no other file opened."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acqh.data import read
from acqh.errors import AcqhError, CorruptBundleError, InvalidInputError

h5py = pytest.importorskip("h5py")

VARIABLES: dict[str, Any] = {
    "XAll": np.arange(18.0).reshape(6, 3),
    "YAll": sp.csc_matrix(np.eye(6, 4)),
    "LAll": np.eye(6, 2),
}


def test_a_file_that_is_no_matlab_file(tmp_path: Path) -> None:
    (tmp_path / "a.mat").write_text("hello " * 100)
    with pytest.raises(CorruptBundleError, match=r"a\.mat"):
        read(tmp_path / "a.mat")


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.mat").touch()
    with pytest.raises(CorruptBundleError, match="start"):
        read(tmp_path / "a.mat")


@pytest.mark.parametrize("compressed", [False, True])
def test_an_old_file_cut_off_anywhere(tmp_path: Path, compressed: bool) -> None:
    scipy.io.savemat(tmp_path / "a.mat", VARIABLES, do_compression=compressed)
    content = (tmp_path / "a.mat").read_bytes()
    for length in range(0, len(content) - 8, 23):
        (tmp_path / "cut.mat").write_bytes(content[:length])
        with pytest.raises(AcqhError):
            read(tmp_path / "cut.mat")


def test_a_new_file_cut_off_anywhere(tmp_path: Path, save_new_mat) -> None:
    save_new_mat(tmp_path / "a.mat", VARIABLES)
    content = (tmp_path / "a.mat").read_bytes()
    for length in range(0, len(content) - 8, 511):
        (tmp_path / "cut.mat").write_bytes(content[:length])
        with pytest.raises(CorruptBundleError):
            read(tmp_path / "cut.mat")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(compressed=st.booleans(), data=st.data())
def test_changed_bytes_of_an_old_file_give_data_or_one_of_our_errors(
    tmp_path: Path, compressed, data
) -> None:
    dense = {"XAll": np.arange(18.0).reshape(6, 3), "LAll": np.eye(6, 2)}
    scipy.io.savemat(tmp_path / "a.mat", dense, do_compression=compressed)
    content = bytearray((tmp_path / "a.mat").read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "a.mat").write_bytes(content)
    with contextlib.suppress(AcqhError):
        read(tmp_path / "a.mat")


def test_sparse_indices_outside_the_matrix_are_rejected(tmp_path: Path) -> None:
    matrix = sp.csc_matrix(np.eye(6, 4))
    scipy.io.savemat(tmp_path / "a.mat", {**VARIABLES, "YAll": matrix})
    content = (tmp_path / "a.mat").read_bytes()
    rows = matrix.indices.astype("<i4").tobytes()
    hostile = np.array([0, 1, 2, 10**6], dtype="<i4").tobytes()
    assert rows in content
    (tmp_path / "a.mat").write_bytes(content.replace(rows, hostile, 1))
    with pytest.raises(CorruptBundleError, match="1000000"):
        read(tmp_path / "a.mat")


@pytest.mark.parametrize(
    ("member", "values", "message"),
    [
        ("ir", [0, 1, 2, 99], "index 99"),
        ("ir", [0, 1, 2], "but 3 values are stored"),
        ("jc", [0, 3, 2, 3, 4], "pointers fall after row 1"),
        ("jc", [0, 1, 2, 3, 9], "pointers go from 0 to 9"),
        ("jc", [0.0, 1.0, 2.0, 3.0, 4.0], "whole numbers"),
    ],
)
def test_sparse_arrays_of_version_73_files_are_checked(
    tmp_path, save_new_mat, member, values, message
) -> None:
    save_new_mat(tmp_path / "a.mat", VARIABLES)
    with h5py.File(tmp_path / "a.mat", "r+") as file:
        del file[f"YAll/{member}"]
        file[f"YAll/{member}"] = np.array(values)
    with pytest.raises(CorruptBundleError, match=message):
        read(tmp_path / "a.mat")


def test_a_sparse_matrix_without_pointers_is_rejected(tmp_path, save_new_mat) -> None:
    save_new_mat(tmp_path / "a.mat", VARIABLES)
    with h5py.File(tmp_path / "a.mat", "r+") as file:
        del file["YAll/jc"]
    with pytest.raises(CorruptBundleError, match="damaged"):
        read(tmp_path / "a.mat")


def replace_image(path: Path, save_new_mat, make) -> None:
    save_new_mat(path, VARIABLES)
    with h5py.File(path, "r+") as file:
        del file["XAll"]
        make(file)


@pytest.mark.parametrize("link", [h5py.ExternalLink("other.h5", "/x"), h5py.SoftLink("/LAll")])
def test_links_are_not_followed(tmp_path, save_new_mat, link) -> None:
    def make(file) -> None:
        file["XAll"] = link

    replace_image(tmp_path / "a.mat", save_new_mat, make)
    with pytest.raises(InvalidInputError, match="'XAll'"):
        read(tmp_path / "a.mat")


def test_values_kept_in_other_files_are_not_read(tmp_path, save_new_mat) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(8 * 18))

    def make(file) -> None:
        external = [(str(tmp_path / "secret.bin"), 0, 8 * 18)]
        file.create_dataset("XAll", shape=(3, 6), dtype="f8", external=external)

    replace_image(tmp_path / "a.mat", save_new_mat, make)
    with pytest.raises(InvalidInputError, match="values"):
        read(tmp_path / "a.mat")


def test_virtual_values_are_not_read(tmp_path, save_new_mat) -> None:
    def make(file) -> None:
        layout = h5py.VirtualLayout(shape=(3, 6), dtype="f8")
        layout[:] = h5py.VirtualSource("other.h5", "x", shape=(3, 6))
        file.create_virtual_dataset("XAll", layout)

    replace_image(tmp_path / "a.mat", save_new_mat, make)
    with pytest.raises(InvalidInputError, match="values"):
        read(tmp_path / "a.mat")


def test_a_small_file_that_declares_a_huge_matrix_is_rejected(tmp_path, save_new_mat) -> None:
    def make(file) -> None:
        file.create_dataset("XAll", shape=(10**6, 10**6), dtype="f8", chunks=(1000, 1000))

    replace_image(tmp_path / "a.mat", save_new_mat, make)
    with pytest.raises(InvalidInputError, match="would take 8,000,000"):
        read(tmp_path / "a.mat")


def test_an_old_file_that_declares_too_much_is_rejected(tmp_path: Path) -> None:
    zeros = np.zeros((3000, 1500))
    scipy.io.savemat(tmp_path / "a.mat", {"XAll": zeros}, do_compression=True)
    with pytest.raises(InvalidInputError, match="max_bytes=360000"):
        read(tmp_path / "a.mat", max_bytes=10**6)


def test_cells_functions_and_nested_structs_are_listed_but_not_read(tmp_path: Path) -> None:
    cell = np.empty((2, 2), dtype=object)
    cell[:] = [[1, "a"], [2, "b"]]
    nested = {"deep": {"deeper": np.eye(2)}, "names": cell}
    scipy.io.savemat(tmp_path / "a.mat", {**VARIABLES, "T": cell, "param": nested})
    assert list(read(tmp_path / "a.mat").views) == ["image", "text"]


def test_cells_of_a_new_file_are_listed_but_not_read(tmp_path, save_new_mat) -> None:
    save_new_mat(tmp_path / "a.mat", {**VARIABLES, "note": "text", "s": {"t": {"u": np.eye(2)}}})
    with h5py.File(tmp_path / "a.mat", "r+") as file:
        references = file.create_group("#refs#")
        references["a"] = np.eye(2)
        cell = file.create_dataset("T", shape=(1, 2), dtype=h5py.ref_dtype)
        cell[0, 0] = references["a"].ref
        cell.attrs["MATLAB_class"] = np.bytes_("cell")
        file["I"] = np.array([0, 0], dtype=np.uint64)
        file["I"].attrs["MATLAB_empty"] = 1
    assert list(read(tmp_path / "a.mat").views) == ["image", "text"]


def test_lists_of_plain_hdf5_are_columns(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file["XAll"] = np.arange(12.0).reshape(2, 6)
        file["LAll"] = np.array([0, 1, 0, 1, 1, 0])
    data = read(tmp_path / "a.mat")
    assert data.views["image"].shape == (6, 2)
    assert data.label_names == ("0", "1")

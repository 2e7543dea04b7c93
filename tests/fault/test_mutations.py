"""Randomly damaged files raise acqh errors; `make soak` tries many more."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from acqh.data import read
from acqh.errors import CorruptBundleError

pytest.importorskip("pyarrow")
pytest.importorskip("h5py")
pytest.importorskip("zarr")

TOOL = Path(__file__).resolve().parents[2] / "tools" / "mutate.py"


@pytest.fixture(scope="module")
def mutate():
    spec = importlib.util.spec_from_file_location("mutate", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_damaged_files_raise_only_acqh_errors(mutate):
    result = mutate.run(seed=0, n_rounds=400, seconds=None)
    assert result["files"] == 400
    assert result["refused"] > 200
    assert [
        (failure["kind"], failure["number"], failure["error"]) for failure in result["failures"]
    ] == []


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4\x00, 3), }",
        b"{'descr': '<f4",
    ],
)
def test_a_damaged_array_header_is_a_corrupt_file(tmp_path, header):
    text = header.ljust(118) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(48)
    (tmp_path / "image.npy").write_bytes(content)
    with pytest.raises(CorruptBundleError, match=r"image.npy"):
        read(tmp_path)


def test_texts_that_are_no_unicode_are_a_corrupt_file(tmp_path):
    ids = np.array(["a", "b"])
    ids.view(np.uint32)[1] = 0x110000
    np.savez(tmp_path / "x.npz", image=np.eye(2), ids=ids)
    with pytest.raises(CorruptBundleError, match="not Unicode"):
        read(tmp_path / "x.npz")

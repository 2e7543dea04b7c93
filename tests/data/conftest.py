"""Writers of files that no library writes for us."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

_CLASSES = {"float64": "double", "float32": "single", "bool": "logical", "str": "char"}


def _save_new_mat(path: Path, variables: Mapping[str, Any]) -> None:
    """Write matrices, sparse matrices and (as mappings) structs as Matlab 7.3 does.

    That is HDF5 behind a head of 512 bytes, with the dimensions in reverse order.
    """
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            _write(file, name, value)
    text = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5"
    head = text.ljust(116) + bytes(8) + b"\x00\x02IM"
    with path.open("r+b") as handle:
        handle.write(head.ljust(512, b"\0"))


def _write(group: Any, name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        struct = group.create_group(name)
        struct.attrs["MATLAB_class"] = np.bytes_("struct")
        for field, content in value.items():
            _write(struct, field, content)
    elif sp.issparse(value):
        _write_sparse(group, name, sp.csc_array(value))
    elif isinstance(value, str):
        codes = np.array([[ord(letter)] for letter in value], dtype=np.uint16)
        group[name] = codes
        group[name].attrs["MATLAB_class"] = np.bytes_("char")
    else:
        array = np.atleast_2d(np.asarray(value))
        stored = array.astype(np.uint8) if array.dtype == bool else array
        group[name] = stored.T
        kind = _CLASSES.get(array.dtype.name, array.dtype.name)
        group[name].attrs["MATLAB_class"] = np.bytes_(kind)


def _write_sparse(group: Any, name: str, matrix: sp.csc_array) -> None:
    node = group.create_group(name)
    node.attrs["MATLAB_class"] = np.bytes_("double")
    node.attrs["MATLAB_sparse"] = np.uint64(matrix.shape[0])
    if matrix.nnz:
        node["data"] = matrix.data.astype(np.float64)
        node["ir"] = matrix.indices.astype(np.uint64)
    node["jc"] = matrix.indptr.astype(np.uint64)


@pytest.fixture
def save_new_mat() -> Callable[[Path, Mapping[str, Any]], None]:
    return _save_new_mat


@pytest.fixture(params=["v5", "v5 compressed", "v7.3"])
def save_mat(request) -> Callable[[Path, Mapping[str, Any]], None]:
    """Write a Matlab file, in each of the formats in turn."""
    if request.param == "v7.3":
        return _save_new_mat
    compressed = request.param != "v5"
    return lambda path, variables: scipy.io.savemat(path, variables, do_compression=compressed)

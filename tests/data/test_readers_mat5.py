"""The reader of Matlab's version 5, compared with SciPy's, and on files that only Matlab writes."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from acqh.data.readers.mat_files import Mat5File
from acqh.errors import CorruptBundleError

DOUBLE, SPARSE, STRUCT = 6, 5, 2
KINDS = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), compressed=st.booleans(), sparse=st.booleans())
def test_matrices_equal_those_that_scipy_reads(tmp_path: Path, data, compressed, sparse) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(KINDS)))
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=3, min_side=1, max_side=5))
    array = data.draw(hnp.arrays(dtype, shape, elements=hnp.from_dtype(dtype, allow_nan=False)))
    if sparse and array.ndim == 2:
        array = sp.csc_array(array.astype(bool if dtype.kind == "b" else float))
    name = data.draw(st.from_regex(r"[A-Za-z]\w{0,10}", fullmatch=True).filter(str.isascii))
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {name: array, "other_variable": 1}, do_compression=compressed)
    expected = scipy.io.loadmat(path)[name]
    with Mat5File(path, None) as file:
        result = file.load(name)
        assert file.variables[name].shape == expected.shape
    assert sp.issparse(result) == sp.issparse(expected)
    if sp.issparse(result):
        result, expected = result.toarray(), expected.toarray()
    if dtype.kind == "b":
        expected = expected.astype(bool)
    assert result.dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(result, expected)


def element(kind: int, content: bytes, order: str = "<") -> bytes:
    if 0 < len(content) <= 4:
        return struct.pack(f"{order}I", len(content) << 16 | kind) + content.ljust(4, b"\0")
    padding = bytes(-len(content) % 8)
    return struct.pack(f"{order}II", kind, len(content)) + content + padding


def matrix(name: str, shape: tuple[int, ...], *body: bytes, kind: int = DOUBLE, order="<") -> bytes:
    content = element(6, struct.pack(f"{order}II", kind, 0), order)
    content += element(5, struct.pack(f"{order}{len(shape)}i", *shape), order)
    content += element(1, name.encode(), order)
    return element(14, content + b"".join(body), order)


def save(path: Path, *variables: bytes, order: str = "<") -> Path:
    mark = b"IM" if order == "<" else b"MI"
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(f"{order}H", 0x0100) + mark
    path.write_bytes(head + b"".join(variables))
    return path


@pytest.mark.parametrize("order", ["<", ">"])
def test_doubles_stored_in_fewer_bytes_are_doubles(tmp_path: Path, order: str) -> None:
    small = matrix("a", (1, 3), element(2, bytes([1, 2, 255]), order), order=order)
    wide = element(3, struct.pack(f"{order}6h", *range(-3, 3)), order)
    path = save(tmp_path / "a.mat", small, matrix("b", (2, 3), wide, order=order), order=order)
    with Mat5File(path, None) as file:
        assert file.load("a").dtype == np.float64
        np.testing.assert_array_equal(file.load("a"), [[1, 2, 255]])
        np.testing.assert_array_equal(file.load("b"), [[-3, -1, 1], [-2, 0, 2]])


def test_padding_after_the_last_sparse_entry_is_ignored(tmp_path: Path) -> None:
    rows = element(5, struct.pack("<4i", 0, 1, 9, 9))
    columns = element(5, struct.pack("<4i", 0, 1, 2, 2))
    values = element(9, struct.pack("<4d", 5, 6, 0, 0))
    path = save(tmp_path / "a.mat", matrix("a", (2, 3), rows, columns, values, kind=SPARSE))
    with Mat5File(path, None) as file:
        np.testing.assert_array_equal(file.load("a").toarray(), [[5, 0, 0], [0, 6, 0]])


def packed(content: bytes) -> bytes:
    stored = zlib.compress(content)
    return struct.pack("<II", 15, len(stored)) + stored


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (b"\0\0\0", "cut off"),
        (struct.pack("<II", 14, 10**9), "goes beyond the end"),
        (struct.pack("<II", 99, 0), "an element of type 99"),
        (struct.pack("<II", 15, 4) + b"xxxx", "header"),
        (packed(b""), "a packed variable is empty"),
        (packed(struct.pack("<II", 9, 8) + bytes(8)), "not one"),
        (packed(struct.pack("<II", 14, 2**31) + bytes(8)), "not one"),
        (element(14, bytes(16)), "does not start with its class"),
        (element(14, bytes(4) * 3), "inside a variable|does not start"),
        (element(14, element(6, bytes(8)) + element(9, bytes(16))), "has no size"),
        (matrix("a", (3,), b""), r"has the size \(3,\)"),
        (matrix("a", (-1, 3), b""), r"has the size \(-1, 3\)"),
        (matrix("a", (1, 3)), "ends inside a variable"),
        (matrix("a", (1, 3), struct.pack("<II", 9 | 5 << 16, 0)), "longer than the variable"),
        (matrix("a", (1, 3), struct.pack("<II", 9, 1000)), "longer than the variable"),
        (matrix("a", (1, 3), element(77, bytes(24))), "unknown type 77"),
        (matrix("a", (1, 3), element(9, bytes(23))), "values are cut off"),
        (matrix("a", (1, 3), element(9, bytes(16))), r"2 values for the size \(1, 3\)"),
        (matrix("s", (1, 1), element(5, bytes(4)), element(1, b"x"), kind=STRUCT), "length"),
    ],
)
def test_damage_is_reported(tmp_path: Path, variable: bytes, message: str) -> None:
    path = save(tmp_path / "a.mat", variable)

    def load() -> None:
        with Mat5File(path, None) as file:
            file.load("a")

    with pytest.raises(CorruptBundleError, match=message):
        load()


@pytest.mark.parametrize("change", [-1, 8])
def test_a_packed_variable_of_another_size_is_rejected(tmp_path: Path, change: int) -> None:
    inner = matrix("a", (1, 3), element(9, bytes(24)))
    size = struct.unpack("<I", inner[4:8])[0] + change
    path = save(tmp_path / "a.mat", packed(inner[:4] + struct.pack("<I", size) + inner[8:]))
    with Mat5File(path, None) as file, pytest.raises(CorruptBundleError, match="another size"):
        file.load("a")


def test_a_packed_variable_is_compared_with_its_checksum(tmp_path: Path) -> None:
    variable = bytearray(packed(matrix("a", (9, 999), element(9, bytes(8 * 8991)))))
    variable[-1] ^= 1
    path = save(tmp_path / "a.mat", bytes(variable))
    with Mat5File(path, None) as file, pytest.raises(CorruptBundleError, match="incorrect data"):
        file.load("a")


def test_names_of_functions_and_empty_fields_are_skipped(tmp_path: Path) -> None:
    names = b"full".ljust(8, b"\0") + b"empty".ljust(8, b"\0")
    struct_body = [element(5, struct.pack("<i", 8)), element(1, names)]
    full = matrix("", (1, 2), element(9, struct.pack("<2d", 1, 2)))
    variable = matrix("s", (1, 1), *struct_body, full, element(14, b""), kind=STRUCT)
    workspace = matrix("", (1, 2), element(9, bytes(16)))
    path = save(tmp_path / "a.mat", variable, workspace)
    with Mat5File(path, None) as file:
        assert list(file.variables) == ["s", "s.full"]
        np.testing.assert_array_equal(file.load("s.full"), [[1, 2]])

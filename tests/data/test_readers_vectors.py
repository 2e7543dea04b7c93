"""Files of one matrix: .npy, those of the nearest-neighbour benchmarks, Faiss indexes."""

import pickle

import numpy as np
import pytest

from acqh.data import list_chunks, read, read_chunks
from acqh.errors import CorruptBundleError, InvalidInputError, ViewError


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


RNG = np.random.default_rng(0)
FLOATS = RNG.normal(size=(23, 5)).astype(np.float32)
BYTES = RNG.integers(0, 256, (23, 5)).astype(np.uint8)
SMALL = RNG.integers(-128, 128, (23, 5)).astype(np.int8)
INTS = RNG.integers(-9, 10**6, (23, 5)).astype(np.int32)
VECS = {".fvecs": FLOATS, ".bvecs": BYTES, ".ivecs": INTS}
BINS = {".fbin": FLOATS, ".u8bin": BYTES, ".i8bin": SMALL, ".ibin": INTS}
ALL = {**VECS, **BINS, ".npy": FLOATS}


def write(path, matrix):
    if path.suffix == ".npy":
        np.save(path, matrix)
    elif path.suffix in VECS:
        lengths = np.full((len(matrix), 1), matrix.shape[1], "<i4")
        rows = np.hstack([lengths.view("u1"), np.ascontiguousarray(matrix).view("u1")])
        path.write_bytes(rows.tobytes())
    else:
        path.write_bytes(np.array(matrix.shape, "<u4").tobytes() + matrix.tobytes())
    return path


@pytest.mark.parametrize("suffix", ALL)
def test_a_matrix_is_read_whole_in_chunks_and_by_chunks_that_travel(tmp_path, suffix):
    path = write(tmp_path / f"some{suffix}", ALL[suffix])
    full = read(path)
    assert list(full.views) == ["vectors"]
    np.testing.assert_array_equal(full.views["vectors"], ALL[suffix])
    assert full.views["vectors"].dtype == ALL[suffix].dtype
    chunks = list(read_in_chunks(path, chunk_size=7, views={"image": "vectors"}))
    np.testing.assert_array_equal(np.vstack([c.views["image"] for c in chunks]), ALL[suffix])
    chunk = pickle.loads(pickle.dumps(list_chunks(path, chunk_size=10)[2]))  # noqa: S301
    assert chunk.read().ids.tolist() == [20, 21, 22]


@pytest.mark.parametrize("suffix", [".faiss", ".index"])
@pytest.mark.parametrize("kind", ["Flat", "IVF4,Flat", "SQ8"])
def test_the_vectors_of_a_faiss_index_are_read(tmp_path, suffix, kind):
    faiss = pytest.importorskip("faiss")
    index = faiss.index_factory(5, kind)
    vectors = np.random.default_rng(1).random((400, 5), dtype=np.float32)
    index.train(vectors)
    index.add(vectors)
    faiss.write_index(index, str(tmp_path / f"some{suffix}"))
    result = np.vstack(
        [c.views["vectors"] for c in read_in_chunks(tmp_path / f"some{suffix}", chunk_size=150)]
    )
    np.testing.assert_allclose(result, vectors, atol=0.01 if kind == "SQ8" else 0)


def test_a_flat_faiss_index_is_detected_by_its_first_bytes(tmp_path):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatIP(5)
    index.add(FLOATS)
    faiss.write_index(index, str(tmp_path / "vectors"))
    np.testing.assert_array_equal(read(tmp_path / "vectors").views["vectors"], FLOATS)


@pytest.mark.parametrize("suffix", [*VECS, *BINS])
@pytest.mark.parametrize("change", [-1, 3])
def test_a_file_that_is_cut_off_or_too_long_is_rejected(tmp_path, suffix, change):
    path = write(tmp_path / f"some{suffix}", ALL[suffix])
    content = path.read_bytes()
    path.write_bytes(content[:change] if change < 0 else content + b"x" * change)
    with pytest.raises(CorruptBundleError, match="cut off"):
        read(path)


@pytest.mark.parametrize("suffix", BINS)
def test_a_header_that_declares_absurd_sizes_is_rejected_before_allocation(tmp_path, suffix):
    path = tmp_path / f"some{suffix}"
    path.write_bytes(np.array([2**32 - 1, 2**32 - 1], "<u4").tobytes() + bytes(40))
    with pytest.raises(CorruptBundleError, match="take"):
        read(path)


def test_a_row_of_another_length_is_named(tmp_path):
    path = write(tmp_path / "some.fvecs", FLOATS)
    content = bytearray(path.read_bytes())
    content[24 * 11] = 4
    path.write_bytes(bytes(content))
    with pytest.raises(CorruptBundleError, match="row 11"):
        list(read_in_chunks(path, chunk_size=8))


def test_a_length_that_is_not_positive_is_rejected(tmp_path):
    path = tmp_path / "some.fvecs"
    path.write_bytes(np.array([-3, 1], "<i4").tobytes())
    with pytest.raises(CorruptBundleError, match="rows of -3 numbers"):
        read(path)


@pytest.mark.parametrize("suffix", [".fvecs", ".fbin", ".npy"])
def test_a_file_without_rows_is_rejected(tmp_path, suffix):
    path = write(tmp_path / f"none{suffix}", np.empty((0, 3), np.float32))
    with pytest.raises(ViewError, match="no rows"):
        read(path)


def test_an_array_that_is_no_matrix_is_rejected(tmp_path):
    np.save(tmp_path / "some.npy", np.ones(3))
    with pytest.raises(ViewError, match="1 dimensions"):
        read(tmp_path / "some.npy")


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "some.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInputError, match="pickled"):
        read(tmp_path / "some.npy")


def test_a_value_that_is_no_number_is_named_by_its_row(tmp_path):
    vectors = FLOATS.copy()
    vectors[9, 2] = np.nan
    with pytest.raises(ViewError, match="row 9"):
        read(write(tmp_path / "some.fbin", vectors))


def test_files_that_are_no_faiss_index_are_rejected(tmp_path):
    pytest.importorskip("faiss")
    (tmp_path / "some.faiss").write_bytes(b"not at all an index")
    with pytest.raises(CorruptBundleError, match="index"):
        read(tmp_path / "some.faiss")

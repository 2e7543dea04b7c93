"""Chunks of a file: the same rows for every reader and order."""

import os
import pickle
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from acqh.data import MultiViewData, list_chunks, read, read_chunks, save_npz
from acqh.data.readers.chunks import Chunk
from acqh.errors import ViewError


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")

NAMES = ("ape", "bee", "cat")


def make(n_items: int) -> MultiViewData:
    rng = np.random.default_rng(n_items)
    words = sp.random_array((n_items, 7), density=0.3, format="csr", rng=rng)
    return MultiViewData(
        {"image": rng.normal(size=(n_items, 3)), "text": words},
        labels=[{NAMES[i % 3], NAMES[i % 2]} for i in range(n_items)],
        label_names=NAMES,
        ids=[f"id {i}" for i in range(n_items)],
        items={"caption": [f"ä{i}" * (i % 4) for i in range(n_items)]},
    )


def write_npz(data: MultiViewData, folder: Path) -> Path:
    save_npz(data, folder / "data.npz", compress=False)
    return folder / "data.npz"


def write_packed_npz(data: MultiViewData, folder: Path) -> Path:
    save_npz(data, folder / "data.npz")
    return folder / "data.npz"


def write_npy(data: MultiViewData, folder: Path) -> Path:
    with np.load(write_npz(data, folder)) as arrays:
        (folder / "data").mkdir()
        for name, array in arrays.items():
            np.save(folder / "data" / name, array)
    return folder / "data"


def write_columns(data: MultiViewData, folder: Path) -> Path:
    """Write arrays whose columns lie one after another, and class ids."""
    (folder / "data").mkdir()
    np.save(folder / "data" / "image.npy", np.asfortranarray(data.views["image"]))
    np.save(folder / "data" / "labels.npy", np.arange(len(data)) // 2 % 5)
    return folder / "data"


def as_table(data: MultiViewData) -> "arrow.Table":
    labels = [[name for name, has in zip(NAMES, row, strict=True) if has] for row in data.labels]
    return arrow.table(
        {
            "id": data.ids.tolist(),
            "image": list(data.views["image"]),
            "labels": labels,
            "caption": data.items["caption"].tolist(),
        }
    )


def write_parquet(data: MultiViewData, folder: Path) -> Path:
    parquet.write_table(as_table(data), folder / "data.parquet", row_group_size=4)
    return folder / "data.parquet"


def write_parquets(data: MultiViewData, folder: Path) -> Path:
    (folder / "data").mkdir()
    table = as_table(data)
    for number, start in enumerate(range(0, len(data), 5)):
        rows = table.slice(start, 5)
        parquet.write_table(rows, folder / "data" / f"{number:02}.parquet", row_group_size=3)
    return folder / "data"


def write_feather(data: MultiViewData, folder: Path) -> Path:
    path = folder / "data.feather"
    feather.write_feather(as_table(data), path, compression="zstd", chunksize=3)
    return path


def write_arrow(data: MultiViewData, folder: Path) -> Path:
    path = folder / "data.arrow"
    table = as_table(data).select(["image", "labels"])
    with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    return path


def write_csv(data: MultiViewData, folder: Path) -> Path:
    lines = ["labels,image_0,image_1,caption"]
    for row, numbers in enumerate(data.views["image"]):
        names = "|".join(name for name, has in zip(NAMES, data.labels[row], strict=True) if has)
        # A caption of two lines, and a blank line between rows.
        lines.append(f'{names},{numbers[0]},{numbers[1]},"ä\n{row}"' + "\n" * (row % 2))
    (folder / "data.csv").write_text("\n".join(lines), encoding="utf-8-sig")
    return folder / "data.csv"


def write_mat(data: MultiViewData, folder: Path) -> Path:
    matrices = {"XAll": data.views["image"], "LAll": data.labels}
    scipy.io.savemat(folder / "data.mat", matrices)
    return folder / "data.mat"


def write_zarr(data: MultiViewData, folder: Path) -> Path:
    """Write the arrays of version 3, some in shards, and captions as texts of any length."""
    zarr = pytest.importorskip("zarr")
    with np.load(write_npz(data, folder)) as arrays:
        group = zarr.open_group(folder / "data", mode="w", zarr_format=3)
        for name, array in arrays.items():
            if name.startswith("item_") or array.dtype.kind == "U":
                continue
            chunks = (3, *array.shape[1:])
            shards = (6, *array.shape[1:]) if name == "image" else None
            written = group.create_array(
                name,
                shape=array.shape,
                dtype=array.dtype,
                chunks=chunks,
                shards=shards,
                config={"write_empty_chunks": True},
            )
            written[...] = array
        for name, texts in {
            "ids": data.ids,
            "label_names": np.array(data.label_names),
            "item_caption": data.items["caption"],
        }.items():
            written = group.create_array(
                name,
                shape=texts.shape,
                dtype=str,
                chunks=(4,),
                config={"write_empty_chunks": True},
            )
            written[...] = texts.astype(object)
    return folder / "data"


def write_old_zarr(data: MultiViewData, folder: Path) -> Path:
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(folder / "data", mode="w", zarr_format=2)
    image = data.views["image"].astype(">f4")
    array = group.create_array("image", shape=image.shape, dtype=">f4", chunks=(4, 2))
    array[...] = image
    classes = np.arange(1, len(data) + 1)
    array = group.create_array("labels", shape=classes.shape, dtype=classes.dtype, chunks=(100,))
    array[...] = classes
    return folder / "data"


Write = Callable[[MultiViewData, Path], Path]
WRITERS = [
    write_npz,
    write_packed_npz,
    write_npy,
    write_columns,
    write_parquet,
    write_parquets,
    write_feather,
    write_arrow,
    write_csv,
    write_mat,
    write_zarr,
    write_old_zarr,
]
every_kind = pytest.mark.parametrize("write", WRITERS)


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def assert_same(one: MultiViewData, other: MultiViewData) -> None:
    assert one.name == other.name
    assert one.label_names == other.label_names
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(dense(one.labels), dense(other.labels))
    assert one.views.keys() == other.views.keys()
    for view in one.views:
        np.testing.assert_array_equal(dense(one.views[view]), dense(other.views[view]))
        np.testing.assert_array_equal(one.present[view], other.present[view])
    assert one.items.keys() == other.items.keys()
    for column in one.items:
        np.testing.assert_array_equal(one.items[column], other.items[column])


@every_kind
@settings(max_examples=8)
@given(n_items=st.integers(5, 17), chunk_size=st.integers(1, 20), seed=st.integers(0, 99))
def test_chunks_are_the_rows_of_the_whole_in_any_order(write, n_items, chunk_size, seed) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(make(n_items), Path(folder))
        full = read(path, **({"orientation": "rows"} if path.suffix == ".mat" else {}))
        chunks = listed(path, chunk_size)
        order = np.random.default_rng(seed).permutation(len(chunks))
        for number, rows in zip(
            order, read_chunks(chunks[number] for number in order), strict=True
        ):
            expected = full.subset(slice(chunks[number].start, chunks[number].stop))
            assert len(chunks[number]) == len(rows)
            assert_same(rows, expected)
            assert_same(pickle.loads(pickle.dumps(chunks[number])).read(), expected)  # noqa: S301
        assert sum(map(len, chunks)) == chunks.n_items == n_items


def listed(path: Path, chunk_size: int):
    options = {"orientation": "rows"} if path.suffix == ".mat" else {}
    return list_chunks(path, chunk_size=chunk_size, **options)


@every_kind
def test_read_chunks_reads_the_chunks(tmp_path: Path, write: Write) -> None:
    path = write(make(11), tmp_path)
    options = {"orientation": "rows"} if path.suffix == ".mat" else {}
    chunks = list(read_in_chunks(path, chunk_size=4, **options))
    for rows, chunk in zip(chunks, listed(path, 4), strict=True):
        assert_same(rows, chunk.read())


@every_kind
def test_a_pickled_chunk_is_small_and_does_not_grow_with_the_rows(tmp_path, write) -> None:
    sizes = []
    for n_items in (12, 120):
        folder = tmp_path / str(n_items)
        folder.mkdir()
        chunk = listed(write(make(n_items), folder), 4)[1]
        sizes.append(len(pickle.dumps(chunk)))
    # Names of labels are there, and as many of them as there are in use.
    n_names = len(chunk.read().label_names)
    assert max(sizes) < 3000 + 10 * n_names
    assert sizes[1] - sizes[0] < 20 + 10 * n_names


@every_kind
def test_chunks_read_ahead_are_the_same(tmp_path: Path, write: Write) -> None:
    chunks = listed(write(make(11), tmp_path), 3)
    both = zip(read_chunks(chunks), read_chunks(chunks, prefetch=True), strict=True)
    for plain, ahead in both:
        assert_same(plain, ahead)


def test_an_error_of_reading_ahead_is_raised_at_its_chunk(tmp_path: Path) -> None:
    folder = write_parquets(make(20), tmp_path)
    chunks = list_chunks(folder, chunk_size=5)
    (folder / "02.parquet").write_bytes(b"gone")
    reader = read_chunks(chunks, prefetch=True)
    assert [next(reader).ids[0] for _ in range(2)] == ["id 0", "id 5"]
    with pytest.raises(ValueError, match=r"02\.parquet"):
        next(reader)


def test_reading_ahead_can_be_stopped(tmp_path: Path) -> None:
    n_threads = threading.active_count()
    reader = read_chunks(list_chunks(write_npy(make(20), tmp_path), chunk_size=2), prefetch=True)
    next(reader)
    reader.close()
    assert threading.active_count() == n_threads


def test_chunks_are_a_sequence(tmp_path: Path) -> None:
    chunks = list_chunks(write_npy(make(10), tmp_path), chunk_size=4)
    assert [(chunk.start, chunk.stop) for chunk in chunks] == [(0, 4), (4, 8), (8, 10)]
    assert chunks[-1] == chunks[2]
    assert chunks[1:] == [chunks[1], chunks[2]]
    assert isinstance(chunks[0], Chunk)
    assert repr(chunks[1]) == f"<Chunk: rows 4 to 7 of {tmp_path / 'data'}>"
    assert repr(chunks) == f"<Chunks: 10 rows of {tmp_path / 'data'} in 3 chunks>"
    with pytest.raises(IndexError):
        chunks[3]


def test_a_chunk_of_a_folder_opens_only_the_files_that_have_its_rows(tmp_path: Path) -> None:
    folder = write_parquets(make(20), tmp_path)
    chunks = list_chunks(folder, chunk_size=5)
    for name in ("00.parquet", "01.parquet", "03.parquet"):
        (folder / name).write_bytes(b"gone")
    assert chunks[2].read().ids.tolist() == [f"id {i}" for i in range(10, 15)]


@pytest.mark.parametrize("write", [write_npy, write_parquet, write_csv, write_parquets])
def test_a_chunk_of_a_file_that_is_gone_names_it(tmp_path: Path, write: Write) -> None:
    path = write(make(8), tmp_path)
    chunk = pickle.loads(pickle.dumps(list_chunks(path, chunk_size=4)[1]))  # noqa: S301
    gone = sorted(path.iterdir())[1] if path.is_dir() else path
    gone.unlink()
    with pytest.raises((OSError, ValueError), match=gone.stem):
        chunk.read()


@pytest.mark.parametrize("write", [write_npy, write_parquet, write_csv, write_npz, write_arrow])
def test_a_file_that_has_lost_rows_since_it_was_listed_is_rejected(tmp_path, write) -> None:
    path = write(make(8), tmp_path)
    chunk = pickle.loads(pickle.dumps(list_chunks(path, chunk_size=5)[1]))  # noqa: S301
    (tmp_path / "new").mkdir()
    shorter = write(make(6), tmp_path / "new")
    path.rename(tmp_path / "old")
    shorter.rename(path)
    with pytest.raises(ValueError, match="changed"):
        chunk.read()


@every_kind
def test_a_fingerprint_detects_changed_files(tmp_path: Path, write: Write) -> None:
    path = write(make(8), tmp_path)
    before = listed(path, 4).fingerprint()
    assert listed(path, 3).fingerprint() == before
    path.rename(tmp_path / "elsewhere").rename(path)
    assert listed(path, 4).fingerprint() == before
    file = sorted(path.rglob("*.*"))[0] if path.is_dir() else path
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    assert listed(path, 4).fingerprint() != before


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_a_chunk_size_that_is_no_positive_integer_is_rejected(tmp_path, size) -> None:
    with pytest.raises(ValueError, match="chunk_size"):
        list_chunks(write_npy(make(4), tmp_path), chunk_size=size)


def test_a_value_that_is_no_number_is_found_by_file_and_row(tmp_path: Path) -> None:
    rows = np.ones((9, 2))
    rows[7, 1] = np.nan
    np.save(tmp_path / "rows.npy", rows)
    chunks = list_chunks(tmp_path / "rows.npy", chunk_size=4)
    with pytest.raises(ViewError, match=r"rows.npy: view .* has a NaN .* in row 7;") as caught:
        list(read_chunks(chunks))
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert str(again) == str(caught.value)

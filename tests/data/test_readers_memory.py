"""Reading in chunks needs the memory of one chunk for every size of the file."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from acqh.data import MultiViewData, list_chunks, read_chunks, save_npz


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


N_ITEMS, WIDTH, CHUNK = 8_000, 128, 200
CHUNK_BYTES = CHUNK * WIDTH * 8


def big_data() -> MultiViewData:
    rng = np.random.default_rng(0)
    tags = sp.random_array((N_ITEMS, 300), density=0.05, format="csr", rng=rng)
    return MultiViewData(
        {"image": rng.integers(0, 9, (N_ITEMS, WIDTH)).astype(float), "text": tags},
        labels=np.arange(N_ITEMS) % 7,
    )


def peak_bytes(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def count_rows(path: Path) -> None:
    assert sum(len(chunk) for chunk in read_in_chunks(path, chunk_size=CHUNK)) == N_ITEMS


def test_npz_chunks_need_little_memory(tmp_path: Path) -> None:
    data = big_data()
    save_npz(data, tmp_path / "big.npz", compress=False)
    # Only pointers of the sparse view and ids stay whole: some bytes an item.
    allowed = 8 * CHUNK_BYTES + 20 * N_ITEMS
    assert allowed < data.views["image"].nbytes / 4
    assert peak_bytes(lambda: count_rows(tmp_path / "big.npz")) < allowed


def test_npy_chunks_need_little_memory(tmp_path: Path) -> None:
    data = big_data()
    np.save(tmp_path / "image.npy", data.views["image"])
    np.save(tmp_path / "labels.npy", data.labels)
    assert peak_bytes(lambda: count_rows(tmp_path)) < 4 * CHUNK_BYTES


def test_parquet_chunks_need_little_memory(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    values = big_data().views["image"]
    image = arrow.FixedSizeListArray.from_arrays(values.ravel(), WIDTH)
    parquet.write_table(arrow.table({"image": image}), tmp_path / "big.parquet")
    del image
    start = arrow.total_allocated_bytes()
    peaks = [
        arrow.total_allocated_bytes() - start
        for _ in read_in_chunks(tmp_path / "big.parquet", chunk_size=CHUNK)
    ]
    assert max(peaks) < values.nbytes / 4
    assert peak_bytes(lambda: count_rows(tmp_path / "big.parquet")) < 4 * CHUNK_BYTES

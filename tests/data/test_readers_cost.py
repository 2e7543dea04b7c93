"""Small files cannot ask for much: sizes are known before anything is unpacked, and costs grow
with the file."""

import numpy as np
import pytest

from acqh.data import list_chunks, read, read_chunks, read_records
from acqh.errors import InvalidInputError


def read_in_chunks(path, **options):
    return read_chunks(list_chunks(path, **options))


pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

LIMIT = 2**20
# Kept: what a table has allocated is given back to its pool, whenever that is.
POOLS = []
N_ROWS, WIDTH = 2_000, 1_000


def zeros_list():
    numbers = pa.array(np.zeros(N_ROWS * WIDTH, np.float32))
    return pa.FixedSizeListArray.from_arrays(numbers, WIDTH)


def same_texts():
    indices = pa.array(np.zeros(2_000, np.int32))
    texts = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 200_000]))
    return texts.cast(pa.large_string())


def one_long_list():
    numbers = pa.array(np.zeros(N_ROWS * WIDTH, np.float32))
    return pa.ListArray.from_arrays(pa.array([0, N_ROWS * WIDTH], pa.int32()), numbers)


def same_labels():
    texts = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(2_000, np.int32)), pa.array(["x" * 200_000])
    )
    return pa.ListArray.from_arrays(pa.array(np.arange(2_001), pa.int32()), texts)


def write_parquet(path, columns):
    parquet.write_table(pa.table(columns), path, compression="zstd")


def write_arrow(path, columns):
    feather.write_feather(pa.table(columns), path, compression="zstd", chunksize=10**6)


BOMBS = {
    "zeros.parquet": lambda path: write_parquet(path, {"image": zeros_list()}),
    "one-row.parquet": lambda path: write_parquet(path, {"image": one_long_list()}),
    "texts.parquet": lambda path: write_parquet(
        path, {"image": [[1.0]] * 2_000, "title": same_texts()}
    ),
    "labels.parquet": lambda path: write_parquet(
        path, {"image": [[1.0]] * 2_000, "labels": same_labels()}
    ),
    "zeros.arrow": lambda path: write_arrow(path, {"image": zeros_list()}),
    "labels.arrow": lambda path: write_arrow(
        path, {"image": [[1.0]] * 2_000, "labels": same_labels()}
    ),
}
READERS = {
    "whole": lambda path: read(path, max_bytes=LIMIT),
    "chunks": lambda path: list(read_in_chunks(path, max_bytes=LIMIT)),
}


@pytest.fixture
def allocated():
    """Return a function that gives the most that Arrow has allocated at once so far."""
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    POOLS.append(counting)
    yield lambda use: _most(use, counting)
    pa.set_memory_pool(usual)


def _most(use, pool):
    pa.set_memory_pool(pool)
    use()
    return pool.max_memory()


@pytest.mark.parametrize("how", sorted(READERS))
@pytest.mark.parametrize("name", sorted(BOMBS))
def test_a_table_that_unpacks_to_far_more_is_rejected_before_it_is_unpacked(
    tmp_path, allocated, name, how
):
    path = tmp_path / name
    BOMBS[name](path)
    assert path.stat().st_size < 100_000

    def use():
        with pytest.raises(InvalidInputError, match="trust"):
            READERS[how](path)

    # Only reading a record batch tells what it takes.
    assert allocated(use) < (10 if name == "zeros.arrow" else 3) * LIMIT


def test_texts_shared_by_all_rows_are_rejected_as_records_too(tmp_path):
    # As records nobody gives a limit: the usual one is 256 MiB, for the 256 rows read at a time.
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 300), pa.array(["x" * 1_500_000]))
    write_parquet(tmp_path / "t.parquet", {"title": texts.cast(pa.large_string())})
    with pytest.raises(InvalidInputError, match="would take 384,"):
        list(read_records(tmp_path / "t.parquet"))


def test_repeated_texts_within_the_limit_are_read_as_they_are(tmp_path):
    titles = [f"title {n} " + "x" * 3_000 for n in range(3_000)]
    labels = [["a", "b"][: n % 3] for n in range(3_000)]
    columns = {"image": [[1.0]] * 3_000, "title": titles, "labels": labels}
    for write, name in ((write_parquet, "t.parquet"), (write_arrow, "t.arrow")):
        write(tmp_path / name, columns)
        data = read(tmp_path / name)
        assert data.items["title"].tolist() == titles
        assert data.label_names == ("a", "b")
        assert data.labels.sum() == sum(map(len, labels))
        records = [row for _, row in read_records(tmp_path / name)]
        assert [row["title"] for row in records] == titles


def test_the_cost_of_csv_columns_is_linear(tmp_path):
    # 100,000 columns took minutes when each was compared with all before it.
    columns = ["id", "text", *(f"c{n}" for n in range(100_000))]
    path = tmp_path / "wide.csv"
    path.write_text(",".join(columns) + "\n" + ",".join(["1"] * len(columns)))
    assert len(next(read_records(path))[1]) == 100_002
    path.write_text(",".join(f"c_{n}" for n in range(100_000)) + "\n" + "1," * 99_999 + "1")
    assert read(path).views["c"].shape == (1, 100_000)


def test_an_npz_of_many_members_is_read(tmp_path):
    arrays = {f"item_{n}": np.zeros(2) for n in range(4_000)}
    np.savez(tmp_path / "many.npz", image=np.eye(2), **arrays)
    assert len(read(tmp_path / "many.npz").items) == 4_000

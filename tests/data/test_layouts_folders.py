"""Folders of other tools: clip-retrieval, Hugging Face, WebDataset, img2dataset, rclip."""

import io
import json
import pickle
import sqlite3
import tarfile
from pathlib import Path

import numpy as np
import pytest

from acqh.data import list_chunks, read, read_chunks, read_records
from acqh.errors import AcqhError, CorruptBundleError, InvalidInputError, ViewError

RNG = np.random.default_rng(0)
IMAGE, TEXT = (RNG.normal(size=(25, 4)).astype(np.float16) for _ in range(2))
CAPTIONS = [f"caption {n}" for n in range(25)]


def chunks_of(path: Path, view: str, size: int = 4) -> np.ndarray:
    """Read chunks as workers do: each pickled, each by itself, the last first."""
    chunks = list(list_chunks(path, chunk_size=size))
    sent = [pickle.loads(pickle.dumps(chunk)) for chunk in chunks]  # noqa: S301
    rows = [chunk.read() for chunk in sent[::-1]]
    in_order = [chunk.views[view] for chunk in read_chunks(chunks)]
    apart = [row.views[view] for row in rows[::-1]]
    np.testing.assert_array_equal(np.concatenate(apart), np.concatenate(in_order))
    return np.concatenate(apart)


@pytest.fixture
def clip_retrieval(tmp_path: Path) -> Path:
    """Twelve files, so that their numbers count and their names do not."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for folder in ("img_emb", "text_emb", "metadata"):
        (tmp_path / folder).mkdir()
    for number, rows in enumerate(np.array_split(np.arange(25), 12)):
        np.save(tmp_path / "img_emb" / f"img_emb_{number}.npy", IMAGE[rows])
        np.save(tmp_path / "text_emb" / f"text_emb_{number}.npy", TEXT[rows])
        facts = {
            "image_path": [f"{row}.jpg" for row in rows],
            "caption": [CAPTIONS[r] for r in rows],
        }
        parquet.write_table(
            arrow.table(facts), tmp_path / "metadata" / f"metadata_{number}.parquet"
        )
    return tmp_path


def test_clip_retrieval_is_two_views_and_an_item_table(clip_retrieval: Path) -> None:
    data = read(clip_retrieval)
    np.testing.assert_array_equal(data.views["image"], IMAGE)
    np.testing.assert_array_equal(data.views["text"], TEXT)
    assert data.items["text"].tolist() == CAPTIONS
    assert data.items["image_path"][10] == "10.jpg"
    np.testing.assert_array_equal(chunks_of(clip_retrieval, "text"), TEXT)
    assert list(read(clip_retrieval, views={"image": "img_emb"}).views) == ["image"]
    assert list(read(clip_retrieval, views={"text": "text"}).views) == ["text"]


def test_clip_retrieval_without_one_file_is_rejected(clip_retrieval: Path) -> None:
    (clip_retrieval / "metadata" / "metadata_3.parquet").unlink()
    with pytest.raises(ViewError, match="paired"):
        read(clip_retrieval)


def png(colour: int) -> bytes:
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.new("RGB", (8, 8), (colour, 0, 0)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def dataset():
    """A data set of images, captions, classes and vectors."""
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        image=datasets.Image(),
        text=datasets.Value("string"),
        label=datasets.ClassLabel(names=["cat", "dog", "eel"]),
        embedding=datasets.Sequence(datasets.Value("float32")),
    )
    return datasets.Dataset.from_dict(
        {
            "image": [{"bytes": png(n), "path": None} for n in range(25)],
            "text": CAPTIONS,
            "label": [n % 2 for n in range(25)],
            "embedding": IMAGE.astype(np.float32),
        },
        features=features,
    )


def test_folders_written_by_save_to_disk_are_read(tmp_path: Path, dataset) -> None:
    dataset.save_to_disk(tmp_path / "set", num_shards=3)
    # What `map` leaves in the folder is no part of it.
    (tmp_path / "set" / "cache-0.arrow").write_bytes(b"rubbish")
    data = read(tmp_path / "set")
    np.testing.assert_array_equal(data.views["embedding"], IMAGE)
    assert data.label_names == ("cat", "dog", "eel")
    assert data.items["text"].tolist() == CAPTIONS
    np.testing.assert_array_equal(chunks_of(tmp_path / "set", "embedding"), IMAGE)
    records = [record for _, record in read_records(tmp_path / "set")]
    assert [record["image"] for record in records] == [png(n) for n in range(25)]
    assert [record["label"] for record in records[:3]] == ["cat", "dog", "cat"]


def test_splits_that_save_to_disk_wrote_are_the_official_ones(tmp_path: Path, dataset) -> None:
    dataset.train_test_split(5, seed=0).save_to_disk(tmp_path / "set")
    data = read(tmp_path / "set")
    assert [len(part) for part in data.official_split()] == [20, 5]


def test_a_folder_of_the_hub_has_its_splits_in_file_names(tmp_path: Path, dataset) -> None:
    (tmp_path / "data").mkdir()
    for name, rows in (("train", range(20)), ("test", range(20, 25))):
        dataset.select(rows).to_parquet(tmp_path / "data" / f"{name}-00000-of-00001.parquet")
    data = read(tmp_path)
    assert sorted(map(len, data.official_split())) == [5, 20]
    assert data.label_names == ("cat", "dog", "eel")
    assert len(list(read_records(tmp_path))) == 25


def test_a_state_that_names_files_elsewhere_is_rejected(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "a.arrow").touch()
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "../a.arrow"}]}')
    with pytest.raises(CorruptBundleError, match="files"):
        read(tmp_path)


def test_columns_of_a_stream_are_read_separately(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table(
        {"image": list(IMAGE.astype(np.float32)), "label": CAPTIONS, "id": CAPTIONS}
    )
    with arrow.ipc.new_stream(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    np.testing.assert_array_equal(chunks_of(tmp_path / "a.arrow", "image", 7), IMAGE)


def test_a_damaged_stream_raises_an_acqh_error(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"image": list(IMAGE.astype(np.float32))})
    with arrow.ipc.new_stream(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    np.testing.assert_array_equal(read(tmp_path / "a.arrow").views["image"], IMAGE)
    content = (tmp_path / "a.arrow").read_bytes()
    for at in range(4, len(content), 37):
        (tmp_path / "a.arrow").write_bytes(
            content[:at] + bytes([content[at] ^ 0xA5]) + content[at + 1 :]
        )
        try:
            read(tmp_path / "a.arrow")
        except AcqhError:
            continue


def write_samples(path: Path, samples: list[dict[str, object]]) -> None:
    """Write samples with the library, or as it does where it is not installed."""
    try:
        import webdataset
    except ImportError:
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for sample in samples:
                for kind, value in sample.items():
                    if kind == "__key__":
                        continue
                    content = value if isinstance(value, bytes) else str(value).encode()
                    if isinstance(value, np.ndarray):
                        file = io.BytesIO()
                        np.save(file, value)
                        content = file.getvalue()
                    elif isinstance(value, dict):
                        content = json.dumps(value).encode()
                    member = tarfile.TarInfo(f"{sample['__key__']}.{kind}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        return
    with webdataset.TarWriter(str(path)) as writer:
        for sample in samples:
            writer.write(sample)


def test_vectors_of_a_webdataset_are_views(tmp_path: Path) -> None:
    for number, rows in enumerate(np.array_split(np.arange(25), 3)):
        samples = [
            {"__key__": f"{row:05}", "npy": TEXT[row], "img.npy": IMAGE[row], "cls": int(row % 2)}
            for row in rows
        ]
        write_samples(tmp_path / f"{number}.tar", samples)
    data = read(tmp_path)
    np.testing.assert_array_equal(data.views["vectors"], TEXT)
    np.testing.assert_array_equal(data.views["img"], IMAGE)
    assert (data.ids[7], data.label_names) == ("00007", ("0", "1"))
    np.testing.assert_array_equal(chunks_of(tmp_path, "img"), IMAGE)
    np.testing.assert_array_equal(read(tmp_path / "0.tar").views["img"], IMAGE[:9])


def test_samples_of_img2dataset_are_records_and_failed_rows_are_none(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    keys = [f"{n:09}" for n in range(4)]
    samples = [
        {
            "__key__": keys[n],
            "jpg": png(n),
            "txt": CAPTIONS[n],
            "json": {"key": keys[n], "width": n},
        }
        for n in (0, 3)
    ]
    samples.insert(1, {"__key__": keys[2], "jpg": png(2)})
    write_samples(tmp_path / "00000.tar", samples)
    facts = {"key": keys, "caption": CAPTIONS[:4], "status": ["success", "failed_to_download"] * 2}
    parquet.write_table(arrow.table(facts), tmp_path / "00000.parquet")
    (tmp_path / "00000_stats.json").write_text("{}")
    records = [record for _, record in read_records(tmp_path)]
    assert [record["id"] for record in records] == [keys[0], keys[2], keys[3]]
    assert [record["text"] for record in records] == [CAPTIONS[0], CAPTIONS[2], CAPTIONS[3]]
    assert records[2]["image"] == png(3)
    assert records[2]["width"] == 3


def test_a_damaged_tar_raises_an_acqh_error(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write_samples(path, [{"__key__": f"{n}", "npy": IMAGE[n]} for n in range(4)])
    content = path.read_bytes()
    path.write_bytes(content[:1500])
    with pytest.raises(CorruptBundleError):
        read(path)
    for at in range(0, len(content), 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0xA5]) + content[at + 1 :])
        try:
            read(path)
        except AcqhError:
            continue


@pytest.fixture
def rclip(tmp_path: Path) -> Path:
    """The table of rclip's db.py, with an image that was deleted."""
    path = tmp_path / "db.sqlite3"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE images (id INTEGER PRIMARY KEY AUTOINCREMENT, deleted BOOLEAN, "
            "filepath TEXT NOT NULL UNIQUE, modified_at DATETIME NOT NULL, size INTEGER NOT NULL, "
            "vector BLOB NOT NULL, indexing BOOLEAN)"
        )
        database.executemany(
            "INSERT INTO images (deleted, filepath, modified_at, size, vector) VALUES (?,?,?,?,?)",
            [
                (1 if n == 3 else None, f"/photos/{n}.jpg", 1.5, 10, row.tobytes())
                for n, row in enumerate(IMAGE.astype("<f4"))
            ],
        )
    database.close()
    return path


def test_vectors_of_rclip_are_read_without_deleted_images(rclip: Path) -> None:
    data = read(rclip)
    remaining = np.delete(IMAGE, 3, axis=0)
    np.testing.assert_array_equal(data.views["image"], remaining)
    assert data.ids[3] == "/photos/4.jpg"
    np.testing.assert_array_equal(chunks_of(rclip, "image"), remaining)


def test_another_database_is_named_as_such(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE things (x)")
    database.close()
    with pytest.raises(InvalidInputError, match=r"no database of rclip.*its tables are things"):
        read(tmp_path / "a.db")
    with sqlite3.connect(tmp_path / "b.db") as database:
        database.execute("CREATE TABLE images (filepath, vector)")
    database.close()
    for look in (read, read_records):
        with pytest.raises(InvalidInputError, match="deleted"):
            look(tmp_path / "b.db")
    (tmp_path / "a.db").write_bytes(b"SQLite format 3\0" + bytes(2000))
    with pytest.raises(AcqhError):
        read(tmp_path / "a.db")

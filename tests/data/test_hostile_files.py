"""Files that could hang or crash a reader are rejected at once with acqh errors."""

import csv
import io
import json
import sqlite3
import struct
import tarfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acqh.data import read, read_records
from acqh.errors import AcqhError, CorruptBundleError, InvalidInputError

BLOCK = tarfile.BLOCKSIZE
DEEP = "[" * 100_000


def tar_header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return a header of any size; a negative or large one in base 256, as GNU tar writes it."""
    info = tarfile.TarInfo(name)
    info.type = kind
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    if size < 0 or size >= 8**11:
        head[124:136] = b"\xff" + (size % 256**11).to_bytes(11, "big")
        if size >= 0:
            head[124] = 0x80
    else:
        head[124:136] = b"%011o\0" % size
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % BLOCK)


def tar_of(*members: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def vector() -> bytes:
    file = io.BytesIO()
    np.save(file, np.ones(4, np.float32))
    return file.getvalue()


LONG_NAME = tar_header("././@LongLink", 2, tarfile.GNUTYPE_LONGNAME) + padded(b"a\0")
PAX = tar_header("pax", 9, tarfile.XHDTYPE) + padded(b"9 path=a\n")
NEGATIVE_PAX = tar_header("pax", 13, tarfile.XHDTYPE) + padded(b"13 size=-512\n")
FIRST, END = tar_header("b.txt"), bytes(2 * BLOCK)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(FIRST + tar_header("a.npy", -512) + END, id="goes back to itself"),
        pytest.param(FIRST + NEGATIVE_PAX + tar_header("a.npy", 0) + END, id="goes back by pax"),
        pytest.param(tar_header("a.npy", -(2**40)) + END, id="before the file"),
        pytest.param(tar_header("a.npy", 2**50) + END, id="behind any file"),
        pytest.param(LONG_NAME * 3_000 + tar_header("a.npy") + END, id="long names"),
        pytest.param(PAX * 3_000 + tar_header("a.npy") + END, id="pax headers"),
        pytest.param(tar_header("a.npy", -512, tarfile.GNUTYPE_LONGNAME) + END, id="long name"),
        pytest.param(tar_header("a.npy", 2**62, tarfile.DIRTYPE) + END, id="directory"),
        pytest.param(tar_header("a.npy", 0, tarfile.GNUTYPE_SPARSE) + END, id="sparse"),
    ],
)
@pytest.mark.timeout(60)
def test_a_tar_with_impossible_headers_is_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(content)
    with pytest.raises(AcqhError, match=r"x\.tar"):
        read(path)
    with suppress(CorruptBundleError):  # one that is skipped leaves no samples
        assert list(read_records(path)) == []


def test_a_class_that_is_not_utf8_is_read_as_text_is(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(tar_of(("a.npy", vector()), ("a.cls", b"caf\xe9"), ("a.txt", b"caf\xe9")))
    ((_, record),) = read_records(path)
    assert record["labels"] == record["text"] == "caf\ufffd"
    assert read(path).label_names == ("caf\ufffd",)


def test_deeply_nested_json_of_a_sample_raises_an_acqh_error(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(tar_of(("a.txt", b"a"), ("a.json", DEEP.encode())))
    with pytest.raises(InvalidInputError, match="JSON"):
        list(read_records(path))


@pytest.mark.parametrize(
    "listed",
    [[1], ["x"], [None], [{"filename": "a\0b"}], [{"filename": ".."}], [{"filename": "."}],
     [{"filename": ""}], [{"filename": 3}], [{}], {"filename": "a"}, DEEP],
)  # fmt: skip
def test_a_dataset_that_lists_no_files_is_corrupt(tmp_path: Path, listed: Any) -> None:
    pytest.importorskip("pyarrow")
    text = listed if isinstance(listed, str) else json.dumps({"_data_files": listed})
    (tmp_path / "state.json").write_text(text)
    (tmp_path / "data.arrow").write_bytes(b"")
    with pytest.raises(CorruptBundleError, match=r"state\.json"):
        read(tmp_path)


@pytest.mark.parametrize("metadata", [DEEP, "{}", "[1]", '{"info": {"features": {"label": 3}}}'])
def test_class_names_that_cannot_be_read_are_ignored(tmp_path: Path, metadata: str) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"vectors": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]})
    table = table.replace_schema_metadata({"huggingface": metadata})
    parquet.write_table(table, tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet").label_names == ("0", "1")


RCLIP = "CREATE TABLE images (id INTEGER PRIMARY KEY, deleted BOOLEAN, filepath TEXT, vector BLOB)"
ENDLESS = """
    CREATE VIEW images AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT i AS id, NULL AS deleted, 'a' || i AS filepath, zeroblob(16) AS vector FROM n
"""
HUGE = """
    CREATE TABLE images (
        id INTEGER PRIMARY KEY, deleted BOOLEAN, filepath TEXT,
        vector BLOB GENERATED ALWAYS AS (zeroblob(100000000)) VIRTUAL
    )
"""


def rclip_database(path: Path, schema: str, *rows: tuple[Any, ...]) -> Path:
    database = sqlite3.connect(path)
    database.execute(schema)
    for row in rows:
        database.execute("INSERT INTO images VALUES (?, ?, ?, ?)", row)
    database.commit()
    database.close()
    return path


@pytest.mark.timeout(60)
def test_an_endless_view_is_no_rclip_database(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="images"):
        read(rclip_database(tmp_path / "x.db", ENDLESS))


@pytest.mark.timeout(60)
def test_generated_vectors_are_no_rclip_database(tmp_path: Path) -> None:
    path = rclip_database(tmp_path / "x.db", HUGE)
    database = sqlite3.connect(path)
    database.executemany("INSERT INTO images (filepath) VALUES (?)", [(f"a{n}",) for n in range(9)])
    database.commit()
    database.close()
    with pytest.raises(InvalidInputError, match="vector"):
        read(path)


def test_values_too_large_for_rclip_are_corrupt(tmp_path: Path) -> None:
    rows = [(n, None, f"a{n}", bytes(5_000_000)) for n in range(1, 3)]
    with pytest.raises(CorruptBundleError, match=r"x\.db"):
        read(rclip_database(tmp_path / "x.db", RCLIP, *rows))


def test_reading_csv_leaves_the_field_limit_of_the_process(tmp_path: Path) -> None:
    long = "a" * 200_000
    (tmp_path / "x.csv").write_text(f"id,text\n1,{long}\n2,b\n")
    before = csv.field_size_limit()
    rows = read_records(tmp_path / "x.csv")
    _, first = next(rows)
    assert csv.field_size_limit() == before
    assert first["text"] == long
    assert [row["text"] for _, row in rows] == ["b"]
    assert csv.field_size_limit() == before


def test_threads_that_read_csv_leave_the_field_limit_of_the_process(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,text\n" + f"1,{'a' * 200_000}\n" * 50)
    before = csv.field_size_limit()
    n_rows: list[int] = []

    def work() -> None:
        n_rows.append(sum(1 for _ in read_records(tmp_path / "x.csv")))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert n_rows == [50] * 4
    assert csv.field_size_limit() == before


def test_an_arrow_file_that_declares_absurd_sizes_is_damaged(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path, n_rows = tmp_path / "items.arrow", 1_000
    labels = pa.array([f"label {n % 7}" for n in range(n_rows)])
    rows = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(2 * n_rows)), 2)
    table = pa.table({"image": rows, "label": labels})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(str(path), table.schema, options=options) as writer:
        writer.write_table(table)
    # A compressed buffer begins with its length once it is unpacked.
    lengths = struct.pack("<q", 4 * (n_rows + 1))
    content = path.read_bytes()
    assert lengths in content
    path.write_bytes(content.replace(lengths, struct.pack("<q", 3 * 10**18)))
    with pytest.raises(AcqhError, match="memory"):
        read(path)

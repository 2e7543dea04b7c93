"""Vectors in text tables: bare numbers, lists in cells, JSON lines, database dumps."""

import json
from pathlib import Path

import numpy as np
import pytest

from acqh.data import list_chunks, read, read_chunks
from acqh.data.readers.formats import has_views
from acqh.errors import InvalidInputError, ViewError

VECTORS = np.round(np.random.default_rng(0).normal(size=(5, 4)), 6)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " "])
def test_a_csv_of_bare_numbers_needs_no_header(tmp_path: Path, delimiter: str) -> None:
    np.savetxt(tmp_path / "v.csv", VECTORS, delimiter=delimiter)
    data = read(tmp_path / "v.csv")
    assert list(data.views) == ["vectors"]
    np.testing.assert_allclose(data.views["vectors"], VECTORS)


@pytest.mark.parametrize("index", [False, True])
def test_a_matrix_written_by_pandas_has_numbered_columns(tmp_path: Path, index: bool) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(VECTORS).to_csv(tmp_path / "v.csv", index=index)
    data = read(tmp_path / "v.csv")
    np.testing.assert_allclose(data.views["vectors"], VECTORS)
    assert [int(item_id) for item_id in data.ids] == [0, 1, 2, 3, 4]


def test_a_row_of_bare_numbers_that_is_too_short_is_named(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("1.5,2\n3,4\n5\n")
    with pytest.raises(InvalidInputError, match="line 3: 1 fields"):
        read(tmp_path / "v.csv")


def test_json_lines_may_be_lists(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in VECTORS.tolist()))
    np.testing.assert_array_equal(read(path).views["vectors"], VECTORS)


def test_json_lines_with_a_list_per_row(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    rows = [
        {"id": f"a{n}", "embedding": row, "text": "ä", "labels": ["x", "y"][: n % 3], "n": n}
        for n, row in enumerate(VECTORS.tolist())
    ]
    rows[1]["embedding"] = None
    rows.append({"id": "b", "embedding": [0, 0, 0, 1], "labels": None})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ViewError, match="in no view"):
        read(path)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows if row["embedding"]))
    data = read(path)
    assert data.ids.tolist() == ["a0", "a2", "a3", "a4", "b"]
    assert data.label_names == ("x", "y")
    np.testing.assert_array_equal(data.views["embedding"][:4], VECTORS[[0, 2, 3, 4]])
    assert data.items["text"].tolist() == ["ä"] * 4 + [None]
    chunks = list(read_chunks(list_chunks(path, chunk_size=2)))
    np.testing.assert_array_equal(
        np.concatenate([chunk.views["embedding"] for chunk in chunks]), data.views["embedding"]
    )


def test_a_list_of_another_length_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text("[1, 2]\n\n[1, 2, 3]\n")
    with pytest.raises(ViewError, match=r"v\.jsonl, line 3: 'vectors' must be a list of 2 numbers"):
        read(tmp_path / "v.jsonl")


def as_list(row: np.ndarray) -> str:
    return "[" + ",".join(map(str, row.tolist())) + "]"


@pytest.mark.parametrize("kind", ["csv", "tsv", "sql"])
def test_a_table_of_immich_is_read_however_it_was_dumped(tmp_path: Path, kind: str) -> None:
    """CSV with a header; what COPY writes, without one; and the script of pg_dump."""
    ids = [f"3f0c-{n}" for n in range(len(VECTORS))]
    path = tmp_path / f"smart_search.{kind}"
    copied = "".join(
        f"{item_id}\t{as_list(row)}\n" for item_id, row in zip(ids, VECTORS, strict=True)
    )
    if kind == "csv":
        lines = (f'{item_id},"{as_list(row)}"\n' for item_id, row in zip(ids, VECTORS, strict=True))
        path.write_text("assetId,embedding\n" + "".join(lines))
    elif kind == "tsv":
        path.write_text(copied)
    else:
        before = (
            "--\n-- PostgreSQL database dump\n--\nSET x = 1;\nCOPY public.users (id) FROM stdin;"
        )
        table = 'COPY public.smart_search ("assetId", embedding) FROM stdin;\n'
        path.write_text(f"{before}\n7\n\\.\n\n{table}{copied}\\.\n\nSELECT 1;\n")
    data = read(path)
    assert data.ids.tolist() == ids
    assert list(data.views) == ["vectors" if kind == "tsv" else "embedding"]
    np.testing.assert_allclose(next(iter(data.views.values())), VECTORS)


def test_a_dump_without_vectors_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    with pytest.raises(InvalidInputError, match="search"):
        read(tmp_path / "a.sql")


def test_a_dump_that_ends_within_the_table_is_rejected(tmp_path: Path) -> None:
    copied = "".join(f"a{n}\t{as_list(row)}\n" for n, row in enumerate(VECTORS))
    table = 'COPY public.smart_search ("assetId", embedding) FROM stdin;\n'
    (tmp_path / "a.sql").write_text(table + copied)
    with pytest.raises(InvalidInputError, match="table"):
        read(tmp_path / "a.sql")


@pytest.mark.parametrize(
    ("name", "content", "is_vectors"),
    [
        ("a.csv", "image,text,rank_0\na.jpg,a dog,1\n", False),
        ("a.csv", "v_0,v_1\n1,2\n", True),
        ("a.csv", "1,2\n3,4\n", True),
        ("a.jsonl", '{"image": "a.jpg", "box": [1, 2, 3, 4]}\n', False),
        ("a.jsonl", json.dumps({"text": "a", "vector": [0.5] * 16}) + "\n", True),
        ("a.jsonl", "[1, 2]\n", True),
        ("a.txt", "a text", False),
    ],
)
def test_vectors_are_distinguished_from_items_to_encode(tmp_path, name, content, is_vectors):
    (tmp_path / name).write_text(content)
    assert has_views(tmp_path / name) is is_vectors

"""Items as a Parquet file, read back by PyArrow and by acqh."""

import base64
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import acqh
from acqh import CodeIndex
from acqh.collection import Collection
from acqh.errors import InvalidInputError
from acqh.export import export_parquet, files
from acqh.quantize import decode


def test_vectors_give_our_top_ten_by_inner_product(saved, queries, same_top, tmp_path):
    done = []
    report = export_parquet(
        saved, tmp_path / "items.parquet", progress=lambda *event: done.append(event)
    )
    assert report.n_items == 10_000
    assert report.n_bytes == (tmp_path / "items.parquet").stat().st_size
    assert done[-1] == (10_000, 10_000, "exporting items")
    table = pq.read_table(tmp_path / "items.parquet")
    vectors = np.stack(table["vector"].to_numpy())
    scores = queries @ vectors.T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    same_top(table["id"].to_numpy()[best], np.take_along_axis(scores, best, axis=1))


def test_codes_and_codebooks_are_exported_in_order_of_insertion(
    index, saved, tmp_path, monkeypatch
):
    monkeypatch.setattr(files, "_ROWS", 999)
    export_parquet(saved, tmp_path / "codes.parquet", codes=True)
    file = pq.ParquetFile(tmp_path / "codes.parquet")
    assert file.num_row_groups > 10
    table = file.read()
    codes = np.frombuffer(b"".join(table["code"].to_pylist()), np.uint8).reshape(-1, 4)
    np.testing.assert_array_equal(codes, index.codes)
    np.testing.assert_array_equal(table["id"].to_numpy(), index.ids)
    notes = table.schema.metadata
    settings = json.loads(notes[b"acqh"])
    shape = [settings[name] for name in ("n_codebooks", "codebook_size", "n_components")]
    codebooks = np.frombuffer(base64.b64decode(notes[b"acqh.codebooks"]), "<f4").reshape(shape)
    np.testing.assert_array_equal(codebooks, index.codebooks)


def test_a_collection_takes_its_texts_labels_and_fields_along(collection_path, tmp_path):
    export_parquet(collection_path, tmp_path / "things.parquet")
    table = pq.read_table(tmp_path / "things.parquet")
    assert {field.name: str(field.type) for field in table.schema} == {
        "id": "string",
        "vector": "fixed_size_list<element: float>[8]",
        "text": "string",
        "labels": "list<element: string>",
        "huge": "double",
        "mixed": "string",
        "new": "bool",
        "price": "double",
        "rare": "string",
        "vector_": "string",
        "year": "int64",
    }
    rows = table.to_pylist()
    with Collection.open(collection_path) as collection:
        for row, (item, code) in zip(rows, *collection.batches(100), strict=True):
            assert (row["id"], row["text"]) == (item.id, item.text)
            assert row["labels"] == list(item.labels)
            assert row["year"] == item.fields["year"]
            assert row["mixed"] == str(item.fields["mixed"])
            assert row["rare"] == item.fields.get("rare")
            codes = np.frombuffer(code, np.uint8)[np.newaxis]
            np.testing.assert_array_equal(row["vector"], decode(codes, collection.codebooks)[0])
    data = acqh.MultiViewData.from_files(tmp_path / "things.parquet")
    assert list(data.views) == ["vector"]
    assert data.label_names == ("flower", "vehicle")
    export_parquet(collection_path, tmp_path / "bare.parquet", metadata=False)
    assert pq.read_schema(tmp_path / "bare.parquet").names == ["id", "vector"]


def test_an_empty_index_makes_a_file_without_rows(tmp_path):
    empty = CodeIndex(np.eye(2)[np.newaxis])
    assert export_parquet(empty, tmp_path / "empty.parquet").n_items == 0
    assert pq.read_table(tmp_path / "empty.parquet").num_rows == 0


def test_a_failed_export_keeps_the_previous_one(index, tmp_path):
    path = tmp_path / "items.parquet"
    path.write_bytes(b"old")

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_parquet(index, path, overwrite=True, progress=stop)
    assert [file.name for file in tmp_path.iterdir()] == ["items.parquet"]
    assert path.read_bytes() == b"old"
    with pytest.raises(FileExistsError, match="exists"):
        export_parquet(index, path)
    export_parquet(index, path, overwrite=True)
    assert pq.read_metadata(path).num_rows == 10_000


def test_values_that_cannot_be_exported_are_rejected(tmp_path):
    with pytest.raises(FileNotFoundError):
        export_parquet(tmp_path / "none.acqh", tmp_path / "x.parquet")
    with pytest.raises(InvalidInputError, match="HammingIndex"):
        export_parquet(acqh.HammingIndex(8), tmp_path / "x.parquet")
    with pytest.raises(FileNotFoundError, match="folder"):
        export_parquet(tmp_path, tmp_path / "none" / "x.parquet")
    assert list(tmp_path.iterdir()) == []

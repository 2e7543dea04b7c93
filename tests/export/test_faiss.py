"""Items as a file for Faiss, read back by Faiss."""

import json

import numpy as np
import pytest

from acqh import CodeIndex
from acqh.collection import Collection
from acqh.export import export_faiss

faiss = pytest.importorskip("faiss")


@pytest.mark.parametrize(
    ("codes", "kind"), [(False, "IndexFlatIP"), (True, "IndexResidualQuantizer")]
)
def test_faiss_finds_our_top_ten(saved, queries, same_top, tmp_path, codes, kind):
    report = export_faiss(saved, tmp_path / "items.faiss", codes=codes)
    assert report.files == (tmp_path / "items.faiss",)
    theirs = faiss.read_index(str(tmp_path / "items.faiss"))
    assert isinstance(theirs, faiss.IndexIDMap2)
    assert type(faiss.downcast_index(theirs.index)).__name__ == kind
    scores, ids = theirs.search(queries, 10)
    same_top(ids, scores)


def test_text_ids_are_numbered_and_listed_next_to_the_index(collection_path, tmp_path):
    path = tmp_path / "things.faiss"
    report = export_faiss(collection_path, path, codes=True)
    assert report.files == (path, tmp_path / "things.faiss.items.jsonl")
    records = [json.loads(line) for line in report.files[1].read_text().splitlines()]
    theirs = faiss.read_index(str(path))
    with Collection.open(collection_path) as collection:
        assert [record["id"] for record in records] == list(collection)
        assert records[7]["rare"] == "é"
        answer = collection.search(text="rose", k=5, explain=True, mode="semantic")
    scores, numbers = theirs.search(answer.explanation.query[np.newaxis], 5)
    np.testing.assert_allclose(scores[0], [hit.score for hit in answer.hits], atol=1e-5)
    assert records[numbers[0, 0]]["labels"] == ["flower"]


def test_files_of_an_earlier_export_are_replaced_only_on_request(collection_path, tmp_path):
    path = tmp_path / "x.faiss"
    export_faiss(collection_path, path)
    index = CodeIndex(np.eye(3)[np.newaxis]).add([[0], [2]], ids=[4, 9])
    with pytest.raises(FileExistsError, match="exists"):
        export_faiss(index, path)
    export_faiss(index, path, overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == ["x.faiss"]
    assert faiss.read_index(str(path)).search(np.eye(3, dtype=np.float32)[:1], 1)[1] == [[4]]


def test_a_failed_export_leaves_nothing(collection_path, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_faiss(collection_path, tmp_path / "x.faiss", progress=stop)
    assert list(tmp_path.iterdir()) == []

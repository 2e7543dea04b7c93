"""Items as a collection of Milvus, in Milvus Lite."""

import numpy as np
import pytest

from acqh import CodeIndex
from acqh.collection import Collection, Item
from acqh.errors import InvalidInputError, MilvusError
from acqh.export import export_milvus

pymilvus = pytest.importorskip("pymilvus")
lite = pytest.importorskip("milvus_lite.server_manager")


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("milvus") / "lite.db")
    yield path
    lite.server_manager_instance.release_server(path)


@pytest.fixture(scope="module")
def client(uri):
    opened = pymilvus.MilvusClient(uri)
    yield opened
    opened.close()


def test_milvus_finds_our_top_ten(saved, uri, client, queries, same_top):
    report = export_milvus(saved, uri, "items")
    assert report.n_items == 10_000
    found = client.search("items", data=list(queries), limit=10)
    same_top(
        [[hit["id"] for hit in hits] for hits in found],
        [[hit["distance"] for hit in hits] for hits in found],
    )


def test_milvus_may_choose_the_kind_of_index(uri, client):
    index = CodeIndex(np.eye(3)[np.newaxis]).add([[0], [2]])
    export_milvus(index, uri, "chosen", index_type="AUTOINDEX")
    (name,) = client.list_indexes("chosen")
    assert client.describe_index("chosen", name)["metric_type"] == "IP"


def test_text_ids_and_metadata_go_along_and_can_be_filtered_by(collection_path, uri, client):
    export_milvus(collection_path, uri, "things")
    with Collection.open(collection_path) as collection:
        asked = {"text": "rose", "where": "label=flower", "mode": "meaning"}
        answer = collection.search(**asked, k=5, explain=True)
    (hits,) = client.search(
        "things",
        data=[answer.explanation.query],
        limit=5,
        filter='json_contains(labels, "flower")',
        output_fields=["text", "year", "vector_", "rare"],
    )
    scores = [hit["distance"] for hit in hits]
    np.testing.assert_allclose(scores, [hit.score for hit in answer.hits], atol=1e-5)
    assert hits[0]["entity"]["vector_"] == "taken"
    (hits,) = client.search(
        "things", data=[answer.explanation.query], limit=50, filter="year == 2007",
        output_fields=["rare"],
    )  # fmt: skip
    assert [(hit["id"], hit["entity"]["rare"]) for hit in hits] == [("ding 7", "é")]


def test_a_name_that_is_taken_is_replaced_only_on_request(uri, client):
    index = CodeIndex(np.eye(3)[np.newaxis])
    export_milvus(index.add([[0], [2]]), uri, "twice")
    with pytest.raises(InvalidInputError, match="has a collection 'twice' already"):
        export_milvus(index, uri, "twice")
    index.add([[1]])
    export_milvus(index, uri, "twice", overwrite=True)
    (hits,) = client.search("twice", data=[[0.0, 1.0, 0.0]], limit=1)
    assert hits[0]["id"] == 2


def test_a_failed_export_leaves_no_collection(uri, client, monkeypatch):
    before = client.list_collections()
    long = CodeIndex(np.eye(3)[np.newaxis]).add([[0], [1]], ids=["a", "b" * 70_000])
    with pytest.raises(InvalidInputError, match=r"the id of item 'bbb.* has 70,000 bytes"):
        export_milvus(long, uri, "failed")

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_milvus(CodeIndex(np.eye(3)[np.newaxis]).add([[0]]), uri, "failed", progress=stop)

    def fail(*_, **__):
        raise pymilvus.MilvusException(message="no space\nleft")

    monkeypatch.setattr(pymilvus.MilvusClient, "flush", fail)
    with pytest.raises(MilvusError, match=r"Milvus at .*lite\.db: no space left"):
        export_milvus(CodeIndex(np.eye(3)[np.newaxis]).add([[0]]), uri, "failed")
    assert client.list_collections() == before


def test_metadata_that_milvus_cannot_hold_can_be_left_out(uri, client, tmp_path):
    items = [Item(text=f"{word} " * 9_000, labels=[word]) for word in ("rose", "car", "boat")]
    with Collection.build(
        items, tmp_path / "long.acqh", n_components=2, image_encoder="hog", text_encoder="tfidf"
    ) as collection:
        export_milvus(collection, uri, "long")
        collection.add(Item(text="boat " * 14_000, id="very long"))
        with pytest.raises(InvalidInputError, match="metadata of item 'very long'"):
            export_milvus(collection, uri, "longer")
        export_milvus(collection, uri, "longer", metadata=False)
    assert client.get_collection_stats("longer")["row_count"] == 4


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://127.0.0.1:9", "Milvus at http://127.0.0.1:9: "),
        ("nonsense", "Milvus at nonsense: "),
    ],
)
def test_a_server_that_cannot_be_reached_is_an_error_of_one_line(index, uri, message):
    with pytest.raises(MilvusError, match=message) as caught:
        export_milvus(index, uri, "items", timeout=1)
    assert "\n" not in str(caught.value)


def test_names_and_places_that_cannot_be_are_refused(index, tmp_path):
    with pytest.raises(InvalidInputError, match="letters, digits and underscores"):
        export_milvus(index, "x.db", "two words")
    with pytest.raises(InvalidInputError, match="FLAT or AUTOINDEX"):
        export_milvus(index, "x.db", "items", index_type="HNSW")
    with pytest.raises(FileNotFoundError, match="create it first"):
        export_milvus(index, str(tmp_path / "none" / "x.db"), "items")

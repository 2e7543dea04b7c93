import base64
import json
from dataclasses import asdict
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from acqh.collection import Collection
from acqh.data import make_multiview

RED = (220, 30, 30)


@pytest.fixture(scope="module")
def collection(built):
    with Collection.open(built) as opened:
        yield opened


def same(answer, expected):
    """Check an answer over HTTP against the one in Python."""
    assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in expected.hits]
    assert [hit["score"] for hit in answer["hits"]] == [hit.score for hit in expected.hits]
    for hit, expected_hit in zip(answer["hits"], expected.hits, strict=True):
        assert hit["text"] == expected_hit.text
        assert tuple(hit["labels"]) == expected_hit.labels
        assert hit["fields"] == expected_hit.fields
        assert bytes(hit["code"]) == expected_hit.code
    assert answer["n_items"] == expected.n_items
    assert answer["n_scanned"] == expected.n_scanned
    assert answer["n_candidates"] == expected.n_candidates
    return True


def test_a_text_finds_what_it_finds_in_python(client, collection):
    answer = client.post("/search", json={"text": "black cat", "k": 5}).json()
    assert same(answer, collection.search(text="black cat", k=5))
    assert {hit["labels"][0] for hit in answer["hits"]} == {"cat"}
    assert answer["bytes_per_item"] > 0
    assert set(answer["milliseconds"]) == {"encode", "search", "items", "total"}
    assert answer["explanation"] is None


def test_an_image_finds_the_same_in_json_and_in_a_form(client, collection, make_picture):
    content = make_picture(RED)
    expected = collection.search(image=content, k=4)
    assert expected.hits[0].labels == ("car",)
    encoded = base64.b64encode(content).decode()
    assert same(client.post("/search", json={"image": encoded, "k": 4}).json(), expected)
    upload = {"image": ("red.png", content, "image/png")}
    assert same(
        client.post("/search/images", files=upload, data={"query": '{"k": 4}'}).json(), expected
    )


def test_what_telephones_make_finds_its_like(client, collection, start):
    file = BytesIO()
    heif = pytest.importorskip("pillow_heif")
    heif.from_pillow(Image.new("RGB", (64, 48), RED)).save(file)
    expected = collection.search(image=file.getvalue(), k=4)
    assert expected.hits[0].labels == ("car",)
    upload = {"image": ("red.heic", file.getvalue(), "image/heic")}
    assert same(
        client.post("/search/images", files=upload, data={"query": '{"k": 4}'}).json(), expected
    )
    damaged = client.post("/search/images", files={"image": file.getvalue()[:60]})
    assert damaged.status_code == 422
    large = {"image": ("l.heic", file.getvalue(), "image/heic")}
    with start(collection.path, max_megapixels=(64 * 48 - 1) / 1e6) as strict:
        assert strict.post("/search/images", files=large).status_code == 413


def test_text_and_images_are_weighed_as_in_python(client, collection, make_picture):
    content = make_picture(RED)
    weights = {"text": 0.25, "image": 2.0}
    expected = collection.search(text="blue sea", image=content, weights=weights)
    form = {"query": json.dumps({"text": "blue sea", "weights": weights})}
    answer = client.post("/search/images", data=form, files={"image": content}).json()
    assert same(answer, expected)


def test_weights_of_what_is_not_given_do_not_matter(client, collection):
    answer = client.post("/search", json={"text": "sea", "weights": {"text": 3, "image": 7}})
    assert same(answer.json(), collection.search(text="sea", weights={"text": 3}))


def test_more_like_an_item_leaves_the_item_out(client, collection):
    answer = client.post("/search", json={"item": "sea-0-1", "k": 6}).json()
    assert same(answer, collection.search(item="sea-0-1", k=6))
    assert "sea-0-1" not in [hit["id"] for hit in answer["hits"]]


def test_a_filter_by_a_column_that_there_is_not_is_rejected(client):
    for path in ("/search", "/browse"):
        body = {"where": {"trun": 1}} | ({"text": "black"} if path == "/search" else {})
        answer = client.post(path, json=body)
        assert answer.status_code == 422
        assert "trun" in answer.json()["detail"]


@pytest.mark.parametrize(
    "where", [{"label": "car"}, {"label": ["car"]}, {"turn": 1}, {"turn": [0, 2], "label": "sea"}]
)
def test_filters_hold_as_in_python(client, collection, where):
    answer = client.post("/search", json={"text": "black", "where": where, "k": 50}).json()
    assert answer["hits"]
    assert same(answer, collection.search(text="black", where=where, k=50))
    form = {"query": json.dumps({"text": "black", "where": where, "k": 50})}
    assert same(
        client.post("/search/images", data=form, files={"image": b""}).json(),
        collection.search(text="black", where=where, k=50),
    )


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
def test_an_explanation_adds_up_to_the_scores(client, collection, mode):
    body = {"text": "a quiet sea", "explain": True, "k": 3, "mode": mode}
    answer = client.post("/search", json=body).json()
    why = answer["explanation"]
    expected = collection.search(**body).explanation
    np.testing.assert_array_equal(np.float32(why["query"]), expected.query)
    assert why["tables"] == expected.tables.tolist()
    for hit, parts in zip(answer["hits"], why["hits"], strict=True):
        assert parts["codes"] == ([] if mode == "keyword" else hit["code"])
        assert len(parts["parts"]) == len(why["names"])
        assert sum(parts["parts"]) == pytest.approx(hit["score"], abs=1e-5)


def test_texts_are_searched_in_the_mode_of_the_query(client, collection):
    assert client.get("/info").json()["modes"] == ["hybrid", "keyword", "semantic"]
    for mode in ("hybrid", "keyword", "semantic"):
        answer = client.post("/search", json={"text": "sea", "k": 5, "mode": mode}).json()
        expected = collection.search(text="sea", k=5, mode=mode)
        assert same(answer, expected)
        assert [hit["why"] for hit in answer["hits"]] == [list(hit.why) for hit in expected.hits]
    assert client.post("/search", json={"text": "sea", "mode": "sense"}).status_code == 422


@given(
    text=st.text(st.sampled_from("abcdefghi  klm é ü \x00'\"%"), min_size=1, max_size=40)
    | st.sampled_from(["cat", "sea car", "a black road"]),
    k=st.integers(1, 60),
)
def test_any_text_finds_what_it_finds_in_python(client, collection, text, k):
    answer = client.post("/search", json={"text": text, "k": k})
    assert answer.status_code == 200
    assert same(answer.json(), collection.search(text=text, k=k))


@pytest.mark.parametrize("identifier", ["cat-0-0", "plain", "odd/100%#?.jpg"])
def test_items_and_thumbnails_are_those_of_the_collection(client, collection, identifier):
    expected = collection.item(identifier)
    request = {"params": {"id": identifier}}
    item = client.get("/item", **request).json()
    assert item["id"] == identifier
    assert item["text"] == expected.text
    assert item["fields"] == expected.fields
    if not expected.has_thumbnail:
        assert item["thumbnail"] is None
        assert client.get("/item/thumbnail", **request).status_code == 404
        return
    picture = client.get(item["thumbnail"])
    assert picture.content == collection.thumbnail(identifier)
    assert picture.headers["content-type"] == "image/webp"
    again = client.get(item["thumbnail"], headers={"If-None-Match": picture.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_labels_come_with_the_most_frequent_first(client, collection):
    labels = client.get("/labels").json()["labels"]
    assert {entry["name"]: entry["count"] for entry in labels} == collection.labels()
    counts = [entry["count"] for entry in labels]
    assert counts == sorted(counts, reverse=True)


def test_info_is_that_of_the_collection_without_its_folders_and_the_limits(client, collection):
    info = client.get("/info").json()
    expected = asdict(collection.info())
    varies = {"size_on_disk", "folders"}  # SQLite's log comes and goes
    assert {name: info[name] for name in expected if name not in varies} == {
        name: value for name, value in expected.items() if name not in varies
    }
    assert info["limits"]["max_k"] == 1000
    assert info["writable"] is False
    assert "folders" not in info


def test_the_page_and_its_files_are_served(client):
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "<form" in page.text
    assert client.get("/static/index.html").text == page.text
    assert page.headers["cache-control"] == "no-cache"


def test_the_page_brings_nothing_inline_and_nothing_from_elsewhere(client):
    page = client.get("/").text
    assert "<style" not in page
    assert " style=" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_metrics_count_requests_searches_and_items_seen(built, start):
    with start(built) as client:
        answer = client.post("/search", json={"text": "cat"}).json()
        client.post("/search", json={"text": "cat", "k": 0})
        client.get("/nowhere")
        page = client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = dict(line.rsplit(" ", 1) for line in page.text.splitlines() if not line.startswith("#"))
    assert lines['acqh_requests_total{method="POST",route="/search",status="200"}'] == "1.0"
    assert lines['acqh_requests_total{method="POST",route="/search",status="422"}'] == "1.0"
    assert lines['acqh_requests_total{method="GET",route="other",status="404"}'] == "1.0"
    assert lines["acqh_search_seconds_count"] == "1.0"
    assert float(lines["acqh_items_scanned_total"]) == answer["n_scanned"]
    assert float(lines["acqh_items"]) == answer["n_items"]
    assert lines["acqh_requests_in_flight"] == "1.0"
    assert lines['acqh_request_seconds_count{route="/search"}'] == "2.0"


def test_a_collection_built_from_features_answers_by_item_and_by_words_it_has(start, tmp_path):
    data = make_multiview(60, {"image": 8, "text": 6}, n_labels=3, random_state=0)
    Collection.build(data, tmp_path / "data.acqh", n_components=4, n_codebooks=2).close()
    with start(tmp_path / "data.acqh") as client:
        identifier = str(data.ids[0])
        assert client.post("/search", json={"item": identifier}).json()["hits"]
        assert client.post("/search", json={"text": "cat"}).json()["hits"] == []

import base64
import json
import logging
import shutil

import pytest

from acqh.collection import Collection

READ = {"Authorization": "Bearer read-0123456789abcdef"}
WRITE = {"Authorization": "Bearer write-0123456789abcdef"}


@pytest.fixture(scope="module")
def guarded(built, start, write_tokens, tmp_path_factory):
    """Return a client, with no token yet, of a service that wants one; each test has its items."""
    folder = tmp_path_factory.mktemp("guarded")
    path = shutil.copytree(built, folder / "things.acqh")
    with start(path, **write_tokens(folder)) as client:
        client.path = path
        yield client


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": ""}, {"Authorization": "Bearer"}, {"Authorization": "Bearer wrong"},
     {"Authorization": "Basic cmVhZA=="}, {"Authorization": "Bearer read-0123456789abcde"},
     {"Authorization": "read-0123456789abcdef"}],
)  # fmt: skip
def test_without_the_right_token_nothing_is_read(guarded, headers):
    for response in (
        guarded.get("/info", headers=headers),
        guarded.get("/item/thumbnail?id=plain", headers=headers),
        guarded.get("/metrics", headers=headers),
        guarded.post("/search", json={"text": "cat"}, headers=headers),
    ):
        assert response.status_code == 401
        assert response.json()["status"] == 401
        assert response.headers["www-authenticate"] == "Bearer"
    for path in ("/", "/healthz", "/static/index.html"):
        assert guarded.get(path, headers=headers).status_code == 200


def test_both_tokens_read_and_only_one_writes(guarded):
    for headers in (READ, WRITE):
        assert guarded.get("/info", headers=headers).json()["writable"]
        assert guarded.post("/search", json={"text": "cat"}, headers=headers).json()["hits"]
    new = {"items": [{"text": "black cat", "id": "new"}]}
    for headers in ({}, READ):
        assert guarded.post("/items", json=new, headers=headers).status_code == 401
        assert guarded.delete("/item?id=plain", headers=headers).status_code == 401
    assert guarded.get("/item?id=new", headers=READ).status_code == 404
    assert guarded.get("/item?id=plain", headers=READ).status_code == 200


def test_the_body_of_an_unauthorized_request_is_not_looked_at(guarded):
    response = guarded.post("/items", content=b"not json", headers={"content-type": "text/plain"})
    assert response.status_code == 401


def test_added_items_are_found_and_removed_ones_are_not(guarded, make_picture):
    content = base64.b64encode(make_picture((20, 60, 220))).decode()
    new = [
        {"id": "a/b", "text": "wide blue sea", "image": content, "labels": ["sea"]},
        {"text": "a road", "fields": {"turn": 7, "note": None}},
    ]
    added = guarded.post("/items", json={"items": new}, headers=WRITE)
    assert added.status_code == 201, added.text
    assert added.json()["skipped"] == []
    first, second = added.json()["ids"]
    assert first == "a/b"
    answer = guarded.post("/search", json={"text": "sea", "k": 100}, headers=READ).json()
    assert "a/b" in [hit["id"] for hit in answer["hits"]]
    assert guarded.get("/item", params={"id": second}, headers=READ).json()["fields"]["turn"] == 7
    assert guarded.get("/item/thumbnail?id=a%2Fb", headers=READ).status_code == 200
    assert guarded.delete("/item?id=a%2Fb", headers=WRITE).status_code == 204
    assert guarded.delete("/item?id=a%2Fb", headers=WRITE).status_code == 404
    answer = guarded.post("/search", json={"text": "sea", "k": 100}, headers=READ).json()
    assert "a/b" not in [hit["id"] for hit in answer["hits"]]
    with Collection.open(guarded.path) as collection:
        assert second in collection
        assert "a/b" not in collection


def test_one_item_can_be_added_as_a_form(guarded, make_picture):
    details = {"id": "upload", "text": "red car", "labels": ["car"], "fields": {"turn": 9}}
    form = {"item": json.dumps(details)}
    files = {"image": ("car.png", make_picture((220, 30, 30)))}
    added = guarded.post("/item", data=form, files=files, headers=WRITE)
    assert added.json() == {"ids": ["upload"], "skipped": []}
    item = guarded.get("/item?id=upload", headers=READ).json()
    assert (item["labels"], item["fields"]) == (["car"], {"turn": 9})
    assert guarded.get(item["thumbnail"], headers=READ).status_code == 200


def test_an_id_that_is_taken_is_not_replaced_by_default(guarded):
    twice = {"items": [{"id": "cat-0-0", "text": "red car"}]}
    refused = guarded.post("/items", json=twice, headers=WRITE)
    assert refused.status_code == 422
    assert "cat-0-0" in refused.json()["detail"]
    mixed = {"items": [*twice["items"], {"id": "other", "text": "red car"}]}
    some = guarded.post("/items", json=mixed, headers=WRITE).json()
    assert some["ids"] == ["other"]
    assert some["skipped"][0]["item"] == "items.0"
    replaced = guarded.post("/items", json=twice | {"replace": True}, headers=WRITE)
    assert replaced.json()["ids"] == ["cat-0-0"]
    assert guarded.get("/item?id=cat-0-0", headers=READ).json()["text"] == "red car"


def test_metadata_is_set_and_removed_and_the_rest_stays(guarded):
    address = "/item?id=odd%2F100%25%23%3F.jpg"
    before = guarded.get(address, headers=READ).json()
    changes = {"text": "our black cat", "labels": ["cat", "pet"], "fields": {"favourite": True}}
    changed = guarded.patch(address, json=changes, headers=WRITE)
    assert changed.status_code == 200, changed.text
    assert changed.json() == guarded.get(address, headers=READ).json()
    assert {name: changed.json()[name] for name in ("text", "labels")} == {
        "text": "our black cat",
        "labels": ["cat", "pet"],
    }
    body = {"where": {"favourite": True}}
    hits = guarded.post("/browse", json=body, headers=READ).json()["hits"]
    assert [hit["id"] for hit in hits] == [before["id"]]
    restored = {"text": before["text"], "labels": before["labels"], "fields": {"favourite": None}}
    assert guarded.patch(address, json=restored, headers=WRITE).json() == before
    only = guarded.patch(address, json={"fields": {"hidden": True}}, headers=WRITE).json()
    assert (only["text"], only["labels"]) == (before["text"], before["labels"])
    guarded.patch(address, json={"fields": {"hidden": None}}, headers=WRITE)


@pytest.mark.parametrize(
    ("identifier", "body", "headers", "status"),
    [
        ("plain", {"text": "x"}, {}, 401),
        ("plain", {"text": "x"}, READ, 401),
        ("nothing", {"text": "x"}, WRITE, 404),
        ("plain", {"text": 3}, WRITE, 422),
        ("plain", {"labels": "cat"}, WRITE, 422),
        ("plain", {"path": "/etc/passwd"}, WRITE, 422),
        ("plain", {"text": ""}, WRITE, 422),  # it would have neither image nor text
    ],
)
def test_metadata_that_cannot_be_set_is_rejected(guarded, identifier, body, headers, status):
    before = guarded.get("/item?id=plain", headers=READ).json()
    response = guarded.patch("/item", params={"id": identifier}, json=body, headers=headers)
    assert response.status_code == status
    assert response.json()["status"] == status
    assert guarded.get("/item?id=plain", headers=READ).json() == before


@pytest.mark.parametrize(
    "items",
    [[], [{}], [{"text": 3}], [{"image": "nonsense"}], [{"text": "a", "labels": "cat"}],
     [{"text": "a", "fields": {"x": [1]}}], [{"text": "cat"}] * 101, [{"path": "/etc/passwd"}]],
)  # fmt: skip
def test_items_that_cannot_be_used_are_422_and_nothing_is_added(guarded, items):
    before = guarded.get("/info", headers=READ).json()["n_items"]
    assert guarded.post("/items", json={"items": items}, headers=WRITE).status_code == 422
    assert guarded.get("/info", headers=READ).json()["n_items"] == before


def test_tokens_are_never_logged(guarded, caplog):
    with caplog.at_level(logging.DEBUG):
        guarded.get("/info", headers=READ)
        guarded.get("/info", headers={"Authorization": "Bearer wrong-but-private-token"})
        guarded.post("/items", json={"items": [{"text": "cat"}]}, headers=WRITE)
    ours = [record for record in caplog.records if record.name.split(".")[0] in ("acqh", "uvicorn")]
    for secret in ("read-0123", "write-0123", "wrong-but-private"):
        assert secret not in "".join(record.getMessage() for record in ours)
        assert secret not in guarded.get("/metrics", headers=READ).text


def test_a_change_by_another_process_is_seen(guarded):
    with Collection.open(guarded.path) as collection:
        collection.remove(["cat-0-1"])
    assert guarded.get("/item?id=cat-0-1", headers=READ).status_code == 404

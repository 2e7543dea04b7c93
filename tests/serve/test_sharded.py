"""Several collections served as one: by the application itself and over a real connection."""

import shutil
import time

import pytest
from fastapi.testclient import TestClient

from acqh.collection import Collection
from acqh.errors import CollectionError, DuplicateIdError, InvalidInputError
from acqh.serve import Settings, create_app


@pytest.fixture(scope="module")
def shards(built, make_items, tmp_path_factory):
    """Return two collections made like the whole one: of its first items, and of the others."""
    folder = tmp_path_factory.mktemp("shards")
    items = make_items()
    for name, part in {"first": items[:20], "second": items[20:]}.items():
        Collection.build(part, folder / f"{name}.acqh", like=built).close()
    return folder / "first.acqh", folder / "second.acqh"


@pytest.fixture(scope="module")
def sharded_client(shards, start):
    with start(shards[0], shards=[shards[1]]) as client:
        yield client


QUERIES = [
    {"text": "black cat", "k": 40, "mode": "meaning"},
    {"text": "sea", "where": {"turn": "1"}, "mode": "meaning"},
    {"item": "cat-0-1", "k": 30, "explain": True},
    {"item": "odd/100%#?.jpg", "where": {"label": "cat"}, "k": 5},
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_real_server_answers_as_with_one_collection(client, sharded_client, query):
    expected = client.post("/search", json=query).json()
    found = sharded_client.post("/search", json=query).json()
    for name in ("hits", "n_items", "n_candidates", "explanation"):
        assert found[name] == expected[name]


def test_a_picture_is_searched_for_in_all_shards(client, sharded_client, make_picture):
    def ask(which):
        form = {"image": ("q.png", make_picture((20, 60, 220)), "image/png")}
        return which.post("/search", files=form, data={"k": "30"}).json()["hits"]

    hits = ask(sharded_client)
    assert hits == ask(client)
    assert hits[0]["labels"] == ["sea"]


@pytest.mark.parametrize("identifier", ["cat-0-0", "plain", "odd%2F100%25%23%3F.jpg", "nothing"])
@pytest.mark.parametrize("part", ["", "/thumbnail"])
def test_items_and_pictures_come_from_whichever_shard_has_them(
    client, sharded_client, identifier, part
):
    expected = client.get(f"/items/{identifier}{part}")
    found = sharded_client.get(f"/items/{identifier}{part}")
    assert found.status_code == expected.status_code
    assert found.content == expected.content


def test_labels_and_facts_are_added_up(client, sharded_client):
    assert sharded_client.get("/labels").json() == client.get("/labels").json()
    found, expected = (each.get("/stats").json() for each in (sharded_client, client))
    for name in ("n_items", "n_labelled", "n_thumbnails", "coded_by", "encoders", "writable"):
        assert found[name] == expected[name]
    assert f"acqh_items {found['n_items']:.1f}" in sharded_client.get("/metrics").text


def test_the_application_itself_serves_shards_and_shows_the_page(shards):
    app = create_app(Settings(collection=shards[0], shards=[shards[1]]))
    with TestClient(app, base_url="http://localhost") as client:
        assert client.post("/search", json={"text": "car", "k": 3}).json()["n_items"] == 38
        assert "<html" in client.get("/").text
        assert client.post("/items", json={"items": []}).status_code in (403, 404, 405)


def test_a_shard_that_is_built_anew_is_served_soon(shards, start, tmp_path):
    first, second = (shutil.copytree(path, tmp_path / path.name) for path in shards)
    fresh = shutil.copytree(second, tmp_path / "fresh.acqh")
    with Collection.open(fresh) as collection:
        collection.remove(["plain"])
    with start(first, shards=[second], reload_seconds=0.01) as client:
        assert client.get("/items/plain").status_code == 200
        second.rename(tmp_path / "old.acqh")
        fresh.rename(second)
        end = time.monotonic() + 60
        while client.get("/items/plain").status_code == 200:
            assert time.monotonic() < end, "the new shard is not served"
        assert client.get("/healthz").json()["status"] == "ok"


def test_shards_that_cannot_be_served_as_one_are_refused(shards, rebuild, few_items, tmp_path):
    first, second = shards
    with pytest.raises(DuplicateIdError, match="both have an item"):
        create_app(Settings(collection=first, shards=[second, first]))
    with pytest.raises(FileNotFoundError):
        create_app(Settings(collection=first, shards=[tmp_path / "none.acqh"]))
    other = rebuild(tmp_path / "other.acqh", few_items)
    with pytest.raises(CollectionError, match="another model"):
        create_app(Settings(collection=first, shards=[other]))


def test_several_collections_cannot_be_changed(shards, token_files):
    with pytest.raises(InvalidInputError, match="read-only"):
        create_app(Settings(collection=shards[0], shards=[shards[1]], **token_files))


@pytest.fixture
def few_items(make_items):
    return make_items(n_rounds=1)

"""Readiness, start-up checks, and what clients never learn about the server."""

import json
import os

import pytest

from acqh.collection import Collection
from acqh.errors import CollectionError, EncoderError, InvalidInputError
from acqh.serve import Settings, create_app

WRITE = {"Authorization": "Bearer write-0123456789abcdef"}


class Broken:
    """An encoder whose weights are gone."""

    def __init__(self, encoder):
        self.encoder = encoder
        self.is_broken = True

    def transform(self, raw):
        if self.is_broken:
            raise InvalidInputError("/srv/private models/clip holds none of text.onnx")
        return self.encoder.transform(raw)


@pytest.fixture
def broken(monkeypatch):
    """Return a function that breaks the encoder of a view in every collection opened later."""
    built_encoders = []

    def break_encoder(view):
        open_collection = Collection.open

        def opened(*args, **kwargs):
            collection = open_collection(*args, **kwargs)
            encoders = collection.opened.facts.encoders
            encoders[view] = Broken(encoders[view])
            built_encoders.append(encoders[view])
            return collection

        monkeypatch.setattr(Collection, "open", opened)
        return built_encoders

    return break_encoder


@pytest.mark.parametrize("view", ["text", "image"])
def test_a_server_whose_encoder_cannot_load_does_not_start(built, broken, view):
    broken(view)
    with pytest.raises(EncoderError, match=view):
        create_app(Settings(collection=built))


def test_a_server_that_answers_text_and_image_queries_is_ready(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")


@pytest.mark.parametrize("view", ["text", "image"])
def test_a_server_that_cannot_search_any_more_is_alive_but_not_ready(own_copy, start, view):
    with start(own_copy) as client:
        encoders = client.app.state.live.collection.opened.facts.encoders
        encoders[view] = Broken(encoders[view])
        assert client.get("/readyz").status_code == 200  # known since it began
        with Collection.open(own_copy) as collection:
            collection.remove(["plain"])
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert "srv" not in answer.text
        assert client.get("/healthz").status_code == 200
        encoders[view].is_broken = False
        assert client.get("/readyz").status_code == 200


def test_readiness_is_checked_once_until_the_collection_changes(own_copy, start, monkeypatch):
    searched, search = [], Collection.search

    def counting(self, **query):
        searched.append(query)
        return search(self, **query)

    with start(own_copy) as client:
        monkeypatch.setattr(Collection, "search", counting)
        for _ in range(3):
            assert client.get("/readyz").status_code == 200
        assert searched == []
        with Collection.open(own_copy) as collection:
            collection.remove(["plain"])
        for _ in range(3):
            assert client.get("/readyz").status_code == 200
        assert {name for query in searched for name in ("text", "image") if name in query} == {
            "text", "image",
        }  # fmt: skip
        assert len(searched) <= 4


def test_an_encoder_that_fails_later_does_not_show_its_path(own_copy, start):
    with start(own_copy) as client:
        encoders = client.app.state.live.collection.opened.facts.encoders
        encoders["text"] = Broken(encoders["text"])
        answer = client.post("/search", json={"text": "a text not asked for before"})
        assert answer.status_code >= 400
        assert "/srv" not in answer.text
        assert "private models/" not in answer.text


def test_a_collection_that_cannot_be_written_says_so_without_its_path(own_copy, start, token_files):
    token_files.pop("token_file")
    with start(own_copy, **token_files) as client:
        store = client.app.state.live.collection.opened.store
        store.read_only = True
        new = client.post("/items", json={"items": [{"text": "black cat"}]}, headers=WRITE)
        gone = client.delete("/item", params={"id": "plain"}, headers=WRITE)
        for answer in (new, gone):
            assert answer.status_code == 503
            assert str(own_copy) not in answer.text
            assert own_copy.parent.name not in answer.text


def test_a_server_for_writers_does_not_start_on_a_collection_that_cannot_be_written(
    own_copy, token_files, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(CollectionError, match="writ"):
        create_app(Settings(collection=own_copy, **token_files))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8000@evil", "127.0.0.1:99999", "localhost:", "localhost:x", "localhost:-1",
     "evil@localhost", "localhost/x", "[::1", "[::1]x", "::1", "[::1]:80:80", "local host"],
)  # fmt: skip
def test_a_malformed_host_is_rejected(client, host):
    answer = client.get("/info", headers={"Host": host})
    assert answer.status_code == 400


PROXIED = [("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "192.0.2.1"), ("Via", "1.1 proxy"),
           ("X-Forwarded-Host", "photos.example"), ("X-Real-IP", "192.0.2.1")]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), PROXIED)
def test_a_proxy_is_rejected_unless_the_server_is_set_up_for_one(client, name, value):
    answer = client.get("/info", headers={name: value})
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"
    assert "ACQH_ALLOWED_HOSTS" in answer.json()["detail"]


def test_requests_in_http_1_0_are_taken_for_those_of_a_proxy(client):
    import socket

    with socket.create_connection(client.address, timeout=60) as connection:
        connection.sendall(b"GET /info HTTP/1.0\r\nHost: 127.0.0.1:8000\r\n\r\n")
        assert b" 403 " in connection.recv(65536).split(b"\r\n", 1)[0]


def test_a_proxy_is_allowed_with_allowed_hosts_or_a_token(built, start, token_files):
    sent = dict(PROXIED)
    with start(built, allowed_hosts=["photos.example"]) as client:
        named = sent | {"Host": "photos.example"}
        assert client.get("/info", headers=named).status_code == 200
    token_files.pop("write_token_file")
    with start(built, **token_files) as client:
        allowed = {"Authorization": "Bearer read-0123456789abcdef"}
        assert client.get("/info", headers=sent | allowed).status_code == 200


def test_weights_of_any_size_are_taken(client):
    expected = client.post("/search", json={"text": "cat", "item": "sea-0-1"}).json()["hits"]
    for size in (1e-320, 1e308):
        query = {"text": "cat", "item": "sea-0-1", "weights": {"text": size, "item": size}}
        answer = client.post(
            "/search", content=json.dumps(query), headers={"content-type": "application/json"}
        )
        assert [hit["id"] for hit in answer.json()["hits"]] == [hit["id"] for hit in expected]

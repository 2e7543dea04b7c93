import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from acqh.collection import Collection
from acqh.collection.generations import current_folder, use_current
from acqh.serve import Settings
from acqh.serve.live import Live
from acqh.serve.metrics import FOLDER, Metrics
from acqh.serve.settings import Limits
from acqh.serve.verify import verified_generation, verify
from acqh.web.overview import make_map


@pytest.fixture
def few(make_items):
    return make_items(n_rounds=1)


@pytest.fixture
def verified_here(monkeypatch):
    """Verify in this process: another one takes seconds to start next to other tests."""
    monkeypatch.setattr("acqh.serve.live.verified_generation", verify)


def until(condition, seconds=60.0):
    """Wait for something that is bound to happen."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def n_items(client):
    return client.post("/search", json={"text": "cat"}).json()["n_items"]


def put_in_place(other, path):
    """Do what a build does at its end, with its folder in use: nobody else removes it then."""
    lease = use_current(other)
    lease.folder.rename(path / lease.folder.name)
    (other / "manifest.json").replace(path / "manifest.json")
    lease.lock.close()


def test_a_rebuilt_collection_is_served_without_a_failed_request(
    own_copy, start, rebuild, verified_here
):
    stop, answers = threading.Event(), []
    others = [rebuild(own_copy.with_name(f"{n}.acqh")) for n in range(3)]
    for position, other in enumerate(others):
        with Collection.open(other) as collection:
            collection.remove([f"cat-0-{n}" for n in range(position + 1)])
    with start(own_copy, reload_seconds=0.01) as client:
        before = n_items(client)

        def ask():
            while not stop.is_set():
                response = client.post("/search", json={"text": "black cat", "k": 3})
                answers.append((response.status_code, response.json().get("n_items")))

        asking = [threading.Thread(target=ask) for _ in range(2)]
        for thread in asking:
            thread.start()
        try:
            until(lambda: answers)  # of the collection as it was
            for position, other in enumerate(others):
                put_in_place(other, own_copy)
                until(lambda n=before - position - 1: answers[-1][1] == n)
        finally:
            stop.set()
            for thread in asking:
                thread.join()
        metrics = client.get("/metrics").text
    assert {status for status, _ in answers} == {200}
    assert {count for _, count in answers} == {before - n for n in range(4)}
    assert 'acqh_reloads_total{outcome="swapped"} 3.0' in metrics
    assert f"acqh_items {before - 3:.1f}" in metrics


def test_learning_again_is_served_without_a_failed_request(own_copy, start, verified_here):
    stop, answers = threading.Event(), []
    with start(own_copy, reload_seconds=0.01) as client:
        before = client.get("/info").json()
        assert before["drift"]["n_added"] == 0

        def ask():
            while not stop.is_set():
                response = client.post("/search", json={"text": "black cat", "k": 3})
                answers.append((response.status_code, response.json().get("n_items")))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            with Collection.open(own_copy) as old:
                old.retrain().close()
            until(lambda: client.get("/info").json()["generation"] != before["generation"])
        finally:
            stop.set()
            asking.join()
    assert set(answers) == {(200, before["n_items"])}


def flip(path):
    """Damage a file in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def change_texts(path):
    """Damage the texts of some items."""
    path.write_bytes(path.read_bytes().replace(b"black cat", b"blank cat"))


def cut(path):
    """Leave the first half of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("part", "damage"),
    [("*/items.sqlite", cut), ("*/items.sqlite", change_texts), ("manifest.json", flip),
     ("*/model/*.safetensors", flip)],
)  # fmt: skip
def test_a_damaged_rebuild_keeps_the_old_collection_and_says_so(
    own_copy, start, rebuild, part, damage, request
):
    if part == "*/items.sqlite":  # the other parts are verified by another process, as usual
        request.getfixturevalue("verified_here")
    damaged, intact = (rebuild(own_copy.with_name(f"{name}.acqh")) for name in ("damaged", "whole"))
    with Collection.open(intact) as collection:
        collection.remove(["plain"])
    with start(own_copy, reload_seconds=0.01) as client:
        before = n_items(client)
        folder = current_folder(damaged)
        damage(next(damaged.glob(part)))
        folder.rename(own_copy / folder.name)
        (damaged / "manifest.json").replace(own_copy / "manifest.json")
        until(lambda: client.get("/readyz").json()["status"] == "stale")
        readiness = client.get("/readyz")
        assert readiness.status_code == 200
        assert str(own_copy) not in readiness.text
        assert n_items(client) == before
        assert "acqh_reload_failed 1.0" in client.get("/metrics").text
        time.sleep(0.05)  # several looks later it has still been tried once
        assert 'acqh_reloads_total{outcome="damaged"} 1.0' in client.get("/metrics").text
        put_in_place(intact, own_copy)
        until(lambda: client.get("/readyz").json()["status"] == "ready")
        assert n_items(client) == before - 1
        assert "acqh_reload_failed 0.0" in client.get("/metrics").text


def test_the_serving_process_does_not_verify(own_copy, start, monkeypatch):
    with start(own_copy, reload_seconds=60) as client:
        monkeypatch.setattr("acqh.serve.verify.check_store", None)
        assert client.app.state.live.reload()


def test_a_manifest_is_verified_once_for_all_workers(own_copy, start, monkeypatch, tmp_path):
    verified = []

    def note(path):
        verified.append(path)
        return verified_generation(path)

    monkeypatch.setattr("acqh.serve.live.verified_generation", note)
    monkeypatch.setenv(FOLDER, str(tmp_path))
    lives = [Live(Settings(collection=own_copy), Limits(), Metrics()) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(Live.reload, lives)) == [True, True]
    assert len(verified) == 1
    for live in lives:
        live.close()


def test_the_map_is_computed_once_for_all_workers(own_copy, start, monkeypatch, tmp_path):
    computed = []

    def compute(collection):
        computed.append(collection)
        return make_map(collection)

    monkeypatch.setattr("acqh.serve.handlers.make_map", compute)
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with start(own_copy) as first, start(own_copy) as second, ThreadPoolExecutor(2) as pool:
        maps = list(pool.map(lambda client: client.get("/map").json(), [first, second]))
    assert maps[0] == maps[1]
    assert len(computed) == 1


def test_a_collection_that_is_gone_is_still_served(own_copy, start):
    with start(own_copy, reload_seconds=0.02) as client:
        before = n_items(client)
        own_copy.rename(own_copy.with_name("gone.acqh"))
        time.sleep(0.06)
        assert n_items(client) == before
        assert client.get("/readyz").json()["status"] == "ready"


def test_the_previous_collection_is_closed_when_no_request_uses_it(
    own_copy, start, monkeypatch, verified_here
):
    release, began = threading.Event(), threading.Event()
    search = Collection.search

    def stuck(self, *, text=None, **others):
        if text == "stuck":
            began.set()
            release.wait(60)
        return search(self, text=text, **others)

    monkeypatch.setattr(Collection, "search", stuck)
    with (
        start(own_copy, reload_seconds=60, max_work_seconds=600) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        live = client.app.state.live
        store = live.collection.opened.store
        waiting = pool.submit(client.post, "/search", json={"text": "stuck"})
        assert began.wait(60)
        assert live.reload()
        assert not store.closed
        release.set()
        assert waiting.result().status_code == 200
        until(lambda: store.closed)
        assert n_items(client) == 38


def test_items_added_before_a_rebuild_do_not_end_up_in_the_new_collection(
    own_copy, start, rebuild, few, token_files, verified_here
):
    token_files.pop("token_file")
    write = {"Authorization": "Bearer write-0123456789abcdef"}
    with start(own_copy, reload_seconds=0.02, **token_files) as client:
        new = {"items": [{"text": "black cat", "id": "late"}]}
        assert client.post("/items", json=new, headers=write).status_code == 201
        rebuild(own_copy, few, overwrite=True)
        until(lambda: n_items(client) == len(few))
        assert client.get("/item?id=late").status_code == 404
    with Collection.open(own_copy) as collection:
        assert collection.verify().problems == ()
        assert len(collection) == len(few)


def test_items_added_before_a_rebuild_is_noticed_go_into_the_new_collection(
    own_copy, start, rebuild, few, token_files, verified_here
):
    token_files.pop("token_file")
    write = {"Authorization": "Bearer write-0123456789abcdef"}
    with start(own_copy, reload_seconds=600, **token_files) as client:
        rebuild(own_copy, few, overwrite=True)
        new = {"items": [{"text": "black cat", "id": "late"}]}
        assert client.post("/items", json=new, headers=write).status_code == 201
        assert client.get("/item?id=late").status_code == 200
        assert n_items(client) == len(few) + 1
        rebuild(own_copy, few, overwrite=True)
        assert client.delete("/item", params={"id": few[0].id}, headers=write).status_code == 204
    with Collection.open(own_copy) as collection:
        assert collection.verify().problems == ()
        assert sorted(collection) == sorted(item.id for item in few[1:])


def test_a_server_that_has_not_noticed_a_rebuild_leaves_it_alone(
    own_copy, start, rebuild, few, make_items
):
    for items in (few, make_items(n_rounds=4)):
        with start(own_copy, reload_seconds=600) as client:
            before = n_items(client)
            rebuild(own_copy, items, overwrite=True)
            assert n_items(client) == before
        with Collection.open(own_copy) as collection:
            assert collection.verify().problems == ()
            assert len(collection) == len(items)

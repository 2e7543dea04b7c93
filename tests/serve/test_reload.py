import threading
import time

import pytest

from acqh.collection import Collection


@pytest.fixture
def few(make_items):
    return make_items(n_rounds=1)


def until(condition, seconds=10.0):
    """Wait for something that is bound to happen."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def n_items(client):
    return client.post("/search", json={"text": "cat"}).json()["n_items"]


def test_a_rebuilt_collection_is_served_without_a_failed_request(own_copy, start, rebuild, few):
    stop, answers = threading.Event(), []
    with start(own_copy, reload_seconds=0.02) as client:
        before = n_items(client)

        def ask():
            while not stop.is_set():
                response = client.post("/search", json={"text": "black cat", "k": 3})
                answers.append((response.status_code, response.json().get("n_items")))

        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        try:
            rebuild(own_copy, few, overwrite=True)
            until(lambda: answers and answers[-1][1] == len(few))
            rebuild(own_copy, overwrite=True)
            until(lambda: answers[-1][1] == before)
        finally:
            stop.set()
            for thread in asking:
                thread.join()
        metrics = client.get("/metrics").text
    assert {status for status, _ in answers} == {200}
    assert {count for _, count in answers} == {before, len(few)}
    assert 'acqh_reloads_total{outcome="swapped"} 2.0' in metrics
    assert f"acqh_items {before:.1f}" in metrics


def test_a_damaged_rebuild_keeps_the_old_collection_and_says_so(own_copy, start, rebuild, few):
    with start(own_copy, reload_seconds=0.02) as client:
        before = n_items(client)
        damaged = own_copy.with_name("damaged.acqh")
        rebuild(damaged, few)
        member = next((damaged / "model").glob("*.safetensors"))
        content = bytearray(member.read_bytes())
        content[-1] ^= 1
        member.write_bytes(content)
        own_copy.rename(own_copy.with_name("old.acqh"))
        damaged.rename(own_copy)
        until(lambda: client.get("/healthz").json()["status"] == "stale")
        health = client.get("/healthz")
        assert health.status_code == 200
        assert str(own_copy) not in health.text
        assert n_items(client) == before
        metrics = client.get("/metrics").text
        assert "acqh_reload_failed 1.0" in metrics
        time.sleep(0.1)  # several looks later it has still been tried once
        assert 'acqh_reloads_total{outcome="damaged"} 1.0' in client.get("/metrics").text
        rebuild(own_copy, few, overwrite=True)
        until(lambda: client.get("/healthz").json()["status"] == "ok")
        assert n_items(client) == len(few)
        assert "acqh_reload_failed 0.0" in client.get("/metrics").text


def test_a_collection_that_is_gone_is_still_served(own_copy, start):
    with start(own_copy, reload_seconds=0.02) as client:
        before = n_items(client)
        own_copy.rename(own_copy.with_name("gone.acqh"))
        time.sleep(0.06)
        assert n_items(client) == before
        assert client.get("/healthz").json()["status"] == "ok"


def test_reload_on_request_verifies_and_swaps(own_copy, start):
    with start(own_copy, reload_seconds=60) as client:
        live = client.app.state.live
        until(lambda: live._wake is not None)
        assert live.reload()
        assert 'outcome="swapped"} 1.0' in client.get("/metrics").text


def test_items_added_before_a_rebuild_do_not_end_up_in_the_new_collection(
    own_copy, start, rebuild, few, token_files
):
    token_files.pop("token_file")
    write = {"Authorization": "Bearer write-0123456789abcdef"}
    with start(own_copy, reload_seconds=0.02, **token_files) as client:
        new = {"items": [{"text": "black cat", "id": "late"}]}
        assert client.post("/items", json=new, headers=write).status_code == 201
        rebuild(own_copy, few, overwrite=True)
        until(lambda: n_items(client) == len(few))
        assert client.get("/items/late").status_code == 404
    with Collection.open(own_copy) as collection:
        assert collection.verify().problems == ()
        assert len(collection) == len(few)

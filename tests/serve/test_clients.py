"""Clients that mean ill: they hold on, do not read, send too much, or send nonsense."""

import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest
from PIL import Image

from acqh.collection import Collection, Item

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
POST_IMAGES = POST.replace(b"/search", b"/search/images")
JSON, FORM = b"application/json", b"multipart/form-data; boundary=x"


def connect(address, *, takes=None):
    """Return a connection; one that `takes` few bytes has a small buffer for what it reads."""
    connection = socket.socket()
    if takes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, takes)
    connection.settimeout(10)
    connection.connect(address)
    return connection


def read_all(connection):
    """Return what comes until the other side closes; nothing more where it breaks off."""
    received = []
    try:
        while part := connection.recv(65536):
            received.append(part)
    except ConnectionResetError:
        pass
    return b"".join(received)


def until(is_so):
    """Wait for something to happen."""
    for _ in range(3000):
        if is_so():
            return True
        time.sleep(0.02)
    return False


def problem_in(answer, status):
    """Check that raw bytes are an error response; return its detail."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    assert b"application/problem+json" in head
    assert b"content-security-policy" in head.lower()
    assert json.loads(body)["status"] == status
    return json.loads(body)["detail"]


@pytest.fixture(scope="module")
def wordy(tmp_path_factory):
    """Return a collection whose answers are long: 2 MB for all items."""
    path = tmp_path_factory.mktemp("wordy") / "wordy.acqh"
    kinds = ("cat", "car")
    items = [
        Item(text=f"{kind} {n}", labels=[kind], fields={"note": "miaow " * 1600})
        for n in range(100)
        for kind in kinds
    ]
    Collection.build(
        items, path, n_components=2, n_codebooks=2, image_encoder="hog", text_encoder="tfidf"
    ).close()
    return path


def ask_much(address):
    """Ask for 2 MB and do not read them."""
    body = json.dumps({"text": "cat", "k": 200}).encode()
    connection = connect(address, takes=4096)
    connection.sendall(POST % (JSON, len(body)) + body)
    return connection


@contextmanager
def serving_with_few_files(path, n_files):
    """Serve a collection in a process that may open few files; give address, log and process."""
    code = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({n_files}, {n_files}))
from acqh.cli import main
sys.argv = ["acqh", "serve", {str(path)!r}, "--port", "0"]
main()
"""
    log = path.parent / "log.txt"
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-c", code], stderr=file)
    try:
        assert until(lambda: b" at http://" in log.read_bytes()), log.read_text()
        port = int(re.search(rb":(\d+)/", log.read_bytes()).group(1))
        yield ("127.0.0.1", port), log, process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize(
    ("kind", "declared"), [(JSON, 20 * 2**20), (JSON, 10**6), (FORM, 8 * 10**6)]
)
def test_connections_that_declare_a_body_and_send_nothing_hold_nobody_up(
    built, start, kind, declared
):
    with start(built, max_requests=2) as client, ExitStack() as held:
        for _ in range(10):
            connection = held.enter_context(connect(client.address))
            connection.sendall((POST_IMAGES if kind == FORM else POST) % (kind, declared))
        assert client.post("/search", json={"text": "cat"}).status_code == 200
        assert client.get("/metrics").status_code == 200


def test_who_declares_too_much_or_has_no_token_is_answered_before_sending(
    built, start, token_files
):
    with start(built, **token_files) as client:
        for declared, status in ((20 * 2**20, 413), (1000, 401)):
            with connect(client.address) as connection:
                connection.sendall(POST % (JSON, declared))
                problem_in(read_all(connection), status)


def test_a_client_that_never_reads_is_cut_off(wordy, start):
    with start(wordy, max_answer_seconds=0.2) as client, ask_much(client.address) as connection:
        assert until(lambda: client.connections.n_unread)
        assert until(lambda: not len(client.connections))
        assert len(read_all(connection)) < 2_000_000
        assert client.post("/search", json={"text": "cat", "k": 200}).status_code == 200


def test_answers_that_nobody_reads_take_no_more_memory_than_they_may(wordy, start):
    limit = 3_000_000
    with (
        start(wordy, max_buffered_bytes=limit, max_work_seconds=100) as client,
        ExitStack() as held,
    ):
        for _ in range(20):
            held.enter_context(ask_much(client.address))
        assert until(lambda: "acqh_search_seconds_count 20.0" in client.get("/metrics").text)
        assert until(lambda: "acqh_requests_in_flight 1.0" in client.get("/metrics").text)
        assert 0 < client.connections.n_unread <= limit + 2_100_000
        assert client.get("/healthz").status_code == 200


def test_requests_behind_an_unread_answer_wait_for_it_to_leave(wordy, start):
    with start(wordy) as client, ask_much(client.address) as connection:
        assert until(lambda: client.connections.n_unread)
        body = json.dumps({"text": "cat", "k": 200}).encode()
        connection.sendall((POST % (JSON, len(body)) + body) * 3)
        connection.sendall(GET % b"/healthz")
        time.sleep(0.2)
        assert "acqh_search_seconds_count 1.0" in client.get("/metrics").text
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert read_all(connection).count(b"HTTP/1.1 200 OK") == 6


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [0, 120], ids=["one by one", "at once"])
def test_health_is_answered_though_more_connections_than_files_hold_on(wordy, at_once):
    with serving_with_few_files(wordy, 128) as (address, log, process), ExitStack() as held:
        process.send_signal(signal.SIGSTOP)  # as where it is too busy to take them in
        for _ in range(at_once):
            held.enter_context(ask_much(address))
        process.send_signal(signal.SIGCONT)
        for _ in range(140):
            held.enter_context(ask_much(address))
        with httpx.Client(base_url=f"http://{address[0]}:{address[1]}", trust_env=False) as client:
            assert client.get("/healthz", timeout=60).json()["status"] == "ok"
            assert client.get("/healthz", timeout=60).json()["status"] == "ok"
        assert "Traceback" not in log.read_text()
        assert len(log.read_bytes()) < 10_000


def test_the_connection_that_waited_longest_makes_room_for_another(built, start):
    with start(built, max_connections_per_address=4) as client, ExitStack() as held:
        first, *others = [held.enter_context(connect(client.address)) for _ in range(4)]
        assert client.get("/healthz").status_code == 200
        assert read_all(first) == b""
        for other in others:
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert read_all(other).startswith(b"HTTP/1.1 200")


def test_connections_that_declare_a_body_and_send_nothing_make_room(built, start):
    with start(built, max_connections_per_address=4) as client, ExitStack() as held:
        for _ in range(4):
            held.enter_context(connect(client.address)).sendall(POST % (JSON, 1000) + b"{")
        assert until(lambda: len(client.connections) == 4)
        for _ in range(3):
            assert client.get("/healthz").status_code == 200


def test_where_all_connections_are_worked_on_one_more_is_503(built, start, monkeypatch):
    release, began = threading.Event(), threading.Event()
    search = Collection.search

    def stuck(self, **query):
        began.set()
        release.wait(60)
        return search(self, **query)

    body = b'{"text": "cat"}'
    with start(built, max_connections=1) as client, connect(client.address) as busy:
        monkeypatch.setattr(Collection, "search", stuck)
        busy.sendall(POST % (JSON, len(body)) + body)
        assert began.wait(60)
        with connect(client.address) as another:
            assert "connections" in problem_in(read_all(another), 503)
        release.set()
        assert busy.recv(100).startswith(b"HTTP/1.1 200")


def test_a_body_of_very_many_keys_is_rejected_with_a_short_answer(client):
    many = json.dumps({f"key {n}": n for n in range(40_000)}).encode()
    nested = json.dumps({"text": "a", "where": {f"key {n}": n for n in range(40_000)}}).encode()
    deep = json.dumps({"text": "a", "where": {"x": [{f"k{n}": n for n in range(40_000)}]}}).encode()
    for body in (many, nested, deep, b'{"text": "a", "x": [' + b"0," * 300_000 + b"0]}"):
        answer = client.post("/search", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422
        assert len(answer.content) < 1000


def test_json_may_be_far_shorter_than_a_form(client):
    body = json.dumps({"text": "x" * 2**20})
    answer = client.post("/search", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert "1,048,576" in answer.json()["detail"]
    # As a field of a form, too: only files may be long.
    form = client.post("/search/images", files={"query": (None, body), "image": b""})
    assert form.status_code == 400


def bomb(width, height, kind="PNG", **options):
    file = io.BytesIO()
    Image.new("1" if kind == "PNG" else "L", (width, height)).save(file, kind, **options)
    return file.getvalue()


def test_small_files_of_very_many_pixels_are_rejected_and_photos_are_not(client):
    for content in (bomb(10_000, 7_000), bomb(5_000, 4_000, "JPEG", progressive=True),
                    bomb(9_000, 8_000, "JPEG")):  # fmt: skip
        answer = client.post("/search/images", files={"image": content})
        assert answer.status_code == 413
        assert "16,000,000 pixels" in answer.json()["detail"]
    for content in (bomb(5_000, 3_000), bomb(6_000, 4_000, "JPEG")):
        assert client.post("/search/images", files={"image": content}).status_code == 200


def test_images_do_not_keep_words_waiting(built, start, monkeypatch):
    release, began = threading.Event(), threading.Event()
    search = Collection.search

    def stuck(self, *, image=None, **query):
        if image is not None:
            began.set()
            release.wait(60)
        return search(self, image=image, **query)

    content = bomb(100, 100)
    part = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    body = part + content + b"\r\n--x--\r\n"
    with start(built, max_requests=8) as client, ExitStack() as held:
        monkeypatch.setattr(Collection, "search", stuck)
        held.callback(release.set)
        for _ in range(10):
            connection = held.enter_context(connect(client.address))
            connection.sendall(POST_IMAGES % (FORM, len(body)) + body)
        assert began.wait(60)
        refused = 'acqh_requests_total{method="POST",route="/search/images",status="429"} 6.0'
        assert until(lambda: refused in client.get("/metrics").text)
        assert client.post("/search/images", files={"image": content}).status_code == 429
        for _ in range(3):
            assert client.post("/search", json={"text": "cat"}).status_code == 200


def test_a_text_in_another_language_does_not_keep_others_waiting(built, start, monkeypatch):
    release, began, search = threading.Event(), threading.Event(), Collection.search

    def stuck(self, text=None, **query):
        if text == "ein Hund":  # as if the encoder was loaded
            began.set()
            release.wait(60)
        return search(self, text, **query)

    def is_other(_, text, language):
        return (text, language) == ("ein Hund", "auto")

    with start(built, n_threads=1) as client, ThreadPoolExecutor() as pool:
        monkeypatch.setattr(Collection, "search", stuck)
        monkeypatch.setattr("acqh.serve.handlers.is_other_language", is_other)
        other = pool.submit(client.post, "/search", json={"text": "ein Hund"})
        try:
            assert began.wait(60)
            assert client.post("/search", json={"text": "cat"}).status_code == 200
        finally:
            release.set()
        assert other.result().status_code == 200


def test_a_client_that_hangs_up_in_a_body_is_no_failure_of_the_server(built, start, caplog):
    with start(built) as client:
        for kind, begun in ((JSON, b"{"), (FORM, b"--x\r\n"), (FORM, b"nonsense")):
            with connect(client.address) as connection:
                connection.sendall((POST_IMAGES if kind == FORM else POST) % (kind, 1000) + begun)
        gone = 'acqh_requests_total{method="POST",route="/search",status="499"} 1.0'
        assert until(lambda: gone in client.get("/metrics").text)
        gone = 'acqh_requests_total{method="POST",route="/search/images",status="499"} 1.0'
        assert until(lambda: gone in client.get("/metrics").text)
        assert 'status="500"' not in client.get("/metrics").text
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(
    "sent",
    [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
     b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\xfc\x03\x03\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
     b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
     b"POST /search HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
     b"GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\nHost: a\r\n\r\n"],
)  # fmt: skip
def test_malformed_requests_are_400(client, sent, caplog):
    with connect(client.address) as connection:
        connection.sendall(sent)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert client.get("/healthz").status_code == 200
    assert "Traceback" not in caplog.text


def test_a_header_without_an_end_is_cut_off(client):
    with connect(client.address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        with suppress(ConnectionError):
            for _ in range(100):
                connection.sendall(b"X: " + b"x" * 4_000 + b"\r\n")
        assert read_all(connection) == b""
    assert client.get("/healthz").status_code == 200


def test_a_header_of_more_than_64_kib_is_431(client):
    assert client.get("/healthz", headers={"X": "x" * 60_000}).status_code == 200
    answer = client.get("/healthz", headers={f"X-{n}": "x" * 1_000 for n in range(70)})
    assert answer.status_code == 431
    assert answer.headers["content-type"] == "application/problem+json"
    with connect(client.address) as connection:
        connection.sendall(GET % (b"/healthz?" + b"x" * 66_000))
        assert read_all(connection).startswith(b"HTTP/1.1 400 ")


def test_a_body_in_many_parts_behind_an_unread_answer_is_no_endless_header(wordy, start):
    with start(wordy) as client, ask_much(client.address) as connection:
        assert until(lambda: client.connections.n_unread)
        body = json.dumps({"text": "cat", "k": 1}).encode().ljust(500_000)
        closes = (POST % (JSON, len(body))).replace(b"Host", b"Connection: close\r\nHost")
        sending = threading.Thread(target=connection.sendall, args=(closes + body,))
        sending.start()
        time.sleep(0.2)
        answers = read_all(connection)
        sending.join()
        assert answers.count(b"HTTP/1.1 200 OK") == 2


def test_every_id_can_be_reached(start, make_picture, tmp_path, write_tokens):
    odd = [".", "..", "a/b", "%2E", "?", "id=1&x"]
    items = [Item(text=f"{word} {n}", labels=[word]) for n in range(3) for word in ("cat", "car")]
    items += [
        Item(text=f"cat {n}", labels=["cat"], id=n, image=make_picture((9, 9, 9))) for n in odd
    ]
    path = tmp_path / "odd.acqh"
    Collection.build(
        items, path, n_components=2, n_codebooks=2, image_encoder="hog", text_encoder="tfidf"
    ).close()
    token = {"headers": {"Authorization": "Bearer write-0123456789abcdef"}}
    with start(path, write_token_file=write_tokens(tmp_path)["write_token_file"]) as client:
        hits = client.post("/search", json={"text": "cat", "k": 20}).json()["hits"]
        thumbnails = {hit["id"]: hit["thumbnail"] for hit in hits}
        for identifier in odd:
            request = {"params": {"id": identifier}}
            item = client.get("/item", **request).json()
            assert item["id"] == identifier
            assert item["thumbnail"] == thumbnails[identifier]
            assert client.get(item["thumbnail"]).headers["content-type"] == "image/webp"
            assert client.get("/item/thumbnail", **request).status_code == 200
            assert client.delete("/item", **request, **token).status_code == 204
            assert client.get("/item", **request).status_code == 404
        assert client.get("/item").status_code == 422


def test_a_label_as_long_as_collections_take_it_can_be_filtered_by(start, tmp_path):
    long = "very " * 199 + "long"
    items = [Item(text=f"cat {n}", labels=[long if n % 2 else "cat"]) for n in range(8)]
    Collection.build(
        items,
        tmp_path / "a.acqh",
        n_components=2,
        n_codebooks=2,
        image_encoder="hog",
        text_encoder="tfidf",
    ).close()
    with start(tmp_path / "a.acqh") as client:
        answer = client.post("/search", json={"text": "cat", "where": {"label": long}}).json()
        assert len(answer["hits"]) == 4

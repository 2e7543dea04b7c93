import base64
import gzip
import json
import socket
import struct
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from acqh.collection import Collection
from acqh.collection.generations import current_folder

JSON = {"content-type": "application/json"}


def problem(response, status):
    """Check that an answer is an error response with a status; return its detail."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert set(body) == {"type", "title", "status", "detail"}
    assert body["status"] == status
    assert "Traceback" not in response.text
    return body["detail"]


def talk(address, *parts, wait=0.0):
    """Send bytes on a socket as they are; return all that comes back until it is closed."""
    with socket.create_connection(address, timeout=60) as connection:
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(wait)
        except OSError:
            pass  # it was closed while we sent
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
        return answer


def head(length=None, **headers):
    lines = ["POST /search HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def png_header(width, height):
    """Return the first bytes of a PNG of any size, which need no memory."""

    def chunk(name, content):
        checksum = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)

    start = b"\x89PNG\r\n\x1a\n"
    return (
        start
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b""))
    )


@pytest.fixture(scope="module")
def narrow(built, start):
    """Return a client of a service with narrow limits."""
    limits = {"max_body_bytes": 20_000, "max_body_seconds": 0.3}
    with start(built, max_megapixels=0.01, **limits) as client:
        yield client


@pytest.mark.parametrize(
    "body",
    ["", "{", "null", "[]", "3", '"text"', "{}", '{"text": ""}', '{"text": 3}', '{"text": null}',
     '{"text": NaN}', '{"text": "a", "k": NaN}', '{"text": "a", "k": Infinity}',
     '{"text": "a", "k": 0}', '{"text": "a", "k": -1}', '{"text": "a", "k": 1000000000}',
     '{"text": "a", "k": 1e9}', '{"text": "a", "k": "5"}', '{"text": "a", "k": 5.5}',
     '{"text": "a", "k": true}', '{"text": "a", "weights": {"text": NaN}}',
     '{"text": "a", "weights": {"text": -1}}', '{"text": "a", "weights": {"text": 1e999}}',
     '{"text": "a", "where": {"turn": NaN}}', '{"text": "a", "where": {"": "x"}}',
     '{"text": "a", "where": {"x": []}}', '{"text": "a", "where": {"x": {"y": 1}}}',
     '{"text": "a", "unknown": 1}', '{"text": "\\ud800"}', '{"image": "?"}',
     '{"image": "aGFsbG8="}', '{"image": "/etc/passwd"}', '{"image": "http://localhost/a.png"}',
     "[" * 10_000],
)  # fmt: skip
def test_json_that_cannot_be_used_is_422(client, body):
    assert problem(client.post("/search", content=body, headers=JSON), 422)


def test_bytes_that_are_not_json_are_422(client):
    for body in (b"\xff\xfe", b"\x00" * 100, b'{"text": "\xff"}'):
        problem(client.post("/search", content=body, headers=JSON), 422)


@pytest.mark.parametrize(
    "query",
    ['{"k": 5}', '{"text": "a", "k": "five"}', '{"text": "a", "k": NaN}', '{"text": "a", "k": 1e9}',
     '{"text": "a", "where": "label=cat"}', '{"text": "a", "weights": {', '{"text": "a", "x": 1}',
     '{"text": ["a", "b"]}', "", "{", "[]", "[" * 10_000, '{"image": "text, not a file"}'],
)  # fmt: skip
def test_forms_that_cannot_be_used_are_422(client, query):
    problem(client.post("/search/images", data={"query": query}, files={"image": b""}), 422)


def test_an_image_that_is_a_text_is_422(client):
    problem(client.post("/search/images", files={"image": (None, "text, not a file")}), 422)


def test_a_form_that_is_no_form_is_400(client):
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x"):
        headers = {"content-type": kind}
        problem(client.post("/search/images", content=b"nonsense", headers=headers), 400)


def test_only_the_image_may_be_a_file(client):
    problem(client.post("/search/images", files={"query": ("a.txt", b"{}"), "image": b""}), 422)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml", "application/x-ndjson"])
def test_other_kinds_of_body_are_415(client, kind):
    for path in ("/search", "/search/images"):
        problem(client.post(path, content=b"{}", headers={"content-type": kind}), 415)


def test_a_text_that_is_too_long_is_422(client):
    assert "10000" in problem(client.post("/search", json={"text": "x" * 10_001}), 422)
    assert client.post("/search", json={"text": "x" * 10_000}).status_code == 200


def test_k_has_a_limit_that_the_answer_names(narrow):
    assert "1000" in problem(narrow.post("/search", json={"text": "cat", "k": 1_001}), 422)
    assert narrow.post("/search", json={"text": "cat", "k": 1000}).status_code == 200


def test_a_body_that_is_too_long_is_413_and_the_client_can_read_it(narrow):
    for n_bytes in (20_001, 70_000):
        body = b'{"text": "' + b"x" * n_bytes + b'"}'
        assert "20,000" in problem(narrow.post("/search", content=body, headers=JSON), 413)


def test_a_chunked_body_without_a_length_is_counted_as_it_arrives(narrow):
    n_sent = 0

    def body_parts():
        nonlocal n_sent
        for _ in range(25):
            n_sent += 1000
            yield b"x" * 1000

    problem(narrow.post("/search", content=body_parts(), headers=JSON), 413)
    endless = (b"3e8\r\n" + b"x" * 1000 + b"\r\n" for _ in range(100_000))
    answer = talk(narrow.address, head(Transfer_Encoding="chunked"), *endless)
    assert not answer or b" 413 " in answer.split(b"\r\n", 1)[0]


def test_a_short_chunked_body_is_answered(narrow):
    response = narrow.post("/search", content=iter([b'{"text":', b'"cat"}']), headers=JSON)
    assert response.status_code == 200


def test_a_length_that_lies_is_not_believed(narrow):
    # More than the body has: rejected because of the header alone.
    answer = talk(narrow.address, head(10**12))
    assert b" 413 " in answer.split(b"\r\n", 1)[0]
    assert b"connection: close" in answer.lower()
    # More than comes: the wait is limited.
    answer = talk(narrow.address, head(5000), b'{"text": "cat"}')
    assert b" 408 " in answer.split(b"\r\n", 1)[0]
    # Less than comes: the rest is not a request, and ends the connection.
    answer = talk(narrow.address, head(5), b'{"text": "cat", "k": 3}\r\n\r\n')
    assert answer.count(b"HTTP/1.1 400 ") == 1
    assert b"HTTP/1.1 200 " not in answer
    # Not a number at all.
    assert b" 400 " in talk(narrow.address, head("-5"), b"{}").split(b"\r\n", 1)[0]


def test_a_slow_sender_is_cut_off(narrow):
    body = [b"{", *[b" "] * 100]
    answer = talk(narrow.address, head(1000), *body, wait=0.02)
    assert b" 408 " in answer.split(b"\r\n", 1)[0]
    assert b"application/problem+json" in answer


def test_a_slow_header_is_cut_off(narrow):
    assert talk(narrow.address, b"GET /heal", *[b"x"] * 100, wait=0.02) == b""
    assert talk(narrow.address) == b""


def test_a_slow_second_header_on_one_connection_is_cut_off(narrow):
    first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = talk(narrow.address, first, b"GET ", *[b"x"] * 60, wait=0.02)
    assert answer.count(b"HTTP/1.1 ") == 1


def test_compressed_bodies_are_rejected_so_there_is_no_bomb(narrow):
    bomb = gzip.compress(b"x" * 10_000_000)
    assert len(bomb) < 20_000
    headers = JSON | {"content-encoding": "gzip"}
    assert "Content-Encoding" in problem(narrow.post("/search", content=bomb, headers=headers), 415)


def test_an_image_with_a_huge_header_is_413_before_it_is_decoded(client, narrow):
    sizes = [(9000, 9000), (13_000, 13_000), (100_000, 100_000), (2**31 - 1, 2**31 - 1)]
    for service, size in [(narrow, (101, 100)), *((client, size) for size in sizes)]:
        content = base64.b64encode(png_header(*size)).decode()
        assert "pixels" in problem(service.post("/search", json={"image": content}), 413)
        problem(service.post("/search/images", files={"image": png_header(*size)}), 413)


def test_images_that_are_damaged_or_of_another_kind_are_422(client, make_picture):
    image = make_picture((9, 9, 9))
    for content in (image[:60], b"%!PS-Adobe-3.0 EPSF-3.0\n", b"P6 1 1 255\nxxx", png_header(9, 9)):
        problem(client.post("/search/images", files={"image": content}), 422)


def test_paths_and_addresses_from_clients_are_never_opened(client, built):
    for address in (
        str(current_folder(built) / "items.sqlite"),
        "file:///etc/passwd",
        "/etc/passwd",
    ):
        problem(client.post("/search", json={"image": address}), 422)
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py",
                 "/items/..%2f..%2fetc%2fpasswd"):  # fmt: skip
        target = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert b" 404 " in talk(client.address, target.encode()).split(b"\r\n", 1)[0]


def test_unknown_addresses_and_methods_are_problems(client):
    problem(client.get("/nowhere"), 404)
    problem(client.get("/item?id=nothing"), 404)
    problem(client.post("/search", json={"item": "nothing"}), 404)
    response = client.put("/item?id=plain")
    problem(response, 405)
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD"}


def test_the_server_is_read_only_by_default(client):
    problem(client.post("/items", json={"items": [{"text": "cat"}]}), 404)
    problem(client.delete("/item?id=plain"), 405)
    assert client.get("/item?id=plain").status_code == 200


def test_there_is_no_cors_and_other_host_names_are_rejected(client):
    response = client.get("/info", headers={"Origin": "https://evil.example"})
    assert not [name for name in response.headers if name.startswith("access-control")]
    preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    problem(client.options("/search", headers=preflight), 405)
    problem(client.get("/info", headers={"Host": "evil.example"}), 400)


def test_every_answer_has_the_security_headers(client):
    for response in (client.get("/"), client.get("/nowhere"), client.get("/item?id=plain"),
                     client.post("/search", content=b"x" * 9_000_000, headers=JSON),
                     client.get("/", headers={"Host": "evil.example"})):  # fmt: skip
        assert response.headers["content-security-policy"].startswith("default-src 'none'")
        assert "unsafe" not in response.headers["content-security-policy"]
        assert response.headers["cache-control"] in ("no-store", "no-cache")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "server" not in response.headers


def test_a_search_that_takes_too_long_is_503_and_the_server_lives_on(built, start, monkeypatch):
    release = threading.Event()
    search = Collection.search

    def stuck(self, *, text=None, **others):
        if text == "stuck":
            release.wait(60)
        return search(self, text=text, **others)

    monkeypatch.setattr(Collection, "search", stuck)
    with start(built, max_work_seconds=0.2) as client:
        response = client.post("/search", json={"text": "stuck"})
        problem(response, 503)
        assert response.headers["retry-after"] == "1"
        assert client.post("/search", json={"text": "cat"}).status_code == 200
        release.set()


def test_one_request_too_many_is_429_and_health_is_still_answered(built, start, monkeypatch):
    release, began = threading.Event(), threading.Semaphore(0)
    search = Collection.search

    def stuck(self, **query):
        began.release()
        release.wait(60)
        return search(self, **query)

    with start(built, max_requests=2) as client, ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(Collection, "search", stuck)
        ask = {"text": "cat"}
        waiting = [pool.submit(client.post, "/search", json=ask) for _ in range(2)]
        assert began.acquire(timeout=60)
        assert began.acquire(timeout=60)
        response = client.post("/search", json=ask)
        problem(response, 429)
        assert response.headers["retry-after"] == "1"
        assert client.get("/healthz").json()["status"] == "ok"
        assert client.get("/metrics").status_code == 200
        release.set()
        assert [future.result().status_code for future in waiting] == [200, 200]
        assert client.post("/search", json=ask).status_code == 200


def test_what_fails_inside_is_500_without_details(built, start, monkeypatch, caplog):
    def fails(self, **query):
        raise RuntimeError("secret detail")

    with start(built) as client:
        monkeypatch.setattr(Collection, "search", fails)
        response = client.post("/search", json={"text": "cat"})
        assert "secret" not in problem(response, 500)
        assert "secret detail" in caplog.text
        monkeypatch.undo()
        assert client.post("/search", json={"text": "cat"}).status_code == 200


def test_searches_do_not_block_the_event_loop(built, start, monkeypatch):
    release, began = threading.Event(), threading.Event()

    def stuck(self, **query):
        began.set()
        release.wait(60)
        raise RuntimeError("done")

    with start(built) as client, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(Collection, "search", stuck)
        waiting = pool.submit(client.post, "/search", json={"text": "cat"})
        assert began.wait(60)
        assert client.get("/healthz").status_code == 200
        release.set()
        assert waiting.result().status_code == 500


def test_answers_survive_a_client_that_hangs_up(client):
    body = json.dumps({"text": "cat"}).encode()
    for _ in range(5):
        with socket.create_connection(client.address, timeout=60) as connection:
            connection.sendall(head(len(body)) + body)
        with socket.create_connection(client.address, timeout=60) as connection:
            connection.sendall(head(len(body)) + body[:5])
    assert client.post("/search", json={"text": "cat"}).status_code == 200

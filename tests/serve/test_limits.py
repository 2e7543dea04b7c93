import asyncio
import io
import json
import threading
import time

import pytest
from PIL import Image
from starlette.exceptions import HTTPException

from acqh.serve.live import Workers
from acqh.serve.middleware import LimitBody, Shield, allowed_names
from acqh.serve.schemas import error_response
from acqh.serve.settings import Limits


def limit_body(app, max_seconds=5.0, **limits):
    """Wrap an application with a limit of 10 bytes, or others."""
    usual = {"max_body_bytes": 10, "max_json_bytes": 10, "max_buffered_bytes": 10**6}
    return LimitBody(app, Limits(max_body_seconds=max_seconds, **{**usual, **limits}))


async def echo(scope, receive, send):
    """Read the whole body, then say how long it was."""
    n_bytes, more = 0, True
    try:
        while more:
            message = await receive()
            n_bytes += len(message.get("body", b""))
            more = message.get("more_body", False)
    except HTTPException as error:
        await error_response(error.status_code, error.detail, error.headers)(scope, receive, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(n_bytes).encode()})


def call(app, chunks=(b"",), *, headers=(), path="/", delay=0.0, raw_path=None):
    """Send one request; return status, headers, body, and how many chunks were read before."""
    sent, n_read, n_before = [], 0, None

    async def receive():
        nonlocal n_read
        await asyncio.sleep(delay)
        n_read += 1
        body = chunks[n_read - 1]
        return {"type": "http.request", "body": body, "more_body": n_read < len(chunks)}

    async def send(message):
        nonlocal n_before
        n_before = n_read if n_before is None else n_before
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": raw_path,
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return (
        sent[0]["status"],
        answered,
        b"".join(part.get("body", b"") for part in sent[1:]),
        n_before,
    )


def test_a_body_up_to_the_limit_passes_however_it_is_split():
    app = limit_body(echo)
    for chunks in ([b"0123456789"], [b"01234", b"56789"], [b"0"] * 10, [b""]):
        status, _, body, _ = call(app, chunks)
        assert (status, int(body)) == (200, len(b"".join(chunks)))


def test_one_byte_too_many_is_413_though_no_length_was_declared():
    app = limit_body(echo)
    status, headers, body, _ = call(app, [b"0123456789", b"x"])
    assert status == 413
    assert headers["connection"] == "close"
    assert json.loads(body)["status"] == 413


def test_a_declared_length_is_not_believed_when_less_and_believed_when_more():
    app = limit_body(echo)
    assert call(app, [b"x" * 11], headers=[("content-length", "3")])[0] == 413
    status, _, _, n_read = call(app, [b"x"], headers=[("content-length", "1" + "0" * 30)])
    assert (status, n_read) == (413, 0)


def test_a_body_that_is_declared_too_long_is_rejected_unread():
    app = limit_body(echo)
    assert call(app, [b"x" * 10] * 3, headers=[("content-length", "30")])[::3] == (413, 0)


def test_json_has_a_limit_of_its_own():
    app = limit_body(echo, max_body_bytes=100)
    for kind, status in (("application/json", 413), ("Application/JSON; charset=x", 413),
                         ("multipart/form-data", 200)):  # fmt: skip
        headers = [("content-type", kind), ("content-length", "50")]
        assert call(app, [b"x" * 50], headers=headers)[0] == status
        assert call(app, [b"x" * 50], headers=headers[:1])[0] == status


def test_all_bodies_together_have_a_limit_and_the_slowest_makes_room():
    app = limit_body(echo, max_buffered_bytes=15)
    statuses = {}

    async def run():
        async def ask(name, parts):
            left = iter(parts)

            async def receive():
                part = next(left, None)
                if part is None:
                    await asyncio.sleep(60)  # it never ends
                return {"type": "http.request", "body": part, "more_body": True}

            async def send(message):
                statuses.setdefault(name, message.get("status"))

            await app({"type": "http", "method": "POST", "headers": []}, receive, send)

        slow = asyncio.create_task(ask("slow", [b"x" * 8]))
        await asyncio.sleep(0.01)
        other = asyncio.create_task(ask("other", [b"x" * 8]))
        await asyncio.wait_for(slow, 5)
        assert not other.done()
        other.cancel()

    asyncio.run(run())
    assert statuses == {"slow": 408}


def test_a_client_that_waits_for_our_word_is_rejected_before_it_sends():
    app = limit_body(echo)
    headers = [("content-length", "30"), ("expect", "100-continue")]
    assert call(app, [b"x" * 30], headers=headers)[::3] == (413, 0)


def test_a_connection_is_closed_when_its_body_was_not_read():
    async def hasty(scope, receive, send):
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    length = [("content-length", "5")]
    for app, headers, closes in ((hasty, length, True), (echo, length, False), (hasty, [], False),
                                 (hasty, [("transfer-encoding", "chunked")], True)):  # fmt: skip
        answered = call(limit_body(app), [b"12345"], headers=headers)[1]
        assert ("connection" in answered) == closes


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, identity", "GZIP"])
def test_compressed_bodies_are_rejected_unread(encoding):
    app = limit_body(echo)
    assert call(app, [b"x"], headers=[("content-encoding", encoding)])[0] == 415
    assert call(app, [b"x"], headers=[("content-encoding", "identity")])[0] == 200


def test_a_slow_sender_is_408():
    app = limit_body(echo, 0.03)
    status, _, body, n_read = call(app, [b"x"] * 100, delay=0.01)
    assert status == 408
    assert "0.03 s" in json.loads(body)["detail"]
    assert n_read < 10


def test_the_end_of_a_connection_has_no_deadline():
    async def waits_for_the_end(scope, receive, send):
        await receive()
        assert (await receive())["type"] == "http.disconnect"

    async def run():
        messages = iter([{"type": "http.request", "body": b"x"}, {"type": "http.disconnect"}])
        delays = iter([0, 0.03])

        async def receive():
            await asyncio.sleep(next(delays))
            return next(messages)

        app = limit_body(waits_for_the_end, 0.02)
        await app({"type": "http", "headers": []}, receive, None)

    asyncio.run(run())


def test_one_request_too_many_is_429_and_failed_work_gives_its_place_back():
    slots = Workers(1, 2, 1.0)
    with slots.slot("quick"), slots.slot("quick"):
        with pytest.raises(HTTPException, match="2") as caught, slots.slot("quick"):
            pass
        assert (caught.value.status_code, caught.value.headers) == (429, {"Retry-After": "1"})
    for _ in range(3):
        with pytest.raises(RuntimeError, match="on purpose"), slots.slot("quick"):
            raise RuntimeError("on purpose")


def test_images_take_half_of_the_places_at_most():
    slots = Workers(1, 4, 1.0)
    with slots.slot("image"), slots.slot("image"):
        with pytest.raises(HTTPException, match="2"), slots.slot("image"):
            pass
        with slots.slot("quick"), slots.slot("quick"), pytest.raises(HTTPException):
            slots.slot("quick").__enter__()


def test_as_many_threads_encode_images_as_search():
    workers = Workers(2, 4, 1.0)
    together = threading.Barrier(2, timeout=30)

    async def run():
        return await asyncio.gather(*[workers.run(together.wait, "image") for _ in range(2)])

    assert set(asyncio.run(run())) == {0, 1}
    workers.close()


def test_texts_that_wait_are_prepared_together_and_each_gets_its_answer():
    prepared, begun, release = [], threading.Event(), threading.Event()

    def prepare(texts):
        prepared.append(texts)
        raise RuntimeError("each search raises it for itself")

    workers = Workers(1, 9, 30.0, prepare)

    async def run():
        def begin():
            begun.set()
            return release.wait(30)

        works = [begin, *(lambda text=text: text / 2 for text in (1, 2, "c", 4))]
        searches = []
        for number, work in enumerate(works):
            search = workers.run(work, "text", text=number)
            searches.append(asyncio.ensure_future(search))
            await asyncio.sleep(0)
            await asyncio.to_thread(begun.wait, 30)
        release.set()
        return await asyncio.gather(*searches, return_exceptions=True)

    first, *others = asyncio.run(run())
    assert first
    assert [*others[:2], others[3]] == [0.5, 1.0, 2.0]
    assert isinstance(others[2], TypeError)
    assert prepared == [[1, 2, 3, 4]]
    workers.close()


def test_a_text_does_not_wait_for_other_requests():
    release, workers = threading.Event(), Workers(1, 4, 30.0)

    async def run():
        change = asyncio.ensure_future(workers.run(release.wait))
        hits = await workers.run(lambda: 7, "text", text="dog")
        release.set()
        return hits, await change

    assert asyncio.run(run()) == (7, True)
    workers.close()


def test_texts_are_searched_on_the_event_loop_while_they_are_quick():
    workers = Workers(1, 4, 30.0)

    def work():
        """Take much of the processor."""
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            pass
        return threading.get_ident()

    async def run():
        async def search(work=threading.get_ident, **options):
            return await workers.run(work, "text", text="dog", **{"may_be_quick": True} | options)

        first, *_, last = [await search() for _ in range(40)]
        assert first != last == threading.get_ident()
        assert await search(may_be_quick=False) != last
        assert await search(work) == last  # nobody knows before
        assert last not in [await search() for _ in range(4)]

    asyncio.run(run())
    workers.close()


def test_images_may_have_as_many_pixels_as_is_set(built, start):
    file = io.BytesIO()
    # 67 million, in one byte each: four times the limit for colours is allowed.
    Image.new("1", (8_192, 8_192)).save(file, "PNG")
    with start(built, max_megapixels=70) as client:
        assert client.post("/search/images", files={"image": file.getvalue()}).status_code == 200
    with start(built, max_megapixels=16) as client:
        assert client.post("/search/images", files={"image": file.getvalue()}).status_code == 413


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8000", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("LOCALHOST", 200),
     ("evil.example", 400), ("localhost.evil.example", 400), ("", 400)],
)  # fmt: skip
def test_on_loopback_other_names_are_rejected(host, status):
    app = Shield(echo, allowed_names("127.0.0.1", True, []))
    assert call(app, headers=[("host", host)])[0] == status


def test_names_can_be_added_and_other_addresses_take_any():
    assert allowed_names("10.0.0.1", False, []) is None
    assert "search.example" in allowed_names("127.0.0.1", True, ["Search.example"])


def test_late_work_is_503_and_work_that_has_not_begun_is_dropped():
    release, done = threading.Event(), []
    workers = Workers(1, 4, 0.01)

    async def run():
        jobs = workers.run(release.wait), workers.run(lambda: done.append(1))
        return await asyncio.gather(*jobs, return_exceptions=True)

    for error in asyncio.run(run()):
        assert error.status_code == 503
        assert error.headers["Retry-After"]
    release.set()
    workers.close()
    assert not done


def test_a_change_that_has_begun_is_waited_for():
    release, workers = threading.Event(), Workers(1, 4, 0.01)
    threading.Timer(0.05, release.set).start()
    assert asyncio.run(workers.run(release.wait, abandon=False))
    workers.close()

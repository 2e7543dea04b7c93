"""Middleware around every request: limits on bodies and headers, hosts, metrics, and the log."""

import asyncio
import logging
import re
import time
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acqh.serve.metrics import Metrics
from acqh.serve.schemas import RETRY, error_response
from acqh.serve.settings import Limits

_LOG = logging.getLogger(__name__)

SECURITY_HEADERS = {
    # Files of the web interface and images that users drop there, nothing inline or external.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "media-src 'self' blob:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
_RAW_HEADERS = [(name.lower().encode(), text.encode()) for name, text in SECURITY_HEADERS.items()]
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(
    r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\s:@/\[\]]+))(?::(?P<port>\d{1,5}))?",
    re.IGNORECASE,
)
# Headers of proxies. By default nginx adds none of them, but speaks HTTP/1.0, which no browser
# does.
_PROXY_HEADERS = frozenset(
    {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}
)
_NO_PROXY = (
    "the request came through a proxy, which could show the collection to everybody; to allow it, "
    "set ACQH_ALLOWED_HOSTS to the names of your site, or require a token with --token-file"
)
_CLOSE = {"Connection": "close"}
_TOO_LONG = "the body is longer than {:,} bytes; send a smaller image, and as a form"
MAX_HEADER_BYTES = 2**16
# An unread body is discarded for this long, or up to this many times the longest allowed.
_LINGER_SECONDS, _DISCARD = 2.0, 4
# Others are counted together: clients can make up as many as they like.
_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "DELETE"})

# Not a status of HTTP, but counted as one if a client hung up before an answer.
_CLIENT_GONE = 499


class LimitBody:
    """Limits the bytes of a body as they arrive, whatever its header says, and their time.

    A body that is declared too long or compressed is rejected unread. If a body turns out too long
    or too slow, ``receive`` raises HTTPException. If a request is answered before all of its body
    was read, some more is discarded and the connection is closed.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self._n_bytes = 0  # of all bodies of requests in progress
        self._growing: dict[_Body, None] = {}  # in the order in which they last grew

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, most = Headers(scope=scope), self.limits.max_body_bytes
        if headers.get("content-type", "").strip().lower().startswith("application/json"):
            most = min(most, self.limits.max_json_bytes)
        body = _Body(receive, headers, most, self)

        async def close_if_unread(message: Message) -> None:
            # Otherwise the server would go on to read a body without an end.
            if message["type"] == "http.response.start" and body.is_expected:
                MutableHeaders(scope=message)["Connection"] = "close"
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            if is_last and body.is_expected and "expect" not in headers:
                await send({**message, "more_body": True})
                await body.discard()
                message = {"type": "http.response.body"}
            await send(message)

        app = self.app
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            detail = "compressed bodies are not supported; send it without Content-Encoding"
            app = error_response(415, detail, {"Accept-Encoding": "identity"} | _CLOSE)
        elif body.n_declared > most:
            app = error_response(413, _TOO_LONG.format(most), _CLOSE)
        try:
            await app(scope, body.receive, close_if_unread)
        finally:
            self._drop(body)

    def grow(self, body: "_Body", n_bytes: int) -> None:
        """Count more bytes; if they are too many, cut off the slowest others, or raise 503."""
        self._n_bytes += n_bytes
        body.n_buffered += n_bytes
        self._growing.pop(body, None)
        while self._n_bytes > self.limits.max_buffered_bytes:
            slowest = next(iter(self._growing), None)
            if slowest is None:
                detail = "other requests are too large at the moment; try again soon"
                raise HTTPException(503, detail, RETRY | _CLOSE)
            self._drop(slowest)
            slowest.cut_off()
        if not body.is_complete:
            self._growing[body] = None

    def _drop(self, body: "_Body") -> None:
        self._growing.pop(body, None)
        self._n_bytes -= body.n_buffered
        body.n_buffered = 0


class _Body:
    """The body of one request, as it arrives."""

    def __init__(self, receive: Receive, headers: Headers, most: int, bodies: LimitBody) -> None:
        length = headers.get("content-length", "")
        self.n_declared = int(length) if length.isdecimal() else 0
        self._is_declared = self.n_declared > 0 or "transfer-encoding" in headers
        self._receive = receive
        self._most = most
        self._deadline = time.monotonic() + bodies.limits.max_body_seconds
        self._bodies = bodies
        self._timeout: asyncio.Timeout | None = None
        self._n_bytes = 0
        self.n_buffered = 0
        self.is_complete = False

    @property
    def is_expected(self) -> bool:
        """Whether there is more to come."""
        return self._is_declared and not self.is_complete

    async def receive(self) -> Message:
        """Return the next message, or raise HTTPException if it is too long or too late."""
        if self.is_complete:  # the next message is the end of the connection: it has no deadline
            return await self._receive()
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()) as self._timeout:
                message = await self._receive()
        except TimeoutError:
            detail = (
                f"the body took longer than {self._bodies.limits.max_body_seconds:g} s to arrive, "
                "or was slower than others that needed its memory"
            )
            raise HTTPException(408, detail, _CLOSE) from None
        finally:
            self._timeout = None
        n_bytes = self._count(message)
        if self._n_bytes > self._most:
            raise HTTPException(413, _TOO_LONG.format(self._most), _CLOSE)
        self._bodies.grow(self, n_bytes)
        return message

    def _count(self, message: Message) -> int:
        n_bytes = len(message.get("body", b""))
        self._n_bytes += n_bytes
        self.is_complete = not message.get("more_body", False)
        return n_bytes

    async def discard(self) -> None:
        """Read the rest for a while.

        Most clients send all of a body before they read an answer. If the server closed the
        connection meanwhile, they would see that instead.
        """
        limit = self._n_bytes + _DISCARD * self._most
        with suppress(TimeoutError, ClientDisconnect):
            async with asyncio.timeout(_LINGER_SECONDS):
                while not self.is_complete and self._n_bytes < limit:
                    self._count(await self._receive())

    def cut_off(self) -> None:
        """Wait no longer."""
        self._deadline = time.monotonic()
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())


class Shield:
    """ASGI middleware around everything else.

    It rejects requests that name another host (DNS rebinding) or have a header that is too long.
    It adds security headers to every answer and hides internal errors from clients. It counts and
    times requests by route, never by text that clients send.

    `hosts`: names by which clients may call; None allows any. `root_path`: prefix that paths may
    have; Starlette removes it. `is_open`: everybody on this machine may read, so that a proxy here
    would let in the world: its requests are rejected.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: frozenset[str] | None,
        root_path: str = "",
        metrics: Metrics | None = None,
        is_open: bool = False,
    ) -> None:
        self.app = app
        self.hosts = hosts
        self.root_path = root_path
        self.metrics = metrics or Metrics()
        self.is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), _CLIENT_GONE

        async def add_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                more = [pair for pair in _RAW_HEADERS if pair[0] not in present]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        if f"{scope['path']}/".startswith(f"{self.root_path}/"):
            scope["root_path"] = self.root_path
        with self.metrics.in_flight.track_inprogress():
            try:
                await (self._rejection(scope) or self.app)(scope, receive, add_headers)
            except ClientDisconnect:
                return  # there is nobody to answer, and nothing is wrong here
            except Exception:
                _LOG.exception("%s failed", scope["method"])
                if status != _CLIENT_GONE:
                    raise
                failure = error_response(500, "an error in the server; see its log")
                await failure(scope, receive, add_headers)
            finally:
                route = getattr(scope.get("route"), "path", None) or "other"
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self.metrics.requests.labels(method, route, status).inc()
                elapsed = time.perf_counter() - started
                self.metrics.request_seconds.labels(route).observe(elapsed)

    def _rejection(self, scope: Scope) -> Response | None:
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if size > MAX_HEADER_BYTES:
            return error_response(431, f"send at most {MAX_HEADER_BYTES:,} bytes of header", _CLOSE)
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) > 1:
            return error_response(400, "send one Host header")
        if self.hosts is not None and host_name("".join(hosts)) not in self.hosts:
            return error_response(400, "host not allowed; add it to ACQH_ALLOWED_HOSTS")
        is_proxied = scope.get("http_version") == "1.0" or not _PROXY_HEADERS.isdisjoint(headers)
        return error_response(403, _NO_PROXY) if self.is_open and is_proxied else None


def allowed_names(host: str, is_loopback: bool, extra: list[str]) -> frozenset[str] | None:
    """Return the names by which clients may call, or None for any.

    On another address than loopback the collection requires a token, which other web pages do not
    have; there, names are checked only if `extra` has some.
    """
    if not is_loopback and not extra:
        return None
    return _LOOPBACK_NAMES | {host.lower(), *(name.lower() for name in extra)}


def host_name(header: str) -> str:
    """Return the name in a Host header, without the port; empty if it is malformed.

    Examples
    --------
    >>> host_name("localhost:8000"), host_name("[::1]:8000"), host_name("Example.org")
    ('localhost', '::1', 'example.org')
    >>> host_name("localhost:99999"), host_name("localhost:80@example.org")
    ('', '')
    """
    match = _HOST.fullmatch(header)
    if match is None or int(match["port"] or 0) > 65_535:
        return ""
    return (match["address"] or match["name"]).lower()

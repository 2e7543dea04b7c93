"""What stands around every request: limits on bodies, names and headers, counts, and the log."""

import asyncio
import logging
import re
import time
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acqh.serve.metrics import Metrics
from acqh.serve.schemas import ProblemError
from acqh.serve.settings import Limits

_LOG = logging.getLogger(__name__)

SECURITY_HEADERS = {
    # The page's own files and images it was given, nothing inline, nothing from elsewhere.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
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
# What proxies add. nginx adds none of them unless it is told to, but speaks HTTP/1.0, which no
# browser does.
_PROXY_HEADERS = frozenset(
    {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}
)
_NO_PROXY = (
    "the request came through a proxy, which could show the collection to everybody; to allow it, "
    "set ACQH_ALLOWED_HOSTS to the names of your site, or require a token with --token-file"
)
_CLOSE = {"Connection": "close"}
# A body that nobody reads is discarded for this long, or this many times the longest allowed.
_LINGER_SECONDS, _DISCARD = 2.0, 4
# Others are counted together: clients can make up as many as they like.
_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE"})

# Not a status of HTTP, but counted as one where a client hung up and nothing was answered.
_CLIENT_GONE = 499


class LimitBody:
    """Counts a body's bytes as they arrive, whatever its header says, and times its arrival.

    A body that is declared too long or compressed is refused at once, unread. One that turns out
    too long, or too slow, makes ``receive`` raise `ProblemError`. If a request was answered before
    all of its body was read, some more is discarded and the connection is closed.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self._all = _Bodies(limits.max_buffered_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        in_json = headers.get("content-type", "").strip().lower().startswith("application/json")
        most = self.limits.max_body_bytes
        most = min(most, self.limits.max_json_bytes) if in_json else most
        body = _Body(receive, most, self.limits.max_body_seconds, self._all)

        async def close_if_unread(message: Message) -> None:
            is_unread = body.is_expected(headers)
            # Otherwise the server would go on to read a body without an end.
            if message["type"] == "http.response.start" and is_unread:
                MutableHeaders(scope=message)["Connection"] = "close"
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            if is_last and is_unread and "expect" not in headers:
                await send({**message, "more_body": True})
                await body.discard()
                message = {"type": "http.response.body"}
            await send(message)

        refusal = _refusal(headers, most)
        app = self.app if refusal is None else refusal.response()
        try:
            await app(scope, body.receive, close_if_unread)
        finally:
            self._all.drop(body)


def _refusal(headers: Headers, most: int) -> ProblemError | None:
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        detail = "compressed bodies are not taken; send it as it is, without Content-Encoding"
        return ProblemError(415, detail, {"Accept-Encoding": "identity"} | _CLOSE)
    return _too_long(most) if _declared_bytes(headers) > most else None


def _declared_bytes(headers: Headers) -> int:
    declared = headers.get("content-length", "")
    return int(declared) if declared.isdecimal() else 0


def _too_long(most: int) -> ProblemError:
    detail = f"the body is longer than {most:,} bytes; send a smaller image, and as a form"
    return ProblemError(413, detail, _CLOSE)


class _Bodies:
    """All bodies that are arriving or worked on, and how much memory they take."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        # In the order in which they last grew.
        self._growing: dict[_Body, None] = {}
        self._sizes: dict[_Body, int] = {}

    def grow(self, body: "_Body", n_bytes: int, *, is_complete: bool) -> None:
        """Count more bytes; cut off the slowest others, or raise `ProblemError`, if too many."""
        self._n_bytes += n_bytes
        self._sizes[body] = self._sizes.get(body, 0) + n_bytes
        self._growing.pop(body, None)
        while self._n_bytes > self._max_bytes:
            slowest = next(iter(self._growing), None)
            if slowest is None:
                detail = "other requests bring too much at the moment; try again soon"
                raise ProblemError(503, detail, {"Retry-After": "1"} | _CLOSE)
            self.drop(slowest)
            slowest.cut_off()
        if not is_complete:
            self._growing[body] = None

    def drop(self, body: "_Body") -> None:
        """Forget a body."""
        self._growing.pop(body, None)
        self._n_bytes -= self._sizes.pop(body, 0)


class _Body:
    """The body of one request, as it arrives."""

    def __init__(self, receive: Receive, most: int, max_seconds: float, among: _Bodies) -> None:
        self._receive = receive
        self._most = most
        self._max_seconds = max_seconds
        self._among = among
        self._deadline = time.monotonic() + max_seconds
        self._patience: asyncio.Timeout | None = None
        self._n_bytes = 0
        self._is_complete = False

    def is_expected(self, headers: Headers) -> bool:
        """Say whether there is more of the body to come."""
        declared = _declared_bytes(headers) > 0 or "transfer-encoding" in headers
        return declared and not self._is_complete

    async def receive(self) -> Message:
        """Return the next piece, or raise `ProblemError` if it is too much or too late."""
        if self._is_complete:  # what comes now is the end of the connection: it has no deadline
            return await self._receive()
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()) as patience:
                self._patience = patience
                message = await self._receive()
        except TimeoutError:
            detail = (
                f"the request's body took longer than {self._max_seconds:g} s to arrive, "
                "or others needed its place while it did"
            )
            raise ProblemError(408, detail, _CLOSE) from None
        finally:
            self._patience = None
        n_more = len(message.get("body", b""))
        self._n_bytes += n_more
        self._is_complete = not message.get("more_body", False)
        if self._n_bytes > self._most:
            raise _too_long(self._most)
        self._among.grow(self, n_more, is_complete=self._is_complete)
        return message

    async def discard(self) -> None:
        """Read what still comes for a while.

        Most clients send all of a body before they read an answer. If the server closed the
        connection meanwhile, they would see that instead.
        """
        n_bytes = 0
        with suppress(TimeoutError, ClientDisconnect):
            async with asyncio.timeout(_LINGER_SECONDS):
                while not self._is_complete and n_bytes < _DISCARD * self._most:
                    message = await self._receive()
                    n_bytes += len(message.get("body", b""))
                    self._is_complete = not message.get("more_body", False)

    def cut_off(self) -> None:
        """Wait no longer."""
        self._deadline = time.monotonic()
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())


class Shield:
    """ASGI middleware around everything else.

    It refuses requests that name another host (a page elsewhere whose name was made to lead to
    this machine; Starlette's own would answer in plain text), adds security headers to every
    answer, turns whatever goes wrong into a problem that tells clients nothing of our insides, and
    counts and times requests by route, never by what clients wrote.

    `hosts`: names by which clients may call; None allows any. `root_path`: what may stand before
    every path; Starlette takes it off. `is_open`: everybody on this machine may read, so that a
    proxy here would let in the world: its requests are rejected.
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
                known = {name for name, _ in message["headers"]}
                more = [pair for pair in _RAW_HEADERS if pair[0] not in known]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        with self.metrics.in_flight.track_inprogress():
            try:
                await self._answer(scope, receive, add_headers)
            except ClientDisconnect:
                return  # there is nobody to answer, and nothing is wrong here
            except Exception:
                _LOG.exception("%s failed", scope["method"])
                if status != _CLIENT_GONE:
                    raise
                detail = "something failed in the service; its log says what"
                await ProblemError(500, detail).response()(scope, receive, add_headers)
            finally:
                route = getattr(scope.get("route"), "path", None) or "other"
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self.metrics.requests.labels(method, route, status).inc()
                elapsed = time.perf_counter() - started
                self.metrics.request_seconds.labels(route).observe(elapsed)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) > 1:
            await ProblemError(400, "send one Host header").response()(scope, receive, send)
            return
        if self.hosts is not None and host_name("".join(hosts)) not in self.hosts:
            detail = "host not allowed; add it to ACQH_ALLOWED_HOSTS"
            await ProblemError(400, detail).response()(scope, receive, send)
            return
        is_proxied = scope.get("http_version") == "1.0" or not _PROXY_HEADERS.isdisjoint(headers)
        if self.is_open and is_proxied:
            await ProblemError(403, _NO_PROXY).response()(scope, receive, send)
            return
        if f"{scope['path']}/".startswith(f"{self.root_path}/"):
            scope["root_path"] = self.root_path
        await self.app(scope, receive, send)


def allowed_names(host: str, is_loopback: bool, extra: list[str]) -> frozenset[str] | None:
    """Return the names by which clients may call, or None for any.

    On another address than loopback a token guards the collection, which pages elsewhere do not
    have; there names are checked only where some are given.
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

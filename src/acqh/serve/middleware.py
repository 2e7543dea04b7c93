"""What stands around every request: limits on bodies, names and headers, counts, and the log."""

import asyncio
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acqh.collection import Answer
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
# A search takes microseconds, an image to describe tens of milliseconds.
_BUCKETS = [round(step * 10.0**power, 7) for power in range(-5, 1) for step in (1, 2.5, 5)]

_REQUEST_LABELS = ["method", "route", "status"]
# Others are counted together: clients can make up as many as they like.
_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE"})

# Not a status of HTTP, but counted as one where a client hung up and nothing was answered.
_CLIENT_GONE = 499
# Those that write when a client does something wrong, by the names of the loggers they use:
# filters do not hold for loggers further down.
_LOGGERS = ("asyncio", "uvicorn.error", "acqh.serve.middleware")
_KEPT = 256


class LimitBody:
    """Counts a body's bytes as they arrive, whatever its header says, and times its arrival.

    A body that is declared too long or compressed is refused at once, unread. One that turns out
    too long, or too slow, makes ``receive`` raise `ProblemError`. A connection is closed when its
    request was answered before all of the body was read.
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
        refusal = _refusal(headers, most)
        if refusal is not None:
            await refusal.response()(scope, receive, send)
            return
        body = _Body(receive, most, self.limits.max_body_seconds, self._all)

        async def close_if_unread(message: Message) -> None:
            # Otherwise the server would go on to read, and throw away, a body without an end.
            if message["type"] == "http.response.start" and body.is_expected(headers):
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        try:
            await self.app(scope, body.receive, close_if_unread)
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
        metrics: "Metrics | None" = None,
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
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
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
        host = host_name(headers.get("host", ""))
        if self.hosts is not None and host not in self.hosts:
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


class Metrics:
    """Counts of one service, kept in a registry of its own so that services do not mix."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        times = partial(Histogram, buckets=_BUCKETS, registry=registry)
        self.requests = counter("acqh_requests", "Requests answered.", _REQUEST_LABELS)
        self.request_seconds = times("acqh_request_seconds", "From header to answer.", ["route"])
        self.in_flight = gauge("acqh_requests_in_flight", "Requests being answered now.")
        self.search_seconds = times("acqh_search_seconds", "Time in the index alone.")
        self.encode_seconds = times("acqh_encode_seconds", "To turn a query into a vector.")
        self.items_seen = counter("acqh_items_seen", "Items that searches looked at.")
        self.items = gauge("acqh_items", "Items in the collection.")
        self.reloads = counter("acqh_reloads", "Collections built again, by outcome.", ["outcome"])
        self.reload_failed = gauge("acqh_reload_failed", "1 while that on disk is damaged.")

    def count(self, answer: Answer) -> None:
        """Count a search."""
        self.search_seconds.observe(answer.milliseconds["search"] / 1000)
        self.encode_seconds.observe(answer.milliseconds["encode"] / 1000)
        self.items_seen.inc(answer.n_seen)
        self.items.set(answer.n_items)

    def page(self) -> bytes:
        """Return all counts in Prometheus' text format."""
        return generate_latest(self.registry)


class RepeatLimit(logging.Filter):
    """Lets a line into the log a few times per minute, then says how often it was left out.

    `most`: times that a line, whatever its arguments, is written within the window. `seconds`:
    length of the window. `clock`: returns the time in seconds.
    """

    def __init__(
        self, most: int = 10, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a line is to be written."""
        # Of the first line alone: asyncio puts addresses of objects into the others.
        key = (record.name, str(record.msg).partition("\n")[0])
        now = self._clock()
        with self._lock:
            since, n_seen = self._seen.get(key, (now, 0))
            n_left_out = 0
            if now - since >= self._seconds:
                n_left_out = max(0, n_seen - self._most)
                since, n_seen = now, 0
            if len(self._seen) >= _KEPT:
                self._seen.clear()
            self._seen[key] = since, n_seen + 1
        if n_left_out:
            record.msg = f"{record.getMessage()} ({n_left_out} more like this were not written)"
            record.args = ()
        return n_seen < self._most

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Hold for the loggers of a server while it runs."""
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        for logger in loggers:
            logger.addFilter(self)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(self)


def room_for_connections() -> int:
    """Return how many connections the process has file descriptors for, one for a file each."""
    try:
        import resource
    except ImportError:  # not on Windows
        return sys.maxsize
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return sys.maxsize
    try:
        in_use = len(list(Path("/dev/fd").iterdir()))
    except OSError:
        in_use = most // 2
    return max(1, (most - in_use) // 2)

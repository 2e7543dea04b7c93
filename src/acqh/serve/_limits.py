"""Limits on what a request may bring and how many there may be, as pure ASGI middleware."""

import asyncio
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acqh.serve._problems import ProblemError

# A refused body is read on and thrown away up to this many times the limit: most clients send all
# of it before they read an answer, and would otherwise see a broken connection instead.
_DISCARD = 4


class LimitRequests:
    """Answers one request too many with 429, at once.

    Parameters
    ----------
    app : ASGI application
    max_requests : int
        Requests worked on at once.
    exempt : frozenset of str
        Paths that are always answered, so that a busy service can still be watched.
    """

    def __init__(self, app: ASGIApp, max_requests: int, exempt: frozenset[str]) -> None:
        self.app = app
        self.max_requests = max_requests
        self.exempt = exempt
        self._n_requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http" or scope["path"] in self.exempt:
            await self.app(scope, receive, send)
            return
        if self._n_requests >= self.max_requests:
            detail = f"{self.max_requests} requests are being answered already; try again soon"
            headers = {"Retry-After": "1", "Connection": "close"}
            await ProblemError(429, detail, headers).response()(scope, receive, send)
            return
        self._n_requests += 1
        held = True

        async def give_back(message: Message) -> None:
            # Before the last byte leaves: the client's next request may arrive before we return.
            nonlocal held
            if held and message["type"] == "http.response.body" and not message.get("more_body"):
                held = False
                self._n_requests -= 1
            await send(message)

        try:
            await self.app(scope, receive, give_back)
        finally:
            if held:
                self._n_requests -= 1


class LimitBody:
    """Counts a body's bytes as they arrive, whatever its header says, and times its arrival.

    A body that is declared too long or compressed is refused before it is read. One that turns
    out too long, or too slow, makes ``receive`` raise `ProblemError`. A connection is closed when
    its request was answered before all of the body was read.

    Parameters
    ----------
    app : ASGI application
    max_bytes : int
    max_seconds : float
        From the request's header to the last byte of its body.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, max_seconds: float) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.max_seconds = max_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = _Body(receive, self.max_bytes, self.max_seconds)
        headers = Headers(scope=scope)

        async def close_if_unread(message: Message) -> None:
            # Otherwise the server would go on to read, and throw away, a body without an end.
            if message["type"] == "http.response.start" and body.is_expected(headers):
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        refusal = self._refusal(headers)
        if refusal is None:
            await self.app(scope, body.receive, close_if_unread)
            return
        if not self._waits_or_lies(headers):
            await body.discard()
        await refusal.response()(scope, receive, send)

    def _refusal(self, headers: Headers) -> ProblemError | None:
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            detail = "compressed bodies are not taken; send it as it is, without Content-Encoding"
            return ProblemError(415, detail, {"Accept-Encoding": "identity"} | _CLOSE)
        if _declared_bytes(headers) > self.max_bytes:
            return _too_long(self.max_bytes)
        return None

    def _waits_or_lies(self, headers: Headers) -> bool:
        """Say whether the client waits for our word, or has declared more than we would read."""
        waits = headers.get("expect", "").lower() == "100-continue"
        return waits or _declared_bytes(headers) > _DISCARD * self.max_bytes


_CLOSE = {"Connection": "close"}


def _declared_bytes(headers: Headers) -> int:
    declared = headers.get("content-length", "")
    return int(declared) if declared.isdecimal() else 0


def _too_long(max_bytes: int) -> ProblemError:
    return ProblemError(
        413, f"the body is longer than {max_bytes:,} bytes; send a smaller picture", _CLOSE
    )


class _Body:
    """The body of one request, as it arrives."""

    def __init__(self, receive: Receive, max_bytes: int, max_seconds: float) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._deadline = time.monotonic() + max_seconds
        self._n_bytes = 0
        self._complete = False

    def is_expected(self, headers: Headers) -> bool:
        """Say whether there is more of the body to come."""
        declared = _declared_bytes(headers) > 0 or "transfer-encoding" in headers
        return declared and not self._complete

    async def receive(self) -> Message:
        """Return the next piece, or raise `ProblemError` if there is one byte too many."""
        if self._complete:  # what comes now is the end of the connection, which has no deadline
            return await self._receive()
        message = await self._next()
        if self._n_bytes > self._max_bytes:
            await self.discard()
            raise _too_long(self._max_bytes)
        return message

    async def discard(self) -> None:
        """Read on without keeping anything, but neither long nor much."""
        try:
            while not self._complete and self._n_bytes <= _DISCARD * self._max_bytes:
                await self._next()
        except ProblemError:
            return  # slow as well; what is wrong is known already

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            detail = f"the request's body took longer than {self._max_seconds:g} s to arrive"
            raise ProblemError(408, detail, _CLOSE) from None
        self._n_bytes += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        return message

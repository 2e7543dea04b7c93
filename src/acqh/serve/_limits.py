"""Limits on the bodies that requests bring, as pure ASGI middleware."""

import asyncio
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acqh.serve._bodies import JSON, media_type_of
from acqh.serve._problems import ProblemError
from acqh.serve._settings import Settings

_CLOSE = {"Connection": "close"}


class LimitBody:
    """Counts a body's bytes as they arrive, whatever its header says, and times its arrival.

    A body that is declared too long or compressed is refused at once, unread. One that turns out
    too long, or too slow, makes ``receive`` raise `ProblemError`. A connection is closed when its
    request was answered before all of the body was read.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        self._all = _Bodies(settings.max_buffered_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        in_json = media_type_of(headers) == JSON
        most = self.settings.max_json_bytes if in_json else self.settings.max_body_bytes
        most = min(most, self.settings.max_body_bytes)
        refusal = _refusal(headers, most)
        if refusal is not None:
            await refusal.response()(scope, receive, send)
            return
        body = _Body(receive, most, self.settings.max_body_seconds, self._all)

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

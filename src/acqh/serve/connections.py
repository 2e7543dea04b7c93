"""Limits on connections: how many there are, how long they may wait, how much is unread.

uvicorn would wait forever for a header or for a client that does not read. `Connections` watches
its connections from outside, by the public interfaces of asyncio and ASGI: a protocol that passes
everything on, and an application around the application.
"""

import asyncio
import ipaddress
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acqh.serve.middleware import SECURITY_HEADERS
from acqh.serve.schemas import ProblemError
from acqh.serve.settings import Limits

# The kernel's part of an unread answer; it would take megabytes.
_KERNEL_BYTES = 256 * 1024
# Of one header; the parser of uvicorn has no limit. Some of the body may come with it.
_MAX_HEADER_BYTES = 2**20
# Most connections that the event loop accepts at once. Another three rounds may follow before
# those of the first have replaced others.
_BURST, _ROUNDS = 128, 4


class Connections:
    """The connections of one server, and an ASGI application around another.

    If there is one connection too many, or unread answers take too much memory, the connection
    that has waited longest for its client is closed. One with a request in progress waits for
    nobody.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self._most = min(limits.max_connections, room_for_connections())
        self._open: dict[Any, Connection] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    @property
    def burst(self) -> int:
        """Most connections to accept at once, before any of them can replace another."""
        return max(1, min(_BURST, self._most // (2 * _ROUNDS)))

    @property
    def n_unread(self) -> int:
        """Bytes of answers that clients have not read."""
        return sum(each.n_unread for each in self._open.values())

    def __len__(self) -> int:
        return len(self._open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; close its connection if the client does not read in time."""
        connection = self._open.get(scope.get("client"))
        if connection is None:
            await self.app(scope, receive, send)
            return

        async def receive_body() -> Message:
            connection.is_receiving = True
            try:
                return await receive()
            finally:
                connection.is_receiving = False

        async def send_in_time(message: Message) -> None:
            if connection.is_drained:  # nothing to wait for
                await send(message)
                return
            try:
                async with asyncio.timeout(self.limits.max_answer_seconds):
                    await send(message)
            except TimeoutError:
                connection.abort()

        # One answer per connection in memory: a request waits until the last answer has left.
        if not connection.is_drained and not await connection.drained(
            self.limits.max_answer_seconds
        ):
            return
        connection.n_requests += 1
        connection.progress()
        try:
            await self.app(scope, receive_body, send_in_time)
        finally:
            connection.n_requests -= 1
            connection.progress()
            if connection.n_unread:
                self._limit_unread(connection)

    def admit(self, new: "Connection") -> bool:
        """Return whether there is room, or can be made, for another connection."""
        same = [each for each in self._open.values() if each.network == new.network]
        if len(same) >= self.limits.max_connections_per_address and not self._cut_one(same):
            return False
        if len(self._open) >= self._most and not self._cut_one(self._open.values()):
            return False
        self._open[new.client] = new
        if self._sweeping is None:
            self._sweep()
        return True

    def leave(self, gone: "Connection") -> None:
        """Forget a connection that has ended."""
        self._open.pop(gone.client, None)

    def _sweep(self) -> None:
        """Close connections that have waited too long for their clients, now and later."""
        loop, limits = asyncio.get_running_loop(), self.limits
        for each in list(self._open.values()):
            most = limits.max_answer_seconds if each.n_unread else limits.max_body_seconds
            # A body that is late is answered with 408 by the application.
            is_idle = not each.n_requests or each.n_unread
            if is_idle and loop.time() - each.since > most:
                each.abort()
        seconds = min(1.0, limits.max_answer_seconds / 4, limits.max_body_seconds / 4)
        self._sweeping = loop.call_later(seconds, self._sweep) if self._open else None

    def _limit_unread(self, newest: "Connection") -> None:
        excess = self.n_unread - self.limits.max_buffered_bytes
        for each in sorted(self._open.values(), key=lambda other: other.since):
            if excess > 0 and each.n_unread and each is not newest:
                excess -= each.n_unread
                each.abort()

    def _cut_one(self, among: Iterable["Connection"]) -> bool:
        waiting = [each for each in among if each.is_waiting]
        if waiting:
            min(waiting, key=lambda each: each.since).abort()
        return bool(waiting)


class Connection(asyncio.Protocol):
    """One connection: passes on to a protocol of uvicorn what happens to it."""

    def __init__(self, connections: Connections, protocol: Any) -> None:
        self._connections = connections
        self._protocol = protocol
        self._n_header = 0
        self._is_empty = asyncio.Event()  # all answers have left
        self._is_empty.set()
        self.n_requests = 0  # in progress
        self.is_receiving = False  # waits for a body
        self.since = 0.0  # when the client last did something

    @property
    def n_unread(self) -> int:
        """Bytes of answers that the client has not read."""
        return self._transport.get_write_buffer_size()

    @property
    def is_waiting(self) -> bool:
        """Whether it is the client's turn: to send, or to read."""
        return not self.n_requests or self.is_receiving or bool(self.n_unread)

    @property
    def is_drained(self) -> bool:
        """Whether the client has read all answers."""
        return self._is_empty.is_set()

    async def drained(self, seconds: float) -> bool:
        """Wait until the client has read all answers; close the connection if it does not."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_empty.wait()
        except TimeoutError:
            self.abort()
            return False
        return True

    def abort(self) -> None:
        """Close it at once."""
        self._connections.leave(self)
        self._transport.abort()

    def progress(self) -> None:
        """Count the time to wait from now."""
        self.since = asyncio.get_running_loop().time()
        self._n_header = 0

    def connection_made(self, transport: Any) -> None:
        """Take a connection in, or reject it."""
        self._transport: asyncio.Transport = transport
        self.client = tuple(transport.get_extra_info("peername", ())[:2])
        self.network = network_of(str(self.client[0]) if self.client else "")
        self.progress()
        transport.set_write_buffer_limits(high=0)  # to know when all has left
        plug = transport.get_extra_info("socket")
        if plug is not None:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BYTES)
        if self._connections.admit(self):
            self._protocol.connection_made(transport)
            return
        self._protocol = asyncio.Protocol()
        detail = "there are too many connections; try again soon"
        transport.write(_raw(ProblemError(503, detail, {"Retry-After": "1"})))
        transport.close()

    def data_received(self, data: bytes) -> None:
        """Read on, unless a header has no end."""
        self._n_header += 0 if self.n_requests else len(data)
        if self._n_header > _MAX_HEADER_BYTES:
            self.abort()
        else:
            self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on that the client sends no more."""
        done: bool | None = self._protocol.eof_received()
        return done

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._connections.leave(self)
        self._is_empty.set()
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass on that the client does not read."""
        self._is_empty.clear()
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client reads again."""
        self.since = asyncio.get_running_loop().time()
        self._is_empty.set()
        self._protocol.resume_writing()


def _raw(problem: ProblemError) -> bytes:
    """Return a response as it goes over the wire, where there is no application to send it."""
    response = problem.response()
    response.headers.update({**SECURITY_HEADERS, "Connection": "close"})
    lines = [b"HTTP/1.1 %d %s" % (response.status_code, problem.title.encode())]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(response.body)])


def network_of(host: str) -> str:
    """Return what counts as one address: of IPv6 a /64, since one machine has all of it.

    Examples
    --------
    >>> network_of("192.0.2.7"), network_of("2001:db8::1:2")
    ('192.0.2.7', '2001:db8::')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False).network_address)


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

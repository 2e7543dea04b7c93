"""Running the service with uvicorn: its connections, how many and how long, and the server."""

import asyncio
import ipaddress
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from acqh.serve.app import create_app
from acqh.serve.middleware import SECURITY_HEADERS, RepeatLimit, room_for_connections
from acqh.serve.schemas import ProblemError
from acqh.serve.settings import Limits, Settings

# A body that nobody reads is thrown away for this long, or this many times the longest that is
# taken: most clients send all of it before they read an answer, and would otherwise see a broken
# connection instead.
_LINGER_SECONDS = 2.0
_DISCARD = 4
_KERNEL_BYTES = 256 * 1024
# Most connections that the event loop takes in at one go. Another three goes may follow before
# those of the first have made room and the ones they replace are closed.
_BURST = 128
_GOES = 4

_QUEUE = 128  # connections that wait to be taken in
_TURN_SECONDS = 5e-4


class Connections:
    """The connections of one server.

    Where one more is too many, or answers that nobody reads take too much memory, the one is cut
    off that has waited longest for its client. One whose request is worked on waits for nobody.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._most = min(limits.max_connections, room_for_connections())
        self._open: dict[Connection, str] = {}

    @property
    def burst(self) -> int:
        """Most connections that are taken in at one go, before any of them can make room."""
        return max(1, min(_BURST, self._most // (2 * _GOES)))

    def admit(self, new: "Connection", address: str) -> bool:
        """Say whether there is room, or can be made, for another connection."""
        same = [each for each, from_ in self._open.items() if from_ == address]
        if len(same) >= self.limits.max_connections_per_address and not self._cut_one(same):
            return False
        if len(self._open) >= self._most and not self._cut_one(self._open):
            return False
        self._open[new] = address
        return True

    def leave(self, gone: "Connection") -> None:
        """Forget a connection that has ended."""
        self._open.pop(gone, None)

    def limit_unread(self, newest: "Connection") -> None:
        """Cut off connections until the answers that nobody reads take no more than they may."""
        unread = {each: each.n_unread for each in self._open if each.n_unread}
        total = sum(unread.values())
        others = [each for each in unread if each is not newest]
        for each in sorted(others, key=lambda other: other.progress):
            if total <= self.limits.max_buffered_bytes:
                return
            total -= unread[each]
            self._cut(each)

    def _cut_one(self, among: Iterable["Connection"]) -> bool:
        waiting = [each for each in among if each.is_waiting]
        if not waiting:
            return False
        self._cut(min(waiting, key=lambda each: each.progress))
        return True

    def _cut(self, connection: "Connection") -> None:
        self.leave(connection)
        connection.abort()


class Connection(H11Protocol):
    """Uvicorn's protocol, which itself would wait for ever for a header or for a reader.

    `*args`, `**kwargs`: as for uvicorn's own.
    """

    def __init__(self, connections: Connections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.progress = self.loop.time()
        self._connections = connections
        self._limits = connections.limits
        self._header_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None
        self._n_discarded = 0
        self._is_complete = False  # an answer was made, but not all of it has left

    # --- where it stands ---------------------------------------------------------------------

    @property
    def n_unread(self) -> int:
        """Bytes of answers that the client has not taken."""
        return self._raw.get_write_buffer_size()

    @property
    def is_waiting(self) -> bool:
        """Whether it is the client's turn: to send, or to read."""
        cycle = self.cycle
        idle = cycle is None or cycle.response_complete or cycle.more_body
        return idle or self.flow.write_paused

    @property
    def is_sending(self) -> bool:
        """Whether the client may still be sending something that nobody will read."""
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def abort(self) -> None:
        """End it at once."""
        self._raw.abort()

    # --- what happens to it ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection in, or refuse it."""
        self._raw = transport
        transport.set_write_buffer_limits(high=0)  # to know when all has left, and when not
        plug = transport.get_extra_info("socket")
        if plug is not None:  # the kernel's part of what is not read: it would take megabytes
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BYTES)
        super().connection_made(_Transport(transport, self))  # type: ignore[arg-type]
        host = self.client[0] if self.client else ""
        if self._connections.admit(self, network_of(host)):
            self._wait_for_header()
            return
        detail = "there are too many connections; try again soon"
        transport.write(_raw_problem(ProblemError(503, detail, {"Retry-After": "1"})))
        transport.close()

    def data_received(self, data: bytes) -> None:
        """Read on, or throw away what nobody waits for."""
        if self.transport.is_closing():
            self._n_discarded += len(data)
            if self._n_discarded > _DISCARD * self._limits.max_body_bytes:
                self.abort()
            return
        self.progress = self.loop.time()
        super().data_received(data)
        self._wait_for_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._connections.leave(self)
        for timer in (self._header_timer, self._reader_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for a client that does not read, but not for ever."""
        super().pause_writing()
        seconds = self._limits.max_answer_seconds
        self._reader_timer = self.loop.call_later(seconds, self.abort)
        self._connections.limit_unread(self)

    def resume_writing(self) -> None:
        """Go on with what was to come after the answer."""
        self.progress = self.loop.time()
        if self._reader_timer is not None:
            self._reader_timer.cancel()
        super().resume_writing()
        if self._is_complete:
            self._is_complete = False
            super().on_response_complete()

    def on_response_complete(self) -> None:
        """Let the next request have its turn, once the answer has left."""
        # The next request of the connection has its turn when this answer has left, so that
        # there is at most one answer a connection in memory.
        self.progress = self.loop.time()
        if self.flow.write_paused:
            self._is_complete = True
        else:
            super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Answer what is not HTTP."""
        status = getattr(sys.exception(), "error_status_hint", 400)
        cycle = self.cycle
        has_begun = cycle is not None and cycle.response_started and not cycle.response_complete
        if cycle is not None:  # whoever reads the body must not wait for more of it
            cycle.disconnected = True
            cycle.message_event.set()
        if not has_begun:
            detail = "this is not HTTP as it should be; send a request as in RFC 9112"
            self.transport.write(_raw_problem(ProblemError(status, detail)))
        self.transport.close()

    # --- slow headers ------------------------------------------------------------------------

    def _wait_for_header(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            if self._header_timer is not None:
                self._header_timer.cancel()
                self._header_timer = None
        elif self._header_timer is None:
            seconds = self._limits.max_body_seconds
            self._header_timer = self.loop.call_later(seconds, self._hang_up)

    def _hang_up(self) -> None:
        self._header_timer = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


class _Transport:
    """A transport that sends a header with its body, and closes without losing the answer.

    Closing while the other side still sends makes its kernel drop what it has not read yet. So
    our side is closed first, and what comes is thrown away for a while.
    """

    def __init__(self, raw: asyncio.Transport, connection: Connection) -> None:
        self._raw = raw
        self._connection = connection
        self._header: bytes | None = None
        self._has_header = False
        self._is_lingering = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def write(self, data: bytes) -> None:
        is_answering = self._connection.conn.our_state is h11.SEND_BODY
        if is_answering and not self._has_header:
            self._header, self._has_header = data, True
            return
        self._has_header = is_answering
        self._flush(data)

    def _flush(self, data: bytes = b"") -> None:
        pieces = [piece for piece in (self._header, data) if piece]
        self._header = None
        if pieces:
            # Not writelines, which in some Pythons does not say that it has to wait.
            self._raw.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return self._is_lingering or self._raw.is_closing()

    def close(self) -> None:
        if self.is_closing():
            self._raw.close()
            return
        self._flush()
        if not self._connection.is_sending:
            self._raw.close()
            return
        self._is_lingering = True
        try:
            self._raw.write_eof()
        except OSError:  # the other side is gone already
            self._raw.abort()
            return
        self._raw.resume_reading()
        self._connection.loop.call_later(_LINGER_SECONDS, self._raw.abort)


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


def _raw_problem(problem: ProblemError) -> bytes:
    """Return an answer as it goes over the wire, where there is no application to make it."""
    response = problem.response()
    for name, value in {**SECURITY_HEADERS, "Connection": "close"}.items():
        response.headers[name] = value
    lines = [b"HTTP/1.1 %d %s" % (response.status_code, problem.title.encode())]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(response.body)])


def run(settings: Settings, announce: Callable[[str], object] = lambda _: None) -> None:
    """Serve a collection until the process is told to stop.

    SIGHUP reloads the collection, whether or not it seems to have changed.

    Parameters
    ----------
    settings : Settings
    announce : callable, optional
        Called with the page's address once it can be opened.

    Raises
    ------
    InvalidInputError, CorruptBundleError
        As `create_app`.
    OSError
        The collection or a file with a token cannot be read, or the port is taken.

    Examples
    --------
    >>> from acqh.serve import Settings, run
    >>> run(Settings(collection="photos.acqh"), print)  # doctest: +SKIP
    http://127.0.0.1:8000/
    """
    # The event loop waits no longer for a thread that searches than most of it takes.
    sys.setswitchinterval(_TURN_SECONDS)
    with listen(settings) as listening:
        app = create_app(settings)
        server = Server(server_config(app, settings), announce)
        asyncio.run(_serve(server, app, listening))


async def _serve(server: uvicorn.Server, app: FastAPI, listening: socket.socket) -> None:
    if hasattr(signal, "SIGHUP"):
        reload_soon = app.state.live.reload_soon
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_soon)
    await server.serve([listening])


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens where the settings say."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named: otherwise asyncio does not know that it is TCP, and lets every
    # answer wait 40 ms for more to send.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise OSError(
            error.errno,
            f"cannot listen on {settings.host}, port {settings.port} ({error.strerror}); "
            "choose others with --host and --port",
        ) from error
    return listening


class Server(uvicorn.Server):
    """Uvicorn's server, which says where it is when it can be reached."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[str], object]) -> None:
        super().__init__(config)
        self._announce = announce

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop, without writing the same lines into the log for ever."""
        with RepeatLimit().applied():
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        if self.started and sockets:
            for listening in sockets:  # the queue may be longer than what is taken in at one go
                listening.listen(_QUEUE)
            host, port = sockets[0].getsockname()[:2]
            self._announce(f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/")


def server_config(app: FastAPI, settings: Settings, limits: Limits | None = None) -> uvicorn.Config:
    """Return how uvicorn is to serve the application."""
    limits = limits or settings.limits
    connections = Connections(limits)
    return uvicorn.Config(
        app,
        http=partial(Connection, connections),  # type: ignore[arg-type]
        backlog=connections.burst,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,  # the program that runs us says where logs go
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(limits.max_work_seconds)),
    )

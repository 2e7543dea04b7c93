"""Running the service with uvicorn."""

import asyncio
import signal
import socket
from collections.abc import Callable

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from acqh.serve._app import create_app
from acqh.serve._settings import Settings


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
    """
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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            self._announce(f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/")


def server_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """Return how uvicorn is to serve the application."""
    return uvicorn.Config(
        app,
        http=_protocol(settings.max_body_seconds),
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,  # the program that runs us says where logs go
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(settings.max_work_seconds)),
    )


def _protocol(max_seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol, with a limit on the time that a request's header may take.

    Uvicorn itself waits for ever for the rest of a header.
    """

    class Protocol(H11Protocol):
        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait_for_header()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._wait_for_header()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait_for_header(self) -> None:
            if self.conn.their_state is not h11.IDLE:
                self._stop_waiting()
            elif self._patience is None:
                self._patience = self.loop.call_later(max_seconds, self._hang_up)

        def _stop_waiting(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

        def _hang_up(self) -> None:
            self._patience = None
            if self.conn.their_state is h11.IDLE:
                self.transport.close()

    return Protocol

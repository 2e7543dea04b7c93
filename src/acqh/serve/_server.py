"""Running the service with uvicorn."""

import asyncio
import signal
import socket
from collections.abc import Callable
from functools import partial

import uvicorn
from fastapi import FastAPI

from acqh.serve._app import create_app
from acqh.serve._connections import Connection, Connections
from acqh.serve._logs import RepeatLimit
from acqh.serve._settings import Settings

_QUEUE = 128  # connections that wait to be taken in


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


def server_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """Return how uvicorn is to serve the application."""
    connections = Connections(settings)
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
        timeout_graceful_shutdown=max(1, round(settings.max_work_seconds)),
    )

"""`run`: the server, in one process or in several that share a listening socket."""

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from acqh.serve.app import create_app
from acqh.serve.connections import Connection, Connections
from acqh.serve.metrics import FOLDER, mark_dead
from acqh.serve.settings import Limits, Settings

_LOG = logging.getLogger(__name__)
_QUEUE = 128  # connections that wait to be accepted
_SWITCH_SECONDS = 5e-4
# A worker that ends sooner than this after its start is started again after as long.
_MIN_SECONDS = 2.0
Announce = Callable[[str], object]


def run(settings: Settings, announce: Announce = lambda _: None) -> None:
    """Serve a collection until the process is stopped.

    SIGHUP reloads the collection, whether or not it seems to have changed.

    Parameters
    ----------
    settings : Settings
    announce : callable, optional
        Called with the web interface's address once it can be opened.

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
    with listen(settings) as listening:
        on_ready = partial(announce, address_of(listening))
        if settings.workers == 1:
            _serve(settings, listening, settings.limits, on_ready)
        else:
            _Supervisor(settings, listening).run(on_ready)


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens where the settings say."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named: otherwise asyncio does not know that it is TCP, and lets every
    # answer wait 40 ms for more to send.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere it would let another program take the port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        listening.listen(_QUEUE)
    except OSError as error:
        listening.close()
        raise OSError(
            error.errno,
            f"cannot listen on {settings.host}, port {settings.port} ({error.strerror}); "
            "choose others with --host and --port",
        ) from error
    return listening


def address_of(listening: socket.socket) -> str:
    """Return the address of the web interface."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class Server(uvicorn.Server):
    """uvicorn's server with limits on connections; calls `ready` when it accepts them.

    `burst`: most connections that are accepted at once; 1 leaves the others to other workers.
    """

    def __init__(
        self, app: Starlette, limits: Limits, ready: Callable[[], object], burst: int | None = None
    ) -> None:
        self.connections = connections = Connections(app, limits)

        def protocol(**options: Any) -> Connection:
            return Connection(connections, HttpToolsProtocol(**options))

        super().__init__(
            uvicorn.Config(
                connections,
                http=protocol,  # type: ignore[arg-type]
                backlog=burst or connections.burst,
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,  # left to the program that runs the server
                log_level="error",  # without malformed requests
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=max(1, round(limits.max_work_seconds)),
            )
        )
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then call `ready`."""
        await super().startup(sockets)
        if self.started and sockets:
            for listening in sockets:  # the queue may be longer than what is accepted at once
                listening.listen(_QUEUE)
            self._ready()


def _serve(
    settings: Settings,
    listening: socket.socket,
    limits: Limits,
    ready: Callable[[], object],
    burst: int | None = None,
) -> None:
    """Serve in this process."""
    # The event loop waits no longer for a thread that searches than most of it takes.
    sys.setswitchinterval(_SWITCH_SECONDS)
    app = create_app(settings, limits=limits)

    async def serve() -> None:
        if hasattr(signal, "SIGHUP"):
            reload_soon = app.state.live.reload_soon
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_soon)
        await Server(app, limits, ready, burst).serve([listening])

    asyncio.run(serve())


class _Supervisor:
    """Starts worker processes, replaces those that die, and passes signals on to them."""

    def __init__(self, settings: Settings, listening: socket.socket) -> None:
        self._settings = settings
        self._listening = listening
        self._limits = settings.limits.divided(settings.workers)
        self._spawn = multiprocessing.get_context("spawn")
        self._started: dict[Any, float] = {}  # processes, and when they were started
        self._serving: set[Any] = set()
        self._is_stopping = False

    def run(self, announce: Callable[[], object]) -> None:
        """Serve until a signal ends it; raise the error of a worker that cannot start."""
        with tempfile.TemporaryDirectory(prefix="acqh-metrics-") as folder:
            os.environ[FOLDER] = folder
            before = {name: signal.signal(name, self._stop) for name in _ENDING}
            if hasattr(signal, "SIGHUP"):
                before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._reload)
            try:
                self._start()
                if not self._is_stopping:
                    announce()
                for _ in range(1, self._settings.workers):
                    self._start()
                _LOG.info("%d workers are serving", len(self._serving))
                while not self._is_stopping:
                    self._replace_dead()
            finally:
                for process in self._started:
                    process.terminate()
                for process in self._started:
                    process.join()
                for name, handler in before.items():
                    signal.signal(name, handler)
                del os.environ[FOLDER]

    def _start(self) -> None:
        """Start a worker, and wait until it accepts connections."""
        receiver, sender = self._spawn.Pipe()
        level = logging.getLogger().getEffectiveLevel()
        arguments = self._settings, self._listening, self._limits, sender, level
        process = self._spawn.Process(target=_work, args=arguments, daemon=True)
        # Ctrl-C reaches workers too, which inherit that it is ignored: the supervisor ends them.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process.start()
        finally:
            signal.signal(signal.SIGINT, handler)
        sender.close()
        self._started[process] = time.monotonic()
        while not wait([receiver, process.sentinel], timeout=0.5):
            if self._is_stopping:
                return
        try:
            error = receiver.recv()
        except EOFError:
            error = RuntimeError("a worker ended before it served; see the log")
        if error is not None and not self._is_stopping:
            raise error
        self._serving.add(process)

    def _replace_dead(self) -> None:
        wait([process.sentinel for process in self._started], timeout=0.5)
        for process in [dead for dead in self._started if not dead.is_alive()]:
            lived = time.monotonic() - self._started.pop(process)
            self._serving.discard(process)
            mark_dead(process.pid)
            if self._is_stopping:
                return
            _LOG.error("worker %d ended (status %s); it is replaced", process.pid, process.exitcode)
            time.sleep(max(0.0, _MIN_SECONDS - lived))
            try:
                self._start()
            except Exception as error:
                _LOG.error("a worker cannot be started: %s", error)

    def _stop(self, *_: object) -> None:
        self._is_stopping = True

    def _reload(self, *_: object) -> None:
        for process in self._serving:  # one that starts opens what is there anyway
            if process.is_alive():
                os.kill(process.pid, signal.SIGHUP)


_ENDING = (signal.SIGINT, signal.SIGTERM)


def _work(
    settings: Settings, listening: socket.socket, limits: Limits, pipe: Pipe, level: int
) -> None:
    """Serve in a worker process until the supervisor ends."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=level)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        wait([parent.sentinel] if parent else [])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        _serve(settings, listening, limits, partial(pipe.send, None), burst=1)
    except Exception as error:
        pipe.send(error)
        raise SystemExit(1) from None

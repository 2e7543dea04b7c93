"""`run`: the server, in one process or in several that share a listening socket."""

import asyncio
import gc
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

from acqh.serve.app import create_app
from acqh.serve.connections import Connection, Connections
from acqh.serve.metrics import FOLDER, mark_dead
from acqh.serve.settings import Limits, Settings

_LOG = logging.getLogger(__name__)
_QUEUE = 128  # connections that wait to be accepted
_SWITCH_SECONDS = 5e-4
_POLL_SECONDS = 0.01
# A worker leaves a new connection to one with fewer for at most this long, which may be busy.
_DEFER_SECONDS = 0.02
_NOT_SERVING = 2**30  # count of connections of a worker that accepts none
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
            _serve(settings, Listener(listening), settings.limits, on_ready)
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


class Listener(socket.socket):
    """A listening socket that workers share: the one with the fewest connections accepts the next.

    `counts`: connections of each worker, in memory that all of them share; `position`: of this one.
    """

    def __init__(self, listening: socket.socket, counts: Any = None, position: int = 0) -> None:
        kind = listening.family, listening.type, listening.proto
        super().__init__(*kind, fileno=listening.detach())
        self._counts = [0] if counts is None else counts
        self._position = position
        self._waits_since: float | None = None

    def listen(self, backlog: int = _QUEUE) -> None:  # noqa: ARG002
        """Listen; the queue may be longer than what an event loop accepts at once."""
        super().listen(_QUEUE)
        self._counts[self._position] = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection, or raise BlockingIOError to leave it to another worker."""
        now = time.monotonic()
        if self._counts[self._position] > min(self._counts):
            self._waits_since = self._waits_since or now
            if now - self._waits_since < _DEFER_SECONDS:
                raise BlockingIOError
        self._waits_since = None
        accepted = super().accept()
        self._counts[self._position] += 1
        return accepted

    def forget(self) -> None:
        """Count one connection less."""
        self._counts[self._position] -= 1


class Server:
    """uvicorn with limits on connections, by its public interface: `Config` and `Server.serve`.

    `burst`: most connections that are accepted at once; 1 leaves the others to other workers.
    """

    def __init__(
        self, app: Starlette, limits: Limits, listener: Listener, burst: int | None = None
    ) -> None:
        self.connections = connections = Connections(app, limits, listener.forget)
        self._listener = listener
        config = uvicorn.Config(
            connections,
            http="httptools",
            backlog=burst or connections.burst,
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=None,  # left to the program that runs the server
            log_level="error",  # without malformed requests
            server_header=False,
            proxy_headers=False,
            # Longer than proxies keep theirs, by the deployment guide: a request on a connection
            # that is just being closed would be lost.
            timeout_keep_alive=max(1, round(limits.max_body_seconds)),
            timeout_graceful_shutdown=max(1, round(limits.max_work_seconds)),
        )
        config.load()
        protocol: Any = config.http_protocol_class

        def connection(**options: Any) -> Connection:
            return Connection(connections, protocol(**options))

        config.http_protocol_class = connection  # type: ignore[assignment]
        self._uvicorn = uvicorn.Server(config)

    async def serve(self, ready: Callable[[], object]) -> None:
        """Serve until `stop` or a signal; call `ready` when connections are accepted."""
        serving = asyncio.ensure_future(self._uvicorn.serve([self._listener]))
        while not self._uvicorn.started and not serving.done():
            await asyncio.sleep(_POLL_SECONDS)
        if self._uvicorn.started:
            ready()
        await serving

    def stop(self) -> None:
        """Finish the requests in progress and stop; may be called from any thread."""
        self._uvicorn.should_exit = True


def _serve(
    settings: Settings,
    listener: Listener,
    limits: Limits,
    ready: Callable[[], object],
    burst: int | None = None,
) -> None:
    """Serve in this process."""
    # The event loop waits no longer for a thread that searches than most of it takes.
    sys.setswitchinterval(_SWITCH_SECONDS)
    app = create_app(settings, limits=limits)
    gc.collect()
    gc.freeze()  # imports alone made a collection of all objects stall every request for 0.1 s

    async def serve() -> None:
        if hasattr(signal, "SIGHUP"):
            reload_soon = app.state.live.reload_soon
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_soon)
        await Server(app, limits, listener, burst).serve(ready)

    try:
        asyncio.run(serve())
    finally:
        gc.unfreeze()


class _Supervisor:
    """Starts worker processes, replaces those that die, and passes signals on to them."""

    def __init__(self, settings: Settings, listening: socket.socket) -> None:
        self._settings = settings
        self._listening = listening
        self._limits = settings.limits.divided(settings.workers)
        self._spawn = multiprocessing.get_context("spawn")
        self._counts = self._spawn.RawArray("i", [_NOT_SERVING] * settings.workers)
        self._started: dict[Any, float] = {}  # processes, and when they were started
        self._serving: set[Any] = set()
        self._is_stopping = False

    def run(self, announce: Callable[[], object]) -> None:
        """Serve until a signal ends it; raise the error of a worker that cannot start."""
        with tempfile.TemporaryDirectory(prefix="acqh-workers-") as folder:
            # Workers have as many threads as there are cores: BLAS needs none of its own.
            environment = {FOLDER: folder} | {name: "1" for name in _BLAS if name not in os.environ}
            os.environ.update(environment)
            before = {name: signal.signal(name, self._stop) for name in _ENDING}
            if hasattr(signal, "SIGHUP"):
                before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._reload)
            try:
                self._start(0)
                if not self._is_stopping:
                    announce()
                for position in range(1, self._settings.workers):
                    self._start(position)
                if not self._is_stopping:
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
                for variable in environment:
                    del os.environ[variable]

    def _start(self, position: int) -> None:
        """Start a worker, and wait until it accepts connections."""
        receiver, sender = self._spawn.Pipe()
        level = logging.getLogger().getEffectiveLevel()
        listening = self._listening, self._counts, position
        arguments = self._settings, listening, self._limits, sender, level
        process = self._spawn.Process(target=_work, args=arguments, daemon=True)
        process.name = str(position)
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
            position = int(process.name)
            self._counts[position] = _NOT_SERVING
            if self._is_stopping:
                return
            _LOG.error("worker %d ended (status %s); it is replaced", process.pid, process.exitcode)
            time.sleep(max(0.0, _MIN_SECONDS - lived))
            try:
                self._start(position)
            except Exception as error:
                _LOG.error("a worker cannot be started: %s", error)

    def _stop(self, *_: object) -> None:
        self._is_stopping = True

    def _reload(self, *_: object) -> None:
        for process in self._serving:  # one that starts opens what is there anyway
            if process.is_alive():
                os.kill(process.pid, signal.SIGHUP)


_ENDING = (signal.SIGINT, signal.SIGTERM)
_BLAS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def _work(
    settings: Settings,
    listening: tuple[socket.socket, Any, int],
    limits: Limits,
    pipe: Pipe,
    level: int,
) -> None:
    """Serve in a worker process until the supervisor ends. `listening`: see `Listener`."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=level)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        wait([parent.sentinel] if parent else [])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        _serve(settings, Listener(*listening), limits, partial(pipe.send, None), burst=1)
    except Exception as error:
        pipe.send(error)
        raise SystemExit(1) from None

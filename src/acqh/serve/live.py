"""What is being served: its threads, and how another takes its place without a failed request."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from acqh._core.imports import require
from acqh.collection import Collection
from acqh.collection.disk.generations import generation_of
from acqh.errors import AcqhError, CollectionError, EncoderError, ReplacedError
from acqh.io.manifest import MANIFEST_NAME
from acqh.serve.connections import room_for_connections
from acqh.serve.metrics import Metrics
from acqh.serve.schemas import ProblemError
from acqh.serve.settings import Limits, Settings

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
# Images are decoded and described in threads of their own, so that other work need not wait; a
# map of the collection, which takes seconds, in yet another.
Lane = Literal["quick", "image", "map"]
_MAP_REQUESTS = 4
# How often a change is tried on a collection that takes the place of another.
_MAX_RELOADS = 3


class Workers:
    """Threads for numeric work, which is never done on the event loop, and not for ever.

    `max_requests`: worked on at once; of those about images at most half as many. `max_seconds`:
    longest wait for the end of work.
    """

    def __init__(self, n_threads: int, max_requests: int, max_seconds: float) -> None:
        sizes: dict[Lane, int] = {"quick": n_threads, "image": n_threads, "map": 1}
        self._pools = {
            lane: ThreadPoolExecutor(size, thread_name_prefix=f"acqh-{lane}")
            for lane, size in sizes.items()
        }
        self._most: dict[Lane, int] = {
            "quick": max_requests,
            "image": max(1, max_requests // 2),
            "map": min(max_requests, _MAP_REQUESTS),
        }
        self._held: dict[Lane, int] = dict.fromkeys(self._most, 0)
        self._seconds = max_seconds

    @contextmanager
    def hold(self, lane: Lane) -> Iterator[None]:
        """Hold a place while something is worked on, or raise `ProblemError` 429 at once."""
        is_full = sum(self._held.values()) >= self._most["quick"]
        if is_full or self._held[lane] >= self._most[lane]:
            detail = f"{self._most[lane]} such requests are being answered; try again soon"
            raise ProblemError(429, detail, {"Retry-After": "1"})
        self._held[lane] += 1
        try:
            yield
        finally:
            self._held[lane] -= 1

    def submit(self, work: Callable[[], T], lane: Lane = "quick") -> "Future[T]":
        """Have a thread do some work as soon as one is free."""
        return self._pools[lane].submit(work)

    async def wait_for(self, work: "Future[T]", *, give_up: bool = True) -> T:
        """Return the result of work in a thread, or raise `ProblemError` 503 when it is late.

        Work that still waits for a thread is then dropped. Work that has begun cannot be stopped;
        its thread is busy until it ends, but nobody waits for it. So there is never more work than
        requests are let in, and one piece per thread.

        `give_up`: whether to leave work alone that has begun; work that changes something is
        waited for.
        """
        waiting = asyncio.wrap_future(work)
        done, _ = await asyncio.wait([waiting], timeout=self._seconds)
        if done or not (give_up or work.cancel()):
            return await waiting
        waiting.cancel()
        detail = f"no answer within {self._seconds:g} s; try again later, or ask for less"
        raise ProblemError(503, detail, {"Retry-After": "1"})

    def close(self) -> None:
        """Finish all work."""
        for pool in self._pools.values():
            pool.shutdown(wait=True)


class _Served:
    """An open collection, closed when it is retired and nobody uses it any more."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self._lock = threading.Lock()
        self._n_users = 1  # the service

    def enter(self) -> bool:
        """Begin to use it; say whether it is still open."""
        with self._lock:
            self._n_users += self._n_users > 0
            return self._n_users > 0

    def leave(self) -> None:
        """End to use it."""
        with self._lock:
            self._n_users -= 1
            is_last = self._n_users == 0
        if is_last:
            self.collection.close()


class Live:
    """The collection being served.

    A collection that is rebuilt or retrained has another manifest. The generation that it names is
    opened beside the old one and answers a query of each kind, then takes its place; the old one is
    closed when all that has begun with it has ended.

    `problem`: what is wrong with the collection on disk, if it is not the one being served.
    """

    def __init__(self, settings: Settings, limits: Limits, metrics: Metrics) -> None:
        self.problem: str | None = None
        self._path = settings.collection
        self._settings = settings
        self._reload_seconds = limits.reload_seconds
        self._metrics = metrics
        self._reloading = threading.Lock()
        self._wake: asyncio.Event | None = None
        self._failed: bytes | None = None  # manifest of a collection that could not be opened
        generation_of(self._path)  # raises an error that says what is wrong, where there is none
        self._manifest = _read_manifest(self._path)
        self._served = _Served(self._open())
        if settings.write_token_file is not None and self.collection.opened.store.read_only:
            self.collection.close()
            raise CollectionError(
                f"{self._path} is not writable here, but --write-token-file is set; give the "
                "server's user the right to write there, or leave out the option"
            )
        # Of the connections that there can be, half are not worked on and can make room.
        n_requests = min(limits.max_requests, max(1, room_for_connections() // 2))
        self.workers = Workers(settings.n_threads, n_requests, limits.max_work_seconds)
        metrics.items.set(len(self._served.collection))

    @property
    def collection(self) -> Collection:
        """The collection that is served now."""
        return self._served.collection

    def _open(self) -> Collection:
        """Open what is on disk, and answer one query of each kind from it."""
        collection = Collection.open(self._path, text_encoder=self._settings.text_encoder)
        try:
            self._ready = check_ready(collection)
        except BaseException:
            collection.close()
            raise
        return collection

    def check(self) -> None:
        """Raise AcqhError if a text or an image query cannot be answered any more.

        Queries are run again only after a change of the collection.
        """
        with self._lease() as collection:
            if (collection.generation, collection.change) != self._ready:
                self._ready = check_ready(collection)

    async def run(self, work: Callable[[Collection], T], lane: Lane = "quick") -> T:
        """Return what `work` makes of the collection.

        Raises ProblemError: 429 when too much is being worked on, 503 when it takes too long.
        """
        with self.workers.hold(lane):
            return await self.workers.wait_for(self._submit(work, lane))

    async def change(self, work: Callable[[Collection], T], lane: Lane = "quick") -> T:
        """Do as `run`, but wait for the end of work that has begun.

        A collection that was replaced cannot be changed any more; the work is then done on the new
        one.
        """
        with self.workers.hold(lane):
            for _ in range(_MAX_RELOADS):
                try:
                    return await self.workers.wait_for(self._submit(work, lane), give_up=False)
                except ReplacedError:
                    await asyncio.to_thread(self.refresh)
        detail = "the collection is being replaced by another; try again later"
        raise ProblemError(503, detail, {"Retry-After": "1"})

    def _submit(self, work: Callable[[Collection], T], lane: Lane) -> "Future[T]":
        def with_collection() -> T:
            with self._lease() as collection:
                return work(collection)

        return self.workers.submit(with_collection, lane)

    @contextmanager
    def _lease(self) -> Iterator[Collection]:
        """Give the collection that is served now; it stays open meanwhile."""
        while not (served := self._served).enter():
            pass  # another one has just taken its place
        try:
            yield served.collection
        finally:
            served.leave()

    def refresh(self) -> bool:
        """Reload if the collection was built again; return whether another one is served now."""
        try:
            manifest = _read_manifest(self._path)
        except OSError:
            return False  # it is gone: what is open can still be served
        return manifest not in (self._manifest, self._failed) and self.reload()

    def reload(self) -> bool:
        """Open what is on disk, and serve it if it can answer queries.

        Gives whether it is served now; if not, `problem` says why. Opening compares checksums of
        the manifest, encoders and model, as it does when the server starts. Items are not verified:
        that takes two minutes per million, and `acqh verify` does it in a process of its own.
        """
        with self._reloading:
            manifest = None
            try:
                # Before opening: if another one comes in between, the next look sees it.
                manifest = _read_manifest(self._path)
                fresh = self._open()
            except Exception as error:  # whatever damage does, the old one is still there
                self._fail(error)
                self._failed = manifest
                return False
            self._manifest = manifest
            old, self._served = self._served, _Served(fresh)
            self.problem = self._failed = None
            self._metrics.items.set(len(fresh))
            self._metrics.reloads.labels("swapped").inc()
            self._metrics.reload_failed.set(0)
            _LOG.info("%s is reloaded: %d items", self._path, len(fresh))
            old.leave()
            return True

    def _fail(self, error: Exception) -> None:
        self.problem = "the collection on disk is damaged; the one before it is served; see the log"
        _LOG.error("%s is not reloaded: %s", self._path, error)
        self._metrics.reloads.labels("damaged").inc()
        self._metrics.reload_failed.set(1)

    async def watch(self) -> None:
        """Look for ever whether the collection was built again."""
        self._wake = asyncio.Event()
        while True:
            look = self.refresh
            try:
                async with asyncio.timeout(self._reload_seconds):
                    await self._wake.wait()
                look = self.reload
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await asyncio.to_thread(look)
            except Exception:
                _LOG.exception("the collection could not be looked at")

    def reload_soon(self) -> None:
        """Have `watch` reload at once, whether or not anything seems to have changed."""
        if self._wake is not None:
            self._wake.set()

    def close(self) -> None:
        """Finish all work and close the collection."""
        with self._reloading:
            self.workers.close()
            self._served.leave()


def _read_manifest(path: Path) -> bytes:
    return (path / MANIFEST_NAME).read_bytes()


def check_ready(collection: Collection) -> tuple[str, int]:
    """Answer one query of each kind that clients may send; return generation and change.

    Raises EncoderError: texts or images cannot be encoded.
    """
    state = collection.generation, collection.change
    first = next(iter(collection), None)
    if first is not None:
        item = collection.item(first)
        collection.search(text=item.text or "photo", mode="words", k=1)
        collection.search(item=first, where={"label": item.labels} if item.labels else None, k=1)
    for view in {"text", "image"}.intersection(collection.views, collection.opened.facts.encoders):
        # A text that was not asked for before: vectors of texts are kept.
        query: dict[str, Any] = {"text": f"photo {state[1]}", "mode": "meaning"}
        if view == "image":
            query = {"image": require("PIL.Image").new("RGB", (8, 8))}
        try:
            collection.search(**query, k=1)
        except AcqhError as error:
            detail = f"{collection.path} cannot answer {view} queries: {error}"
            raise EncoderError(detail) from error
    return state

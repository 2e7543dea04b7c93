"""The served collection: the threads that work on it, and its replacement by a rebuilt one."""

import asyncio
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib import import_module
from queue import SimpleQueue
from typing import Any, Literal, TypeVar

from starlette.exceptions import HTTPException

from acqh._core.imports import require
from acqh.collection import Collection
from acqh.collection.generations import generation_of
from acqh.collection.search.query import TextQuery, encode_together
from acqh.errors import (
    AcqhError,
    CollectionError,
    CorruptBundleError,
    EncoderError,
    MissingExtraError,
    MissingItemError,
    ReplacedError,
)
from acqh.io.manifest import MANIFEST_NAME
from acqh.serve.connections import max_open_connections
from acqh.serve.metrics import Metrics
from acqh.serve.schemas import RETRY
from acqh.serve.settings import Limits, Settings
from acqh.serve.shared import Shared
from acqh.serve.verify import verified_generation

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
# Images are decoded and encoded in threads of their own, so that other work need not wait; a map
# of the collection, which takes seconds, in yet another. Texts have a single thread, which searches
# for those that wait together: with two, both and the event loop wait for each other so often that
# a query of the emoji took 1.7 instead of 0.9 ms of processor time. If it finishes nothing for some
# time, the threads of other requests help. While texts are quick, they need no thread and are
# searched on the event loop: 0.8 instead of 1.0 ms for a query of the emoji.
Lane = Literal["text", "quick", "image", "map"]
_MAP_REQUESTS = 4
# Texts that are searched together, and how long the first results wait for others.
_MAX_TOGETHER, _HOLD_SECONDS, _PATIENCE_SECONDS = 8, 0.003, 0.05
# Texts are searched on the event loop while the last ones took less processor time: their mean, in
# which the newest has this weight. One slow text sends those after it to the thread.
_QUICK_SECONDS, _WEIGHT_OF_LAST = 0.002, 0.2
# How often a change is tried again on a collection that was replaced meanwhile.
_MAX_RELOADS = 3
# A verification of the same manifest is not repeated for this long: SIGHUP reaches all workers.
_VERIFIED_SECONDS = 5.0


class _Job:
    """Work for a thread, and the future of an event loop that gets its result.

    Half the price of ``concurrent.futures`` with ``asyncio.wait``: 0.08 instead of 0.13 ms.
    `text`: of a query in the lane "text".
    """

    def __init__(self, work: Callable[[], Any], text: Any = None) -> None:
        self.text = text
        self._work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self._starting = threading.Lock()  # held by who starts or cancels it

    def cancel(self) -> bool:
        """Return whether it has not started, and will not."""
        return self._starting.acquire(blocking=False)

    def __call__(self) -> tuple["_Job", Any, BaseException | None] | None:
        """Work; return the arguments of `finish`, or None if it was cancelled or started before."""
        if not self.cancel():
            return None
        value = error = None
        try:
            value = self._work()
        except BaseException as raised:
            error = raised
        del self._work
        return self, value, error

    def finish(self, value: Any, error: BaseException | None) -> None:
        """Set the result, on the event loop."""
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class Workers:
    """Threads for numeric work, with limits; only quick texts are searched on the event loop.

    `max_requests`: in progress at once; at most half of them about images. `max_seconds`: longest
    wait for a result. `prepare`: called with several texts that are searched for next.
    """

    def __init__(
        self,
        n_threads: int,
        max_requests: int,
        max_seconds: float,
        prepare: Callable[[list[Any]], object] = lambda _: None,
    ) -> None:
        sizes: dict[Lane, int] = {"text": 1, "quick": n_threads, "image": n_threads, "map": 1}
        self._limits: dict[Lane, int] = {
            "text": max_requests,
            "quick": max_requests,
            "image": max(1, max_requests // 2),
            "map": min(max_requests, _MAP_REQUESTS),
        }
        self._n_active: dict[Lane, int] = dict.fromkeys(self._limits, 0)
        self._seconds = max_seconds
        self._prepare = prepare
        self._text_finished_at, self._text_seconds = 0.0, _PATIENCE_SECONDS
        self._queues: dict[Lane, SimpleQueue[_Job | None]] = {lane: SimpleQueue() for lane in sizes}
        self._threads = [
            threading.Thread(target=self._work_off, args=(lane,), name=f"acqh-{lane}")
            for lane, size in sizes.items()
            for _ in range(size)
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    @contextmanager
    def slot(self, lane: Lane) -> Iterator[None]:
        """Count one more request in progress, or raise 429 at once."""
        is_full = sum(self._n_active.values()) >= self._limits["quick"]
        if is_full or self._n_active[lane] >= self._limits[lane]:
            detail = f"{self._limits[lane]} such requests are in progress; try again soon"
            raise HTTPException(429, detail, RETRY)
        self._n_active[lane] += 1
        try:
            yield
        finally:
            self._n_active[lane] -= 1

    async def run(
        self,
        work: Callable[[], T],
        lane: Lane = "quick",
        *,
        abandon: bool = True,
        text: Any = None,
        may_be_quick: bool = False,
    ) -> T:
        """Return the result of work in a thread, or raise 503 if it is late.

        `may_be_quick`: work of the lane "text" runs here if the last texts were quick.

        Work that still waits for a thread is then cancelled. Work that has started cannot be
        stopped. With `abandon`, its thread finishes alone; without, its result is awaited, because
        it changes something.
        """
        if may_be_quick and self._text_seconds < _QUICK_SECONDS:
            started = time.thread_time()
            try:
                return work()
            finally:
                self._count_texts(started, 1)
        job, handed_over = _Job(work, text), lane != "text"
        until = job.loop.time() + self._seconds
        timer: asyncio.TimerHandle
        self._queues[lane].put(job)

        def check() -> None:
            """Give a text to another thread if its own is stuck, and up if it is too late."""
            nonlocal timer, handed_over
            now = job.loop.time()
            if now >= until:
                if (job.cancel() or abandon) and not job.future.done():
                    detail = f"no answer in {self._seconds:g} s; try again later, or ask for less"
                    job.future.set_exception(HTTPException(503, detail, RETRY))
                return
            if not handed_over and now - self._text_finished_at > _PATIENCE_SECONDS:
                self._queues["quick"].put(job)
                handed_over = True
            timer = job.loop.call_at(until if handed_over else now + _PATIENCE_SECONDS, check)

        wait = self._seconds if handed_over else min(_PATIENCE_SECONDS, self._seconds)
        timer = job.loop.call_later(wait, check)
        try:
            result: T = await job.future
            return result
        finally:
            timer.cancel()

    def close(self) -> None:
        """Finish all work."""
        for queue in self._queues.values():
            for _ in self._threads:
                queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work_off(self, lane: Lane) -> None:
        """Do jobs, several texts together, until there is None in the queue."""
        queue = self._queues[lane]
        while (job := queue.get()) is not None:
            jobs = [job]
            while lane == "text" and len(jobs) < _MAX_TOGETHER and not queue.empty():
                if (job := queue.get()) is None:
                    queue.put(None)
                    break
                jobs.append(job)
            self._do_together(jobs, lane)
            del jobs, job  # with the collection that they refer to

    def _do_together(self, jobs: Sequence[_Job], lane: Lane) -> None:
        """Do jobs, and deliver the results of a few milliseconds together."""
        started = time.thread_time()
        if len(jobs) > 1:
            with suppress(Exception):  # each job raises it for itself
                self._prepare([job.text for job in jobs])
        results, until = [], time.monotonic() + _HOLD_SECONDS
        for job in jobs:
            results.append(job())
            now = time.monotonic()
            if lane == "text":
                self._text_finished_at = now
            if job is jobs[-1] or now > until:
                with suppress(RuntimeError):  # the loop has ended
                    job.loop.call_soon_threadsafe(_deliver, results)
                results, until = [], now + _HOLD_SECONDS
        if lane == "text":
            self._count_texts(started, len(jobs))

    def _count_texts(self, started: float, n_texts: int) -> None:
        """Note the processor time that texts took, since a time of this thread."""
        seconds = (time.thread_time() - started) / n_texts
        self._text_seconds += _WEIGHT_OF_LAST * (seconds - self._text_seconds)


def _deliver(results: Sequence[tuple[_Job, Any, BaseException | None] | None]) -> None:
    for job, value, error in filter(None, results):
        job.finish(value, error)


class Live:
    """The collection that is being served.

    If the manifest on disk changes, its generation is opened, verified, and answers a query of each
    kind. Then it replaces the current one, which is closed when all work that started with it has
    ended.

    `reload_error`: why the collection on disk is not served; None if it is.
    """

    def __init__(self, settings: Settings, limits: Limits, metrics: Metrics) -> None:
        self.reload_error: str | None = None
        self._path = settings.collection
        self._settings = settings
        self._reload_seconds = limits.reload_seconds
        self._metrics = metrics
        self._reloading = threading.Lock()
        self._wake: asyncio.Event | None = None
        self._failed: bytes | None = None  # manifest of a collection that could not be opened
        generation_of(self._path)  # raises an error with advice if there is none
        self._manifest = self._read_manifest()
        self.collection = self._open()
        if settings.write_token_file is not None and self.collection.opened.store.read_only:
            self.collection.close()
            raise CollectionError(
                f"{self._path} is not writable here, but --write-token-file is set; give the "
                "server's user the right to write there, or omit the option"
            )
        # Half of the possible connections are idle and can be closed for new ones.
        n_requests = min(limits.max_requests, max(1, max_open_connections() // 2))
        self.workers = Workers(
            settings.n_threads,
            n_requests,
            limits.max_work_seconds,
            lambda queries: encode_together(self.collection.opened, queries),
        )
        self.shared = Shared()
        metrics.items.set(len(self.collection))

    def _read_manifest(self) -> bytes:
        return (self._path / MANIFEST_NAME).read_bytes()

    def _open(self) -> Collection:
        """Open the collection on disk, and answer one query of each kind from it."""
        collection = Collection.open(self._path, query_encoder=self._settings.query_encoder)
        import_module("acqh.index.compiled.tables")  # so that searches use compiled code
        try:
            self._ready = check_ready(collection)
        except BaseException:
            collection.close()
            raise
        return collection

    def check(self) -> None:
        """Raise AcqhError if text or image queries fail; they run again after a change only."""
        collection = self.collection
        if (collection.generation, collection.revision) != self._ready:
            self._ready = check_ready(collection)

    async def run(
        self,
        work: Callable[[Collection], T],
        lane: Lane = "quick",
        *,
        changes: bool = False,
        text: TextQuery | None = None,
        may_be_quick: bool = False,
    ) -> T:
        """Return the result of work on the collection.

        `text`: of the lane "text"; those that wait are encoded together. `may_be_quick`: it takes
        no longer than other texts.

        Work that `changes` the collection is awaited once it has started. If the collection was
        replaced meanwhile, the work is done on the new one.

        Raises HTTPException: 429 if too much is in progress, 503 if it takes too long, and 404 or
        422 if the client can do something about an error.
        """
        with self.workers.slot(lane):
            for _ in range(_MAX_RELOADS):
                try:
                    return await self.workers.run(
                        lambda: self._do(work, changes),
                        lane,
                        abandon=not changes,
                        text=text,
                        may_be_quick=may_be_quick,
                    )
                except ReplacedError:
                    if not changes:
                        raise
                    await asyncio.to_thread(self.refresh)
        raise HTTPException(503, "the collection is being replaced; try again later", RETRY)

    def _do(self, work: Callable[[Collection], T], changes: bool) -> T:
        collection = self.collection  # stays open while this variable refers to it
        if changes and collection.opened.store.read_only:
            raise HTTPException(503, "the collection cannot be changed on this server; see its log")
        try:
            return work(collection)
        except MissingItemError as error:
            raise HTTPException(404, str(error)) from None
        except (CorruptBundleError, EncoderError, MissingExtraError, ReplacedError):
            raise  # the server's fault, not the client's
        except AcqhError as error:
            if isinstance(error.__cause__, sqlite3.Error):
                detail = "the collection is being changed by another process; try again soon"
                raise HTTPException(503, detail, RETRY) from error
            detail, folder = str(error), collection.path.absolute().parent
            for parent in (folder, folder.resolve()):  # clients need not know it
                detail = detail.replace(f"{parent}{os.sep}", "")
            raise HTTPException(422, detail) from error

    def refresh(self) -> bool:
        """Reload if the manifest on disk has changed; return whether it was reloaded."""
        try:
            manifest = self._read_manifest()
        except OSError:
            return False  # it is gone: what is open can still be served
        return manifest not in (self._manifest, self._failed) and self.reload()

    def reload(self) -> bool:
        """Open the collection on disk, and serve it if it is sound and can answer queries.

        Returns whether it is served now; if not, see `reload_error`.
        """
        with self._reloading:
            manifest = None
            try:
                # Before opening: the next check then notices one that is written meanwhile.
                manifest = self._read_manifest()
                verified = self._verify(manifest)
                fresh = self._open()
            except Exception as error:  # whatever damage does, the old one is still there
                self.reload_error = (
                    "the collection on disk is damaged; the previous one is served; see the log"
                )
                self._failed = manifest
                _LOG.error("%s is not reloaded: %s", self._path, error)
                self._metrics.reloads.labels("damaged").inc()
                self._metrics.reload_failed.set(1)
                return False
            if fresh.generation != verified:  # replaced meanwhile: the next check notices
                fresh.close()
                return False
            self.reload_error = self._failed = None
            self._metrics.items.set(len(fresh))
            self._metrics.reloads.labels("swapped").inc()
            self._metrics.reload_failed.set(0)
            _LOG.info("%s is reloaded: %d items", self._path, len(fresh))
            # Closed as soon as no thread uses it any more.
            weakref.finalize(self.collection, self.collection.opened.close)
            self._manifest, self.collection = manifest, fresh
            return True

    def _verify(self, manifest: bytes) -> str:
        """Verify the collection on disk, once for all workers; return its generation.

        Raises CorruptBundleError: it is damaged.
        """

        def compute() -> bytes:
            try:
                return b"+" + verified_generation(self._path).encode()
            except CorruptBundleError as error:
                return b"-" + str(error).encode()

        key = sha256(manifest).hexdigest()
        result = self.shared.get("verification", key, -1, _VERIFIED_SECONDS, compute).decode()
        if result.startswith("-"):
            raise CorruptBundleError(result[1:])
        return result[1:]

    async def watch(self) -> None:
        """Reload the collection whenever it changes on disk, until cancelled."""
        self._wake = asyncio.Event()
        while True:
            reload = self.refresh
            try:
                async with asyncio.timeout(self._reload_seconds):
                    await self._wake.wait()
                reload = self.reload
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await asyncio.to_thread(reload)
            except Exception:
                _LOG.exception("the collection on disk could not be read")

    def reload_soon(self) -> None:
        """Make `watch` reload at once, whether or not the manifest has changed."""
        if self._wake is not None:
            self._wake.set()

    def close(self) -> None:
        """Finish all work and close the collection."""
        with self._reloading:
            self.workers.close()
            self.collection.close()
            self.shared.close()


def check_ready(collection: Collection) -> tuple[str, int]:
    """Answer one query of each kind that clients may send; return generation and change.

    Raises EncoderError: texts or images cannot be encoded.
    """
    state = collection.generation, collection.revision
    first = next(iter(collection), None)
    if first is not None:
        item = collection.item(first)
        collection.search(text=item.text or "photo", mode="keyword", k=1)
        collection.search(item=first, where={"label": item.labels} if item.labels else None, k=1)
    for view in {"text", "image"}.intersection(collection.views, collection.opened.facts.encoders):
        # A text that no query had before: vectors of texts are cached.
        query: dict[str, Any] = {"text": f"photo {state[1]}", "mode": "semantic"}
        if view == "image":
            query = {"image": require("PIL.Image").new("RGB", (8, 8))}
        try:
            collection.search(**query, k=1)
        except AcqhError as error:
            detail = f"{collection.path} cannot answer {view} queries: {error}"
            raise EncoderError(detail) from error
    return state

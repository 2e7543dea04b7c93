"""What is being served, and how another takes its place without a failed request."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from acqh.collection import Collection, generation_of, verify_collection
from acqh.errors import CorruptBundleError, ReplacedError
from acqh.serve._connections import room_for_connections
from acqh.serve._metrics import Metrics
from acqh.serve._problems import ProblemError
from acqh.serve._settings import Settings
from acqh.serve._work import Crew, Lane, Slots, patient

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
# How often a change is tried on a collection that takes the place of another.
_MAX_RELOADS = 3
# Device and number of each file, and when it last changed.
_Stamps = tuple[tuple[int, int, int], ...]


class Live:
    """The collection being served, or several as one.

    A collection that is built again has another SQLite file in its folder. That is noticed by a
    look at the file's number, which stays taken for as long as the old file is open. The new
    collection is opened and verified beside the old one, with threads of its own, then takes its
    place; the old one ends what it has begun, and is closed.

    `problem`: what is wrong with the collection on disk, if it is not the one being served.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.problem: str | None = None
        self._paths = settings.paths
        self._name = ", ".join(map(str, settings.paths))
        self._settings = settings
        self._metrics = metrics
        self._lock = threading.Lock()
        self._reloading = threading.Lock()
        self._wake: asyncio.Event | None = None
        self._failed: _Stamps | None = None
        # Of the connections that there can be, half are not worked on and can make room.
        self._slots = Slots(min(settings.max_requests, max(1, room_for_connections() // 2)))
        for path in self._paths:
            generation_of(path)  # raises an error that says what is wrong, where there is none
        self._stamps = _stamps(self._paths)
        self._crew = Crew(Collection.open(settings.collection), settings.n_threads)
        metrics.items.set(len(self._crew.collection))

    async def run(self, work: Callable[[Collection], T], lane: Lane = "quick") -> T:
        """Return what `work` makes of the collection.

        Raises ProblemError: 429 when too much is being worked on, 503 when it takes too long.
        """
        with self._slots.hold(lane):
            return await patient(self._submit(work, lane), self._settings.max_work_seconds)

    async def change(self, work: Callable[[Collection], T], lane: Lane = "quick") -> T:
        """Do as `run`, but wait for the end of work that has begun.

        A collection that was replaced cannot be changed any more; the work is then done on the new
        one.
        """
        with self._slots.hold(lane):
            for _ in range(_MAX_RELOADS):
                submitted = self._submit(work, lane)
                try:
                    return await patient(submitted, self._settings.max_work_seconds, give_up=False)
                except ReplacedError:
                    await asyncio.to_thread(self.refresh)
        detail = "the collection is being replaced by another; try again later"
        raise ProblemError(503, detail, {"Retry-After": "1"})

    def refresh(self) -> bool:
        """Reload if the collection was built again; return whether another one is served now."""
        try:
            stamps = _stamps(self._paths)
        except OSError:
            return False  # between two renames, or gone: what is open can still be served
        if _files(stamps) == _files(self._stamps) or stamps == self._failed:
            return False
        return self.reload()

    def reload(self) -> bool:
        """Open and verify what is on disk, and serve it if it is whole.

        Gives whether it is served now; if not, `problem` says why.
        """
        with self._reloading:
            try:
                # Before opening: if another one comes in between, the next look sees it.
                stamps = _stamps(self._paths)
            except OSError as error:
                self._fail(error)
                return False
            try:
                fresh = Crew(_open_verified(self._paths), self._settings.n_threads)
            except Exception as error:  # whatever damage does, the old one is still there
                self._fail(error)
                self._failed = _later(stamps, self._paths)
                return False
            self._swap(fresh, stamps)
            return True

    async def watch(self) -> None:
        """Look for ever whether the collection was built again."""
        self._wake = asyncio.Event()
        while True:
            look = self.refresh
            try:
                async with asyncio.timeout(self._settings.reload_seconds):
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
            self._crew.close()

    def _submit(self, work: Callable[[Collection], T], lane: Lane) -> "Future[T]":
        with self._lock:  # a crew takes no more work once another has taken its place
            return self._crew.submit(work, lane)

    def _fail(self, error: Exception) -> None:
        self.problem = "the collection on disk is damaged; the one before it is served; see the log"
        _LOG.error("%s is not reloaded: %s", self._name, error)
        self._metrics.reloads.labels("damaged").inc()
        self._metrics.reload_failed.set(1)

    def _swap(self, fresh: Crew, stamps: _Stamps) -> None:
        self._stamps = stamps
        with self._lock:
            old, self._crew = self._crew, fresh
        self.problem = self._failed = None
        self._metrics.items.set(len(fresh.collection))
        self._metrics.reloads.labels("swapped").inc()
        self._metrics.reload_failed.set(0)
        _LOG.info("%s is reloaded: %d items", self._name, len(fresh.collection))
        old.close()


def _open_verified(paths: Sequence[Path]) -> Collection:
    collection = Collection.open(paths[0])
    problems = [problem for path in paths for problem in verify_collection(path).problems]
    if problems:
        collection.close()
        raise CorruptBundleError("; ".join(problems))
    return collection


def _later(stamps: _Stamps, paths: Sequence[Path]) -> _Stamps:
    """Return the stamps after a look at the files, which may itself have changed them."""
    try:
        now = _stamps(paths)
    except OSError:
        return stamps
    return now if _files(now) == _files(stamps) else stamps


def _files(stamps: _Stamps) -> list[tuple[int, int]]:
    """Return which files they were, whatever has changed in them."""
    return [(device, number) for device, number, _ in stamps]


def _stamps(paths: Sequence[Path]) -> _Stamps:
    found = [(path / "items.sqlite").stat() for path in paths]
    return tuple((each.st_dev, each.st_ino, each.st_ctime_ns) for each in found)

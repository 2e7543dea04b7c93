"""Numeric work: in a few threads of its own, never on the event loop, and not for ever."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Barrier
from typing import Any, Literal, TypeVar

from acqh.collection import Collection
from acqh.errors import AcqhError
from acqh.serve._problems import ProblemError

T = TypeVar("T")

# Images are decoded and described in threads of their own, so that other work need not wait; a
# map of the collection, which takes seconds, in yet another.
Lane = Literal["quick", "image", "map"]
_MAP_REQUESTS = 4


class Slots:
    """Requests worked on at once; of those about images at most half as many."""

    def __init__(self, max_requests: int) -> None:
        self._most: dict[Lane, int] = {
            "quick": max_requests,
            "image": max(1, max_requests // 2),
            "map": min(max_requests, _MAP_REQUESTS),
        }
        self._held: dict[Lane, int] = dict.fromkeys(self._most, 0)

    @contextmanager
    def hold(self, lane: Lane) -> Iterator[None]:
        """Hold a slot while something is worked on, or raise `ProblemError` 429 at once."""
        is_full = sum(self._held.values()) >= self._most["quick"]
        if is_full or self._held[lane] >= self._most[lane]:
            detail = f"{self._most[lane]} such requests are being answered; try again soon"
            raise ProblemError(429, detail, {"Retry-After": "1"})
        self._held[lane] += 1
        try:
            yield
        finally:
            self._held[lane] -= 1


class Crew:
    """An open collection, or several as one, and the threads that search it.

    Before there is other work, one search of each kind is made, so that everything is compiled
    and loaded when the first client asks; and every thread reads from the collection once: what
    threads open, they open by name, and the name may soon lead to a collection built again.

    `collection`: closed with the crew.
    """

    def __init__(self, collection: Collection, n_threads: int) -> None:
        self.collection = collection
        sizes: dict[Lane, int] = {"quick": n_threads, "image": n_threads, "map": 1}
        self._pools = {
            lane: ThreadPoolExecutor(size, thread_name_prefix=f"acqh-{lane}")
            for lane, size in sizes.items()
        }
        together = Barrier(sum(sizes.values()))

        def touch() -> None:
            together.wait()
            len(collection)  # reads from every shard

        try:
            warm_up(collection)
            touching = [
                self._pools[lane].submit(touch) for lane, size in sizes.items() for _ in range(size)
            ]
            for touched in touching:
                touched.result()
        except BaseException:
            self.close()
            raise

    def submit(self, work: Callable[[Collection], T], lane: Lane) -> "Future[T]":
        """Have a thread do some work as soon as one is free."""
        return self._pools[lane].submit(work, self.collection)

    def close(self) -> None:
        """Finish all work, then close the collection."""
        for pool in self._pools.values():
            pool.shutdown(wait=True)
        self.collection.close()


def warm_up(collection: Collection) -> None:
    """Load what searches need, and make one of each kind that clients may make."""
    collection.warm_up()
    first = next(iter(collection), None)
    if first is None:
        return
    item = collection.item(first)
    queries: list[dict[str, Any]] = [{"item": first}]
    if item.labels:
        queries.append({"item": first, "where": {"label": item.labels[0]}})
    if item.text:
        queries.append({"text": item.text})
    if item.has_thumbnail:
        queries.append({"image": collection.thumbnail(first)})
    for query in queries:
        with suppress(AcqhError):  # not every collection answers every kind
            collection.search(**query, k=1)


async def patient(work: "Future[T]", seconds: float, *, give_up: bool = True) -> T:
    """Return the result of work in a thread, or raise `ProblemError` 503 when it is late.

    Work that still waits for a thread is then dropped. Work that has begun cannot be stopped; its
    thread is busy until it ends, but nobody waits for it. So there is never more work than
    requests are let in, and one piece per thread.

    `give_up`: whether to leave work alone that has begun; work that changes something is waited
    for.
    """
    waiting = asyncio.wrap_future(work)
    done, _ = await asyncio.wait([waiting], timeout=seconds)
    if done or not (give_up or work.cancel()):
        return await waiting
    waiting.cancel()
    detail = f"no answer within {seconds:g} s; try again later, or ask for less"
    raise ProblemError(503, detail, {"Retry-After": "1"})

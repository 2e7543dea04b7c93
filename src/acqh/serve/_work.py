"""Numeric work: in a few threads of its own, never on the event loop, and not for ever."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from typing import Any, TypeVar

from acqh.collection import Searchable
from acqh.errors import AcqhError
from acqh.serve._problems import ProblemError

T = TypeVar("T")


class Crew:
    """An open collection, or several as one, and the threads that search it.

    Before there is other work, one search of each kind is made, so that everything is compiled
    and loaded when the first client asks; and every thread reads from the collection once: what
    threads open, they open by name, and the name may soon lead to a collection built anew.

    Parameters
    ----------
    collection : Searchable
        Closed with the crew.
    n_threads : int
    """

    def __init__(self, collection: Searchable, n_threads: int) -> None:
        self.collection = collection
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="acqh-serve")
        together = Barrier(n_threads)

        def touch() -> None:
            together.wait()
            len(collection)  # reads from every shard

        try:
            warm_up(collection)
            for touched in [self._pool.submit(touch) for _ in range(n_threads)]:
                touched.result()
        except BaseException:
            self.close()
            raise

    def submit(self, work: Callable[[Searchable], T]) -> "Future[T]":
        """Have a thread do some work as soon as one is free."""
        return self._pool.submit(work, self.collection)

    def close(self) -> None:
        """Finish all work, then close the collection."""
        self._pool.shutdown(wait=True)
        self.collection.close()


def warm_up(collection: Searchable) -> None:
    """Make one search of each kind that clients may make."""
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
    requests are let in, and one piece a thread.

    Parameters
    ----------
    work : Future
    seconds : float
    give_up : bool
        Whether to leave work alone that has begun. Work that changes something is waited for.
    """
    waiting = asyncio.wrap_future(work)
    done, _ = await asyncio.wait([waiting], timeout=seconds)
    if done or not (give_up or work.cancel()):
        return await waiting
    waiting.cancel()
    detail = f"no answer within {seconds:g} s; try again later, or ask for less"
    raise ProblemError(503, detail, {"Retry-After": "1"})

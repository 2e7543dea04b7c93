"""Process chunks on a Dask cluster, with the same results as one process."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeAlias

from acqh import __version__
from acqh._core.imports import require
from acqh._core.runtime import limit_threads
from acqh.errors import ClusterError

# A chunk and a further argument of the function.
Task: TypeAlias = tuple[Any, Any]
Function: TypeAlias = Callable[[Any, Any], Any]
_SCHEDULER_SECONDS = 5
_WORKER_SECONDS = 30
# Number of results that one task merges.
_FAN_IN = 8
# Tasks per thread that are submitted before the first result is used.
_AHEAD = 4


class DaskExecutor:
    """Process chunks on a cluster: workers read the chunks and return small results.

    Raises ClusterError: there are no workers, or they lack this version of acqh.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        try:
            client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            raise ClusterError(
                f"the scheduler {client.scheduler.address} has no workers; start some with "
                f"'dask worker {client.scheduler.address}'"
            ) from error
        for worker, version in client.run(_version, on_error="return").items():
            # Workers that have died in the meantime do not count.
            if version != __version__ and not isinstance(version, OSError):
                raise ClusterError(
                    f"worker {worker} has acqh {version}, this is {__version__}; all machines "
                    "need the same"
                )

    def map(self, function: Function, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
        """Yield the length of each chunk and `function(items, argument)`, in order.

        Submits few tasks in advance, so results do not accumulate. Raises ClusterError: workers
        died repeatedly, or the scheduler is gone. Raises the error of a task, with the name of its
        chunk in the message.
        """
        scattered, waiting = self._scatter(function), deque[tuple[int, Any, str]]()
        n_ahead = _AHEAD * sum(self._client.nthreads().values())

        def fetch() -> tuple[int, Any]:
            n_items, future, name = waiting.popleft()
            return n_items, _fetch(future, name)

        try:
            for chunk, argument in tasks:
                future = self._submit(_call, scattered, chunk, argument)
                waiting.append((len(chunk), future, repr(chunk)))
                if len(waiting) > n_ahead:
                    yield fetch()
            while waiting:
                yield fetch()
        except BaseException:
            self._cancel([future for _, future, _ in waiting])
            raise

    def reduce(
        self,
        function: Function,
        chunks: Sequence[Any],
        merge: Callable[[list[Any]], Any],
        done: Callable[[Any], None],
    ) -> Any:
        """Merge the results of all chunks, a few at a time, in a fixed order.

        `merge`: merges a list of results, which may be merged results. `done`: called with each
        chunk after its result is computed. Raises the errors of `map`.
        """
        scattered = self._scatter(function)
        level = [self._submit(_call, scattered, chunk, None) for chunk in chunks]
        chunk_of = {future.key: chunk for future, chunk in zip(level, chunks, strict=True)}
        # Keep no other reference: workers drop results that are merged.
        completed = require("distributed").as_completed(level)
        while len(level) > 1 or chunk_of.keys() == {level[0].key}:
            level = [
                self._submit(merge, level[first : first + _FAN_IN])
                for first in range(0, len(level), _FAN_IN)
            ]
        try:
            for future in completed:
                chunk = chunk_of[future.key]
                if future.status != "finished":
                    _fetch(future, repr(chunk))
                done(chunk)
            return _fetch(level[0], "the merged results")
        except BaseException:
            self._cancel([*completed.futures, *level])
            raise

    def _scatter(self, value: Any) -> Any:
        """Send a value once, as the result of a task; if a worker is lost, Dask sends it again."""
        return self._submit(_same, value)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.submit(function, *arguments, pure=False)

    def _cancel(self, futures: list[Any]) -> None:
        if self._client.status == "running":
            self._client.cancel(futures)


def _same(value: Any) -> Any:
    return value


def _version() -> str:
    return __version__


def _call(function: Function, chunk: Any, argument: Any) -> Any:
    # A worker runs a task on each of its threads.
    with limit_threads(1):
        return function(chunk.read(), argument)


def _fetch(future: Any, name: str) -> Any:
    distributed = require("distributed")
    try:
        return future.result()
    except distributed.KilledWorker as error:
        raise ClusterError(
            f"the workers that had {name} died, one after the other; it may take more memory than "
            "a worker has: give smaller chunks, or workers with more memory"
        ) from error
    except distributed.CancelledError as error:
        raise ClusterError(f"{name} was given up: the scheduler is gone") from error
    except Exception as error:
        # Add the name of the chunk to the message, and keep the type.
        match error.args:
            case (str(message),) if name not in message:
                error.args = (f"{name}: {message}",)
            case _:
                error.add_note(f"while working on {name}")
        raise


def slim(model: Any) -> Any:
    """Return a model without its sufficient statistics, which are large and not needed here."""
    lighter = copy(model)
    getattr(lighter, "__dict__", {}).pop("stats_", None)
    return lighter


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Connect to a Dask cluster in a ``with`` block.

    Parameters
    ----------
    address : str
        Address of a scheduler, such as ``"tcp://10.0.0.1:8786"``; or ``"local"``, which starts one
        process per core on this machine and ends them afterwards.

    Yields
    ------
    distributed.Client

    Raises
    ------
    ClusterError
        No scheduler answers within 5 seconds, or its workers cannot run acqh.
    MissingExtraError
        Dask is not installed.

    Examples
    --------
    >>> from distributed import LocalCluster
    >>> with LocalCluster(processes=False, dashboard_address=":0") as cluster:
    ...     with connect(cluster.scheduler_address) as client:
    ...         client.submit(sum, [1, 2]).result()
    3
    """
    distributed = require("distributed")
    if address == "local":
        # Dask counts mapped files as memory of a worker, although the system can free it.
        with (
            distributed.LocalCluster(
                processes=True,
                threads_per_worker=1,
                dashboard_address=":0",
                memory_limit=None,
                silence_logs=logging.CRITICAL,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(address, timeout=_SCHEDULER_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address} ({error}); give the address that 'dask "
            "scheduler' prints, or 'local'"
        ) from error
    with client:
        yield client

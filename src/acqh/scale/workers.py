"""A source in pieces, and who works on them: this process or a Dask cluster, with equal results.

A source is files, data in memory, or chunks one after the other.
"""

import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from acqh import __version__
from acqh._core.arrays import check_positive_int
from acqh._core.device import check_device
from acqh._core.imports import require
from acqh._core.runtime import Progress, limit_threads
from acqh.data import MultiViewData, list_pieces, read_pieces
from acqh.data.readers.pieces import Piece, Pieces
from acqh.errors import ClusterError, InvalidInputError

_SCHEDULER_SECONDS = 5
_WORKER_SECONDS = 30
# How many results one task puts together.
_FAN_IN = 8
# Tasks of a thread that are begun before the first result is taken.
_AHEAD = 4

Source: TypeAlias = (
    str
    | PathLike[str]
    | Sequence[str | PathLike[str]]
    | Sequence[Piece]
    | MultiViewData
    | Iterable[MultiViewData]
)
# A piece, which has a method ``read``, and whatever else a task is told.
Task: TypeAlias = tuple[Any, Any]


class Workers(Protocol):
    """Do `work(items, told)` for each task, `items` being what its piece reads."""

    def run(self, work: Callable[[Any, Any], Any], tasks: Iterable[Task]) -> Iterator[Any]:
        """Yield what the tasks give, in their order; the first error stops all."""


def on_device(step: Callable[..., Any], device: str | None, client: Any) -> dict[str, str]:
    """Return what a step is told besides, to be done on a device.

    Raises InvalidInputError: it cannot be; DeviceError: there is none.
    """
    if device is None:
        return {}
    if client is not None:
        raise InvalidInputError("workers choose where they work; give a device or a cluster")
    if "device" not in inspect.signature(step).parameters:
        raise InvalidInputError(f"{step.__qualname__} works on the CPU; leave the device out")
    check_device(device)
    return {"device": device}


@dataclass(frozen=True)
class Held:
    """A piece that is in memory."""

    data: MultiViewData

    def __len__(self) -> int:
        return len(self.data)

    def read(self) -> MultiViewData:
        """Return the rows."""
        return self.data


@dataclass
class Cut:
    """A source cut into pieces, and who works on them."""

    pieces: Iterable[Any]  # a sequence, unless chunks come one after the other
    n_items: int | None  # None: not known before all are read
    chunk_size: int | None = None  # None: the source decided
    # Tells one state of files from another; None where there are no files.
    fingerprint: str | None = None
    workers: Workers = field(default_factory=lambda: Here())
    progress: Progress | None = None
    n_done: int = 0

    def run(
        self, work: Callable[[Any, Any], Any], what: str, tasks: Iterable[Task] | None = None
    ) -> Iterator[Any]:
        """Yield what `work` gives for each task, or for all pieces; `what` is said to be done."""
        lengths: deque[int] = deque()

        def counted() -> Iterator[Task]:
            for piece, told in ((each, None) for each in self.pieces) if tasks is None else tasks:
                lengths.append(len(piece))
                yield piece, told
                # Not to be kept while the next one is read.
                del piece

        for result in self.workers.run(work, counted()):
            yield result
            del result
            self.tell(what, lengths.popleft())

    def tell(self, what: str, n_more: int = 0) -> None:
        """Count more items that are done, and report it where somebody wants to know."""
        self.n_done += n_more
        if self.progress is not None:
            self.progress(self.n_done, self.n_items, f"{self.n_done:,} {what}")


def cut_source(
    source: Any, chunk_size: int, client: Any = None, progress: Progress | None = None
) -> Cut:
    """Look at a source, and cut it unless it comes in pieces.

    `client`: of workers that are to read it. Raises InvalidInputError: it is none of the known
    kinds, or nothing that workers can read. Raises ClusterError: there are no such workers.
    """
    check_positive_int(chunk_size, "chunk_size")
    who: dict[str, Any] = {
        "workers": Here() if client is None else OnDask(client),
        "progress": progress,
    }
    listed = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    if isinstance(source, Pieces):
        return Cut(source, source.n_items, None, source.fingerprint(), **who)
    if listed and all(isinstance(each, str | PathLike) for each in listed):
        # Absolute: processes that read the pieces may have another working directory.
        paths = [Path(each).absolute() for each in listed]
        pieces = list_pieces(paths if listed is source else paths[0], chunk_size=chunk_size)
        return Cut(pieces, pieces.n_items, chunk_size, pieces.fingerprint(), **who)
    if listed is source and listed and all(hasattr(each, "read") for each in listed):
        return Cut(source, sum(map(len, source)), **who)
    if client is not None:
        raise InvalidInputError(
            f"a cluster reads paths and pieces of files, not {type(source).__name__}; write the "
            "items to files that all workers see"
        )
    if isinstance(source, MultiViewData):
        held = [Held(rows) for rows in source.chunks(chunk_size)]
        return Cut(held, len(source), chunk_size, **who)
    if not isinstance(source, Iterable):
        raise InvalidInputError(
            "the source must be a path, pieces of files, MultiViewData or an iterable of them, not "
            f"{type(source).__name__}"
        )
    return Cut(_held(source), None, **who)


def _held(chunks: Iterable[Any]) -> Iterator[Held]:
    for chunk in chunks:
        if not isinstance(chunk, MultiViewData):
            raise InvalidInputError(f"chunks must be MultiViewData, got {type(chunk).__name__}")
        yield Held(chunk)
        # Not to be kept while the next one is read.
        del chunk


class Here:
    """One task after the other in this process, while a thread reads the next piece of a file."""

    def run(self, work: Callable[[Any, Any], Any], tasks: Iterable[Task]) -> Iterator[Any]:
        """Yield what the tasks give, in their order."""
        coming: deque[Any] = deque()

        def pieces() -> Iterator[Any]:
            for piece, told in tasks:
                coming.append(told)
                yield piece

        with closing(_read(pieces())) as reader:
            for items in reader:
                result = work(items, coming.popleft())
                # Not to be kept while the next ones are read.
                del items
                yield result
                del result


def _read(pieces: Iterator[Any]) -> Any:
    """Yield what each piece reads; of files ahead, what is in memory when its turn comes."""
    first = next(pieces, None)
    if isinstance(first, Piece):
        with closing(read_pieces(chain([first], pieces), ahead=True)) as reader:
            yield from reader
        return
    while first is not None:
        yield first.read()
        first = next(pieces, None)


class OnDask:
    """The workers of a cluster: tasks and what they need travel, and small results come back.

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
            # A worker that died meanwhile is none any more.
            if version != __version__ and not isinstance(version, OSError):
                raise ClusterError(
                    f"worker {worker} has acqh {version}, this is {__version__}; all machines "
                    "need the same"
                )

    def run(self, work: Callable[[Any, Any], Any], tasks: Iterable[Task]) -> Iterator[Any]:
        """Yield what the tasks give, in their order.

        Only some are begun before the first result is taken: what tasks give is not to gather
        faster than it is used. Raises ClusterError: workers died again and again, or the scheduler
        is gone; else what a task raised, its message with the name of its piece.
        """
        carried, waiting = self._carry(work), deque[tuple[Any, str]]()
        n_ahead = _AHEAD * sum(self._client.nthreads().values())
        try:
            for piece, told in tasks:
                waiting.append((self._submit(_work, carried, piece, told), repr(piece)))
                if len(waiting) > n_ahead:
                    yield _fetch(*waiting.popleft())
            while waiting:
                yield _fetch(*waiting.popleft())
        except BaseException:
            self._cancel([future for future, _ in waiting])
            raise

    def merge(
        self,
        work: Callable[[Any, Any], Any],
        pieces: Sequence[Any],
        together: Callable[[list[Any]], Any],
        done: Callable[[Any], None],
    ) -> Any:
        """Return what work on pieces gives put together, a few at a time, always in their order.

        `together`: takes a list of results, and of what it returned. `done`: called with each piece
        that has been worked on. Raises as `run` does.
        """
        carried = self._carry(work)
        level = [self._submit(_work, carried, piece, None) for piece in pieces]
        piece_of = {future.key: piece for future, piece in zip(level, pieces, strict=True)}
        # Held by nothing else, a result is dropped when it was put together.
        completed = require("distributed").as_completed(level)
        while len(level) > 1 or piece_of.keys() == {level[0].key}:
            level = [
                self._submit(together, level[first : first + _FAN_IN])
                for first in range(0, len(level), _FAN_IN)
            ]
        try:
            for future in completed:
                piece = piece_of[future.key]
                if future.status != "finished":
                    _fetch(future, repr(piece))
                done(piece)
            return _fetch(level[0], "the merged results")
        except BaseException:
            self._cancel([*completed.futures, *level])
            raise

    def _carry(self, value: Any) -> Any:
        """Send a value once, as what a task gives: it is sent again where a worker is lost."""
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


def _work(work: Callable[[Any, Any], Any], piece: Any, told: Any) -> Any:
    # A worker runs a task on each of its threads.
    with limit_threads(1):
        return work(piece.read(), told)


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
        # Have it say what it is about, and stay of its kind.
        match error.args:
            case (str(message),) if name not in message:
                error.args = (f"{name}: {message}",)
            case _:
                error.add_note(f"while working on {name}")
        raise


def slim(model: Any) -> Any:
    """Return a model without the sums it was learnt from: they can be large, and have no use."""
    lighter = copy(model)
    getattr(lighter, "__dict__", {}).pop("stats_", None)
    return lighter


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Give a client of a Dask cluster, for as long as it is needed.

    Parameters
    ----------
    address : str
        Of a scheduler, such as ``"tcp://10.0.0.1:8786"``; or ``"local"``, which starts one process
        a core here and ends them afterwards.

    Yields
    ------
    distributed.Client

    Raises
    ------
    ClusterError
        Nothing answers there within 5 seconds, or what answers cannot do our work.
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
        # Mapped files count as a worker's memory, though the system takes it back when it must.
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

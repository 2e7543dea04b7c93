"""A source of items in chunks, and work on one chunk after the other in this process."""

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, repeat
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from acqh._core.arrays import check_positive_int
from acqh._core.device import check_device
from acqh._core.runtime import Progress
from acqh.data import MultiViewData, list_pieces, read_pieces
from acqh.data.readers.pieces import Piece, Pieces
from acqh.errors import InvalidInputError

Source: TypeAlias = (
    str
    | PathLike[str]
    | Sequence[str | PathLike[str]]
    | Sequence[Piece]
    | MultiViewData
    | Iterable[MultiViewData]
)
# A chunk, which has a length and a method `read`, and a further argument of the function.
Task: TypeAlias = tuple[Any, Any]
Function: TypeAlias = Callable[[Any, Any], Any]


class Executor(Protocol):
    """Calls a function for chunks: in this process, or on a Dask cluster."""

    def map(self, function: Function, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
        """Yield the length of each chunk and `function(chunk.read(), argument)`, in order."""


@dataclass(frozen=True)
class InMemoryChunk:
    """A chunk that is in memory."""

    data: Any
    n_items: int

    def __len__(self) -> int:
        return self.n_items

    def read(self) -> Any:
        """Return the items."""
        return self.data


class LocalExecutor:
    """Works on one chunk after the other, while a thread reads the next one of a file."""

    def map(self, function: Function, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
        """Yield the length of each chunk and `function(chunk.read(), argument)`, in order."""
        arguments: deque[Any] = deque()

        def chunks() -> Iterator[Any]:
            for chunk, argument in tasks:
                arguments.append(argument)
                yield chunk
                del chunk  # not to be kept while the next one is read

        with closing(_read(chunks())) as reader:
            for n_items, data in reader:
                result = function(data, arguments.popleft())
                del data
                yield n_items, result
                del result


def _read(chunks: Iterator[Any]) -> Any:
    """Yield the length and the items of each chunk; of files, the next is read ahead."""
    first = next(chunks, None)
    if isinstance(first, Piece):
        with closing(read_pieces(chain([first], chunks), ahead=True)) as reader:
            for data in reader:
                yield len(data), data
                del data
        return
    while first is not None:
        yield len(first), first.read()
        first = next(chunks, None)


@dataclass
class ChunkedSource:
    """A source in chunks, and where they are worked on."""

    chunks: Iterable[Any]  # a sequence, unless chunks come one after the other
    n_items: int | None  # None: not known before all are read
    executor: Executor
    progress: Progress | None = None
    chunk_size: int | None = None  # None: the source decided
    # Differs between two states of files; None without files.
    fingerprint: str | None = None
    n_done: int = 0

    def map(self, function: Function, what: str, arguments: Iterable[Any] | None = None) -> Any:
        """Yield `function(items, argument)` of each chunk, in order; report progress.

        `what`: what to report as done. `arguments`: one for each chunk; None by default.
        """
        self.n_done = 0
        tasks = zip(self.chunks, repeat(None) if arguments is None else arguments, strict=False)
        return self.map_tasks(function, what, tasks)

    def map_tasks(self, function: Function, what: str, tasks: Iterable[Task]) -> Iterator[Any]:
        """Yield `function(items, argument)` of some chunks, in order; report progress."""
        for n_items, result in self.executor.map(function, tasks):
            yield result
            del result
            self.report(what, n_items)

    def report(self, what: str, n_more: int = 0) -> None:
        """Count more items as done, and report them."""
        self.n_done += n_more
        if self.progress is not None:
            self.progress(self.n_done, self.n_items, f"{self.n_done:,} {what}")


def chunk_source(
    source: Any, chunk_size: int, client: Any = None, progress: Progress | None = None
) -> ChunkedSource:
    """Split a source into chunks, unless it comes in chunks.

    `client`: of a cluster whose workers read it. Raises InvalidInputError: the source is of no
    known kind, or workers cannot read it. Raises ClusterError: there are no workers.
    """
    check_positive_int(chunk_size, "chunk_size")
    executor: Executor = LocalExecutor()
    if client is not None:
        from acqh.scale.cluster import DaskExecutor

        executor = DaskExecutor(client)
    listed = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    if isinstance(source, Pieces):
        return ChunkedSource(source, source.n_items, executor, progress, None, source.fingerprint())
    if listed and all(isinstance(each, str | PathLike) for each in listed):
        # Absolute: processes that read the chunks may have another working directory.
        paths = [Path(each).absolute() for each in listed]
        pieces = list_pieces(paths if listed is source else paths[0], chunk_size=chunk_size)
        return ChunkedSource(
            pieces, pieces.n_items, executor, progress, chunk_size, pieces.fingerprint()
        )
    if listed is source and listed and all(hasattr(each, "read") for each in listed):
        return ChunkedSource(source, sum(map(len, source)), executor, progress)
    if client is not None:
        raise InvalidInputError(
            f"a cluster reads paths and pieces of files, not {type(source).__name__}; write the "
            "items to files that all workers see"
        )
    if isinstance(source, MultiViewData):
        chunks = [InMemoryChunk(data, len(data)) for data in source.chunks(chunk_size)]
        return ChunkedSource(chunks, len(source), executor, progress, chunk_size)
    if not isinstance(source, Iterable):
        raise InvalidInputError(
            "the source must be a path, pieces of files, MultiViewData or an iterable of them, not "
            f"{type(source).__name__}"
        )
    return ChunkedSource(_in_memory(source), None, executor, progress)


def _in_memory(chunks: Iterable[Any]) -> Iterator[InMemoryChunk]:
    for chunk in chunks:
        if not isinstance(chunk, MultiViewData):
            raise InvalidInputError(f"chunks must be MultiViewData, got {type(chunk).__name__}")
        yield InMemoryChunk(chunk, len(chunk))
        del chunk  # not to be kept while the next one is read


def device_argument(method: Callable[..., Any], device: str | None, client: Any) -> dict[str, str]:
    """Return the keyword argument that runs a method on a device, or none.

    Raises InvalidInputError: the method runs on the CPU only, or on a cluster. Raises DeviceError:
    the device is not available.
    """
    if device is None:
        return {}
    if client is not None:
        raise InvalidInputError("workers choose where they work; give a device or a cluster")
    if "device" not in inspect.signature(method).parameters:
        raise InvalidInputError(f"{method.__qualname__} works on the CPU; leave the device out")
    check_device(device)
    return {"device": device}

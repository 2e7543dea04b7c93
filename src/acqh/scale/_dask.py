"""Running the steps on the workers of a Dask cluster; the only file that knows Dask.

What travels is small: tasks name files and rows, models and sums are a few megabytes, and workers
write what is large. Dask runs a task again when its worker dies, so a task must change nothing
when it is run twice.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from acqh import __version__
from acqh._core.errors import ClusterError, InvalidInputError, ViewError
from acqh._core.optional import require
from acqh.data import MultiViewData, list_pieces

# Called with how many items are done, how many there are (None: not known), and what is done.
Progress: TypeAlias = Callable[[int, int | None, str], None]
# How many results one task puts together.
FAN_IN = 8
_SCHEDULER_SECONDS = 5
_WORKER_SECONDS = 30


@dataclass(frozen=True)
class DaskViews:
    """Paired views, labels and ids as Dask arrays, whose chunks of rows may differ.

    Parameters
    ----------
    views : mapping of str to dask.array.Array, (n_items, n_features)
    labels : dask.array.Array, optional
        A 0/1 matrix (n_items, n_labels).
    ids : dask.array.Array, (n_items,), optional
        All different; 0, 1, 2, ... by default.
    label_names : sequence of str, optional
        Names of the label columns.

    Examples
    --------
    >>> import dask.array as da
    >>> DaskViews({"image": da.ones((6, 2), chunks=3), "text": da.ones((6, 4), chunks=2)})
    <DaskViews: image, text>
    """

    views: Mapping[str, Any]
    labels: Any = None
    ids: Any = None
    label_names: Sequence[str] | None = None

    def __repr__(self) -> str:
        return f"<DaskViews: {', '.join(self.views)}>"


@dataclass(frozen=True)
class Chunk:
    """Consecutive items that one task reads.

    Attributes
    ----------
    name : str
        For people.
    items : Piece, or Delayed
        The latter gives MultiViewData, or None where there are no items.
    n_rows : int or None
        None: not known before the items are read.
    """

    name: str
    items: Any
    n_rows: int | None


def read_items(items: Any) -> MultiViewData | None:
    """Return the items of a chunk; called by workers."""
    if items is None or isinstance(items, MultiViewData):
        return items
    read: MultiViewData = items.read()
    return read


def is_dask_source(source: Any) -> bool:
    """Tell whether a source is of Dask's own kinds, which only a client can compute."""
    return isinstance(source, DaskViews) or hasattr(source, "__dask_graph__")


def list_chunks(source: Any, chunk_size: int) -> list[Chunk]:
    """Return what each task has to read.

    Parameters
    ----------
    source : path-like, sequence of path-like, sequence of Piece, DaskViews or dask.bag.Bag
    chunk_size : int
        Items of a chunk, where the source does not come in chunks.

    Raises
    ------
    InvalidInputError
        A source of another kind, or without chunks.
    ViewError
        Dask arrays of different numbers of rows.
    """
    if isinstance(source, DaskViews):
        chunks = _cut_arrays(source)
    elif hasattr(source, "__dask_graph__"):
        chunks = _list_partitions(source)
    else:
        chunks = [Chunk(repr(piece), piece, len(piece)) for piece in _pieces(source, chunk_size)]
    if not chunks:
        raise InvalidInputError("there are no items: the source is empty")
    return chunks


def _pieces(source: Any, chunk_size: int) -> Sequence[Any]:
    # Paths are made absolute: workers may have another working directory.
    if _is_path(source):
        return list_pieces(Path(source).absolute(), chunk_size=chunk_size)
    if isinstance(source, Sequence) and source and all(map(_is_path, source)):
        return list_pieces([Path(path).absolute() for path in source], chunk_size=chunk_size)
    if isinstance(source, Sequence) and all(hasattr(piece, "read") for piece in source):
        return source
    raise InvalidInputError(
        f"a cluster reads paths, pieces of files, DaskViews and bags, not {type(source).__name__}; "
        "write the items to files that all workers see"
    )


def _is_path(source: Any) -> bool:
    return isinstance(source, str | PathLike)


def _list_partitions(source: Any) -> list[Chunk]:
    if not isinstance(source, require("dask.bag").Bag):
        raise InvalidInputError(
            "of Dask's collections the source must be a bag of MultiViewData or DaskViews, not "
            f"{type(source).__name__}"
        )
    join = call(_join)
    return [
        Chunk(f"partition {number} of the bag", join(partition), None)
        for number, partition in enumerate(source.to_delayed())
    ]


def _cut_arrays(source: DaskViews) -> list[Chunk]:
    """Cut all arrays at the row boundaries of the first view."""
    arrays = {f"view '{name}'": array for name, array in source.views.items()}
    arrays |= {"labels": source.labels} if source.labels is not None else {}
    arrays |= {"ids": source.ids} if source.ids is not None else {}
    if not source.views:
        raise ViewError("there are no views; give at least one")
    known = {what: _with_known_chunks(array) for what, array in arrays.items()}
    rows = next(iter(known.values())).chunks[0]
    blocks = {}
    for what, array in known.items():
        if len(array) != sum(rows):
            raise ViewError(f"{what} has {len(array)} rows, not {sum(rows)} as the first view")
        whole = dict.fromkeys(range(1, array.ndim), -1)
        blocks[what] = array.rechunk({0: rows, **whole}).to_delayed().ravel().tolist()
    pair = call(_pair)
    return [
        Chunk(
            f"rows {first} to {first + n_rows - 1} of the arrays",
            pair(
                {name: blocks[f"view '{name}'"][number] for name in source.views},
                blocks["labels"][number] if "labels" in blocks else None,
                blocks["ids"][number] if "ids" in blocks else range(first, first + n_rows),
                source.label_names,
            ),
            n_rows,
        )
        for number, (first, n_rows) in enumerate(
            zip(accumulate(rows, initial=0), rows, strict=False)
        )
        if n_rows > 0
    ]


def _with_known_chunks(array: Any) -> Any:
    return array.compute_chunk_sizes() if np.isnan(array.shape[0]) else array


def _pair(views: Any, labels: Any, ids: Any, label_names: Any) -> MultiViewData:
    return MultiViewData(views, labels, ids=ids, label_names=label_names)


def _join(partition: Any) -> MultiViewData | None:
    """Return the data of a bag's partition as one, or None if there are none."""
    parts = list(partition)
    for part in parts:
        if not isinstance(part, MultiViewData):
            raise InvalidInputError(f"a bag's elements must be MultiViewData, not {type(part)}")
    return MultiViewData.concat(parts) if parts else None


def count_rows(client: Any, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the chunks that have items and say how many; those that do not are read for it."""
    if all(chunk.n_rows is not None for chunk in chunks):
        return list(chunks)
    counts = [call(_count)(chunk.items) for chunk in chunks]
    names = [chunk.name for chunk in chunks]
    sizes = compute(client, counts, names, result=call(list)(counts))
    counted = zip(chunks, sizes, strict=True)
    return [replace(chunk, n_rows=size) for chunk, size in counted if size > 0]


def _count(items: Any) -> int:
    part = read_items(items)
    return 0 if part is None else len(part)


def carry(value: Any) -> Any:
    """Return a small value as a node of a graph: it travels once, and again if a worker is lost."""
    return require("dask").delayed(value, traverse=False, pure=False)


def call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes tasks of a function; no two of them are taken for the same."""
    task: Callable[..., Any] = require("dask").delayed(function, pure=False, traverse=False)
    return task


@contextmanager
def near(worker: str | None) -> Iterator[None]:
    """Have the tasks made meanwhile done by one worker, if it is there and has the time."""
    if worker is None:
        yield
        return
    with require("dask").annotate(workers=[worker], allow_other_workers=True):
        yield


def list_workers(client: Any) -> list[str]:
    """Return the addresses of the workers, in an order that is always the same."""
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


def slim(model: Any) -> Any:
    """Return a model without the sums it was learnt from: they can be large, and have no use."""
    lighter = copy(model)
    vars(lighter).pop("stats_", None)
    return lighter


def tree(merge: Callable[[list[Any]], Any], results: Sequence[Any]) -> Any:
    """Return a task that merges results, a few at a time and always in their order.

    Parameters
    ----------
    merge : callable
        Takes a list of results, and of what it returned.
    results : sequence of tasks
        At least one.
    """
    together = call(merge)
    level = list(results)
    while True:
        level = [together(level[first : first + FAN_IN]) for first in range(0, len(level), FAN_IN)]
        if len(level) == 1:
            return level[0]


def compute(
    client: Any,
    tasks: Sequence[Any],
    names: Sequence[str],
    *,
    result: Any = None,
    done: Callable[[int], None] | None = None,
) -> Any:
    """Run tasks to their end; the first error stops all.

    Parameters
    ----------
    client : distributed.Client
    tasks : sequence of tasks
        What they give stays on the workers.
    names : sequence of str
        What each task works on, for errors.
    result : task, optional
        Depends on the tasks; what it gives is fetched.
    done : callable, optional
        Called with the number of each task when it has ended.

    Returns
    -------
    object
        What `result` gives; None without one.

    Raises
    ------
    ClusterError
        Workers died again and again, or the scheduler is gone.
    Exception
        What a task raised; its message has the name.
    """
    futures = client.compute([*tasks, *([] if result is None else [result])])
    last = None if result is None else futures.pop()
    numbers = {future.key: number for number, future in enumerate(futures)}
    completed = require("distributed").as_completed(futures)
    # Held by nothing but `completed`, a value is dropped when all that need it have it.
    futures.clear()
    try:
        for future in completed:
            number = numbers[future.key]
            if future.status != "finished":
                _fetch(future, names[number])
            if done is not None:
                done(number)
        return None if last is None else _fetch(last, "the merged results")
    except BaseException:
        if client.status == "running":
            client.cancel([*completed.futures, *([] if last is None else [last])])
        raise


def counter(
    chunks: Sequence[Chunk], progress: Progress | None, what: str, items: str = "items"
) -> Callable[[int], None] | None:
    """Return what `compute` can call to show how many items, or else chunks, are done."""
    if progress is None:
        return None
    sizes = [chunk.n_rows for chunk in chunks]
    known = [size for size in sizes if size is not None]
    unit = items if len(known) == len(sizes) else "partitions"
    weights = known if unit == items else [1] * len(sizes)
    done = 0

    def show(number: int) -> None:
        nonlocal done
        done += weights[number]
        progress(done, sum(weights), f"{done:,} {unit} {what}")

    return show


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
        _add_name(error, name)
        raise


def _add_name(error: Exception, name: str) -> None:
    """Have an error say what it is about, and stay of its kind."""
    match error.args:
        case (str(message),) if name not in message:
            error.args = (f"{name}: {message}",)
        case _:
            error.add_note(f"while working on {name}")


def check_workers(client: Any) -> None:
    """Find out whether the workers can do our work.

    Raises
    ------
    ClusterError
        There are no workers, or they lack this version of acqh.
    """
    try:
        client.wait_for_workers(1, timeout=_WORKER_SECONDS)
    except TimeoutError as error:
        raise ClusterError(
            f"the scheduler {client.scheduler.address} has no workers; start some with "
            f"'dask worker {client.scheduler.address}'"
        ) from error
    for worker, version in client.run(_version, on_error="return").items():
        if version != __version__:
            raise ClusterError(
                f"worker {worker} has acqh {version}, this is {__version__}; all machines need the "
                "same"
            )


def _version() -> str:
    return __version__


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

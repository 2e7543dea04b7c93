"""Tasks on the workers of a cluster, and waiting for them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

from acqh._core.imports import require
from acqh.errors import ClusterError

# How many results one task puts together.
FAN_IN = 8


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


def slim(model: Any) -> Any:
    """Return a model without the sums it was learnt from: they can be large, and have no use."""
    lighter = copy(model)
    vars(lighter).pop("stats_", None)
    return lighter


def tree(merge: Callable[[list[Any]], Any], results: Sequence[Any]) -> Any:
    """Return a task that merges results, a few at a time and always in their order.

    `merge`: takes a list of results, and of what it returned. `results`: at least one.
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

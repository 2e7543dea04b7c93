"""How many threads share some work where the caller does not say."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from threadpoolctl import ThreadpoolController

_limit: ContextVar[int | None] = ContextVar("thread_limit", default=None)


def count_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_threads() -> int:
    """Return as many threads as this process has cores, or fewer within `limit_threads`.

    Examples
    --------
    >>> with limit_threads(1):
    ...     default_threads()
    1
    """
    n_cores = count_cores()
    return min(n_cores, _limit.get() or n_cores)


@contextmanager
def limit_threads(n_threads: int) -> Iterator[None]:
    """Have work that is begun in this block use at most this many threads unless told more."""
    token = _limit.set(n_threads)
    try:
        yield
    finally:
        _limit.reset(token)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have BLAS use one thread, in the whole process, while the block lasts.

    For a chain of small problems: NumPy and SciPy bring a pool of threads each, which wait for work
    by spinning, so that on few cores each pool keeps the other from its work.
    """
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        yield

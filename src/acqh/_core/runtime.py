"""Runtime: threads, random generators, checks of parameters and keywords, compiled loops."""

import difflib
import functools
import inspect
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from numbers import Integral
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np
from threadpoolctl import ThreadpoolController

from acqh.errors import InvalidInputError

_logger = logging.getLogger(__name__)
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


def run_blocks(
    run: Callable[[slice], object], n_rows: int, block_rows: int, n_threads: int | None = None
) -> None:
    """Call a function that releases the lock for each block of rows, on several threads.

    `n_threads`: at most. Default: all, each with one thread of BLAS. With two on two cores, whose
    pools spin while they wait, training took 88 s of processor time instead of 18 (43,441 vectors,
    8 bytes).
    """
    limited = one_blas_thread() if n_threads is None else nullcontext()
    starts = range(0, n_rows, block_rows)
    blocks = (slice(start, min(start + block_rows, n_rows)) for start in starts)
    n_threads = min(n_threads or default_threads(), len(starts))
    if n_threads <= 1:
        for rows in blocks:
            run(rows)
        return
    with limited, ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(run, blocks):
            pass


@contextmanager
def limit_threads(n_threads: int) -> Iterator[None]:
    """Limit the threads of work that starts in this block, those of BLAS included.

    An explicit `n_threads` of a call takes precedence. BLAS is limited in the whole process.
    """
    token = _limit.set(n_threads)
    try:
        with _limit_blas(n_threads):
            yield
    finally:
        _limit.reset(token)


def one_blas_thread() -> AbstractContextManager[None]:
    """Limit BLAS to one thread, in the whole process, while the block lasts.

    For a chain of small problems: NumPy and SciPy each have a thread pool that spins while idle. On
    few cores the pools slow each other down.
    """
    return _limit_blas(1)


_blas_lock = threading.RLock()
_blas_limits: list[int] = []  # of the blocks that the thread with the lock is in


@contextmanager
def _limit_blas(n_threads: int) -> Iterator[None]:
    """Limit the threads of BLAS, in the whole process, while the block lasts.

    The limit belongs to the process, and only the thread that set it may restore it. If blocks
    overlap in several threads, the first sets and restores it; the others change nothing. In one
    thread, inner blocks may lower it.
    """
    if not _blas_lock.acquire(blocking=False):
        yield
        return
    try:
        if min(_blas_limits, default=n_threads + 1) <= n_threads:  # known without asking the pools
            yield
            return
        pools = _blas_pools(len(sys.modules))
        is_limited = all(pool["num_threads"] <= n_threads for pool in pools.info())
        _blas_limits.append(n_threads)
        try:
            with nullcontext() if is_limited else pools.limit(limits=n_threads):
                yield
        finally:
            _blas_limits.pop()
    finally:
        _blas_lock.release()


@functools.lru_cache(maxsize=1)
def _blas_pools(n_modules: int) -> ThreadpoolController:  # noqa: ARG001
    """Return the thread pools of BLAS; look for them again, in 3 ms, after an import."""
    return ThreadpoolController().select(user_api="blas")


RandomState: TypeAlias = int | np.random.Generator | np.random.SeedSequence | None


def check_rng(random_state: RandomState) -> np.random.Generator:
    """Return a Generator unchanged, or a new one seeded with the argument.

    Raises InvalidInputError: the argument is not a valid seed.

    Examples
    --------
    >>> check_rng(0).integers(10) == check_rng(0).integers(10)
    np.True_
    """
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InvalidInputError(
            "random_state must be a whole number of at least 0, a Generator, a SeedSequence or "
            f"None, got {random_state!r}"
        ) from None


@dataclass(frozen=True)
class Interval:
    """Interval of numbers of one type, Integral or Real; None: unbounded on that side.

    `closed`: which ends belong to it: ``"left"``, ``"both"`` or ``"neither"``.
    """

    kind: Any
    low: Any
    high: Any
    closed: str

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, self.kind) or isinstance(value, bool):
            return False
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        above = value > low if self.closed == "neither" else value >= low
        return bool(above and (value <= high if self.closed == "both" else value < high))

    def __str__(self) -> str:
        kind = "an int" if self.kind is Integral else "a float"
        start = "(" if self.closed == "neither" else "["
        end = "]" if self.closed == "both" else ")"
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        return f"{kind} in the range {start}{low}, {high}{end}"


def check_parameters(estimator: Any, constraints: Mapping[str, Sequence[Any]]) -> None:
    """Check an estimator's constructor arguments against its constraints.

    `constraints`: allowed values of each argument: `Interval`, a tuple of strings, None,
    ``"boolean"``, ``"callable"``, or a type. Raises InvalidInputError: the message names the
    argument, its allowed values and its value.
    """
    for name, value in estimator.get_params(deep=False).items():
        allowed = constraints.get(name)
        if allowed is not None and not any(_is_valid(value, kind) for kind in allowed):
            *others, last = [_to_text(kind) for kind in allowed]
            kinds = f"{', '.join(others)} or {last}" if others else last
            raise InvalidInputError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {kinds}. Got "
                f"{value!r} instead."
            )


def _is_valid(value: Any, allowed: Any) -> bool:
    if allowed is None or allowed == "boolean":
        return value is None if allowed is None else isinstance(value, bool | np.bool_)
    if allowed == "callable":
        return callable(value)
    if isinstance(allowed, tuple):
        return isinstance(value, str) and value in allowed
    return value in allowed if isinstance(allowed, Interval) else isinstance(value, allowed)


def _to_text(allowed: Any) -> str:
    if isinstance(allowed, tuple):
        return f"a str among {{{', '.join(map(repr, sorted(allowed)))}}}"
    if isinstance(allowed, type):
        return f"an instance of '{allowed.__qualname__}'"
    return {"boolean": "a bool", "callable": "a callable"}.get(str(allowed), str(allowed))


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def kernel(**options: Any) -> Callable[[FunctionT], FunctionT]:
    """Decorate a function for compilation by numba on its first call, without the GIL.

    Machine code is cached on disk: next to the module, in the user's cache folder, or in
    ``NUMBA_CACHE_DIR``. If none of them is writable, as for a server without a home folder, each
    process compiles again. Cached code of another version of this package is discarded.

    `options`: arguments of `numba.njit`.

    Examples
    --------
    >>> @kernel(error_model="numpy")
    ... def halve(x):
    ...     return x / 2
    >>> halve(3)
    1.5
    """

    def compiled(function: FunctionT) -> FunctionT:
        try:
            return _compile(function, cache=True, **options)
        except RuntimeError:
            # No folder for the cache; any other error is raised again.
            return _compile(function, **options)

    return compiled


def _compile(function: FunctionT, **options: Any) -> FunctionT:
    from numba import njit  # slow to import

    compiled: Any = njit(nogil=True, **options)(function)
    code_cache, load = compiled._cache, compiled._cache.load_overload

    def load_overload(*signature: Any) -> Any:
        try:
            overload = load(*signature)
        except Exception:  # of any type: cached code refers to classes of another version
            code_cache.flush()
            overload = None
        if overload is None and function.__module__.startswith("acqh."):
            _announce()
        return overload

    code_cache.load_overload = load_overload
    return cast(FunctionT, compiled)


@cache
def _announce() -> None:
    """Log once that loops are compiled, which takes some seconds."""
    _logger.warning("compiling loops for this machine: some seconds, once")


# Additions per second in NumPy: compiled loops take nearly as long to load from disk, and several
# seconds to compile.
_NUMPY_STEPS = 2 * 10**9


def loops(package: str, n_steps: int) -> Any:
    """Return the module of loops of a package for this many steps: ``plain`` NumPy or ``compiled``.

    Both have the same functions with bitwise equal results. Compiled loops are used for any number
    of steps once they are loaded.

    Examples
    --------
    >>> loops("acqh.quantize", 10**12).__name__
    'acqh.quantize.compiled'
    """
    compiled = f"{package}.compiled"
    is_small = n_steps <= _NUMPY_STEPS and compiled not in sys.modules
    return import_module(f"{package}.plain" if is_small else compiled)


# Called with the number of steps done, their total (None: unknown), and a text.
Progress: TypeAlias = Callable[[int, int | None, str], None]


def no_progress(done: int, total: int | None, text: str) -> None:
    """Ignore progress."""


_P = ParamSpec("_P")
_R = TypeVar("_R")

# Names of parameters in other libraries.
_SYNONYMS = {
    "k": ("top_k", "topk", "n", "limit", "size", "n_results", "n_neighbors", "num_results"),
    "text": ("query", "q", "words", "search", "query_text", "prompt"),
    "queries": ("query", "q", "x", "xq", "query_vectors"),
    "where": ("filter", "filters", "only", "condition"),
    "filter": ("where", "filters", "mask", "params"),
    "bytes_per_item": ("bytes", "n_bytes", "code_size", "bits", "n_bits", "nbits"),
    "n_codebooks": ("bytes", "m", "n_bytes", "n_subquantizers"),
    "n_components": ("dim", "d", "n_dims", "dimensions", "n_dimensions"),
    "random_state": ("seed", "rng", "random_seed"),
    "n_threads": ("n_jobs", "threads", "num_threads", "workers"),
    "items": ("x", "xb", "vectors", "data", "database", "embeddings"),
    "item": ("like", "id", "similar_to"),
    "n_splits": ("seeds", "seed", "n_seeds", "splits", "n_runs", "repeats"),
    "cutoffs": ("k", "at", "top_k"),
}


def suggest_keywords(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that its TypeError for an unknown keyword names the nearest one.

    Examples
    --------
    >>> @suggest_keywords
    ... def search(text, *, k=10):
    ...     return text, k
    >>> search("dog", top_k=5)
    Traceback (most recent call last):
    TypeError: search() got an unexpected keyword argument 'top_k'; did you mean 'k'?
    """
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if kwargs.keys() <= parameters.keys():
            return function(*args, **kwargs)
        unknown = next(name for name in kwargs if name not in parameters)
        raise TypeError(
            f"{function.__qualname__}() got an unexpected keyword argument {unknown!r}"
            f"{suggest(unknown, parameters)}"
        )

    return checked


def suggest(unknown: str, names: Iterable[str]) -> str:
    """Return ``"; did you mean NAME?"`` with the nearest of the names, or an empty string."""
    listed = list(names)
    candidates = [name for name in listed if unknown.lower() in _SYNONYMS.get(name, ())]
    candidates += difflib.get_close_matches(unknown, listed, n=1)
    return f"; did you mean {candidates[0]!r}?" if candidates else ""

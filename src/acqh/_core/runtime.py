"""How work is run: threads, randomness, parameters, compiled loops, progress."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from numbers import Integral
from typing import Any, TypeAlias, TypeVar, cast

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


@contextmanager
def limit_threads(n_threads: int) -> Iterator[None]:
    """Limit the threads of work that starts in this block, those of BLAS included.

    Explicit arguments of single calls still count. BLAS is limited in the whole process.
    """
    token = _limit.set(n_threads)
    try:
        with _limit_blas(n_threads):
            yield
    finally:
        _limit.reset(token)


def one_blas_thread() -> AbstractContextManager[None]:
    """Limit BLAS to one thread, in the whole process, while the block lasts.

    For a chain of small problems: NumPy and SciPy bring a pool of threads each, which wait for work
    by spinning, so that on few cores each pool keeps the other from its work.
    """
    return _limit_blas(1)


_blas_lock = threading.Lock()


@contextmanager
def _limit_blas(n_threads: int) -> Iterator[None]:
    """Limit the threads of BLAS, in the whole process, while the block lasts.

    The limit belongs to the process, and only the thread that set it may restore it. So of blocks
    that overlap in several threads, the first sets and restores it; the others change nothing.
    """
    if not _blas_lock.acquire(blocking=False):
        yield
        return
    try:
        pools = ThreadpoolController().select(user_api="blas")
        if all(pool["num_threads"] <= n_threads for pool in pools.info()):
            yield
        else:
            with pools.limit(limits=n_threads):
                yield
    finally:
        _blas_lock.release()


RandomState: TypeAlias = int | np.random.Generator | np.random.SeedSequence | None


def check_rng(random_state: RandomState) -> np.random.Generator:
    """Return a generator: a given one as it is, otherwise a new one seeded with the argument.

    Raises InvalidInputError: the argument seeds nothing.

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
    """Numbers of one kind, Integral or Real, between two; None: no end there.

    `closed`: which of the ends belong to it: ``"left"``, ``"both"`` or ``"neither"``.
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

    `constraints`: what each argument may be: `Interval`, a tuple of words, None, ``"boolean"``,
    ``"callable"``, or a type. Raises InvalidInputError: the message names the argument, what it may
    be and what it is.
    """
    for name, value in estimator.get_params(deep=False).items():
        allowed = constraints.get(name)
        if allowed is not None and not any(_is_valid(value, kind) for kind in allowed):
            *others, last = [_describe(kind) for kind in allowed]
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


def _describe(allowed: Any) -> str:
    if isinstance(allowed, tuple):
        return f"a str among {{{', '.join(map(repr, sorted(allowed)))}}}"
    if isinstance(allowed, type):
        return f"an instance of '{allowed.__qualname__}'"
    return {"boolean": "a bool", "callable": "a callable"}.get(str(allowed), str(allowed))


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def kernel(**options: Any) -> Callable[[FunctionT], FunctionT]:
    """Have a function compiled when it is first called, without holding Python's lock.

    The machine code is kept on disk, so that other processes need not compile it again: beside the
    module, or else in the user's cache folder, or where ``NUMBA_CACHE_DIR`` says. A process that
    may write in none of them, such as a service without a home, compiles for itself. What another
    version of this package has kept is not used, and made again.

    Options are those of `numba.njit`.

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
            # Numba found no folder for it; any other error comes again.
            return _compile(function, **options)

    return compiled


def _compile(function: FunctionT, **options: Any) -> FunctionT:
    from numba import njit  # takes longer to import than most of what needs no loop

    compiled: Any = njit(nogil=True, **options)(function)
    kept, load = compiled._cache, compiled._cache.load_overload

    def load_overload(*what: Any) -> Any:
        try:
            overload = load(*what)
        except Exception:  # of many kinds: kept code names classes that a later version has not
            kept.flush()
            overload = None
        if overload is None and function.__module__.startswith("acqh."):
            _announce()
        return overload

    kept.load_overload = load_overload
    return cast(FunctionT, compiled)


@cache
def _announce() -> None:
    """Log once that loops are compiled, which takes some seconds."""
    _logger.warning("compiling loops for this machine: some seconds, once")


# What NumPy adds up in a second: compiled loops take nearly as long to load from disk, and
# several seconds to compile.
_NUMPY_STEPS = 2 * 10**9


def loops(package: str, n_steps: int) -> Any:
    """Return the loops of a package for this many steps: ``plain`` NumPy, or ``compiled``.

    Both have the same functions, which give the same bits. Loops that are loaded are used for
    any number of steps.

    Examples
    --------
    >>> loops("acqh.quantize", 10**12).__name__
    'acqh.quantize.compiled'
    """
    compiled = f"{package}.compiled"
    is_small = n_steps <= _NUMPY_STEPS and compiled not in sys.modules
    return import_module(f"{package}.plain" if is_small else compiled)


# Called with how much is done, of how much (None: not known), and what.
Progress: TypeAlias = Callable[[int, int | None, str], None]


def say_nothing(done: int, total: int | None, what: str) -> None:
    """Report no progress."""

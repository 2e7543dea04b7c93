"""Compiling inner loops."""

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def kernel(**options: Any) -> Callable[[FunctionT], FunctionT]:
    """Have a function compiled when it is first called, without holding Python's lock.

    The machine code is kept on disk, so that other processes need not compile it again: beside the
    module, or else in the user's cache folder, or where ``NUMBA_CACHE_DIR`` says. A process that
    may write in none of them, such as a service without a home, compiles for itself.

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
    compiled: FunctionT = njit(nogil=True, **options)(function)
    return compiled

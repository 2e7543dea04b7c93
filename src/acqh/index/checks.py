"""Checks of what callers and files hand to an index, before anything is computed from it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from acqh._core.arrays import (
    Array,
    Bools,
    Floats,
    as_numbers,
    as_rows,
    check_positive_int,
    first_bad_row,
    take_in,
)
from acqh._core.runtime import default_threads
from acqh.errors import CorruptBundleError, InvalidInputError

MAX_CODEBOOKS = 16
MAX_CODEBOOK_SIZE = 256
# Queries per thread: fewer take less time than to start the thread.
_QUERIES_A_THREAD = 32


def as_codebooks(codebooks: Any) -> Floats:
    """Return codebooks as a float32 copy, or raise InvalidInputError.

    Examples
    --------
    >>> as_codebooks([[[1, 2], [3, 4]]]).shape
    (1, 2, 2)
    """
    array = as_numbers(codebooks, "codebooks", "(n_codebooks, codebook_size, n_components)")
    m, n, n_components = array.shape
    if not (1 <= m <= MAX_CODEBOOKS and 1 <= n <= MAX_CODEBOOK_SIZE and n_components >= 1):
        raise InvalidInputError(
            f"codebooks have shape {array.shape}; give 1 to {MAX_CODEBOOKS} codebooks of 1 to "
            f"{MAX_CODEBOOK_SIZE} codewords with at least one component"
        )
    with np.errstate(over="ignore"):
        single = np.array(array, dtype=np.float32, order="C")
    if not np.isfinite(single).all():
        raise InvalidInputError("codebooks have a value that is NaN, infinite or beyond float32")
    single.setflags(write=False)
    return single


def as_codes(codes: Any, n_codebooks: int, codebook_size: int) -> Array:
    """Return codes as (n_items, n_codebooks) uint8, or raise InvalidInputError.

    Examples
    --------
    >>> as_codes([[0, 1]], n_codebooks=2, codebook_size=2)
    array([[0, 1]], dtype=uint8)
    """
    array = as_rows(codes, "codes", InvalidInputError)
    if array.size == 0 and array.dtype.kind == "f":  # an empty list
        array = array.astype(np.uint8)
    if array.dtype.kind not in "iu":
        raise InvalidInputError(f"codes must be whole numbers, got dtype {array.dtype}")
    if array.ndim != 2 or array.shape[1] != n_codebooks:
        raise InvalidInputError(
            f"codes have shape {array.shape}; give a row of {n_codebooks} codewords for each item"
        )
    if array.size and (array.min() < 0 or array.max() >= codebook_size):
        wrong = array[(array < 0) | (array >= codebook_size)][0]
        raise InvalidInputError(
            f"a code has the codeword {wrong}, but codewords are numbered 0 to {codebook_size - 1}"
        )
    return np.asarray(array, dtype=np.uint8)


def as_queries(queries: Any, n_components: int) -> Floats:
    """Return queries as (n_queries, n_components) float32, or raise InvalidInputError.

    Examples
    --------
    >>> as_queries([[1, 2]], n_components=2)
    array([[1., 2.]], dtype=float32)
    """
    array = as_rows(queries, "queries", InvalidInputError)
    if array.dtype.kind not in "buif":
        raise InvalidInputError(f"queries must be numbers, got dtype {array.dtype}")
    if array.ndim != 2 or array.shape[1] != n_components:
        raise InvalidInputError(
            f"queries have shape {array.shape}; give a row of {n_components} components for each"
        )
    with np.errstate(over="ignore"):
        # A copy, so that what the caller does with the array during the search does not matter.
        single = np.array(array, dtype=np.float32, order="C")
    row = first_bad_row(single)
    if row is not None:
        raise InvalidInputError(f"query {row} has a value that is NaN, infinite or beyond float32")
    return single


def read_mask(filter_: Any, ids: Callable[[], Array], n_items: int) -> Bools | None:
    """Return the mask that a filter is, or gives of all ids, one boolean per item; None of ids.

    Raises InvalidInputError: a filter of another kind, or a mask of another length or type.
    """
    if isinstance(filter_, Mapping):
        raise InvalidInputError(
            "an index knows ids, not labels or columns: give ids, a mask or a function of ids as "
            "filter; a collection takes conditions, as where"
        )
    mask = np.asarray(take_in(filter_(ids()))[0]) if callable(filter_) else _as_mask(filter_)
    if mask is None:
        return None
    if mask.dtype != bool:
        raise InvalidInputError(
            f"a filter that is called must return booleans, got dtype {mask.dtype}; it is "
            "called once, with the array of all ids"
        )
    if mask.shape != (n_items,):
        raise InvalidInputError(
            f"the filter's mask has shape {mask.shape}, the index has {n_items} items; a mask says "
            "of each item, in the order of 'ids', whether it may be found"
        )
    return mask


def _as_mask(filter_: Any) -> Bools | None:
    """Return an array or column of booleans, of whatever library, as an array; None of others."""
    filter_, _ = take_in(filter_)
    if isinstance(filter_, list | tuple):
        is_mask = len(filter_) > 0 and all(isinstance(value, bool | np.bool_) for value in filter_)
        return np.asarray(filter_) if is_mask else None
    if not hasattr(filter_, "__array__"):
        return None
    array = np.asarray(filter_)
    return array if array.dtype == bool else None


def check_bytes_per_item(value: int) -> int:
    """Return the bytes of a code, a codebook each, or raise InvalidInputError."""
    n_bytes = check_positive_int(value, "bytes_per_item")
    if n_bytes > MAX_CODEBOOKS:
        raise InvalidInputError(
            f"bytes_per_item must be from 1 to {MAX_CODEBOOKS}, got {n_bytes}; vectors that need "
            "more are better kept as they are"
        )
    return n_bytes


def as_thread_count(n_threads: int | None, n_queries: int) -> int:
    """Return how many threads to use, by default as many as there are cores and work for.

    Examples
    --------
    >>> as_thread_count(3, n_queries=2), as_thread_count(None, n_queries=2)
    (2, 1)
    """
    if n_threads is not None:
        return max(1, min(check_positive_int(n_threads, "n_threads"), n_queries))
    return max(1, min(default_threads(), n_queries // _QUERIES_A_THREAD))


def frozen(array: Array) -> Array:
    """Return a contiguous read-only array; the argument itself is made read-only if it can be."""
    result = np.ascontiguousarray(array)
    result.setflags(write=False)
    return result


def require(condition: bool, name: str) -> None:
    """Raise CorruptBundleError unless the condition holds."""
    if not condition:
        raise CorruptBundleError(f"stored {name!r} contradicts the other parts of the index")


def read_count(info: Mapping[str, Any], name: str) -> int:
    """Return a count from a dictionary that JSON held.

    Examples
    --------
    >>> read_count({"n_rows": 3}, "n_rows")
    3
    """
    value = info.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 2**63:
        raise CorruptBundleError(f"stored {name!r} must be a count, got {value!r}")
    return value


def read_array(arrays: Mapping[str, Array], name: str, dtype: Any) -> Array:
    """Return a stored array as compiled code takes it: plain, aligned, contiguous, read-only."""
    if name not in arrays:
        raise CorruptBundleError(f"the array {name!r} is missing")
    array = np.require(arrays[name], requirements=("C", "A")).view(np.ndarray)
    if array.dtype != dtype:
        raise CorruptBundleError(
            f"stored {name!r} must have dtype {np.dtype(dtype)}, got {array.dtype}"
        )
    array.setflags(write=False)
    return array


def check_rising(starts: Array, name: str, n: int, end: int) -> None:
    """Raise CorruptBundleError unless n starts and their end rise from 0 to `end`."""
    require(starts.shape == (n + 1,), name)
    if starts[0] != 0 or starts[-1] != end or (starts[1:] < starts[:-1]).any():
        raise CorruptBundleError(f"stored {name!r} must rise from 0 to {end}")

"""Validation of arguments and stored arrays of an index."""

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
    to_numpy,
)
from acqh._core.runtime import default_threads
from acqh.errors import CorruptBundleError, InvalidInputError

MAX_CODEBOOKS = 64
MAX_CODEBOOK_SIZE = 256
# Queries per thread: searching fewer is faster than starting a thread.
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
            f"{MAX_CODEBOOK_SIZE} codewords with at least one dimension"
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
            f"codes contain the codeword number {wrong}; give numbers from 0 to {codebook_size - 1}"
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
            f"queries have shape {array.shape}; give (n_queries, {n_components})"
        )
    with np.errstate(over="ignore"):
        # A copy: the caller may change the array during the search.
        single = np.array(array, dtype=np.float32, order="C")
    row = first_bad_row(single)
    if row is not None:
        raise InvalidInputError(f"query {row} has a value that is NaN, infinite or beyond float32")
    return single


def read_mask(filter_: Any, ids: Callable[[], Array], n_items: int) -> Bools | None:
    """Return a filter as a mask, one boolean per item; None if it consists of ids.

    A callable gets all ids and returns the mask. Raises InvalidInputError: a filter of another
    type, or a mask of another length or type.
    """
    if isinstance(filter_, Mapping):
        raise InvalidInputError(
            "filter is a mapping, but an index stores no metadata; give ids, a mask or a function "
            "of ids, or search a collection with where="
        )
    mask = np.asarray(to_numpy(filter_(ids()))[0]) if callable(filter_) else _as_mask(filter_)
    if mask is None:
        return None
    if mask.dtype != bool:
        raise InvalidInputError(
            f"the filter function returned dtype {mask.dtype}; return a boolean for each id of the "
            "array that it gets"
        )
    if mask.shape != (n_items,):
        raise InvalidInputError(
            f"the filter has shape {mask.shape}, but the index has {n_items} items; give one "
            "boolean per item, in the order of 'ids'"
        )
    return mask


def _as_mask(filter_: Any) -> Bools | None:
    """Return booleans of any array library as an array; None for other values."""
    filter_, _ = to_numpy(filter_)
    if isinstance(filter_, list | tuple):
        is_mask = len(filter_) > 0 and all(isinstance(value, bool | np.bool_) for value in filter_)
        return np.asarray(filter_) if is_mask else None
    if not hasattr(filter_, "__array__"):
        return None
    array = np.asarray(filter_)
    return array if array.dtype == bool else None


def check_bytes_per_item(value: int) -> int:
    """Return the number of bytes of a code, one per codebook, or raise InvalidInputError."""
    n_bytes = check_positive_int(value, "bytes_per_item")
    if n_bytes > MAX_CODEBOOKS:
        raise InvalidInputError(
            f"bytes_per_item must be from 1 to {MAX_CODEBOOKS}, got {n_bytes}; for more precision "
            "re-rank by full vectors (rerank=)"
        )
    return n_bytes


def as_thread_count(n_threads: int | None, n_queries: int) -> int:
    """Return the number of threads. Default: one per core, with at least 32 queries each.

    Examples
    --------
    >>> as_thread_count(3, n_queries=2), as_thread_count(None, n_queries=2)
    (2, 1)
    """
    if n_threads is not None:
        return max(1, min(check_positive_int(n_threads, "n_threads"), n_queries))
    return max(1, min(default_threads(), n_queries // _QUERIES_A_THREAD))


def frozen(array: Array) -> Array:
    """Return a contiguous read-only array; a contiguous argument itself becomes read-only."""
    result = np.ascontiguousarray(array)
    result.setflags(write=False)
    return result


def require(condition: bool, name: str) -> None:
    """Raise CorruptBundleError unless the condition holds."""
    if not condition:
        raise CorruptBundleError(f"stored {name!r} is inconsistent with the rest of the index")


def read_count(info: Mapping[str, Any], name: str) -> int:
    """Return a count from a dictionary read from JSON.

    Examples
    --------
    >>> read_count({"n_rows": 3}, "n_rows")
    3
    """
    value = info.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 2**63:
        raise CorruptBundleError(f"stored {name!r} must be a non-negative integer, got {value!r}")
    return value


def read_array(arrays: Mapping[str, Array], name: str, dtype: Any) -> Array:
    """Return a stored array as compiled code requires it: aligned, contiguous, read-only."""
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

"""Checks of arrays and counts that come from a file, before anything is computed from them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh.errors import CorruptBundleError


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
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
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
    """Refuse n starts and an end that do not rise from 0 to `end`."""
    require(starts.shape == (n + 1,), name)
    if starts[0] != 0 or starts[-1] != end or (starts[1:] < starts[:-1]).any():
        raise CorruptBundleError(f"stored {name!r} must rise from 0 to {end}")

"""Arrays of other libraries: in as NumPy's, out as they came."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from acqh._core.optional import require
from acqh.errors import InvalidInputError

Array: TypeAlias = npt.NDArray[Any]
# Turns a NumPy array into one of the kind, and on the device, of another.
GiveBack: TypeAlias = Callable[[Array], Any]


def take_in(value: Any) -> tuple[Any, GiveBack | None]:
    """Return what was given for NumPy to read, and how to give results back as the same kind.

    Tensors of torch, with or without gradients, on any device, and arrays of libraries that follow
    the array API (CuPy, JAX) are copied to memory where they are not there; anything else is
    returned as it is, with None: results stay NumPy arrays.

    Examples
    --------
    >>> take_in([[1.0]])
    ([[1.0]], None)
    """
    if isinstance(value, np.ndarray | list | tuple):
        return value, None
    if hasattr(value, "detach") and hasattr(value, "new_tensor"):  # torch, never imported here
        return _of_torch(value)
    if hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):
        # CuPy: its arrays do not name their namespace, and refuse to become NumPy's unasked.
        return value.get(), partial(_give_to, sys.modules[type(value).__module__.split(".")[0]])
    if hasattr(value, "__array_namespace__") and hasattr(value, "__dlpack__"):
        return np.asarray(value), partial(_give_to, value.__array_namespace__())
    return value, None


def _give_to(space: Any, array: Array) -> Any:
    """Return an array of a library; JAX has no 64 bits unless it is told to."""
    given = space.asarray(np.ascontiguousarray(array))
    is_cut = array.dtype == np.int64 and array.size > 0 and "int32" in str(given.dtype)
    if is_cut and max(int(array.max()), -int(array.min())) >= 2**31:
        raise InvalidInputError(
            "ids do not fit the 32 bits of the library that the queries came from; let it use "
            "64 bits, or give queries as a NumPy array"
        )
    return given


def _of_torch(tensor: Any) -> tuple[Array, GiveBack]:
    host = tensor.detach().to("cpu")
    if host.is_floating_point() and host.element_size() < 4:  # NumPy knows no bfloat16
        host = host.float()

    def give_back(array: Array) -> Any:
        torch = require("torch")
        return torch.from_numpy(np.array(array)).to(tensor.device)  # a copy, so it can be written

    return host.numpy(), give_back

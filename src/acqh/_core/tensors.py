"""Tensors of torch, on whichever device they lie; torch is only imported where it is there."""

import sys
from collections.abc import Iterator
from typing import Any, TypeAlias

from acqh._core.optional import require
from acqh.errors import DeviceError, InvalidInputError

# torch is optional, so its types are not known here.
Tensor: TypeAlias = Any

# Working memory on a device unless the caller says otherwise.
MAX_MEMORY = 4 << 30


def is_tensor(value: Any) -> bool:
    """Say whether a value is a tensor of torch, without importing torch to find out.

    Examples
    --------
    >>> is_tensor([1.0])
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def check_device(device: str) -> Any:
    """Return the device of a name such as ``"cuda"`` or ``"cpu"``.

    Raises
    ------
    DeviceError
        There is no such device here; nothing falls back to another one.
    MissingExtraError
        torch is not installed.
    """
    torch = require("torch")
    try:
        wanted = torch.device(device)
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DeviceError(
            f"device {device!r} cannot be used here ({reason}); choose 'cpu', or run where torch "
            "finds the device"
        ) from error
    return wanted


def row_blocks(n_rows: int, bytes_per_row: int, max_memory: int) -> Iterator[slice]:
    """Cut rows into blocks of which each needs at most so much working memory.

    Raises
    ------
    InvalidInputError
        Not even one row fits.

    Examples
    --------
    >>> list(row_blocks(5, 10, 20))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    rows = max_memory // bytes_per_row
    if rows < 1:
        raise InvalidInputError(
            f"max_memory is {max_memory} bytes, but one row needs {bytes_per_row}; raise it"
        )
    for start in range(0, n_rows, rows):
        yield slice(start, min(start + rows, n_rows))

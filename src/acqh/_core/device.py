"""Tensors of torch, on whichever device they lie; torch is only imported where it is there."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import is_tensor, slices
from acqh._core.imports import require
from acqh.errors import DeviceError, InvalidInputError, ViewError

# torch is optional, so its types are not known here.
Tensor: TypeAlias = Any

# Working memory on a device unless the caller says otherwise.
MAX_MEMORY = 4 << 30


def check_device(device: str) -> Any:
    """Return the device of a name such as ``"cuda"`` or ``"cpu"``.

    Raises DeviceError: there is no such device here; nothing falls back to another one. Raises
    MissingExtraError: torch is not installed.
    """
    torch = require("torch")
    try:
        wanted = torch.device(device)
        torch.empty(1, device=wanted).cpu()  # what has no memory, such as 'meta', fails here
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DeviceError(
            f"device {device!r} cannot be used here ({reason}); choose 'cpu', or run where torch "
            "finds the device"
        ) from error
    return wanted


def row_blocks(n_rows: int, bytes_per_row: int, max_memory: int) -> Iterator[slice]:
    """Cut rows into blocks that each need at most `max_memory` bytes.

    Raises InvalidInputError: not even one row fits.

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
    return slices(n_rows, rows)


def to_tensor(values: Any, device: Any, dtype: Any = None) -> Tensor:
    """Return an array or tensor as a tensor on a device, without a copy where it is there."""
    torch = require("torch")
    if not is_tensor(values):
        values = torch.from_numpy(np.require(values, requirements=["C", "W"]))
    return values.to(device=device, dtype=dtype or values.dtype)


def tensor_dtype(dtype: Any) -> Any:
    """Return the dtype of torch that a floating dtype of NumPy is.

    Examples
    --------
    >>> tensor_dtype(np.float32)
    torch.float32
    """
    return getattr(require("torch"), np.dtype(dtype).name)


def first_bad_row(matrix: Tensor) -> int | None:
    """Return the first row with a value that is not finite, or None."""
    torch = require("torch")
    if not matrix.dtype.is_floating_point or bool(torch.isfinite(matrix.sum(dtype=torch.float64))):
        return None
    bad = ~torch.isfinite(matrix).all(dim=1)
    return int(bad.to(torch.uint8).argmax()) if bool(bad.any()) else None


def check_rows(matrix: Tensor, name: str, width: int | None = None) -> None:
    """Reject a tensor that is not a matrix of finite real numbers, or has another width.

    Raises ViewError: it is not; the message names a bad row.

    Examples
    --------
    >>> import torch
    >>> check_rows(torch.ones((2, 3)), "input", 3)
    """
    n_rows = len(matrix) if width is None else 1  # a block of no rows is not a mistake later on
    if matrix.ndim != 2 or not matrix.shape[1] or not n_rows:
        raise ViewError(f"{name} has shape {tuple(matrix.shape)}; give rows of features")
    if matrix.dtype.is_complex or matrix.layout != require("torch").strided:
        raise ViewError(f"{name} is sparse or complex; give a dense tensor of real numbers")
    if width is not None and matrix.shape[1] != width:
        raise ViewError(f"{name} has {matrix.shape[1]} columns, but {width} were fitted")
    row = first_bad_row(matrix)
    if row is not None:
        raise ViewError(f"{name} has a NaN or infinite value in row {row}; remove or impute it")

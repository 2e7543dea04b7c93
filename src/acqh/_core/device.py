"""Torch tensors on any device; torch is optional and imported on first use."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import as_matrix, check_width, is_sparse, is_tensor, slices
from acqh._core.imports import require
from acqh.errors import DeviceError, InvalidInputError, ViewError

# torch is optional, so its types are not known here.
Tensor: TypeAlias = Any

# Default working memory on a device, in bytes.
MAX_MEMORY = 4 << 30


def check_device(device: str) -> Any:
    """Return the torch device of a name such as ``"cuda"`` or ``"cpu"``.

    Raises DeviceError: the device is not available; there is no fallback. Raises
    MissingExtraError: torch is not installed.
    """
    torch = require("torch")
    try:
        torch_device = torch.device(device)
        torch.empty(1, device=torch_device).cpu()  # fails for devices without memory ('meta')
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DeviceError(
            f"device {device!r} is not available ({reason}); use 'cpu', or a machine with this "
            "device"
        ) from error
    return torch_device


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
            f"max_memory is {max_memory} bytes, but one row needs {bytes_per_row}; increase it"
        )
    return slices(n_rows, rows)


def to_tensor(values: Any, device: Any, dtype: Any = None) -> Tensor:
    """Return an array or tensor as a tensor on a device, without a copy if possible."""
    torch = require("torch")
    if not is_tensor(values):
        values = torch.from_numpy(np.require(values, requirements=["C", "W"]))
    return values.to(device=device, dtype=dtype or values.dtype)


def tensor_dtype(dtype: Any) -> Any:
    """Return the torch dtype of a NumPy dtype.

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


def check_rows(matrix: Tensor, name: str, width: int) -> None:
    """Raise ViewError for a tensor that is not a matrix of finite numbers of the expected width.

    The message names the first bad row.

    Examples
    --------
    >>> import torch
    >>> check_rows(torch.ones((2, 3)), "input", 3)
    """
    if matrix.ndim != 2:
        raise ViewError(f"{name} has shape {tuple(matrix.shape)}; give (n_items, n_features)")
    if matrix.dtype.is_complex or matrix.layout != require("torch").strided:
        raise ViewError(f"{name} is sparse or complex; give a dense tensor of real numbers")
    if matrix.shape[1] != width:
        raise ViewError(f"{name} has {matrix.shape[1]} features, expected {width} as in fit")
    row = first_bad_row(matrix)
    if row is not None:
        raise ViewError(f"{name} has a NaN or infinite value in row {row}; remove or impute it")


def read_rows(rows: Any, name: str, width: int, device: Any) -> Any:
    """Return checked rows: a tensor on the device, or an array, which goes there block by block.

    Raises ViewError: they are no dense matrix of finite numbers of this width.
    """
    if is_tensor(rows):
        tensor = rows.detach().to(device)
        check_rows(tensor, name, width)
        return tensor
    matrix = as_matrix(rows, name)
    if is_sparse(matrix):
        raise ViewError(f"{name} is sparse, which devices do not take; give dense rows")
    check_width(matrix, width, name)
    return matrix

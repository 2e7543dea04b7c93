"""What kernel ridge regression needs beyond slices and products, for arrays and for tensors."""

from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Floats, Ints
from acqh._core.linalg import inverse_factor, whiten, whitening
from acqh._core.optional import require
from acqh._core.tensors import Tensor, is_tensor, to_tensor

# An array, or a tensor on any device.
Numbers: TypeAlias = Any
# Numbers in a block of kernels on the host, and on a device, which wants larger ones.
_HOST_VALUES, _DEVICE_VALUES = 1 << 22, 1 << 25


class Arithmetic:
    """Arrays of NumPy, which lie on the host."""

    block_values = _HOST_VALUES

    def empty(self, shape: tuple[int, ...], is_wide: bool) -> Any:
        """Return room for numbers, in double precision or in single."""
        return np.empty(shape, np.float64 if is_wide else np.float32)

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Return zeros in double precision."""
        return np.zeros(shape)

    def eye(self, size: int) -> Any:
        """Return the identity in double precision."""
        return np.eye(size)

    def widen(self, values: Any) -> Any:
        """Return numbers in double precision, without a copy where they are."""
        return values.astype(np.float64, copy=False)

    def like(self, values: Any, others: Any) -> Any:
        """Return numbers in the precision of others, without a copy where they are."""
        return values.astype(others.dtype, copy=False)

    def copy(self, values: Any, is_wide: bool | None) -> Any:
        """Return a copy, in double precision where asked for."""
        return np.array(values, dtype=np.float64 if is_wide else None)

    def inverse_factor(self, gram: Any) -> tuple[Any, Any]:
        """Return the inverse of the Cholesky factor, and whether there is none."""
        try:
            return inverse_factor(gram), False
        except np.linalg.LinAlgError:
            return gram, True

    def inverse(self, values: Any) -> Any:
        """Return the inverse of a matrix."""
        return np.linalg.inv(values)

    def whiten(self, gram: Any) -> Floats:
        """Return what `linalg.whiten` does, as an array."""
        return whiten(gram)

    def rows(self, values: Any, chosen: Ints) -> Any:
        """Return some rows."""
        return values[chosen]

    def here(self, values: Array) -> Any:
        """Bring an array of the host to where the others lie."""
        return values

    def on_host(self, values: Any) -> Any:
        """Return numbers as an array."""
        return values

    def result(self, values: Any, rows: Any) -> Any:
        """Return what was found for rows, in their precision."""
        return values.astype(rows.dtype, copy=False)

    def half(self, values: Any) -> Any:
        """Return numbers in half precision."""
        with np.errstate(over="ignore"):
            return values.astype(np.float16)

    def is_finite(self, values: Any) -> bool:
        """Whether all numbers are finite."""
        return bool(np.all(np.isfinite(values)))


class TensorArithmetic(Arithmetic):
    """Tensors of torch on one device.

    `device`: torch device.
    """

    block_values = _DEVICE_VALUES

    def __init__(self, device: Any) -> None:
        self.torch = require("torch")
        self.device = device

    def empty(self, shape: tuple[int, ...], is_wide: bool) -> Tensor:
        """Return room for numbers, in double precision or in single."""
        dtype = self.torch.float64 if is_wide else self.torch.float32
        return self.torch.empty(shape, dtype=dtype, device=self.device)

    def zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Return zeros in double precision."""
        return self.torch.zeros(shape, dtype=self.torch.float64, device=self.device)

    def eye(self, size: int) -> Tensor:
        """Return the identity in double precision."""
        return self.torch.eye(size, dtype=self.torch.float64, device=self.device)

    def widen(self, values: Tensor) -> Tensor:
        """Return numbers in double precision, without a copy where they are."""
        return values.double()

    def like(self, values: Tensor, others: Tensor) -> Tensor:
        """Return numbers in the precision of others, without a copy where they are."""
        return values.to(others.dtype)

    def copy(self, values: Tensor, is_wide: bool | None) -> Tensor:
        """Return a copy, in double precision where asked for."""
        dtype = self.torch.float64 if is_wide else values.dtype
        return values.to(dtype, copy=True).contiguous()

    def inverse_factor(self, gram: Tensor) -> tuple[Tensor, Tensor]:
        """Return inverses of Cholesky factors, and which there are not; nothing is waited for."""
        factor, info = self.torch.linalg.cholesky_ex(gram)
        identity = self.eye(gram.shape[-1])
        inverse = self.torch.linalg.solve_triangular(factor, identity, upper=False)
        return inverse, info > 0

    def inverse(self, values: Tensor) -> Tensor:
        """Return the inverse of a matrix."""
        return self.torch.linalg.inv(values)

    def whiten(self, gram: Tensor) -> Floats:
        """Return what `linalg.whiten` does, as an array; eigenvectors are found on the device."""
        values, vectors = self.torch.linalg.eigh(gram.double())
        return whitening(values.cpu().numpy(), vectors.cpu().numpy())

    def rows(self, values: Tensor, chosen: Ints) -> Tensor:
        """Return some rows."""
        return values[to_tensor(chosen, self.device)]

    def here(self, values: Array) -> Tensor:
        """Bring an array of the host to where the others lie."""
        return to_tensor(values, self.device)

    def on_host(self, values: Any) -> Any:
        """Return numbers as an array."""
        return values.cpu().numpy() if is_tensor(values) else values

    def result(self, values: Tensor, rows: Tensor) -> Tensor:
        """Return what was found for rows, in their precision, of halves in single."""
        is_single = rows.dtype.is_floating_point and rows.dtype != self.torch.float64
        return values.float() if is_single else values

    def half(self, values: Tensor) -> Tensor:
        """Return numbers in half precision."""
        return values.half()

    def is_finite(self, values: Tensor) -> bool:
        """Whether all numbers are finite."""
        return bool(self.torch.isfinite(values).all())


HOST = Arithmetic()


def arithmetic_of(values: Any) -> Arithmetic:
    """Return the arithmetic of arrays, or of tensors on the device of this one."""
    return TensorArithmetic(values.device) if is_tensor(values) else HOST

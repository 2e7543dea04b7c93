"""What kernel ridge regression needs beyond slices and products, for arrays and for tensors."""

from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Floats, Ints
from acqh._core.device import Tensor, is_tensor, to_tensor
from acqh._core.imports import require
from acqh._core.linalg import inverse_factor, whiten, whitening

# An array, or a tensor on any device.
Numbers: TypeAlias = Any
# Numbers in a block of kernels on the host, and on a device, which wants larger ones.
_HOST_VALUES, _DEVICE_VALUES = 1 << 22, 1 << 25


class Arithmetic:
    """Arrays of NumPy, which lie on the host; `TensorArithmetic` is the twin for tensors."""

    block_values = _HOST_VALUES
    # The module of the arrays, and where they lie.
    xp: Any = np
    device: Any = "cpu"

    def empty(self, shape: tuple[int, ...], is_wide: bool) -> Any:
        """Return room for numbers, in double precision or in single."""
        dtype = self.xp.float64 if is_wide else self.xp.float32
        return self.xp.empty(shape, dtype=dtype, device=self.device)

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Return zeros in double precision."""
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self.device)

    def eye(self, size: int) -> Any:
        """Return the identity in double precision."""
        return self.xp.eye(size, dtype=self.xp.float64, device=self.device)

    def inverse(self, values: Any) -> Any:
        """Return the inverse of a matrix."""
        return self.xp.linalg.inv(values)

    def is_finite(self, values: Any) -> bool:
        """Whether all numbers are finite."""
        return bool(self.xp.isfinite(values).all())

    def on_host(self, values: Any) -> Any:
        """Return numbers as an array."""
        return values.cpu().numpy() if is_tensor(values) else values

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

    def whiten(self, gram: Any) -> Floats:
        """Return what `linalg.whiten` does, as an array."""
        return whiten(gram)

    def rows(self, values: Any, chosen: Ints) -> Any:
        """Return some rows."""
        return values[chosen]

    def here(self, values: Array) -> Any:
        """Bring an array of the host to where the others lie."""
        return values

    def result(self, values: Any, rows: Any) -> Any:
        """Return what was found for rows, in their precision."""
        return values.astype(rows.dtype, copy=False)

    def half(self, values: Any) -> Any:
        """Return numbers in half precision."""
        with np.errstate(over="ignore"):
            return values.astype(np.float16)


class TensorArithmetic(Arithmetic):
    """Tensors of torch on one device."""

    block_values = _DEVICE_VALUES

    def __init__(self, device: Any) -> None:
        self.xp = require("torch")
        self.device = device

    def widen(self, values: Tensor) -> Tensor:
        """Return numbers in double precision, without a copy where they are."""
        return values.double()

    def like(self, values: Tensor, others: Tensor) -> Tensor:
        """Return numbers in the precision of others, without a copy where they are."""
        return values.to(others.dtype)

    def copy(self, values: Tensor, is_wide: bool | None) -> Tensor:
        """Return a copy, in double precision where asked for."""
        dtype = self.xp.float64 if is_wide else values.dtype
        return values.to(dtype, copy=True).contiguous()

    def inverse_factor(self, gram: Tensor) -> tuple[Tensor, Tensor]:
        """Return inverses of Cholesky factors, and which there are not; nothing is waited for."""
        factor, info = self.xp.linalg.cholesky_ex(gram)
        identity = self.eye(gram.shape[-1])
        inverse = self.xp.linalg.solve_triangular(factor, identity, upper=False)
        return inverse, info > 0

    def whiten(self, gram: Tensor) -> Floats:
        """Return what `linalg.whiten` does, as an array."""
        values, vectors = self.xp.linalg.eigh(gram.double())
        return whitening(self.on_host(values), self.on_host(vectors))

    def rows(self, values: Tensor, chosen: Ints) -> Tensor:
        """Return some rows."""
        return values[self.here(chosen)]

    def here(self, values: Array) -> Tensor:
        """Bring an array of the host to where the others lie."""
        return to_tensor(values, self.device)

    def result(self, values: Tensor, rows: Tensor) -> Tensor:
        """Return what was found for rows, in their precision."""
        # Of halves in single precision.
        is_single = rows.dtype.is_floating_point and rows.dtype != self.xp.float64
        return values.float() if is_single else values

    def half(self, values: Tensor) -> Tensor:
        """Return numbers in half precision."""
        return values.half()


HOST = Arithmetic()


def arithmetic_of(values: Any) -> Arithmetic:
    """Return the arithmetic of arrays, or of tensors on the device of this one."""
    return TensorArithmetic(values.device) if is_tensor(values) else HOST

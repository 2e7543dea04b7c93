"""The other control: codes that know nothing."""

import hashlib
from collections.abc import Iterable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from acqh._core.arrays import Array, Floats, Matrix, is_sparse
from acqh._core.validation import Interval
from acqh.methods import BaseMethod
from acqh.methods.base import as_parts
from acqh.methods.registry import DatabaseMode, MethodInfo


class RandomCodes(BaseMethod):
    """Bits drawn by the checksum of an item's features: what chance finds.

    The same item always gets the same code, so results do not depend on the order of calls.

    Examples
    --------
    >>> control = RandomCodes(16).fit({"image": np.eye(3), "text": np.eye(3)})
    >>> control.encode({"image": np.eye(3)}).shape
    (3, 2)
    """

    info: ClassVar[MethodInfo] = MethodInfo(
        name="random",
        title="Random codes (control)",
        reference="",
        year=0,
        supervised=False,
        code="binary",
        modes=("hashed", "unified"),
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [Interval(Integral, 1, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(self, n_bits: int = 32, *, random_state: int = 0) -> None:
        self.n_bits = n_bits
        self.random_state = random_state

    def fit(self, views: Any, labels: Any = None) -> Self:
        """Learn nothing but the widths of the views."""
        self._check_parameters()
        first = next(as_parts(views, labels))
        self.n_features_in_ = {name: view.shape[1] for name, view in first.views.items()}
        return self

    def project(self, X: Matrix, *, view: str) -> Floats:
        """Return random signs, (n_items, n_bits) float32."""
        return self.decode(self._draw([self._check_view(X, view)]))

    def encode(
        self, views: Any = None, *, labels: Any = None, mode: DatabaseMode | None = None
    ) -> Array:
        """Return random bits, uint8 (n_items, ceil(n_bits / 8))."""
        self._check_mode(views, labels, mode)
        return self._draw([self._check_view(X, view) for view, X in sorted(views.items())])

    def decode(self, codes: Array) -> Floats:
        """Return the bits as signs, (n_items, n_bits) float32."""
        bits = np.unpackbits(codes, axis=1, count=self.n_bits)
        return bits.astype(np.float32) * 2.0 - 1.0

    @property
    def bytes_per_item(self) -> int:
        """An eighth of the bits, rounded up."""
        return -(-self.n_bits // 8)

    def _draw(self, matrices: list[Matrix]) -> Array:
        start = f"{self.random_state} {len(matrices)} ".encode()
        digests = [
            hashlib.shake_128(start + b"".join(pieces)).digest(self.bytes_per_item)
            for pieces in zip(*map(_row_bytes, matrices), strict=True)
        ]
        return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, self.bytes_per_item)


def _row_bytes(matrix: Matrix) -> Iterable[bytes]:
    if not is_sparse(matrix):
        return (row.tobytes() for row in matrix)
    spans = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    return (
        matrix.indices[start:end].tobytes() + matrix.data[start:end].tobytes()
        for start, end in spans
    )

"""An immutable block of binary codes, byte by byte."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, Bools
from acqh.errors import CorruptBundleError
from acqh.index.items.stored import frozen, read_array, read_count, require


@dataclass(frozen=True, slots=True, eq=False)
class HammingSegment:
    """Binary codes, all first bytes together, then all second bytes, and so on.

    Examples
    --------
    >>> codes = np.packbits([[1, 0, 0], [1, 1, 1]], axis=1)
    >>> HammingSegment.of(codes, n_bits=3).codes()
    array([[128],
           [224]], dtype=uint8)
    """

    n_bits: int
    planes: Array  # (ceil(n_bits / 8), n_rows) uint8: bits beyond the last are 0

    @classmethod
    def of(cls, codes: Array, n_bits: int) -> Self:
        """Lay out the codes of new rows, (n_rows, n_bytes) uint8."""
        return cls(n_bits, frozen(np.array(codes.T, dtype=np.uint8, order="C")))

    @classmethod
    def join(cls, segments: Sequence[Self], keep: Sequence[Bools | None]) -> Self:
        planes = [
            segment.planes if kept is None else segment.planes[:, kept]
            for segment, kept in zip(segments, keep, strict=True)
        ]
        return cls(segments[0].n_bits, frozen(np.concatenate(planes, axis=1)))

    @property
    def n_rows(self) -> int:
        return len(self.planes[0])

    @property
    def nbytes(self) -> int:
        return self.planes.nbytes

    def codes(self, start: int = 0, stop: int | None = None) -> Array:
        """Return the codes of consecutive rows, of all by default: (n, n_bytes) uint8."""
        return np.array(self.planes[:, start:stop].T, order="C")

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {"planes": self.planes}, {"n_bits": self.n_bits}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Self:
        """Take back what `to_arrays` gave; arrays may be memory-mapped and are not copied.

        Raises CorruptBundleError: the arrays cannot be those of a segment.
        """
        n_bits, planes = read_count(info, "n_bits"), read_array(arrays, "planes", np.uint8)
        require(n_bits >= 1 and planes.ndim == 2 and len(planes) == -(-n_bits // 8), "planes")
        return cls(n_bits, planes)

    def verify(self) -> None:
        """Read every value and refuse what `of` and `join` cannot have made.

        Raises CorruptBundleError: a bit beyond the last is set.
        """
        if (self.planes[-1] & spare_bits(self.n_bits)).any():
            raise CorruptBundleError(f"a code has more than {self.n_bits} bits")


def spare_bits(n_bits: int) -> int:
    """Return the mask of the bits of the last byte that no code uses.

    Examples
    --------
    >>> spare_bits(6), spare_bits(8)
    (3, 0)
    """
    return (1 << -n_bits % 8) - 1

"""Flat storage: codes in order of insertion, byte plane by byte plane."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Union

import numpy as np

from acqh._core.arrays import Array, Bools, Ints
from acqh.errors import CorruptBundleError
from acqh.index.items.checks import frozen, read_array, read_count, require
from acqh.index.layout.norm_bounds import ResidualCodebooks

if TYPE_CHECKING:
    from acqh.index.layout.inverted import InvertedSegment

# An index of up to this many items is flat.
FLAT_MAX_ROWS = 32_768


@dataclass(frozen=True, eq=False)
class Planes:
    """An immutable block of codes: all first bytes together, then all second bytes, and so on."""

    planes: Array  # (n_bytes, n_rows) uint8

    @property
    def n_rows(self) -> int:
        return int(self.planes.shape[1])

    @property
    def nbytes(self) -> int:
        return self.planes.nbytes

    def codes(self, start: int = 0, stop: int | None = None) -> Array:
        """Return the codes of consecutive rows, of all by default: (n, n_bytes) uint8."""
        return np.ascontiguousarray(self.planes[:, start:stop].T)


def planes_of(codes: Array) -> Array:
    """Return codes, (n_rows, n_bytes) uint8, byte by byte."""
    return frozen(codes.T.copy())


def join_planes(segments: Sequence[Planes], keep: Sequence[Bools | None]) -> Array:
    """Return the rows to keep of several segments, None for all."""
    planes = [
        segment.planes if kept is None else segment.planes[:, kept]
        for segment, kept in zip(segments, keep, strict=True)
    ]
    return frozen(np.concatenate(planes, axis=1))


@dataclass(frozen=True, eq=False)
class FlatSegment(Planes):
    """Additive codes of a small index; inverted lists are built when compiled code searches them.

    Examples
    --------
    >>> codes = np.array([[1, 0], [0, 2]], dtype=np.uint8)
    >>> FlatSegment(planes_of(codes), codebook_size=3).codes(1)
    array([[0, 2]], dtype=uint8)
    """

    codebook_size: int
    residuals: ResidualCodebooks | None = None  # of the codebooks; not stored

    @classmethod
    def join(
        cls, segments: Sequence[Any], keep: Sequence[Bools | None]
    ) -> Union[Self, "InvertedSegment"]:
        """Make one segment of several, flat or inverted; a small one stays flat."""
        n_rows = sum(
            segment.n_rows if kept is None else int(np.count_nonzero(kept))
            for segment, kept in zip(segments, keep, strict=True)
        )
        if n_rows > FLAT_MAX_ROWS or not all(isinstance(each, FlatSegment) for each in segments):
            from acqh.index.layout.inverted import InvertedSegment

            return InvertedSegment.join(segments, keep)
        return cls(join_planes(segments, keep), segments[0].codebook_size, segments[0].residuals)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of codebooks, and of codewords in each."""
        return len(self.planes), self.codebook_size

    @cached_property
    def inverted(self) -> "InvertedSegment":
        """The same rows in lists; built on first access."""
        from acqh.index.layout.inverted import InvertedSegment

        return InvertedSegment.of(self.codes(), self.codebook_size, self.residuals)

    def items(self, keep: Bools | None = None) -> Iterator[tuple[Array, Ints]]:
        """Yield the codes and the rows of the items to keep."""
        rows = np.arange(self.n_rows) if keep is None else np.flatnonzero(keep)
        yield self.codes()[rows], rows

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {"planes": self.planes}, {"codebook_size": self.codebook_size}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Array], info: Mapping[str, Any]
    ) -> Union[Self, "InvertedSegment"]:
        """Read what `to_arrays` of either layout returned; check all codewords of a flat one."""
        if "planes" not in arrays:
            from acqh.index.layout.inverted import InvertedSegment

            return InvertedSegment.from_arrays(arrays, info)
        planes = read_array(arrays, "planes", np.uint8)
        size = read_count(info, "codebook_size")
        require(planes.ndim == 2 and planes.size > 0 and planes.shape[1] <= FLAT_MAX_ROWS, "planes")
        require(int(planes.max()) < size, "codebook_size")
        return cls(planes, size)

    def verify(self) -> None:
        """Every codeword was read when the file was opened."""


@dataclass(frozen=True, eq=False)
class HammingSegment(Planes):
    """Binary codes; bits beyond the last are 0.

    Examples
    --------
    >>> codes = np.packbits([[1, 0, 0], [1, 1, 1]], axis=1)
    >>> HammingSegment(planes_of(codes), n_bits=3).codes()
    array([[128],
           [224]], dtype=uint8)
    """

    n_bits: int

    @classmethod
    def join(cls, segments: Sequence[Self], keep: Sequence[Bools | None]) -> Self:
        return cls(join_planes(segments, keep), segments[0].n_bits)

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {"planes": self.planes}, {"n_bits": self.n_bits}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Self:
        """Take back what `to_arrays` gave; arrays may be memory-mapped and are not copied.

        Raises CorruptBundleError: the arrays cannot be those of a segment.
        """
        n_bits, planes = read_count(info, "n_bits"), read_array(arrays, "planes", np.uint8)
        require(n_bits >= 1 and planes.ndim == 2 and len(planes) == -(-n_bits // 8), "planes")
        return cls(planes, n_bits)

    def verify(self) -> None:
        """Read every value and refuse what `join` cannot have made.

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

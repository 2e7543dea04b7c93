"""Codes as they came, byte by byte: binary ones, and a few that NumPy searches as quickly."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Union

import numpy as np

from acqh._core.arrays import Array, Bools, Ints
from acqh.errors import CorruptBundleError
from acqh.index.items.checks import frozen, read_array, read_count, require
from acqh.index.layout.reaches import Rests

if TYPE_CHECKING:
    from acqh.index.layout.segment import CodeSegment

# Up to this many items of an index are kept and stored as they came.
MAX_FEW = 32_768


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
class FewSegment(Planes):
    """A few codes of words, laid out in runs when compiled code is to search them.

    Examples
    --------
    >>> codes = np.array([[1, 0], [0, 2]], dtype=np.uint8)
    >>> FewSegment(planes_of(codes), codebook_size=3).codes(1)
    array([[0, 2]], dtype=uint8)
    """

    codebook_size: int
    rests: Rests | None = None  # of the codebooks; not stored

    @classmethod
    def join(
        cls, segments: Sequence[Any], keep: Sequence[Bools | None]
    ) -> Union[Self, "CodeSegment"]:
        """Make one segment of several, of this or of the other kind; few stay few."""
        n_rows = sum(
            segment.n_rows if kept is None else int(np.count_nonzero(kept))
            for segment, kept in zip(segments, keep, strict=True)
        )
        if n_rows > MAX_FEW or not all(isinstance(each, FewSegment) for each in segments):
            from acqh.index.layout.segment import CodeSegment

            return CodeSegment.join(segments, keep)
        return cls(join_planes(segments, keep), segments[0].codebook_size, segments[0].rests)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of codebooks, and of words in each."""
        return len(self.planes), self.codebook_size

    @cached_property
    def laid_out(self) -> "CodeSegment":
        """The same rows in runs; made when it is first asked for."""
        from acqh.index.layout.segment import CodeSegment

        return CodeSegment.of(self.codes(), self.codebook_size, self.rests)

    def items(self, keep: Bools | None = None) -> Iterator[tuple[Array, Ints]]:
        """Yield the codes and the rows of the items to keep."""
        rows = np.arange(self.n_rows) if keep is None else np.flatnonzero(keep)
        yield self.codes()[rows], rows

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {"planes": self.planes}, {"codebook_size": self.codebook_size}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Array], info: Mapping[str, Any]
    ) -> Union[Self, "CodeSegment"]:
        """Take back what `to_arrays` of either kind gave; of few codes every word is read."""
        if "planes" not in arrays:
            from acqh.index.layout.segment import CodeSegment

            return CodeSegment.from_arrays(arrays, info)
        planes = read_array(arrays, "planes", np.uint8)
        size = read_count(info, "codebook_size")
        require(planes.ndim == 2 and planes.size > 0 and planes.shape[1] <= MAX_FEW, "planes")
        require(int(planes.max()) < size, "codebook_size")
        return cls(planes, size)

    def verify(self) -> None:
        """Every word was read when the file was opened."""


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

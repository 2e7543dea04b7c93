"""A few codes as they came, which NumPy searches without the half second to load compiled code."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Union

import numpy as np

from acqh._core.arrays import Array, Bools, Ints
from acqh.index.items.stored import frozen, read_array, read_count, require
from acqh.index.layout.reaches import Rests

if TYPE_CHECKING:
    from acqh.index.layout.segment import CodeSegment

# Up to this many items of an index are kept and stored as they came.
MAX_FEW = 16_384


@dataclass(frozen=True, eq=False)
class FewSegment:
    """Codes in order of insertion; laid out in runs when compiled code is to search them.

    Examples
    --------
    >>> codes = np.array([[1, 0], [0, 2]], dtype=np.uint8)
    >>> FewSegment.of(codes, codebook_size=3).codes(1)
    array([[0, 2]], dtype=uint8)
    """

    columns: Array  # (n_codebooks, n_rows) uint8: the words, a codebook after the other
    codebook_size: int
    rests: Rests | None = None  # of the codebooks; not stored

    @classmethod
    def of(cls, codes: Array, codebook_size: int, rests: Rests | None = None) -> Self:
        """Keep codes, (n_rows, n_codebooks) uint8, with words below `codebook_size`."""
        return cls(frozen(codes.T.copy()), codebook_size, rests)

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
        columns = [
            segment.columns if kept is None else segment.columns[:, kept]
            for segment, kept in zip(segments, keep, strict=True)
        ]
        first = segments[0]
        return cls(frozen(np.concatenate(columns, axis=1)), first.codebook_size, first.rests)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.columns.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """The number of codebooks, and of words in each."""
        return len(self.columns), self.codebook_size

    @property
    def nbytes(self) -> int:
        """Bytes of the words."""
        return self.columns.nbytes

    @cached_property
    def laid_out(self) -> "CodeSegment":
        """The same rows in runs; made when it is first asked for."""
        from acqh.index.layout.segment import CodeSegment

        return CodeSegment.of(self.codes(), self.codebook_size, self.rests)

    def codes(self, start: int = 0, stop: int | None = None) -> Array:
        """Return the codes of consecutive rows, of all by default: (n, n_codebooks) uint8."""
        return np.ascontiguousarray(self.columns[:, start:stop].T)

    def items(self, keep: Bools | None = None) -> Iterator[tuple[Array, Ints]]:
        """Yield the codes and the rows of the items to keep."""
        rows = np.arange(self.n_rows) if keep is None else np.flatnonzero(keep)
        yield self.codes()[rows], rows

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return what a file needs: named arrays, and a dictionary that JSON can hold."""
        return {"columns": self.columns}, {"codebook_size": self.codebook_size}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Array], info: Mapping[str, Any]
    ) -> Union[Self, "CodeSegment"]:
        """Take back what `to_arrays` of either kind gave; of few codes every word is read."""
        if "columns" not in arrays:
            from acqh.index.layout.segment import CodeSegment

            return CodeSegment.from_arrays(arrays, info)
        columns = read_array(arrays, "columns", np.uint8)
        size = read_count(info, "codebook_size")
        require(columns.ndim == 2 and columns.size > 0 and columns.shape[1] <= MAX_FEW, "columns")
        require(int(columns.max()) < size, "codebook_size")
        return cls(columns, size)

    def verify(self) -> None:
        """Every word was read when the file was opened."""

"""How far the words of a code that are not part of its head can reach."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh.index.items.checks import frozen

# A reach is a byte.
_LEVELS = 255
# Tails of fewer words are bounded well enough by the largest entries of their tables.
_MIN_TAIL = 3
# Relative rounding error of one float32 operation, doubled.
_ROUNDING = 2.0**-23
# More than all products together that are too small for float32 can add.
_TINY = 1e-38


@dataclass(frozen=True, slots=True, eq=False)
class Rests:
    """Lengths of sums of words, which bound scores by the length of a query.

    The words of a tail add up to a vector; around the mean of all such sums it has a length, and
    what it adds to a score is at most that length times the query's, plus the mean's share. Each
    run keeps the largest length among its items, as a byte: its reach, in steps.
    """

    # (n_codebooks, codebook_size, n_components) float32: the codebooks, each less its mean.
    words: Floats
    means: Floats  # (n_codebooks, n_components) float64: what was taken off
    radii: Floats  # (n_codebooks,) float64: length of the longest of `words`
    lengths: Floats  # (n_codebooks,) float64: length of the longest word as it is

    @classmethod
    def of(cls, codebooks: Floats) -> Self:
        """Measure codebooks, (n_codebooks, codebook_size, n_components) float32."""
        means = codebooks.mean(axis=1, dtype=np.float64)
        with np.errstate(over="ignore"):
            words = (codebooks - means[:, np.newaxis]).astype(np.float32)
        radii, lengths = (
            np.sqrt(np.square(values, dtype=np.float64).sum(axis=2).max(axis=1))
            for values in (words, codebooks)
        )
        return cls(frozen(words), frozen(means), frozen(radii), frozen(lengths))

    def reaches(self, starts: Array, tails: Array) -> Array:
        """Return the reach of each run, (n_runs,) uint8; none where they would not help.

        `starts`: (n_runs + 1,) uint32. `tails`: (n_entries, n_tail) uint8; words of the last
        codebooks, below the codebook size.
        """
        n_tail = tails.shape[1]
        if n_tail < _MIN_TAIL or len(starts) == 2 or not np.isfinite(self.radii).all():
            return frozen(np.empty(0, dtype=np.uint8))
        from acqh.index.compiled.layout import measure_reaches

        step = self._step(len(self.words) - n_tail)
        return frozen(measure_reaches(starts, tails, self.words[-n_tail:], step))

    def bounds(self, queries: Floats, n_head: int) -> tuple[Floats, Floats]:
        """Return what bounds the words after the first few: a base, and a span for each step.

        `queries`: (n_queries, n_components) float32. Gives `bases`, `spans`: (n_queries,) float32;
        with all that rounding can do to a score; infinity and 0 where there is no bound.
        """
        exact = queries.astype(np.float64)
        norms = np.sqrt(np.square(exact).sum(axis=1))
        mean = exact @ self.means[n_head:].sum(axis=0)
        spans = norms * self._step(n_head)  # NaN where codebooks leave float32
        n_terms = queries.shape[1] + 4 * len(self.words) + 64
        bases = mean + 2 * n_terms * _ROUNDING * norms * self.lengths.sum() + _TINY
        bases += 8 * _ROUNDING * (np.abs(mean) + _LEVELS * spans)
        with np.errstate(over="ignore"):
            upper = [np.nextafter(x.astype(np.float32), np.float32(np.inf)) for x in (bases, spans)]
        usable = np.isfinite(upper).all(axis=0)
        return np.where(usable, upper[0], np.float32(np.inf)), np.where(usable, upper[1], 0)

    def _step(self, n_head: int) -> float:
        """Return how much longer a tail can be for each step of its run's reach."""
        return float(self.radii[n_head:].sum()) * (1 + 1e-4) / _LEVELS

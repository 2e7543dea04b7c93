"""Norm bounds of inverted lists: upper bounds of the scores of suffixes, by Cauchy-Schwarz."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh.index.checks import frozen

# A norm bound is stored as a byte.
_MAX_STEPS = 255
# Suffixes of fewer codewords are bounded well enough by the largest entries of their tables.
_MIN_SUFFIX = 3
# Relative rounding error of one float32 operation, doubled.
_ROUNDING = 2.0**-23
# Above the sum of all products that underflow in float32.
_TINY = 1e-38


@dataclass(frozen=True, slots=True, eq=False)
class ResidualCodebooks:
    """Centred codebooks, which bound the score of a suffix by the norm of its residual.

    The codewords of a suffix sum to a residual vector. By Cauchy-Schwarz it adds to a score at most
    the norm of its distance to the mean residual times the norm of the query, plus the product of
    mean and query. Each list stores the largest such norm among its items as a byte, in steps.
    """

    # (n_codebooks, codebook_size, n_components) float32: the codebooks, each less its mean.
    codewords: Floats
    means: Floats  # (n_codebooks, n_components) float64: means of the codebooks
    radii: Floats  # (n_codebooks,) float64: length of the longest of `codewords`
    lengths: Floats  # (n_codebooks,) float64: length of the longest codeword before centring

    @classmethod
    def of(cls, codebooks: Floats) -> Self:
        """Centre codebooks, (n_codebooks, codebook_size, n_components) float32."""
        means = codebooks.mean(axis=1, dtype=np.float64)
        with np.errstate(over="ignore"):
            codewords = (codebooks - means[:, np.newaxis]).astype(np.float32)
        radii, lengths = (
            np.sqrt(np.square(values, dtype=np.float64).sum(axis=2).max(axis=1))
            for values in (codewords, codebooks)
        )
        return cls(frozen(codewords), frozen(means), frozen(radii), frozen(lengths))

    def norm_bounds(self, starts: Array, suffixes: Array) -> Array:
        """Return the norm bound of each list, (n_lists,) uint8; empty if bounds would not help.

        `starts`: (n_lists + 1,) uint32. `suffixes`: (n_entries, n_suffix) uint8; codewords of the
        last codebooks, below the codebook size.
        """
        n_suffix = suffixes.shape[1]
        if n_suffix < _MIN_SUFFIX or len(starts) == 2 or not np.isfinite(self.radii).all():
            return frozen(np.empty(0, dtype=np.uint8))
        from acqh.index.compiled.layout import measure_norm_bounds

        step = self._step(len(self.codewords) - n_suffix)
        return frozen(measure_norm_bounds(starts, suffixes, self.codewords[-n_suffix:], step))

    def bounds(self, queries: Floats, n_prefix: int) -> tuple[Floats, Floats]:
        """Return the bounds of suffix scores: a base, and a span per step of a norm bound.

        `queries`: (n_queries, n_components) float32. Returns `bases`, `spans`: (n_queries,)
        float32, rounding errors included; infinity and 0 if there is no bound.
        """
        exact = queries.astype(np.float64)
        norms = np.sqrt(np.square(exact).sum(axis=1))
        mean = exact @ self.means[n_prefix:].sum(axis=0)
        spans = norms * self._step(n_prefix)  # NaN if codebooks exceed float32
        n_terms = queries.shape[1] + 4 * len(self.codewords) + 64
        bases = mean + 2 * n_terms * _ROUNDING * norms * self.lengths.sum() + _TINY
        bases += 8 * _ROUNDING * (np.abs(mean) + _MAX_STEPS * spans)
        with np.errstate(over="ignore"):
            upper = [np.nextafter(x.astype(np.float32), np.float32(np.inf)) for x in (bases, spans)]
        usable = np.isfinite(upper).all(axis=0)
        return np.where(usable, upper[0], np.float32(np.inf)), np.where(usable, upper[1], 0)

    def _step(self, n_prefix: int) -> float:
        """Return the norm that one step of a stored norm bound stands for."""
        return float(self.radii[n_prefix:].sum()) * (1 + 1e-4) / _MAX_STEPS

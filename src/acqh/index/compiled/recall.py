"""Compiled helpers that say how many of the best items a search would miss if it stopped now."""

import math
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import kernel
from acqh.index.search.types import Heads, Query

# Runs are visited in this many waves of falling bound: more waves order them better but cost more.
N_WAVES = 32
BINS_A_WAVE = 4
# Of more runs, some are taken to say how heads are distributed.
_SAMPLED_RUNS = 4096
# The words of items are not drawn at random, so the tails of the best spread wider.
_WIDER = 1.15


@kernel()
def count_heads(query: Query, heads: Heads, best: Any, spread: Any) -> Any:
    """Return how many codes have a head in each part of a wave, estimated from some of the runs."""
    n_bins = N_WAVES * BINS_A_WAVE
    counts = np.zeros(n_bins + 1, dtype=np.float64)
    starts, values_a, values_b = query.runs.starts, heads.values_a, heads.values_b
    n_b, n_runs = values_b.shape[0], starts.shape[0] - 1
    step = max(1, n_runs // _SAMPLED_RUNS) | 1  # odd, so that all words of the second half occur
    scale = np.float32(n_bins) / max(spread, np.float32(1e-30))
    for run in range(0, n_runs, step):
        drop = best - values_a[run // n_b] - values_b[run % n_b]
        counts[np.int64(min(drop * scale, n_bins))] += step * np.int64(
            starts[run + 1] - starts[run]
        )
    return counts


@kernel()
def tail_spread(query: Query) -> Any:
    """Return the mean and the standard deviation of what tails add, words being drawn at random."""
    mean, variance, size = 0.0, 0.0, query.runs.codebook_size
    for s in range(query.runs.digits_a + query.runs.digits_b, query.table.shape[0]):
        first, second = 0.0, 0.0
        for j in range(size):
            first += query.table[s, j]
            second += np.float64(query.table[s, j]) ** 2
        mean += first / size
        variance += second / size - (first / size) ** 2
    return mean, _WIDER * math.sqrt(max(variance, 1e-60))


@kernel()
def expected_misses(counts: Array, wave: int, width: Any, need: Any, deviation: Any) -> Any:
    """Return how many items of waves to come reach the k-th best, were tails normal.

    `need` is what a tail has to add to the highest head, beyond its mean.
    """
    missed = 0.0
    for part in range(wave * BINS_A_WAVE, counts.shape[0]):
        if counts[part] > 0:
            away = (need + (part + 0.5) * width) / deviation
            missed += counts[part] * 0.5 * math.erfc(away / math.sqrt(2.0))
    return missed

"""Compiled scores and bounds of tails: the words of a code that are not part of its head."""

from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import kernel

# Tails of this many words are looked at by groups: those with the same head and first word.
MIN_GROUPED = 3

_LOWEST = np.float32(-np.inf)


@kernel(inline="always")
def tail_score(
    tables: Array, tails: Array, after: Array, entry: Any, start: Any, score: Any, low: Any
) -> Any:
    """Add the table entries of a tail's words from `start` on.

    Gives up, and returns a score below `low`, as soon as the other words cannot make up for it.
    """
    n_tail = tails.shape[1]
    if n_tail == 2:  # unrolled, because the usual four codebooks leave two
        return (score + tables[0, tails[entry, 0]]) + tables[1, tails[entry, 1]]
    # "Not below", because `low` is not a number while no k-th best is known.
    while start < n_tail and not score + after[start] < low:
        stop = min(start + 2, n_tail)
        for c in range(start, stop):
            score += tables[c, tails[entry, c]]
        start = stop
    return score if start >= n_tail else _LOWEST


@kernel(inline="always")
def choose(chosen: Array, table: Array, tails: Array, start: Any, end: Any, need: Any) -> Any:
    """List the entries whose first word adds what is needed; without branches, and so quick."""
    n = np.int64(0)
    for entry in range(start, end):
        chosen[n] = entry
        n += not table[tails[entry, 0]] < need
    return n


@kernel(inline="always")
def run_bound(bounds: Any, reaches: Array, run: Any, head: Any) -> Any:
    """Return what an item of a run can score at most.

    `bounds` are what a tail adds at most in any run, and the query's base and span.
    """
    most, base, span = bounds
    if reaches.shape[0] > 0:
        reach = base + span * np.float32(reaches[run])
        most = reach if reach < most else most
    return head + most

"""Compiled helpers for rows: those of one code are kept, those of a segment dropped."""

from typing import Any

import numpy as np

from acqh._core.runtime import kernel
from acqh.index.compiled.keys import is_allowed, keep_key, pack_key
from acqh.index.search.types import Query

_ONE = np.uint64(1)


@kernel()
def forget_rows(query: Query, count: int) -> Any:
    """Drop the keys that came from this segment; return how many are left."""
    left = 0
    for i in range(count):
        row = np.int64(np.uint32(query.keys[i])) - query.first_row
        if row < 0 or row >= query.runs.n_rows:
            query.keys[left] = query.keys[i]
            left += 1
    return left


@kernel()
def visit_rows(query: Query, entry: Any, score: Any, count: Any, worst: Any) -> Any:
    """Keep the first k allowed rows of one code; the others cannot be among the best."""
    starts, gaps = query.runs.gap_starts, query.runs.gaps
    allowed, keys = query.allowed, query.keys
    row, gap, shift, kept = np.uint64(0), np.uint64(0), np.uint64(0), 0
    # Where lists start is not checked when a file is opened: there may be hundreds of millions.
    stop = min(np.uint64(starts[entry + _ONE]), np.uint64(gaps.shape[0]))
    for place in range(min(np.uint64(starts[entry]), stop), stop):
        byte = np.uint64(gaps[place])
        gap |= (byte & np.uint64(127)) << shift
        shift = (shift + np.uint64(7)) & np.uint64(31)
        if byte >= np.uint64(128):
            continue
        row += gap
        if is_allowed(allowed, row):
            key = pack_key(score, query.first_row + np.int64(row))
            count, worst = keep_key(keys, query.k, key, count, worst)
            kept += 1
            if kept == query.k:
                worst = min(worst, key)
            if key >= worst:
                break  # later rows have larger keys
        row += _ONE
        gap, shift = np.uint64(0), np.uint64(0)
    return count, worst

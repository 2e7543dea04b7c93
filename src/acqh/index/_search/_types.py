"""What the kernels hand around together."""

from typing import NamedTuple

from acqh._core.arrays import Array


class Runs(NamedTuple):
    """The arrays of one segment as the kernels take them; ``CodeSegment`` says what they hold."""

    codebook_size: int
    digits_a: int
    digits_b: int
    n_rows: int
    starts: Array
    tails: Array
    rows: Array
    gap_starts: Array
    gaps: Array


class Query(NamedTuple):
    """One query over one segment: its tables, the rows it may find, its best keys so far."""

    table: Array
    runs: Runs
    allowed: Array
    first_row: int
    k: int
    keys: Array


class Heads(NamedTuple):
    """Both halves of the heads of all runs, in falling order, and how far each was visited."""

    values_a: Array
    values_b: Array
    order_a: Array
    order_b: Array
    bounds_a: Array
    bounds_b: Array
    visited: Array
    buckets: Array
    bucket_starts: Array

"""What the kernels hand around together."""

from typing import NamedTuple

from acqh._core.arrays import Array


class Runs(NamedTuple):
    """Codes sorted by their words, first word first, with the rows they belong to.

    An entry is an item, or, where codes repeat, a distinct code. Entries with the same first
    ``digits_a + digits_b`` words are a run; those words are not stored, only where each run
    starts. A run's number has the words as digits in base ``codebook_size``.
    """

    codebook_size: int
    # How many words make up each half of a run's number; 0 and 0 for a single run.
    digits_a: int
    digits_b: int
    n_rows: int  # rows are 0 to ``n_rows - 1``, in order of insertion
    # (n_runs + 1,) uint32: where each run starts among the entries, and the end of the last.
    starts: Array
    # (n_entries, n_codebooks - digits_a - digits_b) uint8: the other words of each entry.
    tails: Array
    rows: Array  # (n_entries,) uint32: row of each item; empty where codes are grouped
    # (n_entries + 1,) uint32: where each code's list of rows starts in `gaps`; empty where codes
    # are not grouped.
    gap_starts: Array
    gaps: Array  # (n_bytes,) uint8: lists of rows as ``_layout`` writes them
    # (n_runs,) uint8: how far the other words of each run's items reach, see `Rests`; empty where
    # it is not known or would not help.
    reaches: Array


class Effort(NamedTuple):
    """When a search may stop before its answer is proven."""

    limit: int  # how many codes a query may have looked at when it is done with the segment
    slack: float  # what may be missed scores at most so much more than the k-th best
    misses: float  # how many of the k best may be missed, as expected; below 0 for none


class Query(NamedTuple):
    """One query over one segment: its tables and bounds, the rows it may find, its best so far."""

    table: Array  # (n_codebooks, TABLE_WIDTH) float32
    # (n_tail + 1,) float32: what the words from each place of a tail on can add at most, rounding
    # included.
    after: Array
    # A tail adds at most ``base`` and ``span`` times its run's reach.
    base: float
    span: float
    runs: Runs
    allowed: Array  # (n_bytes,) uint8
    first_row: int
    k: int
    keys: Array  # (capacity,) uint64
    # (2,) int64: how many codes were looked at, and how many of them were scored to the last word;
    # raised.
    tally: Array


class Heads(NamedTuple):
    """Both halves of the heads of all runs, in falling order, and how far each was visited."""

    values_a: Array
    values_b: Array
    order_a: Array
    order_b: Array
    bounds_a: Array
    bounds_b: Array
    visited: Array
    # (2,) int64: how many of each half are in order so far; the others come later.
    ordered: Array
    chosen: Array
    buckets: Array
    bucket_starts: Array

"""The best k rows of several segments, for a batch of queries."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from acqh._core.arrays import Array, Floats, slices
from acqh.index.compiled.keys import NO_KEY
from acqh.index.compiled.search import search_lists
from acqh.index.compiled.tables import TABLE_WIDTH, fill_tables
from acqh.index.layout.norm_bounds import ResidualCodebooks
from acqh.index.search.flat import (
    EXHAUSTIVE,
    InvertedLists,
    StopRule,
    Target,
    TopRows,
    check_scales,
)

_MAGNITUDE = np.uint32(0x7FFFFFFF)
# Room for candidates beyond twice k; more room means sorting out the best less often.
_SPARE_KEYS = 32
# Queries whose tables are filled at a time.
_TABLES_AT_ONCE = 4
# Numbers of 8 bytes kept for all queries that are searched at once.
_MAX_NUMBERS = 4_000_000


def search_targets(
    codewords: Floats,
    residuals: ResidualCodebooks,
    targets: Sequence[Target[InvertedLists]],
    queries: Floats,
    k: int,
    n_items: int,
    n_threads: int,
    stop: StopRule = EXHAUSTIVE,
) -> TopRows:
    """Find each query's k best rows of all targets together, exactly unless told to stop before.

    Parameters
    ----------
    codewords : (n_codebooks, n_components, codebook_size) float32
        The codebooks, components before codewords.
    residuals : ResidualCodebooks
        Of the codebooks.
    targets : sequence of Target
    queries : (n_queries, n_components) float32
    k : int
        At least 1.
    n_items : int
        How many rows may be found at most.
    n_threads : int
        At least 1.
    stop : StopRule, optional

    Raises
    ------
    InvalidInputError
        Scores of a query may overflow.
    """
    top = TopRows.none(len(queries), k)
    k = min(k, n_items)
    target_limits = stop.limits(targets, k)
    capacity = min(2 * k + _SPARE_KEYS, n_items + 1)

    def search(block: slice) -> None:
        block_queries, mine = queries[block], top.part(block)
        # For one segment a few queries at a time, in the nearest cache.
        n_tables = (
            min(len(block_queries), _TABLES_AT_ONCE) if len(targets) == 1 else len(block_queries)
        )
        tables = np.zeros((n_tables, len(codewords), TABLE_WIDTH), dtype=np.float32)
        tops = np.empty((len(block_queries), len(codewords)), dtype=np.float32)
        scales = np.zeros(len(block_queries), dtype=np.float32)
        keys = np.empty((len(block_queries), capacity), dtype=np.uint64)
        best = (keys, mine.counts, np.full(len(block_queries), NO_KEY), mine.tallies, mine.ceilings)
        to_fill = codewords
        for (lists, first_row, allowed), limits in zip(targets, target_limits, strict=True):
            bounds = (tops, scales, *_residual_bounds(residuals, lists, block_queries))
            search_lists(
                (to_fill, block_queries),
                tables,
                bounds,
                lists,
                (first_row, allowed),
                k,
                limits,
                best,
            )
            to_fill = codewords[:0]
        if not targets:
            fill_tables(codewords, block_queries, tables, tops, scales)
        check_scales(scales, block.start)
        unpack_keys(keys, mine, k)

    # Tables have single precision, two entries to a number.
    in_blocks(search, len(queries), capacity + len(codewords) * TABLE_WIDTH // 2, n_threads)
    # Whatever was not looked at holds nothing more.
    top.ceilings[top.counts == n_items] = -np.inf
    return top


def _residual_bounds(
    residuals: ResidualCodebooks, lists: InvertedLists, queries: Floats
) -> tuple[Floats, Floats]:
    """Return the bases and spans of queries; zeros, unused, without norm bounds."""
    if len(lists.norm_bounds) == 0:
        return (np.zeros(len(queries), dtype=np.float32),) * 2
    return residuals.bounds(queries, lists.n_prefix_a + lists.n_prefix_b)


def in_blocks(
    search: Callable[[slice], None], n_queries: int, n_numbers: int, n_threads: int
) -> None:
    """Search a batch in blocks, so that all threads have a share and memory is bounded.

    Parameters
    ----------
    search : callable
        Searches one block of queries.
    n_queries : int
    n_numbers : int
        How many numbers of 8 bytes a search keeps for each query.
    n_threads : int
    """
    step = max(1, min(-(-n_queries // n_threads), _MAX_NUMBERS // n_numbers))
    blocks = slices(n_queries, step)
    if n_threads == 1:
        for block in blocks:
            search(block)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(search, blocks))


def unpack_keys(keys: Array, top: TopRows, k: int) -> None:
    """Sort the keys and fill in what they stand for.

    A key has the row in its lower half and, in its upper, the bits of the score, changed so that
    higher scores give lower numbers.
    """
    found = np.arange(k) < top.counts[:, None]
    ordered = np.sort(np.where(found, keys[:, :k], NO_KEY), axis=1)
    bits = (ordered >> 32).astype(np.uint32)
    np.subtract(_MAGNITUDE, bits, out=bits, where=bits <= _MAGNITUDE)
    np.copyto(top.rows[:, :k], ordered.astype(np.uint32), where=found)
    np.copyto(top.scores[:, :k], bits.view(np.float32), where=found)

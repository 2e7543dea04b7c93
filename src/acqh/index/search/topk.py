"""The best k rows of several segments, for a batch of queries."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from acqh._core.arrays import Array, Floats, slices
from acqh.index.compiled.keys import NO_KEY
from acqh.index.compiled.search import search_runs
from acqh.index.compiled.tables import TABLE_WIDTH, fill_tables
from acqh.index.layout.reaches import Rests
from acqh.index.search.plain import TO_THE_END, Runs, Stop, Target, TopRows, check_scales

_MAGNITUDE = np.uint32(0x7FFFFFFF)
# Room for candidates beyond twice k; more room means sorting out the best less often.
_SPARE_KEYS = 32
# Queries whose tables are filled at a time.
_TABLES_AT_ONCE = 4
# Numbers of 8 bytes kept for all queries that are searched at once.
_MAX_NUMBERS = 4_000_000


def search_targets(
    words: Floats,
    rests: Rests,
    targets: Sequence[Target[Runs]],
    queries: Floats,
    k: int,
    n_items: int,
    n_threads: int,
    stop: Stop = TO_THE_END,
) -> TopRows:
    """Find each query's k best rows of all targets together, exactly unless told to stop before.

    Parameters
    ----------
    words : (n_codebooks, n_components, codebook_size) float32
        The codebooks, components before words.
    rests : Rests
        Of the codebooks.
    targets : sequence of Target
    queries : (n_queries, n_components) float32
    k : int
        At least 1.
    n_items : int
        How many rows may be found at most.
    n_threads : int
        At least 1.
    stop : Stop, optional

    Raises
    ------
    InvalidInputError
        Scores of a query may overflow.
    """
    top = TopRows.none(len(queries), k)
    k = min(k, n_items)
    efforts = stop.efforts(targets, k)
    capacity = min(2 * k + _SPARE_KEYS, n_items + 1)

    def search(block: slice) -> None:
        asked, mine = queries[block], top.part(block)
        # For one segment a few queries at a time, in the nearest cache.
        n_tables = min(len(asked), _TABLES_AT_ONCE) if len(targets) == 1 else len(asked)
        tables = np.zeros((n_tables, len(words), TABLE_WIDTH), dtype=np.float32)
        tops = np.empty((len(asked), len(words)), dtype=np.float32)
        scales = np.zeros(len(asked), dtype=np.float32)
        keys = np.empty((len(asked), capacity), dtype=np.uint64)
        best = (keys, mine.counts, np.full(len(asked), NO_KEY), mine.tallies, mine.ceilings)
        to_fill = words
        for (runs, first_row, allowed), effort in zip(targets, efforts, strict=True):
            bounds = (tops, scales, *_reach_bounds(rests, runs, asked))
            search_runs(
                (to_fill, asked), tables, bounds, runs, (first_row, allowed), k, effort, best
            )
            to_fill = words[:0]
        if not targets:
            fill_tables(words, asked, tables, tops, scales)
        check_scales(scales, block.start)
        unpack_keys(keys, mine, k)

    # Tables have single precision, two entries to a number.
    in_blocks(search, len(queries), capacity + len(words) * TABLE_WIDTH // 2, n_threads)
    # Whatever was not looked at holds nothing more.
    top.ceilings[top.counts == n_items] = -np.inf
    return top


def _reach_bounds(rests: Rests, runs: Runs, queries: Floats) -> tuple[Floats, Floats]:
    """Return the bases and spans of queries, which nobody asks for where there are no reaches."""
    if len(runs.reaches) == 0:
        return (np.zeros(len(queries), dtype=np.float32),) * 2
    return rests.bounds(queries, runs.digits_a + runs.digits_b)


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

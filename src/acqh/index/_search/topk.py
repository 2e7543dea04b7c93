"""The best k rows of several segments, for a batch of queries."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from acqh._core.arrays import Array, Floats, Ints
from acqh.errors import InvalidInputError
from acqh.index._kernels import TABLE_WIDTH, fill_tables, sort_keys
from acqh.index._search._kernels import NO_KEY, search_runs
from acqh.index._search._types import Runs

# Scores of larger magnitude could overflow float32 when bounds are added to them.
_MAX_SCALE = 2.0**124
_MAGNITUDE = np.uint32(0x7FFFFFFF)
# Room for candidates beyond twice k; more room means sorting out the best less often.
_SPARE_KEYS = 32
# Numbers of 8 bytes kept for all queries that are searched at once.
_MAX_NUMBERS = 4_000_000


class Target(NamedTuple):
    """A segment to search.

    Parameters
    ----------
    runs : Runs
        Its arrays.
    first_row : int
        What to add to its row numbers.
    allowed : (n_bytes,) uint8
        A bit for each row that may be found, lowest bit first; empty where all may.
    """

    runs: Runs
    first_row: int
    allowed: Array


class TopRows(NamedTuple):
    """The best rows of each query, best first.

    Parameters
    ----------
    rows : (n_queries, k) int64
        -1 where there are fewer than k.
    scores : (n_queries, k) float32
        Minus infinity where there are fewer than k.
    counts : (n_queries,) int64
    scored : (n_queries,) int64
        How many codes were scored.
    """

    rows: Ints
    scores: Floats
    counts: Ints
    scored: Ints

    @classmethod
    def none(cls, n_queries: int, k: int) -> "TopRows":
        """Return room for k rows of each query, with none found yet."""
        return cls(
            np.full((n_queries, k), -1, dtype=np.int64),
            np.full((n_queries, k), -np.inf, dtype=np.float32),
            np.zeros(n_queries, dtype=np.int64),
            np.zeros(n_queries, dtype=np.int64),
        )

    def part(self, queries: slice) -> "TopRows":
        """Return views for some of the queries."""
        rows, scores, counts, scored = self
        return TopRows(rows[queries], scores[queries], counts[queries], scored[queries])


def search_targets(
    words: Floats, targets: Sequence[Target], queries: Floats, k: int, n_items: int, n_threads: int
) -> TopRows:
    """Find each query's k best rows of all targets together, exactly.

    Parameters
    ----------
    words : (n_codebooks, n_components, codebook_size) float32
        The codebooks, components before words.
    targets : sequence of Target
    queries : (n_queries, n_components) float32
    k : int
        At least 1.
    n_items : int
        How many rows may be found at most.
    n_threads : int
        At least 1.

    Raises
    ------
    InvalidInputError
        Scores of a query may overflow.
    """
    top = TopRows.none(len(queries), k)
    k = min(k, n_items)
    capacity = min(2 * k + _SPARE_KEYS, n_items + 1)

    def search(block: slice) -> None:
        tables, tops, scales = _tables_of(words, queries[block], block.start)
        mine = top.part(block)
        n_queries = len(mine.counts)
        keys = np.empty((n_queries, capacity), dtype=np.uint64)
        worsts = np.full(n_queries, NO_KEY)
        for runs, first_row, allowed in targets:
            rows = (first_row, allowed)
            search_runs(tables, tops, scales, runs, rows, k, keys, mine.counts, worsts, mine.scored)
        unpack_keys(keys, mine, k)

    # Tables have single precision, two entries to a number.
    in_blocks(search, len(queries), capacity + len(words) * TABLE_WIDTH // 2, n_threads)
    return top


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
    blocks = [slice(start, min(start + step, n_queries)) for start in range(0, n_queries, step)]
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
    ordered = np.zeros((len(keys), k), dtype=np.uint64)
    sort_keys(keys, top.counts, ordered)
    bits = (ordered >> 32).astype(np.uint32)
    np.subtract(_MAGNITUDE, bits, out=bits, where=bits <= _MAGNITUDE)
    found = np.arange(k) < top.counts[:, None]
    np.copyto(top.rows[:, :k], ordered.astype(np.uint32), where=found)
    np.copyto(top.scores[:, :k], bits.view(np.float32), where=found)


def _tables_of(words: Floats, queries: Floats, first: int) -> tuple[Floats, Floats, Floats]:
    """Return the tables of a block of queries, their largest entries, and bounds of scores."""
    n_codebooks = len(words)
    tables = np.zeros((len(queries), n_codebooks, TABLE_WIDTH), dtype=np.float32)
    tops = np.empty((len(queries), n_codebooks), dtype=np.float32)
    scales = fill_tables(words, queries, tables, tops)
    too_large = ~(scales < _MAX_SCALE)
    if too_large.any():
        number = first + int(np.argmax(too_large))
        raise InvalidInputError(f"query {number} is too large: its scores overflow; scale it down")
    return tables, tops, scales

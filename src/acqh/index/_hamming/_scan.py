"""The best k rows of several segments of binary codes, for a batch of queries."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh.index._hamming import _kernels
from acqh.index._search.topk import TopRows, in_blocks, unpack_keys

_BYTE_VALUES = 256


class Target(NamedTuple):
    """A segment to search."""

    planes: Array  # (n_bytes, n_rows) uint8
    first_row: int  # what to add to its row numbers
    # (n_bytes,) uint8: a bit for each row that may be found, lowest bit first; empty where all may.
    allowed: Array


def search_bits(
    targets: Sequence[Target], queries: Array, k: int, n_bits: int, n_items: int, n_threads: int
) -> TopRows:
    """Find each query's k nearest rows of all targets together.

    `targets`: in order of row. `queries`: (n_queries, n_bytes) uint8. `k`, `n_bits`, `n_items`,
    `n_threads`: at least 1, but `n_items`, how many rows may be found at most.
    """
    top = TopRows.none(len(queries), k)
    top.tallies[:] = sum(planes.shape[1] for planes, _, _ in targets)
    k = min(k, n_items)

    def search(block: slice) -> None:
        mine = top.part(block)
        candidates = _kernels.no_candidates(len(mine.counts), k, n_bits)
        for planes, first_row, allowed in targets:
            _kernels.take_nearest(planes, first_row, allowed, queries[block], k, candidates)
        distances = np.empty((len(mine.counts), k), dtype=np.int64)
        _kernels.sort_nearest(candidates, mine.rows[:, :k], distances, mine.counts)
        found = np.arange(k) < mine.counts[:, None]
        mine.scores[:, :k][found] = n_bits - 2 * distances[found]

    in_blocks(search, len(queries), 4 * k + n_bits + 2, n_threads)
    return top


def search_real(
    targets: Sequence[Target], queries: Floats, k: int, n_bits: int, n_items: int, n_threads: int
) -> TopRows:
    """Find each query's k rows of highest inner product with the signs of their bits.

    `targets`, `k`, `n_bits`, `n_items`, `n_threads`: as for `search_bits`. `queries`: (n_queries,
    n_bits) float32.
    """
    top = TopRows.none(len(queries), k)
    top.tallies[:] = sum(planes.shape[1] for planes, _, _ in targets)
    k = min(k, n_items)

    def search(block: slice) -> None:
        mine = top.part(block)
        n_queries = len(mine.counts)
        best = _kernels.Best(
            np.empty((n_queries, 2 * k + 1), dtype=np.uint64),
            mine.counts,
            np.full(n_queries, -np.inf, dtype=np.float32),
        )
        tables = byte_tables(queries[block])
        for planes, first_row, allowed in targets:
            _kernels.take_best(planes, first_row, allowed, tables, k, best)
        unpack_keys(best.keys, mine, k)

    in_blocks(search, len(queries), 2 * k + 32 * n_bits, n_threads)
    return top


def byte_tables(queries: Floats) -> Floats:
    """Return what each value of each byte of a code adds to a score.

    `queries`: (n_queries, n_bits) float32. Gives (n_queries, n_bytes, 256) float32; sums of the
    components with the signs of the bits, first bit first.

    Examples
    --------
    >>> byte_tables(np.array([[1, 2, 4]], dtype=np.float32))[0, 0, 0b101 << 5]
    np.float32(3.0)
    """
    n_queries, n_bits = queries.shape
    n_bytes = -(-n_bits // 8)
    components = np.zeros((n_queries, 8 * n_bytes), dtype=np.float32)
    components[:, :n_bits] = queries
    signs = np.unpackbits(np.arange(_BYTE_VALUES, dtype=np.uint8)[:, None], axis=1) * 2.0 - 1
    tables = np.zeros((n_queries, n_bytes, _BYTE_VALUES), dtype=np.float32)
    for bit in range(8):
        tables += components[:, bit::8, None] * signs[:, bit].astype(np.float32)
    return tables

"""The best k rows of several segments of binary codes, for a batch of queries."""

from collections.abc import Sequence

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh.index.compiled import hamming as compiled
from acqh.index.search.topk import in_blocks, unpack_keys
from acqh.index.search.types import Target, TopRows

_BYTE_VALUES = 256


def search_planes(
    targets: Sequence[Target[Array]],
    queries: Array,
    k: int,
    n_bits: int,
    n_items: int,
    n_threads: int,
) -> TopRows:
    """Find each query's k rows of highest inner product with the signs of their bits.

    `targets`: in order of row. `queries`: packed bits, (n_queries, n_bytes) uint8, whose rows are
    found by Hamming distance; or (n_queries, n_bits) float32. `k`, `n_bits`, `n_items`,
    `n_threads`: at least 1, but `n_items`, how many rows may be found at most.
    """
    top = TopRows.none(len(queries), k)
    top.tallies[:] = sum(planes.shape[1] for planes, _, _ in targets)
    k = min(k, n_items)
    is_packed = queries.dtype == np.uint8

    def search(block: slice) -> None:
        if is_packed:
            _take_nearest(targets, queries[block], k, n_bits, top.part(block))
        else:
            _take_best(targets, queries[block], k, top.part(block))

    n_numbers = 4 * k + n_bits + 2 if is_packed else 2 * k + 32 * n_bits
    in_blocks(search, len(queries), n_numbers, n_threads)
    return top


def _take_nearest(
    targets: Sequence[Target[Array]], queries: Array, k: int, n_bits: int, top: TopRows
) -> None:
    candidates = compiled.no_candidates(len(queries), k, n_bits)
    for planes, first_row, allowed in targets:
        compiled.take_nearest(planes, first_row, allowed, queries, k, candidates)
    distances = np.empty((len(queries), k), dtype=np.int64)
    compiled.sort_nearest(candidates, top.rows[:, :k], distances, top.counts)
    found = np.arange(k) < top.counts[:, None]
    top.scores[:, :k][found] = n_bits - 2 * distances[found]


def _take_best(targets: Sequence[Target[Array]], queries: Floats, k: int, top: TopRows) -> None:
    keys = np.empty((len(queries), 2 * k + 1), dtype=np.uint64)
    thresholds = np.full(len(queries), -np.inf, dtype=np.float32)
    best, tables = compiled.Best(keys, top.counts, thresholds), byte_tables(queries)
    for planes, first_row, allowed in targets:
        compiled.take_best(planes, first_row, allowed, tables, k, best)
    unpack_keys(keys, top, k)


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

"""Rankings as what every metric needs of them: blocks of tied items, best first."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, Ints
from acqh.metrics.compiled import argsort_keys, fill_keys, fill_tie_blocks
from acqh.metrics.inputs import Kind, Ties

# How scores of each kind of dtype are widened, so that two compiled sorts do for all.
_WIDE = {
    (kind, wide): np.dtype(f"{kind}{8 if wide else 4}") for kind in "uif" for wide in (False, True)
}


class TieBlocks(NamedTuple):
    """One query's ranking."""

    sizes: Ints  # (n_blocks,) int32: number of items in each block
    # (n_blocks,) int32 or float64: sum of relevance (the number of hits) or of gains in each block.
    totals: Array


def iter_tie_blocks(
    scores: Array, values: Bools | Floats, kind: Kind, ties: Ties
) -> Iterator[TieBlocks]:
    """Rank the database for one query after another.

    The arrays handed out are overwritten by the next query, so that memory does not grow
    with the number of queries and is touched only once.

    `scores`, `values`: (n_queries, n_database); as `check_block` returns them. `kind`: {"scores",
    "distances", "ranking"}. `ties`: {"expected", "stable"}; "stable" makes every item a block of
    its own, tied ones in database order.
    """
    totals_dtype = np.dtype(np.int32 if values.dtype == np.bool_ else np.float64)
    if kind == "ranking":
        yield from _listed(scores, values, totals_dtype)
        return
    n_items = scores.shape[1]
    number = "u" if scores.dtype.kind == "b" else scores.dtype.kind
    wide = _WIDE[number, scores.dtype.itemsize > 4]
    unsigned = np.dtype(f"u{wide.itemsize}")
    keys, spare_keys = np.empty((2, n_items), dtype=unsigned)
    order, spare_order, sizes = np.empty((3, n_items), dtype=np.int32)
    totals = np.empty(n_items, dtype=totals_dtype)
    for row, row_values in zip(scores, values, strict=True):
        bits = np.ascontiguousarray(row, dtype=wide).view(unsigned)
        fill_keys(bits, number == "i", number == "f", kind == "scores", keys)
        sorted_keys, ranked = argsort_keys(keys, order, spare_keys, spare_order)
        n_blocks = fill_tie_blocks(
            sorted_keys, ranked, np.ascontiguousarray(row_values), ties == "stable", sizes, totals
        )
        yield TieBlocks(sizes[:n_blocks], totals[:n_blocks])


def _listed(
    ranking: Ints, values: Bools | Floats, totals_dtype: np.dtype[np.generic]
) -> Iterator[TieBlocks]:
    sizes = np.ones(ranking.shape[1], dtype=np.int32)
    for row, row_values in zip(ranking, values, strict=True):
        listed = row[row != -1]
        yield TieBlocks(sizes[: len(listed)], row_values[listed].astype(totals_dtype))

"""Search in plain NumPy: what the compiled loops compute, bit for bit the same.

For one query of a few thousand items this is as quick as these, which take half a second to load.
"""

from collections.abc import Sequence

import numpy as np

from acqh._core.arrays import Array, Floats, Ints
from acqh.errors import InvalidInputError
from acqh.index.search.types import Target, TopRows

# Scores of larger magnitude could overflow float32 when bounds are added to them.
MAX_SCALE = 2.0**124
_BLOCK = 64


def fill_tables(codebooks: Floats, queries: Floats) -> Floats:
    """Return (n_queries, n_codebooks, codebook_size), summed over components from first to last.

    `codebooks`: (n_codebooks, n_components, codebook_size) float32. `queries`: (n_queries,
    n_components) float32.
    """
    tables = np.empty((len(queries), len(codebooks), codebooks.shape[2]), dtype=np.float32)
    for table, query in zip(tables, queries, strict=True):
        # (n_codebooks, n_components, codebook_size), so that rows are added one after the other.
        products = np.multiply(codebooks, query[:, None], order="C")
        if codebooks.shape[2] > 1:
            np.add.reduce(products, axis=1, initial=np.float32(0), out=table)
        else:
            table[:] = np.add.accumulate(products, axis=1)[:, -1]
    return tables


def score_codes(tables: Floats, codes: Array) -> Floats:
    """Return (n_queries, n_items) scores, summed over codebooks from first to last.

    `tables`: (n_queries, n_codebooks, codebook_size) float32. `codes`: (n_items, n_codebooks).
    """
    scores = np.zeros((len(tables), len(codes)), dtype=np.float32)
    for column in range(codes.shape[1]):
        scores += tables[:, column][:, codes[:, column]]
    return scores


def best_rows(scores: Floats, k: int) -> Ints:
    """Return the k best rows of one query: higher score first, then lower row."""
    kept, n_blocks = np.arange(len(scores)), len(scores) // _BLOCK
    if k < n_blocks:  # k of the best are at least the k-th best of the best of each block
        best = scores[: n_blocks * _BLOCK].reshape(n_blocks, _BLOCK).max(axis=1)
        kept = np.flatnonzero(scores >= np.partition(best, -k)[-k])
    elif k < len(scores):
        kept = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    return kept[np.argsort(-scores[kept], kind="stable")[:k]]


def best_columns(scores: Floats, k: int) -> Ints:
    """Return the columns of the k highest scores of each row; of equal scores, the first ones."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def check_scales(scales: Floats, first: int = 0, *, limit: float = MAX_SCALE) -> None:
    """Refuse queries whose scores may overflow.

    `scales`: (n_queries,); bounds of the magnitude of any score; NaN where there is none. `first`:
    number of the first query. `limit`: what a magnitude must be below.
    """
    too_large = ~(scales < limit)
    if too_large.any():
        number = first + int(np.argmax(too_large))
        raise InvalidInputError(f"query {number} is too large: its scores overflow; scale it down")


def search_few(words: Floats, targets: Sequence[Target[Array]], queries: Floats, k: int) -> TopRows:
    """Find each query's k best rows of all targets together, as `search_targets` does.

    `words`: (n_codebooks, n_components, codebook_size) float32. `targets`: with the words of their
    rows, (n_codebooks, n_rows) uint8. `queries`: (n_queries, n_components) float32. Raises
    InvalidInputError: scores of a query may overflow.
    """
    columns = [np.empty((len(words), 0), dtype=np.uint8)]
    rows = [np.empty(0, dtype=np.int64)]
    for words_of_rows, first_row, allowed in targets:
        if allowed.size:
            bits = np.unpackbits(allowed, count=words_of_rows.shape[1], bitorder="little")
            rows.append(np.flatnonzero(bits) + first_row)
            columns.append(words_of_rows[:, rows[-1] - first_row])
        else:
            rows.append(np.arange(first_row, first_row + words_of_rows.shape[1]))
            columns.append(words_of_rows)
    every = columns[1] if len(columns) == 2 else np.concatenate(columns, axis=1)
    row_of = np.concatenate(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        tables = fill_tables(words, queries)
        check_scales((np.abs(tables.max(axis=2)) + np.abs(tables.min(axis=2))).sum(axis=1))
    top = TopRows.none(len(queries), k)
    top.tallies[:] = len(row_of)
    for i, table in enumerate(tables):
        scores = np.zeros(len(row_of), dtype=np.float32)
        for entries, column in zip(table, every, strict=True):
            scores += entries.take(column, mode="clip")
        best = best_rows(scores, k)
        top.counts[i] = len(best)
        top.rows[i, : len(best)], top.scores[i, : len(best)] = row_of[best], scores[best]
    return top

"""Compiled helpers of the search: look-up tables of queries, binary search of text ids.

A table entry is a float32 sum of the products of a query and a codeword, over the dimensions from
first to last. No loop may reorder it (no ``fastmath``), so scores have the same bits on one thread
or many, for one query or a batch.
"""

from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh._core.runtime import kernel
from acqh.index.search import TABLE_WIDTH, check_scales


@kernel()
def fill_tables(
    codebooks: Array, queries: Array, tables: Array, tops: Array, scales: Array
) -> None:
    """Compute the score of every codeword for every query.

    Parameters
    ----------
    codebooks : (n_codebooks, n_components, codebook_size) float32
    queries : (n_queries, n_components) float32
    tables : (at least n_queries, n_codebooks, TABLE_WIDTH) float32
        Filled up to the codebook size.
    tops : (n_queries, n_codebooks) float32; filled with the largest entry of each table
    scales : (n_queries,) float32
        Filled with a bound of the magnitude of any score; not finite where scores may overflow.
    """
    n_queries, (n_codebooks, _, size) = queries.shape[0], codebooks.shape
    scales[:] = 0
    spare = np.empty(size, dtype=np.float32)
    for s in range(n_codebooks):
        for i in range(0, n_queries, 2):
            # Two queries at a time halve the reads of codewords.
            j = min(i + 1, n_queries - 1)
            one, other = tables[i, s, :size], tables[j, s, :size] if j > i else spare
            one[:] = 0
            other[:] = 0
            _add_both(codebooks[s], queries[i], queries[j], one, other)
        for i in range(n_queries):
            tops[i, s], low = extent(tables[i, s, :size])
            # A sum, not a maximum, propagates NaN.
            scales[i] += abs(tops[i, s]) + abs(low)


def tables_of(codewords: Floats, queries: Floats) -> Floats:
    """Return the look-up tables of `flat.tables_of`, compiled."""
    shape = len(queries), len(codewords)
    tables = np.zeros((*shape, TABLE_WIDTH), dtype=np.float32)
    tops, scales = np.empty(shape, dtype=np.float32), np.empty(len(queries), dtype=np.float32)
    fill_tables(codewords, queries, tables, tops, scales)
    check_scales(scales)
    return tables


@kernel()
def add_entries(table: Array, planes: Array, scores: Array) -> None:
    """Add the entries of codes, (n_codebooks, n_rows) uint8, in one query's table to scores."""
    n_unrolled = planes.shape[0] - planes.shape[0] % 4
    for s in range(0, n_unrolled, 4):  # four at a time read and write scores a quarter as often
        a, b, c, d = table[s], table[s + 1], table[s + 2], table[s + 3]
        p, q, r, t = planes[s], planes[s + 1], planes[s + 2], planes[s + 3]
        for row in range(planes.shape[1]):
            scores[row] = (((scores[row] + a[p[row]]) + b[q[row]]) + c[r[row]]) + d[t[row]]
    for s in range(n_unrolled, planes.shape[0]):
        for row in range(planes.shape[1]):
            scores[row] += table[s, planes[s, row]]


def table_scores(table: Floats, planes: Array) -> Floats:
    """Return the scores of `flat.table_scores`, compiled: a quarter of the time."""
    scores = np.zeros(planes.shape[1], dtype=np.float32)
    add_entries(table, planes, scores)
    return scores


@kernel()
def _ordinal(bits: Any) -> Any:
    """Turn the bits of a float32 into an integer of the same order, and back."""
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@kernel()
def extent(values: Array) -> Any:
    """Return the largest and the smallest value; NaN compares above or below all others.

    Compares integers, which compilers vectorize.
    """
    bits = values.view(np.int32)
    high = low = _ordinal(bits[0])
    for j in range(bits.shape[0]):
        high = max(high, _ordinal(bits[j]))
        low = min(low, _ordinal(bits[j]))
    return np.int32(_ordinal(high)).view(np.float32), np.int32(_ordinal(low)).view(np.float32)


@kernel()
def _add_both(codewords: Array, x: Array, y: Array, one: Array, other: Array) -> None:
    """Add the products of two queries with a codebook, four dimensions at a time."""
    n_components, size = codewords.shape
    n_unrolled = n_components - n_components % 4
    for d in range(0, n_unrolled, 4):
        w0, w1, w2, w3 = codewords[d], codewords[d + 1], codewords[d + 2], codewords[d + 3]
        x0, x1, x2, x3 = x[d], x[d + 1], x[d + 2], x[d + 3]
        y0, y1, y2, y3 = y[d], y[d + 1], y[d + 2], y[d + 3]
        for j in range(size):
            a, b, c, e = w0[j], w1[j], w2[j], w3[j]
            one[j] = (((one[j] + a * x0) + b * x1) + c * x2) + e * x3
            other[j] = (((other[j] + a * y0) + b * y1) + c * y2) + e * y3
    for d in range(n_unrolled, n_components):
        for j in range(size):
            one[j] += codewords[d, j] * x[d]
            other[j] += codewords[d, j] * y[d]


@kernel()
def _compare_texts(a: Array, b: Array) -> Any:
    """Return -1, 0 or 1 if `a` is below, equal to or above `b` in byte order."""
    for i in range(min(a.shape[0], b.shape[0])):
        if a[i] != b[i]:
            return -1 if a[i] < b[i] else 1
    return (a.shape[0] > b.shape[0]) - (a.shape[0] < b.shape[0])


@kernel()
def find_texts(
    text: Array, starts: Array, order: Array, query_text: Array, query_starts: Array
) -> Any:
    """Return the positions of texts in an array of distinct texts, by binary search.

    Parameters
    ----------
    text : (n_bytes,) uint8
        All texts, one after another.
    starts : (n + 1,) int64
        Where each text starts, and the end of the last; slices beyond `text` are truncated.
    order : (n,) uint32
        Permutation that sorts the texts by their bytes; positions out of range count as missing.
    query_text, query_starts
        The texts to find, in the same form.

    Returns
    -------
    (n_queries,) int64
        Positions, -1 for missing texts.
    """
    n = starts.shape[0] - 1
    places = np.full(query_starts.shape[0] - 1, -1, dtype=np.int64)
    for i in range(places.shape[0]):
        query = query_text[query_starts[i] : query_starts[i + 1]]
        low, high = 0, n
        while low < high:
            middle = (low + high) >> 1
            place = np.int64(order[middle])
            if place >= n:
                break
            sign = _compare_texts(text[starts[place] : starts[place + 1]], query)
            if sign == 0:
                places[i] = place
                break
            if sign < 0:
                low = middle + 1
            else:
                high = middle
    return places

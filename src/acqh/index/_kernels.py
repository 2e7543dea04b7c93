"""Compiled loops around the search: score tables of queries, order of results, look-up of ids.

A table entry is a float32 sum of the products of a query and a codeword, over the dimensions from
first to last. No loop may reorder it (no ``fastmath``), so scores have the same bits on one thread
or many, for one query or a batch.
"""

from typing import Any

import numpy as np
from numba import njit

from acqh._core.arrays import Array

# Tables are always this wide, so that any stored byte is a valid index.
TABLE_WIDTH = 256

# Sorting fewer keys byte by byte costs more than moving them one by one.
_FEW_KEYS = 64
_BYTE = np.uint64(255)

_COMPILE: dict[str, Any] = {"cache": True, "nogil": True}


@njit(**_COMPILE)
def fill_tables(codebooks: Array, queries: Array, tables: Array, tops: Array) -> Any:
    """Compute the score of every codeword for every query.

    Parameters
    ----------
    codebooks : (n_codebooks, n_components, codebook_size) float32
    queries : (n_queries, n_components) float32
    tables : (n_queries, n_codebooks, TABLE_WIDTH) float32, zeros; filled
    tops : (n_queries, n_codebooks) float32; filled with the largest entry of each table

    Returns
    -------
    (n_queries,) float32
        A bound of the magnitude of any score; not finite where scores may overflow.
    """
    n_codebooks, n_components, size = codebooks.shape
    scales = np.zeros(queries.shape[0], dtype=np.float32)
    for i in range(queries.shape[0]):
        for s in range(n_codebooks):
            table, words = tables[i, s], codebooks[s]
            for d in range(n_components):
                x = queries[i, d]
                for j in range(size):
                    table[j] += words[d, j] * x
            high, low = table[0], table[0]
            for j in range(size):
                high = max(high, table[j])
                low = min(low, table[j])
            tops[i, s] = high
            scales[i] += max(high, -low)
    return scales


@njit(**_COMPILE)
def _sort(keys: Array, spare: Array) -> Any:
    """Sort keys: few by insertion, many byte by byte; return which array holds them then."""
    n = keys.shape[0]
    if n <= _FEW_KEYS:
        for i in range(1, n):
            key, j = keys[i], i
            while j > 0 and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
        return keys
    for shift in range(np.uint64(0), np.uint64(64), np.uint64(8)):
        starts = np.zeros(257, dtype=np.int64)
        for i in range(n):
            starts[((keys[i] >> shift) & _BYTE) + np.uint64(1)] += 1
        if starts[((keys[0] >> shift) & _BYTE) + np.uint64(1)] == n:
            continue  # one byte for all: nothing to sort by
        for byte in range(256):
            starts[byte + 1] += starts[byte]
        for i in range(n):
            byte = (keys[i] >> shift) & _BYTE
            spare[starts[byte]] = keys[i]
            starts[byte] += 1
        keys, spare = spare, keys
    return keys


@njit(**_COMPILE)
def sort_keys(keys: Array, counts: Array, ordered: Array) -> None:
    """Sort the first keys of each query.

    Parameters
    ----------
    keys : (n_queries, capacity) uint64; overwritten
    counts : (n_queries,) int64
        How many keys each query has.
    ordered : (n_queries, k) uint64; filled from the left
    """
    spare = np.empty(ordered.shape[1], dtype=np.uint64)
    for i in range(keys.shape[0]):
        n = counts[i]
        mine = _sort(keys[i, :n], spare)
        for j in range(n):
            ordered[i, j] = mine[j]


@njit(**_COMPILE)
def find_numbers(values: Array, order: Array, wanted: Array) -> Any:
    """Find where numbers stand in an array of distinct numbers.

    Parameters
    ----------
    values : (n,) int64
    order : (n,) uint32
        Puts the values in rising order; places outside the array are taken as not found.
    wanted : (n_wanted,) int64

    Returns
    -------
    (n_wanted,) int64
        Places in `values`, -1 where there is none.
    """
    n = values.shape[0]
    found = np.full(wanted.shape[0], -1, dtype=np.int64)
    for i in range(wanted.shape[0]):
        low, high = 0, n
        while low < high:
            middle = (low + high) >> 1
            place = np.int64(order[middle])
            if place >= n:
                break
            if values[place] == wanted[i]:
                found[i] = place
                break
            if values[place] < wanted[i]:
                low = middle + 1
            else:
                high = middle
    return found


@njit(**_COMPILE)
def _compare_texts(a: Array, b: Array) -> Any:
    """Return -1, 0 or 1 as the bytes of `a` come before, are, or come after those of `b`."""
    for i in range(min(a.shape[0], b.shape[0])):
        if a[i] != b[i]:
            return -1 if a[i] < b[i] else 1
    return (a.shape[0] > b.shape[0]) - (a.shape[0] < b.shape[0])


@njit(**_COMPILE)
def find_texts(
    text: Array, starts: Array, order: Array, wanted_text: Array, wanted_starts: Array
) -> Any:
    """Find where texts stand in an array of distinct texts.

    Parameters
    ----------
    text : (n_bytes,) uint8
        All texts, one after another.
    starts : (n + 1,) int64
        Where each begins, and the end of the last; slices that leave `text` are cut short.
    order : (n,) uint32
        Puts them in rising order of their bytes; places outside are taken as not found.
    wanted_text, wanted_starts
        The texts to find, in the same form.

    Returns
    -------
    (n_wanted,) int64
        Places, -1 where there is none.
    """
    n = starts.shape[0] - 1
    found = np.full(wanted_starts.shape[0] - 1, -1, dtype=np.int64)
    for i in range(found.shape[0]):
        one = wanted_text[wanted_starts[i] : wanted_starts[i + 1]]
        low, high = 0, n
        while low < high:
            middle = (low + high) >> 1
            place = np.int64(order[middle])
            if place >= n:
                break
            sign = _compare_texts(text[starts[place] : starts[place + 1]], one)
            if sign == 0:
                found[i] = place
                break
            if sign < 0:
                low = middle + 1
            else:
                high = middle
    return found

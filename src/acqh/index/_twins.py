"""What the compiled kernels compute, in plain NumPy: slow, obvious, bit for bit the same."""

import numpy as np

from acqh._core.arrays import Array, Floats, Ints


def fill_tables(codebooks: Floats, queries: Floats) -> Floats:
    """Return (n_queries, n_codebooks, codebook_size), summed over components from first to last.

    Parameters
    ----------
    codebooks : (n_codebooks, n_components, codebook_size) float32
    queries : (n_queries, n_components) float32
    """
    tables = np.zeros((len(queries), len(codebooks), codebooks.shape[2]), dtype=np.float32)
    for component in range(codebooks.shape[1]):
        tables += codebooks[:, component] * queries[:, component, None, None]
    return tables


def score_codes(tables: Floats, codes: Array) -> Floats:
    """Return (n_queries, n_items) scores, summed over codebooks from first to last.

    Parameters
    ----------
    tables : (n_queries, n_codebooks, codebook_size) float32
    codes : (n_items, n_codebooks)
    """
    scores = np.zeros((len(tables), len(codes)), dtype=np.float32)
    for column in range(codes.shape[1]):
        scores += tables[:, column][:, codes[:, column]]
    return scores


def best_rows(scores: Floats, k: int) -> Ints:
    """Return the k best rows of one query: higher score first, then lower row."""
    return np.lexsort([np.arange(len(scores)), -scores])[:k]


def find(known: Array, wanted: Array) -> Ints:
    """Return where each wanted id stands among the known ones, -1 where it does not."""
    place = {value: row for row, value in enumerate(known.tolist())}
    return np.array([place.get(value, -1) for value in wanted.tolist()], dtype=np.int64)

"""Ranking again, by full vectors, what a search over codes found."""

from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, as_rows, check_positive_int
from acqh.errors import InvalidInputError
from acqh.index._result import SearchResult
from acqh.index._search import TopRows
from acqh.index._snapshot import S, Snapshot
from acqh.index._vectors import VectorReader

# How many candidates are ranked again where nobody says.
_CANDIDATES = 200
_NO_RERANK = "rerank_k says how many items to rank again; give rerank, their full vectors, too"


def candidate_count(k: int, rerank: Any, rerank_k: int | None) -> int:
    """Return how many items the search over codes has to find; raise InvalidInputError.

    Examples
    --------
    >>> candidate_count(10, None, None), candidate_count(10, [[1.0]], None)
    (10, 200)
    """
    if rerank is None:
        if rerank_k is not None:
            raise InvalidInputError(_NO_RERANK)
        return k
    wanted = max(_CANDIDATES, k) if rerank_k is None else check_positive_int(rerank_k, "rerank_k")
    if wanted < k:
        raise InvalidInputError(f"rerank_k is {wanted}, but k is {k}; rank at least k items again")
    return wanted


def rank_again(
    snapshot: Snapshot[S], top: TopRows, queries: Floats, k: int, rerank: Any
) -> SearchResult:
    """Return the best k of the candidates by the inner products with their full vectors.

    Parameters
    ----------
    snapshot : Snapshot
    top : TopRows
        The candidates.
    queries : (n_queries, n_components) float32
    k : int
    rerank : VectorReader, or (n_items, n_components) floats
        An array has the items in the order of ids.

    Raises
    ------
    InvalidInputError
        An array of another shape, or a reader that gives vectors of another width.
    """
    ids = snapshot.take_ids(top.rows)
    is_reader = isinstance(rerank, VectorReader) and not isinstance(rerank, np.ndarray)
    vectors = None if is_reader else _as_vectors(rerank, len(snapshot), queries.shape[1])
    best = np.zeros((len(queries), k), dtype=np.int64)
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    for number, count in enumerate(top.counts.tolist()):
        if vectors is None:
            full = _taken(rerank, ids[number, :count], queries.shape[1])
        else:
            full = np.asarray(vectors[_positions(snapshot, top.rows[number, :count])])
        products = full.astype(np.float32) @ queries[number]
        # Equal ones by insertion.
        order = np.lexsort([top.rows[number, :count], -products])[:k]
        best[number, : len(order)] = order
        scores[number, : len(order)] = products[order]
    counts = np.minimum(top.counts, k)
    listed = np.arange(k) < counts[:, np.newaxis]
    rows = np.where(listed, np.take_along_axis(top.rows, best, axis=1), -1)
    seen, scored = top.tallies.T
    unknown = np.full(len(queries), np.inf, dtype=np.float32)
    proven = np.zeros(len(queries), dtype=bool)
    return SearchResult(snapshot.take_ids(rows), scores, counts, scored, seen, proven, unknown)


def _as_vectors(vectors: Any, n_items: int, width: int) -> Array:
    """Return vectors as an array, mapped ones as they are; raise InvalidInputError."""
    array = vectors
    if not isinstance(vectors, np.ndarray):
        array = as_rows(vectors, "rerank", InvalidInputError)
    if array.shape != (n_items, width) or array.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"rerank has {array.dtype} of shape {array.shape}; give a vector of {width} components "
            f"for each of {n_items} items, in the order of 'ids', or a VectorFile"
        )
    return np.asarray(array)


def _taken(reader: VectorReader, ids: Array, width: int) -> Floats:
    full = np.asarray(reader.take(ids))
    if full.shape != (len(ids), width):
        raise InvalidInputError(
            f"rerank gave vectors of shape {full.shape} for {len(ids)} items and queries of "
            f"{width} components"
        )
    return full


def _positions(snapshot: Snapshot[S], rows: Ints) -> Ints:
    """Return where rows stand among those that are still there."""
    positions = np.empty_like(rows)
    before = 0
    for number, part in enumerate(snapshot.parts):
        first, stop = snapshot.first_rows[number], snapshot.first_rows[number + 1]
        mine = (rows >= first) & (rows < stop)
        inside = rows[mine] - first
        if part.live.size:
            inside = (np.cumsum(part.live_rows()) - 1)[inside]
        positions[mine] = inside + before
        before += part.n_live
    return positions

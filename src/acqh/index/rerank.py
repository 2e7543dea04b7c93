"""Re-ranking of hits by their full vectors."""

from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, as_rows, check_positive_int, slices, to_numpy
from acqh.errors import InvalidInputError
from acqh.index.result import SearchResult
from acqh.index.snapshot import S, Snapshot

# Default number of candidates to re-rank.
_CANDIDATES = 200
# Numbers of full vectors in memory at a time.
_MAX_NUMBERS = 1 << 22
_NO_RERANK = "rerank_k requires rerank=, the full vectors of the items"


def candidate_count(k: int, rerank: Any, rerank_k: int | None) -> int:
    """Return the number of candidates of the search over codes; raise InvalidInputError.

    Examples
    --------
    >>> candidate_count(10, None, None), candidate_count(10, [[1.0]], None)
    (10, 200)
    """
    if rerank is None:
        if rerank_k is not None:
            raise InvalidInputError(_NO_RERANK)
        return k
    if rerank_k is None:
        return max(_CANDIDATES, k)
    if check_positive_int(rerank_k, "rerank_k") < k:
        raise InvalidInputError(f"rerank_k is {rerank_k}, but k is {k}; re-rank at least k items")
    return rerank_k


def rerank_hits(
    hits: SearchResult, places: Ints, n_items: int, queries: Floats, k: int, rerank: Any
) -> SearchResult:
    """Return the best k of the candidates by the inner products with their full vectors.

    Parameters
    ----------
    hits : SearchResult
        The candidates, by their codes.
    places : (n_queries, n_hits) int64
        Position of each in the order of ids.
    n_items : int
        Of the index.
    queries : (n_queries, n_components) float32
    k : int
    rerank : (n_items, n_components) floats
        Of any library, in memory or mapped, with the items in the order of ids.

    Raises
    ------
    InvalidInputError
        An array of another shape.
    """
    vectors = _as_vectors(to_numpy(rerank)[0], n_items, queries.shape[1])
    best = np.zeros((len(queries), k), dtype=np.int64)
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    step = max(1, _MAX_NUMBERS // max(places.shape[1] * queries.shape[1], 1))
    for part in slices(len(queries), step):
        is_hit = np.arange(places.shape[1]) < hits.counts[part, np.newaxis]
        full = np.asarray(vectors[places[part][is_hit]])
        repeated = np.repeat(queries[part], hits.counts[part], axis=0)
        products = np.full(is_hit.shape, -np.inf, dtype=np.float32)
        products[is_hit] = np.einsum("ik,ik->i", full.astype(np.float32, copy=False), repeated)
        # Ties in order of insertion; padding last.
        order = np.lexsort((places[part], -products, ~is_hit))[:, :k]
        best[part, : order.shape[1]] = order
        scores[part, : order.shape[1]] = np.take_along_axis(products, order, axis=1)
    counts = np.minimum(hits.counts, k)
    ids = np.take_along_axis(hits.ids, best, axis=1)
    ids[np.arange(k) >= counts[:, np.newaxis]] = None if ids.dtype == object else -1
    unknown = np.full(len(queries), np.inf, dtype=np.float32)
    proven = np.zeros(len(queries), dtype=bool)
    return SearchResult(ids, scores, counts, hits.scored, hits.n_scanned, proven, unknown)


def places_of(snapshot: Snapshot[S], rows: Ints) -> Ints:
    """Return the positions of rows among the live ones; -1 for rows below 0."""
    places = np.full(rows.shape, -1, dtype=np.int64)
    before = 0
    for number, part in enumerate(snapshot.parts):
        first, stop = snapshot.first_rows[number], snapshot.first_rows[number + 1]
        mine = (rows >= first) & (rows < stop)
        inside = rows[mine] - first
        if part.live.size:
            inside = (np.cumsum(part.live_rows()) - 1)[inside]
        places[mine] = inside + before
        before += part.n_live
    return places


def _as_vectors(vectors: Any, n_items: int, width: int) -> Array:
    """Return vectors as an array, mapped ones as they are; raise InvalidInputError."""
    array = vectors
    if not isinstance(vectors, np.ndarray):
        array = as_rows(vectors, "rerank", InvalidInputError)
    if array.shape != (n_items, width) or array.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"rerank has dtype {array.dtype} and shape {array.shape}; give numbers of shape "
            f"({n_items}, {width}), in the order of 'ids'"
        )
    return np.asarray(array)

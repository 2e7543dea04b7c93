"""Re-ranking of hits by their full vectors."""

from os import PathLike
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, as_rows, check_positive_int, slices, to_numpy
from acqh._core.metric import MetricMap
from acqh.errors import InvalidInputError
from acqh.index.search import SearchResult
from acqh.index.snapshot import S, Snapshot

# Default number of candidates to re-rank.
_CANDIDATES = 200
# Numbers of full vectors in memory at a time.
_MAX_NUMBERS = 1 << 22


def candidate_count(k: int, rerank: Any, rerank_k: int | None) -> int:
    """Return the number of candidates of the search over codes; raise InvalidInputError.

    Examples
    --------
    >>> candidate_count(10, None, None), candidate_count(10, [[1.0]], None)
    (10, 200)
    """
    if rerank is None:
        if rerank_k is not None:
            raise InvalidInputError("rerank_k requires rerank=, the full vectors of the items")
        return k
    if rerank_k is None:
        return max(_CANDIDATES, k)
    if check_positive_int(rerank_k, "rerank_k") < k:
        raise InvalidInputError(f"rerank_k is {rerank_k}, but k is {k}; re-rank at least k items")
    return rerank_k


def rerank_hits(
    hits: SearchResult,
    places: Ints,
    n_items: int,
    queries: Floats,
    k: int,
    rerank: Any,
    metric: MetricMap,
) -> SearchResult:
    """Return the best k of the candidates by their full vectors.

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
    rerank : (n_items, n_components) floats, or path of a .npy file
        Of any library, in memory or mapped, with the items in the order of ids. Or int8, see
        `shrink_vectors`.
    metric : MetricMap

    Raises
    ------
    InvalidInputError
        An array of another shape.
    """
    vectors = as_vectors(rerank, n_items, queries.shape[1])
    best = np.zeros((len(queries), k), dtype=np.int64)
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    step = max(1, _MAX_NUMBERS // max(places.shape[1] * queries.shape[1], 1))
    for part in slices(len(queries), step):
        is_hit = np.arange(places.shape[1]) < hits.counts[part, np.newaxis]
        full = full_vectors(vectors[places[part][is_hit]])
        repeated = np.repeat(queries[part], hits.counts[part], axis=0)
        products = np.full(is_hit.shape, -np.inf, dtype=np.float32)
        products[is_hit] = metric.score_pairs(repeated, full)
        # Ties in order of insertion; padding last.
        order = np.lexsort((places[part], -products, ~is_hit))[:, :k]
        best[part, : order.shape[1]] = order
        scores[part, : order.shape[1]] = np.take_along_axis(products, order, axis=1)
    counts = np.minimum(hits.counts, k)
    ids = np.take_along_axis(hits.ids, best, axis=1)
    ids[np.arange(k) >= counts[:, np.newaxis]] = None if ids.dtype == object else -1
    unknown = np.full(len(queries), np.inf, dtype=np.float32)
    proven = np.zeros(len(queries), dtype=bool)
    return SearchResult(ids, scores, counts, hits.n_scored, hits.n_scanned, proven, unknown)


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


def as_vectors(vectors: Any, n_items: int, width: int) -> Array:
    """Return vectors as an array, those of a file memory-mapped; raise InvalidInputError."""
    array = vectors
    if isinstance(vectors, str | PathLike):
        try:
            array = np.lib.format.open_memmap(vectors, mode="r")
        except (ValueError, EOFError) as error:
            raise InvalidInputError(
                f"{vectors} is not a .npy file of vectors; acqh compress --keep writes one"
            ) from error
    elif not isinstance(vectors, np.ndarray):
        array = as_rows(to_numpy(vectors)[0], "rerank", InvalidInputError)
    is_int8 = array.dtype == int8_dtype(width)
    shape = (*array.shape, width) if is_int8 else array.shape
    if shape != (n_items, width) or not (is_int8 or array.dtype.kind in "iuf"):
        raise InvalidInputError(
            f"rerank has dtype {'int8' if is_int8 else array.dtype} and shape {shape}; give "
            f"numbers of shape ({n_items}, {width}): a vector for each item, in the order of 'ids'"
        )
    return np.asarray(array)


def int8_dtype(n_components: int) -> Any:
    """Return the dtype of a vector in int8: a scale, and components in units of it."""
    return np.dtype([("scale", np.float32), ("values", np.int8, (n_components,))])


def shrink_vectors(vectors: Floats, dtype: str) -> Array:
    """Return vectors to re-rank by in two bytes or one byte per dimension.

    Parameters
    ----------
    vectors : (n_items, n_components)
    dtype : {"float16", "int8"}

    Returns
    -------
    (n_items, n_components) float16, or (n_items,) of `int8_dtype`

    Raises
    ------
    InvalidInputError
        A value is beyond float16.

    Examples
    --------
    >>> full_vectors(shrink_vectors(np.array([[-2.0, 1.0]]), "int8")).round(2)
    array([[-2.  ,  1.01]], dtype=float32)
    """
    if dtype == "float16":
        with np.errstate(over="ignore"):
            halves = vectors.astype(np.float16)
        if not np.isfinite(halves).all():
            raise InvalidInputError("a value of the vectors is beyond float16; keep int8")
        return halves
    shrunk = np.empty(len(vectors), dtype=int8_dtype(vectors.shape[1]))
    scales = np.abs(vectors).max(axis=1, initial=0.0) / np.iinfo(np.int8).max
    shrunk["scale"] = scales
    scales = np.where(scales > 0, scales, 1.0)
    shrunk["values"] = np.rint(vectors / scales[:, np.newaxis])
    return shrunk


def full_vectors(vectors: Array) -> Floats:
    """Return vectors of any number type, or of `shrink_vectors`, as float32."""
    if vectors.dtype.names is None:
        return np.asarray(vectors, dtype=np.float32)
    return np.asarray(vectors["values"] * vectors["scale"][:, np.newaxis], dtype=np.float32)

"""Vectors of one view: those of items in chunks, those of queries whole."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats, as_matrix, check_positive_int, is_sparse, slices
from acqh._core.runtime import Progress
from acqh.data import MultiViewData, list_pieces, read_pieces
from acqh.data.readers.pieces import Pieces
from acqh.errors import InvalidInputError, ViewError
from acqh.index.ids import read_ids
from acqh.scale.chunks import ChunkedSource, InMemoryChunk, LocalExecutor, chunk_source

_ONE_OF = {"items": "item", "queries": "query"}
# Formats of which one view can be read alone.
_BY_VIEW = (".npz", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".hdf5", ".h5")


def vector_source(
    items: Any, view: str | None, ids: Any, chunk_size: int, client: Any, progress: Progress | None
) -> ChunkedSource:
    """Split vectors into chunks: those of an array, or of a source that `chunk_source` takes.

    `view`: which view, if there are several. `ids`: (n_items,), of an array. Raises
    InvalidInputError, ViewError: the items are of no known kind. `read_vectors` reads a chunk.
    """
    if isinstance(items, str | PathLike):
        items = list_vector_pieces(items, view, chunk_size)
    if isinstance(items, MultiViewData | Pieces):
        if ids is not None:
            raise InvalidInputError("ids are given along with an array; files have their own")
        client = client if isinstance(items, Pieces) else None
        return chunk_source(items, chunk_size, client, progress)
    check_positive_int(chunk_size, "chunk_size")
    matrix = as_matrix(items, "items")
    n_items = matrix.shape[0]
    named = np.arange(n_items) if ids is None else read_ids(ids)
    if len(named) != n_items:
        raise InvalidInputError(f"there are {len(named)} ids; give one for each of {n_items} items")
    chunks = [
        InMemoryChunk((named[rows], matrix[rows]), rows.stop - rows.start)
        for rows in slices(n_items, chunk_size)
    ]
    return ChunkedSource(chunks, n_items, LocalExecutor(), progress)


def read_vectors(chunk: Any, view: str | None) -> tuple[Array, Floats]:
    """Return the ids and the vectors, (n_items, n) float32, of a chunk of a `vector_source`."""
    if isinstance(chunk, MultiViewData):
        return chunk.ids, vectors_of(chunk, view, "items")
    ids, matrix = chunk
    return ids, _dense(matrix)


def list_vector_pieces(path: str | PathLike[str], view: str | None, chunk_size: int) -> Pieces:
    """Cut a file into pieces; of a file of several views only the one wanted is read."""
    place = Path(path).absolute()
    if view is not None and (place.is_dir() or place.suffix.lower() in _BY_VIEW):
        return list_pieces(place, chunk_size=chunk_size, views={view: view})
    return list_pieces(place, chunk_size=chunk_size)


def read_queries(queries: Any, view: str | None) -> Floats:
    """Return all queries in memory, of an array, a path, or data."""
    if isinstance(queries, str | PathLike):
        parts = read_pieces(list_vector_pieces(queries, view, 65_536))
        return np.concatenate([vectors_of(part, view, "queries", "query_view") for part in parts])
    if isinstance(queries, MultiViewData):
        return vectors_of(queries, view, "queries", "query_view")
    return _dense(as_matrix(queries, "queries"))


def vectors_of(data: MultiViewData, view: str | None, what: str, argument: str = "view") -> Floats:
    """Return the vectors of one view, which every item must have: (n_items, n) float32.

    Raises ViewError: there are several and none is named, or an item lacks it.
    """
    if view is None:
        if len(data.views) > 1:
            raise ViewError(
                f"the {what} have the views {', '.join(data.views)}; name one with `{argument}`"
            )
        view = next(iter(data.views))
    check_view(data, view, what)
    return _dense(data.views[view])


def check_view(data: MultiViewData, view: str, what: str) -> None:
    """Raise ViewError unless every one of the items, or queries, has a view."""
    if view not in data.views:
        raise ViewError(f"the {what} have no view {view!r}; theirs are {', '.join(data.views)}")
    present = data.present[view]
    if not present.all():
        lacking = f"{_ONE_OF[what]} {data.ids[int(np.argmin(present))]}"
        raise ViewError(f"{lacking} has no view {view!r}; leave it out, or take another view")


def _dense(matrix: Any) -> Floats:
    whole: Array = matrix.toarray() if is_sparse(matrix) else matrix
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(whole, dtype=np.float32)
    except FloatingPointError as error:
        raise ViewError(
            "a value is beyond 3.4e38, the largest in single precision; scale all vectors down"
        ) from error

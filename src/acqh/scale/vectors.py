"""Vectors of one kind from wherever they are, a chunk at a time, as often as they are needed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, as_matrix, is_sparse, slices
from acqh._core.runtime import Progress, limit_threads
from acqh.data import MultiViewData, Pieces, list_pieces, read_pieces
from acqh.errors import InvalidInputError, ViewError
from acqh.scale.chunks import Chunk, DaskViews, counter, is_dask_source, read_items
from acqh.scale.make_parts import reporter
from acqh.scale.sources import cut_on, cut_source
from acqh.scale.workers import call, carry, compute

T = TypeVar("T")
_ARRAY_VIEW = "vectors"
_CHUNKS_AT_A_TIME = 64
_ONE_OF = {"items": "item", "queries": "query"}


class Rows(NamedTuple):
    """Some vectors and the ids of their items."""

    vectors: Floats  # (n_items, n_components) float32
    ids: Array  # (n_items,)


# Endings of files that may have several views.
_SUFFIXES_OF_VIEWS = (".npz", ".parquet", ".pq", ".arrow", ".feather", ".ipc")


@dataclass(frozen=True)
class VectorSource:
    """Vectors in chunks."""

    sizes: tuple[int, ...]  # rows of each chunk
    # From a function of `Rows` and the number of a chunk, and what shows progress, to what the
    # function gives for each chunk.
    apply: Callable[[Callable[[Rows, int], Any], str, Progress | None], Iterator[Any]]

    @property
    def n_items(self) -> int:
        """Rows of all chunks."""
        return sum(self.sizes)

    def take(self, rows: Ints, progress: Progress | None) -> Floats:
        """Return some vectors, by their row numbers in rising order."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        cuts = np.searchsorted(rows, starts)
        wanted = [
            rows[cuts[number] : cuts[number + 1]] - starts[number]
            for number in range(len(self.sizes))
        ]
        return np.concatenate([*self.apply(partial(_take, wanted), "read", progress)])


def _take(wanted: Sequence[Ints], rows: Rows, number: int) -> Floats:
    return np.ascontiguousarray(rows.vectors[wanted[number]])


def vector_source(
    items: Any, *, view: str | None, ids: Any, chunk_size: int, client: Any
) -> VectorSource:
    """Look at where vectors are.

    `view`: which view, where there are several. `ids`: (n_items,); of the items of an array; else
    those of the source, or row numbers. `client`: whose workers do the work; an array in memory
    stays here. Raises InvalidInputError, ViewError: of no known kind, empty, or several views and
    none chosen.
    """
    if is_dask_source(items) and not isinstance(items, DaskViews):
        items = DaskViews({_ARRAY_VIEW: items})
    if isinstance(items, str | PathLike):
        items = list_vector_pieces(items, view, chunk_size)
    if not isinstance(items, MultiViewData | Pieces | DaskViews):
        matrix = as_matrix(items, "items")
        n_items = matrix.shape[0]
        numbers = np.arange(n_items) if ids is None else np.asarray(ids)
        if numbers.shape != (n_items,):
            raise InvalidInputError(
                f"ids have shape {numbers.shape}; give one for each of {n_items}"
            )
        read = partial(_rows_of_array, matrix, numbers, chunk_size)
        return VectorSource(_cut(n_items, chunk_size), partial(_apply, read, n_items))
    if ids is not None:
        raise InvalidInputError("ids are given along with an array; files have their own")
    if client is not None and not isinstance(items, MultiViewData):
        _, chunks = cut_on(client, items, chunk_size)
        sizes = tuple(chunk.n_rows or 0 for chunk in chunks)
        return VectorSource(sizes, partial(_apply_on, client, chunks, view))
    cut = cut_source(items, chunk_size)
    n_items = cut.n_items or 0
    sizes = tuple(map(len, items)) if isinstance(items, Pieces) else _cut(n_items, chunk_size)
    return VectorSource(
        sizes, partial(_apply, partial(_rows_of_data, items, view, chunk_size), n_items)
    )


def list_vector_pieces(path: str | PathLike[str], view: str | None, chunk_size: int) -> Pieces:
    """Cut a file into pieces; of a file of several views only the one wanted is read."""
    place = Path(path).absolute()
    has_views = place.is_dir() or place.suffix.lower() in _SUFFIXES_OF_VIEWS
    if view is not None and has_views:
        return list_pieces(place, chunk_size=chunk_size, views={view: view})
    return list_pieces(place, chunk_size=chunk_size)


def read_queries(queries: Any, view: str | None) -> Floats:
    """Return all queries in memory, of an array, a path, or data."""
    if isinstance(queries, str | PathLike):
        pieces = list_vector_pieces(queries, view, 65_536)
        parts = [
            only_view(part, view, "queries", "query_view").vectors for part in read_pieces(pieces)
        ]
        return np.concatenate(parts)
    if isinstance(queries, MultiViewData):
        return only_view(queries, view, "queries", "query_view").vectors
    return _dense(as_matrix(queries, "queries"))


def only_view(data: MultiViewData, view: str | None, what: str, argument: str = "view") -> Rows:
    """Return the vectors of one view, which every item must have.

    Raises ViewError: there are several and none is named, or an item lacks it.
    """
    if view is None or (view not in data.views and list(data.views) == [_ARRAY_VIEW]):
        if len(data.views) > 1:
            raise ViewError(
                f"the {what} have the views {', '.join(data.views)}; name one with `{argument}`"
            )
        view = next(iter(data.views))
    check_view(data, view, what)
    return Rows(_dense(data.views[view]), data.ids)


def check_view(data: MultiViewData, view: str, what: str) -> None:
    """Raise ViewError unless every one of the items, or queries, has a view."""
    if view not in data.views:
        raise ViewError(f"the {what} have no view {view!r}; theirs are {', '.join(data.views)}")
    present = data.present[view]
    if not present.all():
        lacking = f"{_ONE_OF[what]} {data.ids[int(np.argmin(present))]}"
        raise ViewError(f"{lacking} has no view {view!r}; leave it out, or take another view")


def _dense(matrix: Any) -> Floats:
    whole = matrix.toarray() if is_sparse(matrix) else matrix
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(whole, dtype=np.float32)
    except FloatingPointError as error:
        raise ViewError(
            "a value is beyond 3.4e38, the largest in single precision; scale all vectors down"
        ) from error


def _cut(n_rows: int, chunk_size: int) -> tuple[int, ...]:
    return tuple(block.stop - block.start for block in slices(n_rows, chunk_size))


def _rows_of_array(matrix: Any, ids: Array, chunk_size: int) -> Iterator[Rows]:
    for block in slices(len(ids), chunk_size):
        yield Rows(_dense(matrix[block]), ids[block])


def _rows_of_data(items: Any, view: str | None, chunk_size: int) -> Iterator[Rows]:
    for chunk in cut_source(items, chunk_size).read():
        rows = only_view(chunk, view, "items")
        # Not to be kept while the next ones are read.
        del chunk
        yield rows


def _apply(
    read: Callable[[], Iterator[Rows]],
    n_items: int,
    function: Callable[[Rows, int], T],
    what: str,
    progress: Progress | None,
) -> Iterator[T]:
    report, done = reporter(progress, n_items, f"items {what}"), 0
    for number, rows in enumerate(read()):
        yield function(rows, number)
        done += len(rows.vectors)
        report(done)


def _apply_on(
    client: Any,
    chunks: Sequence[Chunk],
    view: str | None,
    function: Callable[[Rows, int], T],
    what: str,
    progress: Progress | None,
) -> Iterator[T]:
    carried = carry(function)
    done = counter(chunks, progress, what)
    # Some at a time: what tasks give is not to gather here faster than it is used.
    for first in range(0, len(chunks), _CHUNKS_AT_A_TIME):
        some = chunks[first : first + _CHUNKS_AT_A_TIME]
        tasks = [
            call(_on_worker)(chunk.items, view, carried, number)
            for number, chunk in enumerate(some, start=first)
        ]
        names, tell = [chunk.name for chunk in some], partial(_shifted, done, first)
        yield from compute(client, tasks, names, result=call(list)(tasks), done=tell)


def _shifted(done: Callable[[int], None], first: int, number: int) -> None:
    done(first + number)


def _on_worker(items: Any, view: str | None, function: Callable[[Rows, int], T], number: int) -> T:
    read = read_items(items)
    if read is None:
        raise InvalidInputError("there are no items, but some when they were counted")
    # A worker runs a task on each of its threads.
    with limit_threads(1):
        return function(only_view(read, view, "items"), number)

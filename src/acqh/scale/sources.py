"""Where items come from, in pieces: files, data in memory, or chunks one after the other."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Floats, as_matrix, check_positive_int, is_sparse
from acqh._core.runtime import Progress
from acqh.data import MultiViewData, list_pieces, read_pieces
from acqh.data.readers.pieces import Piece, Pieces
from acqh.errors import InvalidInputError, ViewError

Source: TypeAlias = (
    str
    | PathLike[str]
    | Sequence[str | PathLike[str]]
    | Sequence[Piece]
    | MultiViewData
    | Iterable[MultiViewData]
)
# What the view of an array without a name is called.
_ARRAY_VIEW = "items"
_ONE_OF = {"items": "item", "queries": "query"}
# Formats of which one view can be read alone.
_BY_VIEW = (".npz", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".hdf5", ".h5")


@dataclass(frozen=True)
class Held:
    """A piece that is in memory."""

    data: MultiViewData

    def __len__(self) -> int:
        return len(self.data)

    def read(self) -> MultiViewData:
        """Return the rows."""
        return self.data


class Cut(NamedTuple):
    """A source cut into pieces."""

    pieces: Iterable[Any]  # a sequence, unless chunks come one after the other
    n_items: int | None  # None: not known before all are read
    chunk_size: int | None  # None: the source decided
    # Tells one state of files from another; None where there are no files.
    fingerprint: str | None = None


def cut_source(source: Any, chunk_size: int, client: Any = None) -> Cut:
    """Look at a source, and cut it unless it comes in pieces.

    `client`: of workers that are to read it. Raises InvalidInputError: it is none of the known
    kinds, or nothing that workers can read.
    """
    check_positive_int(chunk_size, "chunk_size")
    listed = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    if isinstance(source, Pieces):
        return Cut(source, source.n_items, None, source.fingerprint())
    if listed and all(isinstance(each, str | PathLike) for each in listed):
        # Absolute: processes that read the pieces may have another working directory.
        paths = [Path(each).absolute() for each in listed]
        pieces = list_pieces(paths if listed is source else paths[0], chunk_size=chunk_size)
        return Cut(pieces, pieces.n_items, chunk_size, pieces.fingerprint())
    if listed is source and listed and all(hasattr(each, "read") for each in listed):
        return Cut(source, sum(map(len, source)), None)
    if client is not None:
        raise InvalidInputError(
            f"a cluster reads paths and pieces of files, not {type(source).__name__}; write the "
            "items to files that all workers see"
        )
    if isinstance(source, MultiViewData):
        return Cut([Held(rows) for rows in source.chunks(chunk_size)], len(source), chunk_size)
    if not isinstance(source, Iterable):
        raise InvalidInputError(
            "the source must be a path, pieces of files, MultiViewData or an iterable of them, not "
            f"{type(source).__name__}"
        )
    return Cut(_held(source), None, None)


def _held(chunks: Iterable[Any]) -> Iterator[Held]:
    for chunk in chunks:
        if not isinstance(chunk, MultiViewData):
            raise InvalidInputError(f"chunks must be MultiViewData, got {type(chunk).__name__}")
        yield Held(chunk)
        # Not to be kept while the next one is read.
        del chunk


def cut_vectors(items: Any, view: str | None, ids: Any, chunk_size: int, client: Any = None) -> Cut:
    """Look at where vectors are: in an array, or what `cut_source` takes.

    `view`: which view, where there are several. `ids`: (n_items,); of the items of an array; else
    those of the source, or row numbers. Raises InvalidInputError, ViewError: of no known kind.
    """
    if isinstance(items, str | PathLike):
        items = list_vector_pieces(items, view, chunk_size)
    if isinstance(items, MultiViewData | Pieces):
        if ids is not None:
            raise InvalidInputError("ids are given along with an array; files have their own")
        return cut_source(items, chunk_size, client if isinstance(items, Pieces) else None)
    matrix = as_matrix(items, "items")
    if ids is not None and np.shape(ids) != matrix.shape[:1]:
        raise InvalidInputError(
            f"ids have shape {np.shape(ids)}; give one for each of {matrix.shape[0]}"
        )
    return cut_source(MultiViewData({_ARRAY_VIEW: matrix}, ids=ids), chunk_size)


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
    if view is None or (view not in data.views and list(data.views) == [_ARRAY_VIEW]):
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


def tell(progress: Progress | None, done: int, total: int | None, what: str) -> None:
    """Say how many items are done, if anyone asks."""
    if progress is not None:
        progress(done, total, f"{done:,} {what}")

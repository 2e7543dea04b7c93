"""A source of items in chunks, and the vectors of one view of it."""

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, repeat
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Floats, as_matrix, check_positive_int, is_sparse, slices
from acqh._core.device import check_device
from acqh._core.files import atomic_write, check_target
from acqh._core.runtime import Progress
from acqh.data import MultiViewData, list_chunks, read_chunks
from acqh.data.readers.chunks import Chunk, Chunks
from acqh.errors import InvalidInputError, ViewError
from acqh.index.ids import read_ids
from acqh.index.rerank import shrink_vectors
from acqh.scale.cluster import DaskExecutor, Function, Task

Source: TypeAlias = (
    str
    | PathLike[str]
    | Sequence[str | PathLike[str]]
    | Sequence[Chunk]
    | MultiViewData
    | Iterable[MultiViewData]
)
_ONE_OF = {"items": "item", "queries": "query"}
# Formats that can be read one view at a time.
_BY_VIEW = (".npz", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".hdf5", ".h5")


@dataclass
class ChunkedSource:
    """Items in chunks, and the executor that processes them."""

    # MultiViewData, or objects with a length and a method `read`; a sequence if all are known.
    chunks: Iterable[Any]
    n_items: int | None  # None: unknown until all chunks are read
    progress: Progress | None = None
    dask: DaskExecutor | None = None  # None: in this process
    chunk_size: int | None = None  # None: determined by the source
    # Changes with the files; None without files.
    fingerprint: str | None = None
    n_done: int = 0

    def map(self, function: Function, text: str, tasks: Iterable[Task] | None = None) -> Any:
        """Yield `function(items, argument)` of each chunk, in order; report progress.

        `text`: of progress reports. `tasks`: pairs of a chunk and an argument. Default: all chunks,
        with None.
        """
        tasks = zip(self.chunks, repeat(None), strict=False) if tasks is None else tasks
        work = _map_here if self.dask is None else self.dask.map
        for n_items, result in work(function, tasks):
            yield result
            del result
            self.report(text, n_items)

    def report(self, text: str, n_more: int = 0) -> None:
        """Count more items as done, and report them."""
        self.n_done += n_more
        if self.progress is not None:
            self.progress(self.n_done, self.n_items, f"{self.n_done:,} {text}")


def _map_here(function: Function, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
    """Yield the length of each chunk and the result; a thread reads the next chunk of a file."""
    tasks = iter(tasks)
    ahead = [*next(tasks, ())]
    if ahead and isinstance(ahead[0], Chunk):
        arguments = deque[Any]()

        def remaining() -> Iterator[Chunk]:
            for chunk, argument in chain([ahead], tasks):
                arguments.append(argument)
                yield chunk

        with closing(read_chunks(remaining(), prefetch=True)) as reader:
            for items in reader:
                yield len(items), function(items, arguments.popleft())
                del items  # free its memory before the next one is read
        return
    while ahead:
        chunk, argument = ahead
        ahead.clear()
        items = chunk if isinstance(chunk, MultiViewData) else chunk.read()
        yield len(chunk), function(items, argument)
        del chunk, items
        ahead += next(tasks, ())


def chunk_source(
    source: Any, chunk_size: int, client: Any = None, progress: Progress | None = None
) -> ChunkedSource:
    """Split a source into chunks, unless it consists of chunks.

    `client`: client of a cluster whose workers read the source. Raises InvalidInputError: the
    type of the source is unknown, or workers cannot read it. Raises ClusterError: no workers.
    """
    check_positive_int(chunk_size, "chunk_size")
    dask = None if client is None else DaskExecutor(client)
    listed = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    if listed and all(isinstance(path, str | PathLike) for path in listed):
        # Absolute: processes that read the chunks may have another working directory.
        paths = [Path(path).absolute() for path in listed]
        files = list_chunks(paths if listed is source else paths[0], chunk_size=chunk_size)
        prints = files.fingerprint()
        return ChunkedSource(files, files.n_items, progress, dask, chunk_size, prints)
    if isinstance(source, Chunks):
        return ChunkedSource(source, source.n_items, progress, dask, None, source.fingerprint())
    if listed is source and listed and all(hasattr(path, "read") for path in listed):
        return ChunkedSource(source, sum(map(len, source)), progress, dask)
    if client is not None:
        raise InvalidInputError(
            f"a cluster reads paths and chunks of files, not {type(source).__name__}; write the "
            "items to files that all workers see"
        )
    if isinstance(source, MultiViewData):
        chunks = [*source.chunks(chunk_size)]
        return ChunkedSource(chunks, len(source), progress, chunk_size=chunk_size)
    if not isinstance(source, Iterable):
        raise InvalidInputError(
            "the source must be a path, chunks of files, MultiViewData or an iterable of them, not "
            f"{type(source).__name__}"
        )
    return ChunkedSource(map(_check_chunk, source), None, progress)


def _check_chunk(chunk: Any) -> MultiViewData:
    if not isinstance(chunk, MultiViewData):
        raise InvalidInputError(f"chunks must be MultiViewData, got {type(chunk).__name__}")
    return chunk


def device_argument(method: Callable[..., Any], device: str | None, client: Any) -> dict[str, str]:
    """Return the keyword argument that runs a method on a device, or none.

    Raises InvalidInputError: the method runs on the CPU only, or on a cluster. Raises DeviceError:
    the device is not available.
    """
    if device is None:
        return {}
    if client is not None:
        raise InvalidInputError("workers choose where they work; give a device or a cluster")
    if "device" not in inspect.signature(method).parameters:
        raise InvalidInputError(f"{method.__qualname__} works on the CPU; leave the device out")
    check_device(device)
    return {"device": device}


# -- vectors ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """Rows of a matrix in memory, and their ids."""

    matrix: Any
    ids: Array
    rows: slice

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    def read(self) -> tuple[Array, Floats]:
        return self.ids[self.rows], _dense(self.matrix[self.rows])


def vector_source(
    items: Any, view: str | None, ids: Any, chunk_size: int, client: Any, progress: Progress | None
) -> ChunkedSource:
    """Split vectors into chunks; `items` is an array or a source of `chunk_source`.

    `view`: name of the view, if there are several. `ids`: ids of the rows of an array, (n_items,).
    Use `read_vectors` to read a chunk. Raises InvalidInputError, ViewError: the type of the items
    is unknown.
    """
    if isinstance(items, str | PathLike):
        items = list_vector_chunks(items, view, chunk_size)
    if isinstance(items, MultiViewData | Chunks):
        if ids is not None:
            raise InvalidInputError("ids are given along with an array; files have their own")
        client = client if isinstance(items, Chunks) else None
        return chunk_source(items, chunk_size, client, progress)
    check_positive_int(chunk_size, "chunk_size")
    if view is not None:
        raise InvalidInputError("an array has no views; remove view=")
    matrix = as_matrix(items, "items")
    n_items = matrix.shape[0]
    ids = np.arange(n_items) if ids is None else read_ids(ids)
    if len(ids) != n_items:
        raise InvalidInputError(f"there are {len(ids)} ids; give one for each of {n_items} items")
    chunks = [_Rows(matrix, ids, rows) for rows in slices(n_items, chunk_size)]
    return ChunkedSource(chunks, n_items, progress)


def read_vectors(chunk: Any, view: str | None) -> tuple[Array, Floats]:
    """Return the ids and the vectors, (n_items, n) float32, of a chunk of a `vector_source`."""
    return chunk if isinstance(chunk, tuple) else (chunk.ids, vectors_of(chunk, view, "items"))


def list_vector_chunks(path: str | PathLike[str], view: str | None, chunk_size: int) -> Chunks:
    """Split a file into chunks; only the requested view of a file is read."""
    place = Path(path).absolute()
    if view is not None and (place.is_dir() or place.suffix.lower() in _BY_VIEW):
        return list_chunks(place, chunk_size=chunk_size, views={view: view})
    return list_chunks(place, chunk_size=chunk_size)


def read_queries(queries: Any, view: str | None) -> Floats:
    """Return all queries of an array, a path or data, in memory."""
    if isinstance(queries, str | PathLike):
        parts = read_chunks(list_vector_chunks(queries, view, 65_536))
        return np.concatenate([vectors_of(part, view, "queries", "query_view=") for part in parts])
    if isinstance(queries, MultiViewData):
        return vectors_of(queries, view, "queries", "query_view=")
    return _dense(as_matrix(queries, "queries"))


def keep_vectors(
    items: Any,
    path: str | PathLike[str],
    dtype: Literal["float16", "int8"] = "float16",
    *,
    view: str | None = None,
    chunk_size: int = 16_384,
    progress: Progress | None = None,
    overwrite: bool = False,
) -> int:
    """Write vectors to a .npy file to re-rank by, in two bytes or one byte per dimension.

    Parameters
    ----------
    items : array, path-like, Chunks, or MultiViewData
        See `compress`.
    path : path-like
        A new file ``.npy``. Search with ``rerank=path``.
    dtype : {"float16", "int8"}
        int8 has a scale per vector.
    view : str, optional
        View, column or array of a file that has several.
    chunk_size : int, default 16,384
        Items in memory at a time.
    progress : callable, optional
        Called with the number of items done, their number, and a text.
    overwrite : bool, default False
        Replace the file if it exists.

    Returns
    -------
    int
        Number of bytes written.

    Raises
    ------
    InvalidInputError
        A value is beyond float16.
    FileExistsError
        The file exists, and `overwrite` is False.
    ViewError, CorruptBundleError
        See `compress`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keep_vectors(np.eye(3), folder + "/full.npy")
    ...     np.load(folder + "/full.npy").dtype
    146
    dtype('float16')
    """
    target = check_target(path, overwrite=overwrite)
    source = vector_source(items, view, None, chunk_size, None, progress)
    with atomic_write(target) as temporary, temporary.open("wb") as file:
        chunks = source.map(lambda chunk, _: read_vectors(chunk, view)[1], "items kept")
        for number, vectors in enumerate(chunks):
            shrunk = shrink_vectors(vectors, dtype)
            if number == 0:
                shape = source.n_items, *shrunk.shape[1:]
                header: dict[str, Any] = {"shape": shape, "fortran_order": False}
                header["descr"] = np.lib.format.dtype_to_descr(shrunk.dtype)
                np.lib.format.write_array_header_1_0(file, header)
            file.write(shrunk.tobytes())
    return target.stat().st_size


def vectors_of(data: MultiViewData, view: str | None, name: str, argument: str = "view=") -> Floats:
    """Return the vectors of one view, which every item must have: (n_items, n) float32.

    Raises ViewError: there are several views and none is selected, or an item lacks the view.
    """
    if view is None:
        if len(data.views) > 1:
            raise ViewError(
                f"the {name} have the views {', '.join(data.views)}; name one with {argument}"
            )
        view = next(iter(data.views))
    check_view(data, view, name)
    return _dense(data.views[view])


def check_view(data: MultiViewData, view: str, name: str) -> None:
    """Raise ViewError unless all items or queries have a view."""
    if view not in data.views:
        raise ViewError(f"the {name} have no view {view!r}; theirs are {', '.join(data.views)}")
    present = data.present[view]
    if not present.all():
        lacking = f"{_ONE_OF[name]} {data.ids[int(np.argmin(present))]}"
        raise ViewError(f"{lacking} has no view {view!r}; drop it, or use another view")


def _dense(matrix: Any) -> Floats:
    dense: Array = matrix.toarray() if is_sparse(matrix) else matrix
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(dense, dtype=np.float32)
    except FloatingPointError as error:
        raise ViewError(
            "a value is beyond 3.4e38, the largest in single precision; scale all vectors down"
        ) from error

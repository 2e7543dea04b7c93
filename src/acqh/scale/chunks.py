"""Sources cut into what one task reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from acqh._core.imports import require
from acqh._core.runtime import Progress
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, ViewError
from acqh.scale.workers import call, compute


@dataclass(frozen=True)
class DaskViews:
    """Paired views, labels and ids as Dask arrays, whose chunks of rows may differ.

    Parameters
    ----------
    views : mapping of str to dask.array.Array, (n_items, n_features)
    labels : dask.array.Array, optional
        A 0/1 matrix (n_items, n_labels).
    ids : dask.array.Array, (n_items,), optional
        All different; 0, 1, 2, ... by default.
    label_names : sequence of str, optional
        Names of the label columns.

    Examples
    --------
    >>> import dask.array as da
    >>> DaskViews({"image": da.ones((6, 2), chunks=3), "text": da.ones((6, 4), chunks=2)})
    <DaskViews: image, text>
    """

    views: Mapping[str, Any]
    labels: Any = None
    ids: Any = None
    label_names: Sequence[str] | None = None

    def __repr__(self) -> str:
        return f"<DaskViews: {', '.join(self.views)}>"


@dataclass(frozen=True)
class Chunk:
    """Consecutive items that one task reads.

    Attributes
    ----------
    name : str
        For people.
    items : Piece, or Delayed
        The latter gives MultiViewData, or None where there are no items.
    n_rows : int or None
        None: not known before the items are read.
    """

    name: str
    items: Any
    n_rows: int | None


def read_items(items: Any) -> MultiViewData | None:
    """Return the items of a chunk; called by workers."""
    if items is None or isinstance(items, MultiViewData):
        return items
    read: MultiViewData = items.read()
    return read


def is_dask_source(source: Any) -> bool:
    """Tell whether a source is of Dask's own kinds, which only a client can compute."""
    return isinstance(source, DaskViews) or hasattr(source, "__dask_graph__")


def list_chunks(source: Any) -> list[Chunk]:
    """Return what each task has to read, of Dask's own collections or of pieces.

    Raises InvalidInputError: a source of another kind, or without chunks. Raises ViewError: dask
    arrays of different numbers of rows.
    """
    if isinstance(source, DaskViews):
        chunks = _cut_arrays(source)
    elif is_dask_source(source):
        chunks = _list_partitions(source)
    elif isinstance(source, Sequence) and all(hasattr(piece, "read") for piece in source):
        chunks = [Chunk(repr(piece), piece, len(piece)) for piece in source]
    else:
        raise InvalidInputError(
            "a cluster reads paths, pieces of files, DaskViews and bags, not "
            f"{type(source).__name__}; write the items to files that all workers see"
        )
    if not chunks:
        raise InvalidInputError("there are no items: the source is empty")
    return chunks


def _list_partitions(source: Any) -> list[Chunk]:
    if not isinstance(source, require("dask.bag").Bag):
        raise InvalidInputError(
            "of Dask's collections the source must be a bag of MultiViewData or DaskViews, not "
            f"{type(source).__name__}"
        )
    join = call(_join)
    return [
        Chunk(f"partition {number} of the bag", join(partition), None)
        for number, partition in enumerate(source.to_delayed())
    ]


def _cut_arrays(source: DaskViews) -> list[Chunk]:
    """Cut all arrays at the row boundaries of the first view."""
    arrays = {f"view '{name}'": array for name, array in source.views.items()}
    arrays |= {"labels": source.labels} if source.labels is not None else {}
    arrays |= {"ids": source.ids} if source.ids is not None else {}
    if not source.views:
        raise ViewError("there are no views; give at least one")
    for what, array in arrays.items():
        _check_array(array, what)
    rows = next(iter(arrays.values())).chunks[0]
    blocks = {}
    for what, array in arrays.items():
        if len(array) != sum(rows):
            raise ViewError(f"{what} has {len(array)} rows, not {sum(rows)} as the first view")
        whole = dict.fromkeys(range(1, array.ndim), -1)
        blocks[what] = array.rechunk({0: rows, **whole}).to_delayed().ravel().tolist()
    pair = call(MultiViewData)
    return [
        Chunk(
            f"rows {first} to {first + n_rows - 1} of the arrays",
            pair(
                {name: blocks[f"view '{name}'"][number] for name in source.views},
                blocks["labels"][number] if "labels" in blocks else None,
                ids=blocks["ids"][number] if "ids" in blocks else range(first, first + n_rows),
                label_names=source.label_names,
            ),
            n_rows,
        )
        for number, (first, n_rows) in enumerate(
            zip(accumulate(rows, initial=0), rows, strict=False)
        )
        if n_rows > 0
    ]


def _check_array(array: Any, what: str) -> None:
    if not isinstance(array, require("dask.array").Array):
        raise InvalidInputError(f"{what} must be a Dask array, not {type(array).__name__}")
    if np.isnan(array.shape[0]):
        raise InvalidInputError(
            f"{what} does not know its number of rows; call its compute_chunk_sizes() before"
        )


def _join(partition: Any) -> MultiViewData | None:
    """Return the data of a bag's partition as one, or None if there are none."""
    parts = list(partition)
    for part in parts:
        if not isinstance(part, MultiViewData):
            raise InvalidInputError(f"a bag's elements must be MultiViewData, not {type(part)}")
    return MultiViewData.concat(parts) if parts else None


def count_rows(client: Any, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the chunks that have items and say how many; those that do not are read for it."""
    if all(chunk.n_rows is not None for chunk in chunks):
        return list(chunks)
    counts = [call(_count)(chunk.items) for chunk in chunks]
    names = [chunk.name for chunk in chunks]
    sizes = compute(client, counts, names, result=call(list)(counts))
    counted = zip(chunks, sizes, strict=True)
    return [replace(chunk, n_rows=size) for chunk, size in counted if size > 0]


def _count(items: Any) -> int:
    part = read_items(items)
    return 0 if part is None else len(part)


def counter(
    chunks: Sequence[Chunk], progress: Progress | None, what: str, items: str = "items"
) -> Callable[[int], None]:
    """Return what `compute` can call to show how many items, or else chunks, are done."""
    sizes = [chunk.n_rows for chunk in chunks]
    known = [size for size in sizes if size is not None]
    unit = items if len(known) == len(sizes) else "partitions"
    weights = known if unit == items else [1] * len(sizes)
    done = 0

    def show(number: int) -> None:
        nonlocal done
        done += weights[number]
        if progress is not None:
            progress(done, sum(weights), f"{done:,} {unit} {what}")

    return show

"""Coding a source chunk by chunk, so that a killed run goes on where it stopped."""

import socket
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import accumulate, count
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Array, check_positive_int
from acqh._core.errors import ClusterError, CorruptBundleError, InvalidInputError, LabelError
from acqh.data import MultiViewData, Piece, list_pieces, read_chunks, read_pieces
from acqh.methods import fingerprint
from acqh.scale._dask import (
    Chunk,
    Progress,
    call,
    carry,
    check_workers,
    compute,
    count_rows,
    counter,
    is_dask_source,
    list_chunks,
    read_items,
)
from acqh.scale._parts import CodePart, CodeParts, Place, Plan, part_path, read_part, write_part

Source: TypeAlias = str | PathLike[str] | MultiViewData | Iterable[MultiViewData]


def encode_parts(
    model: Any,
    source: Source,
    out: str | PathLike[str],
    *,
    by_labels: bool = False,
    chunk_size: int = 65_536,
    client: Any = None,
    progress: Progress | None = None,
) -> CodeParts:
    """Code items into a folder, a chunk at a time, each chunk a part of its own.

    A part is there whole or not at all. Run again after whatever stopped it, with the same
    arguments, this codes only the parts that are not there yet; the source is read from its
    beginning all the same. What is in memory depends on the chunk size, not on the number of items.

    Parameters
    ----------
    model : BaseMethod
        Fitted.
    source : path-like, MultiViewData, or iterable of MultiViewData
        A path that `acqh.data.read_chunks` takes; or the chunks, each of which becomes a part.
    out : path-like
        The folder; made if it is not there. Its parent must exist.
    by_labels : bool, default False
        Code items that have labels by these.
    chunk_size : int, default 65,536
        Items of a part; not used where the source comes in chunks.
    client : distributed.Client, optional
        Whose workers read the source and write the parts; they must see both under the same paths.
        The source is then what `acqh.scale.fit` takes with a client. A folder begun without a
        client can be finished with one, and the other way round.
    progress : callable, optional
        Called after each part with the number of items done, None, and a text.

    Returns
    -------
    CodeParts

    Raises
    ------
    InvalidInputError
        There are no items; or the folder was begun with another model, another `by_labels`,
        another chunk size, or other items (their number in each part and their ids are compared,
        their features are not).
    CorruptBundleError
        A part that is there is damaged.
    LabelError, ViewError
        Items that the model cannot code.
    FileExistsError
        The folder has something else in it.
    ClusterError
        The cluster cannot do the work, or has lost it.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     encode_parts(model, data, folder + "/codes", chunk_size=20)
    <CodeParts: 50 items in 3 parts, 2 bytes an item>
    """
    check_positive_int(chunk_size, "chunk_size")
    folder = Path(out).absolute()
    plan = Plan(
        fingerprint(model),
        by_labels,
        chunk_size if _is_cut_here(source) else None,
        model.bytes_per_item,
    )
    if client is None:
        chunks = read_source(source, chunk_size)
        plan.begin(folder)
        n_items, n_parts = _code_here(model, chunks, folder, plan, progress)
    else:
        check_workers(client)
        listed = count_rows(client, list_chunks(source, chunk_size))
        plan.begin(folder)
        n_items, n_parts = _code_on_workers(client, model, listed, folder, plan, progress)
    if n_items == 0:
        raise InvalidInputError("there are no items to code: the source is empty")
    if part_path(folder, n_parts).exists():
        raise InvalidInputError(
            f"{folder} has parts after the {n_items} items of the source; they are of another "
            "source: choose another folder"
        )
    plan.finish(folder, n_items, n_parts)
    return CodeParts(folder)


def _code_here(
    model: Any, chunks: Iterator[MultiViewData], folder: Path, plan: Plan, progress: Progress | None
) -> tuple[int, int]:
    """Code chunks one after the other; return how many items and parts there are."""
    n_items = n_parts = 0
    for chunk in chunks:
        _code_part(model, chunk, Place(n_parts, n_items, len(chunk)), folder, plan)
        n_items, n_parts = n_items + len(chunk), n_parts + 1
        if progress is not None:
            progress(n_items, None, f"{n_items:,} items coded")
    return n_items, n_parts


def _code_on_workers(
    client: Any,
    model: Any,
    chunks: Sequence[Chunk],
    folder: Path,
    plan: Plan,
    progress: Progress | None,
) -> tuple[int, int]:
    """Have the workers code chunks; return how many items and parts there are."""
    sizes = [chunk.n_rows or 0 for chunk in chunks]
    first_rows = accumulate(sizes, initial=0)
    places = [Place(*each) for each in zip(count(), first_rows, sizes, strict=False)]
    slim = copy(model)
    # The sums that it was learnt from can be large, and coding needs none.
    vars(slim).pop("stats_", None)
    carried = carry(slim)
    tasks = [
        call(_code_part)(carried, chunk.items, place, folder, plan)
        for chunk, place in zip(chunks, places, strict=True)
    ]
    names = [chunk.name for chunk in chunks]
    compute(client, tasks, names, done=counter(chunks, progress, "coded"))
    return sum(sizes), len(sizes)


def _code_part(model: Any, items: Any, place: Place, folder: Path, plan: Plan) -> None:
    """Code the items of one part, unless it is there already."""
    if not folder.is_dir():
        raise ClusterError(
            f"worker {socket.gethostname()} sees no folder {folder}; it must be on a file system "
            "that all workers share, under the same path"
        )
    chunk = read_items(items)
    if chunk is None:
        raise InvalidInputError(f"there are no items, but {place.n_rows} when they were counted")
    if not _is_coded(folder, place, plan, chunk.ids):
        codes = encode_chunk(model, chunk, by_labels=plan.by_labels)
        write_part(folder, place, plan.model, CodePart(codes, chunk.ids))


def encode_chunk(model: Any, items: MultiViewData, *, by_labels: bool = False) -> Array:
    """Code items by all the views they have, or by their labels.

    Parameters
    ----------
    model : BaseMethod
        Fitted.
    items : MultiViewData
    by_labels : bool, default False
        Code items that have labels by these.

    Returns
    -------
    (n_items, bytes_per_item) uint8

    Raises
    ------
    LabelError
        By labels, but there are none, or they are not those of the model.
    ViewError
        Views that the model was not fitted to.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data)
    >>> encode_chunk(model, data, by_labels=True).shape
    (50, 2)
    """
    if not by_labels:
        mode = "hashed" if len(items.views) == 1 else "unified"
        return np.asarray(model.encode(items, mode=mode))
    if items.labels is None:
        raise LabelError("the items have no labels; code them by their views")
    if tuple(items.label_names) != tuple(model.label_names_):
        raise LabelError(
            f"the items' labels are {_some(items.label_names)}, those of the model "
            f"{_some(model.label_names_)}; they must be the same, in the same order"
        )
    return np.asarray(model.encode(items, labels=items.labels))


def _is_coded(folder: Path, place: Place, plan: Plan, ids: Array) -> bool:
    """Whether the part of these items is there already; raises where it is another or damaged."""
    path = place.path(folder)
    try:
        there, part = read_part(path, plan.model)
    except FileNotFoundError:
        return False
    except CorruptBundleError as error:
        raise CorruptBundleError(f"{error}; remove {path} to have it coded again") from error
    if there != place or not np.array_equal(part.ids, ids):
        raise InvalidInputError(
            f"{path} holds other items than the source has there: {there.n_rows} from row "
            f"{there.first_row}, not {place.n_rows} from row {place.first_row}, or other ids; give "
            "the same source, cut alike, or choose another folder"
        )
    return True


def _is_cut_here(source: Any) -> bool:
    """Whether the chunk size decides how many items a part has."""
    if isinstance(source, str | PathLike | MultiViewData):
        return True
    return isinstance(source, Sequence) and all(isinstance(path, str | PathLike) for path in source)


def read_source(source: Source, chunk_size: int) -> Iterator[MultiViewData]:
    """Yield the chunks of a source."""
    if is_dask_source(source):
        raise InvalidInputError("Dask arrays and bags are read by workers only; give a client")
    if isinstance(source, str | PathLike):
        return read_chunks(fspath(source), chunk_size=chunk_size)
    if isinstance(source, MultiViewData):
        return source.chunks(chunk_size)
    if not isinstance(source, Iterable):
        raise InvalidInputError(
            "the source must be a path, MultiViewData or an iterable of them, not "
            f"{type(source).__name__}"
        )
    if isinstance(source, Sequence) and source and _is_cut_here(source):
        return read_pieces(list_pieces(source, chunk_size=chunk_size))
    return _checked(source)


def _checked(chunks: Iterable[Any]) -> Iterator[MultiViewData]:
    for each in chunks:
        chunk = each.read() if isinstance(each, Piece) else each
        if not isinstance(chunk, MultiViewData):
            raise InvalidInputError(f"chunks must be MultiViewData, got {type(chunk).__name__}")
        yield chunk


def _some(names: Sequence[str]) -> str:
    return ", ".join([*map(repr, names[:5]), *(["..."] if len(names) > 5 else [])])

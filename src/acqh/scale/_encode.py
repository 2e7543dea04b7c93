"""Coding a source chunk by chunk, so that a killed run goes on where it stopped."""

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Array, check_positive_int
from acqh._core.errors import CorruptBundleError, InvalidInputError, LabelError
from acqh.data import MultiViewData, read_chunks
from acqh.methods import fingerprint
from acqh.scale._dask import Progress
from acqh.scale._parts import CodePart, CodeParts, Place, Plan, part_path, read_part, write_part

Source: TypeAlias = str | PathLike[str] | MultiViewData | Iterable[MultiViewData]


def encode_parts(
    model: Any,
    source: Source,
    out: str | PathLike[str],
    *,
    by_labels: bool = False,
    chunk_size: int = 65_536,
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
    folder = Path(out)
    chunks = read_source(source, chunk_size)
    cut_here = isinstance(source, str | PathLike | MultiViewData)
    plan = Plan(
        fingerprint(model), by_labels, chunk_size if cut_here else None, model.bytes_per_item
    )
    plan.begin(folder)
    n_items = n_parts = 0
    for chunk in chunks:
        place = Place(n_parts, n_items, len(chunk))
        if not _is_coded(folder, place, plan, chunk.ids):
            codes = encode_chunk(model, chunk, by_labels=by_labels)
            write_part(folder, place, plan.model, CodePart(codes, chunk.ids))
        n_items, n_parts = n_items + len(chunk), n_parts + 1
        if progress is not None:
            progress(n_items, None, f"{n_items:,} items coded")
    if n_items == 0:
        raise InvalidInputError("there are no items to code: the source is empty")
    if part_path(folder, n_parts).exists():
        raise InvalidInputError(
            f"{folder} has parts after the {n_items} items of the source; they are of another "
            "source: choose another folder"
        )
    plan.finish(folder, n_items, n_parts)
    return CodeParts(folder)


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


def read_source(source: Source, chunk_size: int) -> Iterator[MultiViewData]:
    """Yield the chunks of a source."""
    if isinstance(source, str | PathLike):
        return read_chunks(fspath(source), chunk_size=chunk_size)
    if isinstance(source, MultiViewData):
        return source.chunks(chunk_size)
    if not isinstance(source, Iterable):
        raise InvalidInputError(
            "the source must be a path, MultiViewData or an iterable of them, not "
            f"{type(source).__name__}"
        )
    return _checked(source)


def _checked(chunks: Iterable[Any]) -> Iterator[MultiViewData]:
    for chunk in chunks:
        if not isinstance(chunk, MultiViewData):
            raise InvalidInputError(f"chunks must be MultiViewData, got {type(chunk).__name__}")
        yield chunk


def _some(names: Sequence[str]) -> str:
    return ", ".join([*map(repr, names[:5]), *(["..."] if len(names) > 5 else [])])

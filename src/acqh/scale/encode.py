"""Coding a source chunk by chunk, so that a killed run goes on where it stopped."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import Progress
from acqh.data import MultiViewData
from acqh.errors import LabelError
from acqh.methods import fingerprint
from acqh.scale.parts import CodePart, CodeParts, PartFolder, Place, Plan
from acqh.scale.sources import Source, cut_source, tell
from acqh.scale.workers import Task, on_device, slim, workers_of


def encode_parts(
    model: Any,
    source: Source,
    out: str | PathLike[str],
    *,
    by_labels: bool = False,
    chunk_size: int = 65_536,
    device: str | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> CodeParts:
    """Code items into a folder, a chunk at a time, each chunk a part of its own.

    A part is there whole or not at all. Run again after whatever stopped it, with the same
    arguments, this reads and codes only what has no part yet; only chunks given one after the other
    have to be gone through again. What is in memory depends on the chunk size, not on the number of
    items.

    Parameters
    ----------
    model : BaseMethod
        Fitted.
    source : path-like, sequence of Piece, MultiViewData, or iterable of MultiViewData
        A path that `acqh.data.list_pieces` takes, pieces, or chunks, each of which becomes a part.
    out : path-like
        The folder; created if it does not exist. Its parent must exist.
    by_labels : bool, default False
        Code items that have labels by these.
    chunk_size : int, default 65,536
        Items of a part; not used where the source comes in chunks.
    device : str, optional
        Of torch, such as ``"cuda"``, to code on; not with a client.
    client : distributed.Client, optional
        Whose workers read the source and write the parts; they must see both under the same paths.
        The source is then what `acqh.scale.fit` takes with a client. A folder begun without a
        client can be finished with one, and the other way round.
    progress : callable, optional
        Called after each part with the number of items done, their number (None: not known), and
        a text.

    Returns
    -------
    CodeParts

    Raises
    ------
    InvalidInputError
        There are no items; or the folder was begun with another model, another `by_labels`,
        another chunk size, or another source: other names, sizes or times of modification of its
        files, other numbers of rows, or, of chunks in memory, other ids.
    CorruptBundleError
        A part that is there is damaged.
    LabelError, ViewError
        Items that the model cannot code.
    FileExistsError
        The folder has something else in it.
    DeviceError
        The device is not available.
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
    <CodeParts: 50 items in 3 parts, 2 bytes per item>
    """
    how = on_device(model.encode, device, client)
    workers, cut = workers_of(client), cut_source(source, chunk_size, client)
    plan = Plan(
        model=fingerprint(model),
        by_labels=by_labels,
        bytes_per_item=model.bytes_per_item,
        chunk_size=cut.chunk_size,
        source=cut.fingerprint,
    )
    folder = PartFolder(Path(out).absolute(), plan)
    folder.begin()
    n_items, n_parts, n_done = 0, 0, 0

    def missing() -> Iterator[Task]:
        nonlocal n_items, n_parts, n_done
        for piece, place, is_there in folder.places(cut.pieces):
            n_items, n_parts = n_items + place.n_rows, n_parts + 1
            n_done += place.n_rows if is_there else 0
            if not is_there:
                yield piece, place
            # Not to be kept while the next one is read.
            del piece

    tasks: Iterable[Task] = missing()
    if isinstance(cut.pieces, Sequence):  # what there is can be told before the work begins
        tasks = list(tasks)
    if n_done:
        tell(progress, n_done, cut.n_items, "items coded")
    sent = model if client is None else slim(model)
    work = partial(_code_part, sent, by_labels, folder, how)
    for n_rows in workers.run(work, tasks):
        n_done += n_rows
        tell(progress, n_done, cut.n_items, "items coded")
    folder.finish(n_items, n_parts)
    return CodeParts(folder.path)


def _code_part(
    model: Any,
    by_labels: bool,
    folder: PartFolder,
    how: dict[str, str],
    items: MultiViewData,
    place: Place,
) -> int:
    codes = encode_chunk(model, items, by_labels=by_labels, **how)
    folder.write_part(place, CodePart(codes, items.ids))
    return place.n_rows


def encode_chunk(model: Any, items: MultiViewData, *, by_labels: bool = False, **how: Any) -> Array:
    """Code items by all the views they have, or by their labels.

    Parameters
    ----------
    model : BaseMethod
        Fitted.
    items : MultiViewData
    by_labels : bool, default False
        Code items that have labels by these.
    how : optional
        What `encode` of the model takes besides, such as a device.

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
        return np.asarray(model.encode(items, mode=mode, **how))
    if items.labels is None:
        raise LabelError("the items have no labels; code them by their views")
    if tuple(items.label_names) != tuple(model.label_names_):
        raise LabelError(
            f"the items' labels are {_some(items.label_names)}, those of the model "
            f"{_some(model.label_names_)}; they must be the same, in the same order"
        )
    return np.asarray(model.encode(items, labels=items.labels, **how))


def _some(names: Sequence[str]) -> str:
    return ", ".join([*map(repr, names[:5]), *(["..."] if len(names) > 5 else [])])

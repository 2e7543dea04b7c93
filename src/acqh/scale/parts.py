"""Codes in a folder, made part by part: each part a bundle, and the folder one too.

The folder's own manifest says what the parts are made with and, once all are made, how many there
are. A part's manifest says which one it is. So a part that is there is whole and known, and what a
killed writer left is not a part.
"""

import socket
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self, get_type_hints

import numpy as np

from acqh._core.arrays import Array
from acqh._core.runtime import Progress
from acqh.data import MultiViewData
from acqh.errors import ClusterError, CorruptBundleError, InvalidInputError, LabelError
from acqh.index.ids import read_ids, table_from_arrays, table_of
from acqh.io import Bundle, read_bundle, write_bundle
from acqh.methods import fingerprint
from acqh.scale.chunks import InMemoryChunk, Source, Task, chunk_source, device_argument
from acqh.scale.cluster import slim

_KIND, _PART_KIND, _MEMBER = "code-parts", "code-part", "part"


class CodePart(NamedTuple):
    """Codes of consecutive items and their ids.

    Parameters
    ----------
    codes : (n_items, bytes_per_item) uint8
    ids : (n_items,) int64, or object for texts
    """

    codes: Array
    ids: Array


@dataclass(frozen=True)
class Place:
    """Where a part stands among all items."""

    number: int
    first_row: int
    n_rows: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the parts of a folder are made with, and how many there are once all are made."""

    model: str
    by_labels: bool
    bytes_per_item: int
    chunk_size: int | None
    source: str | None = None
    n_items: int | None = None
    n_parts: int | None = None


@dataclass(frozen=True)
class PartFolder:
    """Where parts are, and what they are made with."""

    path: Path
    plan: Plan

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open a folder.

        Raises FileNotFoundError: there is none. Raises CorruptBundleError: it is damaged. Raises
        InvalidInputError: the folder is a bundle of something else.
        """
        info, types = read_bundle(path, kind=_KIND).info, get_type_hints(Plan)
        if info.keys() != types.keys() or not all(
            isinstance(info[name], kind) for name, kind in types.items()
        ):
            raise CorruptBundleError(f"{path} does not describe parts of codes")
        return cls(path, Plan(**info))

    def begin(self) -> None:
        """Write the plan, or find that the folder has the same already.

        Raises InvalidInputError: the folder has another: its parts were made otherwise.
        """
        try:
            there = self.read(self.path).plan
        except FileNotFoundError:
            write_bundle(self.path, kind=_KIND, info=asdict(self.plan), arrays={})
            return
        for field in fields(self.plan):
            old, new = getattr(there, field.name), getattr(self.plan, field.name)
            if old == new or field.name in ("n_items", "n_parts"):
                continue
            if field.name == "model":
                raise InvalidInputError(
                    f"{self.path} holds codes of another model ({old[:12]}, this one is "
                    f"{new[:12]}); go on with that model, or choose another folder"
                )
            if field.name != "source":
                raise InvalidInputError(
                    f"{self.path} was begun with {field.name}={old}, not {new}; go on with "
                    f"{field.name}={old}, or choose another folder"
                )
            # Of chunks that were given one after the other nothing is known beforehand.
            if old is not None and new is not None:
                raise InvalidInputError(
                    f"{self.path} was begun with another source: names, sizes, numbers of rows or "
                    "times of modification of its files differ; choose another folder"
                )

    def finish(self, last: Place) -> None:
        """Note that all parts are there, to the last one.

        Raises InvalidInputError: there are no items, or parts of others.
        """
        n_items, n_parts = last.first_row + last.n_rows, last.number + 1
        if n_items == 0:
            raise InvalidInputError("there are no items: the source is empty")
        if self.part_path(n_parts).exists():
            raise InvalidInputError(
                f"{self.path} has parts after the {n_items} items of the source; they are of "
                "another source: choose another folder"
            )
        plan = replace(self.plan, n_items=n_items, n_parts=n_parts)
        write_bundle(self.path, kind=_KIND, info=asdict(plan), arrays={})

    def part_path(self, number: int) -> Path:
        """Return the folder of the part of this number."""
        return self.path / f"part-{number:08d}"

    def has(self, place: Place, ids: Array | None) -> bool:
        """Whether a part is there already; raises where it is another or damaged.

        `ids` are those that it must have been made of, where they are known.
        """
        path = self.part_path(place.number)
        try:
            there, part = self.read_part(place.number)
        except FileNotFoundError:
            return False
        except CorruptBundleError as error:
            raise CorruptBundleError(f"{error}; remove {path} to have it made again") from error
        if there != place or not (ids is None or np.array_equal(part.ids, ids)):
            raise InvalidInputError(
                f"{path} holds other items than the source has there: {there.n_rows} from row "
                f"{there.first_row}, not {place.n_rows} from row {place.first_row}, or other ids; "
                "give the same source, cut alike, or choose another folder"
            )
        return True

    def write_part(self, place: Place, part: CodePart) -> None:
        """Write a part, in one step; raise ClusterError where a worker does not see the folder."""
        if not self.path.is_dir():
            raise ClusterError(
                f"worker {socket.gethostname()} sees no folder {self.path}; it must be on a file "
                "system that all workers share, under the same path"
            )
        id_arrays, id_info = table_of(read_ids(part.ids)).to_arrays()
        info = {**asdict(place), "model": self.plan.model, "ids": id_info}
        arrays = {_MEMBER: {"codes": part.codes, **id_arrays}}
        write_bundle(self.part_path(place.number), kind=_PART_KIND, info=info, arrays=arrays)

    def read_part(self, number: int) -> tuple[Place, CodePart]:
        """Read a part and every one of its bytes.

        Raises FileNotFoundError: there is no whole part. Raises CorruptBundleError: it is damaged,
        or of another model.
        """
        path, n_bytes = self.part_path(number), self.plan.bytes_per_item
        bundle = read_bundle(path, kind=_PART_KIND, verify=True)
        place, arrays = _place_of(bundle), bundle.arrays(_MEMBER)
        if bundle.info.get("model") != self.plan.model:
            raise CorruptBundleError(f"{path} does not hold codes of the folder's model")
        codes = arrays.get("codes", np.empty(0))
        if codes.dtype != np.uint8 or codes.shape != (place.n_rows, n_bytes):
            raise CorruptBundleError(
                f"{path} does not hold {place.n_rows} codes of {n_bytes} bytes"
            )
        try:
            ids = table_from_arrays(arrays, bundle.info.get("ids", {}), place.n_rows)
            return place, CodePart(codes, ids.take(np.arange(place.n_rows)))
        except CorruptBundleError as error:
            raise CorruptBundleError(f"{path} does not hold ids: {error}") from error


def _place_of(bundle: Bundle) -> Place:
    match bundle.info:
        case {"number": int(number), "first_row": int(first_row), "n_rows": int(n_rows)}:
            return Place(number, first_row, n_rows)
    raise CorruptBundleError(f"{bundle.path} does not describe a part of codes")


class CodeParts:
    """Codes in a folder that `encode_parts` made, read a part at a time.

    Iterating gives each `CodePart`, in the order of the items; its bytes are compared with its
    checksum on the way. One part is in memory at a time.

    Parameters
    ----------
    path : path-like
        The folder.
    verify : bool, default False
        Read every part now.

    Attributes
    ----------
    path : Path
    model : str
        `acqh.methods.fingerprint` of the model that made the codes.
    by_labels : bool
        Whether items with labels were coded by these.
    chunk_size : int or None
        Items of a part; None where the source decided.
    bytes_per_item : int
    n_parts : int

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    InvalidInputError
        Coding has not finished, or the folder holds something else.
    CorruptBundleError
        The folder is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = acqh.scale.encode_parts(model, data, folder + "/codes", chunk_size=20)
    ...     parts = CodeParts(folder + "/codes")
    ...     [part.codes.shape for part in parts], parts.to_arrays().codes.shape
    ([(20, 2), (20, 2), (10, 2)], (50, 2))
    """

    def __init__(self, path: str | PathLike[str], *, verify: bool = False) -> None:
        self._folder = PartFolder.read(Path(path))
        self.path, plan = self._folder.path, self._folder.plan
        if plan.n_items is None or plan.n_parts is None:
            raise InvalidInputError(
                f"{self.path} has not finished; run it again to go on where it stopped"
            )
        self.model, self.by_labels, self.chunk_size = plan.model, plan.by_labels, plan.chunk_size
        self.bytes_per_item, self.n_parts = plan.bytes_per_item, plan.n_parts
        self._n_items = plan.n_items
        if verify:
            self.verify()

    def __len__(self) -> int:
        return self._n_items

    def __repr__(self) -> str:
        return (
            f"<CodeParts: {len(self)} items in {self.n_parts} parts, {self.bytes_per_item} bytes "
            "per item>"
        )

    def __iter__(self) -> Iterator[CodePart]:
        return self.rows(0, len(self))

    def rows(self, start: int, stop: int) -> Iterator[CodePart]:
        """Yield some of the items, by their row in all parts; read no part that has none of them.

        Parameters
        ----------
        start, stop : int
            The first row, and the one after the last.

        Yields
        ------
        CodePart
            A part, or what is wanted of it.

        Raises
        ------
        InvalidInputError
            There are no such rows.
        CorruptBundleError
            A part is damaged or missing; the message names it.
        """
        if not 0 <= start <= stop <= len(self):
            raise InvalidInputError(f"there are {len(self)} items, so no rows {start} to {stop}")
        row, number = start, 0
        if start > 0:
            # The last part that does not begin after the row: parts are in the order of rows.
            number = bisect_right(range(self.n_parts), start, key=self._first_row) - 1
        while row < stop:
            path = self._folder.part_path(number)
            try:
                place, part = self._folder.read_part(number)
            except FileNotFoundError as error:
                raise CorruptBundleError(f"{path} is missing") from error
            end = place.first_row + place.n_rows
            begins = place.first_row == row or (row == start and place.first_row < row < end)
            if place.number != number or not begins:
                raise CorruptBundleError(f"{path} is not that part")
            if end > len(self) or (end == len(self)) != (number == self.n_parts - 1):
                raise CorruptBundleError(f"the parts of {self.path} do not have {len(self)} items")
            wanted = slice(row - place.first_row, min(stop, end) - place.first_row)
            yield CodePart(part.codes[wanted], part.ids[wanted])
            row, number = min(stop, end), number + 1

    def to_arrays(self) -> CodePart:
        """Return all parts put together as one, in memory.

        Raises
        ------
        CorruptBundleError
            A part is damaged or missing; the message names it.
        """
        return CodePart(*(np.concatenate(arrays) for arrays in zip(*self, strict=True)))

    def verify(self) -> None:
        """Read every byte of every part.

        Raises
        ------
        CorruptBundleError
            A part is damaged or missing; the message names the first.
        """
        for _ in self:
            pass

    def _first_row(self, number: int) -> int:
        path = self._folder.part_path(number)
        try:
            return _place_of(read_bundle(path, kind=_PART_KIND)).first_row
        except FileNotFoundError as error:
            raise CorruptBundleError(f"{path} is missing") from error


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
    on_device = device_argument(model.encode, device, client)
    chunked = chunk_source(source, chunk_size, client, progress)
    plan = Plan(
        model=fingerprint(model),
        by_labels=by_labels,
        bytes_per_item=model.bytes_per_item,
        chunk_size=chunked.chunk_size,
        source=chunked.fingerprint,
    )
    folder = PartFolder(Path(out).absolute(), plan)
    folder.begin()
    end = Place(0, 0, 0)

    def missing() -> Iterator[Task]:
        nonlocal end
        for number, chunk in enumerate(chunked.chunks):
            end = Place(number, end.first_row + end.n_rows, len(chunk))
            if folder.has(end, chunk.data.ids if isinstance(chunk, InMemoryChunk) else None):
                chunked.n_done += len(chunk)
            else:
                yield chunk, end
            # Not to be kept while the next one is read.
            del chunk

    tasks: Iterable[Task] = missing()
    if isinstance(chunked.chunks, Sequence):  # what there is can be reported before the work
        tasks = list(tasks)
    if chunked.n_done:
        chunked.report("items coded")
    sent = model if client is None else slim(model)
    encode = partial(_code_part, sent, by_labels, folder, on_device)
    for _ in chunked.map_tasks(encode, "items coded", tasks):
        pass
    folder.finish(end)
    return CodeParts(folder.path)


def _code_part(
    model: Any,
    by_labels: bool,
    folder: PartFolder,
    on_device: dict[str, str],
    items: MultiViewData,
    place: Place,
) -> None:
    codes = encode_chunk(model, items, by_labels=by_labels, **on_device)
    folder.write_part(place, CodePart(codes, items.ids))


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

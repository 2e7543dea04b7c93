"""Codes in a folder of parts: each part is a saved index, and the folder a bundle.

The manifest of the folder has the arguments of the encoding and, once all parts are written, their
number. The manifest of a part has its number. So every part is complete and identified, and files
of a killed writer are not parts.
"""

import socket
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from os import PathLike
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from acqh._core.arrays import Array, check_positive_int
from acqh._core.runtime import Progress
from acqh.data import MultiViewData
from acqh.errors import ClusterError, CorruptBundleError, InvalidInputError, LabelError
from acqh.index import CodeIndex, HammingIndex
from acqh.index.parts import Parts
from acqh.io import read_bundle, write_bundle
from acqh.io.read import kind_of
from acqh.methods import fingerprint
from acqh.scale.chunks import ChunkedSource, Source, chunk_source, device_argument
from acqh.scale.cluster import DaskExecutor, Task, slim

KIND = "code-parts"
_INDEXES: dict[str, Any] = {"code-index": CodeIndex, "hamming-index": HammingIndex}


class CodePart(NamedTuple):
    """Codes of consecutive items and their ids.

    Parameters
    ----------
    codes : (n_items, bytes_per_item) uint8
    ids : (n_items,) int64, or object for texts
    """

    codes: Array
    ids: Array


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Arguments of the encoding of a folder, and the number of parts after the last one."""

    model: str
    by_labels: bool
    bytes_per_item: int
    chunk_size: int | None
    source: str | None = None
    n_items: int | None = None
    n_parts: int | None = None
    is_index: bool = False  # whether all ids of all parts differ


def _read_plan(path: Path) -> Plan:
    """Read the plan of a folder.

    Raises FileNotFoundError: the folder has no plan. Raises CorruptBundleError: it is damaged.
    Raises InvalidInputError: the folder is a bundle of another kind.
    """
    info, types = read_bundle(path, kind=KIND).info, get_type_hints(Plan)
    if info.keys() != types.keys() or not all(
        isinstance(info[name], kind) for name, kind in types.items()
    ):
        raise CorruptBundleError(f"{path} has an invalid manifest of parts")
    return Plan(**info)


def _write_plan(path: Path, plan: Plan) -> None:
    write_bundle(path, kind=KIND, info=asdict(plan), arrays={})


def _begin(path: Path, plan: Plan) -> None:
    """Write the plan, unless the folder already has the same plan.

    Raises InvalidInputError: the folder has another plan.
    """
    try:
        stored = _read_plan(path)
    except FileNotFoundError:
        _write_plan(path, plan)
        return
    for name in ("model", "by_labels", "bytes_per_item", "chunk_size", "source", "is_index"):
        old, new = getattr(stored, name), getattr(plan, name)
        # An iterator of chunks has no fingerprint.
        if old != new and not (name == "source" and None in (old, new)):
            raise InvalidInputError(
                f"{path} was begun with another {name}: {old!s:.12}, not {new!s:.12} (a source "
                "differs by names, sizes, rows or times of modification of its files); go on with "
                "that, or choose another folder"
            )


def part_path(folder: Path, number: int) -> Path:
    """Return the path of the part of this number."""
    return folder / f"part-{number:08d}"


def write_part(folder: Path, index: Any, place: tuple[int, int], model: str) -> None:
    """Save a part atomically; raise ClusterError if a worker cannot see the folder.

    `place`: the number of the part and its first row.
    """
    if not folder.is_dir():
        raise ClusterError(
            f"worker {socket.gethostname()} sees no folder {folder}; it must be on a file system "
            "that all workers share, under the same path"
        )
    number, first_row = place
    info = {"number": number, "first_row": first_row, "model": model}
    index.save(part_path(folder, number), info=info)


def _open_part(folder: Path, number: int, plan: Plan, *, verify: bool = True) -> tuple[int, Any]:
    """Return the first row of a part and its index.

    Raises FileNotFoundError: there is no complete part. Raises CorruptBundleError: the part is
    damaged, or has another number or model.
    """
    path = part_path(folder, number)
    kind = kind_of(path)
    if kind not in _INDEXES:
        raise CorruptBundleError(f"{path} is a {kind!r}, not an index")
    index = _INDEXES[kind].load(path, verify=verify)
    match index.info:
        case {"number": int(its_number), "first_row": int(first_row), "model": plan.model}:
            if its_number == number:
                return first_row, index
    raise CorruptBundleError(f"{path} is not that part, or not of the folder's model")


def _has_part(folder: Path, plan: Plan, place: tuple[int, int], n_rows: int, ids: Any) -> bool:
    """Whether a part exists; raises an error if it differs or is damaged.

    `ids`: the expected ids, if they are known.
    """
    number, first_row = place
    path = part_path(folder, number)
    try:
        its_row, index = _open_part(folder, number, plan)
    except FileNotFoundError:
        return False
    except CorruptBundleError as error:
        raise CorruptBundleError(f"{error}; remove {path} to have it made again") from error
    is_same = (its_row, len(index)) == (first_row, n_rows)
    if not is_same or not (ids is None or np.array_equal(index.ids, ids)):
        raise InvalidInputError(
            f"{path} holds other items than the source has there: {len(index)} from row {its_row}, "
            f"not {n_rows} from row {first_row}, or other ids; give the same source in the same "
            "chunks, or another folder"
        )
    return True


class CodeParts:
    """Codes in a folder written by `encode_parts`, read a part at a time.

    Iteration yields each `CodePart` in the order of the items, and verifies its checksum. One part
    is in memory at a time.

    Parameters
    ----------
    path : path-like
        The folder.
    verify : bool, default False
        Verify all parts when the folder is opened.

    Attributes
    ----------
    path : Path
    model : str
        `acqh.methods.fingerprint` of the model of the codes.
    by_labels : bool
        Whether items with labels were encoded from these.
    chunk_size : int or None
        Number of items in a part; None if the source determined it.
    bytes_per_item : int
    n_parts : int

    Raises
    ------
    FileNotFoundError
        The folder does not exist.
    InvalidInputError
        The encoding has not finished, or the folder has other contents.
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
        self.path = Path(path)
        self.plan = plan = _read_plan(self.path)
        if plan.n_items is None or plan.n_parts is None:
            raise InvalidInputError(f"{self.path} has not finished; run the same call again")
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
        """Yield a range of items by row number; read only the parts that contain some of them.

        Parameters
        ----------
        start, stop : int
            The first row, and the one after the last.

        Yields
        ------
        CodePart
            A part, or the requested rows of it.

        Raises
        ------
        InvalidInputError
            The rows do not exist.
        CorruptBundleError
            A part is damaged or missing; the message names it.
        """
        if not 0 <= start <= stop <= len(self):
            raise InvalidInputError(f"there are {len(self)} items, so no rows {start} to {stop}")
        row, number = start, 0
        if start > 0:
            # The last part that starts at or before the row; parts are sorted by rows.
            unread = partial(self._open, verify=False)
            number = bisect_right(range(self.n_parts), start, key=lambda at: unread(at)[0]) - 1
        while row < stop:
            first_row, index = self._open(number)
            end = first_row + len(index)
            if first_row != row and not (row == start and first_row < row < end):
                raise CorruptBundleError(f"{part_path(self.path, number)} is not that part")
            if end > len(self) or (end == len(self)) != (number == self.n_parts - 1):
                raise CorruptBundleError(f"the parts of {self.path} do not have {len(self)} items")
            rows = slice(row - first_row, min(stop, end) - first_row)
            yield CodePart(index.codes[rows], index.ids[rows])
            row, number = min(stop, end), number + 1

    def to_arrays(self) -> CodePart:
        """Return the concatenation of all parts, in memory.

        Raises
        ------
        CorruptBundleError
            A part is damaged or missing; the message names it.
        """
        return CodePart(*(np.concatenate(arrays) for arrays in zip(*self, strict=True)))

    def verify(self) -> None:
        """Verify the checksums of all parts.

        Raises
        ------
        CorruptBundleError
            A part is damaged or missing; the message names the first.
        """
        for _ in self:
            pass

    def _open(self, number: int, *, verify: bool = True) -> tuple[int, Any]:
        try:
            return _open_part(self.path, number, self.plan, verify=verify)
        except FileNotFoundError as error:
            raise CorruptBundleError(f"{part_path(self.path, number)} is missing") from error

    def to_index(self, *, verify: bool = False) -> CodeIndex:
        """Open all parts as one memory-mapped index.

        Parameters
        ----------
        verify : bool, default False
            Verify all checksums, and check that ids are unique.

        Raises
        ------
        InvalidInputError
            The codes are binary.
        DuplicateIdError
            Two parts have the same id.
        CorruptBundleError
            A part is damaged or missing; the message names it.
        """
        opened = [self._open(number, verify=verify)[1] for number in range(self.n_parts)]
        if not all(isinstance(part, CodeIndex) for part in opened):
            raise InvalidInputError(f"{self.path} holds binary codes, not additive ones")
        index = CodeIndex.from_shards(opened, check_ids=verify or not self.plan.is_index)
        if len(index) != len(self):
            raise CorruptBundleError(
                f"the parts of {self.path} have {len(index)} items, not {len(self)}"
            )
        return index


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
    """Encode items into a folder, one part per chunk.

    Parts are written atomically. After an interruption, call this again with the same arguments: it
    encodes only chunks without a part. An iterator of chunks is read again from the start. Memory
    depends on the chunk size, not on the number of items.

    Parameters
    ----------
    model : BaseMethod
        A fitted model.
    source : path-like, sequence of Chunk, MultiViewData, or iterable of MultiViewData
        A path for `acqh.data.list_chunks`, or chunks. Each chunk becomes a part.
    out : path-like
        The folder; created if it does not exist. Its parent must exist.
    by_labels : bool, default False
        Encode items that have labels from these.
    chunk_size : int, default 65,536
        Number of items in a part; ignored if the source consists of chunks.
    device : str, optional
        Torch device for encoding, such as ``"cuda"``; not with a client.
    client : distributed.Client, optional
        Its workers read the source and write the parts; they must see both under the same paths.
        The source must then be one of `acqh.scale.fit` with a client. An encoding that was started
        without a client can be finished with one, and vice versa.
    progress : callable, optional
        Called after each part with the number of items done, their number (None: not known), and
        a text.

    Returns
    -------
    CodeParts

    Raises
    ------
    InvalidInputError
        There are no items. Or the folder was started with another model, `by_labels`, chunk size or
        source. A source differs by names, sizes or times of its files, by numbers of rows or ids.
    CorruptBundleError
        A part is damaged.
    LabelError, ViewError
        The model cannot encode some items.
    FileExistsError
        The folder has other contents.
    DeviceError
        The device is not available.
    ClusterError
        The cluster failed or was lost.

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
    folder = Path(out).absolute()
    _begin(folder, plan)
    n_parts = n_items = 0

    def missing() -> Iterator[Task]:
        nonlocal n_parts, n_items
        for chunk in chunked.chunks:
            ids = chunk.ids if isinstance(chunk, MultiViewData) else None
            if _has_part(folder, plan, (n_parts, n_items), len(chunk), ids):
                chunked.n_done += len(chunk)
            else:
                yield chunk, (n_parts, n_items)
            n_parts, n_items = n_parts + 1, n_items + len(chunk)
            # Free its memory before the next one is read.
            del chunk

    tasks: Iterable[Task] = missing()
    if isinstance(chunked.chunks, Sequence):  # existing parts can be reported first
        tasks = list(tasks)
    if chunked.n_done:
        chunked.report("items encoded")
    sent = model if client is None else slim(model)
    encode = partial(_encode_part, sent, by_labels, folder, plan.model, on_device)
    for _ in chunked.map(encode, "items encoded", tasks):
        pass
    if n_items == 0:
        raise InvalidInputError("there are no items: the source is empty")
    if part_path(folder, n_parts).exists():
        raise InvalidInputError(
            f"{folder} has parts after the {n_items} items of the source; they are of another "
            "source: choose another folder"
        )
    _write_plan(folder, replace(plan, n_items=n_items, n_parts=n_parts))
    return CodeParts(folder)


def _encode_part(
    model: Any,
    by_labels: bool,
    folder: Path,
    model_print: str,
    on_device: dict[str, str],
    items: MultiViewData,
    place: tuple[int, int],
) -> None:
    codes = encode_chunk(model, items, by_labels=by_labels, **on_device)
    is_additive = hasattr(model, "codebooks_")
    index = CodeIndex(model.codebooks_) if is_additive else HammingIndex(8 * codes.shape[1])
    write_part(folder, index.add(codes, items.ids), place, model_print)


def encode_chunk(model: Any, items: MultiViewData, *, by_labels: bool = False, **how: Any) -> Array:
    """Encode items from all their views, or from their labels.

    Parameters
    ----------
    model : BaseMethod
        A fitted model.
    items : MultiViewData
    by_labels : bool, default False
        Encode items that have labels from these.
    how : optional
        Further arguments of `encode` of the model, such as a device.

    Returns
    -------
    (n_items, bytes_per_item) uint8

    Raises
    ------
    LabelError
        `by_labels` is True, but items have no labels, or labels that the model does not have.
    ViewError
        The model was not fitted to a view.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data)
    >>> encode_chunk(model, data, by_labels=True).shape
    (50, 2)
    """
    is_whole = all(mask.all() for mask in items.present.values())
    views: Any = dict(items.views) if is_whole else items  # baselines accept a mapping only
    if not by_labels:
        mode = "single" if len(items.views) == 1 else "fused"
        return np.asarray(model.encode(views, mode=mode, **how))
    if items.labels is None:
        raise LabelError("the items have no labels; code them by their views")
    if tuple(items.label_names) != tuple(model.label_names_):
        raise LabelError(
            f"the items' labels are {_some(items.label_names)}, those of the model "
            f"{_some(model.label_names_)}; they must be the same, in the same order"
        )
    return np.asarray(model.encode(views, labels=items.labels, **how))


def _some(names: Sequence[str]) -> str:
    return ", ".join([*map(repr, names[:5]), *(["..."] if len(names) > 5 else [])])


def build_index(codebooks: Any, parts: Parts, *, progress: Progress | None = None) -> CodeIndex:
    """Build an index from parts of codes, as `CodeIndex.add_parts` does.

    Parameters
    ----------
    codebooks : (n_codebooks, codebook_size, n_components) floats
        Codebooks of the model that encoded the items.
    parts : CodeParts, other iterable of (codes, ids or None), or callable
        Parts of codes, which are read twice, one part at a time. A function is called twice and
        returns an iterable. Codes may be mapped: ``[(np.load(path, mmap_mode="r"), None)]``.
    progress : callable, optional
        Called after each part with the number of items done (those read once count half), their
        total (None if it is not known), and a text.

    Returns
    -------
    CodeIndex
        An index in memory, with items in the order of the parts.

    Raises
    ------
    DuplicateIdError
        An id occurs in two parts.
    InvalidInputError
        Codes do not fit the codebooks, or parts changed between the two passes.
    CorruptBundleError
        A part is damaged.

    Notes
    -----
    With four codebooks and consecutive ids, the index takes 5 to 6 bytes per item; in addition,
    one part is in memory. If many items share codes, the index is smaller, but building it needs up
    to 12 bytes per item.

    Examples
    --------
    >>> import numpy as np
    >>> parts = [(np.array([[0], [1]]), ["a", "b"]), (np.array([[1]]), ["c"])]
    >>> build_index(np.eye(2)[None], parts)
    <CodeIndex: 3 items, 1 codebooks of 2 codewords, 2 dimensions>
    """
    return CodeIndex(codebooks).add_parts(parts, progress=progress)


def build_shards(
    codebooks: Any,
    parts: CodeParts,
    out: str | PathLike[str],
    *,
    n_shards: int,
    client: Any = None,
    progress: Progress | None = None,
) -> CodeIndex:
    """Build an index in shards of equal size, in one folder.

    Parameters
    ----------
    codebooks : (n_codebooks, codebook_size, n_components) floats
        Codebooks of the model that encoded the items.
    parts : CodeParts
        Parts of a finished encoding.
    out : path-like
        The folder; created if it does not exist. Its parent must exist. Existing shards are
        replaced.
    n_shards : int
        Number of shards, at most one per item.
    client : distributed.Client, optional
        Its workers build the shards; they must see both folders under the same paths.
    progress : callable, optional
        Called after each shard with the number of items done, their number, and a text.

    Returns
    -------
    CodeIndex
        The index, opened by `open_shards`, with items in the order of the parts.

    Raises
    ------
    DuplicateIdError
        An id occurs twice. The folder cannot be opened.
    InvalidInputError
        Codes do not fit the codebooks, or there are more shards than items.
    CorruptBundleError
        A part is damaged.
    FileExistsError
        The folder has other contents.
    ClusterError
        The cluster failed or was lost.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = acqh.scale.encode_parts(model, data, folder + "/codes", chunk_size=20)
    ...     build_shards(model.codebooks_, parts, folder + "/index", n_shards=2)
    <CodeIndex: 50 items, 2 codebooks of 256 codewords, 8 dimensions>
    """
    check_positive_int(n_shards, "n_shards")
    n_items = len(parts)
    if n_shards > n_items:
        raise InvalidInputError(f"{n_shards} shards of {n_items} items; give fewer")
    folder, source = Path(out).absolute(), parts.path.absolute()
    plan = replace(parts.plan, chunk_size=None, source=None, n_items=None, n_parts=None)
    bounds = pairwise(n_items * number // n_shards for number in range(n_shards + 1))
    chunks = [_Rows(source, start, stop) for start, stop in bounds]
    places = [(number, rows.start) for number, rows in enumerate(chunks)]
    dask = None if client is None else DaskExecutor(client)
    chunked = ChunkedSource(chunks, n_items, progress, dask)
    _write_plan(folder, plan)
    write = partial(_write_shard, codebooks, folder, plan.model)
    for _ in chunked.map(write, "items indexed", zip(chunks, places, strict=True)):
        pass
    for path in {*folder.glob("part-????????")} - {part_path(folder, at) for at, _ in places}:
        rmtree(path)
    index = CodeIndex.from_shards(
        [_open_part(folder, at, plan, verify=False)[1] for at, _ in places]
    )
    _write_plan(folder, replace(plan, n_items=n_items, n_parts=n_shards, is_index=True))
    return index


@dataclass(frozen=True)
class _Rows:
    """A range of rows of a folder of codes."""

    path: Path
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def read(self) -> Parts:
        """Return a function that yields the rows, a part at a time, on each call."""
        return partial(CodeParts(self.path).rows, self.start, self.stop)


def _write_shard(
    codebooks: Any, folder: Path, model: str, rows: Parts, place: tuple[int, int]
) -> None:
    write_part(folder, CodeIndex(codebooks).add_parts(rows), place, model)


def open_shards(
    shards: str | PathLike[str] | Sequence[CodeIndex | str | PathLike[str]], *, verify: bool = False
) -> CodeIndex:
    """Open several indexes of the same codebooks as one memory-mapped index.

    A search gives the results of one `CodeIndex` to which all items were added, shard by shard.
    Shards are read when they are searched. Changes stay in memory and do not change the files.

    Parameters
    ----------
    shards : path-like, or sequence of CodeIndex or path-like
        A folder written by `build_shards` or `encode_parts`, or indexes, saved or open. Except for
        folders of `build_shards`, ids are checked for duplicates. This reads all ids: 8 bytes per
        item for integers, one shard at a time. If ranges of ids overlap, all ids are sorted in
        memory.
    verify : bool, default False
        Verify all checksums, and check the ids of a folder for duplicates.

    Returns
    -------
    CodeIndex

    Raises
    ------
    InvalidInputError
        There is no shard, codebooks or types of ids differ, there are more than 4.29 billion
        items, shards are not finished, or a path is of another kind.
    DuplicateIdError
        Two shards have the same id.
    FileNotFoundError, CorruptBundleError
        An index is missing or damaged.

    Examples
    --------
    >>> import numpy as np
    >>> codebooks = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> north = CodeIndex(codebooks).add([[0], [1]], ids=["a", "b"])
    >>> south = CodeIndex(codebooks).add([[0]], ids=["c"])
    >>> open_shards([north, south]).search([[1.0, 0.5]], k=3).ids
    array([['a', 'c', 'b']], dtype=object)
    """
    if isinstance(shards, CodeIndex):
        raise InvalidInputError(f"shards must be a list of indexes or paths, got {shards!r}")
    if isinstance(shards, str | PathLike):
        return CodeParts(shards).to_index(verify=verify)
    return CodeIndex.from_shards(
        [
            shard if isinstance(shard, CodeIndex) else CodeIndex.load(shard, verify=verify)
            for shard in shards
        ]
    )


def open_index(index: Any) -> CodeIndex:
    """Open one or several paths as a mapped index; raises the errors of `open_shards`."""
    if isinstance(index, str | PathLike) and kind_of(index, "index") != KIND:
        return CodeIndex.load(index)
    return index if isinstance(index, CodeIndex) else open_shards(index)


def load_parts(path: str | PathLike[str], *, verify: bool = False) -> CodeIndex | CodeParts:
    """Open a folder of parts; folders of `build_shards` are opened as an index."""
    parts = CodeParts(path, verify=verify)
    return parts.to_index(verify=verify) if parts.plan.is_index else parts

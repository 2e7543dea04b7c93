"""What is exported: ids, codes and metadata of an index or a collection, in batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh._core.runtime import Progress
from acqh._load import load
from acqh.collection import Collection, Item
from acqh.errors import InvalidInputError
from acqh.index import CodeIndex
from acqh.quantize import decode

Exportable: TypeAlias = str | PathLike[str] | CodeIndex | Collection
ID, VECTOR, CODE = "id", "vector", "code"
_TEXT, _LABELS = "text", "labels"
_TAKEN = frozenset({ID, VECTOR, CODE, _TEXT, _LABELS})


@dataclass(frozen=True)
class ExportReport:
    """What was written.

    Attributes
    ----------
    n_items : int
    files : tuple of Path
        Empty where items went to a server.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import acqh
    >>> index = acqh.CodeIndex(np.eye(2)[np.newaxis]).add([[1], [0]], ids=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = acqh.export.export_parquet(index, folder + "/items.parquet")
    >>> report.n_items, report.files[0].name
    (2, 'items.parquet')
    """

    n_items: int
    files: tuple[Path, ...] = ()

    @property
    def n_bytes(self) -> int:
        """Bytes of the files."""
        return sum(file.stat().st_size for file in self.files)


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive items."""

    ids: Array  # (n,) int64, or object for texts
    codes: Array  # (n, n_codebooks) uint8
    metadata: dict[str, list[Any]]

    def records(self) -> list[dict[str, Any]]:
        """Return id and metadata of each item."""
        columns = {ID: self.ids.tolist(), **self.metadata}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@dataclass(frozen=True, eq=False)
class Source:
    """Items to be exported."""

    codebooks: Floats  # (n_codebooks, codebook_size, n_components) float32
    n_items: int
    has_text_ids: bool
    # {"text", "texts", "integer", "real", "boolean"}: what each field of the
    # metadata holds; any value may also be None.
    kinds: Mapping[str, str]
    # Gives batches of at most this many items, in order of insertion.
    read: Callable[[int], Iterator[Batch]]

    def batches(self, size: int, progress: Progress | None) -> Iterator[Batch]:
        """Yield the items and report how many the caller is done with."""
        done = 0
        for batch in self.read(size):
            yield batch
            done += len(batch.ids)
            if progress is not None:
                progress(done, self.n_items, "exporting items")

    def vectors(self, codes: Array) -> Floats:
        """Return the vectors that codes stand for, (n, n_components) float32."""
        return decode(codes, self.codebooks)


@contextmanager
def open_source(given: Exportable, *, metadata: bool = True) -> Iterator[Source]:
    """Give the items of an index or a collection, open or at a path.

    Raises FileNotFoundError: there is nothing at the path. Raises InvalidInputError: it is neither
    a `CodeIndex` nor a `Collection`. Raises CorruptBundleError: it is damaged.
    """
    opened = load(given) if isinstance(given, str | PathLike) else given
    try:
        if isinstance(opened, CodeIndex):
            yield _of_index(opened)
        elif isinstance(opened, Collection):
            yield _of_collection(opened, metadata)
        else:
            raise InvalidInputError(
                "only an index of codes (CodeIndex) or a collection can be exported, got "
                f"{type(opened).__name__}: nothing else holds codes that stand for vectors"
            )
    finally:
        if isinstance(opened, Collection) and opened is not given:
            opened.close()


def _of_index(index: CodeIndex) -> Source:
    def read(size: int) -> Iterator[Batch]:
        for ids, codes in index.batches(size):
            yield Batch(ids, codes, {})

    return Source(index.codebooks, len(index), index.id_kind == "text", {}, read)


def _of_collection(collection: Collection, metadata: bool) -> Source:
    columns = collection.columns() if metadata else {}
    names = _free_names(columns)
    kinds = {_TEXT: "text", _LABELS: "texts"} if metadata else {}
    kinds |= {names[column]: _kind(found) for column, found in columns.items()}
    n_codebooks = len(collection.codebooks)

    def fields(items: Sequence[Item]) -> dict[str, list[Any]]:
        if not metadata:
            return {}
        found: dict[str, list[Any]] = {
            _TEXT: [item.text for item in items],
            _LABELS: [list(item.labels) for item in items],
        }
        for column, name in names.items():
            convert = _CONVERT[kinds[name]]
            values = (item.columns.get(column) for item in items)
            found[name] = [None if value is None else convert(value) for value in values]
        return found

    def read(size: int) -> Iterator[Batch]:
        for page in collection.batches(size):
            items = [item for item, _ in page]
            ids = np.array([item.id for item in items], dtype=object)
            codes = np.frombuffer(b"".join(code for _, code in page), dtype=np.uint8)
            yield Batch(ids, codes.reshape(len(page), n_codebooks), fields(items))

    return Source(collection.codebooks, len(collection), True, kinds, read)


def _free_names(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return under which name each column is exported: its own, unless that is taken."""
    names: dict[str, str] = {}
    taken = {*_TAKEN, *columns}
    for column in columns:
        name = column
        while name in _TAKEN or (name != column and name in taken):
            name += "_"
        taken.add(name)
        names[column] = name
    return names


_CONVERT: dict[str, Any] = {"boolean": bool, "integer": int, "real": float, "text": str}


def _kind(found: set[str]) -> str:
    """Return what a column holds as a whole, from what is found in it."""
    values = found - {"null"}
    if len(values) == 1:
        return next(iter(values))
    return "real" if values == {"integer", "real"} else "text"

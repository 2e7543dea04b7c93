"""Items of an index or a collection, read in batches and written as files for other systems."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh._core.files import atomic_write, check_target
from acqh._core.imports import require
from acqh._core.runtime import Progress
from acqh._load import load
from acqh.collection import Collection, Item
from acqh.errors import InvalidInputError
from acqh.index import CodeIndex
from acqh.index.exchange import faiss_codes
from acqh.quantize import decode

Exportable: TypeAlias = str | PathLike[str] | CodeIndex | Collection
ID, VECTOR, CODE = "id", "vector", "code"
_TEXT, _LABELS = "text", "labels"
_TAKEN = frozenset({ID, VECTOR, CODE, _TEXT, _LABELS})
# Items of a batch, or of a row group.
_ROWS = 32_768
_SIZES = ("n_codebooks", "codebook_size", "n_components")
# Consecutive items: ids (n,), int64, or object for texts; codes (n, n_codebooks) uint8; metadata.
Batch: TypeAlias = tuple[Array, Array, dict[str, list[Any]]]


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

    def batches(self, progress: Progress | None) -> Iterator[Batch]:
        """Yield the items and report how many the caller is done with."""
        done = 0
        for batch in self.read(_ROWS):
            yield batch
            done += len(batch[0])
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
    return Source(
        index.codebooks,
        len(index),
        index.id_kind == "text",
        {},
        lambda size: ((ids, codes, {}) for ids, codes in index.batches(size)),
    )


def _of_collection(collection: Collection, metadata: bool) -> Source:
    columns = collection.fields() if metadata else {}
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
            values = (item.fields.get(column) for item in items)
            found[name] = [None if value is None else convert(value) for value in values]
        return found

    def read(size: int) -> Iterator[Batch]:
        for page in collection.batches(size):
            items = [item for item, _ in page]
            ids = np.array([item.id for item in items], dtype=object)
            codes = np.frombuffer(b"".join(code for _, code in page), dtype=np.uint8)
            yield ids, codes.reshape(len(page), n_codebooks), fields(items)

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


def export_parquet(
    source: Exportable,
    path: str | PathLike[str],
    *,
    codes: bool = False,
    metadata: bool = True,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ExportReport:
    """Write items to a Parquet file, a row each, in order of insertion.

    The columns are ``id``, then ``vector`` (a fixed-size list of float32) or ``code`` (bytes of
    fixed size), then, of a collection, ``text``, ``labels`` and the columns of its items; one that
    has a name of these gets an underscore behind it. The schema's metadata hold, under
    ``acqh``, settings as JSON, and with codes, under ``acqh.codebooks``, the codebooks: base64 of
    little-endian float32.

    Parameters
    ----------
    source : path-like, CodeIndex or Collection
    path : path-like
        The file. It appears when all is written, and not before.
    codes : bool, default False
        Write codes in place of the vectors that they stand for.
    metadata : bool, default True
        Whether to write what a collection has beside ids.
    overwrite : bool, default False
        Replace the file at the path.
    progress : callable, optional
        Called after each batch with the number of items done, their number, and a text.

    Returns
    -------
    ExportReport

    Raises
    ------
    FileExistsError
        There is something at the path.
    FileNotFoundError
        There is no source, or no folder for the file.
    InvalidInputError
        The source is neither an index of additive codes nor a collection.
    MissingExtraError
        PyArrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> index = acqh.CodeIndex(np.eye(2)[np.newaxis]).add([[1], [0]], ids=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = export_parquet(index, folder + "/items.parquet")
    ...     require("pyarrow.parquet").read_table(folder + "/items.parquet").to_pylist()
    [{'id': 'a', 'vector': [0.0, 1.0]}, {'id': 'b', 'vector': [1.0, 0.0]}]
    """
    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    target = check_target(path, overwrite=overwrite)
    with open_source(source, metadata=metadata) as items:
        schema = _schema(arrow, items, codes)
        # Neither vectors nor codes repeat enough for dictionaries to be worth making.
        repeating = [name for name in items.kinds if items.kinds[name] in ("text", "texts")]
        with (
            atomic_write(target) as temporary,
            parquet.ParquetWriter(temporary, schema, use_dictionary=repeating) as writer,
        ):
            for ids, batch_codes, metadata_values in items.batches(progress):
                content = _content(arrow, schema.types[1], items, batch_codes)
                columns = {ID: ids, schema.names[1]: content, **metadata_values}
                writer.write_table(arrow.Table.from_pydict(columns, schema=schema))
        return ExportReport(items.n_items, (target,))


def _schema(arrow: Any, items: Source, codes: bool) -> Any:
    sizes = dict(zip(_SIZES, items.codebooks.shape, strict=True))
    kinds = {
        "text": arrow.string(),
        "texts": arrow.list_(arrow.string()),
        "integer": arrow.int64(),
        "real": arrow.float64(),
        "boolean": arrow.bool_(),
    }
    code = CODE, arrow.binary(sizes["n_codebooks"])
    vector = VECTOR, arrow.list_(arrow.float32(), sizes["n_components"])
    fields = [(ID, kinds["text" if items.has_text_ids else "integer"]), code if codes else vector]
    fields += [(name, kinds[kind]) for name, kind in items.kinds.items()]
    notes = {"acqh": json.dumps({**sizes, "score": "inner product"})}
    if codes:
        content = items.codebooks.astype("<f4").tobytes()
        notes["acqh.codebooks"] = base64.b64encode(content).decode()
    return arrow.schema(fields, metadata=notes)


def _content(arrow: Any, kind: Any, items: Source, codes: Array) -> Any:
    if arrow.types.is_fixed_size_binary(kind):
        content = arrow.py_buffer(np.ascontiguousarray(codes))
        return arrow.Array.from_buffers(kind, len(codes), [None, content])
    return arrow.FixedSizeListArray.from_arrays(items.vectors(codes).ravel(), kind.list_size)


def export_faiss(
    source: Exportable,
    path: str | PathLike[str],
    *,
    codes: bool = False,
    metadata: bool = True,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ExportReport:
    """Write items to a file for ``faiss.read_index``.

    The index is a ``faiss.IndexIDMap2`` over an ``IndexFlatIP`` of vectors, or, with `codes`, over
    an ``IndexResidualQuantizer``. Faiss has numbers as ids only: items whose ids are texts, as all
    of a collection are, are numbered from 0, and a file beside the index, called like it with
    ``.items.jsonl`` behind, has on line i (counted from 0) the id and the metadata of item i.

    Faiss keeps its index in memory while it is made: 4 bytes per component, or the bytes of the
    codes, and about 50 bytes for the id of each item.

    Parameters
    ----------
    source : path-like, CodeIndex or Collection
    path : path-like
        The file. It appears when all is written, and not before.
    codes : bool, default False
        Write codes in place of the vectors that they stand for.
    metadata : bool, default True
        Whether to write what a collection has beside ids.
    overwrite : bool, default False
        Replace the file at the path.
    progress : callable, optional
        Called after each batch with the number of items done, their number, and a text.

    Returns
    -------
    ExportReport
        Its files are the index, and the file of items where there is one.

    Raises
    ------
    FileExistsError
        There is something at the path.
    FileNotFoundError
        There is no source, or no folder for the file.
    InvalidInputError
        The source is neither an index of additive codes nor a collection.
    MissingExtraError
        Faiss is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> index = acqh.CodeIndex(np.eye(2)[np.newaxis]).add([[1], [0]], ids=[70, 90])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = export_faiss(index, folder + "/items.faiss")
    ...     made = require("faiss").read_index(folder + "/items.faiss")
    >>> made.search(np.array([[0.2, 0.1]], dtype=np.float32), 2)[1]
    array([[90, 70]])
    """
    faiss = require("faiss")
    target = check_target(path, overwrite=overwrite)
    beside = check_target(f"{target}.items.jsonl", overwrite=overwrite)
    with open_source(source, metadata=metadata) as items, ExitStack() as stack:
        n_words, n_components = items.codebooks.shape[1:]
        empty = CodeIndex(items.codebooks).to_faiss() if codes else faiss.IndexFlatIP(n_components)
        whole = faiss.IndexIDMap2(empty)
        if items.has_text_ids:
            partial = stack.enter_context(atomic_write(beside))
            file = stack.enter_context(partial.open("x", encoding="utf-8"))
        for ids, batch_codes, metadata_values in items.batches(progress):
            if items.has_text_ids:
                columns = {ID: ids.tolist(), **metadata_values}
                for row in zip(*columns.values(), strict=True):
                    record = dict(zip(columns, row, strict=True))
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
                ids = np.arange(whole.ntotal, whole.ntotal + len(ids))
            if codes:
                whole.add_sa_codes(faiss_codes(batch_codes, n_words), ids)
            else:
                whole.add_with_ids(items.vectors(batch_codes), ids)
        with atomic_write(target) as temporary:
            faiss.write_index(whole, str(temporary))
        if not items.has_text_ids:
            beside.unlink(missing_ok=True)  # of the file that was replaced
    return ExportReport(items.n_items, (target, beside) if items.has_text_ids else (target,))

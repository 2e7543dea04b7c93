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
from acqh.scale.compressed import Compressed

Exportable: TypeAlias = str | PathLike[str] | CodeIndex | Collection
ID, VECTOR, CODE = "id", "vector", "code"
_TEXT, _LABELS = "text", "labels"
_RESERVED = frozenset({ID, VECTOR, CODE, _TEXT, _LABELS})
# Items of a batch, or of a row group.
_ROWS = 32_768
_SIZES = ("n_codebooks", "codebook_size", "n_components")
# Consecutive items: ids (n,), int64, or object for texts; codes (n, n_codebooks) uint8; metadata.
Batch: TypeAlias = tuple[Array, Array, dict[str, list[Any]]]


@dataclass(frozen=True)
class ExportReport:
    """Result of an export: number of items, and files.

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
        """Return the reconstructions of codes, (n, n_components) float32."""
        return decode(codes, self.codebooks)


@contextmanager
def open_source(source: Exportable, *, metadata: bool = True) -> Iterator[Source]:
    """Open an index or a collection for export, unless it is open already.

    Raises FileNotFoundError: there is nothing at the path. Raises InvalidInputError: it is neither
    a `CodeIndex` nor a `Collection`. Raises CorruptBundleError: it is damaged.
    """
    opened = load(source) if isinstance(source, str | PathLike) else source
    opened = opened.index if isinstance(opened, Compressed) else opened
    try:
        if isinstance(opened, CodeIndex):
            yield _of_index(opened)
        elif isinstance(opened, Collection):
            yield _of_collection(opened, metadata)
        else:
            raise InvalidInputError(
                "only an index of codes (CodeIndex) or a collection can be exported, got "
                f"{type(opened).__name__}: nothing else holds codes of vectors"
            )
    finally:
        if isinstance(opened, Collection) and opened is not source:
            opened.close()


def _of_index(index: CodeIndex) -> Source:
    if index.metric == "l2":
        raise InvalidInputError(
            "an index of the metric l2 cannot be exported: its codebooks have one dimension "
            "more than the vectors"
        )
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
    kinds |= {names[column]: _kind(kinds_in) for column, kinds_in in columns.items()}
    n_codebooks = len(collection.codebooks)

    def fields(items: Sequence[Item]) -> dict[str, list[Any]]:
        if not metadata:
            return {}
        values: dict[str, list[Any]] = {
            _TEXT: [item.text for item in items],
            _LABELS: [list(item.labels) for item in items],
        }
        for column, name in names.items():
            convert = _CONVERT[kinds[name]]
            stored = (item.fields.get(column) for item in items)
            values[name] = [None if value is None else convert(value) for value in stored]
        return values

    def read(size: int) -> Iterator[Batch]:
        for page in collection.batches(size):
            items = [item for item, _ in page]
            ids = np.array([item.id for item in items], dtype=object)
            codes = np.frombuffer(b"".join(code for _, code in page), dtype=np.uint8)
            yield ids, codes.reshape(len(page), n_codebooks), fields(items)

    return Source(collection.codebooks, len(collection), True, kinds, read)


def _free_names(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the exported name of each field: its own, or with underscores if that is reserved."""
    names: dict[str, str] = {}
    used = {*_RESERVED, *columns}
    for column in columns:
        name = column
        while name in _RESERVED or (name != column and name in used):
            name += "_"
        used.add(name)
        names[column] = name
    return names


_CONVERT: dict[str, Any] = {"boolean": bool, "integer": int, "real": float, "text": str}


def _kind(kinds: set[str]) -> str:
    """Return the kind of a field from the kinds of its values."""
    values = kinds - {"null"}
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
    fixed size). A collection adds ``text``, ``labels`` and the fields of its items; a field with
    one of these names gets an underscore appended. The schema's metadata hold settings as JSON
    (``acqh``) and, with codes, the codebooks as base64 of little-endian float32
    (``acqh.codebooks``).

    Parameters
    ----------
    source : path-like, CodeIndex or Collection
    path : path-like
        The file. It appears once it is complete.
    codes : bool, default False
        Write codes instead of reconstructed vectors.
    metadata : bool, default True
        Whether to write the texts, labels and fields of a collection.
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
        # Vectors and codes rarely repeat, so dictionaries would not save space.
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
    an ``IndexResidualQuantizer``. Ids of Faiss are integers. Items with text ids, as those of a
    collection, are numbered from 0. A second file, named like the index with ``.items.jsonl``
    appended, has the id and the metadata of item i on line i (counted from 0).

    Faiss builds the index in memory: 4 bytes per dimension, or the bytes of the codes, and about
    50 bytes per id.

    Parameters
    ----------
    source : path-like, CodeIndex or Collection
    path : path-like
        The file. It appears once it is complete.
    codes : bool, default False
        Write codes instead of reconstructed vectors.
    metadata : bool, default True
        Whether to write the texts, labels and fields of a collection.
    overwrite : bool, default False
        Replace the file at the path.
    progress : callable, optional
        Called after each batch with the number of items done, their number, and a text.

    Returns
    -------
    ExportReport
        Its files are the index and, if there is one, the file of items.

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
    ...     exported = require("faiss").read_index(folder + "/items.faiss")
    >>> exported.search(np.array([[0.2, 0.1]], dtype=np.float32), 2)[1]
    array([[90, 70]])
    """
    faiss = require("faiss")
    target = check_target(path, overwrite=overwrite)
    items_path = check_target(f"{target}.items.jsonl", overwrite=overwrite)
    with open_source(source, metadata=metadata) as items, ExitStack() as stack:
        codebook_size, n_components = items.codebooks.shape[1:]
        empty = CodeIndex(items.codebooks).to_faiss() if codes else faiss.IndexFlatIP(n_components)
        index = faiss.IndexIDMap2(empty)
        if items.has_text_ids:
            partial = stack.enter_context(atomic_write(items_path))
            file = stack.enter_context(partial.open("x", encoding="utf-8"))
        for ids, batch_codes, metadata_values in items.batches(progress):
            if items.has_text_ids:
                columns = {ID: ids.tolist(), **metadata_values}
                for row in zip(*columns.values(), strict=True):
                    record = dict(zip(columns, row, strict=True))
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
                ids = np.arange(index.ntotal, index.ntotal + len(ids))
            if codes:
                index.add_sa_codes(faiss_codes(batch_codes, codebook_size), ids)
            else:
                index.add_with_ids(items.vectors(batch_codes), ids)
        with atomic_write(target) as temporary:
            faiss.write_index(index, str(temporary))
        if not items.has_text_ids:
            items_path.unlink(missing_ok=True)  # of the file that was replaced
    return ExportReport(items.n_items, (target, items_path) if items.has_text_ids else (target,))

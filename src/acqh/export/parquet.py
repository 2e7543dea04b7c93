"""Items as a Parquet file."""

import base64
import json
from os import PathLike
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.files import check_target, written_whole
from acqh._core.imports import require
from acqh._core.runtime import Progress
from acqh.export.source import CODE, ID, VECTOR, Exportable, ExportReport, Source, open_source

# Items of a row group.
_ROWS = 32_768
_SIZES = ("n_codebooks", "codebook_size", "n_components")


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
            written_whole(target) as temporary,
            parquet.ParquetWriter(temporary, schema, use_dictionary=repeating) as writer,
        ):
            for batch in items.batches(_ROWS, progress):
                content = _content(arrow, schema.types[1], items, batch.codes)
                columns = {ID: batch.ids, schema.names[1]: content, **batch.metadata}
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

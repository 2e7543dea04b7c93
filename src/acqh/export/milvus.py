"""Items as a collection of Milvus."""

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

from acqh._core.imports import require
from acqh._core.runtime import Progress
from acqh.errors import InvalidInputError, MilvusError
from acqh.export.files import ID, VECTOR, Batch, Exportable, ExportReport, Source, open_source

# With the most metadata that Milvus takes, this many items fit a message of 64 MB.
_ROWS = 512
_MAX_ID_BYTES = 65_535
_MAX_METADATA_BYTES = 65_536
# Milvus takes 255 characters; what is being written has some behind its name.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def export_milvus(
    source: Exportable,
    uri: str,
    name: str,
    *,
    token: str | None = None,
    index_type: Literal["FLAT", "AUTOINDEX"] = "FLAT",
    metadata: bool = True,
    overwrite: bool = False,
    timeout: float = 10.0,
    progress: Progress | None = None,
) -> ExportReport:
    """Write items to a collection of Milvus, whose metric is the inner product.

    The fields are ``id`` (INT64 or VARCHAR), ``vector`` (FLOAT_VECTOR) and, of a collection, as
    dynamic fields ``text``, ``labels`` and the columns of its items; one that has a name of these
    gets an underscore behind it. Items are written under another name, which becomes `name` when
    all are there.

    Parameters
    ----------
    source : path-like, CodeIndex or Collection
    uri : str
        Of a server, such as ``http://localhost:19530``, or a file ``NAME.db`` for Milvus Lite.
    name : str
        Of the collection in Milvus.
    token : str, optional
        For the server.
    index_type : {"FLAT", "AUTOINDEX"}, default "FLAT"
        FLAT compares a query with every item and is exact; what AUTOINDEX does is up to Milvus.
    metadata : bool, default True
        Whether to write what a collection has beside ids.
    overwrite : bool, default False
        Replace the collection of that name.
    timeout : float, default 10
        Seconds that each call of the server may take.
    progress : callable, optional
        Called after each batch with the number of items done, their number, and a text.

    Returns
    -------
    ExportReport

    Raises
    ------
    InvalidInputError
        The name is taken, or cannot be one in Milvus; an id or the metadata of an item are longer
        than Milvus takes; or the source is neither an index of additive codes nor a collection.
    MilvusError
        The server cannot be reached or refuses something. What was written is removed again.
    FileNotFoundError
        There is no source.
    MissingExtraError
        PyMilvus is not installed.

    Examples
    --------
    >>> import acqh
    >>> acqh.export.export_milvus("photos.acqh", "photos.db", "photos")  # doctest: +SKIP
    ExportReport(n_items=150, files=())
    """
    pymilvus = require("pymilvus")
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name!r} cannot be the name of a collection in Milvus: letters, digits and "
            "underscores, no digit first, at most 200"
        )
    if index_type not in ("FLAT", "AUTOINDEX"):
        raise InvalidInputError(f"index_type is FLAT or AUTOINDEX, not {index_type!r}")
    with (
        open_source(source, metadata=metadata) as items,
        _connected(pymilvus, uri, token, timeout) as client,
    ):
        is_there = client.has_collection(name)
        if is_there and not overwrite:
            raise InvalidInputError(
                f"Milvus at {uri} has a collection {name!r} already; give another name, or "
                "overwrite=True"
            )
        with _named_at_the_end(client, name, replace=is_there) as temporary:
            _create(pymilvus, client, temporary, items, index_type)
            for batch in items.batches(_ROWS, progress):
                client.insert(temporary, _rows(items, batch))
            client.flush(temporary)
        client.load_collection(name)
        return ExportReport(items.n_items)


@contextmanager
def _connected(pymilvus: Any, uri: str, token: str | None, timeout: float) -> Iterator[Any]:
    if uri.endswith(".db"):
        require("milvus_lite")
        # Milvus Lite would print a traceback first.
        if not Path(uri).parent.is_dir():
            raise FileNotFoundError(
                f"the folder {Path(uri).parent} does not exist; create it first"
            )
    try:
        with closing(pymilvus.MilvusClient(uri, token=token or "", timeout=timeout)) as client:
            yield client
    except pymilvus.MilvusException as error:
        reason = " ".join(str(error.message or error).split())
        raise MilvusError(f"Milvus at {uri}: {reason[:300]}") from error


@contextmanager
def _named_at_the_end(client: Any, name: str, *, replace: bool) -> Iterator[str]:
    """Give a name to write under, which becomes another one if the block ends well."""
    temporary = f"{name}_partial_{token_hex(8)}"
    try:
        yield temporary
        if replace:
            client.drop_collection(name)
        client.rename_collection(temporary, name)
    except BaseException:
        # Whatever went wrong is the error to report, not that there is nothing to drop.
        with suppress(Exception):
            client.drop_collection(temporary)
        raise


def _create(pymilvus: Any, client: Any, name: str, items: Source, index_type: str) -> None:
    types = pymilvus.DataType
    schema = client.create_schema(auto_id=False, enable_dynamic_field=bool(items.kinds))
    if items.has_text_ids:
        schema.add_field(ID, types.VARCHAR, is_primary=True, max_length=_MAX_ID_BYTES)
    else:
        schema.add_field(ID, types.INT64, is_primary=True)
    schema.add_field(VECTOR, types.FLOAT_VECTOR, dim=items.codebooks.shape[2])
    index = client.prepare_index_params()
    index.add_index(VECTOR, index_type=index_type, metric_type="IP")
    client.create_collection(name, schema=schema, index_params=index)


def _rows(items: Source, batch: Batch) -> list[dict[str, Any]]:
    records = batch.records()
    for record in records:
        fields = dict(record)
        identifier = fields.pop(ID)
        if items.has_text_ids:
            _check_length("the id", identifier, identifier, _MAX_ID_BYTES)
        content = json.dumps(fields, ensure_ascii=False)
        _check_length("the metadata", content, identifier, _MAX_METADATA_BYTES)
    vectors = items.vectors(batch.codes)
    return [{**record, VECTOR: it} for record, it in zip(records, vectors, strict=True)]


def _check_length(what: str, text: str, identifier: Any, limit: int) -> None:
    # No character takes more than 4 bytes.
    if 4 * len(text) > limit and (n_bytes := len(text.encode())) > limit:
        raise InvalidInputError(
            f"{what} of item {identifier!r:.80} has {n_bytes:,} bytes, Milvus takes {limit:,}; "
            "shorten it, or export without metadata"
        )

"""Items as a file that Faiss reads."""

import json
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from acqh._core.arrays import Ints
from acqh._core.files import check_target, written_whole
from acqh._core.imports import require
from acqh._core.runtime import Progress
from acqh.export.source import ID, Batch, Exportable, ExportReport, Source, open_source
from acqh.index import CodeIndex, faiss_codes

_ROWS = 32_768


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
    with open_source(source, metadata=metadata) as items:
        whole = _empty(faiss, items, codes)
        if not items.has_text_ids:
            for batch in items.batches(_ROWS, progress):
                _add(whole, items, batch, batch.ids, codes)
            _write(faiss, whole, target)
            beside.unlink(missing_ok=True)  # of the file that was replaced
            return ExportReport(items.n_items, (target,))
        with written_whole(beside) as temporary:
            with temporary.open("x", encoding="utf-8") as file:
                for batch in items.batches(_ROWS, progress):
                    numbers = np.arange(whole.ntotal, whole.ntotal + len(batch.ids))
                    _add(whole, items, batch, numbers, codes)
                    _write_lines(file, batch)
            _write(faiss, whole, target)
        return ExportReport(items.n_items, (target, beside))


def _empty(faiss: Any, items: Source, codes: bool) -> Any:
    if codes:
        return faiss.IndexIDMap2(CodeIndex(items.codebooks).to_faiss())
    return faiss.IndexIDMap2(faiss.IndexFlatIP(items.codebooks.shape[2]))


def _add(whole: Any, items: Source, batch: Batch, numbers: Ints, codes: bool) -> None:
    if codes:
        whole.add_sa_codes(faiss_codes(batch.codes, items.codebooks.shape[1]), numbers)
    else:
        whole.add_with_ids(items.vectors(batch.codes), numbers)


def _write(faiss: Any, whole: Any, target: Path) -> None:
    with written_whole(target) as temporary:
        faiss.write_index(whole, str(temporary))


def _write_lines(file: IO[str], batch: Batch) -> None:
    names = [ID, *batch.metadata]
    for values in zip(batch.ids, *batch.metadata.values(), strict=True):
        record = dict(zip(names, values, strict=True))
        file.write(json.dumps(record, ensure_ascii=False) + "\n")

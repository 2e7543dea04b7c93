"""Items as a file that Faiss reads."""

import json
from contextlib import ExitStack
from os import PathLike

import numpy as np

from acqh._core.files import check_target, written_whole
from acqh._core.imports import require
from acqh._core.runtime import Progress
from acqh.export.source import Exportable, ExportReport, open_source
from acqh.index import CodeIndex
from acqh.index.exchange.faiss import faiss_codes

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
    with open_source(source, metadata=metadata) as items, ExitStack() as stack:
        n_words, n_components = items.codebooks.shape[1:]
        empty = CodeIndex(items.codebooks).to_faiss() if codes else faiss.IndexFlatIP(n_components)
        whole = faiss.IndexIDMap2(empty)
        if items.has_text_ids:
            partial = stack.enter_context(written_whole(beside))
            file = stack.enter_context(partial.open("x", encoding="utf-8"))
        for batch in items.batches(_ROWS, progress):
            numbers = batch.ids
            if items.has_text_ids:
                numbers = np.arange(whole.ntotal, whole.ntotal + len(batch.ids))
                file.writelines(json.dumps(it, ensure_ascii=False) + "\n" for it in batch.records())
            if codes:
                whole.add_sa_codes(faiss_codes(batch.codes, n_words), numbers)
            else:
                whole.add_with_ids(items.vectors(batch.codes), numbers)
        with written_whole(target) as temporary:
            faiss.write_index(whole, str(temporary))
        if not items.has_text_ids:
            beside.unlink(missing_ok=True)  # of the file that was replaced
    return ExportReport(items.n_items, (target, beside) if items.has_text_ids else (target,))

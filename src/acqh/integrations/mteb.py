"""Retrieval tasks of mteb, run on codes of a few bytes in place of vectors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from acqh._core.arrays import Floats, as_numbers
from acqh._core.imports import require
from acqh.errors import InvalidInputError
from acqh.index import CodeIndex
from acqh.index.checks import check_bytes_per_item
from acqh.quantize import AdditiveQuantizer

# Documents to learn from, at most; drawn at random.
_N_TRAIN = 65_536
_LENGTHS = {"cosine": True, "dot": False}  # by mteb's names: whether lengths are taken away
Answers = tuple[list[list[float]], list[list[int]]]


def on_codes(model: Any, bytes_per_item: int = 8, queries: Any = None) -> Any:
    """Return a model whose documents mteb keeps as codes; queries stay vectors.

    Codebooks are trained on the documents of each task. mteb stores results under the model's name
    with the size of the codes, next to those of the model itself. Needs ``pip install mteb``.

    Parameters
    ----------
    model : mteb's EncoderProtocol
        Such as ``mteb.get_model("sentence-transformers/all-MiniLM-L6-v2")``, scored by cosines or
        inner products.
    bytes_per_item : int, default 8
        From 1 to 16.
    queries : (n_queries, n_components) floats, optional
        Query vectors like those of the task, such as its training split: codes are then
        query-aware. The queries that are evaluated are not used.

    Returns
    -------
    mteb.models.SearchEncoderWrapper
        For ``mteb.evaluate``.

    Raises
    ------
    InvalidInputError
        `bytes_per_item` out of range, or a model that is scored otherwise.
    MissingExtraError
        mteb is not installed.

    Examples
    --------
    >>> import mteb  # doctest: +SKIP
    >>> model = mteb.get_model("sentence-transformers/all-MiniLM-L6-v2")  # doctest: +SKIP
    >>> task = mteb.get_task("NanoArguAnaRetrieval")  # doctest: +SKIP
    >>> mteb.evaluate(on_codes(model, 8), task)  # doctest: +SKIP
    """
    similarity = getattr(model.mteb_model_meta.similarity_fn_name, "value", None)
    if similarity not in _LENGTHS:
        raise InvalidInputError(
            f"the model is scored by {similarity!r}; codes give cosines and inner products: take a "
            f"model whose similarity_fn_name is one of {', '.join(_LENGTHS)}"
        )
    index = CodeBackend(bytes_per_item, queries, normalize=_LENGTHS[similarity])
    search = require("mteb.models").SearchEncoderWrapper(model, index_backend=index)
    settings = {**(model.mteb_model_meta.experiment_kwargs or {}), "acqh_bytes": bytes_per_item}
    if queries is not None:
        settings["n_queries"] = len(queries)
    update = {"experiment_kwargs": settings}
    search.mteb_model_meta = model.mteb_model_meta.model_copy(update=update)
    return search


class CodeBackend:
    """A search index of codes that follows mteb's `IndexEncoderSearchProtocol`.

    Parameters
    ----------
    bytes_per_item, queries
        See `on_codes`.
    normalize : bool, default True
        Give vectors unit length, so that scores are cosines; otherwise they are inner products.

    Examples
    --------
    >>> backend = CodeBackend(2)
    >>> backend.add_documents(np.eye(3), ["a", "b", "c"])
    >>> backend.search(np.eye(3)[1:2], top_k=1)
    ([[1.0]], [[1]])
    """

    def __init__(
        self, bytes_per_item: int = 8, queries: Any = None, *, normalize: bool = True
    ) -> None:
        self._n_bytes, self._normalize = check_bytes_per_item(bytes_per_item), normalize
        self._queries = None if queries is None else self._rows(queries)
        self.clear()

    def clear(self) -> None:
        """Forget all documents, and what was learnt from them."""
        self._coder: AdditiveQuantizer | None = None
        self._index: CodeIndex | None = None
        self._places: dict[str, int] = {}

    def add_documents(self, embeddings: Any, idxs: Sequence[str]) -> None:
        """Quantize documents; the first call trains the quantizer."""
        rows = self._rows(embeddings)
        if self._coder is None or self._index is None:
            rng = np.random.default_rng(0)
            is_part = len(rows) > _N_TRAIN
            chosen = rng.choice(len(rows), _N_TRAIN, replace=False) if is_part else slice(None)
            # If all documents are training vectors, no others need to be quantized as well.
            ridge = None if is_part else 0.0
            self._coder = AdditiveQuantizer(self._n_bytes, ridge=ridge, random_state=rng)
            self._coder.fit(rows[chosen], queries=self._queries)
            self._index = CodeIndex(self._coder.codebooks_)
        numbers = range(len(self._places), len(self._places) + len(rows))
        self._index.add(self._coder.encode(rows), list(numbers))
        self._places.update(zip(idxs, numbers, strict=True))

    def search(
        self,
        embeddings: Any,
        top_k: int,
        similarity_fn: Any = None,  # noqa: ARG002
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        query_idx_to_id: Mapping[int, str] | None = None,
    ) -> Answers:
        """Return scores and places of the best documents, best first, for each query.

        Places are row numbers; with `top_ranked`, which gives the documents to choose from by the
        id of a query, they are places among these.

        Raises
        ------
        InvalidInputError
            There are no documents.
        """
        if self._index is None:
            raise InvalidInputError("there are no documents; call add_documents first")
        queries = self._rows(embeddings)
        if top_ranked is None or query_idx_to_id is None:
            return _answers(self._index.search(queries, top_k))
        scores, places = [], []
        for number, query in enumerate(queries):
            rows = [self._places[document] for document in top_ranked[query_idx_to_id[number]]]
            top = _answers(self._index.search(query[np.newaxis], top_k, filter=rows))
            place_of = {row: place for place, row in enumerate(rows)}
            scores += top[0]
            places.append([place_of[row] for row in top[1][0]])
        return scores, places

    def _rows(self, embeddings: Any) -> Floats:
        if hasattr(embeddings, "detach"):  # of torch
            embeddings = embeddings.detach().cpu().float().numpy()
        rows = as_numbers(embeddings, "embeddings", "(n, n_components)").astype(np.float32)
        if self._normalize:
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            rows /= np.where(lengths > 0, lengths, 1)
        return rows


def _answers(result: Any) -> Answers:
    lists = zip(result.counts, result.scores.tolist(), result.ids.tolist(), strict=True)
    cut = [(scores[:n], ids[:n]) for n, scores, ids in lists]
    return [scores for scores, _ in cut], [ids for _, ids in cut]

"""Documents under ids, found by vectors that are kept in a few bytes each."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, Floats, as_numbers, check_positive_int, first_bad_row
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.index import CodeIndex
from acqh.index.items.checks import check_bytes_per_item
from acqh.index.search.flat import best_rows
from acqh.io import Bundle, read_bundle, write_bundle
from acqh.quantize import AdditiveQuantizer

# Where learning is left to the store, it happens at this number of documents.
COMPRESS_AT = 16_384
_KIND = "documents"
Found = list[tuple[str, float]]


class DocumentStore:
    """Documents under ids, with a vector each that is kept as a code of a few bytes.

    The first documents are kept with their vectors as they are, and searched exactly. At
    `compress_at` documents, or when `compress` is called, codebooks are learnt from them; from then
    on codes alone are kept, of further documents too. With a quantizer to begin with there are
    codes from the first.

    May be used by several threads. Texts and metadata are in memory.

    Parameters
    ----------
    quantizer : AdditiveQuantizer, optional
        Fitted, such as ``acqh.compress(vectors, queries).quantizer``.
    bytes_per_item : int, default 8
        From 1 to 16; without meaning where a quantizer is given.
    compress_at : int or None, default 16,384
        Number of documents at which codebooks are learnt; None waits for `compress`.
    normalize : bool, default True
        Give vectors unit length, so that scores are cosines; otherwise they are inner products.

    Attributes
    ----------
    index : CodeIndex or None
        The codes; None while vectors are kept as they are.
    quantizer : AdditiveQuantizer or None
        What codes vectors; None while they are kept as they are.

    Raises
    ------
    InvalidInputError
        A number out of range.
    NotFittedError
        The quantizer is not fitted.

    Examples
    --------
    >>> store = DocumentStore()
    >>> store.put(["a", "b"], [[1.0, 0.0], [0.6, 0.8]], [{"text": "one"}, {"text": "two"}])
    >>> store.search([0.0, 2.0], k=1)
    [('b', 0.800...)]
    >>> store.get("b")
    {'text': 'two'}
    """

    def __init__(
        self,
        quantizer: AdditiveQuantizer | None = None,
        *,
        bytes_per_item: int = 8,
        compress_at: int | None = COMPRESS_AT,
        normalize: bool = True,
    ) -> None:
        self._n_bytes = check_bytes_per_item(bytes_per_item)
        if compress_at is not None:
            check_positive_int(compress_at, "compress_at")
        self._compress_at, self._normalize = compress_at, bool(normalize)
        self._documents: dict[str, Mapping[str, Any]] = {}
        self._vectors: dict[str, Floats] = {}
        self._matrix: tuple[list[str], Floats] | None = None
        self.quantizer = quantizer
        self.index = None if quantizer is None else _index_of(quantizer)
        self._change = threading.RLock()

    def __len__(self) -> int:
        return len(self._documents)

    def __repr__(self) -> str:
        kept = "vectors as they are"
        if self.index is not None:
            kept = f"{len(self.index.codebooks)} bytes for each vector"
        return f"<DocumentStore: {len(self)} documents, {kept}>"

    def put(self, ids: Sequence[str], vectors: Any, documents: Sequence[Mapping[str, Any]]) -> None:
        """Add documents, in place of those that have the same ids.

        Parameters
        ----------
        ids : n str
            Where one occurs twice, the last counts.
        vectors : (n, n_components) floats
        documents : n mappings
            Of what JSON can hold, if the store is to be saved.

        Raises
        ------
        InvalidInputError
            Not as many of each, ids that are not texts, or vectors that are not finite or of
            another width; nothing was added.
        """
        if len(ids) == 0 and len(documents) == 0:
            return
        rows = self._rows(vectors)
        if not len(ids) == len(rows) == len(documents):
            raise InvalidInputError(
                f"{len(ids)} ids, {len(rows)} vectors and {len(documents)} documents; give as many "
                "of each"
            )
        if not all(isinstance(each, str) for each in ids):
            raise InvalidInputError("ids must be texts")
        last = {each: place for place, each in enumerate(ids)}
        new = {each: documents[place] for each, place in last.items()}
        with self._change:
            if self.index is not None and self.quantizer is not None:
                codes = self.quantizer.encode(rows[list(last.values())])
                self._documents.update(new)
                self.index.upsert(codes, list(last))
                return
            self._check_width(rows)
            self._documents.update(new)
            for each, place in last.items():
                self._vectors.pop(each, None)  # a replaced document counts as new
                self._vectors[each] = rows[place]
            self._matrix = None
            if self._compress_at is not None and len(self) >= self._compress_at:
                self.compress()

    def remove(self, ids: Iterable[str]) -> int:
        """Remove documents; ids that are not there are ignored. Return how many there were."""
        with self._change:
            gone = [each for each in dict.fromkeys(ids) if each in self._documents]
            if gone and self.index is not None:
                self.index.remove(gone)
            for each in gone:
                self._documents.pop(each)
                self._vectors.pop(each, None)
            self._matrix = None
        return len(gone)

    def get(self, identifier: str) -> Mapping[str, Any] | None:
        """Return a document, or None."""
        return self._documents.get(identifier)

    def ids(self, allowed: Callable[[Mapping[str, Any]], bool] | None = None) -> list[str]:
        """Return the ids of all documents, or of those that a function says yes to."""
        with self._change:
            documents = list(self._documents.items())
        return [each for each, value in documents if allowed is None or allowed(value)]

    def search(self, vector: Any, k: int, among: Iterable[str] | None = None) -> Found:
        """Return the ids and scores of the best documents, best first.

        Parameters
        ----------
        vector : (n_components,) floats
        k : int
            How many; fewer where there are fewer.
        among : iterable of str, optional
            Only these.

        Raises
        ------
        InvalidInputError
            A vector that is not finite or of another width, or k below 1.
        """
        k = check_positive_int(k, "k")
        if len(self) == 0:
            return []
        query = self._rows([vector])
        with self._change:
            index, (ids, matrix) = self.index, self._kept_vectors()
        if index is not None:
            found = index.search(query, k, filter=None if among is None else list(among))
            n = int(found.counts[0])
            return list(zip(found.ids[0, :n].tolist(), found.scores[0, :n].tolist(), strict=True))
        self._check_width(query)
        scores = matrix @ query[0]
        rows = np.arange(len(ids))
        if among is not None:
            wanted = set(among)
            rows = np.flatnonzero([each in wanted for each in ids])
        best = rows[best_rows(scores[rows], k)]
        return [(ids[row], float(scores[row])) for row in best]

    def vectors(self, ids: Iterable[str]) -> dict[str, Floats]:
        """Return the vectors by which documents are found, (n_components,) float32 each, by id.

        Those that are gone, as where another thread has removed them, are left out.
        """
        with self._change:
            find = self._vectors.__getitem__ if self.index is None else self.index.reconstruct
            return {each: find(each) for each in ids if each in self._documents}

    def compress(self, queries: Any = None) -> None:
        """Learn codebooks from the vectors that are there, and keep codes from now on.

        Parameters
        ----------
        queries : (n_queries, n_components) floats, optional
            A sample of what documents will be searched for; see `acqh.compress`.

        Raises
        ------
        InvalidInputError
            There are no documents, codes are kept already, or queries do not fit.
        """
        with self._change:
            if self.index is not None:
                raise InvalidInputError("vectors are gone once there are codes; make a new store")
            if not self._vectors:
                raise InvalidInputError("there are no documents to learn from; add some first")
            ids, matrix = self._kept_vectors()
            quantizer = AdditiveQuantizer(self._n_bytes, random_state=0)
            quantizer.fit(matrix, queries=None if queries is None else self._rows(queries))
            index = _index_of(quantizer)
            index.add(quantizer.encode(matrix, start=quantizer.training_codes_), ids)
            self.quantizer, self.index = quantizer, index
            self._vectors, self._matrix = {}, None

    def save(self, path: str | PathLike[str]) -> None:
        """Save all of it in a folder, in place of the store it held before; `load` opens it.

        Raises
        ------
        InvalidInputError
            A document that JSON cannot hold; nothing was written.
        FileExistsError
            The path is a file, or a folder with something else in it.
        OSError
            Writing failed.
        """
        settings = {
            "bytes_per_item": self._n_bytes,
            "compress_at": self._compress_at,
            "normalize": self._normalize,
        }
        with self._change:
            ids, rows = self._kept_vectors()
            if self.index is not None:
                ids, rows = self.index.ids.tolist(), self.index.codes
            lines = b"".join(_line(each, self._documents[each]) for each in ids)
            info: dict[str, Any] = {"n_items": len(ids), "settings": settings}
            arrays = {"items": {"lines": np.frombuffer(lines, dtype=np.uint8), "rows": rows}}
            if self.quantizer is not None:
                info["quantizer"], arrays["quantizer"] = self.quantizer.to_state()
            write_bundle(path, kind=_KIND, info=info, arrays=arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Open a store that was saved.

        Raises
        ------
        FileNotFoundError
            There is none at the path.
        InvalidInputError
            It holds something else.
        CorruptBundleError
            It is damaged.
        """
        bundle = read_bundle(path, kind=_KIND, verify=True)
        try:
            return cls._read(bundle)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptBundleError(f"{path} holds no store of documents: {error}") from error

    @classmethod
    def _read(cls, bundle: Bundle) -> Self:
        items, info, quantizer = bundle.arrays("items"), bundle.info, None
        if "quantizer" in info:
            quantizer = AdditiveQuantizer.from_state(info["quantizer"], bundle.arrays("quantizer"))
        rows = np.array(items["rows"])
        lines = map(json.loads, items["lines"].tobytes().splitlines())
        documents = {each["id"]: each["document"] for each in lines}
        if rows.ndim != 2 or rows.dtype != (np.float32 if quantizer is None else np.uint8):
            raise CorruptBundleError(f"it has {rows.dtype} of shape {rows.shape} for vectors")
        if not len(rows) == len(documents) == info["n_items"]:
            raise CorruptBundleError("vectors and documents contradict each other")
        if not all(isinstance(each, str) for each in documents):
            raise CorruptBundleError("ids are not texts")
        store = cls(quantizer, **info["settings"])
        store._documents = documents
        if store.index is None:
            store._vectors = dict(zip(documents, rows, strict=True))
        else:
            store.index.add(rows, list(documents))
        return store

    def _kept_vectors(self) -> tuple[list[str], Floats]:
        """Return ids and vectors as they are, of one moment; under the lock."""
        if self._matrix is None:
            rows = list(self._vectors.values())
            matrix = np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)
            self._matrix = list(self._vectors), matrix
        return self._matrix

    def _rows(self, vectors: Any) -> Floats:
        rows = as_numbers(vectors, "vectors", "(n, n_components)")
        bad = first_bad_row(rows)
        if bad is not None:
            raise InvalidInputError(f"vector {bad} has a NaN or infinite value")
        small: Floats = rows.astype(np.float32)
        if self._normalize:
            lengths = np.linalg.norm(small, axis=1, keepdims=True)
            small /= np.where(lengths > 0, lengths, 1)
        return small

    def _check_width(self, rows: Array) -> None:
        width = next((len(each) for each in self._vectors.values()), rows.shape[1])
        if rows.shape[1] != width:
            raise InvalidInputError(
                f"vectors have {rows.shape[1]} components, those of the store {width}; both must "
                "come from one model"
            )


def _index_of(quantizer: AdditiveQuantizer) -> CodeIndex:
    _, arrays = quantizer.to_state()  # which refuses one that is not fitted
    return CodeIndex(arrays["codebooks_"])


def _line(identifier: str, document: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps({"id": identifier, "document": document}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"document {identifier!r} has metadata that JSON cannot hold ({error}); nothing was "
            "saved"
        ) from error
    return text.encode() + b"\n"

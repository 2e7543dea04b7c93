"""A vector store for LangChain that keeps a few bytes for each vector."""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from os import PathLike
from typing import Any, Self

import numpy as np

from acqh._core.imports import require
from acqh.errors import InvalidInputError
from acqh.integrations.documents import DocumentStore

require("langchain_core")  # or an error that says what to install

from langchain_core.documents import Document  # noqa: E402
from langchain_core.embeddings import Embeddings  # noqa: E402
from langchain_core.vectorstores import VectorStore  # noqa: E402
from langchain_core.vectorstores.utils import maximal_marginal_relevance  # noqa: E402

Filter = Callable[[Document], bool] | Mapping[str, Any]


class AcqhVectorStore(VectorStore):
    """LangChain's vector store, with vectors kept as codes of a few bytes each.

    The first documents are kept with their vectors as they are and searched exactly; from
    `compress_at` on, or when `compress` is called, codes alone are kept. Scores are cosines, or
    inner products with ``normalize=False``: the higher, the better.

    Parameters
    ----------
    embedding : Embeddings
        LangChain's; makes vectors of texts and of queries.
    quantizer, bytes_per_item, compress_at, normalize
        See `acqh.integrations.DocumentStore`.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> store = AcqhVectorStore(DeterministicFakeEmbedding(size=8))
    >>> store.add_texts(["a cat", "a car"], [{"kind": "animal"}, {"kind": "thing"}], ids=["1", "2"])
    ['1', '2']
    >>> store.similarity_search("a car", k=1)[0].page_content
    'a car'
    >>> store.similarity_search("a car", k=2, filter={"kind": "animal"})
    [Document(id='1', metadata={'kind': 'animal'}, page_content='a cat')]
    """

    def __init__(self, embedding: Embeddings, **settings: Any) -> None:
        self._embedding = embedding
        self.store = DocumentStore(**settings)

    @property
    def embeddings(self) -> Embeddings:
        """What makes vectors of texts."""
        return self._embedding

    def __len__(self) -> int:
        return len(self.store)

    # Without this, a store without documents would be taken for none where only truth is asked.
    def __bool__(self) -> bool:
        return True

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> list[str]:
        """Add texts, in place of those that have the same ids; return the ids.

        Parameters
        ----------
        texts : iterable of n str
        metadatas : n dicts, optional
        ids : n str, optional
            Where there is none, a random one is made.

        Raises
        ------
        InvalidInputError
            Not as many of each.
        """
        contents = list(texts)
        described = [{} for _ in contents] if metadatas is None else metadatas
        given = [None] * len(contents) if ids is None else ids
        if not len(contents) == len(described) == len(given):
            raise InvalidInputError(
                f"{len(contents)} texts, {len(described)} metadatas and {len(given)} ids; give as "
                "many of each"
            )
        names = [each or str(uuid.uuid4()) for each in given]
        documents = [
            {"text": text, "metadata": dict(metadata)}
            for text, metadata in zip(contents, described, strict=True)
        ]
        vectors = self._embedding.embed_documents(contents) if contents else []
        self.store.put(names, vectors, documents)
        return names

    def delete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:  # noqa: ARG002
        """Remove documents; ids that are not there are ignored.

        Raises
        ------
        InvalidInputError
            No ids were given.
        """
        if ids is None:
            raise InvalidInputError("delete needs the ids of the documents to remove")
        self.store.remove(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids; those that are not there are left out."""
        return [
            Document(id=each, page_content=kept["text"], metadata=dict(kept["metadata"]))
            for each in ids
            if (kept := self.store.get(each)) is not None
        ]

    def similarity_search_with_score_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        filter: Filter | None = None,  # noqa: A002
        **kwargs: Any,  # noqa: ARG002
    ) -> list[tuple[Document, float]]:
        """Return the best documents and their scores, best first.

        Parameters
        ----------
        embedding : (n_components,) floats
        k : int, default 4
        filter : callable or mapping, optional
            A function of a document that says whether it may be found, or values that its metadata
            must have; of a list, one of them.
        """
        among = None if filter is None else self._allowed(filter)
        scores = dict(self.store.search(embedding, k, among))
        return [(found, scores[str(found.id)]) for found in self.get_by_ids(list(scores))]

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the best documents for a text and their scores, best first."""
        vector = self._embedding.embed_query(query)
        return self.similarity_search_with_score_by_vector(vector, k, **kwargs)

    def similarity_search_by_vector(
        self, embedding: Sequence[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Return the best documents for a vector, best first."""
        found = self.similarity_search_with_score_by_vector(embedding, k, **kwargs)
        return [document for document, _ in found]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the best documents for a text, best first."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """Return good documents that differ from one another, by the vectors codes stand for."""
        found = self.similarity_search_by_vector(embedding, fetch_k, **kwargs)
        vectors = self.store.vectors(str(document.id) for document in found)
        if not vectors:
            return []
        query = np.asarray(embedding, dtype=np.float32)
        chosen = maximal_marginal_relevance(query, list(vectors.values()), lambda_mult, k)
        there = [document for document in found if document.id in vectors]
        return [there[place] for place in chosen]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return good documents for a text that differ from one another."""
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, **kwargs
        )

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a store of texts; further arguments are those of the class."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def compress(self, queries: Sequence[str] | None = None) -> None:
        """Learn codebooks from the documents that are there, and keep codes from now on.

        Parameters
        ----------
        queries : sequence of str, optional
            A few hundred of the questions that come: codes are then most exact where they look.
        """
        embed = self._embedding.embed_query
        self.store.compress(None if queries is None else [embed(each) for each in queries])

    def save(self, path: str | PathLike[str]) -> None:
        """Save all but the embedding in a folder; see `DocumentStore.save`."""
        self.store.save(path)

    @classmethod
    def load(cls, path: str | PathLike[str], embedding: Embeddings) -> Self:
        """Open a store that was saved; see `DocumentStore.load`."""
        opened = cls(embedding)
        opened.store = DocumentStore.load(path)
        return opened

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        # From cosines; codes stand for vectors that may be a little longer than one.
        return lambda score: min(max((1 + score) / 2, 0.0), 1.0)

    def _allowed(self, wanted: Filter) -> list[str]:
        if isinstance(wanted, Mapping):
            return self.store.ids(lambda kept: _has(kept["metadata"], wanted))
        documents = self.get_by_ids(self.store.ids())
        return [str(document.id) for document in documents if wanted(document)]


def _has(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(
        name in metadata
        and metadata[name] in (value if isinstance(value, list | tuple | Set) else [value])
        for name, value in wanted.items()
    )

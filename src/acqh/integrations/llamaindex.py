"""A vector store for LlamaIndex that keeps a few bytes for each vector."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from acqh._core.imports import require
from acqh.errors import InvalidInputError
from acqh.integrations.documents import DocumentStore, Found

require("llama_index.core")  # or an error that says what to install

from llama_index.core.bridge.pydantic import PrivateAttr  # noqa: E402
from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings  # noqa: E402
from llama_index.core.schema import BaseNode  # noqa: E402
from llama_index.core.vector_stores.types import (  # noqa: E402
    DEFAULT_PERSIST_DIR,
    DEFAULT_PERSIST_FNAME,
    BasePydanticVectorStore,
    FilterCondition,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import (  # noqa: E402
    build_metadata_filter_fn,
    metadata_dict_to_node,
    node_to_metadata_dict,
)

# Of this many times the nodes asked for, those that differ from one another are chosen.
_MMR_FETCH = 5


class AcqhVectorStore(BasePydanticVectorStore):
    """LlamaIndex's vector store, with vectors kept as codes of a few bytes each.

    The first nodes are kept with their vectors as they are and searched exactly; from `compress_at`
    on, or when `compress` is called, codes alone are kept. Nodes are kept whole, without their
    vectors. Similarities are cosines, or inner products with ``normalize=False``.

    Parameters
    ----------
    quantizer, bytes_per_item, compress_at, normalize
        See `acqh.integrations.DocumentStore`.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> store = AcqhVectorStore()
    >>> store.add([TextNode(id_="a", text="one", embedding=[1.0, 0.0])])
    ['a']
    >>> result = store.query(VectorStoreQuery(query_embedding=[3.0, 4.0], similarity_top_k=1))
    >>> result.nodes[0].text, [round(each, 3) for each in result.similarities]
    ('one', [0.6])
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    _store: DocumentStore = PrivateAttr()

    def __init__(self, **settings: Any) -> None:
        own = {name: settings.pop(name) for name in type(self).model_fields if name in settings}
        super().__init__(**own)
        self._store = DocumentStore(**settings)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex stores."""
        return "AcqhVectorStore"

    @property
    def client(self) -> DocumentStore:
        """What keeps nodes and codes."""
        return self._store

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:  # noqa: ARG002
        """Add nodes that have an embedding, in place of those with the same ids."""
        ids = [node.node_id for node in nodes]
        vectors = [node.get_embedding() for node in nodes]
        self._store.put(ids, vectors, [node_to_metadata_dict(node) for node in nodes])
        return ids

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:  # noqa: ARG002
        """Remove the nodes of a document."""
        self._store.remove(self._chosen(doc_ids=[ref_doc_id]))

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Remove nodes by id, by their metadata, or both.

        Raises
        ------
        InvalidInputError
            Neither was given; `clear` removes all.
        """
        if node_ids is None and filters is None:
            raise InvalidInputError("say which nodes to remove; clear removes all of them")
        self._store.remove(self._chosen(node_ids, filters))

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes by id, by their metadata, or all."""
        return list(self._nodes(self._chosen(node_ids, filters)).values())

    def clear(self) -> None:
        """Remove all nodes; codebooks stay."""
        self._store.remove(self._chosen())

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the best nodes, best first.

        Raises
        ------
        InvalidInputError
            No embedding, or a mode other than ``DEFAULT`` and ``MMR``.
        """
        if query.query_embedding is None:
            raise InvalidInputError("the query has no embedding")
        among = None
        # An index that leaves its nodes to the store names none of them, and means all.
        if query.filters is not None or query.node_ids or query.doc_ids:
            among = self._chosen(query.node_ids or None, query.filters, query.doc_ids or None)
        if query.mode == VectorStoreQueryMode.DEFAULT:
            found = self._store.search(query.query_embedding, query.similarity_top_k, among)
        elif query.mode == VectorStoreQueryMode.MMR:
            found = self._different(query, among, kwargs.get("mmr_threshold"))
        else:
            raise InvalidInputError(
                f"queries of mode {query.mode!s} are not answered; take DEFAULT or MMR"
            )
        nodes = self._nodes(each for each, _ in found)
        return VectorStoreQueryResult(
            nodes=list(nodes.values()),
            similarities=[score for each, score in found if each in nodes],
            ids=list(nodes),
        )

    def compress(self, queries: Any = None) -> None:
        """Learn codebooks from the nodes that are there; see `DocumentStore.compress`."""
        self._store.compress(queries)

    def persist(
        self, persist_path: str = f"{DEFAULT_PERSIST_DIR}/{DEFAULT_PERSIST_FNAME}", fs: Any = None
    ) -> None:
        """Save all of it in a folder of this name; `from_persist_path` opens it.

        Raises
        ------
        InvalidInputError
            A file system was given: only local files can be written.
        """
        if fs is not None:
            raise InvalidInputError("only local files can be written; leave out fs")
        Path(persist_path).parent.mkdir(parents=True, exist_ok=True)
        self._store.save(persist_path)

    @classmethod
    def from_persist_path(cls, persist_path: str) -> Self:
        """Open what `persist` wrote; see `DocumentStore.load`."""
        opened = cls()
        opened._store = DocumentStore.load(persist_path)
        return opened

    @classmethod
    def from_persist_dir(
        cls, persist_dir: str = DEFAULT_PERSIST_DIR, namespace: str = "default"
    ) -> Self:
        """Open what ``StorageContext.persist`` wrote to a folder."""
        return cls.from_persist_path(f"{persist_dir}/{namespace}__{DEFAULT_PERSIST_FNAME}")

    def _different(
        self, query: VectorStoreQuery, among: list[str] | None, threshold: float | None
    ) -> Found:
        fetched = self._store.search(
            query.query_embedding, query.similarity_top_k * _MMR_FETCH, among
        )
        vectors = self._store.vectors(each for each, _ in fetched)
        if not vectors:
            return []
        scores, chosen = get_top_k_mmr_embeddings(
            query.query_embedding,
            [vector.tolist() for vector in vectors.values()],
            similarity_top_k=query.similarity_top_k,
            embedding_ids=list(vectors),
            mmr_threshold=query.mmr_threshold if threshold is None else threshold,
        )
        return list(zip(chosen, map(float, scores), strict=True))

    def _chosen(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        doc_ids: list[str] | None = None,
    ) -> list[str]:
        """Return the ids of the nodes that fulfil all of it."""
        nodes, documents = set(node_ids or ()), set(doc_ids or ())

        def fits(kept: Mapping[str, Any]) -> bool:
            return (doc_ids is None or kept["ref_doc_id"] in documents) and (
                filters is None or _matches(filters, kept)
            )

        return [each for each in self._store.ids(fits) if node_ids is None or each in nodes]

    def _nodes(self, ids: Iterable[str]) -> dict[str, BaseNode]:
        """Return nodes by id, without those that another thread removed meanwhile."""
        return {
            each: metadata_dict_to_node(dict(kept))
            for each in ids
            if (kept := self._store.get(each)) is not None
        }


def _matches(filters: MetadataFilters, metadata: Mapping[str, Any]) -> bool:
    """Return whether metadata fulfil filters, nested ones included."""
    parts = [
        _matches(each, metadata)
        if isinstance(each, MetadataFilters)
        else build_metadata_filter_fn(lambda _: metadata, MetadataFilters(filters=[each]))("")
        for each in filters.filters
    ]
    if filters.condition == FilterCondition.NOT:
        return not any(parts)
    return any(parts) if filters.condition == FilterCondition.OR else all(parts)

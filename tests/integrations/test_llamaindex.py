"""LlamaIndex's contract of vector stores."""

import numpy as np
import pytest

from acqh.errors import InvalidInputError

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from acqh.integrations.llamaindex import AcqhVectorStore


def make_nodes(n_nodes=120, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(n_nodes, 8))
    return [
        TextNode(
            id_=f"node{n}",
            text=f"text {n}",
            metadata={"n": n, "kind": "even" if n % 2 == 0 else "odd", "tags": ["all", f"t{n}"]},
            embedding=vector.tolist(),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc{n // 10}")},
        )
        for n, vector in enumerate(vectors)
    ]


def make_store(*, compressed=False):
    store = AcqhVectorStore(bytes_per_item=4)
    assert store.add(make_nodes()) == [f"node{n}" for n in range(120)]
    if compressed:
        store.compress(queries=[node.embedding for node in make_nodes(40, seed=1)])
        assert store.client.index.codes.shape == (120, 4)
    return store


@pytest.fixture(scope="module")
def coded():
    return make_store(compressed=True)


def ask(store, number=3, k=5, **settings):
    embedding = make_nodes()[number].embedding
    query = VectorStoreQuery(query_embedding=embedding, similarity_top_k=k, **settings)
    return store.query(query)


def test_answers_are_those_of_the_simple_store():
    simple = SimpleVectorStore()
    simple.add(make_nodes())
    store = make_store()
    assert isinstance(store, BasePydanticVectorStore)
    for number in (3, 50):
        expected, found = ask(simple, number), ask(store, number)
        assert found.ids == expected.ids
        np.testing.assert_allclose(found.similarities, expected.similarities, atol=1e-6)


def test_nodes_come_back_whole(coded):
    found = ask(coded, k=1)
    (node,) = found.nodes
    expected = make_nodes()[3]
    assert (node.node_id, node.text, node.metadata) == ("node3", "text 3", expected.metadata)
    assert node.ref_doc_id == "doc0"
    assert found.similarities[0] == pytest.approx(1, abs=0.05)


def equal(key, value, operator=FilterOperator.EQ):
    return MetadataFilter(key=key, value=value, operator=operator)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        ([equal("n", 3)], {3}),
        ([equal("n", 2, FilterOperator.LT)], {0, 1}),
        ([equal("tags", "t5", FilterOperator.CONTAINS)], {5}),
        ([equal("kind", "even"), equal("n", [1, 2, 4], FilterOperator.IN)], {2, 4}),
        ([equal("n", -1)], set()),
        (
            [
                equal("kind", "odd"),
                MetadataFilters(
                    filters=[equal("n", 7), equal("n", 8), equal("n", 9)],
                    condition=FilterCondition.OR,
                ),
            ],
            {7, 9},
        ),
        (
            [MetadataFilters(filters=[equal("n", 2, ">=")], condition=FilterCondition.NOT)],
            {0, 1},
        ),
    ],
)
def test_filters_also_nested_ones_are_followed(coded, filters, numbers, compressed):
    store = coded if compressed else make_store()
    found = ask(store, k=120, filters=MetadataFilters(filters=filters))
    assert {node.metadata["n"] for node in found.nodes} == numbers
    assert len(found.ids) == len(found.similarities) == len(numbers)


def test_queries_may_name_nodes_and_documents(coded):
    assert set(ask(coded, node_ids=["node1", "node2", "gone"]).ids) == {"node1", "node2"}
    assert set(ask(coded, k=120, doc_ids=["doc2"]).ids) == {f"node{n}" for n in range(20, 30)}


def test_nodes_can_be_replaced_removed_and_got():
    for store in (make_store(), make_store(compressed=True)):
        store.delete("doc0")
        assert len(store.get_nodes()) == 110
        store.delete_nodes(node_ids=["node10", "absent"])
        store.delete_nodes(filters=MetadataFilters(filters=[equal("kind", "odd")]))
        left = {node.node_id for node in store.get_nodes()}
        assert left == {f"node{n}" for n in range(12, 120, 2)}
        other = make_nodes()[12]
        other.text = "changed"
        store.add([other])
        assert [node.text for node in store.get_nodes(["node12"])] == ["changed"]
        assert len(store.get_nodes()) == len(left)
        store.clear()
        assert store.get_nodes() == []
        assert ask(store).ids == []


def test_marginal_relevance_passes_over_what_is_alike():
    store = make_store()
    copies = [make_nodes()[3].model_copy(update={"id_": f"copy{n}"}) for n in range(3)]
    store.add(copies)
    near = ask(store, mode=VectorStoreQueryMode.DEFAULT, k=4).ids
    assert set(near) == {"node3", "copy0", "copy1", "copy2"}
    apart = ask(store, mode=VectorStoreQueryMode.MMR, k=4, mmr_threshold=0.3).ids
    assert len(set(apart) & set(near)) < 4
    with pytest.raises(InvalidInputError, match="mode"):
        ask(store, mode=VectorStoreQueryMode.SPARSE)


def test_an_index_keeps_its_nodes_in_the_store_and_opens_it_again(tmp_path):
    context = StorageContext.from_defaults(vector_store=AcqhVectorStore())
    model = MockEmbedding(embed_dim=8)
    nodes = [TextNode(text=f"text {n}") for n in range(5)]
    index = VectorStoreIndex(nodes, storage_context=context, embed_model=model)
    assert len(index.as_retriever(similarity_top_k=2).retrieve("anything")) == 2
    context.persist(str(tmp_path))
    opened = AcqhVectorStore.from_persist_dir(str(tmp_path))
    again = VectorStoreIndex.from_vector_store(opened, embed_model=model)
    found = again.as_retriever(similarity_top_k=5).retrieve("anything")
    assert {each.node.text for each in found} == {node.text for node in nodes}


def test_what_is_persisted_gives_the_same_answers(coded, tmp_path):
    path = str(tmp_path / "new" / "store")
    coded.persist(path)
    again = AcqhVectorStore.from_persist_path(path)
    assert ask(again) == ask(coded)
    with pytest.raises(InvalidInputError, match="local"):
        coded.persist(path, fs=object())


@pytest.mark.anyio
async def test_calls_that_wait_give_the_same(coded):
    query = VectorStoreQuery(query_embedding=make_nodes()[3].embedding, similarity_top_k=5)
    assert await coded.aquery(query) == coded.query(query)


@pytest.fixture
def anyio_backend():
    return "asyncio"

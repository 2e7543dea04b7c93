"""LangChain's own tests of vector stores, and what they do not ask."""

import numpy as np
import pytest

from acqh.errors import InvalidInputError
from acqh.quantize import AdditiveQuantizer

pytest.importorskip("langchain_tests")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests

from acqh.integrations.langchain import AcqhVectorStore


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def quantizer():
    """Of unit vectors, fine enough to tell any two texts apart."""
    embeddings = VectorStoreIntegrationTests.get_embeddings()
    vectors = np.array(embeddings.embed_documents([f"noise {n}" for n in range(400)]))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return AdditiveQuantizer(4, 64, random_state=0).fit(vectors)


@pytest.mark.anyio
class TestVectorsAsTheyAre(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        return AcqhVectorStore(self.get_embeddings())


@pytest.mark.anyio
class TestCodes(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, quantizer):
        return AcqhVectorStore(self.get_embeddings(), quantizer=quantizer)


TEXTS = [f"text {n}" for n in range(300)]
METADATA = [{"n": n, "kind": "even" if n % 2 == 0 else "odd"} for n in range(300)]


def make_store(**settings):
    embedding = DeterministicFakeEmbedding(size=8)
    ids = [f"id{n}" for n in range(300)]
    return AcqhVectorStore.from_texts(TEXTS, embedding, METADATA, ids=ids, **settings)


@pytest.fixture(scope="module")
def coded():
    store = make_store(bytes_per_item=4)
    store.compress(queries=TEXTS[:40])
    return store


def test_scores_are_cosines_before_and_close_to_them_after_compressing(coded):
    vectors = np.array(coded.embeddings.embed_documents(TEXTS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    query = vectors[7]
    expected = np.sort(vectors @ query)[::-1][:5]
    found = make_store().similarity_search_with_score("text 7", k=5)
    np.testing.assert_allclose([score for _, score in found], expected, atol=1e-6)
    assert found[0][0] == Document(id="id7", page_content="text 7", metadata=METADATA[7])
    best, score = coded.similarity_search_with_score("text 7", k=5)[0]
    assert best.id == "id7"
    assert score == pytest.approx(1, abs=0.05)
    assert coded.store.index.codes.shape == (300, 4)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({"kind": "odd", "n": [1, 2, 3]}, {1, 3}),
        (lambda document: document.metadata["n"] < 2, {0, 1}),
        ({"absent": 1}, set()),
    ],
)
def test_filters_take_values_of_metadata_or_a_function(coded, wanted, numbers):
    for store in (make_store(), coded):
        found = store.similarity_search("text 7", k=10, filter=wanted)
        assert {document.metadata["n"] for document in found} == numbers


def test_relevance_lies_between_zero_and_one(coded):
    found = coded.similarity_search_with_relevance_scores("text 3", k=300)
    scores = [score for _, score in found]
    assert len(scores) == 300
    assert 0 <= min(scores) <= max(scores) <= 1
    assert scores == sorted(scores, reverse=True)


def test_marginal_relevance_passes_over_what_is_alike(coded):
    store = make_store()
    store.add_texts(["text 7"] * 3, ids=["x", "y", "z"])
    texts = [
        document.page_content
        for document in store.max_marginal_relevance_search("text 7", k=3, lambda_mult=0.3)
    ]
    assert len(set(texts)) == 3
    assert len(coded.max_marginal_relevance_search("text 7", k=3)) == 3
    empty = AcqhVectorStore(DeterministicFakeEmbedding(size=8))
    assert empty.max_marginal_relevance_search("text 7") == []


def test_what_was_saved_gives_the_same_answers_and_takes_more(coded, tmp_path):
    for store in (make_store(), coded):
        store.save(tmp_path / "store")
        again = AcqhVectorStore.load(tmp_path / "store", store.embeddings)
        expected = store.similarity_search_with_score("text 9", k=20)
        assert again.similarity_search_with_score("text 9", k=20) == expected
        again.add_texts(["one more"], ids=["new"])
        assert again.similarity_search("one more", k=1)[0].id == "new"
        assert len(again) == 301


def test_codes_are_learnt_of_themselves_at_a_number_of_documents():
    store = make_store(compress_at=300, bytes_per_item=2)
    assert store.store.index.codes.shape == (300, 2)
    assert make_store(compress_at=301).store.index is None


def test_a_retriever_asks_the_store():
    retriever = make_store().as_retriever(search_kwargs={"k": 2, "filter": {"kind": "even"}})
    found = retriever.invoke("text 8")
    assert [document.id for document in found][:1] == ["id8"]
    assert len(found) == 2


def test_bad_calls_say_what_is_wrong():
    store = make_store()
    with pytest.raises(InvalidInputError, match="2 texts, 1 metadatas"):
        store.add_texts(["a", "b"], [{}])
    with pytest.raises(InvalidInputError, match="needs the ids"):
        store.delete()
    with pytest.raises(InvalidInputError, match="k must"):
        store.similarity_search("a", k=0)

    class Wider(Embeddings):
        def embed_documents(self, texts):
            return [[1.0] * 9 for _ in texts]

        def embed_query(self, text):
            return self.embed_documents([text])[0]

    store._embedding = Wider()
    with pytest.raises(InvalidInputError, match="9 components, those of the store 8"):
        store.add_texts(["a"])
    with pytest.raises(InvalidInputError, match="9 components, those of the store 8"):
        store.similarity_search("a")
    assert len(store) == 300

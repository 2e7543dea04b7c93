import json
import random
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from acqh.collection import Collection, Item
from acqh.collection.generations import current_folder
from acqh.collection.search.rank import fuse
from acqh.collection.store.file import WORDS_SCHEMA
from acqh.collection.store.vocabulary import WordIndex
from acqh.collection.store.words import (
    WordHit,
    WordQuery,
    change_words,
    find_words,
    read_words,
    reasons,
    words_in_path,
    words_of,
)
from acqh.collection.verify import verify_collection
from acqh.errors import CollectionError

CAPTIONS = {
    1: ("a red flower in the garden", "rose", ["plant"]),
    2: ("two horses on a beach", "horses", ["animal", "sea"]),
    3: ("a dog runs on the beach", "dog", ["animal"]),
    4: ("a café at night, garden chairs", "café", []),
    5: ("beach on a rainy day", "", ["sea", "animal shelter"]),
    6: ("", "grey16", []),
}


@pytest.fixture
def words():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(WORDS_SCHEMA)
    for number, fields in CAPTIONS.items():
        change_words(connection, number, *fields)
    return connection


def numbers_of(connection, text, k=10, numbers=None):
    return [hit.number for hit in find_words(connection, read_words(text), k, numbers)[0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("horse", [2]),
        ("HORSES", [2]),
        ("cafe", [4]),
        ("flow", [1]),
        ("flwer", [1]),
        ("hrose", [2]),  # nearer to rose by the letters they share
        ("dgo", [3]),
        ("ｄｏｇ", [3]),
        ("rain", [5]),
        ("grey", [6]),  # whose stem is grei
        ("zebra", []),
        ("!!!", []),
        ('"on a beach"', [2]),
        ('"beach on a"', [5]),
        ('"sea animal"', []),
        ("animal -dog", [2, 5]),
        ('beach -"rainy day"', [2, 3]),
        ('"red flo', [1]),
        ("a \x00 dog", [3]),
        ("dog OR AND NOT NEAR(", [3]),
    ],
)
def test_words_match_in_any_case_form_and_order(words, text, expected):
    assert sorted(numbers_of(words, text)) == expected


def test_items_with_all_words_rank_before_items_with_some(words):
    hits, _ = find_words(words, read_words("dog beach garden"), 10)
    assert not any(hit.complete for hit in hits)
    hits, _ = find_words(words, read_words("the dog on a beach"), 10)
    assert [hit.number for hit in hits if hit.complete] == [3]
    assert hits[0].number == 3
    assert {hit.number for hit in hits[1:]} == {2, 5}


def test_a_match_in_the_name_outweighs_one_in_the_caption(words):
    change_words(words, 6, "dog and dog show", "show", [])
    assert numbers_of(words, "dog")[0] == 3


def test_only_candidates_are_found(words):
    assert sorted(numbers_of(words, "beach", numbers=np.array([3, 5]))) == [3, 5]
    assert len(numbers_of(words, "beach", k=2)) == 2


def test_scores_and_order_equal_those_of_the_full_text_index():
    rng = random.Random(0)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(WORDS_SCHEMA)
    vocabulary = [f"word{n}" for n in range(30)]
    for number in range(1, 300):
        text, name = (" ".join(rng.choices(vocabulary, k=rng.randint(1, n))) for n in (12, 3))
        change_words(connection, 7 * number, text, name, rng.choices(vocabulary, k=2))
    statement = (
        "SELECT rowid, bm25(words, 1.0, 2.0, 1.0, 1.0) AS score FROM words WHERE words MATCH ? "
        "ORDER BY score, rowid LIMIT ?"
    )
    index = WordIndex()
    for _ in range(100):
        words = list(dict.fromkeys(rng.choices(vocabulary, k=rng.randint(1, 5))))
        complete = dict(connection.execute(statement, (" AND ".join(words), 40)))
        some = dict(connection.execute(statement, (" OR ".join(words), 80)))
        partial = [pair for pair in some.items() if pair[0] not in complete]
        hits, lists = find_words(connection, WordQuery(tuple(words)), 40, index=index)
        expected = [*complete.items(), *partial[: 40 - len(complete)]]
        assert [(hit.number, hit.rank) for hit in hits] == expected
        assert [hit.complete for hit in hits].count(True) == len(complete)
        why = reasons(lists, list(some))
        for reason, columns in {"keywords": "{text names signs}", "labels": "labels"}.items():
            matching = f"{columns} : ({' OR '.join(words)})"
            rows = {number for number, _ in connection.execute(statement, (matching, 999))}
            assert {number for number in some if reason in why[number]} == rows & set(some)


def test_many_prefixes_read_few_posting_lists():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(WORDS_SCHEMA)
    prefixes = [f"{one}{other}" for one in "cdfgjklm" for other in "aeio"]
    for number, prefix in enumerate(prefixes, start=1):
        text = " ".join(f"{prefix}{letter}{letter}" for letter in "bcdfghjklmnpqrtvwxz")
        change_words(connection, number, text, "", [])
    ran = []
    connection.set_trace_callback(ran.append)
    hits, _ = find_words(connection, read_words(" ".join(prefixes)), 50)
    assert len(hits) == len(prefixes)
    assert len([statement for statement in ran if "MATCH" in statement]) < 200  # not 32 * 19


@pytest.mark.parametrize("start", ["ro", "ros"])
def test_prefixes_leave_out_words_of_too_many_items(start, monkeypatch):
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(WORDS_SCHEMA)
    for number, text in enumerate(["rosex", "rosex", "rosey"], start=1):
        change_words(connection, number, text, "", [])
    monkeypatch.setattr("acqh.collection.store.words._MAX_ENTRIES", 2)
    assert numbers_of(connection, start) == [1, 2]
    assert numbers_of(connection, f"{start} zz") == [3]


def test_posting_lists_are_read_once_until_they_are_too_many(words, monkeypatch):
    ran = []
    words.set_trace_callback(ran.append)
    index = WordIndex()
    for text in ("dog beach", "beach garden", "garden dog"):
        find_words(words, read_words(text), 10, np.array([2, 3, 5]), index)
    assert len([statement for statement in ran if "MATCH" in statement]) == 3
    monkeypatch.setattr("acqh.collection.store.vocabulary._MAX_POSTINGS", 2)
    for text in ("rainy", "beach"):
        find_words(words, read_words(text), 10, None, index)
    assert len([statement for statement in ran if "MATCH" in statement]) == 5


def test_a_text_query_takes_few_statements_and_one_encoding(things):
    with Collection.open(things) as collection:
        encoders = collection.opened.facts.encoders
        encoded = []

        class Counting:
            encoder = encoders["text"]

            def transform(self, texts):
                encoded.extend(texts)
                return self.encoder.transform(texts)

        encoders["text"] = Counting()
        collection.search(text="car")  # the first time the index is opened and kinds are read
        encoded.clear()
        ran = []
        for connection, _ in collection._store._free:
            connection.set_trace_callback(ran.append)
        first = collection.search(text="a red rose")
        # Comments are what the index of words asks itself.
        assert len([statement for statement in ran if not statement.startswith("--")]) <= 8
        again = collection.search(text="a red rose")
        assert [hit.score for hit in again.hits] == [hit.score for hit in first.hits]
        assert encoded == ["a red rose"]


def test_removed_items_and_their_words_are_gone(words):
    change_words(words, 2, *CAPTIONS[2], remove=True)
    assert numbers_of(words, "horse") == []
    assert sorted(numbers_of(words, "beach")) == [3, 5]
    words.execute("INSERT INTO words (words) VALUES ('integrity-check')")


def test_stop_words_are_skipped_unless_the_query_has_no_others():
    assert read_words("a dog on the beach").terms == ("dog", "beach")
    assert read_words("on the").terms == ("on", "the")


def test_a_query_is_read_whole_and_kept_short():
    query = read_words('red "old car" -dog -"at night" ' + " ".join(f"w{i}" for i in range(99)))
    assert (query.phrases, query.without) == (("old car",), ("dog", "at night"))
    assert len(query.terms) == 32
    assert query.to_encode.startswith("red old car w0")
    assert read_words("") == WordQuery()


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    items = [
        Item(text="a red rose in the garden", labels=["flower"], id="rose", fields={"year": 1}),
        Item(text="a white tulip in a vase", labels=["flower"], id="tulip", fields={"year": 2}),
        Item(text="a fast red car", labels=["vehicle"], id="car", fields={"name": "Beetle"}),
        Item(text="an old bus in the street", labels=["vehicle"], id="bus", fields={"year": 2}),
    ]
    path = tmp_path_factory.mktemp("words") / "things.acqh"
    Collection.build(items, path, n_components=4, text_encoder="tfidf").close()
    return path


def ids_of(collection, text, **options):
    return [hit.id for hit in collection.search(text=text, **options).hits]


def test_items_with_the_word_rank_first_with_the_reason_keywords(things):
    with Collection.open(things) as collection:
        for word, expected in [("tulip", "tulip"), ("beetles", "car"), ("streets", "bus")]:
            first = collection.search(text=word).hits[0]
            assert first.id == expected
            assert first.score >= 1 == first.match
            assert "keywords" in first.why
        assert "labels" in collection.search(text="vehicle").hits[0].why
        assert ids_of(collection, "vehicle", mode="keyword") == ["car", "bus"]
        assert ids_of(collection, "red -rose", mode="keyword") == ["car"]
        assert "rose" not in ids_of(collection, "red -rose")
        assert ids_of(collection, '"red car"') == ["car"]
        assert ids_of(collection, "tulip", where={"year": 1}) == ["rose"]
        assert collection.search(item="rose").hits[0].why == ("semantic",)


def test_the_vocabulary_is_read_once_for_any_number_of_unknown_words(things):
    with Collection.open(things) as collection:
        statements = []
        for connection, _ in collection._store._free:
            connection.set_trace_callback(statements.append)
        first = collection.search(text="tulp").hits[0]
        assert (first.id, "keywords" in first.why) == ("tulip", True)
        collection.search(text="gardn rosse wheell")
        assert (
            sum("ORDER BY doc DESC, term LIMIT 500000" in statement for statement in statements)
            == 1
        )


def test_an_exact_name_ranks_first(things, tmp_path):
    path = tmp_path / "named.acqh"
    shutil.copytree(things, path)
    with Collection.open(path) as collection:
        collection.add(
            [
                Item(text="a kite kite kite", id="toy", fields={"name": "kite with a tail"}),
                Item(text="a red bird", id="bird", fields={"name": "Kite"}),
            ]
        )
        first, second = collection.search(text="kite", k=2).hits
        assert (first.id, second.id) == ("bird", "toy")
        assert first.score > 2 > second.score > 1


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
def test_the_typed_form_ranks_before_other_forms_of_a_word(things, tmp_path, mode):
    path = tmp_path / "forms.acqh"
    shutil.copytree(things, path)
    items = {"one": "red kite", "many": "five red paper Kítes", "act": "kiting in red"}
    with Collection.open(path) as collection:
        collection.add([Item(text=text, id=name) for name, text in items.items()])
        for query, first in (("kites", "many"), ("kiting", "act"), ("paper kite", "many")):
            hits = collection.search(text=query, k=3, mode=mode).hits
            assert hits[0].id == first
        assert {hit.id for hit in collection.search(text="kites", k=3, mode=mode).hits} == {*items}


def test_ties_are_broken_by_the_keyword_score():
    one, other = WordHit(1, -2.0, True), WordHit(2, -1.0, True)
    best = fuse({2: 0.5, 1: 0.5, 3: 0.9}, [other, one], 3, words_first=True)
    assert [number for number, *_ in best] == [1, 2, 3]
    assert best[0][1] == best[1][1] > best[2][1]


def test_among_full_keyword_matches_similarity_outweighs_text_length():
    hits = [WordHit(number, -7.0 + number, True) for number in range(7)]
    best = fuse({6: 0.7, 10: 0.9, 0: 0.3}, hits, 2, words_first=True)
    assert [number for number, *_ in best] == [6, 0]


def test_some_of_the_words_do_not_outrank_a_confident_semantic_match():
    weak = WordHit(1, -2.0, False, share=0.25)
    best = fuse({2: 0.6, 1: 0.2}, [weak], 2, words_first=True)
    assert [number for number, *_ in best] == [2, 1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("holidays/Lake Como 2.jpg", "holidays Lake Como 2"),
        ("2019/DSC_0012.jpg", "2019"),
        ("3385593926_be8621d17b.jpg", ""),
        ("100CANON/IMG_20190812_0007.jpg", ""),
        ("550e8400-e29b-41d4-a716-446655440000.png", ""),
        ("Łódź/żubr12.png", "Łódź żubr12"),
        ("東京/犬.png", "東京 犬"),
    ],
)
def test_file_names_are_split_into_words(name, words):
    assert words_in_path(name) == words


def test_a_word_does_not_match_a_prefix_of_its_stem(things, tmp_path):
    path = tmp_path / "stems.acqh"
    shutil.copytree(things, path)
    with Collection.open(path) as collection:
        collection.add(Item(text="a bear on a bench", id="bear"))
        assert ids_of(collection, "being", mode="keyword") == []
        assert ids_of(collection, "ben", mode="keyword") == ["bear"]


def test_semantic_mode_ignores_keywords(things):
    with Collection.open(things) as collection:
        answer = collection.search(text="tulip", mode="semantic", explain=True)
        parts = answer.explanation.parts.sum(axis=1)
        np.testing.assert_allclose([hit.score for hit in answer.hits], parts, rtol=1e-5)
        assert all(hit.why == ("semantic",) for hit in answer.hits)


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
def test_the_parts_of_a_score_add_up_to_it(things, mode):
    with Collection.open(things) as collection:
        answer = collection.search(text="red rose", mode=mode, explain=True)
        parts = answer.explanation.parts
        assert answer.hits
        assert parts.shape == (len(answer.hits), len(answer.explanation.names))
        np.testing.assert_allclose([hit.score for hit in answer.hits], parts.sum(axis=1), rtol=1e-5)


def test_the_full_text_index_follows_added_replaced_and_removed_items(things, tmp_path):
    path = tmp_path / "changed.acqh"
    shutil.copytree(things, path)
    with Collection.open(path) as collection:
        collection.add(Item(text="a red kite", id="kite"))
        assert ids_of(collection, "kite", mode="keyword") == ["kite"]
        collection.upsert(Item(text="a red balloon", id="kite"))
        assert ids_of(collection, "kite", mode="keyword") == []
        assert ids_of(collection, "balloon", mode="keyword") == ["kite"]
        collection.remove("kite")
        assert ids_of(collection, "balloon", mode="keyword") == []
        assert collection.verify().problems == ()


def test_texts_in_fields_are_searched_like_captions(things, tmp_path):
    path = shutil.copytree(things, tmp_path / "annotated.acqh")
    with Collection.open(path) as annotated:
        person = {"person": "Anna Müller", "url": "https://a.example/Zugspitze", "year": 2019}
        annotated.upsert(Item(text="a red kite", id="kite", fields=person))
        for text in ("anna", "muller", '"Anna Müller"'):
            assert ids_of(annotated, text, mode="keyword") == ["kite"], text
        best = annotated.search("Anna").hits[0]
        assert (best.id, best.match, best.why[0]) == ("kite", 1.0, "keywords")
        assert ids_of(annotated, "zugspitze", mode="keyword") == []
        annotated.upsert(Item(text="a red kite", id="kite", fields={"person": "Ben"}))
        assert ids_of(annotated, "anna", mode="keyword") == []
        assert annotated.verify().problems == ()


@pytest.mark.parametrize("is_other_order", [False, True])
def test_verify_detects_a_full_text_index_that_differs_from_the_items(
    things, tmp_path, is_other_order
):
    path = tmp_path / "wrong.acqh"
    shutil.copytree(things, path)
    with closing(sqlite3.connect(current_folder(path) / "items.sqlite")) as connection, connection:
        rows = connection.execute("SELECT text, labels, fields FROM items WHERE number = 1")
        text, *fields = rows.fetchone()
        words = words_of(text, *map(json.loads, fields))
        change_words(connection, 1, *words, remove=True)
        others = " ".join(reversed(text.split())) if is_other_order else f"{text} zebra"
        change_words(connection, 1, others, *words[1:])
    (problem,) = verify_collection(path).problems
    assert "words" in problem


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"text": "dog", "mode": "sense"}, "mode. must be one of"),
        ({"item": "rose", "mode": "keyword"}, "give a text"),
        ({"text": "rose", "item": "rose", "mode": "keyword"}, "item"),
        ({"mode": "keyword"}, "give a text"),
    ],
)
def test_modes_that_do_not_fit_the_query_are_rejected(things, query, message):
    with Collection.open(things) as collection, pytest.raises(CollectionError, match=message):
        collection.search(**query)


def test_an_item_is_called_so_by_any_one_of_its_names(tmp_path):
    items = [
        Item(text="a dish", id="title", fields={"title": "pizza", "file": "rome/lunch.jpg"}),
        Item(text="a pizza, hot", id="text"),
    ]
    with Collection.build(items, tmp_path / "c.acqh", text_encoder="tfidf") as collection:
        first, second = collection.search(text="pizza", mode="keyword").hits
        assert (first.id, second.id) == ("title", "text")
        assert first.score == second.score + 1


def test_a_word_of_one_letter_repeated_is_no_typo(words):
    assert numbers_of(words, "zzz") == []


def test_a_number_is_no_typo_of_another(words):
    change_words(words, 99, "concert in 2023", "", [])
    assert numbers_of(words, "2023") == [99]
    assert numbers_of(words, "2030") == []

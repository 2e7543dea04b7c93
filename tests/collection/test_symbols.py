"""Symbols and words of scripts without spaces are found as typed."""

import pytest

from acqh.collection import Collection, Item
from acqh.collection.store.words import read_words

ITEMS = {
    "pizza": ("pizza, cheese, slice", {"emoji": "🍕"}),
    "rocket": ("rocket, space", {"emoji": "🚀"}),
    "astronaut": ("woman astronaut, space", {"emoji": "👩‍🚀"}),
    "thumb": ("thumbs up", {"emoji": "👍"}),
    "heart": ("red heart", {"emoji": "❤️"}),
    "fire": ("heart on fire", {"emoji": "❤️‍🔥"}),
    "germany": ("flag: Germany", {"emoji": "🇩🇪"}),
    "one": ("keycap", {"emoji": "1️⃣"}),
    "station": ("Ｓｔａｔｉｏｎ at noon", {"場所": "渋谷 in the rain 🚉"}),
    "tower": ("夜の東京タワー", {}),
    "party": ("we had 🍕 at the party", {}),
    "c": ("a letter C on a wall", {}),
    "c++": ("a book on C++", {}),
    "acdc": ("AC/DC on stage", {}),
    "dont": ("a sign: don't walk", {}),
}


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    items = [Item(text=text, id=id_, fields=fields) for id_, (text, fields) in ITEMS.items()]
    path = tmp_path_factory.mktemp("signs") / "c.acqh"
    settings = {"text_encoder": "tfidf", "n_components": 4}
    with Collection.build(items, path, **settings) as built:
        yield built


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("🍕", ["pizza", "party"]),
        ("🚀", ["rocket", "astronaut"]),
        ("👩‍🚀", ["astronaut"]),
        ("👍🏽", ["thumb"]),  # of any skin
        ("👩🏿‍🚀", ["astronaut"]),
        ("❤", ["heart", "fire"]),  # with or without the selector of a coloured form
        ("❤️", ["heart", "fire"]),
        ("🇩🇪", ["germany"]),
        ("東京", ["tower"]),
        ("タワー", ["tower"]),
        ("🍕 party", ["party"]),
        ("🍕 -party", ["pizza"]),
        ("heart -🔥", ["heart"]),
        ("ｒｏｃｋｅｔ", ["rocket"]),  # full-width letters
        ("1️⃣", ["one"]),
        ("station 🚉", ["station"]),
        ("渋谷", ["station"]),
        ("C++", ["c++"]),
        ("c++?", ["c++"]),
        ("AC/DC", ["acdc"]),
        ("don't", ["dont"]),
    ],
)
def test_a_typed_symbol_is_found_first(collection, text, expected, mode):
    hits = collection.search(text=text, mode=mode).hits
    assert [hit.id for hit in hits[: len(expected)]] == expected
    assert all("keywords" in hit.why for hit in hits[: len(expected)])


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
@pytest.mark.parametrize(
    ("text", "unwanted"),
    [
        ("heart -🔥", {"fire"}),
        ("space -🚀", {"rocket", "astronaut"}),
        ("wall -東京", {"tower"}),
        ("🚀 -red", {"heart"}),
        ("東京 -fire", {"fire"}),
    ],
)
def test_excluded_words_are_not_found(collection, text, unwanted, mode):
    every = {hit.id for hit in collection.search(text=text.split(" -")[0], k=50, mode=mode).hits}
    result = {hit.id for hit in collection.search(text=text, k=50, mode=mode).hits}
    assert result == every - unwanted


def test_a_text_of_excluded_words_alone_finds_no_similar_items(collection):
    assert not collection.search(text="-red").hits
    like = collection.search(item="rocket", k=50).hits
    assert [hit.id for hit in like if hit.id != "heart"] == [
        hit.id for hit in collection.search(item="rocket", text="-red", k=50).hits
    ]


def test_absent_symbols_are_not_found_by_keywords(collection):
    assert not collection.search(text="🦄", mode="keyword").hits
    assert not collection.search(text="北京", mode="keyword").hits
    assert not collection.search(text="京東", mode="keyword").hits


@pytest.mark.parametrize("text", ["場所", "所"])
def test_the_name_of_a_field_is_no_keyword(collection, text):
    assert not collection.search(text=text, mode="keyword").hits
    assert "station" in {hit.id for hit in collection.search(text=f"noon -{text}").hits}


def test_many_symbols_are_looked_up_without_reading_the_items(collection):
    statements = []
    for connection, _ in collection._store._free:
        connection.set_trace_callback(statements.append)
    collection.search(text=" ".join(chr(0x4E00 + n) for n in range(32)), mode="keyword")
    for connection, _ in collection._store._free:
        connection.set_trace_callback(None)
    read = [statement for statement in statements if "FROM items" in statement]
    assert statements
    assert all("json_each" in statement for statement in read)


def test_symbols_of_added_and_removed_items_are_updated(collection):
    collection.add(Item(text="a unicorn 🦄", id="unicorn"))
    assert collection.search(text="🦄", k=1).hits[0].id == "unicorn"
    collection.remove("unicorn")
    assert not collection.search(text="🦄", mode="keyword").hits


def test_punctuation_and_operators_are_no_signs():
    assert read_words("cats + dogs | birds !!!").terms == ("cats", "dogs", "birds")
    assert read_words("🍕 -🚀 party").terms == ("🍕", "party")
    assert read_words("🍕 -🚀 party").without == ("🚀",)

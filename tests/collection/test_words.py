import sqlite3

import numpy as np
import pytest

from acqh.collection._words import (
    WORDS_SCHEMA,
    WordQuery,
    add_words,
    find_words,
    read_words,
    remove_words,
)

CAPTIONS = {
    1: ("a red flower in the garden", "rose", ["plant"]),
    2: ("two horses on a beach", "horses", ["animal", "sea"]),
    3: ("a dog runs on the beach", "dog", ["animal"]),
    4: ("a café at night, garden chairs", "café", []),
    5: ("beach on a rainy day", "", ["sea", "animal shelter"]),
}


@pytest.fixture
def words():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(WORDS_SCHEMA)
    for number, fields in CAPTIONS.items():
        add_words(connection, number, *fields)
    return connection


def numbers_of(connection, text, k=10, numbers=None):
    return [hit.number for hit in find_words(connection, read_words(text), k, numbers)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("horse", [2]),
        ("HORSES", [2]),
        ("cafe", [4]),
        ("flow", [1]),
        ("flwer", [1]),
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
def test_words_are_found_as_people_type_them(words, text, expected):
    assert sorted(numbers_of(words, text)) == expected


def test_items_with_all_words_come_before_items_with_some(words):
    hits = find_words(words, read_words("dog beach garden"), 10)
    assert not any(hit.complete for hit in hits)
    hits = find_words(words, read_words("the dog on a beach"), 10)
    assert [hit.number for hit in hits if hit.complete] == [3]
    assert hits[0].number == 3
    assert {hit.number for hit in hits[1:]} == {2, 5}


def test_a_name_counts_for_more_than_a_word_of_a_caption(words):
    add_words(words, 6, "dog and dog show", "show", [])
    assert numbers_of(words, "dog")[0] == 3


def test_only_the_items_asked_for_are_found(words):
    assert sorted(numbers_of(words, "beach", numbers=np.array([3, 5]))) == [3, 5]
    assert len(numbers_of(words, "beach", k=2)) == 2


def test_removed_items_are_found_no_more_and_leave_no_word_behind(words):
    remove_words(words, 2, *CAPTIONS[2])
    assert numbers_of(words, "horse") == []
    assert sorted(numbers_of(words, "beach")) == [3, 5]
    words.execute("INSERT INTO words (words) VALUES ('integrity-check')")


def test_common_words_are_left_out_unless_they_are_all_there_is():
    assert read_words("a dog on the beach").terms == ("dog", "beach")
    assert read_words("on the").terms == ("on", "the")


def test_a_query_is_read_whole_and_kept_short():
    query = read_words('red "old car" -dog -"at night" ' + " ".join(f"w{i}" for i in range(99)))
    assert (query.phrases, query.without) == (("old car",), ("dog", "at night"))
    assert len(query.terms) == 32
    assert query.plain.startswith("old car red w0")
    assert read_words("") == WordQuery()

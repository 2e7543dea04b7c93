import random
import sqlite3

import numpy as np
import pytest

from acqh.collection import Collection, Item
from acqh.collection.store.vocabulary import Vocabulary


def index_of(counts):
    """Return a full-text index in which each word occurs in so many rows."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    for row in range(max(counts.values(), default=0)):
        text = " ".join(word for word, n in counts.items() if n > row)
        connection.execute("INSERT INTO words VALUES (?)", (text,))
    return connection


def random_words(n, seed=0):
    rng = random.Random(seed)
    letters = ("abcdeéñß", "aab", "ﬁmno")
    return {
        "".join(rng.choices(rng.choice(letters), k=rng.randint(1, 9))): rng.randint(1, 4)
        for _ in range(n)
    }


def trigrams(word):
    padded = f"  {word} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


def nearest(word, counts):
    """Compare a word with every other: what the index must find."""
    scored = []
    for other, n_rows in counts.items():
        if len(word) < 4 or not max(len(word) - 2, 4) <= len(other) <= len(word) + 2:
            continue
        word_grams, grams = trigrams(word), trigrams(other)
        similarity = 2 * len(word_grams & grams) / (len(word_grams) + len(grams))
        if similarity >= 0.4:
            scored.append((-similarity, -n_rows, other))
    return [other for _, _, other in sorted(scored)[:3]]


@pytest.mark.parametrize("seed", range(3))
def test_similar_words_equal_those_of_an_exhaustive_comparison(seed):
    connection = index_of(random_words(400, seed))
    vocabulary = Vocabulary(connection)
    counts = dict(connection.execute("SELECT term, doc FROM temp.vocabulary"))
    queries = [*random_words(300, seed + 10), *counts, "x" * 500, "ab" * 50]
    assert [vocabulary.similar(word) for word in queries] == [nearest(w, counts) for w in queries]


def test_short_prefixes_are_completed_with_the_most_frequent_words():
    vocabulary = Vocabulary(index_of({"dog": 1, "dots": 3, "deer": 2, "cat": 1, "d": 1}))
    assert vocabulary.beginning("d", 3) == [("dots", 3), ("deer", 2), ("d", 1)]
    assert vocabulary.beginning("do", 9) == [("dots", 3), ("dog", 1)]
    assert vocabulary.beginning("x", 9) == []


def test_an_empty_vocabulary_has_nothing_similar():
    vocabulary = Vocabulary(index_of({}))
    assert vocabulary.similar("flower") == []
    assert vocabulary.beginning("f", 9) == []


def test_unknown_words_are_not_compared_with_the_full_vocabulary(monkeypatch):
    rng = random.Random(0)
    counts = {"".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=8)): 1 for _ in range(3_000)}
    vocabulary = Vocabulary(index_of(counts))
    n_read, concatenate = [], np.concatenate

    def counting(arrays):
        n_read.append(sum(map(len, arrays)))
        return concatenate(arrays)

    monkeypatch.setattr(np, "concatenate", counting)
    for _ in range(32):
        vocabulary.similar("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=8)))
    assert sum(n_read) < 32 * len(counts) / 4


def test_words_of_new_items_correct_typos_at_once(path):
    with Collection.open(path) as collection:
        assert collection.search(text="zepelin", mode="keyword").hits == ()
        collection.add([Item(text="a zeppelin in the garden", id="new")])
        assert [hit.id for hit in collection.search(text="zepelin", mode="keyword").hits] == ["new"]

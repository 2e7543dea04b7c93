"""Collections that earlier versions made open, get what is new, and find what they found.

``layout-1`` was made by the last version without an index of words, and is never made again.
"""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from acqh.collection import Collection, Item, verify_collection
from acqh.errors import CollectionError, CorruptBundleError

LAYOUT_1 = Path(__file__).parent / "collections" / "layout-1"
EXPECTED = json.loads((LAYOUT_1 / "things.json").read_text())


@pytest.fixture
def old(tmp_path):
    """Return a copy of the collection of layout 1: opening changes it."""
    return shutil.copytree(LAYOUT_1 / "things.acqh", tmp_path / "things.acqh")


def layout_of(path):
    with closing(sqlite3.connect(path / "items.sqlite")) as connection:
        return connection.execute("SELECT value FROM facts WHERE name = 'layout'").fetchone()[0]


def ids_of(answer):
    return [hit.id for hit in answer.hits]


def test_an_old_collection_opens_and_finds_what_it_found(old):
    assert layout_of(old) == "1"
    with Collection.open(old) as collection:
        assert list(collection) == EXPECTED["ids"]
        assert collection.settings is collection.stats().settings is None
        assert collection.labels() == EXPECTED["labels"]
        for text, ids in EXPECTED["text"].items():
            assert ids_of(collection.search(text=text, k=4, mode="meaning")) == ids
        assert ids_of(collection.search(item="rose", k=3)) == EXPECTED["item"]
    assert layout_of(old) == "2"


def test_an_old_collection_gets_an_index_of_words_and_can_be_changed(old):
    with Collection.open(old) as collection:
        assert ids_of(collection.search(text="tram", mode="words")) == ["tram"]
        assert collection.add(Item(text="a red tram", labels=["vehicle"], id="new")).ids == ("new",)
        assert ids_of(collection.search(text="tram", mode="words")) == ["tram", "new"]
        collection.remove("tram")
    assert verify_collection(old).problems == ()


def test_an_old_collection_that_cannot_be_written_to_is_searched_by_meaning(old, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # the owner of a test may write anywhere
    with Collection.open(old) as collection:
        assert ids_of(collection.search(text="tulip", k=4)) == EXPECTED["text"]["tulip"]
        with pytest.raises(CollectionError, match="without an index of words"):
            collection.search(text="tulip", mode="words")
    assert layout_of(old) == "1"


def test_a_collection_of_a_newer_layout_says_what_to_do(old):
    with closing(sqlite3.connect(old / "items.sqlite")) as connection, connection:
        connection.execute("UPDATE facts SET value = 99 WHERE name = 'layout'")
    with pytest.raises(CorruptBundleError, match=r"layout 99.*newer acqh, or build"):
        Collection.open(old)

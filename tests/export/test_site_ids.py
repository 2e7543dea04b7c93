"""Published ids: secret, distinct, and the same from export to export."""

import pytest

import acqh.export.static.site as site_module
from acqh.collection import Collection, Item
from acqh.export import site

ITEMS = [Item(text=f"{name} number {n}", id=f"{name}/{n}") for n in range(6) for name in "abc"]


@pytest.fixture
def collection(tmp_path):
    with Collection.build(ITEMS, tmp_path / "c.acqh", text_encoder="tfidf") as collection:
        yield collection


def published_ids(collection, folder):
    site(collection, folder)
    return next(folder.glob("data/ids-*.txt")).read_text()


def test_ids_stay_when_the_collection_is_retrained(collection, tmp_path):
    before = published_ids(collection, tmp_path / "before")
    with collection.retrain() as retrained:
        assert published_ids(retrained, tmp_path / "after") == before


def test_ids_stay_when_the_collection_is_overwritten(collection, tmp_path):
    before = published_ids(collection, tmp_path / "before")
    path = collection.path
    with Collection.build(ITEMS, path, text_encoder="tfidf", overwrite=True) as rebuilt:
        assert published_ids(rebuilt, tmp_path / "after") == before


def test_ids_of_another_collection_of_the_same_items_differ(collection, tmp_path):
    with Collection.build(ITEMS, tmp_path / "d.acqh", text_encoder="tfidf") as other:
        assert published_ids(other, tmp_path / "d") != published_ids(collection, tmp_path / "c")


def test_ids_that_would_collide_are_distinguished(collection, tmp_path, monkeypatch):
    monkeypatch.setattr(site_module, "_ID_BYTES", 1)
    collection.add([Item(text=f"a number {n}", id=f"more/{n}") for n in range(200)])
    ids = published_ids(collection, tmp_path / "public")
    names = [ids[start : start + 2] for start in range(0, len(ids), 2)]
    assert len(names) == len(set(names)) == 218

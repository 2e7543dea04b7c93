"""Suggested tags of the built-in model, apart from the user's labels."""

import shutil
from pathlib import Path

import pytest

from acqh.collection import Collection, Item
from acqh.encoders import builtin_model
from acqh.encoders.efficientnet import EfficientNetLite0
from acqh.encoders.images import working_image


@pytest.fixture(scope="module")
def tagged(mixed):
    with Collection.open(mixed) as collection:
        yield collection


def photos_of(collection: Collection) -> list[str]:
    return sorted(name for name in collection if name.endswith(".jpg"))


def _expected(photos: Path, names: list[str]) -> list[dict[str, float]]:
    features = EfficientNetLite0().fit([]).transform([working_image(photos / n) for n in names])
    return [dict(tags) for tags in builtin_model().suggest_tags(features)]


def test_items_have_the_tags_that_the_model_suggests(photographs, tagged):
    names = photos_of(tagged)[:16]
    suggested = _expected(photographs, names)
    assert any(suggested)
    assert [list(tagged.item(name).tags) for name in names] == [list(tags) for tags in suggested]
    assert tagged.labels() == {}


def test_tags_are_counted_and_filtered(tagged):
    counts = tagged.facets()["tag"]
    tag, count = max(counts.items(), key=lambda pair: pair[1])
    hits = tagged.browse(where={"tag": tag}, k=100).hits
    assert len(hits) == count == max(counts.values())
    assert all(tag in hit.tags for hit in hits)
    assert len(tagged.browse(where=f"tag~{tag[1:]}", k=100).hits) >= count


def test_a_tag_is_found_as_a_keyword(tagged):
    tag = next(iter(tagged.facets()["tag"]))
    hit = tagged.search(tag, mode="keyword").hits[0]
    assert (hit.why, tag in hit.tags) == (("tags",), True)


def test_synced_items_get_tags_and_retraining_renews_them(photographs, tagged, tmp_path):
    path = shutil.copytree(tagged.path, tmp_path / "c.acqh")
    name = next(name for name in photos_of(tagged) if tagged.item(name).tags)
    with Collection.open(path) as collection:
        expected = collection.item(name).tags
        collection.remove(name)
        collection.add(Item(photographs / name, id="again"))
        assert collection.item("again").tags.keys() == expected.keys()
        stale = Item(photographs / name, id="stale", detected={"tags": {"unicorn": 1.0}})
        collection.upsert(stale)
        with collection.retrain() as retrained:
            assert retrained.item("stale").tags.keys() == expected.keys()
            assert "unicorn" not in retrained.facets()["tag"]
            assert retrained.verify().ok

"""Metadata that acqh detects: dates, tags and text in images, apart from what people gave."""

import os
import shutil
import sqlite3

import numpy as np
import pytest
from PIL import Image

from acqh.collection import Collection, Item
from acqh.collection.generations import current_folder
from acqh.errors import CollectionError, CorruptBundleError
from acqh.export import site
from phone_folder import draw_photo, exif_of

DETECTED = {
    "kind": "screenshot",
    "tags": {"violin": 0.9, "concert hall": 0.6},
    "text_in_image": "Total amount due 42",
}


@pytest.fixture(scope="module")
def tagged_path(tmp_path_factory):
    items = [
        Item(text="a violin on a table", id="written"),
        Item(text="a stage with people", id="tagged", detected=DETECTED),
        Item(text="a dog in the garden", id="dog", fields={"kind": "animal", "date": "2020-05-01"}),
    ]
    path = tmp_path_factory.mktemp("tagged") / "c.acqh"
    Collection.build(items, path, text_encoder="tfidf").close()
    return path


@pytest.fixture
def tagged(tagged_path, tmp_path):
    with Collection.open(shutil.copytree(tagged_path, tmp_path / "c.acqh")) as collection:
        yield collection


def test_dates_come_from_exif_then_names_then_files(phone, phone_path):
    with Collection.open(phone_path) as collection:
        items = {name: collection.item(name) for name in phone.dates}
        assert {n: (item.date, item.date_source) for n, item in items.items()} == phone.dates
        assert collection.item("Scans/scan000.png").date_source == "file"


def test_items_of_a_table_have_dates_of_exif_data_and_names(tmp_path):
    image = Image.linear_gradient("L").resize((32, 32))
    image.save(tmp_path / "a.jpg", exif=exif_of("2014:07:01 12:30:00"))
    image.save(tmp_path / "IMG-20240125-WA0003.jpg")
    image.save(tmp_path / "plain.jpg")
    items = [Item(tmp_path / name, id=name) for name in ("a.jpg", "IMG-20240125-WA0003.jpg")]
    items += [Item(tmp_path / "a.jpg", id="given", fields={"date": "1999-01-01"})]
    items += [Item(tmp_path / "plain.jpg", id="plain.jpg")]
    with Collection.build(items, tmp_path / "c.acqh", image_encoder="hog") as collection:
        dates = [(item.date, item.date_source) for item in map(collection.item, collection)]
    assert dates == [
        ("2014-07-01T12:30:00", "exif"), ("2024-01-25", "name"), ("1999-01-01", "field"), ("", "")
    ]  # fmt: skip


def test_a_renamed_file_gets_the_date_of_its_new_name(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    draw_photo(np.random.default_rng(0)).save(photos / "a.jpg")
    os.utime(photos / "a.jpg", (1.5e9, 1.5e9))
    options = {"image_encoder": "hog", "text_encoder": "tfidf"}
    with Collection.build(photos, tmp_path / "c.acqh", **options) as collection:
        assert collection.item("a.jpg").date.startswith("2017-07-1")
        (photos / "a.jpg").rename(photos / "IMG_20210314_180329.jpg")
        collection.sync(photos)
        item = collection.item("a.jpg")
        assert (item.date, item.date_source) == ("2021-03-14T18:03:29", "name")
        assert [hit.id for hit in collection.browse(where="date=2021-03-14T18:03:29").hits]
        assert collection.verify().ok


def test_detected_metadata_is_apart_from_labels_and_fields(tagged):
    item = tagged.item("tagged")
    assert (item.kind, item.tags, item.text_in_image) == tuple(DETECTED.values())
    assert (item.labels, dict(item.fields), tagged.labels()) == ((), {}, {})
    assert item.to_dict()["tags"] == DETECTED["tags"]


def test_detected_words_are_found_behind_what_people_wrote(tagged):
    violin = tagged.search("violin", mode="keyword").hits
    assert [(hit.id, hit.why) for hit in violin] == [
        ("written", ("keywords",)), ("tagged", ("tags",))
    ]  # fmt: skip
    assert violin[0].match == 1.0 > violin[1].match > 0.5
    text = tagged.search("amount due", mode="keyword").hits
    assert [(hit.id, hit.why) for hit in text] == [("tagged", ("text in image",))]
    both = tagged.search("stage violin", mode="keyword").hits
    assert (both[0].id, both[0].why) == ("tagged", ("keywords", "tags"))


def test_phrases_and_exclusions_apply_to_detected_words(tagged):
    answer = tagged.search('"amount due"', mode="keyword")
    assert ([hit.id for hit in answer.hits], answer.unmatched_phrases) == (["tagged"], ())
    assert [hit.id for hit in tagged.search("violin -concert", mode="keyword").hits] == ["written"]


def test_filters_use_detected_values_unless_a_field_has_the_name(tagged):
    assert [hit.id for hit in tagged.browse(where="kind=screenshot").hits] == ["tagged"]
    assert [hit.id for hit in tagged.browse(where="kind=animal").hits] == ["dog"]
    assert [hit.id for hit in tagged.browse(where={"tag": "violin"}).hits] == ["tagged"]


def test_annotating_and_retraining_keep_detected_metadata(tagged):
    tagged.annotate(Item(id="tagged", text="people on a stage", labels=["music"]))
    assert tagged.item("tagged").text_in_image == DETECTED["text_in_image"]
    with tagged.retrain() as retrained:
        assert retrained.item("tagged").text_in_image == DETECTED["text_in_image"]
        assert retrained.verify().ok


def test_removing_an_item_removes_its_detected_words(tagged):
    tagged.remove("tagged")
    assert not tagged.search("amount due", mode="keyword").hits
    assert tagged.verify().ok


def test_unknown_detected_metadata_is_rejected(tagged):
    with pytest.raises(CollectionError, match="colour"):
        tagged.add(Item(text="a dog", id="x", detected={"colour": "red"}), strict=True)


def test_verify_notices_changed_detected_metadata(tagged_path, tmp_path):
    path = shutil.copytree(tagged_path, tmp_path / "c.acqh")
    with sqlite3.connect(current_folder(path) / "items.sqlite") as connection:
        connection.execute("UPDATE detected SET metadata = replace(metadata, 'violin', 'guitar')")
    connection.close()
    with pytest.raises(CorruptBundleError, match="detected"):
        Collection.open(path, verify=True)


def test_a_site_publishes_kinds_and_tags_of_thumbnails_and_what_is_selected(tagged, tmp_path):
    def data_of(name, **options):
        site(tagged, tmp_path / name, **options)
        return b"".join(path.read_bytes() for path in (tmp_path / name / "data").iterdir())

    published = data_of("site")
    assert b"stage with people" in published
    assert b"concert hall" in published
    assert b"amount" not in published
    assert b"amount" in data_of("asked", fields=["text_in_image"])
    published = data_of("bare", thumbnails=None)
    for word in (b"amount", b"concert hall", b"screenshot"):
        assert word not in published, word

import shutil
from datetime import UTC, datetime

import numpy as np
import pytest
from PIL import Image

import acqh
from acqh.collection import Collection, Item
from acqh.collection.generations import current_folder, generation_of
from acqh.errors import (
    CollectionError,
    InvalidInputError,
    LabelError,
    MissingItemError,
)

PLAIN = {"image_encoder": "hog", "text_encoder": "tfidf"}


def test_a_text_finds_the_items_it_belongs_to(collection):
    answer = collection.search(text="tulip petal", k=10)
    assert {hit.labels for hit in answer.hits} == {("flower",)}
    assert answer.n_items == 60
    assert set(answer.milliseconds) == {"encode", "search", "items"}


def test_an_image_and_an_item_find_similar_items(collection, make_items):
    dog = make_items(3, seed=5)[0]
    assert {h.labels for h in collection.search(image=dog.image, k=10).hits} == {("animal",)}
    likes = collection.search(item="item1", k=10).hits
    assert {hit.labels for hit in likes} == {("flower",)}
    assert "item1" not in [hit.id for hit in likes]


def test_items_added_and_removed_are_found_and_gone(collection, make_items):
    report = collection.add(make_items(3, labelled=False, seed=9, prefix="new"))
    assert report.ids == ("new0", "new1", "new2")
    assert len(collection) == 63
    assert "new1" in [h.id for h in collection.search(text="rose tulip", k=25).hits]
    assert collection.remove(["new1", "item1"]) == 2
    result = [h.id for h in collection.search(text="rose tulip", k=25).hits]
    assert "new1" not in result
    assert "item1" not in result
    with pytest.raises(MissingItemError, match="new1"):
        collection.remove(["item4", "new1"])
    assert "item4" in collection


def test_an_item_of_unknown_words_is_encoded_from_its_label(tmp_path):
    kinds = {"rose": "flower", "tulip": "flower", "car": "vehicle", "bus": "vehicle"}
    items = [Item(text=f"a {word}", labels=[kind], id=word) for word, kind in kinds.items()]
    with Collection.build(items, tmp_path / "c.acqh", n_components=2, **PLAIN) as collection:
        new = [Item(text=t, labels=["flower"], id=t) for t in ("zzz qqq", "a red rose")]
        assert collection.add(new).ids == ("zzz qqq", "a red rose")
        assert collection.info().encoded_from == {"labels": 1, "labels+text": 5}
        assert collection.search(item="rose", k=3).hits[-1].labels == ("flower",)


def test_a_text_is_the_first_argument_of_search(collection):
    assert collection.search("dog").hits == collection.search(text="dog").hits


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda path: Collection.open(path).search("dog", top_k=3), "'k'"),
        (lambda path: Collection.open(path, query_encoders="fast"), "'query_encoder'"),
        (lambda path: Collection.build([], path, seed=1), "'random_state'"),
    ],
)
def test_an_unknown_keyword_is_a_type_error_that_names_the_nearest_one(collection, call, nearest):
    with pytest.raises(TypeError, match=nearest):
        call(collection.path)


def test_info_lists_tracked_folders_and_the_times_of_build_and_change(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    for name in ("a", "b", "c"):
        Image.new("RGB", (16, 16), "red").save(tmp_path / "photos" / f"{name}.png")
    monkeypatch.setattr("acqh.collection.store.items.now", lambda: "2030-01-01T00:00:00+00:00")
    with Collection.build(tmp_path / "photos", tmp_path / "x.acqh", **PLAIN) as photos:
        info = photos.info()
        assert info.folders == (str((tmp_path / "photos").resolve()),)
        assert datetime.fromisoformat(info.built) <= datetime.now(UTC)
        assert (info.changed, info.n_items) == ("2030-01-01T00:00:00+00:00", 3)
        before = info.revision
        photos.remove("a.png")
        assert photos.info().revision == before + 1


def test_where_restricts_to_labels_and_fields(collection):
    answer = collection.search(text="rose", k=60, where={"label": "animal", "year": 2003})
    assert {(h.labels, h.fields["year"]) for h in answer.hits} == {(("animal",), 2003)}
    again = collection.search(text="rose", k=60, where=["label=animal", "year=2003"])
    assert [h.id for h in again.hits] == [h.id for h in answer.hits]


def test_an_opened_collection_answers_as_the_built_one(collection):
    before = [(h.id, h.score) for h in collection.search(text="dog fur", k=20).hits]
    with acqh.load(collection.path) as opened:
        assert [(h.id, h.score) for h in opened.search(text="dog fur", k=20).hits] == before
        assert opened.generation == collection.generation == generation_of(collection.path)
        assert list(opened) == list(collection)


def test_thumbnails_are_small_webp(collection):
    thumbnail = collection.thumbnail("item0")
    assert thumbnail[:4] == b"RIFF"
    assert thumbnail[8:12] == b"WEBP"


def test_without_labels_codes_preserve_semantic_similarity(tmp_path, make_items):
    items = make_items(labelled=False)
    with Collection.build(items, tmp_path / "c.acqh", **PLAIN) as collection:
        stats = collection.info()
        assert (stats.n_trained, stats.trained_on) == (60, "image 0.6, text 0.4")
        assert stats.encoded_from == {"image+text": 60}
        assert collection.labels() == {}
        hits = collection.search(text="dog cat", k=5).hits
        assert {int(hit.id[4:]) % 3 for hit in hits} == {0}
        hits = collection.search(image=items[1].image, k=5).hits
        assert {int(hit.id[4:]) % 3 for hit in hits} == {1}


def test_items_of_one_label_set_have_different_codes(collection):
    codes = {code for batch in collection.batches() for _, code in batch}
    assert len(codes) > 30
    for number in range(6):
        text = collection.item(f"item{number}").text
        result = [hit.text for hit in collection.search(text=text, k=3).hits]
        assert sorted(text.split()) in [sorted(text_.split()) for text_ in result]


def test_targets_weight_the_views(tmp_path, make_items):
    items, path = make_items(30), tmp_path / "c.acqh"
    targets = {"labels": 0.2, "text": 0.8}
    with Collection.build(items, path, targets=targets, **PLAIN) as collection:
        assert collection.info().trained_on == "labels 0.2, text 0.8"
        assert collection.views == ("image", "text")
    for wrong, error in (({"sound": 1.0}, CollectionError), ({"text": -1.0}, InvalidInputError)):
        with pytest.raises(error):
            Collection.build(items, tmp_path / "d.acqh", targets=wrong, **PLAIN)
    with pytest.raises(LabelError):
        Collection.build(
            make_items(30, labelled=False), tmp_path / "d.acqh", targets=targets, **PLAIN
        )
    assert [file.name for file in tmp_path.iterdir()] == ["c.acqh"]


def test_the_overhead_per_item_is_small(path):
    assert (
        sum(file.stat().st_size for file in (current_folder(path) / "model").rglob("*")) < 4_000_000
    )


def test_explanations_add_up_to_the_scores(collection):
    answer = collection.search(text="dog", k=4, explain=True, mode="semantic")
    parts = answer.explanation.parts
    np.testing.assert_allclose(parts.sum(axis=1), [h.score for h in answer.hits], rtol=1e-5)
    assert [bytes(w.tolist()) for w in answer.explanation.codes] == [h.code for h in answer.hits]


def test_verify_finds_nothing_wrong_with_a_new_collection(collection, make_items, monkeypatch):
    assert collection.verify().notes == ()
    monkeypatch.setattr("acqh.collection.opened.MAX_FEW", 0)  # so that there is an index
    collection.opened.index.save()
    collection.add(make_items(2, seed=3, prefix="more"))
    report = collection.verify()
    assert report.problems == ()
    assert "2 changes behind" in report.notes[0]
    collection.close()
    assert Collection.open(collection.path).verify().notes == ()


@pytest.fixture(scope="module")
def many(make_items, tmp_path_factory):
    """Return a collection of 150 items."""
    path = tmp_path_factory.mktemp("many") / "c.acqh"
    encoders = {"image_encoder": "hog", "text_encoder": "tfidf"}
    Collection.build(make_items(150), path, **encoders).close()
    return path


@pytest.mark.parametrize("few", [0, 16_384])
@pytest.mark.parametrize("where", ["year=2003", "label=animal", ["label=animal", "year=2003"]])
def test_restricted_searches_are_the_whole_ones_without_the_others(
    many, tmp_path, where, few, monkeypatch
):
    # Of two of these conditions few items are left, which then are indexed by themselves.
    monkeypatch.setattr("acqh.collection.opened.MAX_FEW", few)
    monkeypatch.setattr("acqh.collection.opened._SMALL_PART", 15)
    with Collection.open(shutil.copytree(many, tmp_path / "c.acqh")) as collection:
        for query in ({"text": "dog rose", "mode": "semantic"}, {"item": "item3"}):
            allowed = {hit.id for hit in collection.search(text="dog", k=150, where=where).hits}
            every = collection.search(**query, k=150).hits
            expected = [(hit.id, hit.score) for hit in every if hit.id in allowed]
            for k in (3, 150):
                result = collection.search(**query, k=k, where=where).hits
                assert [(hit.id, hit.score) for hit in result] == expected[:k]
        with collection.opened.store.reading() as connection:
            parts = [part for _, part in collection.opened.state(connection).selections.values()]
        assert any(part is not None for part in parts) == (few == 0 and isinstance(where, list))
        gone = expected[0][0]
        collection.remove(gone)
        result = collection.search(item="item3", k=150, where=where).hits
        assert [(hit.id, hit.score) for hit in result] == expected[1:]


def test_batches_read_one_state_during_changes(collection, path):
    batches = collection.batches(20)
    first = next(batches)
    with Collection.open(path) as elsewhere:
        elsewhere.remove("item59")
        elsewhere.upsert(Item(text="rose", labels=["flower"], id="item58"))
    pairs = [*first, *(pair for batch in batches for pair in batch)]
    assert [item.id for item, _ in pairs] == [f"item{n}" for n in range(60)]
    assert [item.id for item, _ in next(collection.batches(1000))][-1] == "item58"
    assert collection.fields() == {"year": {"integer"}}


def test_an_item_is_of_one_type_from_manifest_to_answer(collection, make_items):
    item = make_items(1, prefix="new")[0]
    collection.add(item)
    stored = collection.item(item.id)
    hit = next(hit for hit in collection.search(image=item.image, k=60).hits if hit.id == "new0")
    assert type(stored) is type(item) is Item
    assert isinstance(hit, Item)
    for read in (stored, hit):
        assert (read.id, read.text, read.labels) == (item.id, item.text, item.labels)
        assert read.fields == item.fields
        assert read.has_thumbnail
        assert read.encoded_from == "labels+image+text"
        assert len(read.code) == len(collection.codebooks)
    assert stored == collection.item(item.id)
    assert hash(stored) == hash(collection.item(item.id))


def test_data_whose_label_names_are_in_any_order_can_be_added(tmp_path):
    labelled = acqh.make_multiview(60, n_labels=3, random_state=0)
    data = acqh.MultiViewData(labelled.views, labelled.labels, label_names=["b", "a", "c"])
    with Collection.build(data.subset(range(40)), tmp_path / "items.acqh") as collection:
        collection.add(data.subset(range(40, 60)))
        assert len(collection) == 60

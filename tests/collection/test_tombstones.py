"""Removed items stay removed; restored files regain their annotations."""

import os
import shutil

import numpy as np
import pytest

from acqh.collection import Collection, Item
from acqh.collection.generations import current_folder

Image = pytest.importorskip("PIL.Image")
SMALL = {"image_encoder": "hog", "text_encoder": "tfidf", "n_components": 2, "n_codebooks": 2}


def save(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build a collection that tracks no folder yet; nobody changes it."""
    path = tmp_path_factory.mktemp("built") / "c.acqh"
    words = ["sea wave", "dog cat", "car street"]
    items = [Item(Image.new("RGB", (8, 8), (40 * n, 0, 99)), words[n], [words[n][:3]], str(n))
             for n in range(3)]  # fmt: skip
    Collection.build(items, path, **SMALL).close()
    return path


@pytest.fixture
def photos(tmp_path):
    """Give ten images in one folder and, in another, a copy of the first."""
    folder = tmp_path / "photos"
    for number in range(10):
        save(folder / "a" / f"{number}.png", number)
    (folder / "b").mkdir()
    shutil.copy2(folder / "a" / "0.png", folder / "b" / "copy.png")
    return folder


@pytest.fixture
def collection(built, photos, tmp_path):
    with Collection.open(shutil.copytree(built, tmp_path / "c.acqh")) as opened:
        assert len(opened.sync(photos).new) == 11
        yield opened


def annotations_of(collection, identifier):
    item = collection.item(identifier)
    return item.text, item.labels, item.fields.get("place")


def take_away(path):
    """Remove a file; return a function that brings it back."""
    content = path.read_bytes()
    path.unlink()
    return lambda: path.write_bytes(content)


def test_equal_files_regain_their_annotations(collection, photos):
    for name, text, label in (("a/0.png", "first", "dog"), ("b/copy.png", "second", "car")):
        collection.annotate(Item(id=name, text=text, labels=[label], fields={"place": text}))
    back = [take_away(photos / name) for name in ("a/0.png", "b/copy.png")]
    assert len(collection.sync(photos).deleted) == 2
    for bring in back:
        bring()
    assert len(collection.sync(photos).new) == 2
    assert annotations_of(collection, "a/0.png") == ("first", ("dog",), "first")
    assert annotations_of(collection, "b/copy.png") == ("second", ("car",), "second")
    assert collection.verify().problems == ()


def test_equal_files_restored_elsewhere_regain_one_annotation_each(collection, photos):
    for name in ("a/0.png", "b/copy.png"):
        collection.annotate(Item(id=name, text=f"caption {name}"))
    content = (photos / "a" / "0.png").read_bytes()
    for name in ("a/0.png", "b/copy.png"):
        (photos / name).unlink()
    collection.sync(photos)
    for name in ("x.png", "y.png", "z.png"):
        (photos / name).write_bytes(content)
    collection.sync(photos)
    texts = [collection.item(name).text for name in ("x.png", "y.png", "z.png")]
    assert sorted(texts) == ["", "caption a/0.png", "caption b/copy.png"]


def test_a_caption_that_was_replaced_does_not_return_on_a_copy(collection, photos):
    collection.annotate(Item(id="a/1.png", text="SECRET"))
    bring = take_away(photos / "a" / "1.png")
    collection.sync(photos)
    bring()
    collection.sync(photos)
    assert collection.item("a/1.png").text == "SECRET"
    collection.annotate(Item(id="a/1.png", text="harmless"))
    shutil.copy2(photos / "a" / "1.png", photos / "again.png")
    collection.sync(photos)
    assert collection.item("again.png").text == ""
    (photos / "a" / "1.png").unlink()
    collection.sync(photos)
    assert collection.item("again.png").text == "harmless", "as if it had been moved"
    assert not collection.search(text="SECRET", mode="keyword").hits


def test_a_caption_taken_over_by_an_equal_file_is_not_restored_twice(collection, photos):
    collection.annotate(Item(id="a/0.png", text="SECRET"))
    bring = take_away(photos / "a" / "0.png")
    collection.sync(photos)
    assert collection.item("b/copy.png").text == "SECRET"
    collection.annotate(Item(id="b/copy.png", text="harmless"))
    bring()
    collection.sync(photos)
    assert collection.item("a/0.png").text == ""


def test_a_cleared_caption_is_not_restored(collection, photos):
    collection.annotate(Item(id="a/1.png", text="SECRET", labels=["dog"]))
    bring = take_away(photos / "a" / "1.png")
    collection.sync(photos)
    bring()
    collection.sync(photos)
    collection.annotate(Item(id="a/1.png", text="", labels=[]))
    bring = take_away(photos / "a" / "1.png")
    collection.sync(photos)
    bring()
    collection.sync(photos)
    assert annotations_of(collection, "a/1.png") == ("", (), None)


def nothing_new(collection, photos):
    report = collection.sync(photos, dry_run=True)
    assert report == collection.sync(photos)
    return (report.new, report.changed, report.moved, report.deleted) == ((), (), (), ())


def test_a_removed_item_stays_removed_until_its_file_changes(collection, photos):
    collection.annotate(Item(id="a/2.png", text="caption"))
    collection.remove(["a/2.png", "1"])
    assert nothing_new(collection, photos)
    os.utime(photos / "a" / "2.png", (1e9, 1e9))  # only touched
    assert nothing_new(collection, photos)
    (photos / "a" / "2.png").rename(photos / "a" / "renamed.png")
    assert nothing_new(collection, photos)
    with collection.retrain() as retrained:
        assert nothing_new(retrained, photos)
        shutil.copy2(photos / "a" / "renamed.png", photos / "copy of it.png")
        assert retrained.sync(photos).new == ("copy of it.png",)
        assert retrained.item("copy of it.png").text == ""
        save(photos / "a" / "renamed.png", 77)
        assert retrained.sync(photos).new == ("a/renamed.png",)
        assert retrained.item("a/renamed.png").text == ""
        assert retrained.verify().problems == ()


def test_a_removed_item_stays_removed_after_its_file_is_restored(collection, photos):
    collection.remove("a/2.png")
    bring = take_away(photos / "a" / "2.png")
    assert nothing_new(collection, photos)
    bring()
    assert nothing_new(collection, photos)


def test_one_of_two_equal_items_can_be_removed(collection, photos):
    collection.remove("b/copy.png")
    assert nothing_new(collection, photos)
    (photos / "a" / "0.png").rename(photos / "a" / "moved.png")
    assert collection.sync(photos).moved == ("a/0.png",)
    assert nothing_new(collection, photos)
    assert "b/copy.png" not in collection


def test_a_removed_file_is_part_of_its_parent_folder(collection, photos):
    collection.remove("a/2.png")
    assert nothing_new(collection, photos / "a")
    assert nothing_new(collection, photos)


def stored_bytes(path):
    return b"".join(
        file.read_bytes() for file in sorted(current_folder(path).glob("items.sqlite*"))
    )


def test_forget_leaves_no_text_of_removed_items_on_disk(collection, photos):
    collection.annotate(Item(id="a/1.png", text="Gorgonzola", fields={"place": "Taleggio"}))
    collection.annotate(Item(id="a/2.png", text="Provolone"))
    bring = take_away(photos / "a" / "1.png")
    collection.sync(photos)
    collection.remove("a/2.png")
    path = collection.path
    assert b"Gorgonzola" in stored_bytes(path)
    collection.sync(photos, forget=True)
    collection.close()
    with Collection.open(path) as opened:
        for word in (b"orgonzola", b"aleggio", b"rovolone"):
            assert word not in stored_bytes(path)
        assert nothing_new(opened, photos), "what was removed stays removed"
        bring()
        opened.sync(photos)
        assert annotations_of(opened, "a/1.png") == ("", (), None)


# Taking captions, labels and fields away.


def test_empty_annotations_clear_and_missing_ones_keep_values(collection):
    collection.annotate(Item(id="a/1.png", text="waves", labels=["sea"], fields={"place": "Rome"}))
    collection.annotate(Item(id="a/1.png"))
    assert annotations_of(collection, "a/1.png") == ("waves", ("sea",), "Rome")
    collection.annotate(Item(id="a/1.png", text=""))
    assert annotations_of(collection, "a/1.png") == ("", ("sea",), "Rome")
    collection.annotate(Item(id="a/1.png", labels=[], fields={"place": None}))
    assert annotations_of(collection, "a/1.png") == ("", (), None)
    assert "place" not in collection.item("a/1.png").fields
    assert "file" in collection.item("a/1.png").fields
    assert collection.verify().problems == ()


@pytest.mark.parametrize("empty", [{"text": None}, {"text": None, "labels": None}])
def test_none_takes_away(collection, empty):
    collection.annotate(Item(id="a/1.png", text="waves", labels=["sea"]))
    collection.annotate(Item(id="a/1.png", **empty))
    assert annotations_of(collection, "a/1.png")[0] == ""
    assert annotations_of(collection, "a/1.png")[1] == (() if "labels" in empty else ("sea",))


def test_an_item_without_image_keeps_its_text(built, tmp_path):
    with Collection.open(shutil.copytree(built, tmp_path / "d.acqh")) as collection:
        collection.add(Item(text="sea dog", id="words"))
        report = collection.annotate(Item(id="words", text=""))
        assert report.ids == ()
        assert "neither" in report.skipped[0][1]
        assert collection.item("words").text == "sea dog"


def test_a_caption_that_was_taken_away_no_longer_moves_the_code(collection):
    code = collection.item("a/1.png").code
    hits = collection.search(item="a/1.png", k=20).hits
    collection.annotate(Item(id="a/1.png", text="sea wave", labels=["sea"]))
    assert collection.item("a/1.png").encoded_from == "labels+image+text"
    collection.annotate(Item(id="a/1.png", text="", labels=[]))
    item = collection.item("a/1.png")
    assert item.encoded_from == "image"
    assert item.code == code
    assert [hit.id for hit in collection.search(item="a/1.png", k=20).hits] == [
        hit.id for hit in hits
    ]


def test_empty_cells_of_a_table_clear_values_if_requested(collection, tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text("id,text,labels,place\na/1.png,waves,sea,Rome\n")
    collection.annotate(table)
    table.write_text("id,text,labels,place\na/1.png,,dog,\n")
    collection.annotate(table)
    assert annotations_of(collection, "a/1.png") == ("waves", ("dog",), "Rome")
    collection.annotate(table, clear=True)
    assert annotations_of(collection, "a/1.png") == ("", ("dog",), None)
    table.write_text("id,place\na/1.png,Ostia\n")
    collection.annotate(table, clear=True)
    assert annotations_of(collection, "a/1.png") == ("", ("dog",), "Ostia"), (
        "values without a column are kept"
    )

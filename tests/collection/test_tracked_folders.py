"""Tracked folders: `sync` never removes the photos or annotations of users by mistake."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from acqh.collection import Collection, Item
from acqh.collection.build import sync
from acqh.errors import CollectionError

Image = pytest.importorskip("PIL.Image")


def save(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Build a collection that follows no folder yet; nobody changes it."""
    path = tmp_path_factory.mktemp("bare") / "c.acqh"
    words = ["sea wave", "dog cat", "car street"]
    items = [Item(Image.new("RGB", (8, 8), (40 * n, 0, 99)), words[n], [words[n][:3]], str(n))
             for n in range(3)]  # fmt: skip
    small = {"n_components": 2, "n_codebooks": 2, "random_state": 0}
    Collection.build(items, path, image_encoder="hog", text_encoder="tfidf", **small).close()
    return path


@pytest.fixture
def path(bare, tmp_path):
    return shutil.copytree(bare, tmp_path / "c.acqh")


@pytest.fixture
def collection(path):
    with Collection.open(path) as opened:
        yield opened


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    for number in range(12):
        save(folder / ("old" if number < 4 else "new") / f"IMG_{number}.png", number)
    return folder


@pytest.fixture
def tracked(collection, photos):
    assert len(collection.sync(photos).new) == 12
    for name in files(collection, photos):
        details = {"text": f"caption {name}", "labels": ["dog"], "fields": {"place": "Rome"}}
        collection.annotate(Item(id=name, **details))
    return collection


def files(collection, folder):
    return [item.id for page in collection.batches() for item, _ in page
            if item.folder == str(folder)]  # fmt: skip


def captions(collection):
    result = (item for page in collection.batches() for item, _ in page)
    return {item.id: item.text for item in result if item.text.startswith("caption")}


def change_nothing(collection, folder, message):
    before = [item for page in collection.batches() for item, _ in page]
    with pytest.raises(CollectionError, match=message) as error:
        collection.sync(folder)
    assert [item for page in collection.batches() for item, _ in page] == before
    return str(error.value)


def test_another_folder_with_an_equal_name_is_tracked_too(tracked, tmp_path):
    for number in range(5):
        save(tmp_path / "other" / "old" / f"IMG_{number + 3}.png", 100 + number)
    report = tracked.sync(tmp_path / "other")
    assert (len(report.new), report.deleted, report.changed) == (5, (), ())
    assert len(captions(tracked)) == 12
    assert tracked.sync(tmp_path / "other").n_unchanged == 5
    assert tracked.verify().problems == ()


def test_another_folder_with_an_equal_file_is_tracked_too(tracked, photos, tmp_path):
    save(tmp_path / "other" / "dog.png", 100)
    shutil.copy(photos / "old" / "IMG_0.png", tmp_path / "other")
    report = tracked.sync(tmp_path / "other")
    assert (len(report.new), report.deleted, report.moved) == (2, (), ())
    assert len(captions(tracked)) == 12
    assert tracked.sync(photos).n_unchanged == 12


def test_a_subfolder_is_compared_with_its_items_alone(tracked, photos):
    (photos / "old" / "IMG_0.png").unlink()
    save(photos / "old" / "IMG_99.png", 99)
    save(photos / "new" / "IMG_98.png", 98)
    report = tracked.sync(photos / "old")
    assert (report.new, report.deleted) == (("old/IMG_99.png",), ("old/IMG_0.png",))
    assert report.n_unchanged == 3
    assert tracked.sync(photos).new == ("new/IMG_98.png",)


def test_a_parent_folder_takes_over_tracked_subfolders(collection, photos):
    collection.sync(photos / "old")
    report = collection.sync(photos)
    assert (len(report.new), report.n_unchanged, report.moved) == (8, 4, ())
    assert collection.item("IMG_0.png").fields["file"] == "old/IMG_0.png"
    assert collection.item("IMG_0.png").folder == str(photos)
    assert collection.sync(photos).n_unchanged == 12


@pytest.fixture
def other_case(photos, monkeypatch):
    """Give the folder under another name that leads to it, as on disks that ignore case."""
    other = photos.with_name("PHOTOS")
    other.symlink_to(photos)
    monkeypatch.setattr("pathlib.Path.resolve", lambda self: self.absolute())
    return other


def test_a_folder_in_another_case_is_the_same_folder(tracked, photos, other_case):
    save(photos / "new" / "IMG_99.png", 99)
    report = tracked.sync(other_case)
    assert (report.new, report.moved, report.n_unchanged) == (("new/IMG_99.png",), (), 12)
    assert tracked.item("new/IMG_99.png").folder == str(photos)
    assert tracked.sync(photos).n_unchanged == 13


def test_a_subfolder_of_a_folder_in_another_case_is_compared_with_its_items(
    tracked, photos, other_case
):
    (photos / "old" / "IMG_0.png").unlink()
    report = tracked.sync(other_case / "old")
    assert (report.new, report.deleted) == ((), ("old/IMG_0.png",))
    assert report.n_unchanged == 3


def test_a_parent_folder_takes_over_a_folder_in_another_case(collection, photos, other_case):
    collection.sync(photos / "old")
    report = collection.sync(other_case)
    assert (len(report.new), report.n_unchanged, report.moved) == (8, 4, ())
    assert collection.sync(photos).n_unchanged == 12


def test_sync_stops_and_lists_files_if_half_a_folder_is_gone(tracked, photos):
    for number in range(4, 10):
        (photos / "new" / f"IMG_{number}.png").unlink()
    message = change_nothing(tracked, photos, "6 of the 12 images")
    assert "IMG_4.png" in message
    assert "delete=True" in message
    plan = tracked.sync(photos, dry_run=True)
    assert len(plan.deleted) == 6
    assert len(captions(tracked)) == 12
    assert set(tracked.sync(photos, delete=True).deleted) == set(plan.deleted)


def test_other_images_under_the_same_names_stop_it(tracked, photos):
    for number in range(12):
        save(photos / ("old" if number < 4 else "new") / f"IMG_{number}.png", 200 + number)
    change_nothing(tracked, photos, "none of the others is as it was")
    assert len(tracked.sync(photos, delete=True).changed) == 12


def test_a_folder_that_was_moved_as_a_whole_keeps_its_items(tracked, photos, tmp_path):
    moved = photos.rename(tmp_path / "pictures")
    (moved / "old" / "IMG_0.png").unlink()
    save(moved / "old" / "IMG_1.png", 300)
    report = tracked.sync(moved)
    assert (len(report.moved), report.new) == (10, ())
    assert (report.changed, report.deleted) == (("old/IMG_1.png",), ("old/IMG_0.png",))
    assert len(captions(tracked)) == 11
    assert len(files(tracked, moved)) == 11
    assert counts(tracked.sync(moved)) == (0, 0, 0, 0)


def counts(report):
    return tuple(len(ids) for ids in (report.new, report.changed, report.moved, report.deleted))


def test_restored_files_regain_their_annotations_under_any_name(tracked, photos):
    content = (photos / "old" / "IMG_0.png").read_bytes()
    (photos / "old" / "IMG_0.png").unlink()
    tracked.sync(photos)
    (photos / "back.png").write_bytes(content)
    assert tracked.sync(photos).new == ("back.png",)
    back = tracked.item("back.png")
    assert (back.text, back.labels) == ("caption old/IMG_0.png", ("dog",))
    assert back.fields["place"] == "Rome"
    (photos / "back.png").unlink()
    tracked.sync(photos, forget=True)
    (photos / "back.png").write_bytes(content)
    tracked.sync(photos)
    assert (tracked.item("back.png").text, tracked.item("back.png").labels) == ("", ())


@pytest.mark.parametrize("first", ["photos", "other"])
def test_an_image_moved_to_another_tracked_folder_keeps_its_annotations(
    tracked, photos, tmp_path, first
):
    save(tmp_path / "other" / "dog.png", 600)
    tracked.sync(tmp_path / "other")
    (photos / "old" / "IMG_0.png").rename(tmp_path / "other" / "sea.png")
    for name in (first, "photos", "other"):
        tracked.sync(tmp_path / name)
    moved = tracked.item("sea.png")
    assert (moved.text, moved.labels) == ("caption old/IMG_0.png", ("dog",))
    assert (moved.fields["place"], moved.fields["file"]) == ("Rome", "sea.png")
    assert tracked.item("dog.png").text == ""
    assert tracked.verify().problems == ()


@pytest.mark.parametrize("way", ["annotate", "upsert"])
def test_captions_set_while_changed_files_are_read_are_kept(
    tracked, photos, path, way, monkeypatch
):
    names = files(tracked, photos)
    for number, name in enumerate(names[1:]):
        save(photos / name, 400 + number)
    add, n_given = sync.add_items, []

    def add_late(opened, items, progress, *, put):
        def put_late(store, part):  # the items were encoded before this text was set
            if not n_given:
                n_given.append(len(part))
                with Collection.open(path) as other:
                    for name in names:
                        annotated = Item(id=name, text=f"given {name}", labels=["cat"])
                        getattr(other, way)(annotated)
            return put(store, part)

        return add(opened, items, progress, put=put_late)

    monkeypatch.setattr(sync, "add_items", add_late)
    report = tracked.sync(photos)
    assert (n_given, report.changed) == ([11], ())
    assert {name for name, _ in report.unreadable} == set(names[1:]), "left to the next sync"
    assert len(tracked.sync(photos).changed) == 11
    for name in names:
        item = tracked.item(name)
        assert (item.text, item.labels) == (f"given {name}", ("cat",))
    assert counts(tracked.sync(photos)) == (0, 0, 0, 0)
    assert tracked.verify().problems == ()


def test_giving_a_caption_by_upsert_does_not_cut_an_item_off(tracked, photos):
    before, small = tracked.item("old/IMG_0.png"), tracked.thumbnail("old/IMG_0.png")
    tracked.upsert(Item(text="waves", labels=["sea"], id="old/IMG_0.png"))
    after = tracked.item("old/IMG_0.png")
    assert (after.text, after.labels, after.folder) == ("waves", ("sea",), str(photos))
    assert after.fields == {k: v for k, v in before.fields.items() if k != "place"}
    assert "image" in after.encoded_from
    assert tracked.thumbnail("old/IMG_0.png") == small
    tracked.upsert(Item(photos / "old" / "IMG_0.png", "more waves", id="old/IMG_0.png"))
    assert tracked.item("old/IMG_0.png").fields["sha256"] == before.fields["sha256"]
    assert counts(tracked.sync(photos)) == (0, 0, 0, 0)
    assert tracked.verify().problems == ()


def test_label_gives_texts_labels_and_fields_by_id_or_file(tracked, photos, tmp_path):
    before = tracked.item("old/IMG_0.png")
    table = tmp_path / "labels.csv"
    table.write_text(
        "file,text,labels,year\nold/IMG_0.png,sea wave,sea|dog,2014\n"
        "old/IMG_1.png,,car,\nx.png,a,,\n"
    )
    report = tracked.annotate(table)
    assert report.ids == ("old/IMG_0.png", "old/IMG_1.png")
    assert "x.png" in report.skipped[0][1]
    first, second = tracked.item("old/IMG_0.png"), tracked.item("old/IMG_1.png")
    assert (first.text, first.labels) == ("sea wave", ("sea", "dog"))
    assert (second.text, second.labels) == ("caption old/IMG_1.png", ("car",))
    assert "year" not in second.fields
    assert first.fields == {**before.fields, "year": "2014"}
    assert first.encoded_from == "labels+image+text"
    change = tracked.revision
    tracked.annotate(table)
    assert tracked.revision == change
    (tmp_path / "labels.jsonl").write_text(json.dumps({"id": "1", "labels": ["pet"]}) + "\n")
    assert tracked.annotate(tmp_path / "labels.jsonl").ids == ("1",)
    assert tracked.item("1").labels == ("pet",)
    assert tracked.verify().problems == ()
    table.write_text("name,text\na,b\n")
    with pytest.raises(CollectionError, match="id, file or image"):
        tracked.annotate(table)


def test_a_file_of_two_folders_is_named_by_its_id(tracked, photos, tmp_path):
    save(tmp_path / "other" / "old" / "IMG_0.png", 500)
    assert tracked.sync(tmp_path / "other").new == ("old/IMG_0.png#2",)
    report = tracked.annotate(Item(text="a", fields={"file": "old/IMG_0.png"}))
    assert report.ids == ()
    assert "'old/IMG_0.png#2'" in report.skipped[0][1]


def test_a_label_moves_the_code_towards_it(tracked):
    tracked.annotate([Item(id=name, labels=["sea"], text="sea wave") for name in list(tracked)[3:]])
    hits = tracked.search(text="sea wave", mode="semantic", k=13).hits
    assert {hit.id for hit in hits} == {"0", *list(tracked)[3:]}


def test_adding_a_manifest_twice_changes_nothing(collection, photos):
    manifest = photos / "list.csv"
    lines = [f"old/IMG_{n}.png,car {n}" for n in range(3)]
    manifest.write_text("\n".join(["image,text", *lines, lines[0], ",sea", ",sea", ",dog cat"]))
    first = collection.add(manifest)
    assert first.skipped == ()
    assert first.ids[:4] == (*(f"old/IMG_{n}.png" for n in range(3)), "old/IMG_0.png#2")
    assert len(set(first.ids)) == 7
    change = collection.revision
    again = collection.add(manifest)
    assert (again.ids, len(again.skipped), collection.revision) == ((), 7, change)
    assert collection.upsert(manifest).ids == first.ids
    assert len(collection) == 3 + 7


TWINS = """
import sys
from acqh.collection import Collection

with Collection.open(sys.argv[1]) as collection:
    print("open", flush=True)
    sys.stdin.readline()
    print(len(collection.sync(sys.argv[2]).new), flush=True)
"""


def test_parallel_syncs_leave_no_duplicates(collection, path, photos):
    other = subprocess.Popen(
        [sys.executable, "-c", TWINS, str(path), str(photos)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert other.stdout.readline() == "open\n"
    events = []

    def let_other(done, total, stage):  # after the plan was made
        if stage == "looking for changes" and done == total - 1:
            other.stdin.write("\n")
            other.stdin.flush()
            events.append(other.stdout.readline())

    with other:
        report = collection.sync(photos, progress=let_other)
    assert events == ["12\n"]
    assert (report.new, report.n_unchanged) == ((), 12)
    assert len(collection) == 15
    assert collection.verify().problems == ()

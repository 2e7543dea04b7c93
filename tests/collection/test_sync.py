"""A collection is built from a folder of images and synced with it."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest

from acqh.collection import Collection
from acqh.collection.build.folder import folder_items
from acqh.errors import CollectionError

Image = pytest.importorskip("PIL.Image")


def save(path, seed, *, size=(32, 24), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (*size[::-1], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    save(folder / "sea.png", 0)
    save(folder / "holiday in Rome" / "colosseum_2.JPG", 1)
    save(folder / "holiday in Rome" / "deep" / "cat.webp", 2)
    save(folder / ".thumbnails" / "hidden.png", 3)
    (folder / "notes.txt").write_text("no image")
    return folder


IDS = {"sea.png", "holiday in Rome/colosseum_2.JPG", "holiday in Rome/deep/cat.webp"}


SMALL = {"image_encoder": "hog", "text_encoder": "tfidf", "n_components": 2, "n_codebooks": 2}


@pytest.fixture
def tracked(photos, tmp_path):
    with Collection.build(photos, tmp_path / "photos.acqh", **SMALL) as collection:
        yield collection


def test_images_of_a_folder_are_counted_before_they_are_read(photos, tmp_path):
    events = []
    images = folder_items(photos)
    assert images.n_items == len(IDS)
    Collection.build(
        images, tmp_path / "a.acqh", **SMALL, progress=lambda *event: events.append(event)
    ).close()
    assert (3, 3, "encoding images") in events


def counts(report):
    return tuple(len(ids) for ids in (report.new, report.changed, report.moved, report.deleted))


def files(collection):
    return {identifier: collection.item(identifier).fields["file"] for identifier in collection}


def test_file_names_are_keywords_in_a_folder_without_a_table(tracked):
    assert set(tracked) == IDS
    for words in ("colosseum", "rome colosseum", "holiday 2"):
        hits = tracked.search(text=words, mode="keyword").hits
        assert hits[0].fields["file"] == "holiday in Rome/colosseum_2.JPG"
    assert tracked.verify().ok


def test_dates_and_orientation_of_photos_are_kept(photos, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    exif.get_ifd(0x8769)[0x9003] = "2014:07:01 12:30:00"
    save(photos / "dated.jpg", 5, size=(64, 32), exif=exif)
    with Collection.build(photos, tmp_path / "c.acqh", **SMALL) as collection:
        assert collection.item("dated.jpg").fields["date"] == "2014-07-01T12:30:00"
        assert "date" not in collection.item("sea.png").fields
        thumbnail = tmp_path / "small.webp"
        thumbnail.write_bytes(collection.thumbnail("dated.jpg"))
    with Image.open(thumbnail) as image:
        assert image.size == (32, 64)


def test_sync_of_an_unchanged_folder_changes_nothing(tracked, photos):
    before = tracked.revision
    os.utime(photos / "sea.png", (1e9, 1e9))  # another time, but the same content
    for _ in range(2):
        report = tracked.sync(photos)
        assert counts(report) == (0, 0, 0, 0)
        assert report.n_unchanged == 3
    assert tracked.revision == before + 1  # the new time
    assert tracked.verify().ok


def test_new_changed_moved_and_deleted_files_are_tracked(tracked, photos):
    save(photos / "new" / "dog.png", 10)
    save(photos / "sea.png", 11)
    (photos / "old").mkdir()
    (photos / "holiday in Rome" / "colosseum_2.JPG").rename(photos / "old" / "arena.jpg")
    (photos / "holiday in Rome" / "deep" / "cat.webp").unlink()
    small = tracked.thumbnail("sea.png")
    report = tracked.sync(photos)
    assert report.new == ("new/dog.png",)
    assert report.changed == ("sea.png",)
    assert report.moved == ("holiday in Rome/colosseum_2.JPG",)
    assert report.deleted == ("holiday in Rome/deep/cat.webp",)
    assert files(tracked) == {
        "sea.png": "sea.png",
        "holiday in Rome/colosseum_2.JPG": "old/arena.jpg",
        "new/dog.png": "new/dog.png",
    }
    assert tracked.thumbnail("sea.png") != small
    assert tracked.search(text="arena", mode="keyword").hits[0].id == report.moved[0]
    assert not tracked.search(text="colosseum", mode="keyword").hits
    assert tracked.verify().ok
    assert counts(tracked.sync(photos)) == (0, 0, 0, 0)


def test_a_file_in_the_place_of_a_moved_one_is_another_item(tracked, photos):
    (photos / "sea.png").rename(photos / "ocean.png")
    save(photos / "sea.png", 12)
    report = tracked.sync(photos)
    assert (report.new, report.moved) == (("sea.png#2",), ("sea.png",))
    names = files(tracked)
    assert (names["sea.png"], names["sea.png#2"]) == ("ocean.png", "sea.png")


def test_files_that_change_places_keep_their_ids(tracked, photos):
    sea, other = photos / "sea.png", photos / "other.png"
    save(other, 13)
    tracked.sync(photos)
    sea.rename(photos / "third.png")
    other.rename(sea)
    (photos / "third.png").rename(other)
    assert counts(tracked.sync(photos)) == (0, 0, 2, 0)
    assert files(tracked)["sea.png"] == "other.png"


def test_copies_are_separate_items(tracked, photos):
    (photos / "copy.png").write_bytes((photos / "sea.png").read_bytes())
    assert tracked.sync(photos).new == ("copy.png",)
    (photos / "sea.png").unlink()
    assert tracked.sync(photos).deleted == ("sea.png",)


def test_unreadable_images_are_listed_and_their_items_kept(tracked, photos):
    (photos / "broken.png").write_bytes(b"no image")
    (photos / "sea.png").write_bytes(b"half of an im")
    (photos / "link.png").symlink_to(photos / "sea.png")
    for _ in range(2):
        report = tracked.sync(photos)
        assert counts(report) == (0, 0, 0, 0)
        assert {name for name, _ in report.unreadable} == {"broken.png", "sea.png", "link.png"}
        plan = tracked.sync(photos, dry_run=True)
        assert counts(plan) == (0, 0, 0, 0)
        assert dict(plan.unreadable).keys() == dict(report.unreadable).keys()
    assert set(tracked) == IDS


def test_a_folder_that_cannot_be_listed_loses_nothing(tracked, photos, tmp_path):
    inner = photos / "holiday in Rome"
    inner.rename(tmp_path / "elsewhere")
    inner.symlink_to(tmp_path / "elsewhere")
    report = tracked.sync(photos)
    assert counts(report) == (0, 0, 0, 0)
    assert [name for name, _ in report.unreadable] == ["holiday in Rome"]


def test_an_empty_or_missing_folder_removes_nothing(tracked, photos, tmp_path):
    moved = photos.rename(tmp_path / "kept")
    with pytest.raises(CollectionError, match="mounted"):
        tracked.sync(photos)
    photos.mkdir()
    with pytest.raises(CollectionError, match="delete=True"):
        tracked.sync(photos)
    assert set(tracked) == IDS
    assert len(tracked.sync(photos, delete=True).deleted) == 3
    photos.rmdir()
    moved.rename(photos)
    assert len(tracked.sync(photos).new) == 3


def test_items_from_elsewhere_stay_and_manifests_are_not_guessed_at(collection, photos):
    n_before = len(collection)
    assert len(collection.sync(photos).new) == 3
    (photos / "sea.png").unlink()
    assert collection.sync(photos).deleted == ("sea.png",)
    assert len(collection) == n_before + 2
    (photos / "manifest.csv").write_text("image,text\nsea.png,sea\n")
    with pytest.raises(CollectionError, match="manifest"):
        collection.sync(photos)


def test_labels_and_captions_of_an_image_survive_its_change(tracked, photos):
    from acqh.collection import Item

    stored = tracked.item("sea.png")
    fields = {**stored.fields, "place": "Ostia"}
    item = Item(photos / "sea.png", "waves", ["animal"], "sea.png", fields)
    tracked.upsert(item)
    save(photos / "sea.png", 21)
    assert tracked.sync(photos).changed == ("sea.png",)
    after = tracked.item("sea.png")
    assert (after.text, after.labels, after.fields["place"]) == ("waves", ("animal",), "Ostia")


KILLED = """
import os, sys
from acqh.collection import Collection

def stop(done, total, what):
    if what == "adding items":
        os.kill(os.getpid(), 9)

Collection.open(sys.argv[1]).sync(sys.argv[2], progress=stop)
"""


def test_a_killed_sync_goes_on_where_it_was_stopped(tracked, photos):
    for number in range(70):
        save(photos / "many" / f"{number}.png", 100 + number, size=(8, 8))
    (photos / "sea.png").rename(photos / "ocean.png")
    call = [sys.executable, "-c", KILLED, str(tracked.path), str(photos)]
    assert subprocess.run(call, check=False).returncode == -9
    report = tracked.sync(photos)
    assert counts(report) == (6, 0, 0, 0)  # 64 were stored, and the move
    assert len(tracked) == 73
    assert tracked.verify().ok


def test_a_build_reads_each_image_once_and_lists_the_folder_once(photos, tmp_path, monkeypatch):
    opened, stats = [], []
    opening, stat = io.open, os.stat

    def counting_open(file, *arguments, **options):
        opened.append(os.fspath(file) if isinstance(file, str | os.PathLike) else "")
        return opening(file, *arguments, **options)

    def counting_stat(path, *arguments, **options):
        stats.append(os.fspath(path) if isinstance(path, str | os.PathLike) else "")
        return stat(path, *arguments, **options)

    monkeypatch.setattr(io, "open", counting_open)
    monkeypatch.setattr("builtins.open", counting_open)
    monkeypatch.setattr(os, "stat", counting_stat)
    Collection.build(photos, tmp_path / "c.acqh", **SMALL).close()
    for name in IDS:
        assert opened.count(str(photos / name)) == 1
        assert stats.count(str(photos / name)) == 1

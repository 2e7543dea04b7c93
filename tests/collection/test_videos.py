"""Videos of a folder are items with one frame each."""

import shutil

import numpy as np
import pytest

from acqh.collection import Collection
from acqh.collection.build.folder import list_images
from acqh.encoders import videos

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("av")


@pytest.fixture
def folder(tmp_path, make_video):
    """Return a folder with photos, a video, a live photo and a file that is no video."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"IMG_{number}.jpg")
    make_video(folder / "VID_7.mp4")
    shutil.copy(folder / "VID_7.mp4", folder / "IMG_0.MOV")
    (folder / "broken.mkv").write_bytes(b"\x1a\x45\xdf\xa3" + bytes(900))
    return folder


def test_videos_are_items_with_a_thumbnail_and_a_date(folder, tmp_path):
    with Collection.build(folder, tmp_path / "c.acqh", image_encoder="hog") as collection:
        assert sorted(collection) == ["IMG_0.jpg", "IMG_1.jpg", "IMG_2.jpg", "VID_7.mp4"]
        item = collection.item("VID_7.mp4")
        assert item.has_thumbnail
        assert item.kind == "video"
        assert item.fields["date"].startswith("2021-03-1")
        ((name, reason),) = collection.skipped
        assert name == "broken.mkv"
        assert "broken.mkv" not in reason
        report = collection.sync(folder)
        assert (report.n_unchanged, report.new) == (4, ())
        (folder / "VID_7.mp4").rename(folder / "walk.mp4")
        assert collection.sync(folder).moved == ("VID_7.mp4",)


def test_without_the_extra_videos_are_skipped_with_a_reason_and_their_items_stay(
    folder, tmp_path, monkeypatch
):
    with Collection.build(folder, tmp_path / "c.acqh", image_encoder="hog") as collection:
        monkeypatch.setattr(videos, "find_spec", lambda _: None)
        report = collection.sync(folder)
        assert dict(report.unreadable) == dict.fromkeys(
            ["VID_7.mp4", "broken.mkv"], videos.NEEDS_AV
        )
        assert (report.deleted, len(collection)) == ((), 4)


def test_the_video_of_a_live_photo_is_no_file_of_its_own(folder):
    shutil.copy(folder / "VID_7.mp4", folder / "IMG_1.mp4")  # no live photo
    shutil.copy(folder / "VID_7.mp4", folder / "other.MOV")
    names = {file.name for file in list_images(folder).files}
    assert "IMG_0.MOV" not in names
    assert {"IMG_1.mp4", "other.MOV"} <= names

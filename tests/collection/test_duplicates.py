"""Detection of duplicate images."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from typer.testing import CliRunner

from acqh.cli import app
from acqh.collection import Collection
from acqh.collection.search import duplicates
from acqh.collection.search.same_image import compare
from benchmarks.quality.drawings import CLOSE, KINDS


def photograph(seed, size=(160, 120)):
    """Draw something with large and small shapes, as photographs have."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", size)
    for cells in (3, 8, 20, 60):
        noise = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        image = Image.blend(image, noise.resize(size, Image.Resampling.BICUBIC), 0.4)
    return image


def cropped(image, left, top, right, bottom):
    width, height = image.size
    return image.crop((left * width, top * height, (1 - right) * width, (1 - bottom) * height))


_TIERS = ("same file", "same image", "similar")
EDITS = {
    "jpeg": lambda image: image,
    "small": lambda image: image.resize((70, 52)),
    "crop": lambda image: cropped(image, 0.05, 0.02, 0.05, 0.06),
    "side": lambda image: cropped(image, 0.1, 0, 0, 0),
    "bright": lambda image: ImageEnhance.Brightness(image).enhance(1.2),
    "grey": lambda image: ImageOps.grayscale(image),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for seed in range(24):
        photograph(seed).save(folder / f"{seed:02}.png")
    for seed, (name, edit) in enumerate(EDITS.items()):
        edit(photograph(seed)).save(folder / f"{seed:02}-{name}.jpg", quality=60)
    shutil.copy(folder / "20.png", folder / "20-copy.png")
    return folder


@pytest.fixture(scope="module")
def path(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("c") / "c.acqh"
    settings = {"image_encoder": "hog", "text_encoder": "tfidf", "n_components": 16}
    Collection.build(folder, path, **settings).close()
    return path


def test_equal_files_copies_and_similar_images_are_distinguished(path):
    with Collection.open(path) as collection:
        groups = collection.duplicates()
    tiers = {tier: [set(group.ids) for group in groups if group.tier == tier] for tier in _TIERS}
    assert tiers["same file"] == [{"20.png", "20-copy.png"}]
    copies = [{f"{seed:02}.png", f"{seed:02}-{name}.jpg"} for seed, name in enumerate(EDITS)]
    assert sorted(map(sorted, tiers["same image"])) == sorted(map(sorted, copies))
    same = tiers["same file"] + tiers["same image"]
    assert all(not ids & group or ids <= group for ids in same for group in tiers["similar"])


def test_the_largest_file_is_the_best(path, folder):
    with Collection.open(path) as collection:
        for group in collection.duplicates():
            sizes = [(folder / name).stat().st_size for name in group.ids]
            assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("names", "ages", "best"),
    [
        (("Camera/IMG_1.png", "Copies/IMG_1.png"), (0, 60), "Copies/IMG_1.png"),
        (
            ("Copies/copy of IMG_1.png", "Holiday in Rome/IMG_1.png"),
            (0, 0),
            "Holiday in Rome/IMG_1.png",
        ),
    ],
)
def test_of_equal_files_the_oldest_and_then_the_shortest_name_is_the_best(
    tmp_path, names, ages, best
):
    folder = tmp_path / "photos"
    for name, age in zip(names, ages, strict=True):
        (folder / name).parent.mkdir(parents=True)
        photograph(1).save(folder / name)
        os.utime(folder / name, (1_700_000_000 - age, 1_700_000_000 - age))
    settings = {"image_encoder": "hog", "text_encoder": "tfidf", "n_components": 2}
    with Collection.build(folder, tmp_path / "c.acqh", **settings) as collection:
        (group,) = collection.duplicates()
        assert group.ids[0] == best
        assert [*collection.removable([group])] == [name for name in names if name != best]


def test_the_command_lists_removable_files_and_deletes_nothing(path, folder):
    def run(*arguments):
        return CliRunner().invoke(app, ["duplicates", str(path), *arguments]).stdout

    before = sorted(folder.iterdir())
    listed = {Path(name).name for name in run("--list-removable").splitlines()}
    # The kept file must show as much: recoloured and smaller originals stay.
    assert {"00-jpeg.jpg", "01-small.jpg"} <= listed
    assert listed & {"20.png", "20-copy.png"}
    assert not listed & {f"{seed:02}.png" for seed in range(20)}
    result = json.loads(run("--list-removable", "--json"))
    assert {Path(name).name for name in result["removable"]} == listed
    assert "possible duplicates" in run()
    assert sorted(folder.iterdir()) == before


def build(folder, draw, n_images):
    folder.mkdir()
    for seed in range(n_images):
        draw(seed).save(folder / f"{seed:03}.png")
    settings = {"image_encoder": "hog", "text_encoder": "tfidf", "n_components": 8}
    return Collection.build(folder, folder.with_suffix(".acqh"), **settings)


@pytest.mark.parametrize("kind", ["letters", "invoices", "chats", "cards", "smileys", "skies"])
def test_different_images_of_one_kind_are_not_removable(tmp_path, kind):
    with build(tmp_path / "images", KINDS[kind], 8) as collection:
        groups = collection.duplicates()
        assert not [group for group in groups if group.tier != "similar"]
        assert collection.removable(groups) == {}


def test_one_changed_amount_keeps_a_file_from_the_list(tmp_path):
    # Thumbnails hardly show the difference, so that these may be possible duplicates.
    with build(tmp_path / "images", CLOSE["amended invoices"], 6) as collection:
        assert collection.removable(collection.duplicates()) == {}


def test_every_removable_file_agrees_with_the_one_that_is_kept(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    # A chain: every frame is like the next one, the last is not like the first.
    for step in range(8):
        frame = photograph(0).copy()
        ImageDraw.Draw(frame).rectangle((0, 0, 160, 15 * step), fill="white")
        frame.save(images / f"{step}.png")
    settings = {"image_encoder": "hog", "text_encoder": "tfidf", "n_components": 4}
    with Collection.build(images, tmp_path / "c.acqh", **settings) as collection:
        assert collection.removable(collection.duplicates()) == {}


def test_equal_blank_images_are_the_same_image(tmp_path):
    with build(tmp_path / "images", lambda _: Image.new("RGB", (60, 40), "white"), 3) as collection:
        Image.new("RGB", (90, 60), "white").save(tmp_path / "images" / "large.png")
        collection.sync(tmp_path / "images")
        tiers = {group.tier: set(group.ids) for group in collection.duplicates()}
    assert tiers["same file"] == {"000.png", "001.png", "002.png"}
    assert tiers["same image"] == {"000.png", "001.png", "002.png", "large.png"}


def test_comparisons_grow_linearly_with_similar_images(tmp_path, monkeypatch):
    counts = []
    for n_images in (16, 64):
        calls = []
        monkeypatch.setattr(
            duplicates, "compare", lambda *pair, calls=calls: calls.append(1) or compare(*pair)
        )
        with build(tmp_path / f"{n_images}", KINDS["noisy frames"], n_images) as collection:
            collection.duplicates()
        counts.append(len(calls))
    assert counts[1] <= 5 * 64
    assert counts[0] <= 5 * 16

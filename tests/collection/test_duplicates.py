"""Whether items that show the same are found, and told apart from others."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from typer.testing import CliRunner

from acqh.cli import app
from acqh.collection import Collection
from acqh.collection.search.duplicates import _same_images


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


_TIERS = ("same file", "same image", "alike")
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


def test_files_copies_and_what_is_alike_are_told_apart(path):
    with Collection.open(path) as collection:
        groups = collection.duplicates()
    tiers = {tier: [set(each.ids) for each in groups if each.tier == tier] for tier in _TIERS}
    assert tiers["same file"] == [{"20.png", "20-copy.png"}]
    copies = [{f"{seed:02}.png", f"{seed:02}-{name}.jpg"} for seed, name in enumerate(EDITS)]
    assert sorted(map(sorted, tiers["same image"])) == sorted(map(sorted, copies))
    same = tiers["same file"] + tiers["same image"]
    assert all(not ids & group or ids <= group for ids in same for group in tiers["alike"])


def test_the_largest_file_is_the_best(path, folder):
    with Collection.open(path) as collection:
        for group in collection.duplicates():
            sizes = [(folder / name).stat().st_size for name in group.ids]
            assert sizes == sorted(sizes, reverse=True)


def test_the_command_prints_what_could_go_and_deletes_nothing(path, folder):
    def run(*arguments):
        return CliRunner().invoke(app, ["duplicates", str(path), *arguments]).stdout

    before = sorted(folder.iterdir())
    printed = run("--keep", "best").split()
    assert len(printed) == 1 + len(EDITS)
    found = json.loads(run("--json"))
    assert sorted(found["spare"]) == sorted(name.rsplit("/")[-1] for name in printed)
    assert sorted(folder.iterdir()) == before


def test_no_items_or_blank_ones_have_nothing_to_compare():
    assert _same_images(np.zeros((0, 32, 32), np.uint8)) == []
    assert _same_images(np.zeros((1, 32, 32), np.uint8)) == []
    few = np.stack([np.full((32, 32), grey, np.uint8) for grey in (0, 255)])
    assert _same_images(few) == []


def test_many_images_that_are_all_the_same_are_one_group():
    ramp = np.tile(np.arange(0, 256, 8, dtype=np.uint8), (32, 1))
    assert len(_same_images(np.stack([ramp] * 100))) == 99

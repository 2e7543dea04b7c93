"""How a collection was built is stored with it; images may be limited by a plain argument."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import acqh
from acqh.collection import BuildSettings, Collection, Item, ShardedCollection
from acqh.collection.disk.layout import _settings
from acqh.encoders import HogColour
from acqh.errors import CorruptBundleError, ImageError

PLAIN = {"image_encoder": "hog", "text_encoder": "tfidf"}
SMALL = {**PLAIN, "n_components": 2, "n_codebooks": 2}


def things(n=4):
    return [Item(text=f"a red rose {n}", labels=["a"], id=f"{each}") for each in range(n)]


def image(side, colour="red"):
    return Image.new("RGB", (side, side), colour)


def test_a_collection_says_how_it_was_built(tmp_path):
    targets = {"labels": 0.5, "text": acqh.Target(0.5, rank=1)}
    with Collection.build(
        things(), tmp_path / "a.acqh", **SMALL, targets=targets, random_state=7, strict=True,
        max_pixels=1000, image_root=tmp_path,
    ) as built:  # fmt: skip
        stored = built.stats().settings
    with Collection.open(tmp_path / "a.acqh") as opened:
        assert opened.settings == BuildSettings(
            **SMALL,
            targets={"labels": acqh.Target(0.5), "text": acqh.Target(0.5, rank=1)},
            random_state=7,
            strict=True,
            max_pixels=1000,
        )
        assert opened.stats().settings == stored
    assert "image_root" not in stored
    assert acqh.verify(tmp_path / "a.acqh").settings == stored
    assert stored["targets"]["text"] == {"weight": 0.5, "similarity": "content", "rank": 1}


def test_what_json_cannot_hold_is_described(tmp_path):
    items = [Item(image(8), f"a rose {n}", ["a"]) for n in range(4)]
    options = {**SMALL, "image_encoder": HogColour(32), "random_state": np.random.default_rng(0)}
    with Collection.build(items, tmp_path / "a.acqh", **options) as built:
        settings = built.settings
    assert settings.image_encoder == "HogColour(size=32)"
    assert settings.random_state is None


def test_a_collection_like_another_has_its_settings_and_says_whose(tmp_path):
    north = Collection.build(things(), tmp_path / "north.acqh", **SMALL, random_state=3)
    with north, Collection.build(things(), tmp_path / "south.acqh", like=north) as south:
        assert south.settings == BuildSettings(**SMALL, random_state=3, like="north")


def test_settings_that_cannot_be_are_damage_and_unknown_ones_are_passed_over():
    assert _settings({"n_codebooks": 4, "of_the_future": 1}, Path("a")).n_codebooks == 4
    for stored in (3, {"targets": 3}, {"targets": {"text": {"weight": -1}}}):
        with pytest.raises(CorruptBundleError, match="a does not say how it was built"):
            _settings(stored, Path("a"))


def test_images_are_limited_by_an_argument(tmp_path):
    items = [Item(image(8 + n), f"a rose {n}", ["a"], id=str(n)) for n in range(6)]
    with Collection.build(items, tmp_path / "a.acqh", **SMALL, max_pixels=100) as built:
        assert list(built) == ["0", "1", "2"]
        assert "raise max_pixels" in built.skipped[0][1]
        assert built.add(items[3], max_pixels=100).ids == ()
        assert built.upsert(items[3], max_pixels=200).ids == ("3",)
        built.search(image=image(8), max_pixels=64)
        with pytest.raises(ImageError, match="more than the 63 allowed"):
            built.search(image=image(8), max_pixels=63)
        photos = tmp_path / "photos"
        photos.mkdir()
        for side in (8, 12):
            image(side).save(photos / f"{side}.png")
        report = built.sync(photos, max_pixels=100)
        assert (report.new, [name for name, _ in report.unreadable]) == (("8.png",), ["12.png"])


def test_shards_of_bare_folders_have_ids_of_their_own(tmp_path):
    for name, colour in (("north", "red"), ("south", "navy")):
        (tmp_path / name).mkdir()
        for number in range(3):
            image(8 + number, colour).save(tmp_path / name / f"{number}.png")
    north = Collection.build(tmp_path / "north", tmp_path / "north.acqh", **SMALL)
    south = Collection.build(tmp_path / "south", tmp_path / "south.acqh", like=north)
    image(20, "navy").save(tmp_path / "south" / "9.png")
    with ShardedCollection([north, south]) as both:
        assert south.sync(tmp_path / "south").new == ("south-9.png",)
        assert sorted(both) == [
            *("0.png", "1.png", "2.png"),
            *("south-0.png", "south-1.png", "south-2.png", "south-9.png"),
        ]
        assert south.item("south-9.png").columns["file"] == "9.png"

"""Build settings are stored with the collection; an argument limits the size of images."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import acqh
from acqh.collection import BuildSettings, Collection, Item
from acqh.collection.generations import current_folder
from acqh.collection.model import read_facts, write_facts
from acqh.encoders import HogColor
from acqh.errors import CorruptBundleError, ImageError

PLAIN = {"image_encoder": "hog", "text_encoder": "tfidf"}
SMALL = {**PLAIN, "n_components": 2, "n_codebooks": 2}


def things(n=4):
    return [Item(text=f"a red rose {n}", labels=["a"], id=f"{number}") for number in range(n)]


def image(side, colour="red"):
    return Image.new("RGB", (side, side), colour)


def test_a_collection_stores_its_build_settings(tmp_path):
    targets = {"labels": 0.5, "text": acqh.Target(0.5, rank=1)}
    with Collection.build(
        things(), tmp_path / "a.acqh", **SMALL, targets=targets, random_state=7, strict=True,
        max_pixels=1000, image_root=tmp_path,
    ) as built:  # fmt: skip
        stored = built.info().settings
    with Collection.open(tmp_path / "a.acqh") as opened:
        assert opened.settings == BuildSettings(
            **SMALL,
            targets={"labels": acqh.Target(0.5), "text": acqh.Target(0.5, rank=1)},
            random_state=7,
            strict=True,
            max_pixels=1000,
        )
        assert opened.info().settings == stored
    assert "image_root" not in stored
    assert acqh.verify(tmp_path / "a.acqh").settings == stored
    text = {"weight": 0.5, "similarity": "content", "rank": 1, "caption_weight": 1.0, "ridge": None}
    assert stored["targets"]["text"] == text


def test_settings_that_json_cannot_hold_are_stored_as_text(tmp_path):
    items = [Item(image(8), f"a rose {n}", ["a"]) for n in range(4)]
    options = {**SMALL, "image_encoder": HogColor(32), "random_state": np.random.default_rng(0)}
    with Collection.build(items, tmp_path / "a.acqh", **options) as built:
        settings = built.settings
    assert settings.image_encoder == "HogColor(size=32)"
    assert settings.random_state is None


def test_invalid_settings_are_damage_and_unknown_ones_are_skipped(tmp_path):
    path = tmp_path / "a.acqh"
    Collection.build(things(), path, **SMALL).close()
    folder = current_folder(path)
    facts = read_facts(folder)
    full = facts.settings.stored()
    for stored in ({"targets": 3}, {"targets": {"text": {"weight": -1}}}, {"of_the_future": 1}):
        changed = replace(facts, settings=_Stored({**full, **stored}))
        write_facts(folder, changed)
        if "of_the_future" in stored:
            assert read_facts(folder).settings == facts.settings
            continue
        with pytest.raises(CorruptBundleError, match="built"):
            Collection.open(path)


class _Stored:
    def __init__(self, stored):
        self.stored = lambda: stored


def test_images_are_limited_by_an_argument(tmp_path):
    items = [Item(image(8 + n), f"a rose {n}", ["a"], id=str(n)) for n in range(6)]
    with Collection.build(items, tmp_path / "a.acqh", **SMALL, max_pixels=100) as built:
        assert list(built) == ["0", "1", "2"]
        assert "raise max_pixels" in built.skipped[0][1]
        assert built.add(items[3], max_pixels=100).ids == ()
        assert built.upsert(items[3], max_pixels=200).ids == ("3",)
        built.search(image=image(8), max_pixels=64)
        with pytest.raises(ImageError, match="63"):
            built.search(image=image(8), max_pixels=63)
        photos = tmp_path / "photos"
        photos.mkdir()
        for side in (8, 12):
            image(side).save(photos / f"{side}.png")
        report = built.sync(photos, max_pixels=100)
        assert (report.new, [name for name, _ in report.unreadable]) == (("8.png",), ["12.png"])

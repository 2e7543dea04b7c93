"""Small collections that everything can be tried on."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from acqh.collection import Collection, Item
from phone_folder import DRAW, make_phone_folder

WORDS = {
    "animal": ["dog", "cat", "fur", "paw", "tail"],
    "flower": ["rose", "tulip", "garden", "petal", "bloom"],
    "vehicle": ["car", "engine", "street", "wheel", "fast"],
}
COLOURS = {"animal": (150, 110, 60), "flower": (220, 40, 60), "vehicle": (60, 60, 70)}


def _make_items(n=60, *, labelled=True, pictures=True, seed=0, prefix="item"):
    """Make items of three kinds that differ in colour and words; item 0 is an animal."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    items = []
    for number in range(n):
        label = sorted(WORDS)[number % len(WORDS)]
        pixels = np.array(COLOURS[label]) + rng.integers(0, 30, (24, 32, 3))
        items.append(
            Item(
                image=Image.fromarray(pixels.astype(np.uint8)) if pictures else None,
                text=" ".join(rng.choice(WORDS[label], 3, replace=False)),
                labels=[label] if labelled else [],
                id=f"{prefix}{number}",
                fields={"year": 2000 + number % 5},
            )
        )
    return items


@pytest.fixture(scope="session")
def make_items():
    """Return the function that makes items."""
    return _make_items


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """Build one collection for the session; nobody changes it."""
    path = tmp_path_factory.mktemp("built") / "things.acqh"
    Collection.build(_make_items(), path, image_encoder="hog", text_encoder="tfidf").close()
    return path


@pytest.fixture(scope="session")
def phone(tmp_path_factory):
    """Return a folder as a phone has it; nobody changes it."""
    return make_phone_folder(tmp_path_factory.mktemp("phone") / "phone")


@pytest.fixture(scope="session")
def phone_path(phone) -> Path:
    """Build a collection of that folder for the session; nobody changes it."""
    path = phone.path.with_name("phone.acqh")
    Collection.build(phone.path, path, image_encoder="hog", text_encoder="tfidf").close()
    return path


@pytest.fixture(scope="session")
def uncaptioned(phone) -> Path:
    """Build another one with the built-in model; nobody changes it."""
    path = phone.path.with_name("uncaptioned.acqh")
    Collection.build(phone.path, path, n_components=64, n_codebooks=4).close()
    return path


@pytest.fixture(scope="session")
def photographs(data_dir) -> Path:
    """Return the folder of real photographs."""
    return data_dir.parent / "photos" / "images"


@pytest.fixture(scope="session")
def mixed(photographs, tmp_path_factory) -> Path:
    """Build a collection of photographs, screenshots and scans without captions."""
    rng = np.random.default_rng(3)
    files = sorted(photographs.glob("*.jpg"))[200:224]
    items = [Item(path, id=path.name) for path in files]
    for kind in ("screenshot", "document"):
        items += [Item(DRAW[kind](rng), id=f"{kind}{n}") for n in range(12)]
    path = tmp_path_factory.mktemp("mixed") / "c.acqh"
    Collection.build(items, path, n_components=64, n_codebooks=4).close()
    return path


@pytest.fixture
def path(built, tmp_path) -> Path:
    """Copy the collection, to be changed at will."""
    return Path(shutil.copytree(built, tmp_path / "things.acqh"))


@pytest.fixture
def collection(path):
    with Collection.open(path) as opened:
        yield opened

"""Small collections that everything can be tried on."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from acqh.collection import Collection, Item

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


@pytest.fixture
def path(built, tmp_path) -> Path:
    """Copy the collection, to be changed at will."""
    return Path(shutil.copytree(built, tmp_path / "things.acqh"))


@pytest.fixture
def collection(path):
    with Collection.open(path) as opened:
        yield opened

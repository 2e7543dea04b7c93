"""Real photographs, encoded by EfficientNet-Lite0: one in five is added without labels."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from acqh.collection import Collection
from acqh.collection.build.sources import open_source

REPOSITORY = Path(__file__).resolve().parents[2]
# Few enough for a test: every sixth, and a flower that the model has never seen.
EVERY = 6
FLOWER = "images/im00170.jpg"


@pytest.fixture(scope="module")
def photographs():
    for folder in (os.environ.get("ACQH_PHOTOS"), REPOSITORY.parent / "shared" / "photos"):
        if folder and (Path(folder) / "manifest.csv").is_file():
            return list(open_source(Path(folder) / "manifest.csv").items)
    return pytest.skip("no photographs: set ACQH_PHOTOS to the folder with their manifest.csv")


@pytest.mark.slow
def test_held_out_flower_images_and_captions_find_flowers(photographs, tmp_path):
    query = next(item for item in photographs if item.fields["image"] == FLOWER)
    some = [item for item in photographs[::EVERY] if item is not query]
    held_out = some[4::5]
    training = [item for number, item in enumerate(some) if number % 5 != 4]
    path = tmp_path / "photos.acqh"
    with Collection.build(training, path, image_encoder="efficientnet") as collection:
        report = collection.add([replace(item, labels=()) for item in held_out])
        labels = {
            **{item_id: collection.item(item_id).labels for item_id in collection},
            **{item_id: item.labels for item_id, item in zip(report.ids, held_out, strict=True)},
        }
        for query_of in ({"text": "flower macro"}, {"image": query.image}):
            hits = collection.search(**query_of, k=10).hits
            assert sum("flower" in labels[hit.id] for hit in hits) >= 8, query_of
        result = collection.search(text="dog", k=5).hits
        assert sum("dog" in labels[hit.id] for hit in result) >= 3

"""How well a collection of photographs is searched: by words, and by images it has never seen.

Builds a collection of four fifths of the photographs of a manifest with their labels, then adds the
others without labels. Prints one JSON line: how many of the ten best hits for ``flower macro`` and
for held-out images with the label flower carry that label, and the same of every label whose
name is a word that the texts use. An image is never counted as its own hit.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from acqh.collection import Collection, Hit, Item
from acqh.collection.sources.manifest import read_items

HELD_OUT = 5  # every fifth
LABEL = "flower"
QUERY = "flower macro"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manifest", default="../shared/photos/manifest.csv")
    parser.add_argument("--image-encoder", default="efficientnet")
    parser.add_argument("--every", type=int, default=1, help="use every n-th photograph")
    arguments = parser.parse_args()
    items = [
        replace(item, id=str(number))
        for number, item in enumerate(read_items(arguments.manifest))
        if number % arguments.every == 0
    ]
    folder = Path(tempfile.mkdtemp())
    try:
        figures = measure(items, folder / "photos.acqh", arguments.image_encoder)
    finally:
        shutil.rmtree(folder)
    print(json.dumps({"benchmark": "collection quality", **figures}))


def measure(items: list[Item], path: Path, image_encoder: str) -> dict[str, Any]:
    held_out = items[HELD_OUT - 1 :: HELD_OUT]
    ids = {item.id for item in held_out}
    labels = {item.id: set(item.labels) for item in items}
    started = time.perf_counter()
    training = [item for item in items if item.id not in ids]
    with Collection.build(training, path, image_encoder=image_encoder) as collection:
        built = time.perf_counter() - started
        collection.add([replace(item, labels=()) for item in held_out])
        by_text = hits_with(LABEL, collection.search(text=QUERY, k=10).hits, labels)
        by_word = {
            label: hits_with(label, hits, labels)
            for label in collection.labels()
            if (hits := collection.search(text=label, k=10).hits)
        }
        by_picture = [
            hits_with(LABEL, others(item, collection.search(image=item.image, k=11).hits), labels)
            for item in held_out
            if LABEL in labels[item.id]
        ]
    return {
        "image_encoder": image_encoder,
        "n_trained": len(training),
        "n_held_out": len(held_out),
        "build_seconds": round(built, 1),
        "flower_macro": by_text,
        "mean_of_label_names": round(float(np.mean(list(by_word.values()))), 2),
        "n_pictures": len(by_picture),
        "mean_of_pictures": round(float(np.mean(by_picture)), 2),
        "share_of_pictures_with_8": round(float(np.mean(np.array(by_picture) >= 8)), 2),
        "first_picture": by_picture[0],
    }


def others(item: Item, hits: Iterable[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.id != item.id][:10]


def hits_with(label: str, hits: Iterable[Hit], labels: dict[str | None, set[str]]) -> int:
    return sum(label in labels[hit.id] for hit in hits)


if __name__ == "__main__":
    main()

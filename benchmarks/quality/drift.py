"""How well other items fit codebooks, and the gain of retraining; one JSON line per kind.

Texts: captions of COCO photographs as MiniLM embeds them, in 8 bytes each, to which others are
added. Recall@10 is that of more texts of the added kind as queries, against exact search over all.
Images: a collection of COCO photographs, without captions. Both need the photographs.
"""

import argparse
import csv
import shutil
import tempfile
from pathlib import Path

import numpy as np

import acqh
from acqh.collection import Collection, Item
from acqh.encoders import MiniLM
from acqh.metrics import recall
from benchmarks._measure import COCO, PHOTOS, emit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=6_000)
    parser.add_argument("--images", type=int, default=2_000)
    arguments = parser.parse_args()
    coco, photos = rows_of(COCO), rows_of(PHOTOS)
    emoji = acqh.load_dataset("emoji").items
    others = {
        "COCO": [row["text"] for row in coco[arguments.texts :]],
        "Flickr tags": [row["text"] for row in photos if row["text"]],
        "emoji": list(emoji["text"]),
    }
    of_texts([row["text"] for row in coco[: arguments.texts]], others)
    more = {
        "COCO": [Item(COCO / row["image"]) for row in coco[-500:]],
        "Flickr photographs": [Item(PHOTOS / row["image"]) for row in photos[:500]],
        "emoji": [Item(image) for image in emoji["image"][::4]],
    }
    of_images([Item(COCO / row["image"]) for row in coco[: arguments.images]], more)


def rows_of(folder: Path) -> list[dict[str, str]]:
    """Return the rows of a folder's manifest."""
    with (folder / "manifest.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def of_texts(texts: list[str], others: dict[str, list[str]]) -> None:
    """Compress some texts and add others."""
    encoder = MiniLM()
    items = encoder.transform(texts)
    for kind, added in others.items():
        vectors = encoder.transform(added[:1_500])
        new, queries = vectors[300:], vectors[:300]
        everything = np.concatenate([items, new])
        small = acqh.compress(items).add(new)
        again = small.retrain(everything)
        recalls = [
            recall(compressed.index, everything, queries, k=10).recall[10]
            for compressed in (small, again)
        ]
        facts = {"benchmark": "drift", "of": "texts", "added": kind, "n_items": len(items)}
        facts |= {"n_added": len(new), "ratio": round(small.drift.ratio, 2)}
        emit(facts | {"recall_at_10": [round(compressed, 3) for compressed in recalls]})


def of_images(items: list[Item], others: dict[str, list[Item]]) -> None:
    """Build a collection of some images and add others."""
    with tempfile.TemporaryDirectory() as folder:
        Collection.build(items, Path(folder, "own.acqh")).close()
        for kind, added in others.items():
            path = shutil.copytree(Path(folder, "own.acqh"), Path(folder, f"{kind}.acqh"))
            with Collection.open(path) as collection:
                collection.add(added)
                drift = collection.drift
            facts = {"benchmark": "drift", "of": "images", "added": kind, "n_items": len(items)}
            emit(facts | {"n_added": drift.n_added, "ratio": round(drift.ratio, 2)})


if __name__ == "__main__":
    main()

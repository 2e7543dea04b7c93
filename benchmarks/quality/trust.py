"""Whether answers say that what is asked for is not there.

Prints JSON lines, on the 1,000 test photographs of ``ACQH_COCO`` without their captions, under
names that hashes are (``--collections`` keeps what is built in a folder):

- ``presence``: 18 things that the photographs are labelled with against 25 that none shows; the
  area under the curve of the mean ``match`` of the best three hits, and how many of either have a
  confident hit;
- the same on 1,000 of ``ACQH_PHOTOS`` without their tags, with other words: nothing was
  chosen on these, neither how words are asked for nor the confidence threshold;
- ``hybrid``: captions as queries, the share whose photograph is among the first 1, 5 and 10 by
  meaning and with words as well, and how many are found by one alone.

Missing photographs are skipped.
"""

import argparse
import csv
import hashlib
import shutil
import tempfile
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from acqh.collection import Collection
from benchmarks._measure import COCO, PHOTOS, emit

# None of their words stands in a caption of the photographs in this meaning.
ABSENT = (
    *("volcano eruption", "spreadsheet", "zqxjkv", "submarine", "violin", "microscope", "octopus"),
    *("lighthouse", "hieroglyphs", "x-ray", "spaceship", "medieval castle", "cactus", "kangaroo"),
    *("blood cells", "chess board", "coral reef", "northern lights", "oil rig", "fingerprint"),
    *("camel caravan", "stained glass window", "ballet dancer", "circuit board", "ultrasound"),
)
# The same of the tags; chosen before the photographs were asked for any of them.
ABSENT_OF_TAGS = (
    *("stethoscope", "dartboard", "roulette wheel", "slot machine", "nutcracker", "pretzel"),
    *("treadmill", "sextant", "guillotine", "xylophone", "ukulele", "harmonica", "hedgehog"),
    *("armadillo", "platypus", "ostrich", "koala", "rhinoceros", "wheelbarrow", "forklift"),
    *("excavator", "zeppelin", "catapult", "banknote", "dominoes", "rubik cube", "toothbrush"),
    *("vending machine", "shopping cart", "pineapple", "cauliflower", "broccoli", "artichoke"),
    *("hockey goalie", "boxing match", "wheelchair", "syringe", "chainsaw", "pie chart"),
    *("tennis court", "giraffe", "golf course", "newspaper headline"),
)


def named(row):
    """Return a name such as photographs have that were downloaded."""
    digest = hashlib.sha256(row["image"].encode()).hexdigest()
    return f"{int(digest[:8], 16)}_{digest[8:18]}.jpg"


def build(photographs, rows, path):
    """Build a collection of photographs without captions, unless it exists."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            for row in rows:
                shutil.copy(photographs / row["image"], Path(folder, named(row)))
            Collection.build(folder, path).close()
    return Collection.open(path)


def presence(collection, data, rows, things):
    labels = sorted({label for row in rows for label in row["labels"].split("|")} - {""})
    labels = [label.replace("_", " ") for label in labels]
    present = [collection.search(text=label, k=10) for label in labels]
    absent = [collection.search(text=thing, k=10) for thing in things]
    best = [np.mean([hit.match for hit in answer.hits[:3]]) for answer in (*present, *absent)]
    is_there = [True] * len(present) + [False] * len(absent)
    emit(
        {
            "what": "presence",
            "data": data,
            "auc": round(float(roc_auc_score(is_there, best)), 3),
            "present_stand_out": f"{sum(a.n_confident > 0 for a in present)} of {len(present)}",
            "absent_stand_out": f"{sum(a.n_confident > 0 for a in absent)} of {len(absent)}",
            "missed": [w for w, a in zip(labels, present, strict=True) if not a.n_confident],
            "mistaken": [w for w, a in zip(things, absent, strict=True) if a.n_confident],
        }
    )


def ranks(collection, rows, mode):
    """Return the place of each caption's photograph among the first ten, or 10."""
    places = []
    for row in rows:
        # Without quotes, between which stands what must occur in words.
        text = row["text"].replace(chr(34), "")
        hits = collection.search(text=text, k=10, mode=mode).hits
        ids = [hit.id for hit in hits]
        places.append(ids.index(named(row)) if named(row) in ids else 10)
    return np.array(places)


def compare(collection, rows):
    semantic, hybrid = (ranks(collection, rows, mode) for mode in ("semantic", "hybrid"))
    for k in (1, 5, 10):
        emit(
            {
                "what": "hybrid",
                "k": k,
                "semantic": round(float(np.mean(semantic < k)), 3),
                "hybrid": round(float(np.mean(hybrid < k)), 3),
                "hybrid_alone": int(np.sum((hybrid < k) & (semantic >= k))),
                "semantic_alone": int(np.sum((hybrid >= k) & (semantic < k))),
            }
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collections", type=Path, help="the folder to keep them in")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.collections or Path(scratch)
        if rows := read(PHOTOS)[:1_000]:
            with build(PHOTOS, rows, folder / "tagged.acqh") as collection:
                presence(collection, "tagged", rows, ABSENT_OF_TAGS)
        if rows := read(COCO)[9_000:]:
            with build(COCO, rows, folder / "coco.acqh") as collection:
                presence(collection, "coco", rows, ABSENT)
                compare(collection, rows)


def read(folder):
    """Return the rows of a manifest, none where it is missing."""
    path = folder / "manifest.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()

"""Whether answers say that what is asked for is not there.

Prints JSON lines, on the 1,000 test photographs of ``../shared/coco`` without their captions, under
names that hashes are (``--collection`` keeps what is built):

- ``presence``: 18 things that the photographs are labelled with against 25 that none shows; the
  area under the curve of the mean ``match`` of the best three hits, and how many of either have a
  hit that stands out;
- ``auto``: captions as queries, the share whose photograph is among the first 1, 5 and 10 by
  meaning and with words as well, and how many are found by one alone.

Nothing is printed where the photographs are missing.
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
from benchmarks._measure import COCO, emit

# None of their words stands in a caption of the photographs in this meaning.
ABSENT = (
    *("volcano eruption", "spreadsheet", "zqxjkv", "submarine", "violin", "microscope", "octopus"),
    *("lighthouse", "hieroglyphs", "x-ray", "spaceship", "medieval castle", "cactus", "kangaroo"),
    *("blood cells", "chess board", "coral reef", "northern lights", "oil rig", "fingerprint"),
    *("camel caravan", "stained glass window", "ballet dancer", "circuit board", "ultrasound"),
)


def named(row):
    """Return a name such as photographs have that were downloaded."""
    digest = hashlib.sha256(row["image"].encode()).hexdigest()
    return f"{int(digest[:8], 16)}_{digest[8:18]}.jpg"


def build(rows, path):
    """Build a collection of bare photographs, unless it is there."""
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            for row in rows:
                shutil.copy(COCO / row["image"], Path(folder, named(row)))
            Collection.build(folder, path).close()
    return Collection.open(path)


def presence(collection, labels):
    present = [collection.search(text=label, k=10) for label in labels]
    absent = [collection.search(text=thing, k=10) for thing in ABSENT]
    best = [np.mean([hit.match for hit in answer.hits[:3]]) for answer in (*present, *absent)]
    is_there = [True] * len(present) + [False] * len(absent)
    emit(
        {
            "what": "presence",
            "auc": round(float(roc_auc_score(is_there, best)), 3),
            "present_stand_out": f"{sum(a.stands_out > 0 for a in present)} of {len(present)}",
            "absent_stand_out": f"{sum(a.stands_out > 0 for a in absent)} of {len(absent)}",
            "missed": [w for w, a in zip(labels, present, strict=True) if not a.stands_out],
            "mistaken": [w for w, a in zip(ABSENT, absent, strict=True) if a.stands_out],
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
    meaning, auto = (ranks(collection, rows, mode) for mode in ("meaning", "auto"))
    for k in (1, 5, 10):
        emit(
            {
                "what": "auto",
                "k": k,
                "meaning": round(float(np.mean(meaning < k)), 3),
                "auto": round(float(np.mean(auto < k)), 3),
                "auto_alone": int(np.sum((auto < k) & (meaning >= k))),
                "meaning_alone": int(np.sum((auto >= k) & (meaning < k))),
            }
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collection", type=Path, help="where to build it, or where it is")
    given = parser.parse_args()
    if not (COCO / "manifest.csv").exists():
        return
    with (COCO / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[9_000:]
    labels = sorted({label for row in rows for label in row["labels"].split("|")} - {""})
    with tempfile.TemporaryDirectory() as scratch:
        collection = build(rows, given.collection or Path(scratch, "bare.acqh"))
        presence(collection, labels)
        compare(collection, rows)
        collection.close()


if __name__ == "__main__":
    main()

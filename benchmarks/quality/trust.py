"""Whether answers say that what is asked for is not there.

    python -m benchmarks.quality.trust
    python -m benchmarks.quality.trust --folder flickr8k --rows 0:1000

Prints JSON lines, on the 1,000 test photographs of ``ACQH_COCO``, 1,000 of ``ACQH_PHOTOS``, or on
the photographs of a folder whose ``manifest.csv`` has the columns image and text. Collections have
none of the texts, and files are named by hashes (``--collections`` keeps them in a folder):

- ``presence``: things that the photographs show against things that no text names. The former are
  the labels or, without labels, the `NOUNS` of five texts or more. ``auc``: area under the curve of
  the mean ``match`` of the best three hits. ``missed``: things that are there without a confident
  hit. ``mistaken``: things that are not there with one. ``faded_share``: of the right hits among
  the first 24, those that the web interface fades, if some hits are confident. ``not_photos``:
  photographs that are taken for another kind of image.
- ``hybrid``: captions as queries, the share whose photograph is among the first 1, 5 and 10 by
  meaning and with words as well, and how many are found by one alone.

Nothing was chosen on ``ACQH_PHOTOS``: neither how words are asked for nor the confidence threshold.
Missing photographs are skipped.
"""

import argparse
import csv
import hashlib
import re
import shutil
import tempfile
from itertools import pairwise
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
# Things that photographs of daily life often show; chosen before any were asked for.
NOUNS = Path(__file__).with_name("nouns.txt").read_text().split()
# Texts that name a thing that is there.
_MIN_TEXTS = 5
# Hits on the first screen of the web interface, and the highest match that it fades: see
# messages.js.
_SHOWN, _FADED = 24, 0.35


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


def presence(collection, data, rows, absent):
    texts = {named(row): plain(row["text"]) for row in rows}
    labels = {named(row): set(row.get("labels", "").split("|")) - {""} for row in rows}
    showing = {}  # names of photographs, by what they show
    for label in sorted(set().union(*labels.values())):
        names = [name for name in labels if label in labels[name]]
        showing[label.replace("_", " ")] = set(names)
    for noun in () if showing else NOUNS:
        names = {name for name, words in texts.items() if noun in words}
        if len(names) >= _MIN_TEXTS:
            showing[noun] = names
    absent = [thing for thing in absent if not any(thing in words for words in texts.values())]
    present, others = (
        [collection.search(text=thing, k=_SHOWN) for thing in things]
        for things in (showing, absent)
    )
    best = [np.mean([hit.match for hit in answer.hits[:3]]) for answer in (*present, *others)]
    is_shown = [True] * len(present) + [False] * len(others)
    missed = [
        thing for thing, answer in zip(showing, present, strict=True) if not answer.n_confident
    ]
    mistaken = [thing for thing, answer in zip(absent, others, strict=True) if answer.n_confident]
    faded = [
        hit.match <= _FADED
        for names, answer in zip(showing.values(), present, strict=True)
        for hit in answer.hits
        if hit.id in names and answer.n_confident
    ]
    emit(
        {
            "what": "presence",
            "data": data,
            "not_photos": sum(
                n for kind, n in collection.facets()["kind"].items() if kind != "photo"
            ),
            "auc": round(float(roc_auc_score(is_shown, best)), 3),
            "present_stand_out": f"{len(present) - len(missed)} of {len(present)}",
            "absent_stand_out": f"{len(mistaken)} of {len(others)}",
            "missed_share": round(len(missed) / len(present), 3),
            "mistaken_share": round(len(mistaken) / len(others), 3),
            "faded_share": round(float(np.mean(faded)), 3),
            "missed": missed,
            "mistaken": mistaken,
        }
    )


def plain(text):
    """Return the words of a text and pairs of them, those that end with s also without."""
    words = re.findall(r"[a-z]+", text.lower())
    words += [word.removesuffix("s") for word in words]
    return {*words, *map(" ".join, pairwise(words))}


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
    parser.add_argument("--folder", type=Path, help="a folder of photographs and a manifest.csv")
    parser.add_argument("--rows", default="0:1000", help="those of the manifest; default: 0:1000")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.collections or Path(scratch)
        if arguments.folder:
            first, last = map(int, arguments.rows.split(":"))
            name = f"{arguments.folder.name}-{first}-{last}"
            rows = read(arguments.folder)[first:last]
            with build(arguments.folder, rows, folder / f"{name}.acqh") as collection:
                presence(collection, name, rows, (*ABSENT, *ABSENT_OF_TAGS))
            return
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

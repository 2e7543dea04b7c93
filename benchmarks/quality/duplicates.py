"""Whether copies of photographs are told from other photographs.

Prints one JSON line: of 60 copies of photographs of ``../shared/photos`` and ``../shared/coco``
(stored again, scaled, recoloured, cropped by up to a tenth, or several of these), beside the 3,000
photographs themselves (rows 1,500 to 2,999 of either; thresholds were chosen on the first 1,500,
``--start 0``), how many are in a group "same image" with what they are a copy of; how many
pairs of different photographs are in one; and how long that took. Nothing is printed where
photographs are missing.
"""

import argparse
import csv
import io
import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from acqh.collection import Collection, Item
from benchmarks._measure import COCO, PHOTOS, emit, timed


def jpeg(image, quality=80):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return Image.open(io.BytesIO(file.getvalue()))


def cropped(image, left, top, right, bottom):
    width, height = image.size
    box = width * left, height * top, width * (1 - right), height * (1 - bottom)
    return image.crop(tuple(round(each) for each in box))


def warmer(image):
    bands = zip(image.split(), (1.12, 1.0, 0.85), strict=True)
    return Image.merge(
        "RGB", [band.point([min(255, int(v * k)) for v in range(256)]) for band, k in bands]
    )


def brighter(image):
    return ImageEnhance.Brightness(image).enhance(1.25)


def harder(image):
    return ImageEnhance.Contrast(ImageEnhance.Brightness(image).enhance(0.8)).enhance(1.2)


EDITS = (
    lambda image: jpeg(image, 30),
    lambda image: jpeg(image.resize((image.width // 2, image.height // 2))),
    lambda image: jpeg(cropped(image, 0.05, 0.05, 0.05, 0.05)),
    lambda image: jpeg(cropped(image, 0.08, 0, 0, 0.04)),
    lambda image: jpeg(cropped(image, 0, 0.1, 0, 0)),
    lambda image: jpeg(brighter(image)),
    lambda image: jpeg(harder(image)),
    lambda image: jpeg(ImageOps.grayscale(image)),
    lambda image: jpeg(ImageEnhance.Color(image).enhance(1.6)),
    lambda image: jpeg(cropped(warmer(image), 0.03, 0.03, 0.03, 0.03), 70),
    lambda image: jpeg(cropped(image, 0.06, 0, 0.02, 0.05).resize((90, 80)), 75),
    lambda image: jpeg(ImageEnhance.Sharpness(image).enhance(2.5)),
)


def photographs(start, n=1_500):
    for folder in (PHOTOS, COCO):
        with (folder / "manifest.csv").open(encoding="utf-8", newline="") as file:
            yield from (
                folder / row["image"] for row in list(csv.DictReader(file))[start : start + n]
            )


def main(n_copies=60):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=1_500, help="the first row of either")
    start = parser.parse_args().start
    if not all((folder / "manifest.csv").exists() for folder in (PHOTOS, COCO)):
        return
    paths = list(photographs(start))
    copied = np.random.default_rng(start + 1).choice(len(paths), n_copies, replace=False).tolist()
    items = [Item(path, id=f"{row}") for row, path in enumerate(paths)]
    for at, row in enumerate(copied):
        with Image.open(paths[row]) as image:
            edited = EDITS[at % len(EDITS)](image.convert("RGB"))
        items.append(Item(edited.convert("RGB"), id=f"{row} copy"))
    with tempfile.TemporaryDirectory() as folder:
        # What images mean is of no account here, so that any encoder does.
        collection = Collection.build(
            items, Path(folder, "c.acqh"), image_encoder="hog", text_encoder="tfidf"
        )
        seconds, groups = timed(collection.duplicates)
        collection.close()
    same = [group.ids for group in groups if group.tier == "same image"]
    pairs = {frozenset(pair) for ids in same for pair in combinations(ids, 2)}
    wanted = {frozenset((f"{row}", f"{row} copy")) for row in copied}
    different = [pair for pair in pairs if len({name.split()[0] for name in pair}) > 1]
    emit(
        {
            "start": start,
            "copies": n_copies,
            "found": len(wanted & pairs),
            "missed": sorted(edit_of(copied, pair) for pair in wanted - pairs),
            "photographs": len(paths),
            "different_called_same": len(different),
            "which": sorted(map(sorted, different)),
            "seconds": round(seconds, 1),
        }
    )


def edit_of(copied, pair):
    row = min(int(name.split()[0]) for name in pair)
    return copied.index(row) % len(EDITS)


if __name__ == "__main__":
    main()

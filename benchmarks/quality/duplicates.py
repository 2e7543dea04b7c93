"""Measure how well copies of images are distinguished from different images, and the time.

Prints JSON lines. ``copies``: of 60 edited copies of photographs of ``ACQH_PHOTOS`` and
``ACQH_COCO``, stored with 3,000 photographs (rows 1,500 to 2,999 of either), those in one
group "same image" with their original, and pairs of different photographs in one group. ``drawn``:
of different images of one kind (``drawings.py``) those in a group
with another one, and those without any file left if what ``--list-removable`` lists is removed.
Of copies of twelve of them (JPEG of quality 75 and 40, 60 % of the size), those found. ``emoji``:
groups of the emoji of the package. ``search``: hits "same image" of an image that is not stored,
and of copies of stored ones. ``seconds``: time of `duplicates` for similar images.

Thresholds were chosen on the first 1,500 photographs of either set and on seeds below 10,000:
``--tuning``.
"""

import argparse
import csv
import io
import tempfile
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from acqh.collection import Collection, Item
from acqh.data import load_dataset
from benchmarks._measure import COCO, PHOTOS, emit, timed
from benchmarks.quality.drawings import CLOSE, KINDS


def jpeg(image, quality=80):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return Image.open(io.BytesIO(file.getvalue()))


def cropped(image, left, top, right, bottom):
    width, height = image.size
    box = width * left, height * top, width * (1 - right), height * (1 - bottom)
    return image.crop(tuple(round(edge) for edge in box))


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


ENCODERS = {"image_encoder": "hog", "text_encoder": "tfidf"}  # any do: pixels are compared


def same_images(collection):
    groups = collection.duplicates()
    return groups, [group.ids for group in groups if group.tier == "same image"]


def measure_copies(start, n_copies=60):
    paths = list(photographs(start))
    copied = np.random.default_rng(start + 1).choice(len(paths), n_copies, replace=False).tolist()
    items = [Item(path, id=f"{row}") for row, path in enumerate(paths)]
    for at, row in enumerate(copied):
        with Image.open(paths[row]) as image:
            edited = EDITS[at % len(EDITS)](image.convert("RGB"))
        items.append(Item(edited.convert("RGB"), id=f"{row} copy"))
    with tempfile.TemporaryDirectory() as folder:
        collection = Collection.build(items, Path(folder, "c.acqh"), **ENCODERS)
        seconds, (_, same) = timed(partial(same_images, collection))
        collection.close()
    pairs = {frozenset(pair) for ids in same for pair in combinations(ids, 2)}
    true_pairs = {frozenset((f"{row}", f"{row} copy")) for row in copied}
    different = [pair for pair in pairs if len({name.split()[0] for name in pair}) > 1]
    yield {
        "copies": n_copies,
        "found": len(true_pairs & pairs),
        "missed": sorted(edit_of(copied, pair) for pair in true_pairs - pairs),
        "photographs": len(paths),
        "different_called_same": len(different),
        "which": sorted(map(sorted, different)),
        "seconds": round(seconds, 1),
    }


def edit_of(copied, pair):
    row = min(int(name.split()[0]) for name in pair)
    return copied.index(row) % len(EDITS)


def measure_drawn(seed, n_images=120, n_copies=12):
    for kind, draw in (KINDS | CLOSE).items():
        with tempfile.TemporaryDirectory() as home:
            folder = Path(home, "images")
            folder.mkdir()
            for n in range(n_images):
                image = draw(seed + n)
                image.save(folder / f"{n:03}.png")
                if n < n_copies:
                    small = image.resize((image.width * 6 // 10, image.height * 6 // 10))
                    copy, quality = ((image, 75), (small, 75), (image, 40))[n % 3]
                    copy.save(folder / f"{n:03} copy.jpg", quality=quality)
            collection = Collection.build(folder, Path(home, "c.acqh"), **ENCODERS)
            seconds, (groups, same) = timed(partial(same_images, collection))
            listed = {path.stem for path in collection.removable(groups).values()}
            left = {path.stem.split()[0] for path in folder.iterdir() if path.stem not in listed}
            collection.close()
        numbers = [[Path(name).stem.split()[0] for name in ids] for ids in same]
        wrong = {number for group in numbers if len(set(group)) > 1 for number in group}
        duplicates = {number for group in numbers for number in group if group.count(number) > 1}
        yield {
            "drawn": kind,
            "images": n_images,
            "called_same": len(wrong),
            "lost": n_images - len(left),
            "copies": n_copies,
            "copies_found": len(duplicates),
            "listed": len(listed),
            "seconds": round(seconds, 1),
        }


def measure_emoji():
    data = load_dataset("emoji")
    items = [
        Item(image, id=name)
        for image, name in zip(data.items["image"], data.items["name"], strict=True)
    ]
    with tempfile.TemporaryDirectory() as home:
        collection = Collection.build(items, Path(home, "c.acqh"), **ENCODERS)
        seconds, (_, same) = timed(partial(same_images, collection))
        collection.close()
    yield {
        "emoji": len(data),
        "called_same": sum(map(len, same)),
        "groups": sorted(map(sorted, same)),
        "seconds": round(seconds, 1),
    }


def measure_search(start, seed, n_stored=30):
    for kind, draw in KINDS.items():
        stored = [draw(seed + n) for n in range(n_stored)]
        others = [draw(seed + n_stored + n) for n in range(10)]
        yield {"search": kind, **hits_of(stored, others)}
    images = [Image.open(path).convert("RGB") for path in list(photographs(start))[::10]]
    yield {"search": "photographs", **hits_of(images[:250], images[250:300])}


def hits_of(stored, others):
    def query(image):
        hits = collection.search(image=as_file(image), k=len(stored)).hits
        return [hit.id for hit in hits if "same image" in hit.why]

    items = [Item(image, id=f"{n}") for n, image in enumerate(stored)]
    with tempfile.TemporaryDirectory() as home:
        collection = Collection.build(items, Path(home, "c.acqh"), **ENCODERS)
        wrong = sum(bool(query(image)) for image in others)
        copies = [image.resize((image.width * 6 // 10, image.height * 6 // 10)) for image in stored]
        n_hits = sum(query(jpeg(copy)) == [f"{n}"] for n, copy in enumerate(copies))
        collection.close()
    return {
        "stored": len(stored),
        "not_stored": len(others),
        "not_stored_called_same": wrong,
        "copies_found": n_hits,
    }


def as_file(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def measure_seconds(seed):
    for kind, sizes in (("noisy frames", (50, 100, 200, 500, 2_000)), ("pages", (60, 120, 240))):
        for n in sizes:
            items = [Item(KINDS[kind](seed + at), id=f"{at}") for at in range(n)]
            with tempfile.TemporaryDirectory() as home:
                collection = Collection.build(items, Path(home, "c.acqh"), **ENCODERS)
                seconds, (_, same) = timed(partial(same_images, collection))
                collection.close()
            called = sum(map(len, same))
            yield {"seconds": round(seconds, 1), "of": kind, "images": n, "called_same": called}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuning", action="store_true", help="what thresholds were chosen on")
    parser.add_argument("--only", help="one of copies, drawn, emoji, search, seconds")
    arguments = parser.parse_args()
    start, seed = (0, 1_000) if arguments.tuning else (1_500, 10_000)
    has_photographs = all((folder / "manifest.csv").exists() for folder in (PHOTOS, COCO))
    parts = {
        "copies": lambda: measure_copies(start) if has_photographs else (),
        "drawn": lambda: measure_drawn(seed),
        "emoji": measure_emoji,
        "search": lambda: measure_search(start, seed) if has_photographs else (),
        "seconds": lambda: measure_seconds(seed),
    }
    for name, part in parts.items():
        if arguments.only in (None, name):
            for line in part():
                emit(line)


if __name__ == "__main__":
    main()

"""How well the built-in image-text model finds images that nobody has captioned, by words.

Prints JSON lines. Captions as queries, the right image among the first ten of 1,000 test rows of
``ACQH_COCO`` (never learnt from), real-valued and in 16 and 8 bytes; the same by plain
Euclidean nearest neighbours of the same space without codes, and by chance. Then the same in the
other direction. Then how pairs of one's own refine it, on photographs with tags
(``ACQH_PHOTOS``): the built-in model, tags alone, and both, by Jaccard index of labels over
the first ten for tags of held-out photographs as queries.

``--folder`` measures the first alone, on other captioned photographs: a folder with a
``manifest.csv`` with the columns image and text; the first 1,000 rows are used. ``--classes``
measures how names of classes find photographs of them, and the suggested tags: a folder with a
``manifest.csv`` with the columns image and text, which is the name of the class.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

import acqh
from acqh.collection.build.learn import builtin_statistics
from acqh.encoders import EfficientNetLite0, MiniLM, builtin_model
from acqh.encoders.builtin import PairMoments
from acqh.quantize import decode, search_codes
from benchmarks._measure import COCO, PHOTOS, emit


def read(folder, start, stop):
    with (folder / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[start:stop]
    features = EfficientNetLite0().transform(folder / row["image"] for row in rows)
    return rows, features, MiniLM().transform(row["text"] for row in rows)


def recalls(scores):
    ranks = (scores > np.diag(scores)[:, np.newaxis]).sum(axis=1)
    return {f"recall_at_{k}": round(float(np.mean(ranks < k)), 3) for k in (1, 5, 10)} | {
        "median_rank": int(np.median(ranks)) + 1
    }


def coded(vectors, model, size):
    codebooks = model.codebooks(size)
    return decode(search_codes(vectors, codebooks, search="beam", beam_width=16), codebooks)


def captioned(folder, start):
    """Measure how 1,000 photographs are found by their captions, and captions by photographs."""
    rows, images, texts = read(folder, start, start + 1_000)
    name = folder.name
    model = builtin_model()
    queries = model.project(texts, view="text")
    items = model.item_vectors(images)
    emit({"data": name, "how": "chance", "recall_at_10": 10 / len(rows)})
    versions = {"real-valued": items, **{f"{n} bytes": coded(items, model, n) for n in (16, 8)}}
    for how, stored in versions.items():
        emit({"data": name, "how": how, **recalls(queries @ stored.T)})
    captions = model.item_vectors(texts, view="text")
    scores = model.project(images, view="image") @ captions.T
    emit({"data": name, "how": "image to text", **recalls(scores)})
    for size in (16, 8):
        learn(name, images, texts, size)


def class_names(folder):
    """Measure the first five photographs by the name of a class, and the tags of photographs."""
    with (folder / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    model, names = builtin_model(), sorted({row["text"] for row in rows})
    images = EfficientNetLite0().transform(folder / row["image"] for row in rows)
    queries = model.project(MiniLM().transform(f"a photo of a {n}" for n in names), view="text")
    is_right = np.array([[row["text"] == name for row in rows] for name in names])
    items = model.item_vectors(images)
    versions = {"real-valued": items, **{f"{n} bytes": coded(items, model, n) for n in (16, 8)}}
    for how, stored in versions.items():
        best = np.argsort(-queries @ stored.T, axis=1)[:, :5]
        hits = np.take_along_axis(is_right, best, axis=1)
        results = {"precision_at_5": hits.mean(), "one_right_among_5": hits.any(axis=1).mean()}
        results = {name: round(float(value), 3) for name, value in results.items()}
        emit({"data": folder.name, "how": how, "names": len(names), **results})
    tags = model.suggest_tags(images)
    # Groups of classes, such as dog, are neither counted as right nor as wrong.
    lower = {name.lower() for name in names}
    is_right = [
        tag == row["text"].lower()
        for row_tags, row in zip(tags, rows, strict=True)
        for tag, _ in row_tags
        if tag in lower
    ]
    share, tagged = np.mean(is_right), np.mean([bool(row_tags) for row_tags in tags])
    results = {"right": round(float(share), 3), "photographs_with_tags": round(float(tagged), 3)}
    emit({"data": folder.name, "how": "tags", "tags": len(is_right), **results})


def learn(name, images, texts, size):
    """Measure ACQH on the general sums alone, and with the images, uncaptioned, among them."""
    targets = {"text": acqh.Target(rank=384)}
    model = acqh.ACQH(64, n_codebooks=size, targets=targets, random_state=0)
    model.fit_stats(builtin_statistics())
    is_present, none = np.ones(len(images), dtype=bool), np.zeros(len(images), dtype=bool)
    pairs = acqh.MultiViewData(
        {"image": images, "text": np.zeros_like(texts)}, present={"image": is_present, "text": none}
    )
    for how in ("general", "general and own images"):
        items = model.decode(model.encode({"image": images}))
        recall = recalls(model.project(texts, view="text") @ items.T)
        way = f"ACQH, {how}, {size} bytes"
        emit({"data": name, "how": way, **recall})
        if how == "general":
            model.partial_fit(pairs)


def jaccard(scores, query_labels, labels):
    best = np.argsort(-scores, axis=1)[:, :10]
    shares = [
        len(mine & labels[row]) / max(1, len(mine | labels[row]))
        for mine, rows in zip(query_labels, best, strict=True)
        for row in rows
    ]
    return round(float(np.mean(shares)), 3)


def photos(n=1_300):
    rows, images, texts = read(PHOTOS, 0, n)
    labels = [set(row["labels"].split("|")) for row in rows]
    general = builtin_model()
    captioned = {"none": general}
    for count in (100, 600):
        pairs = images[:count], texts[:count]
        captioned[f"{count}, general and own"] = general.refine(*pairs)
        mapped = (
            general.map_features(features, view=view)
            for features, view in zip(pairs, ("image", "text"), strict=True)
        )
        alone = PairMoments.of(*mapped)
        captioned[f"{count}, own alone"] = type(general)(general.arrays, alone, general.ridge)
    rest = slice(700, n)
    rng = np.random.default_rng(0)
    chance = jaccard(rng.random((300, n - 1_000)), labels[700:1_000], labels[1_000:])
    emit({"data": "photos", "captioned": "chance", "jaccard": chance})
    for how, model in captioned.items():
        queries = model.project(texts[rest][:300], view="text")
        items = model.item_vectors(images[rest][300:])
        score = jaccard(queries @ items.T, labels[700:1_000], labels[1_000:])
        own_recall = recalls(
            model.project(texts[rest], view="text") @ model.item_vectors(images[rest]).T
        )
        emit({"data": "photos", "captioned": how, "jaccard": score, **own_recall})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="other captioned photographs")
    parser.add_argument("--classes", type=Path, help="photographs of named classes")
    arguments = parser.parse_args()
    if arguments.classes is not None:
        class_names(arguments.classes)
        return
    if arguments.folder is not None:
        captioned(arguments.folder, 0)
        return
    captioned(COCO, 9_000)
    photos()


if __name__ == "__main__":
    main()

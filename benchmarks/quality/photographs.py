"""Photographs of which all, few or none have labels: the row of ``content.py``."""

import argparse
import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

import acqh
from acqh.encoders import EfficientNetLite0, word_vectorizer

MIXED = {"labels": 0.5, "image": 0.25, "text": 0.25}


def graded(figures: dict[str, float], goals: dict[str, float]) -> dict[str, Any]:
    """Return figures with their goals, and whether each is reached."""
    return {
        **{name: round(float(value), 4) for name, value in figures.items()},
        "goals": goals,
        "reached": {name: bool(figures[name] >= goal) for name, goal in goals.items()},
    }


def image_features(images: list[Any], path: Path | None) -> Any:
    """Return EfficientNet-Lite0 features, signed root, unit length; cached if a path is given."""
    if path is None or not path.exists():
        encoder = EfficientNetLite0()
        found = encoder.fit(images[:1]).transform(images)
        if path is not None:
            np.save(path, found)
    else:
        found = np.load(path)
    return normalize(np.sign(found) * np.sqrt(np.abs(found))).astype(np.float32)


def photographs(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Code photographs of which all, few or none have labels; every tenth is held out."""
    views, labels, query, stored = photograph_views(arguments)
    items = {name: matrix[stored] for name, matrix in views.items()}
    asked = {name: matrix[query] for name, matrix in views.items()}
    thirds = dict.fromkeys(("labels", "image", "text"), 1 / 3)
    chosen = choose_weights(items, labels[stored])
    for share, targets in (
        (1.0, None),
        (1.0, MIXED),
        (1.0, thirds),
        (1.0, chosen),
        (0.05, None),
        (0.05, MIXED),
        (0.05, thirds),
        (0.0, None),
    ):
        has = np.random.default_rng(1).random(len(stored)) < share
        given = labels[stored].astype(np.uint8) * has[:, None] if share else None
        for equal_lengths in (True, False) if targets or not share else (None,):
            model = photograph_model(targets, equal_lengths).fit(items, given)
            found = look(model, items, given, asked)
            figures = found | similar(found.pop("hits"), labels[query], labels[stored], has)
            goals = {"image_distinct": 1000, "image_itself": 0.95, "text_itself": 0.8}
            if 0 < share < 1:
                goals |= {f"{view}_unlabelled": 0.7 * float((~has).mean()) for view in asked}
            yield {
                "labels_on": share,
                "targets": targets or ("labels" if share else "content"),
                "normalize": equal_lengths,
                "bytes_per_item": 8,
                **graded(figures, goals if targets or not share else {}),
            }


def photograph_views(arguments: argparse.Namespace) -> tuple[dict[str, Any], Any, Any, Any]:
    """Return features of all photographs, their labels, and the rows of queries and items."""
    from PIL import Image

    with (arguments.photos / "manifest.csv").open() as file:
        rows = list(csv.DictReader(file))
    images = [Image.open(arguments.photos / row["image"]).convert("RGB") for row in rows]
    path = None if arguments.cache is None else arguments.cache / "photos_image.npy"
    chosen = np.random.default_rng(0).permutation(len(rows))[:3000]
    query, stored = np.sort(chosen[:300]), np.sort(chosen[300:])
    texts = [row["text"] for row in rows]
    encoder = word_vectorizer(min_df=3).fit([texts[row] for row in stored])
    views = {"image": image_features(images, path), "text": encoder.transform(texts)}
    names = sorted({name for row in rows for name in row["labels"].split("|")})
    labels = np.array([[name in row["labels"].split("|") for name in names] for row in rows])
    return views, labels, query, stored


def photograph_model(targets: Any, equal_lengths: bool | None = None) -> acqh.ACQH:
    return acqh.ACQH(
        128,
        n_codebooks=8,
        similarity="jaccard",
        targets=targets,
        equal_lengths=equal_lengths,
        random_state=0,
    )


def choose_weights(items: dict[str, Any], labels: Any) -> dict[str, float]:
    """Return the weights of the best Jaccard index under which items find themselves.

    On the items alone: all are learnt from and stored, of which 95 % must find themselves by image
    and 80 % by caption; the index is that of every tenth as queries, not learnt from.
    """
    order = np.random.default_rng(2).permutation(len(labels))
    asked, kept = np.sort(order[: len(order) // 10]), np.sort(order[len(order) // 10 :])
    mine = {name: matrix[kept] for name, matrix in items.items()}
    theirs = {name: matrix[asked] for name, matrix in items.items()}
    best: tuple[float, dict[str, float]] = (-1.0, {})
    for label, image in itertools.product((0.5, 0.4, 0.3, 0.2), (0.2, 0.3, 0.4, 0.5)):
        targets = {"labels": label, "image": image, "text": round(1 - label - image, 1)}
        if targets["text"] < 0.1:
            continue
        own = look(photograph_model(targets).fit(items, labels), items, labels, {})
        if own["image_itself"] < 0.95 or own["text_itself"] < 0.8:
            continue
        found = look(photograph_model(targets).fit(mine, labels[kept]), mine, labels[kept], theirs)
        index = similar(found["hits"], labels[asked], labels[kept], labels[kept].any(axis=1))
        value = index["image_jaccard"] + index["text_jaccard"]
        if value > best[0]:
            best = value, targets
    return best[1]


def similar(hits: dict[str, Any], asked: Any, stored: Any, has: Any) -> dict[str, float]:
    """Return the Jaccard index of labels of hits, and the share of hits without labels."""
    figures = {}
    for view, found in hits.items():
        common = (asked[:, None] & stored[found]).sum(axis=2)
        either = (asked[:, None] | stored[found]).sum(axis=2)
        figures[f"{view}_jaccard"] = float((common / np.maximum(either, 1)).mean())
        figures[f"{view}_unlabelled"] = float((~has)[found].mean())
    return figures


def look(model: acqh.ACQH, items: Any, labels: Any, queries: Any) -> dict[str, Any]:
    stored = model.decode(model.encode(items, labels=labels))
    found: dict[str, Any] = {"hits": {}}
    for view, asked in queries.items():
        scores = model.project(asked, view=view) @ stored.T
        hits = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        found["hits"][view] = hits
        found[f"{view}_distinct"] = len(np.unique(hits))
    for view in items:
        scores = model.project(items[view], view=view) @ stored.T
        better = (scores > np.diag(scores)[:, None]).sum(axis=1)
        found[f"{view}_itself"] = float((better < 10).mean())
    return found

"""Photographs with labels for all, few or none: the row of ``content.py``."""

import argparse
import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

import acqh
from acqh.encoders import EfficientNetLite0, tfidf_vectorizer

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
        encoder = EfficientNetLite0(classes=False)
        features = encoder.fit(images[:1]).transform(images)
        if path is not None:
            np.save(path, features)
    else:
        features = np.load(path)
    return normalize(np.sign(features) * np.sqrt(np.abs(features))).astype(np.float32)


def photographs(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Encode photographs with labels for all, few or none; every tenth is held out."""
    views, labels, query, stored = photograph_views(arguments)
    items = {name: matrix[stored] for name, matrix in views.items()}
    query_views = {name: matrix[query] for name, matrix in views.items()}
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
        stored_labels = labels[stored].astype(np.uint8) * has[:, None] if share else None
        for normalize_items in (True, False) if targets or not share else (None,):
            model = photograph_model(targets, normalize_items).fit(items, stored_labels)
            result = look(model, items, stored_labels, query_views)
            figures = result | similar(result.pop("hits"), labels[query], labels[stored], has)
            goals = {"image_distinct": 1000, "image_itself": 0.95, "text_itself": 0.8}
            if 0 < share < 1:
                goals |= {f"{view}_unlabelled": 0.7 * float((~has).mean()) for view in query_views}
            yield {
                "labels_on": share,
                "targets": targets or ("labels" if share else "content"),
                "normalize": normalize_items,
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
    encoder = tfidf_vectorizer(min_df=3).fit([texts[row] for row in stored])
    views = {"image": image_features(images, path), "text": encoder.transform(texts)}
    names = sorted({name for row in rows for name in row["labels"].split("|")})
    labels = np.array([[name in row["labels"].split("|") for name in names] for row in rows])
    return views, labels, query, stored


def photograph_model(targets: Any, normalize_items: bool | None = None) -> acqh.ACQH:
    return acqh.ACQH(
        128,
        n_codebooks=8,
        similarity="jaccard",
        targets=targets,
        normalize_items=normalize_items,
        random_state=0,
    )


def choose_weights(items: dict[str, Any], labels: Any) -> dict[str, float]:
    """Return the weights of the best Jaccard index under which items find themselves.

    On the items alone: all are training and stored items, and 95 % must be their own first hit by
    image and 80 % by caption; the index is that of every tenth as queries, not learnt from.
    """
    order = np.random.default_rng(2).permutation(len(labels))
    query_rows, train_rows = np.sort(order[: len(order) // 10]), np.sort(order[len(order) // 10 :])
    mine = {name: matrix[train_rows] for name, matrix in items.items()}
    theirs = {name: matrix[query_rows] for name, matrix in items.items()}
    best: tuple[float, dict[str, float]] = (-1.0, {})
    for label, image in itertools.product((0.5, 0.4, 0.3, 0.2), (0.2, 0.3, 0.4, 0.5)):
        targets = {"labels": label, "image": image, "text": round(1 - label - image, 1)}
        if targets["text"] < 0.1:
            continue
        own_result = look(photograph_model(targets).fit(items, labels), items, labels, {})
        if own_result["image_itself"] < 0.95 or own_result["text_itself"] < 0.8:
            continue
        result = look(
            photograph_model(targets).fit(mine, labels[train_rows]),
            mine,
            labels[train_rows],
            theirs,
        )
        index = similar(
            result["hits"], labels[query_rows], labels[train_rows], labels[train_rows].any(axis=1)
        )
        value = index["image_jaccard"] + index["text_jaccard"]
        if value > best[0]:
            best = value, targets
    return best[1]


def similar(hits: dict[str, Any], query_labels: Any, stored: Any, has: Any) -> dict[str, float]:
    """Return the Jaccard index of labels of hits, and the share of hits without labels."""
    figures = {}
    for view, view_hits in hits.items():
        common = (query_labels[:, None] & stored[view_hits]).sum(axis=2)
        either = (query_labels[:, None] | stored[view_hits]).sum(axis=2)
        figures[f"{view}_jaccard"] = float((common / np.maximum(either, 1)).mean())
        figures[f"{view}_unlabelled"] = float((~has)[view_hits].mean())
    return figures


def look(model: acqh.ACQH, items: Any, labels: Any, queries: Any) -> dict[str, Any]:
    stored = model.decode(model.encode(items, labels=labels))
    result: dict[str, Any] = {"hits": {}}
    for view, query_rows in queries.items():
        scores = model.project(query_rows, view=view) @ stored.T
        hits = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        result["hits"][view] = hits
        result[f"{view}_distinct"] = len(np.unique(hits))
    for view in items:
        scores = model.project(items[view], view=view) @ stored.T
        better = (scores > np.diag(scores)[:, None]).sum(axis=1)
        result[f"{view}_itself"] = float((better < 10).mean())
    return result

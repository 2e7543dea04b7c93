"""What fine-tuning the image encoder gains over frozen features, on items never seen.

``python -m benchmarks.quality.deep FOLDER --device cuda``: a folder with ``manifest.csv`` (columns
image, text and labels, these separated by ``|``) and images. EfficientNet-Lite0 (root, unit length)
and TF-IDF of the texts; queries, database and training items are disjoint, and the database is
encoded without labels from the searched view, or from both. The learning rate, and whether to
fine-tune at all, is chosen on a fifth of the training items. One JSON line per split.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.feature_extraction.text import TfidfVectorizer

import acqh
from acqh.metrics import mean_average_precision, relevance
from benchmarks._measure import emit
from examples.fine_tune import FineTuner, efficientnet_lite0

RATES = (3e-5, 1e-4, 3e-4)


class Root(torch.nn.Module):
    """Roots of features, scaled to unit length."""

    def forward(self, features):
        """Return what features become."""
        return torch.nn.functional.normalize((features + 1e-6).sqrt(), dim=1)


class Prepare:
    """Pixels as the network takes them; flipped, moved and zoomed while training."""

    def __init__(self, size):
        self.size = size

    def __call__(self, batch, generator):
        """Return a batch of pixels; without a generator as it is."""
        pixels = (batch.permute(0, 3, 1, 2).float() - 127) / 128
        if generator is None:
            return torch.nn.functional.interpolate(pixels, (self.size, self.size), mode="bicubic")
        n = len(pixels)
        draws = torch.rand(4, n, device=pixels.device, generator=generator)
        scale = 0.7 + 0.3 * draws[0]
        turns = torch.zeros(n, 2, 3, device=pixels.device)
        turns[:, 0, 0] = torch.where(draws[1] < 0.5, -scale, scale)
        turns[:, 1, 1] = scale
        turns[:, 0, 2], turns[:, 1, 2] = ((1 - scale) * (2 * draw - 1) for draw in draws[2:])
        grid = torch.nn.functional.affine_grid(
            turns, (n, 3, self.size, self.size), align_corners=False
        )
        return torch.nn.functional.grid_sample(
            pixels, grid, align_corners=False, padding_mode="reflection"
        )


def read(folder, side):
    """Return pixels, texts, labels and their names."""
    with (folder / "manifest.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    pixels = np.empty((len(rows), side, side, 3), dtype=np.uint8)
    for number, row in enumerate(rows):
        image = Image.open(folder / row["image"]).convert("RGB")
        pixels[number] = image.resize((side, side), Image.Resampling.BICUBIC)
    sets = [set(row["labels"].split("|")) - {""} for row in rows]
    names = sorted(set.union(*sets))
    labels = np.array(
        [[name in item_labels for name in names] for item_labels in sets], dtype=np.uint8
    )
    return pixels, [row["text"] for row in rows], labels, names


def split(n_items, n_train, n_queries, last, seed):
    """Return rows of training, queries and database; the last rows are for tests alone, if any."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n_items) if not last else np.arange(n_items)
    held = order[-last:] if last else order[n_train:]
    held = rng.permutation(held)
    return order[:n_train], held[:n_queries], held[n_queries:]


def evaluate(tuner, model, text, pixels, labels, queries, database):
    """Return mean average precisions, by direction and by the views that items are encoded from."""
    image = {name: tuner.features(pixels[rows]) for name, rows in (("q", queries), ("d", database))}
    relevant = relevance(labels[queries], labels[database])
    has_relevant = relevant.any(axis=1)
    scores_of = {}
    vectors = {
        "image": model.project(image["q"], view="image"),
        "text": model.project(text[queries], view="text"),
    }
    views = {"image": image["d"], "text": text[database]}
    for query, item in (("image", "text"), ("text", "image")):
        for way, query_views in (("one", {item: views[item]}), ("both", views)):
            scores = vectors[query] @ model.decode(model.encode(query_views)).T
            value = mean_average_precision(scores[has_relevant], relevant[has_relevant])
            scores_of[f"{query}->{item}, {way}"] = round(float(value), 4)
    return scores_of


def run(arguments, rate, n_rounds, pixels, texts, labels, train, seed):
    """Return a tuner and a fitted model (of frozen features for no rounds), texts and seconds."""
    words = TfidfVectorizer(max_features=1000, sublinear_tf=True).fit([texts[i] for i in train])
    text = words.transform(texts).toarray().astype(np.float32)
    encoder = torch.nn.Sequential(efficientnet_lite0(), Root())
    model = acqh.ACQH(32, n_codebooks=4, random_state=seed)
    tuner = FineTuner(
        encoder,
        model,
        "image",
        n_rounds=max(n_rounds, 1),
        n_epochs=arguments.epochs,
        learning_rate=rate or 1e-4,
        precision=arguments.precision,
        prepare=Prepare(arguments.size),
        device=arguments.device,
        random_state=seed,
    )
    start = time.perf_counter()
    if n_rounds:
        tuner.fit(pixels[train], {"text": text[train]}, labels[train])
        fitted = tuner.model_
    else:
        features = tuner.features(pixels[train])
        fitted = model.fit({"image": features, "text": text[train]}, labels[train])
    return tuner, fitted, text, time.perf_counter() - start


def choose(arguments, pixels, texts, labels, train):
    """Return the rate that is best on a fifth of the training items, 0 for none; and all tried."""
    part, queries, database = split(len(train), int(0.8 * len(train)), len(train) // 20, 0, 99)
    scores = {}
    for rate in (0.0, *RATES):
        rounds = arguments.rounds if rate else 0
        score = run(arguments, rate, rounds, pixels, texts, labels, train[part], 0)
        figures = evaluate(*score[:3], pixels, labels, train[queries], train[database])
        scores[rate] = float(np.mean([figures[key] for key in figures if key.endswith("one")]))
    return max(scores, key=scores.get), {
        str(rate): round(value, 4) for rate, value in scores.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--side", type=int, default=128, help="pixels that images are kept with")
    parser.add_argument("--train", type=int, default=2500)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--last", type=int, default=0, help="rows at the end that are the test set")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--splits", type=int, default=3, metavar="N")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--without", default="", help="a label that does not count as relevant")
    arguments = parser.parse_args()
    pixels, texts, labels, names = read(arguments.folder, arguments.side)
    counted = labels[:, [name != arguments.without for name in names]]
    first, _, _ = split(len(texts), arguments.train, arguments.queries, arguments.last, 0)
    rate, tried = choose(arguments, pixels, texts, labels, first)
    for seed in range(arguments.splits):
        train, queries, database = split(
            len(texts), arguments.train, arguments.queries, arguments.last, seed
        )
        line = {
            "benchmark": "deep",
            "data": arguments.folder.name,
            "seed": seed,
            "n_train": len(train),
            "chosen_rate": rate,
            "held_out": tried,
        }
        for name, rounds in (("frozen", 0), ("tuned", arguments.rounds)):
            score = run(arguments, rate or 1e-4, rounds, pixels, texts, labels, train, seed)
            line[name] = evaluate(*score[:3], pixels, labels, queries, database)
            if arguments.without:
                line[f"{name} without {arguments.without}"] = evaluate(
                    *score[:3], pixels, counted, queries, database
                )
            line[f"{name}_seconds"] = round(score[3], 2)
            if rounds:
                line["losses"] = np.round(score[0].losses_, 4).tolist()
        emit(line)


if __name__ == "__main__":
    main()

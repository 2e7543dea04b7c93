"""Draw what targets find: emoji by words, with labels alone and with labels and text.

Writes two files into a folder: ``targets-found.png``, the first hits of a few words, and
``targets-weights.svg``, how words and images are found by the weight of labels. The words of the
curve are those of ``quality/content.py``; one JSON line per weight.
"""

import argparse
import io
from pathlib import Path
from typing import Any

import numpy as np

import acqh
from benchmarks._measure import emit
from benchmarks.quality.content import Emoji

QUERIES = ("horse", "germany", "thumbs up", "birthday")
WEIGHTS = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
N_HITS = 8
SIZE = 36


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--cache", type=Path, default=None, help="folder for image features")
    arguments = parser.parse_args()
    data = Emoji(arguments.cache)
    model = acqh.ACQH(
        256,
        n_codebooks=8,
        similarity="jaccard",
        targets={"labels": 0.5, "text": 0.5},
        random_state=0,
    )
    model = data.fit(model, np.arange(len(data.data)))
    answers, curves = {}, []
    for weight in WEIGHTS:
        # The same sums give all of them.
        targets = {"labels": weight, "text": round(1 - weight, 3)}
        model.set_params(targets=targets, normalize_items=True).fit_stats(model.stats_)
        record = {"labels": weight, **{k: round(v, 3) for k, v in data.measure(model).items()}}
        emit({"benchmark": "content_figures", **record})
        curves.append(record)
        if weight in (0.5, 1.0):
            answers[weight] = first_hits(model, data)
    draw_found(data, answers, arguments.out / "targets-found.png")
    draw_weights(curves, arguments.out / "targets-weights.svg")


def first_hits(model: acqh.ACQH, data: Emoji) -> Any:
    """Return the first items of every query, (n_queries, N_HITS)."""
    items = model.decode(model.encode(data.views, labels=data.labels))
    scores = model.project(data.encoder.transform(QUERIES), view="text") @ items.T
    return np.argsort(-scores, axis=1, kind="stable")[:, :N_HITS]


def draw_found(data: Emoji, answers: dict[float, Any], path: Path) -> None:
    """Draw two rows of hits for every query."""
    from PIL import Image, ImageDraw, ImageFont

    words, names, gap = 80, 100, 8
    height = len(QUERIES) * (2 * SIZE + gap)
    sheet = Image.new("RGB", (words + names + N_HITS * SIZE, height), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(13)
    for number, query in enumerate(QUERIES):
        top = number * (2 * SIZE + gap)
        draw.text((2, top + SIZE - 8), query, "black", font)
        for row, (weight, name) in enumerate(((1.0, "labels"), (0.5, "labels, text"))):
            draw.text((words, top + row * SIZE + 10), name, "gray", font)
            for place, item in enumerate(answers[weight][number]):
                image = Image.open(io.BytesIO(data.data.items["image"][item])).convert("RGBA")
                image = image.resize((SIZE - 4, SIZE - 4))
                corner = words + names + place * SIZE + 2, top + row * SIZE + 2
                sheet.paste(image, corner, image)
    sheet.quantize(128).save(path, optimize=True)


def draw_weights(curves: list[dict[str, float]], path: Path) -> None:
    """Draw words and images by the weight of labels."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Letters as letters, and no date: small files that stay the same.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "targets"})
    figure = Figure(figsize=(5.5, 3.2), layout="constrained")
    axes = figure.subplots()
    for key, label in (
        ("keyword_ap", "words: average precision"),
        ("name_mrr", "own name: reciprocal rank"),
        ("image_map", "images learnt from: MAP by group"),
    ):
        axes.plot(
            [point["labels"] for point in curves],
            [point[key] for point in curves],
            "o-",
            label=label,
        )
    axes.set(xlabel="weight of labels (the rest is text)", ylim=(0, 1))
    axes.legend(loc="lower left", fontsize=8)
    axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()

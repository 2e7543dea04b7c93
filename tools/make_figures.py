"""Draw the pictures of the documentation into docs/images/.

Run ``python tools/make_figures.py`` with the extras ``images`` and ``plot`` installed; a name,
``emoji`` or ``convergence``, draws that one alone. Every seed is fixed.
"""

import argparse
import textwrap
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.pipeline import make_pipeline

import acqh
from acqh.features import TagSVD
from acqh.methods import ACQHPaper

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images"
N_FOUND = 8
# Easy to recognise, from the queries that are held out; the last one finds the wrong mice.
QUERIES = {
    "text": ("green heart", "horse", "hospital", "waxing gibbous moon", "thong sandal"),
    "image": ("leafy green", "oncoming automobile", "last track button", "computer mouse"),
}

# Layout of emoji.png, in pixels; the pictures of the set are 64 pixels wide.
MARGIN, LEFT, CELL, GAP = 28, 300, 118, 6
HEADING, ROW, NAMED_ROW, LEGEND = 56, 84, 122, 84
INK, FAINT, PAPER, EDGE = "#1f2328", "#59636e", "#ffffff", "#d1d9e0"
SAME_SUBGROUP, SAME_GROUP, OTHER_GROUP = "#d3f0d8", "#fff1c2", "#f6dada"


class Answers(NamedTuple):
    """Hits of the held-out queries of one view, as rows of the emoji set."""

    queries: list[int]
    hits: list[list[int]]


def draw_emoji(target: Path) -> None:
    data = acqh.load_dataset("emoji")
    answers = search_emoji(data)
    width = 2 * MARGIN + LEFT + N_FOUND * CELL
    heights = {"text": ROW, "image": NAMED_ROW}
    height = LEGEND + sum(HEADING + len(QUERIES[view]) * heights[view] for view in QUERIES)
    canvas = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(canvas)
    names = {name: row for row, name in enumerate(data.items["name"])}
    y = 0
    for view, heading in (("text", "Words find pictures"), ("image", "Pictures find words")):
        draw.text((MARGIN, y + 18), heading, INK, font(24, bold=True))
        y += HEADING
        hits_of = dict(zip(*answers[view], strict=True))
        for name in QUERIES[view]:
            draw_answer(canvas, y, view, names[name], hits_of[names[name]], data)
            y += heights[view]
    draw_legend(draw, y + 14, answers, kinds(data))
    draw.rounded_rectangle((0, 0, width - 1, height - 1), 12, outline=EDGE)
    # All the colours that emoji use fit into one palette, at a third of the size.
    canvas.quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)


def search_emoji(data: Any) -> dict[str, Answers]:
    """Ask with every emoji that is held out, by its picture and by its words.

    The model learns groups and subgroups; items are encoded from picture and words, as
    items without labels are.
    """
    train, query = data.split(test_size=0.2, groups="family", random_state=0)
    maps = {"text": make_pipeline(TfidfTransformer(), TagSVD(400, random_state=0))}
    model = acqh.ACQH(
        32, n_codebooks=4, similarity="jaccard", feature_maps=maps, random_state=0
    ).fit(train.views, [set(kind) for kind in kinds(train)])
    row_of = {id_: row for row, id_ in enumerate(data.ids)}
    rows = [row_of[id_] for id_ in train.ids]
    index = acqh.CodeIndex(model.codebooks_).add(model.encode(dict(train.views)), ids=rows)
    queries = [row_of[id_] for id_ in query.ids]
    return {
        view: Answers(
            queries, index.search(model.project(matrix, view=view), k=N_FOUND).ids.tolist()
        )
        for view, matrix in query.views.items()
    }


def kinds(data: Any) -> list[tuple[str, str]]:
    """Return the group and the subgroup of each emoji."""
    groups = (data.label_names[column] for column in data.labels.argmax(axis=1))
    return list(zip(groups, data.items["subgroup"], strict=True))


def draw_answer(canvas: Any, y: int, view: str, query: int, hits: list[int], data: Any) -> None:
    draw = ImageDraw.Draw(canvas)
    named = view == "image"
    if named:
        paste(canvas, data.items["image"][query], MARGIN + LEFT - 140, y + 24)
    else:
        draw_words(draw, y, data.items["text"][query])
    draw.text((MARGIN + LEFT - 40, y + (44 if named else 28)), "→", FAINT, font(24))
    kind = kinds(data)
    for number, row in enumerate(hits):
        x = MARGIN + LEFT + number * CELL
        box = (x, y, x + CELL - GAP, y + (NAMED_ROW if named else ROW) - GAP)
        draw.rounded_rectangle(box, 8, fill=colour(kind[query], kind[row]))
        paste(canvas, data.items["image"][row], x + (CELL - GAP - 64) // 2, y + 7)
        if named:
            lines = textwrap.wrap(data.items["name"][row], 15, max_lines=2, placeholder=" …")
            middle = (x + (CELL - GAP) // 2, y + 76)
            draw.multiline_text(
                middle, "\n".join(lines), INK, font(12), anchor="ma", align="center", spacing=3
            )


def draw_words(draw: Any, y: int, text: str) -> None:
    name, _, tags = text.partition(", ")
    lines = textwrap.wrap(tags, 36, max_lines=2, placeholder=" …")
    top = y + (ROW - GAP - 26 - 18 * len(lines)) // 2
    draw.text((MARGIN, top), textwrap.shorten(name, 26, placeholder=" …"), INK, font(18, bold=True))
    draw.multiline_text((MARGIN, top + 26), "\n".join(lines), FAINT, font(13), spacing=4)


def draw_legend(
    draw: Any, y: int, answers: dict[str, Answers], kind: list[tuple[str, str]]
) -> None:
    words, pictures = (
        [
            colour(kind[query], kind[row])
            for query, hits in zip(*answers[view], strict=True)
            for row in hits
        ]
        for view in ("text", "image")
    )
    x = MARGIN
    for fill, meaning in (
        (SAME_SUBGROUP, "same subgroup"),
        (SAME_GROUP, "same group"),
        (OTHER_GROUP, "neither"),
    ):
        shares = (colours.count(fill) / len(colours) for colours in (words, pictures))
        line = "{} (words {:.0%}, pictures {:.0%})".format(meaning, *shares)
        draw.rounded_rectangle((x, y, x + 18, y + 18), 4, fill=fill)
        draw.text((x + 26, y + 1), line, FAINT, font(14))
        x += 26 + int(draw.textlength(line, font(14))) + 32
    note = (
        f"Every item is 4 bytes. Queries are held out; these were chosen by hand, the shares are "
        f"those of the first {N_FOUND} answers to all {len(answers['text'].queries)} of them."
    )
    draw.text((MARGIN, y + 30), note, FAINT, font(14))


def colour(query_kind: tuple[str, str], hit_kind: tuple[str, str]) -> str:
    if query_kind == hit_kind:
        return SAME_SUBGROUP
    return SAME_GROUP if query_kind[0] == hit_kind[0] else OTHER_GROUP


def paste(canvas: Any, picture: bytes, x: int, y: int) -> None:
    image = Image.open(BytesIO(picture)).convert("RGBA")
    canvas.paste(image, (x, y), image)


def font(size: int, *, bold: bool = False) -> Any:
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(mpl.get_data_path()) / "fonts" / "ttf" / name, size)


def draw_convergence(target: Path) -> None:
    data = acqh.make_multiview_like("mirflickr25k", n_items=4000, random_state=0)
    style = {
        "svg.hashsalt": "acqh",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(style):
        figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        for seed in range(5):
            label = "Algorithm 1, five random starts" if seed == 0 else None
            axes.semilogy(excess(data, seed), color="#d1600a", lw=1, label=label)
        axes.set_xlabel("sweep")
        axes.set_ylabel("objective above its lower bound,\nas a share of the bound")
        axes.grid(alpha=0.3, lw=0.5)
        axes.legend(frameon=False)
        figure.savefig(target, facecolor="white", metadata={"Date": None})
    plt.close(figure)


def excess(data: Any, seed: int) -> Any:
    """Return how far the objective is above its lower bound after each sweep."""
    with warnings.catch_warnings():
        # Not having converged is what the figure shows.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ACQHPaper(n_components=32, random_state=seed).fit(data)
    return np.array(model.objective_) / model.lower_bound_ - 1


FIGURES = {
    "emoji": (draw_emoji, "emoji.png"),
    "convergence": (draw_convergence, "convergence.svg"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="*", help=", ".join(FIGURES))
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in parser.parse_args().figures or FIGURES:
        draw, file = FIGURES[name]
        draw(TARGET / file)
        print(f"{TARGET / file}: {(TARGET / file).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

"""Whether a site finds what the service finds, on photographs, in a real browser.

A collection of photographs of COCO with their captions is exported, and 50 texts are typed there:
words and parts of captions, typos, phrases, excluded words, and what no caption has. Each is
asked in three ways (words and content, words, content) in Chromium and of the collection with the
table of words. Prints one JSON line: of how many answers the first ten are the same items in the
same order, how far scores and matches differ at most, and what the page shows for texts typed into
its box. ``ACQH_COCO`` says where photographs lie.
"""

import argparse
import csv
import re
import tempfile
from pathlib import Path
from typing import Any

from acqh.collection import Collection, Item
from acqh.errors import InvalidInputError
from acqh.export import site
from benchmarks._measure import COCO, emit
from tools.make_site import browsing

MODES = ["hybrid", "keyword", "semantic"]
TEXTS = [
    *("dog", "dogs", "-dog", "dog -frisbee", "two dogs", "kitten", "cat on a laptop", "horse"),
    *("red car", "bus", "train at night", "airplane", "boats in the harbor", "bicycle", "bicylce"),
    *("pizza", "a plate of food", '"stop sign"', "traffic light", "umbrella", "umbrela", "rain"),
    *("snow", "ski", "skiing down a hill", "surfer", "beach", "ocean waves", "kite", "giraffe"),
    *("elephants", "zebra -grass", "sheep in a field", "cow", "bear", "bird", "birds in the sky"),
    *("kitchen", "bathroom", "old clock", "teddy bear", "baby", "wedding", "tennis", "skatebord"),
    *("zqxjkv", "happiness", "automobile", "a man and a woman", "the of a"),
]
ASK = """async ([texts, modes]) => {
  const api = await import(document.querySelector("script").src.replace("app.js", "api.js"));
  const found = [];
  for (const mode of modes) for (const text of texts) {
    const { hits } = await api.search({ text, mode, k: 10 }, []).catch(() => ({ hits: [] }));
    found.push(hits.map(({ fields, score, match }) => [fields.number, score, match]));
  }
  return found;
}"""
SHOWN = """
  [...document.querySelectorAll("#hits a")].slice(0, 10).map(({ title }) => title.split("\\n")[0])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000)
    n_items = parser.parse_args().items
    with (COCO / "manifest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))[-n_items:]
    items = [
        Item(COCO / row["image"], row["text"], row["labels"].split("|"), fields={"number": n})
        for n, row in enumerate(rows)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path, public = Path(folder, "photographs.acqh"), Path(folder, "public")
        Collection.build(items, path).close()
        with Collection.open(path, query_encoder="fast") as collection:
            site(collection, public, fields=["number"])
            expected = [_first_hits(collection, text, mode) for mode in MODES for text in TEXTS]
        with browsing(public) as page:
            answers = page.evaluate(ASK, [TEXTS, MODES])
            shown = [_typed(page, text) for text in TEXTS]
    pairs = list(zip(expected, answers, strict=True))
    apart = [
        [abs(ours[place] - theirs[place]) for place in (1, 2)]
        for one, other in pairs
        for ours, theirs in zip(one, other, strict=False)
    ]
    same = [[row[0] for row in one] == [row[0] for row in other] for one, other in pairs]
    titled = [[rows[row[0]]["text"] for row in one] for one in expected[: len(TEXTS)]]
    emit(
        {
            "benchmark": "site",
            "items": n_items,
            "texts": len(TEXTS),
            **{mode: sum(same[n * len(TEXTS) :][: len(TEXTS)]) for n, mode in enumerate(MODES)},
            "typed": sum(one == other for one, other in zip(titled, shown, strict=True)),
            "score_apart": max(score for score, _ in apart),
            "match_apart": max(match for _, match in apart),
        }
    )


def _first_hits(collection: Collection, text: str, mode: str) -> list[tuple[int, float, float]]:
    try:
        hits = collection.search(text=text, mode=mode, k=10).hits
    except InvalidInputError:
        return []
    return [(hit.fields["number"], hit.score, hit.match) for hit in hits]


def _typed(page: Any, text: str) -> list[str]:
    """Return the captions that the page shows first once a text is typed."""
    summary = page.locator("#summary")
    page.fill("#text", "")
    summary.filter(has_text="start with").wait_for()
    page.fill("#text", text)
    summary.filter(has_text=re.compile(rf"(: {re.escape(text)}|No results)$")).wait_for()
    captions: list[str] = page.evaluate(SHOWN)
    return captions


if __name__ == "__main__":
    main()

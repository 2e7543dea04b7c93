"""Whether a site finds what the server finds on a folder as a phone has it.

Photographs of COCO get names, dates and folders as phones give them; screenshots, scans and
drawings are drawn. The folder has no captions. 52 texts are asked of the collection with the fast
text encoder and of its site, run by Node.js: things, kinds of images, dates, names of files and
folders, typos, exclusions and phrases. Prints one JSON line per site, with ``--words`` the words
of all fields, and without: of how many texts the first ten are the same items in the same order,
by group and mode, and which differ. Items of equal scores may change places.
"""

import argparse
import csv
import json
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from acqh.collection import Collection
from acqh.errors import InvalidInputError
from acqh.export import site
from benchmarks._measure import COCO, emit
from benchmarks.quality.drawings import KINDS

MODES = ["hybrid", "keyword", "semantic"]
FOLDERS = ["DCIM/Camera", "DCIM/Camera", "Lake Como 2021", "Anna birthday", "WhatsApp Images"]
GROUPS = {
    "things": [
        *("dog", "cat", "train", "pizza", "beach", "red car", "snow", "kitchen", "boat", "horse"),
        *("a man on a surfboard", "clock", "tennis", "birds", "zebra", "computer keyboard"),
    ],
    "kinds": ["screenshot", "screenshots", "document", "receipt", "drawing", "photo of a bus"],
    "dates": [
        *("march 2022", "summer 2021", "dog in 2020", "christmas 2020", "last year", "2021"),
        *("photos from 2019", "train since 2022", "letzten sommer", "photos of march 2021"),
    ],
    "files": ["IMG_2021", "IMG_20190103", "IMG-2024", "Screenshot_2023", "DSC01303.JPG"],
    "folders": ["lake como", "anna birthday", "WhatsApp", "como boat"],
    "typos": ["moutain", "bicylce", "umbrela", "skatebord", "elefant"],
    "exclusions": ["dog -cat", "train not at night", "-beach", "beach without people"],
    "phrases": ['"lake como"', '"purple dinosaur"'],
}
# Answers queries from the files of a site, without a browser.
ENGINE = """
import { readFileSync } from "node:fs";
globalThis.fetch = async (url) => new Response(readFileSync(url));
const { facts, texts, modes, home } = JSON.parse(readFileSync(0, "utf-8"));
const engine = new (await import(`${home}/search.js`)).Engine(facts);
const found = [];
for (const mode of modes) for (const text of texts) {
  const { hits } = await engine.search({ text, mode, k: 10 }).catch((error) => {
    if (error.status) return { hits: [] };
    throw error;
  });
  found.push(hits.map(({ id, score }) => [id, score]));
}
console.log(JSON.stringify(found));
"""


def make_folder(folder: Path, n_photos: int) -> None:
    """Write photographs and drawings as files of a phone."""
    with (COCO / "manifest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))[:n_photos]
    start = datetime(2019, 1, 3, 9)
    for number, row in enumerate(rows):
        moment = start + number * timedelta(days=2200 / n_photos, hours=5, minutes=7)
        name = FOLDERS[number % len(FOLDERS)]
        exif = Image.Exif()
        if name.startswith("WhatsApp"):
            name += f"/IMG-{moment:%Y%m%d}-WA{number:04}.jpg"
        else:
            exif.get_ifd(0x8769)[0x9003] = f"{moment:%Y:%m:%d %H:%M:%S}"
            is_camera = name.startswith("DCIM")
            name += (
                f"/IMG_{moment:%Y%m%d_%H%M%S}.jpg" if is_camera else f"/DSC{1000 + number:05}.JPG"
            )
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with Image.open(COCO / row["image"]) as image:
            image.save(folder / name, "JPEG", exif=exif)
    (folder / "copy.jpg").write_bytes(next((folder / "Lake Como 2021").iterdir()).read_bytes())
    (folder / "Screenshots").mkdir()
    for number, (name, draw) in enumerate(sorted(KINDS.items())):
        for seed in range(3):
            image = draw(seed)
            if number % 2:
                day = start + timedelta(days=100 * (3 * number + seed))
                image.save(folder / "Screenshots" / f"Screenshot_{day:%Y-%m-%d-%H-%M-%S}.png")
            else:
                image.save(folder / f"{name} {seed}.png")


def ask_site(public: Path, texts: Sequence[str]) -> list[list[tuple[str, float]]]:
    """Return ids and scores of the first ten, by mode and text."""
    (facts,) = public.glob("data/site-*.json")
    (scripts,) = public.glob("static-*")
    (public / "package.json").write_text('{"type": "module"}')
    data = {"facts": json.loads(facts.read_text()), "texts": [*texts], "modes": MODES}
    done = subprocess.run(
        ["node", "--input-type=module", "-e", ENGINE],
        input=json.dumps(data | {"home": scripts.as_uri()}),
        stdout=subprocess.PIPE, encoding="utf-8", check=True,
    )  # fmt: skip
    return [[tuple(row) for row in answer] for answer in json.loads(done.stdout)]


def ask_collection(collection: Collection, text: str, mode: Any) -> list[tuple[str, float]]:
    try:
        hits = collection.search(text=text, mode=mode, k=10).hits
    except InvalidInputError:
        return []
    return [(hit.id, hit.score) for hit in hits]


def are_same(ours: list[tuple[str, float]], theirs: list[tuple[str, float]]) -> bool:
    """Whether answers are equal; items of equal scores may change places, also with the next."""
    if len(ours) != len(theirs):
        return False
    scores, others = (np.array([score for _, score in answer]) for answer in (ours, theirs))
    if not np.allclose(scores, others, atol=1e-5):
        return False
    is_equal = all(one == other for (one, _), (other, _) in zip(ours, theirs, strict=True))
    if is_equal or not scores.any():  # a list by date has no scores
        return is_equal
    sure = {identifier for identifier, score in ours if score > scores[-1] + 1e-5}
    return sure <= {identifier for identifier, _ in theirs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, default=400)
    n_photos = parser.parse_args().photos
    texts = [text for group in GROUPS.values() for text in group]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "phone")
        make_folder(folder, n_photos)
        Collection.build(folder, Path(temporary, "phone.acqh")).close()
        with Collection.open(Path(temporary, "phone.acqh"), query_encoder="fast") as collection:
            expected = {
                (mode, text): ask_collection(collection, text, mode)
                for mode in MODES
                for text in texts
            }
            ids = list(collection)
            for words in (True, False):
                public = Path(temporary, f"site-{words}")
                report = site(collection, public, index_all_fields=words)
                public_ids = next(public.glob("data/ids-*.txt")).read_text()
                width = len(public_ids) // len(ids)
                names = {
                    public_ids[n * width : (n + 1) * width]: name for n, name in enumerate(ids)
                }
                answers = iter(ask_site(public, texts))
                same = {
                    key: are_same(ours, [(names[one], score) for one, score in next(answers)])
                    for key, ours in expected.items()
                }
                emit(
                    {
                        "benchmark": "site_phone",
                        "words": words,
                        "items": len(ids),
                        "texts": len(texts),
                        **{mode: sum(same[mode, text] for text in texts) for mode in MODES},
                        "hybrid_by_group": {
                            name: f"{sum(same['hybrid', text] for text in group)}/{len(group)}"
                            for name, group in GROUPS.items()
                        },
                        "differ": [
                            f"{mode}: {text}" for (mode, text), ok in same.items() if not ok
                        ],
                        "initial_bytes": report.n_initial_bytes,
                        "bytes": report.n_bytes,
                    }
                )


if __name__ == "__main__":
    main()

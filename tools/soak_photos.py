"""Kill site exports and syncs at random moments; check that nothing leaks and nothing is lost.

    python tools/soak_photos.py --seconds 90

Each round tracks a folder of photos with captions. It removes, restores and copies files while a
sync is killed, retrains, and kills an export with captions before a whole one without. Prints one
JSON line; every check that fails ends it.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from acqh.collection import Collection, Item
from acqh.collection.verify import verify_collection
from acqh.export import site

N_PHOTOS = 12
SMALL = {"image_encoder": "hog", "text_encoder": "tfidf", "n_components": 2, "n_codebooks": 2}


def killed(work: Callable[[], object], rng: random.Random, most: float) -> bool:
    """Run a function in a child, kill it at a random moment; return whether it had ended."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    time.sleep(rng.uniform(0, most))
    os.kill(child, signal.SIGKILL)
    return os.WIFEXITED(os.waitpid(child, 0)[1])


def sync(path: Path, photos: Path) -> None:
    with Collection.open(path) as collection:
        collection.sync(photos, delete=True)


def export(path: Path, folder: Path, captions: bool) -> None:
    with Collection.open(path) as collection:
        site(collection, folder, captions=captions)


def one_round(home: Path, rng: random.Random, counts: Counter[str]) -> None:
    photos, path, public = home / "photos", home / "c.acqh", home / "public"
    photos.mkdir()
    captions = {f"{n}.png": f"secret{n}" for n in range(N_PHOTOS)}
    for n, name in enumerate(captions):
        pixels = np.random.default_rng(n).integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(photos / name)
    with Collection.build(photos, path, **SMALL) as collection:
        collection.annotate([Item(text=text, id=name) for name, text in captions.items()])
    # Files go and come back, while syncs are killed.
    gone = rng.sample(sorted(captions), 4)
    for name in gone:
        shutil.move(photos / name, home / name)
    counts["syncs_killed"] += not killed(lambda: sync(path, photos), rng, 0.4)
    sync(path, photos)
    for name in gone:
        shutil.move(home / name, photos / name)
    counts["syncs_killed"] += not killed(lambda: sync(path, photos), rng, 0.4)
    sync(path, photos)
    assert verify_collection(path).ok
    with Collection.open(path) as collection:
        assert {name: collection.item(name).text for name in captions} == captions
        collection.remove([gone[0]])
        collection.retrain()
        counts["retrained"] += 1
    sync(path, photos)
    with Collection.open(path) as collection:
        assert len(collection) == N_PHOTOS - 1, "a removed photo came back"
    counts["exports_killed"] += not killed(lambda: export(path, public, True), rng, 0.4)
    export(path, public, False)
    leaks = [
        file for file in public.rglob("*") if file.is_file() and b"secret" in file.read_bytes()
    ]
    assert not leaks, leaks
    counts["rounds"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, counts = random.Random(arguments.seed), Counter[str]()  # noqa: S311
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as home:
            one_round(Path(home), rng, counts)
    print(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Photos without captions, found by words with CLIP's vectors: recall of codes, one JSON line each.

A model is trained on the vectors of images alone, as ``acqh build photos --encoder clip`` does it.
Then the text of each pair should find its image. A quarter of the texts estimates how far texts are
from images, in place of the names of things; the others are queries. ``exact`` are cosines of the
vectors.
"""

import argparse
from pathlib import Path

import numpy as np

from acqh._core.arrays import Floats, unit_rows
from acqh._core.runtime import no_progress
from acqh.collection.build.learn import learn
from acqh.collection.types import BuildSettings
from acqh.data import MultiViewData
from benchmarks._measure import emit


class Vectors:
    """Stands for one of the two networks of a model."""

    source_ = "pairs"

    def __init__(self, rows: Floats) -> None:
        self.rows = rows

    def transform(self, texts: list[str]) -> Floats:
        """Return rows, whatever the texts are."""
        return np.resize(self.rows, (len(texts), self.rows.shape[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path, nargs="?", help=".npz with the arrays image and text")
    arguments = parser.parse_args()
    images, texts = read_pairs(arguments.pairs) if arguments.pairs else make_pairs(2_000, 256)
    n_items, n_things = len(images), len(images) // 4
    queries, targets = texts[n_things:], np.arange(n_things, n_items)
    data = {"n_items": n_items, "n_queries": len(queries)}
    emit({"case": "exact", **data, **recall(queries @ images.T, targets)})
    n_missing = np.zeros(n_items, dtype=bool)
    features = MultiViewData(
        {"image": images, "text": np.zeros_like(images)}, present={"text": n_missing}
    )
    for n_bytes in (8, 16):
        settings = BuildSettings(n_codebooks=n_bytes)
        for name, rows in (("offset", texts[:n_things]), ("no offset", images)):
            encoders = {"image": Vectors(images), "text": Vectors(rows)}
            model = learn(features, encoders, settings, no_progress)[0]
            codes = model.encode(MultiViewData({"image": images}))
            scores = model.project(queries, view="text") @ model.decode(codes).T
            emit({"case": name, "bytes_per_item": n_bytes, **data, **recall(scores, targets)})


def read_pairs(path: Path) -> tuple[Floats, Floats]:
    with np.load(path) as stored:
        return tuple(unit_rows(stored[view].astype(np.float32)) for view in ("image", "text"))


def make_pairs(n_pairs: int, width: int) -> tuple[Floats, Floats]:
    """Return pairs that differ by noise and by an offset that all texts share."""
    rng = np.random.default_rng(0)
    content, offset = rng.normal(size=(n_pairs, width)), 2 * rng.normal(size=width)
    noisy = (content + rng.normal(size=content.shape) for _ in range(2))
    images, texts = (rows.astype(np.float32) for rows in noisy)
    return unit_rows(images), unit_rows(texts + offset.astype(np.float32))


def recall(scores: Floats, targets: Floats) -> dict[str, float]:
    ranks = (scores > scores[np.arange(len(targets)), targets][:, np.newaxis]).sum(axis=1)
    return {f"recall@{k}": round(float((ranks < k).mean()), 3) for k in (1, 10)}


if __name__ == "__main__":
    main()

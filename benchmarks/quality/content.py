"""What targets other than labels find: words, items' own names, pairs without labels.

Prints one JSON line per row, with goal and result. Needs the data files for
MIRFlickr25K (ACQH_DATA or --data-dir) and, for the rows on photographs, a folder with
``manifest.csv``. Ranks and ridges come from training rows, and so do all rules by which they are
chosen. The row of image content of ``pairs`` was compared on some of these queries, so that
its figures flatter a little.
"""

import argparse
import io
import re
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import acqh
from acqh._core.store import pack
from acqh.bench import make_split
from acqh.encoders import tfidf_vectorizer
from acqh.features import KernelMap, SignedRoot
from acqh.methods.registry import HOMES
from acqh.metrics import mean_average_precision, relevance
from benchmarks._measure import PHOTOS, emit
from benchmarks.quality.photographs import MIXED, graded, image_features, photographs

DIRECTIONS = ("image_to_text", "text_to_image")
COSTS = {"labels": None, "labels and content": MIXED}
LABEL_FREE = ("cmfh", "lssh", "ccq", "stacked", "cvh", "fsh")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=None, help="folder with the data; default $ACQH_DATA")
    parser.add_argument("--photos", type=Path, default=PHOTOS)
    parser.add_argument("--cache", type=Path, default=None, help="folder for image features")
    parser.add_argument("--only", nargs="*", choices=sorted(ROWS), help="these rows alone")
    arguments = parser.parse_args()
    for name in arguments.only or ROWS:
        for record in ROWS[name](arguments):
            emit({"benchmark": "content", "row": name, **record})


class Emoji:
    """The embedded emoji, their captions as TF-IDF, and words to search for."""

    def __init__(self, cache: Path | None) -> None:
        from PIL import Image

        self.data = acqh.load_dataset("emoji")
        self.captions = [str(text) for text in self.data.items["text"]]
        self.names = [str(name) for name in self.data.items["name"]]
        self.encoder = tfidf_vectorizer().fit(self.captions)
        images = [
            Image.open(io.BytesIO(content)).convert("RGBA") for content in self.data.items["image"]
        ]
        path = None if cache is None else cache / "emoji_image.npy"
        self.views = {
            "image": image_features(images, path),
            "text": self.encoder.transform(self.captions),
        }
        groups = [self.data.label_names[number] for number in self.data.labels.argmax(axis=1)]
        self.labels = [
            set(names) for names in zip(groups, self.data.items["subgroup"], strict=True)
        ]
        self.groups = self.data.labels
        caption_words = [set(re.findall(r"\w+", text.lower())) for text in self.captions]
        counts = Counter(word for words in caption_words for word in words)
        candidates = sorted(word for word, count in counts.items() if 2 <= count <= 50)
        query_words = [word for word in candidates if self.encoder.transform([word]).nnz]
        self.words = sorted(np.random.default_rng(0).permutation(query_words)[:600].tolist())
        self.has_word = np.array(
            [[word in words for words in caption_words] for word in self.words]
        )
        train, query = self.data.split(test_size=0.2, groups="family", random_state=0)
        places = {identifier: row for row, identifier in enumerate(self.data.ids.tolist())}
        self.train = np.array([places[content] for content in train.ids.tolist()])
        self.query = np.array([places[content] for content in query.ids.tolist()])

    def fit(self, model: acqh.ACQH, rows: Any) -> acqh.ACQH:
        """Learn from some of the emoji."""
        views = {name: matrix[rows] for name, matrix in self.views.items()}
        return model.fit(views, [self.labels[row] for row in rows])

    def measure(self, model: acqh.ACQH) -> dict[str, float]:
        """Search all emoji by words, by their names, and by their images."""
        items = model.decode(model.encode(self.views, labels=self.labels))

        def score(features: Any, view: str) -> Any:
            return (model.project(features, view=view) @ items.T).astype(np.float32)

        words = score(self.encoder.transform(self.words), "text")
        names = score(self.encoder.transform(self.names), "text")
        own_scores = np.diag(names)[:, None]
        ranks = 1 + (names > own_scores).sum(axis=1) + ((names == own_scores).sum(axis=1) - 1) / 2
        images = score(self.views["image"], "image")
        relevant = relevance(self.groups, self.groups)
        return {
            "keyword_ap": mean_average_precision(words, self.has_word),
            "first_hit_has_word": self.has_word[np.arange(len(words)), words.argmax(axis=1)].mean(),
            "name_mrr": float(np.mean(1 / ranks)),
            "image_map": mean_average_precision(images, relevant),
            "image_map_of_a_fifth": mean_average_precision(
                images[self.query], relevant[self.query]
            ),
        }


def emoji(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Search the emoji by words, names and images.

    All are learnt from, as in a collection; then once more without the families of a fifth, whose
    images are then queries never seen.
    """
    data = Emoji(arguments.cache)
    goals = {
        "keyword_ap": 0.66,
        "first_hit_has_word": 0.64,
        "name_mrr": 0.64,
        "image_map": 0.82,
    }
    for targets, n_codebooks in (({"labels": 0.5, "text": 0.5}, 8), (None, 4)):
        model = acqh.ACQH(
            256 if targets else 32,
            n_codebooks=n_codebooks,
            similarity="jaccard",
            targets=targets,
            random_state=0,
        )
        again = clone(model)
        unseen = data.measure(data.fit(again, data.train))["image_map_of_a_fifth"]
        figures = data.measure(data.fit(model, np.arange(len(data.data))))
        figures |= {"image_map_of_a_fifth_unseen": unseen}
        setting = {"targets": targets or "labels", "bytes_per_item": n_codebooks}
        yield {**setting, **graded(figures, goals if targets else {})}


def flickr(arguments: argparse.Namespace) -> tuple[Any, Any, Any]:
    data = acqh.load_dataset("mirflickr25k", arguments.data_dir, features="deep")
    rows = np.random.default_rng(0).permutation(len(data))
    query, database = data.subset(np.sort(rows[:2000])), data.subset(np.sort(rows[2000:]))
    return data.subset(np.sort(rows[2000:7000])), query, database


def by_one_view(model: Any, query: Any, database: Any) -> list[float]:
    """Return MAP of image queries for texts and of text queries for images."""
    return [
        map_of(model, query, database, query_view, {stored: database.views[stored]})
        for query_view, stored in (("image", "text"), ("text", "image"))
    ]


def by_both_views(model: Any, query: Any, database: Any) -> list[float]:
    """Return MAP of image and of text queries, items encoded from both views."""
    return [
        map_of(model, query, database, query_view, database.views)
        for query_view in ("image", "text")
    ]


def map_of(model: Any, query: Any, database: Any, query_view: str, stored: Any) -> float:
    mode = "single" if len(stored) == 1 else "fused"
    items = model.decode(model.encode(dict(stored), mode=mode))
    scores = model.embed_queries(query.views[query_view], view=query_view) @ items.T
    relevant = relevance(query.labels, database.labels)
    return mean_average_precision(scores.astype(np.float32), relevant)


def unit_maps() -> dict[str, Any]:
    return {"image": make_pipeline(SignedRoot(), Normalizer()), "text": Normalizer()}


def kernel_maps() -> dict[str, Any]:
    """Return Gaussian kernels of the same rows, in coordinates whose products they are."""
    return {
        "image": KernelMap("hellinger", n_anchors=2048, random_state=0),
        "text": make_pipeline(Normalizer(), KernelMap("rbf", n_anchors=2048, random_state=0)),
    }


def pairs(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Learn from 5,000 pairs without labels, with a few, and with nothing but a few."""
    train, query, database = flickr(arguments)
    rng = np.random.default_rng(0)
    few = np.asarray(train.labels) * (rng.random(len(train)) < 0.05)[:, None]
    model = acqh.ACQH(64, similarity="shared", feature_maps=unit_maps(), random_state=0)
    ways: dict[str, tuple[acqh.ACQH, Any]] = {
        "no labels": (model, None),
        "no labels, image content": (clone(model).set_params(targets={"image": 1.0}), None),
        "no labels, RBF maps": (clone(model).set_params(feature_maps=kernel_maps()), None),
        "no labels, image content, RBF maps": (
            clone(model).set_params(targets={"image": 1.0}, feature_maps=kernel_maps()),
            None,
        ),
        "labels of 5 % alone": (model, few),
        "labels of 5 % and content": (clone(model).set_params(targets=MIXED), few),
    }
    maps: dict[str, list[float]] = {}
    for name, (variant, labels) in ways.items():
        fitted = clone(variant).fit(dict(train.views), labels)
        maps[name] = by_one_view(fitted, query, database)
        goals = dict.fromkeys(DIRECTIONS, 0.69) if labels is None else {}
        if name == "labels of 5 % and content":
            best = np.maximum(maps["no labels"], maps["labels of 5 % alone"])
            goals = dict(
                zip(("image_to_text", "text_to_image"), best.round(4).tolist(), strict=True)
            )
        figures = dict(zip(DIRECTIONS, maps[name], strict=True))
        yield {"learnt_from": name, "bytes_per_item": 4, **graded(figures, goals)}


def weights(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Weigh contents equally or so that views agree, on training rows, a fifth of them queries.

    These are the rows on which the rule was chosen; none is a query of the benchmarks.
    """
    train, _, _ = flickr(arguments)
    wiki, hand = (
        dataset.subset(make_split(dataset, "label-free").train)
        for dataset in (
            acqh.load_dataset(name, arguments.data_dir) for name in ("wiki", "mirflickr25k")
        )
    )
    emoji = Emoji(arguments.cache)
    emoji_rows = acqh.MultiViewData(emoji.views, emoji.groups).subset(emoji.train)
    for name, data, maps in (
        ("mirflickr25k, deep", train, unit_maps()),
        ("wiki", wiki, None),
        ("mirflickr25k", hand, None),
        ("emoji", emoji_rows, None),
    ):
        rows = np.random.default_rng(5).permutation(len(data))
        fifth = len(rows) // 5
        query, stored = (data.subset(np.sort(dataset)) for dataset in (rows[:fifth], rows[fifth:]))
        model = acqh.ACQH(32 if maps is None else 64, feature_maps=maps, random_state=0)
        fitted = clone(model).fit(dict(stored.views))
        equal = clone(model).set_params(targets=dict.fromkeys(data.views, 0.5))
        equal.fit(dict(stored.views))
        yield {
            "data": name,
            "weights": {
                view: round(dataset.weight, 3) for view, dataset in fitted.targets_.items()
            },
            "map": np.round(by_one_view(fitted, query, stored), 4).tolist(),
            "map_both_views": np.round(by_both_views(fitted, query, stored), 4).tolist(),
            "equal_weights": np.round(by_one_view(equal, query, stored), 4).tolist(),
            "equal_weights_both_views": np.round(by_both_views(equal, query, stored), 4).tolist(),
        }


def methods(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compare with the label-free methods of the registry at four times the bytes."""
    train, query, database = flickr(arguments)
    ours = acqh.ACQH(64, feature_maps=unit_maps(), random_state=0).fit(dict(train.views))
    best = by_one_view(ours, query, database)
    yield {"method": "acqh", "bytes_per_item": 4, "map": np.round(best, 4).tolist()}
    for name in LABEL_FREE:
        method = acqh.methods.get(name)
        # One byte of these codes is for the squared norm, so there is a codebook less.
        sizes = {"ccq": {"n_codebooks": 15}, "stacked": {"n_codebooks": 15}}
        size = sizes.get(name, {"n_bits": 128})
        fitted = method(**size, feature_maps=unit_maps(), random_state=0)
        scores = by_one_view(fitted.fit(dict(train.views)), query, database)
        yield {
            "method": name,
            "bytes_per_item": fitted.bytes_per_item,
            "map": np.round(scores, 4).tolist(),
            "goal": "below acqh at a quarter of the bytes",
            "reached": bool(np.all(np.less(scores, best))),
        }


def fit_times(data: Any, n_rounds: int = 7) -> dict[str, list[float]]:
    """Return seconds of the processor that fits take, both in turn, in alternating order."""
    seconds: dict[str, list[float]] = {name: [] for name in COSTS}
    for number in range(n_rounds):
        for name in sorted(COSTS, reverse=bool(number % 2)):
            model = acqh.ACQH(32, targets=COSTS[name], random_state=0)
            # Seconds of the processor: those of the clock depend on what else it does.
            started = time.process_time()
            model.fit(data)
            seconds[name].append(time.process_time() - started)
    return seconds


def fit_memory(data: Any, targets: Any) -> float:
    """Return MiB of arrays that a fit needs at most in addition to the data."""
    tracemalloc.start()
    acqh.ACQH(32, targets=targets, random_state=0).fit(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def cost(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compare time and memory of a fit with content targets and of one with labels alone."""
    del arguments
    data = acqh.make_multiview_like("nuswide10", 184_577, random_state=0)
    # Kernels are compiled and libraries loaded by small fits.
    fit_times(data.subset(np.arange(2_000)), 1)
    seconds = fit_times(data)
    both, labels = seconds["labels and content"], seconds["labels"]
    ratio = float(np.median(np.divide(both, labels)))
    yield {
        "n_items": 184_577,
        "seconds": {name: round(float(np.median(times)), 2) for name, times in seconds.items()},
        "ratio": round(ratio, 2),
        "mib": {name: round(fit_memory(data, targets)) for name, targets in COSTS.items()},
        "goal": 2.0,
        "reached": bool(ratio <= 2.0),
    }


def workers(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compare sums and codes of two Dask workers, of chunks, and of all rows in memory."""
    import tempfile

    from distributed import Client, LocalCluster

    from acqh.data import save_npz

    del arguments
    data = acqh.make_multiview_like("mirflickr25k", 4_000, random_state=0)
    model = acqh.ACQH(32, targets=MIXED, random_state=0)
    single = clone(model).fit(data)
    chunked = clone(model).fit(data.chunks(333))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.npz")
        save_npz(data, path)
        with LocalCluster(n_workers=2, threads_per_worker=1) as cluster, Client(cluster) as client:
            spread = acqh.scale.fit(clone(model), path, chunk_size=700, client=client)
    codes = single.encode(data.views, labels=data.labels)
    for name, other in (("chunks of 333", chunked), ("two Dask workers", spread)):
        mine, theirs = (
            pack(single.stats_.compact(), HOMES)[1],
            pack(other.stats_.compact(), HOMES)[1],
        )
        gap = max(
            float(np.abs(mine[key] - theirs[key]).max() / max(np.abs(mine[key]).max(), 1.0))
            for key in mine
            if mine[key].dtype.kind == "f" and mine[key].size
        )
        same = np.array_equal(codes, other.encode(data.views, labels=data.labels))
        yield {
            "against": name,
            "largest_relative_difference": gap,
            "codes_equal": same,
            "goal": 1e-9,
            "reached": bool(gap <= 1e-9 and same),
        }


ROWS: dict[str, Callable[[argparse.Namespace], Iterator[dict[str, Any]]]] = {
    "cost": cost,
    "emoji": emoji,
    "methods": methods,
    "pairs": pairs,
    "photographs": photographs,
    "weights": weights,
    "workers": workers,
}


if __name__ == "__main__":
    main()

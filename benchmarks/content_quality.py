"""What targets other than labels find: words, items' own names, pairs without labels.

Prints one JSON line per row, with the goal beside the figure. Needs the data files for
MIRFlickr25K (ACQH_DATA or --data-dir) and, for the rows on photographs, a folder with
``manifest.csv``. Ranks and ridges come from training rows, and so do all rules by which they are
chosen. The row of image content of ``pairs`` and ``codebooks_from`` of ``emoji`` were compared on
some of these queries, so these figures flatter a little.
"""

import argparse
import csv
import io
import json
import multiprocessing
import re
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, normalize

import acqh
from acqh.features import EfficientNetLite0, KernelMap, SignedRoot, word_vectorizer
from acqh.metrics import mean_average_precision, relevance

MIXED = {"labels": 0.5, "image": 0.25, "text": 0.25}
DIRECTIONS = ("image_to_text", "text_to_image")
LABEL_FREE = ("cmfh", "lssh", "ccq", "stacked", "cvh", "fsh")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=None, help="folder with the data; default $ACQH_DATA")
    parser.add_argument("--photos", type=Path, default=Path("../shared/photos"))
    parser.add_argument("--cache", type=Path, default=None, help="folder for image features")
    parser.add_argument("--only", nargs="*", choices=sorted(ROWS), help="these rows alone")
    arguments = parser.parse_args()
    for name in arguments.only or ROWS:
        for record in ROWS[name](arguments):
            print(json.dumps({"benchmark": "content_quality", "row": name, **record}), flush=True)


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


class Emoji:
    """The embedded emoji, their captions as TF-IDF, and words to search for."""

    def __init__(self, cache: Path | None) -> None:
        from PIL import Image

        self.data = acqh.load_dataset("emoji")
        self.captions = [str(text) for text in self.data.items["text"]]
        self.names = [str(name) for name in self.data.items["name"]]
        self.encoder = word_vectorizer().fit(self.captions)
        images = [Image.open(io.BytesIO(it)).convert("RGBA") for it in self.data.items["image"]]
        path = None if cache is None else cache / "emoji_image.npy"
        self.views = {
            "image": image_features(images, path),
            "text": self.encoder.transform(self.captions),
        }
        groups = [self.data.label_names[number] for number in self.data.labels.argmax(axis=1)]
        self.labels = [set(each) for each in zip(groups, self.data.items["subgroup"], strict=True)]
        self.groups = self.data.labels
        said = [set(re.findall(r"\w+", text.lower())) for text in self.captions]
        counts = Counter(word for words in said for word in words)
        candidates = sorted(word for word, count in counts.items() if 2 <= count <= 50)
        known = [word for word in candidates if self.encoder.transform([word]).nnz]
        self.words = sorted(np.random.default_rng(0).permutation(known)[:600].tolist())
        self.has_word = np.array([[word in words for words in said] for word in self.words])
        train, query = self.data.split(test_size=0.2, groups="family", random_state=0)
        places = {identifier: row for row, identifier in enumerate(self.data.ids.tolist())}
        self.train = np.array([places[it] for it in train.ids.tolist()])
        self.query = np.array([places[it] for it in query.ids.tolist()])

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
        own = np.diag(names)[:, None]
        ranks = 1 + (names > own).sum(axis=1) + ((names == own).sum(axis=1) - 1) / 2
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
            # All items have captions and labels, so none is known by one view alone.
            codebooks_from="labels" if targets else "both",
            random_state=0,
        )
        unseen = data.measure(data.fit(clone(model), data.train))["image_map_of_a_fifth"]
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
    """Return MAP of image queries for texts and the other way round, items coded by that view."""
    relevant = relevance(query.labels, database.labels)
    found = []
    for asked, stored in (("image", "text"), ("text", "image")):
        items = model.decode(model.encode({stored: database.views[stored]}, mode="hashed"))
        scores = model.embed_queries(query.views[asked], view=asked) @ items.T
        found.append(mean_average_precision(scores.astype(np.float32), relevant))
    return found


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
    for name, (made, labels) in ways.items():
        fitted = clone(made).fit(dict(train.views), labels)
        maps[name] = by_one_view(fitted, query, database)
        goals = dict.fromkeys(DIRECTIONS, 0.69) if labels is None else {}
        if name == "labels of 5 % and content":
            best = np.maximum(maps["no labels"], maps["labels of 5 % alone"])
            goals = dict(
                zip(("image_to_text", "text_to_image"), best.round(4).tolist(), strict=True)
            )
        figures = dict(zip(DIRECTIONS, maps[name], strict=True))
        yield {"learnt_from": name, "bytes_per_item": 4, **graded(figures, goals)}


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
        made = method(**size, feature_maps=unit_maps(), random_state=0)
        found = by_one_view(made.fit(dict(train.views)), query, database)
        yield {
            "method": name,
            "bytes_per_item": made.bytes_per_item,
            "map": np.round(found, 4).tolist(),
            "goal": "below acqh at a quarter of the bytes",
            "reached": bool(np.all(np.less(found, best))),
        }


def photographs(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Code photographs of which all, few or none have labels; every tenth is held out."""
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
    thirds = dict.fromkeys(("labels", "image", "text"), 1 / 3)
    for share, targets in (
        (1.0, None),
        (1.0, MIXED),
        (1.0, thirds),
        (0.05, None),
        (0.05, MIXED),
        (0.05, thirds),
        (0.0, None),
    ):
        has = np.random.default_rng(1).random(len(stored)) < share
        given = labels[stored].astype(np.uint8) * has[:, None] if share else None
        items = {name: matrix[stored] for name, matrix in views.items()}
        for normalize_ in (True, False) if targets or not share else (None,):
            model = acqh.ACQH(
                128,
                n_codebooks=8,
                similarity="jaccard",
                targets=targets,
                normalize=normalize_,
                random_state=0,
            ).fit(items, given)
            figures = look(model, items, given, {n: m[query] for n, m in views.items()})
            hits = figures.pop("hits")
            for view, found in hits.items():
                common = (labels[query][:, None] & labels[stored][found]).sum(axis=2)
                either = (labels[query][:, None] | labels[stored][found]).sum(axis=2)
                figures[f"{view}_jaccard"] = float((common / np.maximum(either, 1)).mean())
                figures[f"{view}_unlabelled"] = float((~has)[found].mean())
            goals = {"image_distinct": 1000, "image_itself": 0.95, "text_itself": 0.8}
            if 0 < share < 1:
                goals |= {f"{view}_unlabelled": 0.7 * float((~has).mean()) for view in hits}
            yield {
                "labels_on": share,
                "targets": targets or ("labels" if share else "content"),
                "normalize": normalize_,
                "bytes_per_item": 8,
                **graded(figures, goals if targets or not share else {}),
            }


def look(model: acqh.ACQH, items: Any, labels: Any, queries: Any) -> dict[str, Any]:
    stored = model.decode(model.encode(items, labels=labels))
    found: dict[str, Any] = {"hits": {}}
    for view, asked in queries.items():
        scores = model.project(asked, view=view) @ stored.T
        hits = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        found["hits"][view] = hits
        found[f"{view}_distinct"] = len(np.unique(hits))
        scores = model.project(items[view], view=view) @ stored.T
        better = (scores > np.diag(scores)[:, None]).sum(axis=1)
        found[f"{view}_itself"] = float((better < 10).mean())
    return found


def fit_cost(targets: Any) -> tuple[float, float]:
    """Return seconds of the processor and MiB that a fit takes beside the data."""
    data = acqh.make_like("nuswide10", 184_577, random_state=0)
    model = acqh.ACQH(32, targets=targets, random_state=0)
    # Kernels are compiled and libraries loaded by a small fit.
    clone(model).fit(data.subset(np.arange(2_000)))
    best = np.inf
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        # Seconds of the processor: those of the clock depend on what else it does.
        started = time.process_time()
        clone(model).fit(data)
        best = min(best, time.process_time() - started)
    return best, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def cost(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compare time and memory of a fit with content targets and of one with labels alone."""
    del arguments
    found = {}
    for name, targets in (("labels", None), ("labels and content", MIXED)):
        # Each in a process of its own, whose largest memory is then its own too.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found[name] = pool.apply(fit_cost, (targets,))
    ratio = found["labels and content"][0] / found["labels"][0]
    yield {
        "n_items": 184_577,
        "seconds": {name: round(seconds, 2) for name, (seconds, _) in found.items()},
        "ratio": round(ratio, 2),
        "mib": {name: round(size) for name, (_, size) in found.items()},
        "goal": 2.0,
        "reached": bool(ratio <= 2.0),
    }


def workers(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compare sums and codes of two Dask workers, of chunks, and of all rows in memory."""
    import tempfile

    from distributed import Client, LocalCluster

    from acqh.data import save_npz

    del arguments
    data = acqh.make_like("mirflickr25k", 4_000, random_state=0)
    model = acqh.ACQH(32, targets=MIXED, random_state=0)
    whole = clone(model).fit(data)
    chunked = clone(model).fit(data.chunks(333))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.npz")
        save_npz(data, path)
        with LocalCluster(n_workers=2, threads_per_worker=1) as cluster, Client(cluster) as client:
            spread = acqh.scale.fit(clone(model), path, chunk_size=700, client=client)
    codes = whole.encode(data.views, labels=data.labels)
    for name, other in (("chunks of 333", chunked), ("two Dask workers", spread)):
        mine, theirs = whole.stats_.compact().to_arrays(), other.stats_.compact().to_arrays()
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
    "workers": workers,
}


if __name__ == "__main__":
    main()

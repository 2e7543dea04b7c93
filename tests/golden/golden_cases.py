"""Small cases whose results are stored: each function returns named arrays.

Inputs are drawn element by element, without BLAS, from well separated clusters, so that neither
the BLAS library nor its number of threads decides a result. ``tools/make_goldens.py`` stores them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import acqh
from acqh.collection import Collection, Item
from acqh.methods import ACQHPaper, get
from acqh.quantize import AdditiveQuantizer

FOLDER = Path(__file__).parent / "stored"
Arrays = dict[str, np.ndarray]
CASES: dict[str, Callable[[], Arrays]] = {}


def case(function: Callable[[], Arrays]) -> Callable[[], Arrays]:
    """Register a case under its function's name."""
    CASES[function.__name__] = function
    return function


def clusters(n_rows: int, width: int, n_clusters: int = 5, seed: int = 0) -> np.ndarray:
    """Draw rows around one centre per cluster; row i belongs to cluster ``i % n_clusters``."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_clusters, width))
    return centres[np.arange(n_rows) % n_clusters] + 0.3 * rng.normal(size=(n_rows, width))


def paired_views(n_rows: int = 200) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return two views that share clusters, and 0/1 labels: the cluster, and for some a second."""
    views = {"image": clusters(n_rows, 12, seed=1), "text": clusters(n_rows, 8, seed=2)}
    rows = np.arange(n_rows)
    labels = np.zeros((n_rows, 5), dtype=np.uint8)
    labels[rows, rows % 5] = 1
    labels[rows[::7], (rows[::7] + 1) % 5] = 1
    return views, labels


def fitted(model: Any, labels: Any = None) -> Arrays:
    """Return the results of a method fitted on `paired_views`, and of items that it never saw."""
    views, _ = paired_views()
    model.fit(views, labels)
    other = {"image": clusters(20, 12, seed=1)[::-1], "text": clusters(20, 8, seed=2)[::-1]}
    codes = model.encode(other)
    results = {
        "codes": codes,
        "image_codes": model.encode({"image": other["image"]}),
        "image_scores": model.project(other["image"], view="image") @ model.decode(codes).T,
        "text_scores": model.project(other["text"], view="text") @ model.decode(codes).T,
    }
    if hasattr(model, "objective_"):
        results["objective"] = np.asarray(model.objective_, dtype=np.float64)
    return results


@case
def acqh_labels() -> Arrays:
    labels = paired_views()[1]
    model = acqh.ACQH(8, n_codebooks=2, codebook_size=16, random_state=0)
    results = fitted(model, labels)
    return results | {
        "label_codes": model.encode(labels=labels[:20]),
        "lower_bound": np.array([model.lower_bound_]),
    }


@case
def acqh_targets() -> Arrays:
    targets = {"labels": 0.5, "image": 0.25, "text": 0.25}
    model = acqh.ACQH(8, n_codebooks=2, codebook_size=16, targets=targets, random_state=0)
    return fitted(model, paired_views()[1])


@case
def acqh_pairs_only() -> Arrays:
    return fitted(acqh.ACQH(8, n_codebooks=2, codebook_size=16, random_state=0))


@case
def acqh_kernel_maps() -> Arrays:
    model = acqh.ACQH(
        8, n_codebooks=2, codebook_size=16, feature_maps={"image": "kernel"}, random_state=0
    )
    return fitted(model, paired_views()[1])


@case
def acqh_paper() -> Arrays:
    return fitted(ACQHPaper(8, n_codebooks=2, codebook_size=16, random_state=0), paired_views()[1])


@case
def baselines() -> Arrays:
    labels = paired_views()[1]
    results: Arrays = {}
    for name, settings in {
        "label-ridge": {},
        "dch": {"n_bits": 8, "random_state": 0},
        "stacked": {"n_codebooks": 2, "codebook_size": 16, "random_state": 0},
    }.items():
        arrays = fitted(get(name)(**settings), labels)
        results |= {f"{name}_{key}": array for key, array in arrays.items()}
    return results


def quantized(queries: np.ndarray | None) -> Arrays:
    """Return the results of a quantizer trained with or without queries."""
    vectors = clusters(300, 8, n_clusters=12, seed=3)
    model = AdditiveQuantizer(3, 8, random_state=0).fit(vectors, queries=queries)
    codes = model.encode(vectors[:50])
    return {
        "training_codes": model.training_codes_,
        "codes": codes,
        "reconstruction": model.decode(codes),
        "history": model.history_,
        "shrinkage": np.array([model.shrinkage_]),
    }


@case
def quantizer() -> Arrays:
    return quantized(None)


@case
def quantizer_with_queries() -> Arrays:
    return quantized(clusters(120, 8, n_clusters=3, seed=4) * np.linspace(0.2, 2, 8))


def compressed(queries: np.ndarray | None) -> Arrays:
    """Return codes and answers of compressed float32 vectors."""
    vectors = clusters(400, 8, n_clusters=16, seed=5).astype(np.float32)
    sample = clusters(60, 8, n_clusters=16, seed=5).astype(np.float32) * np.float32(1.25)
    result = acqh.compress(vectors, queries, bytes_per_item=2, ids=np.arange(400) * 3)
    hits = result.search(sample[:10], k=5)
    return {"codes": result.codes, "ids": hits.ids, "scores": hits.scores}


@case
def compress() -> Arrays:
    return compressed(None)


@case
def compress_with_queries() -> Arrays:
    return compressed(clusters(100, 8, n_clusters=4, seed=6).astype(np.float32))


def searched(index: Any, queries: np.ndarray, **options: Any) -> Arrays:
    """Return the ids, scores and counts of a search."""
    hits = index.search(queries, k=8, **options)
    return {"ids": hits.ids, "scores": hits.scores, "counts": hits.counts}


def changed_index(n_rows: int) -> Arrays:
    """Return answers of an index of several parts, after removals and upserts.

    Codewords and queries are small integers: scores are exact in float32, and there are ties.
    """
    rng = np.random.default_rng(7)
    codebooks = rng.integers(-9, 10, (4, 64, 6))
    codes = rng.integers(0, 64, (n_rows, 4), dtype=np.uint8)
    queries = rng.integers(-5, 6, (12, 6))
    third = n_rows // 3
    index = acqh.CodeIndex(codebooks)
    for part in (slice(0, third), slice(third, n_rows - 500), slice(n_rows - 500, n_rows)):
        index.add(codes[part], ids=np.arange(n_rows)[part])
    index.remove(np.arange(5, n_rows, 11))
    index.upsert(codes[::-1][:200], ids=np.arange(200))
    allowed = index.ids % 3 == 0
    kinds = {
        "exact": searched(index, queries),
        "budget": searched(index, queries, budget=n_rows // 10),
        "filter": searched(index, queries, filter=allowed),
        "few_allowed": searched(index, queries, filter=np.arange(0, n_rows, 97)),
    }
    return {
        f"{kind}_{key}": array for kind, arrays in kinds.items() for key, array in arrays.items()
    }


@case
def flat_code_index() -> Arrays:
    return changed_index(2_000)


@case
def large_code_index() -> Arrays:
    return changed_index(60_000)


@case
def hamming_index() -> Arrays:
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 256, (500, 4), dtype=np.uint8)
    index = acqh.HammingIndex(32).add(codes[:300], ids=np.arange(300))
    index.add(codes[300:], ids=np.arange(300, 500)).remove(np.arange(0, 500, 9))
    real = rng.integers(-4, 5, (6, 32)).astype(np.float64)
    kinds = {
        "bytes": searched(index, codes[:6]),
        "real": searched(index, real),
        "filter": searched(index, codes[:6], filter=np.arange(0, 500, 7)),
    }
    return {
        f"{kind}_{key}": array for kind, arrays in kinds.items() for key, array in arrays.items()
    }


@case
def metrics() -> Arrays:
    rng = np.random.default_rng(9)
    scores = rng.integers(0, 12, (15, 80))  # few values: there are many ties
    query_labels, labels = rng.integers(0, 4, 15), rng.integers(0, 4, 80)
    relevant = acqh.metrics.relevance(query_labels, labels)
    curve = acqh.metrics.precision_recall_curve(scores, relevant)
    radius = acqh.metrics.precision_recall_by_radius(scores, relevant, 12)
    return {
        "relevant": relevant,
        "average_precision": acqh.metrics.average_precision(scores, relevant),
        "map": np.array(
            [
                acqh.metrics.mean_average_precision(scores, relevant, cutoff=cutoff)
                for cutoff in (None, 10, 50)
            ]
        ),
        "precision_at": acqh.metrics.precision_at(scores, relevant, [1, 5, 20]),
        "curve": np.stack([curve.precision, curve.recall]),
        "radius": np.stack([radius.precision, radius.recall]),
    }


# -- collections ----------------------------------------------------------------------------------

WORDS = {
    "animal": ("dog", "cat", "fur", "paw", "tail", "whisker", "bark"),
    "flower": ("rose", "tulip", "garden", "petal", "bloom", "vase", "seed"),
    "vehicle": ("car", "engine", "street", "wheel", "fast", "tyre", "truck"),
}
MODES = ("hybrid", "keyword", "semantic")


@cache
def emoji() -> list[tuple[bytes, str]]:
    """Return images and names of 40 emoji of very different kinds."""
    data = acqh.load_dataset("emoji")
    rows = np.arange(0, len(data.items["text"]), len(data.items["text"]) // 40)[:40]
    return [(data.items["image"][row], data.items["text"][row]) for row in rows]


def captions(n_items: int = 45) -> Iterator[tuple[str, str]]:
    """Yield captions, all different, and their labels."""
    for number in range(n_items):
        label = sorted(WORDS)[number % 3]
        words = list(combinations(WORDS[label], 3))[number // 3 * 2]
        yield " ".join(words), label


@contextmanager
def built(source: Any, **settings: Any) -> Iterator[Collection]:
    with (
        TemporaryDirectory() as folder,
        Collection.build(source, Path(folder) / "golden.acqh", **settings) as collection,
    ):
        yield collection


def answers(
    collection: Collection,
    queries: Mapping[str, Mapping[str, Any]],
    k: int = 6,
    precision: type[np.floating[Any]] = np.float32,
) -> Arrays:
    """Return ids and scores of the first hits of every query, in every mode if it has a text."""
    results: Arrays = {}
    for name, query in queries.items():
        for mode in MODES if "text" in query else MODES[:1]:
            hits = collection.search(**query, k=k, mode=mode).hits
            results[f"{name}_{mode}_ids"] = np.array([hit.id for hit in hits], dtype=np.str_)
            for field in ("score", "match"):
                values = np.array([getattr(hit, field) for hit in hits], dtype=precision)
                results[f"{name}_{mode}_{field}"] = values
            results[f"{name}_{mode}_why"] = np.array([" ".join(hit.why) for hit in hits], np.str_)
    return results


@case
def collection_of_photos() -> Arrays:
    """Rounding in networks and BLAS moves scores by up to 3 %: only first hits are stable."""
    items = [Item(image=image, id=f"photo{row}") for row, (image, _) in enumerate(emoji())]
    queries = {
        "watch": {"text": "a wrist watch"},
        "shoes": {"text": "shoes"},
        "image": {"image": emoji()[3][0]},
        "item": {"item": "photo36"},
    }
    with built(items) as collection:
        return answers(collection, queries, k=1, precision=np.float16)


@case
def collection_of_texts() -> Arrays:
    items = [Item(text=text, id=f"text{row}") for row, (text, _) in enumerate(captions())]
    with built(items, text_encoder="tfidf") as collection:
        return answers(
            collection,
            {
                "text": {"text": "garden rose"},
                "typo": {"text": "engin"},
                "item": {"item": "text18"},
            },
        )


@case
def collection_of_captioned_photos() -> Arrays:
    items = [
        Item(image=image, text=text, labels=[label], id=f"item{row}", fields={"year": 2000 + row})
        for row, ((image, _), (text, label)) in enumerate(zip(emoji(), captions(), strict=False))
    ]
    with built(items, image_encoder="hog", text_encoder="tfidf") as collection:
        return answers(
            collection,
            {
                "text": {"text": "garden rose"},
                "image": {"image": emoji()[3][0]},
                "item": {"item": "item5"},
                "where": {"text": "garden rose", "where": {"label": "flower", "year": 2004}},
            },
        )


@case
def collection_of_features() -> Arrays:
    views, labels = paired_views(90)
    data = acqh.MultiViewData(views, labels=labels, ids=[f"row{row}" for row in range(90)])
    with built(data, n_components=8, n_codebooks=2) as collection:
        return answers(
            collection,
            {
                "image": {"vector": {"image": clusters(1, 12, seed=1)[0]}},
                "both": {"vector": {"image": views["image"][1], "text": views["text"][1]}},
                "item": {"item": "row7"},
            },
        )

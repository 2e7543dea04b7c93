"""Building a collection: items into the store, a model learnt from them, a code for each."""

import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans

from acqh import __version__
from acqh._core.arrays import Ints
from acqh._core.random import check_rng
from acqh.collection._adding import Adder
from acqh.collection._cache import IndexCache
from acqh.collection._coder import Coder, Encoders
from acqh.collection._feature_table import FeatureTable, GivenFeatures
from acqh.collection._folder import INDEX, ITEMS, MODEL, Facts, start_folder, write_facts
from acqh.collection._rows import Skipped
from acqh.collection._sources import read_items
from acqh.collection._stage import CHUNK_ROWS, BuildSettings, Learnt, stage_data, stage_items
from acqh.collection._store import Store
from acqh.collection._tables import create_store
from acqh.collection._types import Progress
from acqh.data import MultiViewData
from acqh.errors import CollectionError
from acqh.methods.acqh import ACQH

# Whether any label is shared, the usual relevance of the literature, favours items with many
# labels. For 20 label names as queries over 4,000 photographs, 6.8 of the best ten had the label
# with it, 9.5 with this.
_SIMILARITY = "jaccard"
# What a build may be told about learning.
_LEARNING = ("image_encoder", "text_encoder", "n_components", "n_codebooks", "auto_labels")
# Clusters are settled by so many rows.
_CLUSTERED_ROWS = 50_000


@dataclass
class Built:
    """What came of a build, besides the items."""

    learnt: Learnt
    skipped: Skipped = field(default_factory=list)


def build_into(
    folder: Path, name: str, source: Any, settings: BuildSettings, progress: Progress
) -> Built:
    """Make a collection of that name in an empty folder."""
    start_folder(folder)
    # Collections that are made to be searched as one must not both have an item 1.
    generation = secrets.token_hex(8)
    create_store(folder / ITEMS, generation, f"{name}-" if settings.like is not None else "")
    store = Store(folder / ITEMS, durable=False)
    try:
        with TemporaryDirectory(dir=folder, prefix="staging-") as staging:
            if settings.like is not None:
                built = _fill_like(store, source, settings, settings.like, progress)
            else:
                built = _fill(store, Path(staging), source, settings, progress)
        learnt = built.learnt
        facts = Facts(
            name,
            generation,
            learnt.encoders,
            learnt.trained_on,
            learnt.n_trained,
            len(built.skipped),
            __version__,
        )
        write_facts(folder, facts)
        learnt.model.save(folder / MODEL)
        progress(0, None, "writing the index")
        IndexCache(store, learnt.model.codebooks_, folder / INDEX, facts.generation).save()
        store.compact()
    finally:
        store.close()
    return built


def _fill(
    store: Store, staging: Path, source: Any, settings: BuildSettings, progress: Progress
) -> Built:
    """Store the items of a source, learn from them, and give them their codes."""
    skipped: Skipped = []
    if isinstance(source, MultiViewData):
        table: FeatureTable = GivenFeatures(source)
        encoders = Encoders()
        stage_data(store, source, progress)
    else:
        items = read_items(source, image_root=settings.image_root)
        table, encoders = stage_items(staging, store, items, settings, skipped, progress)
    n_items = _check_filled(store, skipped)
    labels, trained_on = _training_labels(store, table, n_items, settings)
    progress(0, None, "learning")
    model = _fit(table, labels, n_items, settings)
    n_trained = sum(1 for names in labels if names)
    _code(store, table, Coder(model), n_items, skipped, settings.strict, progress)
    return Built(Learnt(encoders, model, trained_on, n_trained), skipped)


def _fill_like(
    store: Store, source: Any, settings: BuildSettings, like: Learnt, progress: Progress
) -> Built:
    """Store the items of a source with the codes that another collection would give them."""
    usual = BuildSettings()
    for name in _LEARNING:
        if getattr(settings, name) != getattr(usual, name):
            raise CollectionError(
                f"like brings the encoders and the model, so {name} has nothing to say; leave it "
                "out"
            )
    items = source
    if not isinstance(source, MultiViewData):
        items = read_items(source, image_root=settings.image_root)
    adder = Adder(store, like.encoders, Coder(like.model))
    report = adder.add(
        items, strict=settings.strict, at_once=False, replace=False, progress=progress
    )
    skipped = list(report.skipped)
    _check_filled(store, skipped)
    return Built(like, skipped)


def _check_filled(store: Store, skipped: Skipped) -> int:
    """Return how many items there are, at least one."""
    if n_items := len(store):
        return n_items
    reason = f": {skipped[0][0]}: {skipped[0][1]}" if skipped else ""
    raise CollectionError(f"there are no items to build from{reason}")


def _training_labels(
    store: Store, table: FeatureTable, n_items: int, settings: BuildSettings
) -> tuple[list[tuple[str, ...]], str]:
    """Return the label set of each row to learn from, and what it is."""
    labels = [names for _, _, names in store.staged(0, n_items)]
    labelled = any(labels)
    if settings.auto_labels is None:
        if labelled:
            return labels, "labels"
        raise CollectionError(
            "no item has labels, and without any there is nothing to learn what belongs together "
            "from; fill the column 'labels' for some items (hundreds are enough, the others are "
            "coded by prediction), or let clusters stand for labels with auto_labels=40 "
            "(--auto-labels 40), which finds what is similar in itself, not what people mean"
        )
    if labelled:
        raise CollectionError(
            "auto_labels is for items without labels, but some have labels; leave it out"
        )
    return _cluster(table, n_items, settings)


def _cluster(
    table: FeatureTable, n_items: int, settings: BuildSettings
) -> tuple[list[tuple[str, ...]], str]:
    """Let clusters of the texts, or of the pictures where most have no text, stand for labels."""
    chunks = range(0, n_items, CHUNK_ROWS)
    counts: Counter[str] = Counter()
    for start in chunks:
        features = table.chunk(start, start + CHUNK_ROWS)
        counts.update({name: int(each.sum()) for name, each in features.present.items()})
    view = "text" if 2 * counts["text"] >= n_items else counts.most_common(1)[0][0]
    n_clusters = min(int(settings.auto_labels or 0), counts[view])
    if n_clusters < 2:
        raise CollectionError(f"auto_labels must be at least 2, got {settings.auto_labels}")
    seed = int(check_rng(settings.random_state).integers(2**31))
    means = MiniBatchKMeans(n_clusters, random_state=seed, n_init=3, batch_size=4096)
    sample = table.chunk(0, _CLUSTERED_ROWS)
    means.fit(sample.views[view][sample.present[view]])
    labels: list[tuple[str, ...]] = []
    for start in chunks:
        features = table.chunk(start, start + CHUNK_ROWS)
        found = means.predict(features.views[view])
        labels += [
            (f"cluster {number}",) if there else ()
            for number, there in zip(found, features.present[view], strict=True)
        ]
    return labels, f"{n_clusters} clusters of the {view} features, not labels"


def _fit(
    table: FeatureTable, labels: list[tuple[str, ...]], n_items: int, settings: BuildSettings
) -> ACQH:
    names = sorted({name for row in labels for name in row})
    views = _learnable_views(table, labels, n_items)
    if not views:
        raise CollectionError("no item with labels has a picture or text that can be described")

    def chunks() -> Iterator[MultiViewData]:
        for start, rows in _labelled_rows(labels, n_items):
            features = table.chunk(start, start + CHUNK_ROWS)
            rows = rows[np.any([features.present[name][rows] for name in views], axis=0)]
            if rows.size:
                yield MultiViewData(
                    {name: features.views[name][rows] for name in views},
                    [set(labels[start + row]) for row in rows],
                    label_names=names,
                    present={name: features.present[name][rows] for name in views},
                )

    model = ACQH(
        settings.n_components,
        n_codebooks=settings.n_codebooks,
        similarity=_SIMILARITY,
        random_state=settings.random_state,
    )
    return model.fit(chunks())


def _labelled_rows(labels: list[tuple[str, ...]], n_items: int) -> Iterator[tuple[int, Ints]]:
    for start in range(0, n_items, CHUNK_ROWS):
        part = labels[start : start + CHUNK_ROWS]
        yield start, np.flatnonzero([bool(names) for names in part])


def _learnable_views(table: FeatureTable, labels: list[tuple[str, ...]], n_items: int) -> list[str]:
    """Return the views that some item with labels has."""
    seen: dict[str, bool] = {}
    for start, rows in _labelled_rows(labels, n_items):
        for name, present in table.chunk(start, start + CHUNK_ROWS).present.items():
            seen[name] = seen.get(name, False) or bool(present[rows].any())
    return [name for name, there in seen.items() if there]


def _code(
    store: Store,
    table: FeatureTable,
    coder: Coder,
    n_items: int,
    skipped: Skipped,
    strict: bool,
    progress: Progress,
) -> None:
    """Give every item its code; take out those that have nothing the model knows."""
    unknown: list[str] = []
    for start in range(0, n_items, CHUNK_ROWS):
        rows = store.staged(start, CHUNK_ROWS)
        features = table.chunk(start, start + CHUNK_ROWS)
        codes, coded_by = coder.encode(features, [labels for _, _, labels in rows])
        store.set_codes(
            (start + 1 + row, by, codes[row].tobytes()) for row, by in enumerate(coded_by)
        )
        unknown += [rows[row][0] for row, by in enumerate(coded_by) if not by]
        progress(min(start + CHUNK_ROWS, n_items), n_items, "coding")
    why = "it has no picture, and no word of its text occurs in others"
    if unknown and strict:
        raise CollectionError(f"item {unknown[0]!r}: {why}")
    skipped += [(f"item {identifier!r}", why) for identifier in unknown]
    store.remove(unknown)

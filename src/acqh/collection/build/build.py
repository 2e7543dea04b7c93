"""Building a collection: items into the store, a model learnt from them, a code for each."""

import secrets
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from acqh import __version__
from acqh._core.runtime import Progress
from acqh.collection.build.add import Adder
from acqh.collection.build.describe import CHUNK_ROWS, check_filled, stage_data, stage_items
from acqh.collection.build.learn import learn
from acqh.collection.disk.index import IndexCache
from acqh.collection.disk.layout import INDEX, ITEMS, MODEL, Facts, start_folder, write_facts
from acqh.collection.disk.model import Coder, Encoders
from acqh.collection.disk.settings import BuildSettings, Learnt
from acqh.collection.sources.check import Skipped
from acqh.collection.sources.manifest import open_source
from acqh.collection.store.schema import create_store
from acqh.collection.store.store import Store
from acqh.data import MultiViewData
from acqh.encoders import image_limit
from acqh.errors import CollectionError


def build_into(
    folder: Path, name: str, source: Any, settings: BuildSettings, progress: Progress
) -> Skipped:
    """Make a collection of that name in an empty folder; return what was left out, and why."""
    start_folder(folder)
    # Collections that are made to be searched as one must not both have an item 1.
    generation = secrets.token_hex(8)
    id_prefix = f"{name}-" if settings.like is not None else ""
    create_store(folder / ITEMS, generation, id_prefix)
    store = Store(folder / ITEMS, durable=False)
    try:
        with (
            TemporaryDirectory(dir=folder, prefix="staging-") as staging,
            image_limit(settings.max_pixels),
        ):
            if isinstance(settings.like, Learnt):
                learnt, skipped = _fill_like(store, source, settings, settings.like, progress)
            else:
                learnt, skipped = _fill(store, Path(staging), source, settings, progress)
        facts = Facts(
            name,
            generation,
            learnt.encoders,
            learnt.trained_on,
            learnt.n_trained,
            len(skipped),
            __version__,
            settings,
        )
        write_facts(folder, facts)
        learnt.model.save(folder / MODEL)
        progress(0, None, "writing the index")
        IndexCache(store, learnt.model.codebooks_, folder / INDEX, facts.generation).save()
        store.connections.compact()
    finally:
        store.close()
    return skipped


def _fill(
    store: Store, staging: Path, source: Any, settings: BuildSettings, progress: Progress
) -> tuple[Learnt, Skipped]:
    """Store the items of a source, learn from them, and give them their codes."""
    skipped: Skipped = []
    if isinstance(source, MultiViewData):
        features, encoders = stage_data(store, source, progress), Encoders()
    else:
        items = open_source(source, settings.image_root, settings.label_separator)
        features, encoders = stage_items(staging, store, items, settings, skipped, progress)
    learnt = learn(features, encoders, settings, progress)
    _code(store, features, Coder.of(learnt.model), skipped, settings.strict, progress)
    return learnt, skipped


def _fill_like(
    store: Store, source: Any, settings: BuildSettings, like: Learnt, progress: Progress
) -> tuple[Learnt, Skipped]:
    """Store the items of a source with the codes that another collection would give them."""
    settings.check_like()
    items = source
    if not isinstance(source, MultiViewData):
        options = settings.image_root, settings.label_separator
        items = open_source(source, *options, id_prefix=store.id_prefix)
    adder = Adder(store, like.encoders, Coder.of(like.model))
    report = adder.add(
        items, strict=settings.strict, at_once=False, replace=False, progress=progress
    )
    skipped = list(report.skipped)
    check_filled(store, skipped)
    return like, skipped


def _code(
    store: Store,
    features: MultiViewData,
    coder: Coder,
    skipped: Skipped,
    strict: bool,
    progress: Progress,
) -> None:
    """Give every item its code; take out those that have nothing the model knows."""
    unknown: list[str] = []
    n_items = len(store)
    for start in range(0, n_items, CHUNK_ROWS):
        items = store.staged(start, CHUNK_ROWS)
        end = start + len(items)
        first, last = np.searchsorted(features.ids, [start, end])
        known = features.subset(slice(first, last)) if first < last else None
        described = features.ids[first:last] - start, known
        codes, coded_by = coder.encode([labels for _, _, labels in items], described)
        store.set_codes(
            (start + 1 + row, by, codes[row].tobytes()) for row, by in enumerate(coded_by)
        )
        unknown += [items[row][0] for row, by in enumerate(coded_by) if not by]
        progress(end, n_items, "coding")
    why = "it has no image, and no word of its text occurs in others"
    if unknown and strict:
        raise CollectionError(f"item {unknown[0]!r}: {why}")
    skipped += [(f"item {identifier!r}", why) for identifier in unknown]
    store.remove(unknown)

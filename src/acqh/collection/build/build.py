"""Building a collection: items into the store, a model learnt from them, a code for each."""

import secrets
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from acqh import __version__
from acqh._core.runtime import Progress
from acqh.collection.build.describe import CHUNK_ROWS, stage_data, stage_items
from acqh.collection.build.learn import Learnt, learn
from acqh.collection.disk.index import IndexCache
from acqh.collection.disk.layout import INDEX, ITEMS, MODEL, Facts, start_folder, write_facts
from acqh.collection.disk.model import Coder, Encoders
from acqh.collection.sources.check import Skipped
from acqh.collection.sources.manifest import open_source
from acqh.collection.store.connections import Store
from acqh.collection.store.read import count_items, read_staged
from acqh.collection.store.schema import create_store, open_store
from acqh.collection.store.write import remove_items, set_codes
from acqh.collection.types import BuildSettings
from acqh.data import MultiViewData
from acqh.encoders import image_limit
from acqh.errors import CollectionError


def build_into(
    folder: Path, name: str, source: Any, settings: BuildSettings, progress: Progress
) -> Skipped:
    """Make a collection of that name in an empty folder; return what was left out, and why."""
    start_folder(folder)
    generation = secrets.token_hex(8)
    create_store(folder / ITEMS, generation)
    store = open_store(folder / ITEMS, durable=False)
    try:
        with (
            TemporaryDirectory(dir=folder, prefix="staging-") as staging,
            image_limit(settings.max_pixels),
        ):
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
        IndexCache(store, learnt.model.codebooks_, folder / INDEX).save()
        store.compact()
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
    with store.reading() as connection:
        n_items = count_items(connection)
    for start in range(0, n_items, CHUNK_ROWS):
        with store.reading() as connection:
            items = read_staged(connection, start, CHUNK_ROWS)
        end = start + len(items)
        first, last = np.searchsorted(features.ids, [start, end])
        known = features.subset(slice(first, last)) if first < last else None
        described = features.ids[first:last] - start, known
        codes, coded_by = coder.encode([labels for _, _, labels in items], described)
        set_codes(
            store, ((start + 1 + row, by, codes[row].tobytes()) for row, by in enumerate(coded_by))
        )
        unknown += [items[row][0] for row, by in enumerate(coded_by) if not by]
        progress(end, n_items, "coding")
    why = "it has no image, and no word of its text occurs in others"
    if unknown and strict:
        raise CollectionError(f"item {unknown[0]!r}: {why}")
    skipped += [(f"item {identifier!r}", why) for identifier in unknown]
    remove_items(store, unknown)

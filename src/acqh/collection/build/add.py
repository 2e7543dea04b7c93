"""Adding items to a collection that is there."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from acqh._core.runtime import Progress
from acqh.collection.build.describe import CHUNK_ROWS, IMAGE_BATCH, left_in
from acqh.collection.build.label import label_items
from acqh.collection.disk.layout import Opened
from acqh.collection.disk.model import Described
from acqh.collection.sources.check import Skipped, batches, prepared
from acqh.collection.sources.manifest import Source, data_items, open_source
from acqh.collection.store.connections import Store
from acqh.collection.store.follow import follows_file
from acqh.collection.store.write import insert_items
from acqh.collection.types import AddReport, Item
from acqh.data import MultiViewData
from acqh.errors import CollectionError

_UNKNOWN = "it has nothing that the model knows: no image, no known word, no known label"


def add_items(
    opened: Opened,
    items: Any,
    progress: Progress,
    *,
    strict: bool = False,
    at_once: bool = False,
    replacing: bool = False,
    put: Callable[[list[Item]], list[str | None]] | None = None,
) -> AddReport:
    """Code items and store them, all or nothing or in batches; see `Collection.add`.

    `put`: stores a batch and returns ids, None for what is not to be spoken of.
    """
    skipped: Skipped = []
    ids: list[str] = []
    captions: list[Item] = []
    if isinstance(items, MultiViewData):
        total: int | None = len(items)
    else:
        if not isinstance(items, Source):
            items = open_source([items] if isinstance(items, Item) else items)
        total = items.n_items
        if replacing:
            items = Source(_but_captions(opened.store, items.items, captions), total)
    parts = _coded_parts(opened, items, skipped, strict)
    if at_once:
        # No item is stored before the last one is known to be good.
        parts = iter([[item for part in parts for item in part]])
    for part in parts:
        if put is None:
            stored = insert_items(opened.store, part, replacing=replacing, strict=strict)
            left_in(part, stored, skipped)
        else:
            stored = put(part)
        ids += [identifier for identifier in stored if identifier is not None]
        progress(len(ids) + len(skipped), total, "adding items")
    if captions:
        given = label_items(opened, captions, progress, keep=False)
        ids, skipped = [*ids, *given.ids], [*skipped, *given.skipped]
    return AddReport(tuple(ids), tuple(skipped))


def _but_captions(store: Store, items: Iterator[Item], captions: list[Item]) -> Iterator[Item]:
    """Yield items but those without an image for one that follows a file: it has its image."""
    for item in items:
        is_caption = isinstance(item, Item) and item.image is None and item.id is not None
        if is_caption:
            with store.reading() as connection:
                is_caption = follows_file(connection, item.id)
        if is_caption:
            captions.append(item)
        else:
            yield item


def _coded_parts(
    opened: Opened, items: MultiViewData | Source, skipped: Skipped, strict: bool
) -> Iterator[list[Item]]:
    """Yield items, some at a time, with their codes."""
    if isinstance(items, MultiViewData):
        for part in items.chunks(CHUNK_ROWS):
            described: Described = np.arange(len(part)), part
            yield _coded(opened, data_items(part), described, skipped, strict)
        return
    if not opened.facts.encoders.by_view:
        raise CollectionError(
            "this collection was built from features, so it has no encoders for images and "
            "texts; add MultiViewData with features of the same kind"
        )
    usable = prepared(items.items, skipped, strict=strict)
    for batch in batches(usable, IMAGE_BATCH):
        described = opened.facts.encoders.describe(
            [item.image for item in batch], [item.text for item in batch]
        )
        yield _coded(opened, batch, described, skipped, strict)


def _coded(
    opened: Opened, items: list[Item], described: Described, skipped: Skipped, strict: bool
) -> list[Item]:
    codes, coded_by = opened.coder.encode([tuple(item.labels) for item in items], described)
    found = []
    for item, code, by in zip(items, codes, coded_by, strict=True):
        if by:  # the image has done its duty, and is large
            found.append(replace(item, image=None, coded_by=by, code=code.tobytes()))
        elif strict:
            raise CollectionError(f"{item.origin}: {_UNKNOWN}; nothing was added")
        else:
            skipped.append((item.origin, _UNKNOWN))
    return found

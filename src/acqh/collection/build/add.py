"""Adding items to a collection that is there."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from acqh._core.runtime import Progress
from acqh.collection.build.describe import CHUNK_ROWS, IMAGE_BATCH, left_in
from acqh.collection.build.following import follows_file
from acqh.collection.build.label import label_items
from acqh.collection.disk.model import Coder, Described, Encoders
from acqh.collection.sources.check import Skipped, batches, prepared
from acqh.collection.sources.manifest import Source, data_items, open_source
from acqh.collection.store.store import Store
from acqh.collection.types import AddReport, Item
from acqh.data import MultiViewData
from acqh.errors import CollectionError

_UNKNOWN = "it has nothing that the model knows: no image, no known word, no known label"


class Adder:
    """Codes new items and stores them."""

    def __init__(self, store: Store, encoders: Encoders, coder: Coder) -> None:
        self._store = store
        self._encoders = encoders
        self._coder = coder

    def add(
        self,
        items: Any,
        *,
        progress: Progress,
        strict: bool = False,
        at_once: bool = False,
        replace: bool = False,
        put: Callable[[list[Item]], list[str | None]] | None = None,
    ) -> AddReport:
        """Add items, all or nothing or in batches; see `Collection.add`.

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
            if replace:
                items = Source(self._but_captions(items.items, captions), total)
        parts = self._coded_parts(items, skipped, strict)
        if at_once:
            # No item is stored before the last one is known to be good.
            parts = iter([[item for part in parts for item in part]])
        for part in parts:
            if put is None:
                stored = self._store.insert(part, replace=replace, strict=strict)
                left_in(part, stored, skipped)
            else:
                stored = put(part)
            ids += [identifier for identifier in stored if identifier is not None]
            progress(len(ids) + len(skipped), total, "adding items")
        if captions:
            given = self.label(captions, keep=False, progress=progress)
            ids, skipped = [*ids, *given.ids], [*skipped, *given.skipped]
        return AddReport(tuple(ids), tuple(skipped))

    def _but_captions(self, items: Iterator[Item], captions: list[Item]) -> Iterator[Item]:
        """Yield items but those without an image for one that follows a file: it has its image."""
        for item in items:
            is_caption = isinstance(item, Item) and item.image is None and item.id is not None
            if is_caption and follows_file(self._store, item.id):
                captions.append(item)
            else:
                yield item

    def label(self, items: Iterable[Item], *, keep: bool, progress: Progress) -> AddReport:
        """Give items that are there texts, labels and columns; see `Collection.label`."""
        own = self._store, self._encoders, self._coder
        return label_items(*own, items, keep=keep, progress=progress)

    def _coded_parts(
        self, items: MultiViewData | Source, skipped: Skipped, strict: bool
    ) -> Iterator[list[Item]]:
        """Yield items, some at a time, with their codes."""
        if isinstance(items, MultiViewData):
            for part in items.chunks(CHUNK_ROWS):
                described: Described = np.arange(len(part)), part
                yield self._coded(data_items(part), described, skipped, strict)
            return
        if not self._encoders.by_view:
            raise CollectionError(
                "this collection was built from features, so it has no encoders for images and "
                "texts; add MultiViewData with features of the same kind"
            )
        usable = prepared(items.items, skipped, strict=strict, id_prefix=self._store.id_prefix)
        for batch in batches(usable, IMAGE_BATCH):
            described = self._encoders.describe(
                [item.image for item in batch], [item.text for item in batch]
            )
            yield self._coded(batch, described, skipped, strict)

    def _coded(
        self, items: list[Item], described: Described, skipped: Skipped, strict: bool
    ) -> list[Item]:
        codes, coded_by = self._coder.encode([tuple(item.labels) for item in items], described)
        found = []
        for item, code, by in zip(items, codes, coded_by, strict=True):
            if by:  # the image has done its duty, and is large
                found.append(replace(item, image=None, coded_by=by, code=code.tobytes()))
            elif strict:
                raise CollectionError(f"{item.origin}: {_UNKNOWN}; nothing was added")
            else:
                skipped.append((item.origin, _UNKNOWN))
        return found

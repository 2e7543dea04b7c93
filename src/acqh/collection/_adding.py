"""Adding items to a collection that is there."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from acqh.collection._coder import Coder, Encoders, Features
from acqh.collection._prepare import batches
from acqh.collection._rows import Skipped, as_row, data_rows, prepared
from acqh.collection._sources import read_items
from acqh.collection._stage import CHUNK_ROWS, PICTURE_BATCH
from acqh.collection._store import Store
from acqh.collection._tables import Row
from acqh.collection._types import AddReport, Item, Progress
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
        self, items: Any, *, strict: bool, at_once: bool, replace: bool, progress: Progress
    ) -> AddReport:
        """Add items, all or nothing or in batches; see `Collection.add`."""
        skipped: Skipped = []
        ids: list[str] = []
        parts = self._coded_parts(items, skipped, strict)
        if at_once:
            # No item is stored before the last one is known to be good.
            parts = iter([[row for part in parts for row in part]])
        for rows in parts:
            stored = self._store.insert(rows, replace=replace, strict=strict)
            for row, identifier in zip(rows, stored, strict=True):
                if identifier is None:
                    skipped.append((row.origin, f"there is an item {row.id!r} already"))
                else:
                    ids.append(identifier)
            progress(len(ids), None, "adding items")
        return AddReport(tuple(ids), tuple(skipped))

    def _coded_parts(self, items: Any, skipped: Skipped, strict: bool) -> Iterator[list[Row]]:
        """Yield the rows of items, some at a time, with their codes."""
        if isinstance(items, MultiViewData):
            for part in items.chunks(CHUNK_ROWS):
                features = Features(dict(part.views), dict(part.present))
                yield self._coded(data_rows(part), features, skipped, strict)
            return
        if not self._encoders.by_view:
            raise CollectionError(
                "this collection was built from features, so it has no encoders for images and "
                "texts; add MultiViewData with features of the same kind"
            )
        source = [items] if isinstance(items, Item) else items
        usable = prepared(read_items(source), skipped, strict=strict)
        for batch in batches(usable, PICTURE_BATCH):
            features = self._encoders.describe(
                [item.picture for item in batch], [item.text for item in batch]
            )
            yield self._coded([as_row(item) for item in batch], features, skipped, strict)

    def _coded(
        self, rows: list[Row], features: Features, skipped: Skipped, strict: bool
    ) -> list[Row]:
        codes, coded_by = self._coder.encode(features, [row.labels for row in rows])
        found = []
        for row, code, by in zip(rows, codes, coded_by, strict=True):
            if by:
                found.append(dataclasses.replace(row, coded_by=by, code=code.tobytes()))
            elif strict:
                raise CollectionError(f"{row.origin}: {_UNKNOWN}; nothing was added")
            else:
                skipped.append((row.origin, _UNKNOWN))
        return found

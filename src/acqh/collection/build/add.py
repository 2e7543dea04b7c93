"""Add items to an existing collection, and annotate its items with texts and labels."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from acqh._core.fields import FILE, FILE_FIELDS, IMAGE
from acqh._core.runtime import Progress
from acqh.collection.build.build import kept_image
from acqh.collection.build.detect import with_tags
from acqh.collection.build.sources import (
    Skipped,
    check_fields,
    data_items,
    open_source,
    prepared,
)
from acqh.collection.model import (
    CHUNK_ROWS,
    IMAGE_BATCH,
    ItemFeatures,
    encode_items,
    encode_views,
    merge_views,
)
from acqh.collection.opened import OpenCollection, Opened
from acqh.collection.store.file import Store
from acqh.collection.store.items import (
    changing,
    find_item,
    insert_items,
    note_added,
    read_thumbnail,
)
from acqh.collection.store.tracked import tracked_files
from acqh.collection.types import AddReport, Item, NoLabels, NoText
from acqh.data import MultiViewData
from acqh.encoders.network import batches
from acqh.errors import CollectionError
from acqh.quantize import Drift

_UNKNOWN = "it has nothing that the model knows: no image, no known word, no known label"
# Items that are annotated in one transaction, which includes the encoding of their texts.
_ANNOTATED = 256


def add_items(
    collection: OpenCollection,
    items: Any,
    progress: Progress,
    *,
    strict: bool = False,
    replacing: bool = False,
    put: Callable[[Store, list[Item]], tuple[list[str], Skipped]] | None = None,
) -> AddReport:
    """Encode items and store them, all or none or in batches; see `Collection.add`.

    `put`: stores a batch in place of `insert_items`.
    """
    skipped: Skipped = []
    ids: list[str] = []
    captions: list[Item] = []
    added = [Drift(None)]
    opened = collection.opened
    source = open_source([items] if isinstance(items, Item) else items)
    total: int | None
    parts: Iterable[MultiViewData | list[Item]]
    if isinstance(source, MultiViewData):
        total, parts = len(source), source.chunks(CHUNK_ROWS)
    elif not opened.facts.encoders:
        raise CollectionError(
            "this collection was built from features, so it has no encoders for images and "
            "texts; add MultiViewData with features of the same kind"
        )
    else:
        raw = _but_captions(opened.store, source.items, captions) if replacing else source.items
        usable = prepared(raw, skipped, strict=strict, ocr=opened.facts.settings.ocr)
        total, parts = source.n_items, batches(usable, IMAGE_BATCH)
    put = put or partial(insert_items, replacing=replacing, strict=strict)

    def add(opened: Opened, part: MultiViewData | list[Item]) -> tuple[list[str], Skipped, Drift]:
        encoded, unknown, drift = _encode(opened, part, strict)
        stored, not_stored = put(opened.store, encoded)
        return stored, unknown + not_stored, drift

    def add_all(now: Opened, encoded: list[Item]) -> tuple[list[str], Skipped]:
        if now is not opened:  # the collection was retrained in the meantime
            images = (replace(item, image=kept_image(item, item.thumbnail)) for item in encoded)
            again = (_encode(now, part, strict)[0] for part in batches(images, IMAGE_BATCH))
            encoded = [item for part in again for item in part]
        return put(now.store, encoded)

    if strict:  # no item is stored before all are encoded
        results = [_encode(opened, part, strict) for part in parts]
        all_items = [item for encoded, *_ in results for item in encoded]
        ids, _ = collection.apply(partial(add_all, encoded=all_items))
        added += [drift for *_, drift in results]
        progress(len(ids), total, "adding items")
    for part in () if strict else parts:
        stored, not_stored, drift = collection.apply(partial(add, part=part))
        ids += stored
        skipped += not_stored
        added.append(drift)
        progress(len(ids) + len(skipped), total, "adding items")
    if ids:
        drift = reduce(Drift.plus, added)
        collection.apply(lambda opened: note_added(opened.store, drift))
    if captions:
        report = annotate_items(collection, captions, progress, keep=False)
        ids, skipped = [*ids, *report.ids], [*skipped, *report.skipped]
    return AddReport(tuple(ids), tuple(skipped))


def _but_captions(store: Store, items: Iterator[Item], captions: list[Item]) -> Iterator[Item]:
    """Yield items, except items without an image that would replace one with a tracked file."""
    for item in items:
        is_caption = isinstance(item, Item) and item.image is None and item.id is not None
        if is_caption:
            with store.reading() as connection:
                is_caption = bool(tracked_files(connection, "id = ?", item.id))
        if is_caption:
            captions.append(item)
        else:
            yield item


def _encode(
    opened: Opened, part: MultiViewData | list[Item], strict: bool
) -> tuple[list[Item], Skipped, Drift]:
    """Return items with codes and suggested tags, skipped ones, and the quantization error."""
    if isinstance(part, MultiViewData):
        items: Sequence[Item] = data_items(part)
        item_features: ItemFeatures = np.arange(len(part)), part
    else:
        items, item_features = _with_tags(opened, part)
    labels = [tuple(item.labels) for item in items]
    codes, encoded_from = opened.coder.encode(labels, item_features)
    encoded, skipped = [], []
    for item, code, by in zip(items, codes, encoded_from, strict=True):
        if by:  # the image is large and not needed any more
            encoded.append(replace(item, image=None, encoded_from=by, code=code.tobytes()))
        elif strict:
            raise CollectionError(f"{item.origin}: {_UNKNOWN}; nothing was added")
        else:
            skipped.append((item.origin, _UNKNOWN))
    return encoded, skipped, opened.coder.fit_of(codes, labels, item_features)


def _with_tags(opened: Opened, items: Sequence[Item]) -> tuple[Sequence[Item], ItemFeatures]:
    """Return items with suggested tags, and their features."""
    images, texts = zip(*((item.image, item.text) for item in items), strict=True)
    views = encode_views(opened.facts.encoders, images, texts)
    if "image" in views:
        items = with_tags(items, opened.facts.encoders["image"], *views["image"])
    return items, merge_views(views)


def annotate_items(
    collection: OpenCollection, items: Iterable[Item], progress: Progress, *, keep: bool
) -> AddReport:
    """Set texts, labels and fields of items; `keep`: missing values do not change an item."""
    skipped: Skipped = []
    ids: list[str] = []
    for batch in batches(items, _ANNOTATED):
        done, missing = collection.apply(partial(_annotate, annotations=batch, keep=keep))
        ids += done
        skipped += missing
        progress(len(ids) + len(skipped), None, "labelling items")
    return AddReport(tuple(ids), tuple(skipped))


def _annotate(opened: Opened, annotations: Sequence[Item], keep: bool) -> tuple[list[str], Skipped]:
    """Annotate items in one transaction; return the ids of annotated ones, and skipped ones."""
    skipped: Skipped = []
    changes: dict[str, tuple[Item, Item]] = {}  # by id; the last of several annotations counts
    with changing(opened.store) as writer:
        for annotation in annotations:
            try:
                checked = check_fields(annotation)
                _, old = find_item(writer.connection, _id_meant(writer.connection, checked))
                new = _with(old, checked, keep)
                is_text_alone = {"labels", "text"}.issuperset(old.encoded_from.split("+"))
                if is_text_alone and old.text and not new.text:
                    raise CollectionError("without its text it has neither image nor text")
            except CollectionError as error:
                skipped.append((annotation.name, str(error)))
            else:
                changes[old.id] = old, new
        changed = [(old, new) for old, new in changes.values() if old != new]
        for item in _recoded(opened, writer.connection, changed) if changed else ():
            has_one = item.has_thumbnail
            thumbnail = read_thumbnail(writer.connection, item.id) if has_one else None
            writer.remove(item.id)
            writer.insert(replace(item, thumbnail=thumbnail))
    return list(changes), skipped


def _id_meant(connection: sqlite3.Connection, item: Item) -> str:
    if item.id is not None:
        return str(item.id)
    name = item.fields.get(FILE) or item.fields.get(IMAGE)
    if not isinstance(name, str):
        raise CollectionError("it has no id, file or image that says which item is meant")
    ids = [file.id for file in tracked_files(connection, "name = ?", name)]
    if len(ids) > 1:
        several = ", ".join(map(repr, ids))
        raise CollectionError(f"{name!r} is a file of several folders; give the id: {several}")
    return ids[0] if ids else name


def _with(old: Item, annotation: Item, keep: bool) -> Item:
    """Return an item with its annotations, also empty ones; the fields of its file are kept.

    `keep`: values without an annotation are kept too.
    """
    base = old.fields if keep else {k: v for k, v in old.fields.items() if k in FILE_FIELDS}
    updates = {k: v for k, v in annotation.fields.items() if k not in (*FILE_FIELDS, IMAGE)}
    fields = {
        k: v for k, v in {**base, **updates}.items() if k not in updates or v not in (None, "")
    }
    is_text_kept = keep and isinstance(annotation.text, NoText)
    are_labels_kept = keep and isinstance(annotation.labels, NoLabels)
    return replace(
        old,
        text=old.text if is_text_kept else annotation.text,
        labels=old.labels if are_labels_kept else annotation.labels,
        fields=fields,
    )


def _recoded(
    opened: Opened, connection: sqlite3.Connection, changes: Sequence[tuple[Item, Item]]
) -> list[Item]:
    """Return the new ones of old and new items, encoded from their new texts and labels.

    The contribution of an image is taken from the stored code. If only the image is left, it is
    encoded again.
    """
    coder, encoders = opened.coder, opened.facts.encoders
    texts = {view: encoder for view, encoder in encoders.items() if view == "text"}

    def part(items: Sequence[Item]) -> tuple[list[Sequence[str]], ItemFeatures]:
        item_features = encode_items(texts, [], [item.text for item in items])
        return [item.labels for item in items], item_features

    before, after = zip(*changes, strict=True)
    text_parts = part(after)
    codes, encoded_from = coder.encode(*text_parts)
    old_codes = np.array([list(old.code) for old in before], dtype=np.uint8)
    moved = coder.encode_change(old_codes, part(before), text_parts)
    recoded = []
    for row, (old, new) in enumerate(changes):
        rest = [
            source for source in old.encoded_from.split("+") if source not in ("labels", *texts)
        ]
        is_changed = (old.text, old.labels) != (new.text, new.labels)
        if not is_changed or not (encoded_from[row] or rest):
            code, by = old.code, old.encoded_from
        elif not encoded_from[row]:
            code, by = _code_of_image(opened, connection, new), "+".join(rest)
        elif rest:
            parts = {*encoded_from[row].split("+"), *rest}
            order = ("labels", *coder.model.n_features_in_)
            code, by = moved[row].tobytes(), "+".join(source for source in order if source in parts)
        else:
            code, by = codes[row].tobytes(), encoded_from[row]
        recoded.append(replace(new, code=code, encoded_from=by))
    return recoded


def _code_of_image(opened: Opened, connection: sqlite3.Connection, item: Item) -> bytes:
    """Return the code of an item from its image alone, if that is stored."""
    if not item.has_thumbnail or "image" not in opened.facts.encoders:
        return item.code
    image = kept_image(item, read_thumbnail(connection, item.id))
    codes, _ = opened.coder.encode([()], encode_items(opened.facts.encoders, [image], [""]))
    return bytes(codes[0])

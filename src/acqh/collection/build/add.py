"""Add items to an existing collection, and annotate its items with texts and labels."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from acqh._core.fields import FILE, FILE_FIELDS, IMAGE
from acqh._core.runtime import Progress
from acqh.collection.build.build import kept_image
from acqh.collection.build.detect import with_tags
from acqh.collection.build.folder import Source
from acqh.collection.build.sources import (
    Skipped,
    check_fields,
    data_items,
    open_source,
    prepared,
)
from acqh.collection.disk.model import CHUNK_ROWS, IMAGE_BATCH, ItemFeatures, encode_items
from acqh.collection.disk.opened import OpenCollection, Opened
from acqh.collection.store.file import Store
from acqh.collection.store.items import find_item, insert_items, note_added, read_thumbnail
from acqh.collection.store.tracked import ids_of_file, relabel, tracks_file
from acqh.collection.types import AddReport, Item, NoLabels, NoText
from acqh.data import MultiViewData
from acqh.encoders.network import batches
from acqh.errors import CollectionError, MissingItemError
from acqh.quantize import Drift

_UNKNOWN = "it has nothing that the model knows: no image, no known word, no known label"


def add_items(
    collection: OpenCollection,
    items: Any,
    progress: Progress,
    *,
    strict: bool = False,
    replacing: bool = False,
    put: Callable[[Store, list[Item]], list[str | None]] | None = None,
) -> AddReport:
    """Encode items and store them, all or none or in batches; see `Collection.add`.

    `put`: stores a batch and returns the ids, None for items that are not reported.
    """
    skipped: Skipped = []
    ids: list[str] = []
    captions: list[Item] = []
    items = open_source([items] if isinstance(items, Item) else items)
    total = len(items) if isinstance(items, MultiViewData) else items.n_items
    if replacing and isinstance(items, Source):
        items = Source(_but_captions(collection.opened.store, items.items, captions), total)
    added: list[Drift] = []
    parts = _coded_parts(collection, items, skipped, strict, added)
    if strict:
        # No item is stored before all are checked.
        all_parts = list(parts)
        models = {opened for opened, _ in all_parts}
        one = models.pop() if len(models) == 1 else None
        parts = iter([(one, [item for _, part in all_parts for item in part])])

    def store(opened: Opened, part: list[Item], coded_with: Opened | None) -> list[str | None]:
        if opened is not coded_with:  # the collection was retrained in the meantime
            part = _coded_again(opened, part, skipped, strict)
        if put is not None:
            return put(opened.store, part)
        stored = insert_items(opened.store, part, replacing=replacing, strict=strict)
        skipped.extend(
            (item.origin, f"there is an item {item.id!r} already")
            for item, identifier in zip(part, stored, strict=True)
            if identifier is None
        )
        return stored

    for coded_with, part in parts:
        stored = collection.apply(partial(store, part=part, coded_with=coded_with))
        ids += [identifier for identifier in stored if identifier is not None]
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
                is_caption = tracks_file(connection, item.id)
        if is_caption:
            captions.append(item)
        else:
            yield item


def _coded_parts(
    collection: OpenCollection,
    items: MultiViewData | Source,
    skipped: Skipped,
    strict: bool,
    added: list[Drift],
) -> Iterator[tuple[Opened | None, list[Item]]]:
    """Yield items in batches, with their codes, and the generation that encoded them.

    Adds the quantization error of the codes to `added`.
    """
    if isinstance(items, MultiViewData):
        for part in items.chunks(CHUNK_ROWS):
            opened, item_features = collection.opened, (np.arange(len(part)), part)
            yield opened, _coded(opened, data_items(part), item_features, skipped, strict, added)
        return
    if not collection.opened.facts.encoders:
        raise CollectionError(
            "this collection was built from features, so it has no encoders for images and "
            "texts; add MultiViewData with features of the same kind"
        )
    usable = prepared(items.items, skipped, strict=strict, ocr=collection.opened.facts.settings.ocr)
    for batch in batches(usable, IMAGE_BATCH):
        opened = collection.opened
        features = _item_features(opened, batch)
        tagged = _with_tags(opened, batch, features)
        yield opened, _coded(opened, tagged, features, skipped, strict, added)


def _item_features(opened: Opened, items: Sequence[Item]) -> ItemFeatures:
    images, texts = zip(*((item.image, item.text) for item in items), strict=True)
    return encode_items(opened.facts.encoders, images, texts)


def _with_tags(opened: Opened, items: list[Item], item_features: ItemFeatures) -> list[Item]:
    """Return items with suggested tags."""
    rows, features = item_features
    if features is None or "image" not in features.views:
        return items
    chosen = [items[row] for row in rows.tolist()]
    view = features.views["image"], features.present["image"]
    tagged = with_tags(chosen, opened.facts.encoders["image"], *view)
    by_row = dict(zip(rows.tolist(), tagged, strict=True))
    return [by_row.get(row, item) for row, item in enumerate(items)]


def _coded_again(
    opened: Opened, items: Iterable[Item], skipped: Skipped, strict: bool
) -> list[Item]:
    """Encode items with another model, from their stored images."""
    coded: list[Item] = []
    for batch in batches(items, IMAGE_BATCH):
        with_images = [replace(item, image=kept_image(item, item.thumbnail)) for item in batch]
        coded += _coded(
            opened, with_images, _item_features(opened, with_images), skipped, strict, []
        )
    return coded


def _coded(
    opened: Opened,
    items: list[Item],
    item_features: ItemFeatures,
    skipped: Skipped,
    strict: bool,
    added: list[Drift],
) -> list[Item]:
    labels = [tuple(item.labels) for item in items]
    codes, encoded_from = opened.coder.encode(labels, item_features)
    added.append(opened.coder.fit_of(codes, labels, item_features))
    encoded = []
    for item, code, by in zip(items, codes, encoded_from, strict=True):
        if by:  # the image is large and not needed any more
            encoded.append(replace(item, image=None, encoded_from=by, code=code.tobytes()))
        elif strict:
            raise CollectionError(f"{item.origin}: {_UNKNOWN}; nothing was added")
        else:
            skipped.append((item.origin, _UNKNOWN))
    return encoded


def annotate_items(
    collection: OpenCollection, items: Iterable[Item], progress: Progress, *, keep: bool
) -> AddReport:
    """Set texts, labels and fields of items; `keep`: missing values do not change an item."""
    skipped: Skipped = []
    ids: list[str] = []
    for batch in batches(items, CHUNK_ROWS):
        with collection.opened.store.reading() as connection:
            annotations = _by_id(connection, batch, skipped)
        while (
            annotations
        ):  # items that another process has changed in the meantime are encoded again
            done, missing, late = collection.apply(
                partial(_label, annotations=annotations, keep=keep)
            )
            ids += done
            skipped += missing
            annotations = {identifier: annotations[identifier] for identifier in late}
        progress(len(ids) + len(skipped), None, "labelling items")
    return AddReport(tuple(ids), tuple(skipped))


def _label(
    opened: Opened, annotations: Mapping[str, Item], keep: bool
) -> tuple[list[str], Skipped, set[str]]:
    """Annotate items; return the annotated ids, the unknown ones, and those changed by others."""
    read, missing = {}, []
    with opened.store.reading() as connection:
        for identifier, item in annotations.items():
            try:
                read[identifier] = find_item(connection, identifier)
            except MissingItemError as error:
                missing.append((item.name, str(error)))
    annotated = {id_: _with(old, annotations[id_], keep) for id_, (_, old) in read.items()}
    for id_, (_, old) in read.items():
        is_text_alone = {"labels", "text"}.issuperset(old.encoded_from.split("+"))
        if is_text_alone and old.text and not annotated[id_].text:
            missing.append(
                (annotations[id_].name, "without its text it has neither image nor text")
            )
            del annotated[id_]
    new = [(*read[id_], item) for id_, item in annotated.items() if item != read[id_][1]]
    done = relabel(opened.store, _recoded(opened, new)) if new else []
    late = {str(item.id) for (*_, item), well in zip(new, done, strict=True) if not well}
    return [identifier for identifier in annotated if identifier not in late], missing, late


def _by_id(
    connection: sqlite3.Connection, items: Iterable[Item], skipped: Skipped
) -> dict[str, Item]:
    """Return annotations by the id of the annotated item; the last of several."""
    by_id = {}
    for item in items:
        try:
            checked = check_fields(item)
            by_id[_id_meant(connection, checked)] = checked
        except CollectionError as error:
            skipped.append((item.name, str(error)))
    return by_id


def _id_meant(connection: sqlite3.Connection, item: Item) -> str:
    if item.id is not None:
        return str(item.id)
    name = item.fields.get(FILE) or item.fields.get(IMAGE)
    if not isinstance(name, str):
        raise CollectionError("it has no id, file or image that says which item is meant")
    ids = ids_of_file(connection, name)
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


def _recoded(opened: Opened, changes: Sequence[tuple[int, Item, Item]]) -> list[tuple[int, Item]]:
    """Return items with their numbers, encoded from their new texts and labels.

    The contribution of an image is taken from the stored code. If only the image is left, it is
    encoded again.
    """
    coder, encoders = opened.coder, opened.facts.encoders
    texts = {view: encoder for view, encoder in encoders.items() if view == "text"}

    def part(items: Sequence[Item]) -> tuple[list[Sequence[str]], ItemFeatures]:
        item_features = encode_items(texts, [], [item.text for item in items])
        return [item.labels for item in items], item_features

    is_changed = [(old.text, old.labels) != (new.text, new.labels) for _, old, new in changes]
    before, after = [old for _, old, _ in changes], [new for _, _, new in changes]
    text_parts = part(after)
    codes, encoded_from = coder.encode(*text_parts)
    old_codes = np.array([list(old.code) for old in before], dtype=np.uint8)
    moved = coder.encode_change(old_codes, part(before), text_parts)
    recoded = []
    for row, (number, old, new) in enumerate(changes):
        rest = [
            source for source in old.encoded_from.split("+") if source not in ("labels", *texts)
        ]
        if not is_changed[row] or not (encoded_from[row] or rest):
            code, by = old.code, old.encoded_from
        elif not encoded_from[row]:
            code, by = _code_of_image(opened, new), "+".join(rest)
        elif rest:
            parts = {*encoded_from[row].split("+"), *rest}
            order = ("labels", *coder.model.n_features_in_)
            code, by = moved[row].tobytes(), "+".join(source for source in order if source in parts)
        else:
            code, by = codes[row].tobytes(), encoded_from[row]
        recoded.append((number, replace(new, code=code, encoded_from=by)))
    return recoded


def _code_of_image(opened: Opened, item: Item) -> bytes:
    """Return the code of an item from its image alone, if that is stored."""
    if not item.has_thumbnail or "image" not in opened.facts.encoders:
        return item.code
    with opened.store.reading() as connection:
        thumbnail = read_thumbnail(connection, item.id)
    image_alone = replace(item, image=kept_image(item, thumbnail), text="")
    codes, _ = opened.coder.encode([()], _item_features(opened, [image_alone]))
    return bytes(codes[0])

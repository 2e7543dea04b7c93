"""Metadata that acqh detects itself: date, kind and suggested tags of an image."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from acqh._core.arrays import Bools, Matrix
from acqh._core.dates import date_of_file
from acqh._core.fields import (
    DATE,
    DATE_SOURCE,
    DETECTED,
    FILE,
    IMAGE,
    KIND,
    MODIFIED,
    TAGS,
    TEXT_IN_IMAGE,
)
from acqh.collection.build.kinds import detect_kind
from acqh.collection.disk.model import makes_builtin_features
from acqh.collection.types import Item
from acqh.encoders import builtin_model
from acqh.encoders.images import image_date, read_header
from acqh.encoders.ocr import may_have_text, read_text
from acqh.errors import CollectionError

# Suggested tags of an item.
_MAX_TAGS = 3


def detect(item: Item, image: Any, ocr: str | None = None) -> dict[str, Any]:
    """Return what can be found out about an item with an image; what is known already stays.

    `item`: as given, with its image. `image`: as it was read. `ocr`: see `Collection.build`.
    """
    detected = dict(item.detected)
    # A frame that was read before is the image of the item.
    if is_video := "is_video" in {**image.info, **getattr(item.image, "info", {})}:
        detected[KIND] = "video"
    if KIND not in detected:
        is_decoded = not isinstance(item.image, str | PathLike | bytes)
        is_kept = is_decoded and bool(item.folder)
        original = Path(item.folder, item.fields[FILE]) if is_kept else item.image
        size, has_camera = read_header(original) or (getattr(original, "size", image.size), False)
        detected[KIND] = detect_kind(image, size, _name_of(item), has_camera=has_camera)
    if ocr is not None and not is_video and (ocr == "all" or may_have_text(image)):
        detected.setdefault(TEXT_IN_IMAGE, read_text(item.image))
    if DATE not in item.fields and DATE not in detected:
        date, source = _date(item)
        if date:
            detected |= {DATE: date, DATE_SOURCE: source}
    return detected


def _date(item: Item) -> tuple[str, str]:
    fields = item.fields
    is_file = isinstance(item.image, str | PathLike | bytes)
    # Of a tracked file, the date in its EXIF data would be a field.
    if MODIFIED not in fields and is_file and (date := image_date(item.image)) is not None:
        return date, "exif"
    return date_of_file(_name_of(item), str(fields.get(MODIFIED, "")))


def _name_of(item: Item) -> str:
    """Return the name of an item's image file; empty for none."""
    name = item.fields.get(FILE) or item.fields.get(IMAGE)
    if name is None and isinstance(item.image, str | PathLike):
        name = str(item.image)
    return str(name or "")


def with_tags(
    items: Sequence[Item], encoder: Any, features: Matrix, present: Bools
) -> Sequence[Item]:
    """Return items with the tags that the built-in model suggests, in place of earlier ones.

    `features`: (n_items, n_features) of their images, by `encoder`; rows that are not `present` are
    ignored. Tags need the features of the built-in model; otherwise the items stay as they are.
    """
    if not makes_builtin_features(encoder) or not present.any():
        return items
    suggested = iter(builtin_model().suggest_tags(features[present], max_tags=_MAX_TAGS))
    return [
        replace(item, detected=_replaced(item.detected, TAGS, dict(next(suggested)))) if is_image
        else item
        for item, is_image in zip(items, present.tolist(), strict=True)
    ]  # fmt: skip


def _replaced(detected: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return detected metadata with another value; an empty one removes it."""
    others = {key: metadata for key, metadata in detected.items() if key != name}
    return others | ({name: value} if value else {})


def check_detected(detected: Mapping[str, Any]) -> dict[str, Any]:
    """Return detected metadata; raise CollectionError if they are of unknown names or kinds."""
    for name, value in detected.items():
        if name not in DETECTED or not isinstance(value, Mapping if name == TAGS else str):
            raise CollectionError(
                f"detected metadata {name!r} is unknown or a {type(value).__name__}; leave it out"
            )
    return dict(detected)

"""Metadata that acqh detects itself: date, kind and suggested tags of an image."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Bools, Floats, Matrix
from acqh._core.dates import date_of_file
from acqh._core.fields import (
    DATE,
    DATE_SOURCE,
    DETECTED,
    FILE,
    IMAGE,
    KIND,
    KINDS,
    MODIFIED,
    PHOTO,
    TAGS,
    TEXT_IN_IMAGE,
)
from acqh._core.imports import require
from acqh.collection.model import makes_builtin_features
from acqh.collection.types import Item
from acqh.encoders import builtin_model
from acqh.encoders.images import image_date, read_header
from acqh.encoders.ocr import may_have_text, read_text
from acqh.errors import CollectionError

# Statistics do not depend on the size of an image: they are of so many pixels on the longest side.
_SIDE = 128
_SCREENSHOT_NAME = re.compile(
    r"screen[-_ ]?shot|bildschirmfoto|capture[-_ ]d.?[-_ ]?.cran|screen[-_ ]?cap", re.IGNORECASE
)
_FACTS = tomllib.loads((files("acqh.collection.build") / "kinds.toml").read_text("utf-8"))
_SCREENS = {int(width): heights for width, heights in _FACTS["screens"].items()}
_WEIGHTS: Floats = np.array([*_FACTS["weights"].values()])
# Least probability of being no photo. With the settings of a camera, of the size of a screen, and
# else; chosen so that at most 2 in 100 photographs of COCO, MIRFlickr25K and Flickr8k are taken for
# something else. With 0.95, it would be 1 in 100, but 17 instead of 6 in 100 emoji are photos then.
_WITH_CAMERA, _AS_SCREEN, _ELSE = 0.99, 0.5, 0.8


def detect_kind(image: Any, size: tuple[int, int], name: str, *, has_camera: bool) -> str:
    """Return the kind of an image.

    `image`: as encoders get it (RGB). `size`: in pixels, of the original. `name`: of the file.
    `has_camera`: whether its EXIF data have settings of a camera.

    Examples
    --------
    >>> from PIL import Image
    >>> page = Image.new("RGB", (300, 400), "white")
    >>> detect_kind(page, (1080, 2400), "Screenshot_2023.png", has_camera=False)
    'screenshot'
    """
    is_screen = max(size) in _SCREENS.get(min(size), ())
    if not has_camera and _SCREENSHOT_NAME.search(name):
        return "screenshot"
    scores = np.append(statistics_of(image), 1.0) @ _WEIGHTS
    odds = np.exp(scores - scores.max())
    others = odds / odds.sum()
    least = _WITH_CAMERA if has_camera else _AS_SCREEN if is_screen else _ELSE
    if 1 - others[0] < least:
        return PHOTO
    if is_screen and not has_camera:
        return "screenshot"
    return KINDS[1 + int(others[1:].argmax())]


def statistics_of(image: Any) -> Floats:
    """Return what distinguishes kinds of images, (14,): colours, edges, brightness and shape."""
    small = image.copy()
    small.thumbnail((_SIDE, _SIDE), require("PIL.Image").Resampling.NEAREST)
    pixels = np.asarray(small.convert("RGB")).astype(np.int32)
    red, green, blue = np.moveaxis(pixels >> 3, 2, 0)
    counts = np.sort(np.bincount((red << 10 | green << 5 | blue).ravel()))[::-1]
    shares = counts / counts.sum()
    across = np.abs(np.diff(pixels, axis=1)).max(axis=2, initial=0)
    down = np.abs(np.diff(pixels, axis=0)).max(axis=2, initial=0)
    steps = np.concatenate([across.ravel(), down.ravel(), [0]])
    highest, lowest = pixels.max(axis=2), pixels.min(axis=2)
    spread = highest - lowest
    light, strong = (lowest >= 180).mean(), (steps > 70).mean()
    return np.array(
        [
            shares[0],
            shares[:8].sum(),
            np.log((shares > 0).mean() * len(shares) / counts.sum() + 1e-3),
            (steps <= 3).mean(),
            ((steps > 6) & (steps <= 40)).mean(),
            strong,
            (spread / np.maximum(highest, 1)).mean(),
            (spread <= 20).mean(),
            light,
            (highest <= 50).mean(),
            (across.max(axis=1, initial=0) <= 8).mean(),
            (down.max(axis=0, initial=0) <= 8).mean(),
            np.log(max(image.size) / min(image.size)),
            light * strong,
        ]
    )


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
        header = read_header(original)
        size = getattr(original, "size", image.size) if header is None else header.size
        has_camera = header is not None and header.has_camera
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

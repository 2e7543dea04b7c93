"""Items as they come, made ready to be stored and described."""

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import BytesIO
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from acqh._core.imports import require
from acqh.collection.types import FILE, Item
from acqh.encoders import ImageLike, read_image
from acqh.errors import AcqhError, CollectionError

# Longest side of what encoders get to see: more than any of them uses, and a batch stays small.
_WORKING_SIDE = 512
_THUMBNAIL_SIDE = 128
_THUMBNAIL_QUALITY = 80
MAX_TEXT_CHARACTERS = 1_000_000
MAX_ID_CHARACTERS = 1_000
# Of labels and names of columns.
MAX_NAME_CHARACTERS = 1_000
_MAX_INTEGER_BITS = 4_096
_ID_DIGITS = 16

# What was left out, and why.
Skipped = list[tuple[str, str]]


def prepared(items: Iterable[Any], skipped: Skipped, *, strict: bool) -> Iterator[Item]:
    """Yield items that can be used; note the others, or raise for the first of them.

    Those without an id get one: the path of their image, or a digest of their
    content. It is the same whenever the same items come again, in the same order.
    """
    n_called: Counter[str] = Counter()
    for item in items:
        try:
            ready = prepare(item)
        except AcqhError as error:
            name = getattr(item, "name", "an item")
            if strict:
                raise type(error)(f"{name}: {error}") from error
            skipped.append((name, str(error)))
            continue
        if ready.id is None:
            usual = _usual_id(item, ready)
            n_called[usual] += 1
            again = n_called[usual]
            ready = replace(ready, id=usual if again == 1 else f"{usual}#{again}")
        yield ready


def _usual_id(given: Item, ready: Item) -> str:
    """Return what an item without an id is called, from the item as given and as prepared."""
    if isinstance(given.image, str | PathLike):
        name = str(given.image)
        is_text = name.isprintable() and len(name) <= MAX_ID_CHARACTERS // 2
        return name if is_text else hashlib.sha256(os.fsencode(name)).hexdigest()
    content = json.dumps([ready.text, ready.labels, ready.columns], sort_keys=True).encode()
    return hashlib.sha256(content + (ready.thumbnail or b"")).hexdigest()[:_ID_DIGITS]


def prepare(item: Item) -> Item:
    """Check an item and read its image.

    Raises CollectionError: it has neither image nor text, or a field that cannot be stored. Raises
    ImageError: the image cannot be read, or is too large.
    """
    checked = check_fields(item)
    if item.image is None and not checked.text:
        raise CollectionError("it has neither image nor text")
    if item.image is None:
        return checked
    image = working_image(item.image, item.name)
    return replace(checked, image=image, has_thumbnail=True, thumbnail=make_thumbnail(image))


def check_fields(item: Item) -> Item:
    """Return an item without its image, fit to be stored; raise CollectionError."""
    if not isinstance(item, Item):
        raise CollectionError(f"items must be acqh.collection.Item, got {type(item).__name__}")
    text = _checked_text(item.text or "", "text", MAX_TEXT_CHARACTERS).strip()
    if item.id is not None and not _checked_text(item.id, "id", MAX_ID_CHARACTERS):
        raise CollectionError("the id is empty; leave it out to have one made")
    labels = tuple(_checked_text(name, "label", MAX_NAME_CHARACTERS) for name in item.labels)
    columns = {_checked_name(name): _checked_value(v, name) for name, v in item.columns.items()}
    folder = item.folder if isinstance(columns.get(FILE), str) else ""
    return Item(None, text, tuple(filter(None, labels)), item.id, columns, item.name, folder=folder)


def working_image(source: ImageLike, known_as: str = "") -> Any:
    """Read an image, no larger than encoders need it; raise ImageError.

    `known_as`: what is said before the error anyway.
    """
    name = "the image"
    if isinstance(source, str | PathLike):
        path = Path(source)
        name = "it" if known_as and path.as_posix().endswith(known_as) else str(path)
    image = read_image(source, name=name, side=_WORKING_SIDE)
    image.thumbnail((_WORKING_SIDE, _WORKING_SIDE), require("PIL.Image").Resampling.BICUBIC)
    return image


def make_thumbnail(image: Any) -> bytes:
    """Return a small WebP image."""
    small = image.copy()
    small.thumbnail((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE), require("PIL.Image").Resampling.LANCZOS)
    file = BytesIO()
    small.save(file, "WEBP", quality=_THUMBNAIL_QUALITY)
    return file.getvalue()


def batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of `size` items; the last may be shorter."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _checked_text(value: Any, what: str, limit: int) -> str:
    if not isinstance(value, str):
        raise CollectionError(f"its {what} is a {type(value).__name__}; give a str")
    if len(value) > limit:
        raise CollectionError(f"its {what} has {len(value):,} characters, more than {limit:,}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise CollectionError(f"its {what} is not valid Unicode: {error}") from error
    return value


def _checked_name(name: Any) -> str:
    checked = _checked_text(name, "column name", MAX_NAME_CHARACTERS)
    if not checked or checked in ("label", "labels"):
        raise CollectionError(f"{name!r} cannot be the name of a column; choose another")
    return checked


def _checked_value(value: Any, name: str) -> Any:
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, str):
        return _checked_text(value, f"column {name!r}", MAX_TEXT_CHARACTERS)
    if isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS:
        raise CollectionError(f"its column {name!r} holds a number that is too long to be stored")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    raise CollectionError(
        f"its column {name!r} holds a {type(value).__name__}; give a str, a number or None"
    )

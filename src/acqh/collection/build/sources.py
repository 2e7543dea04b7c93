"""Read items from tables, folders, data or iterables, and check them."""

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import replace
from itertools import chain, pairwise
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse

from acqh._core.fields import FIELDS, FILE, IMAGE, IMAGE_FIELDS
from acqh._core.labels import split_labels
from acqh.collection.build.detect import check_detected, detect
from acqh.collection.build.folder import Source, find_manifest, folder_items, has_images
from acqh.collection.types import (
    MAX_ID_CHARACTERS,
    MAX_NAME_CHARACTERS,
    Item,
    NoLabels,
    NoText,
)
from acqh.data import MultiViewData, read_records
from acqh.data.readers.formats import has_records, has_views
from acqh.encoders.images import make_thumbnail, working_image
from acqh.errors import AcqhError, CollectionError, InvalidInputError, MissingExtraError

MAX_TEXT_CHARACTERS = 1_000_000
_MAX_INTEGER_BITS = 4_096
_ID_DIGITS = 16

# Skipped items, with the reasons.
Skipped = list[tuple[str, str]]


def prepared(
    items: Iterable[Any], skipped: Skipped, *, strict: bool, ocr: str | None = None
) -> Iterator[Item]:
    """Yield valid items; record the others as skipped, or raise an error for the first.

    Items without an id get one: the path of their image, or a digest of their content. The same
    items in the same order always get the same ids.
    """
    n_called: Counter[str] = Counter()
    for item in items:
        try:
            ready = prepare(item, ocr)
        except MissingExtraError:
            raise
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


def _usual_id(item: Item, ready: Item) -> str:
    """Return the default id of an item, from the original and the prepared item."""
    if isinstance(item.image, str | PathLike):
        name = str(item.image)
        is_text = name.isprintable() and len(name) <= MAX_ID_CHARACTERS // 2
        return name if is_text else hashlib.sha256(os.fsencode(name)).hexdigest()
    content = json.dumps([ready.text, ready.labels, ready.fields], sort_keys=True).encode()
    return hashlib.sha256(content + (ready.thumbnail or b"")).hexdigest()[:_ID_DIGITS]


def prepare(item: Item, ocr: str | None = None) -> Item:
    """Check an item and read its image; `ocr`: see `Collection.build`.

    Raises CollectionError: the item has neither image nor text, or a field that cannot be stored.
    Raises ImageError: the image cannot be read, or is too large.
    """
    checked = check_fields(item)
    if item.image is None and not checked.text:
        raise CollectionError("it has neither image nor text")
    if item.image is None:
        return checked
    image = working_image(item.image, item.name)
    return replace(
        checked,
        image=image,
        has_thumbnail=True,
        thumbnail=make_thumbnail(image),
        detected=detect(replace(checked, image=item.image), image, ocr),
    )


def check_fields(item: Item) -> Item:
    """Return a valid item without its image; raise CollectionError if a field is invalid."""
    if not isinstance(item, Item):
        raise CollectionError(f"items must be acqh.collection.Item, got {type(item).__name__}")
    text, labels = item.text, item.labels
    if not isinstance(text, NoText):
        text = _checked_text(text or "", "text", MAX_TEXT_CHARACTERS).strip()
    if item.id is not None and not _checked_text(item.id, "id", MAX_ID_CHARACTERS):
        raise CollectionError("the id is empty; leave it out to have one made")
    if not isinstance(labels, NoLabels):
        names = (_checked_text(name, "label", MAX_NAME_CHARACTERS) for name in labels)
        labels = tuple(filter(None, names))
    fields = {_checked_name(name): _checked_value(v, name) for name, v in item.fields.items()}
    folder = item.folder if isinstance(fields.get(FILE), str) else ""
    detected = check_detected(item.detected)
    return Item(None, text, labels, item.id, fields, item.name, folder=folder, detected=detected)


def _checked_text(value: Any, kind: str, limit: int) -> str:
    if not isinstance(value, str):
        raise CollectionError(f"its {kind} is a {type(value).__name__}; give a str")
    if len(value) > limit:
        raise CollectionError(f"its {kind} has {len(value):,} characters, more than {limit:,}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise CollectionError(f"its {kind} is not valid Unicode: {error}") from error
    return value


def _checked_name(name: Any) -> str:
    checked = _checked_text(name, "field name", MAX_NAME_CHARACTERS)
    if not checked or checked in FIELDS["labels"].names:
        raise CollectionError(f"{name!r} cannot be the name of a field; choose another")
    return checked


def _checked_value(value: Any, name: str) -> Any:
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, str):
        return _checked_text(value, f"field {name!r}", MAX_TEXT_CHARACTERS)
    if isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS:
        raise CollectionError(f"its field {name!r} holds a number that is too long to be stored")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    raise CollectionError(
        f"its field {name!r} holds a {type(value).__name__}; give a str, a number or None"
    )


def open_source(
    source: Any,
    image_root: str | PathLike[str] | None = None,
    label_separator: str | None = None,
) -> Source | MultiViewData:
    r"""Return the items of a source; a table is validated first.

    `source`: one of these.

    - A CSV, TSV, JSON lines or Parquet file with the columns ``image`` (a path), ``text``,
      ``labels`` (separated by ``|``, or a list) and ``id``. It needs one of the first two. Other
      columns become fields.
    - A folder with such a file called ``manifest``, or ``metadata`` with a column ``file_name``.
    - A folder of images.
    - A WebDataset ``.tar`` file, or a folder of them.
    - A folder of a Hugging Face data set that contains its images.
    - Vectors in any layout of `MultiViewData.from_files`.
    - An iterable of items.

    `image_root`: folder that image names are relative to, and that contains all images. Default:
    that of the table. `label_separator`: separator of labels. Default: ``|``; then labels with a
    comma or semicolon and no ``|`` are rejected, since they may be one or several.

    Raises CollectionError: the source has neither a valid table nor images, or all images of the
    table are missing. Raises InvalidInputError: a row cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "pets.csv").write_text('Text,Labels\nRex,"dog, brown"\n')
    ...     [item.labels for item in open_source(folder + "/pets.csv", label_separator=",").items]
    [('dog', 'brown')]
    """
    if isinstance(source, Source | MultiViewData):
        return source
    if not isinstance(source, str | PathLike):
        if not isinstance(source, Iterable):
            raise CollectionError(
                f"items come from a table or an iterable of Item, got {type(source).__name__}"
            )
        return Source(iter(source), len(source) if isinstance(source, Sized) else None)
    path = Path(source)
    kind = kind_of(path)
    if kind == "images":
        return folder_items(path)
    if kind == "features":
        return MultiViewData.from_files(path)
    path = (find_manifest(path) if path.is_dir() else None) or path
    beside = path if path.is_dir() else path.parent
    root = (beside if image_root is None else Path(image_root)).resolve()
    if not root.is_dir():
        raise CollectionError(f"the folder of images {root} does not exist")

    def items() -> Iterator[Item]:
        for place, record in read_records(path):
            yield _item(record, place, root, label_separator)

    return _looked_through(items, path, root)


def kind_of(path: Path) -> Literal["features", "images", "records"]:
    """Return the kind of a file or folder; images take precedence over vectors.

    Raises CollectionError: the path does not exist.
    """
    if not path.exists():
        raise CollectionError(f"there is no manifest and no folder of images at {path}")
    is_bare = path.is_dir() and find_manifest(path) is None
    if is_bare and has_images(path):
        return "images"
    if (is_bare or path.is_file()) and has_views(path):
        return "features"
    return "images" if is_bare and not has_records(path) else "records"


def _looked_through(items: Callable[[], Iterator[Item]], path: Path, root: Path) -> Source:
    """Return a table as a source; raise its errors before any image is encoded."""
    n_items = n_images = 0
    has: set[str] = set()
    any_there = False
    for item in items():
        n_items += 1
        has |= {name for name in ("text", "labels") if getattr(item, name)}
        if item.image is not None:
            has.add("image")
            n_images += 1
            any_there = any_there or isinstance(item.image, bytes) or item.image.is_there()
    if n_images and n_images == n_items and not any_there:
        raise CollectionError(
            f"none of the {n_images:,} images that {path.name} names is in {root}; say where they "
            "are with image_root"
        )
    return Source(items(), n_items, frozenset(has))


def data_items(data: MultiViewData) -> list[Item]:
    """Return the items of data with features, from its ids, labels and item table."""
    labels = label_sets(data)
    fields = {name: values for name, values in data.items.items() if values.ndim == 1}
    texts = fields.pop("text", [""] * len(data))
    return [
        Item(
            text=str(texts[row]),
            labels=labels[row],
            id=str(identifier),
            fields={name: _plain(values[row]) for name, values in fields.items()},
            origin=f"item {str(identifier)!r}",
        )
        for row, identifier in enumerate(data.ids)
    ]


def label_sets(data: MultiViewData) -> list[tuple[str, ...]]:
    """Return the names of the labels of each item."""
    if data.labels is None:
        return [()] * len(data)
    names = np.array(data.label_names, dtype=object)
    matrix = sparse.csr_array(data.labels)
    return [tuple(names[matrix.indices[a:b]]) for a, b in pairwise(matrix.indptr)]


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def read_annotations(
    path: Path, separator: str | None = None, *, clear: bool = False
) -> Iterator[Item]:
    """Yield the annotations in a table: texts, labels and fields, without images.

    The column ``id``, ``file`` or ``image`` identifies the item. `clear`: empty cells remove the
    text, labels or value; otherwise they are ignored.
    """
    for place, record in read_records(path):
        item = _item(record, place, None, separator)
        if item.id is None and not any(item.fields.get(name) for name in IMAGE_FIELDS):
            raise CollectionError(
                f"{place}: a table of labels needs a column id, file or image that says which item "
                f"is meant, but its columns are {', '.join(record)}"
            )
        cells = {name.lower(): value for name, value in record.items() if clear or _is_given(value)}
        has_text, has_labels = (
            not cells.keys().isdisjoint(FIELDS[name].names) for name in ("text", "labels")
        )
        yield replace(
            item,
            text=item.text if has_text else NoText(),
            labels=item.labels if has_labels else NoLabels(),
            fields={name: v for name, v in item.fields.items() if clear or _is_given(v)},
        )


def _is_given(value: Any) -> bool:
    return value is not None and not (isinstance(value, Sized) and len(value) == 0)


def _item(record: dict[str, Any], place: str, root: Path | None, separator: str | None) -> Item:
    """Return a row of a table as an item, without its image if there is no folder of images."""
    rest = dict(record)
    content = (*FIELDS["image"].names, *FIELDS["text"].names)
    if root is not None and not any(name.lower() in content for name in rest):
        raise CollectionError(
            f"{place}: a manifest needs a column image or text, but its columns are "
            f"{', '.join(record)}"
        )
    image, text, labels, identifier = (
        _take(rest, *FIELDS[name].names) for name in ("image", "text", "labels", "id")
    )
    try:
        names = _label_names(labels, separator)
    except InvalidInputError as error:
        raise InvalidInputError(f"{place}: {error}") from error
    is_content = isinstance(image, bytes)
    named = None if is_content or not image or root is None else ManifestImage(root, str(image))
    return Item(
        image=image if is_content else named,
        text="" if text is None else str(text),
        labels=names,
        id=None if identifier in (None, "") else str(identifier),
        fields={**rest, IMAGE: image} if image and not is_content else rest,
        origin=place,
    )


def _take(record: dict[str, Any], *usual: str) -> Any:
    """Remove and return the column of a standard name, ignoring case."""
    exact = (name for name in usual if name in record)
    alike = (name for name in record if name.lower() in usual)
    name = next(chain(exact, alike), None)
    return None if name is None else record.pop(name)


class ManifestImage:
    """An image that is named in a table; it must be inside the folder of images.

    A table may come from an untrusted source. Without this check, it could publish thumbnails of
    any image on the machine.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name

    def __str__(self) -> str:
        return self.name

    def __fspath__(self) -> str:
        """Return the full path of the image; raise CollectionError if it is outside the folder."""
        try:
            path = (self.root / self.name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise CollectionError(f"{self.name!r:.200} is not a path: {error}") from error
        if not path.is_relative_to(self.root):
            raise CollectionError(
                f"image {self.name!r:.200} is outside {self.root}; move it there, or say where "
                "images are with image_root"
            )
        return str(path)

    def is_there(self) -> bool:
        """Whether the file exists inside the folder."""
        try:
            return Path(fspath(self)).is_file()
        except (CollectionError, OSError):
            return False


def _label_names(labels: Any, separator: str | None) -> tuple[str, ...]:
    if labels is None:
        return ()
    if isinstance(labels, str):
        labels = split_labels(labels, separator)
    if not isinstance(labels, list):
        labels = [labels]
    return tuple(name for label in labels if (name := str(label).strip()))

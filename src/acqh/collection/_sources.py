"""Where items come from: manifests, folders with one or of images, data, or any iterable."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh.collection._folder_source import find_manifest, folder_items
from acqh.collection._types import Item, NewItem
from acqh.data import MultiViewData, read_records
from acqh.errors import CollectionError

_IMAGE, _TEXT, _LABELS, _ID = "image", "text", ("labels", "label"), ("id", "ids")
_SEPARATOR = "|"


def read_items(source: Any, *, image_root: str | PathLike[str] | None = None) -> Iterator[Item]:
    """Yield the items of a manifest, of a folder that has one or images, or of an iterable.

    Parameters
    ----------
    source : path, or iterable of Item
        A CSV, TSV, JSON lines or Parquet file with the columns ``image`` (a path), ``text``,
        ``labels`` (separated by ``|``, or a list) and ``id``, of which one of the first two must
        be there; all others are kept. Or a folder with such a file called ``manifest``,
        or without one but with images.
    image_root : path, optional
        Images are named relative to this folder and must lie in it; by default the manifest's.

    Raises
    ------
    CollectionError
        There is no manifest, or none that can be understood, and there are no images.
    """
    if not isinstance(source, str | PathLike):
        if not isinstance(source, Iterable):
            raise CollectionError(
                f"items come from a manifest or an iterable of Item, got {type(source).__name__}"
            )
        yield from source
        return
    path = Path(source)
    if path.is_dir():
        manifest = find_manifest(path)
        if manifest is None:
            yield from folder_items(path)
            return
        path = manifest
    elif not path.is_file():
        raise CollectionError(f"there is no manifest {path}")
    root = (path.parent if image_root is None else Path(image_root)).resolve()
    if not root.is_dir():
        raise CollectionError(f"the folder of images {root} is not there")
    for place, fields in read_records(path):
        yield _item(fields, place, root)


def data_items(data: MultiViewData) -> list[NewItem]:
    """Return the items of data that brings its features: ids, labels and item table."""
    labels = [()] * len(data) if data.labels is None else _label_sets(data)
    columns = {name: values for name, values in data.items.items() if values.ndim == 1}
    texts = columns.pop("text", [""] * len(data))
    return [
        NewItem(
            text=str(texts[row]),
            labels=labels[row],
            id=str(identifier),
            columns={name: _plain(values[row]) for name, values in columns.items()},
            origin=f"item {str(identifier)!r}",
        )
        for row, identifier in enumerate(data.ids)
    ]


def _label_sets(data: MultiViewData) -> list[tuple[str, ...]]:
    names = np.array(data.label_names, dtype=object)
    matrix = sp.csr_array(data.labels)
    return [tuple(names[matrix.indices[a:b]]) for a, b in pairwise(matrix.indptr)]


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _item(fields: dict[str, Any], place: str, root: Path) -> Item:
    if _IMAGE not in fields and _TEXT not in fields:
        raise CollectionError(
            f"{place}: a manifest needs a column image or text, but its columns are "
            f"{', '.join(fields)}"
        )
    rest = dict(fields)
    image, text = rest.get(_IMAGE), rest.pop(_TEXT, None)
    labels = next((rest.pop(name) for name in _LABELS if name in rest), None)
    identifier = next((rest.pop(name) for name in _ID if name in rest), None)
    if not image:
        rest.pop(_IMAGE, None)
    return Item(
        image=ManifestImage(root, str(image)) if image else None,
        text="" if text is None else str(text),
        labels=_label_names(labels),
        id=None if identifier in (None, "") else str(identifier),
        columns=rest,
        origin=place,
    )


class ManifestImage:
    """An image that a manifest names: it must lie in the manifest's folder.

    A manifest may come from elsewhere, and a thumbnail of any image that it could name would
    end up in the collection for everyone to see.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name

    def __fspath__(self) -> str:
        """Return the image's full path; raise CollectionError where it is outside."""
        try:
            path = (self.root / self.name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise CollectionError(f"{self.name!r:.200} is no path: {error}") from error
        if not path.is_relative_to(self.root):
            raise CollectionError(
                f"image {self.name!r:.200} is outside {self.root}; move it there, or say where "
                "images are with image_root"
            )
        return str(path)


def _label_names(labels: Any) -> tuple[str, ...]:
    if labels is None:
        return ()
    if isinstance(labels, str):
        labels = labels.split(_SEPARATOR)
    if not isinstance(labels, list):
        labels = [labels]
    return tuple(name for label in labels if (name := str(label).strip()))

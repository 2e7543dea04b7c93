"""The embedded emoji set as a collection, built once and kept in the user's cache."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acqh import __version__
from acqh._core.runtime import Progress
from acqh.errors import AcqhError

# What a collection must have been built with to be kept.
_SETTINGS = {"n_components": 128, "n_codebooks": 8}
# Emoji are drawings of 64 pixels, which larger inputs describe no better, only more slowly.
_IMAGE_SIZE = 128


def cache_folder() -> Path:
    """Return where the user's programs keep what they can make again, and ours in it."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "acqh"


def emoji_collection(folder: Path, progress: Progress) -> Path:
    """Return the path of the emoji collection in a folder, building it where that is needed.

    It is built again when it is damaged, or when another version or other settings made it.
    """
    from acqh.collection import Collection
    from acqh.encoders import EfficientNetLite0, make_encoder

    path = folder / "emoji.acqh"
    if not _is_current(path):
        folder.mkdir(parents=True, exist_ok=True)
        encoder = make_encoder("auto", view="image")
        if isinstance(encoder, EfficientNetLite0):
            encoder.set_params(size=_IMAGE_SIZE)
        settings: dict[str, Any] = {**_SETTINGS, "overwrite": True, "progress": progress}
        # A list, so that progress has a total.
        Collection.build(list(emoji_items()), path, image_encoder=encoder, **settings).close()
    return path


def emoji_items() -> Iterator[Any]:
    """Yield the emoji; their labels are their group and their subgroup."""
    from scipy.sparse import csr_array

    from acqh.collection import Item
    from acqh.data import load_dataset

    data = load_dataset("emoji")
    items = data.items
    groups = csr_array(data.labels).indices  # one per item
    for row, group in enumerate(groups):
        yield Item(
            image=items["image"][row],
            text=items["text"][row],
            labels=[data.label_names[group], items["subgroup"][row]],
            id=str(data.ids[row]),
            columns={
                "name": items["text"][row].partition(",")[0],
                "emoji": items["emoji"][row],
                "family": items["family"][row],
            },
        )


def _is_current(path: Path) -> bool:
    from acqh.collection import Collection

    try:
        with Collection.open(path, verify=True) as collection:
            stats = collection.stats()
    except (AcqhError, FileNotFoundError):
        return False
    made_with = {name: getattr(stats, name) for name in _SETTINGS}
    return stats.version == __version__ and made_with == _SETTINGS

"""The first half of a build: items into the store, features beside it."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

from acqh._core.random import RandomState
from acqh.collection._coder import Encoders, describe
from acqh.collection._feature_table import StagedFeatures, StagedView
from acqh.collection._prepare import PreparedItem, batches
from acqh.collection._rows import Skipped, as_row, data_rows, prepared
from acqh.collection._store import Store
from acqh.collection._types import Progress
from acqh.data import MultiViewData
from acqh.errors import DuplicateIdError
from acqh.features import describe_feature_map, make_encoder
from acqh.methods.acqh import ACQH, Target

PICTURE_BATCH = 64
CHUNK_ROWS = 4_096
# An encoder of images that learns anything learns it from the first so many.
_FITTED_PICTURES = 256
# A vocabulary is settled by so many texts.
_FITTED_TEXTS = 200_000


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a collection has learnt: how items are described and coded, and from what."""

    encoders: Encoders
    model: ACQH
    trained_on: str
    n_trained: int


@dataclass(frozen=True)
class BuildSettings:
    """How a collection is to be built; see `Collection.build`."""

    image_encoder: Any = "auto"
    text_encoder: Any = "auto"
    n_components: int = 64
    n_codebooks: int = 8
    targets: Mapping[str, float | Target] | None = None
    strict: bool = False
    random_state: RandomState = 0
    image_root: str | PathLike[str] | None = None
    like: Learnt | None = None


def warn_of_auto_labels(given: int | None) -> None:
    """Say what has come in place of clusters that stand for labels."""
    if given is not None:
        warnings.warn(
            "auto_labels has no effect and will go: without labels the content of items is learnt; "
            "choose what counts with targets={'image': 0.5, 'text': 0.5}, or on the command line "
            "with --targets image=0.5,text=0.5",
            FutureWarning,
            stacklevel=3,
        )


def stage_data(store: Store, data: MultiViewData, progress: Progress) -> None:
    """Store the items of data that brings its features."""
    for start in range(0, len(data), CHUNK_ROWS):
        part = data.subset(range(start, min(start + CHUNK_ROWS, len(data))))
        store.insert(data_rows(part))
        progress(start + len(part), len(data), "storing items")


def stage_items(
    staging: Path,
    store: Store,
    items: Iterable[Any],
    settings: BuildSettings,
    skipped: Skipped,
    progress: Progress,
) -> tuple[StagedFeatures, Encoders]:
    """Store raw items and describe them."""
    image_encoder = make_encoder(settings.image_encoder, view="image")
    text_encoder = make_encoder(
        settings.text_encoder, view="text", random_state=settings.random_state
    )
    for encoder in (image_encoder, text_encoder):
        # One that cannot be stored is better refused before the work than after it.
        describe_feature_map(encoder)
    usable = _fit_on_pictures(image_encoder, prepared(items, skipped, strict=settings.strict))
    pictures = StagedView(staging / "image")
    n_items = n_pictures = 0
    for batch in batches(usable, PICTURE_BATCH):
        ids = store.insert([as_row(item) for item in batch])
        new = [item for item, identifier in zip(batch, ids, strict=True) if identifier is not None]
        twice = [item for item, identifier in zip(batch, ids, strict=True) if identifier is None]
        _note_duplicates(twice, skipped, settings.strict)
        if new:
            pictures.append(*describe(image_encoder, "image", [item.picture for item in new]))
        n_items += len(new)
        n_pictures += sum(item.picture is not None for item in new)
        progress(n_items, None, "describing images")
    views, encoders = {}, {}
    if n_pictures:
        views["image"], encoders["image"] = pictures, image_encoder
    both = Encoders({"image": image_encoder, "text": text_encoder})
    # The general model finds images by words even where no item has any.
    if store.has_texts() or (n_pictures and both.fit_general_model):
        texts = (text for _, text, _ in store.staged(0, _FITTED_TEXTS))
        encoders["text"] = text_encoder.fit([text for text in texts if text])
        views["text"] = _stage_texts(staging, store, text_encoder, n_items, progress)
    return StagedFeatures(views), Encoders(encoders)


def _fit_on_pictures(encoder: Any, items: Iterator[PreparedItem]) -> Iterator[PreparedItem]:
    first: list[PreparedItem] = []
    pictures: list[Any] = []
    for item in items:
        first.append(item)
        if item.picture is not None:
            pictures.append(item.picture)
        if len(pictures) == _FITTED_PICTURES:
            break
    if pictures:
        encoder.fit(pictures)
    return chain(first, items)


def _note_duplicates(items: Sequence[PreparedItem], skipped: Skipped, strict: bool) -> None:
    for item in items:
        why = f"there is an item {item.id!r} already"
        if strict:
            raise DuplicateIdError(f"{item.origin}: {why}; ids must differ")
        skipped.append((item.origin, why))


def _stage_texts(
    staging: Path, store: Store, encoder: Any, n_items: int, progress: Progress
) -> StagedView:
    staged = StagedView(staging / "text")
    for start in range(0, n_items, CHUNK_ROWS):
        texts = [text for _, text, _ in store.staged(start, CHUNK_ROWS)]
        staged.append(*describe(encoder, "text", texts))
        progress(start + len(texts), n_items, "describing texts")
    return staged

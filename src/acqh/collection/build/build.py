"""Building a collection: items into the store, features beside it, a model, a code for each."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from acqh import __version__
from acqh._core.arrays import Array, Bools, Ints, Matrix, is_sparse, slices
from acqh._core.runtime import Progress
from acqh._core.store import pack
from acqh.collection.build.folder import Source
from acqh.collection.build.learn import expected_error, learn
from acqh.collection.build.sources import (
    Skipped,
    data_items,
    open_source,
    prepared,
)
from acqh.collection.disk.facts import INDEX, MODEL, Facts, Learnt, read_facts, write_facts
from acqh.collection.disk.generations import ITEMS
from acqh.collection.disk.model import (
    CHUNK_ROWS,
    IMAGE_BATCH,
    Coder,
    Encoders,
    describe,
    fit_general_model,
    unrelated_queries,
)
from acqh.collection.disk.opened import IndexCache, Opened
from acqh.collection.store.file import Store, create_store, open_store
from acqh.collection.store.items import (
    carry_over,
    changes_since,
    changing,
    count_items,
    has_texts,
    insert_items,
    read_pages,
    read_staged,
    read_thumbnail,
    set_codes,
)
from acqh.collection.types import FILE, BuildSettings, Item
from acqh.data import MultiViewData
from acqh.encoders import make_encoder
from acqh.encoders.images import image_limit, working_image
from acqh.encoders.network import batches
from acqh.errors import AcqhError, CollectionError
from acqh.methods.acqh import ACQH
from acqh.methods.registry import HOMES

# An encoder of images that learns anything learns it from this many of the first.
_FITTED_IMAGES = 256
# A vocabulary is settled by this many texts.
_FITTED_TEXTS = 200_000


def build_into(
    folder: Path,
    name: str,
    source: Any,
    settings: BuildSettings,
    progress: Progress,
    *,
    site_key: str,
    old: Opened | None = None,
) -> Skipped:
    """Make a generation of a collection in its empty folder; return what was left out, and why.

    `old`: a generation whose items these are; its encoders, thumbnails and what it remembers of
    items that went are taken over.
    """
    create_store(folder / ITEMS, folder.name)
    store = open_store(folder / ITEMS, durable=False)
    try:
        with (
            TemporaryDirectory(
                dir=folder, prefix="staging-", ignore_cleanup_errors=True
            ) as staging,
            image_limit(settings.max_pixels),
        ):
            # Encoders of its own, since some learn.
            known: Encoders = {} if old is None else read_facts(old.lease.folder).encoders
            model, learnt, skipped = _fill(store, Path(staging), source, settings, known, progress)
        if old is not None:
            carry_over(old.store, store)
        coder = Coder.of(model)
        with store.reading() as connection:
            *_, codes, _ = changes_since(connection, 0, coder.code_bytes)
        unrelated = unrelated_queries(learnt.encoders, coder, codes, learnt.asked_as)
        facts = Facts(
            **vars(learnt),
            name=name,
            generation=folder.name,
            site_key=site_key,
            n_skipped=len(skipped),
            version=__version__,
            settings=settings,
            unrelated=unrelated,
        )
        write_facts(folder, facts)
        model.save(folder / MODEL)
        progress(0, None, "writing the index")
        index = IndexCache(store, model.codebooks_, folder / INDEX, unrelated)
        with store.reading() as connection:
            index.at(connection)  # which measures levels
        index.save()
        store.compact()
    finally:
        store.close()
    return skipped


def _fill(
    store: Store,
    staging: Path,
    source: Any,
    settings: BuildSettings,
    known: Encoders,
    progress: Progress,
) -> tuple[ACQH, Learnt, Skipped]:
    """Store the items of a source, learn from them, and give them their codes.

    `known`: encoders to take; others are made as `settings` say.
    """
    skipped: Skipped = []
    encoders: Encoders = {}
    items = open_source(source, settings.image_root, settings.label_separator)
    if isinstance(items, MultiViewData):
        features = stage_data(store, items, progress)
    else:
        features, encoders = stage_items(staging, store, items, settings, known, skipped, progress)
    model, learnt = learn(features, encoders, settings, progress)
    learnt = replace(learnt, expected_error=expected_error(features, encoders, settings))
    _code(store, features, Coder.of(model), skipped, settings.strict, progress)
    return model, learnt, skipped


def kept_items(store: Store) -> Iterator[Item]:
    """Yield all items with their images."""
    with store.reading() as connection:
        for page in read_pages(connection, IMAGE_BATCH):
            for item in page:
                picture = read_thumbnail(connection, item.id) if item.has_thumbnail else None
                yield replace(item, image=kept_image(item, picture))


def kept_image(item: Item, thumbnail: bytes | None) -> Any:
    """Return the image of an item that was stored: of the file it tracks, or else its thumbnail."""
    if thumbnail is not None and item.folder:
        with suppress(AcqhError, OSError):
            return working_image(Path(item.folder, item.columns[FILE]))
    return thumbnail


def _code(
    store: Store,
    features: MultiViewData,
    coder: Coder,
    skipped: Skipped,
    strict: bool,
    progress: Progress,
) -> None:
    """Give every item its code; take out those that have nothing the model knows."""
    unknown: list[str] = []
    with store.reading() as connection:
        n_items = count_items(connection)
    for start in range(0, n_items, CHUNK_ROWS):
        with store.reading() as connection:
            items = read_staged(connection, start, CHUNK_ROWS)
        end = start + len(items)
        first, last = np.searchsorted(features.ids, [start, end])
        known = features.subset(slice(first, last)) if first < last else None
        described = features.ids[first:last] - start, known
        codes, coded_by = coder.encode([labels for _, _, labels in items], described)
        set_codes(
            store, ((start + 1 + row, by, codes[row].tobytes()) for row, by in enumerate(coded_by))
        )
        unknown += [items[row][0] for row, by in enumerate(coded_by) if not by]
        progress(end, n_items, "coding")
    why = "it has no image, and no word of its text occurs in others"
    if unknown and strict:
        raise CollectionError(f"item {unknown[0]!r}: {why}")
    skipped += [(f"item {identifier!r}", why) for identifier in unknown]
    with changing(store) as writer:
        for identifier in unknown:
            writer.remove(identifier)


class StagedView:
    """The features of one view, row by row: dense ones in a file, sparse ones in memory.

    `path`: the file for dense features.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     staged = StagedView(Path(folder, "image"))
    ...     staged.append(np.eye(2), np.array([True, True]))
    ...     staged.matrix(np.array([False, True])).tolist()
    [[0.0, 1.0]]
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sparse: list[Matrix] = []
        self._present: list[Bools] = []
        self._width = 0

    def append(self, matrix: Matrix, present: Bools) -> None:
        """Add rows, and which of them are present."""
        self._width = matrix.shape[1]
        self._present.append(present)
        if is_sparse(matrix):
            self._sparse.append(sp.csr_array(matrix))
        else:
            with self._path.open("ab") as file:
                file.write(np.ascontiguousarray(matrix, dtype=np.float32).data)

    def present(self) -> Bools:
        """Return which rows are present."""
        return np.concatenate(self._present)

    def matrix(self, kept: Bools) -> Matrix:
        """Return some rows, after which the others are gone."""
        if self._sparse:
            return sp.csr_array(sp.vstack(self._sparse, format="csr"))[np.flatnonzero(kept)]
        rows: Array = np.memmap(self._path, dtype=np.float32, mode="r+").reshape(-1, self._width)
        if kept.all():
            return rows
        end = 0  # rows move up in the file, since they may not fit into memory
        for span in slices(len(rows), CHUNK_ROWS):
            block = rows[span][kept[span]]
            rows[end : end + len(block)] = block
            end += len(block)
        return rows[:end]


def stage_data(store: Store, data: MultiViewData, progress: Progress) -> MultiViewData:
    """Store the items of data that brings its features; return them as `stage_items` does."""
    n_done = 0
    for part in data.chunks(CHUNK_ROWS):
        insert_items(store, data_items(part))
        n_done += len(part)
        progress(n_done, len(data), "storing items")
    given = [view for view, mask in data.present.items() if mask.any()]
    return MultiViewData(
        {view: data.views[view] for view in given},
        present={view: data.present[view] for view in given},
        **_numbered(store, np.arange(n_done)),
    )


def stage_items(
    staging: Path,
    store: Store,
    source: Source,
    settings: BuildSettings,
    known: Encoders,
    skipped: Skipped,
    progress: Progress,
) -> tuple[MultiViewData, Encoders]:
    """Store raw items and describe them.

    Gives the features and labels of the items that have any features, by their numbers from 0,
    and the encoders.
    """
    text_encoder = _make_encoder("text", settings, known)
    # Texts alone need neither the default image encoder nor its packages.
    is_auto = known.get("image", settings.image_encoder) == "auto"
    image_encoder = None if is_auto else _make_encoder("image", settings, known)
    _check_targets(settings.targets, source.has)
    usable = prepared(source.items, skipped, strict=settings.strict)
    first, sample = _take_images(usable)
    if sample:
        if image_encoder is None:
            image_encoder = _make_encoder("image", settings, known)
        image_encoder.fit(sample)
    usable = chain(first, usable)
    images = StagedView(staging / "image")
    n_items = n_images = 0
    for batch in batches(usable, IMAGE_BATCH):
        new = left_in(batch, insert_items(store, batch, strict=settings.strict), skipped)
        if new and sample:
            images.append(*describe(image_encoder, "image", [item.image for item in new]))
        n_items += len(new)
        n_images += sum(item.image is not None for item in new)
        progress(n_items + len(skipped), source.n_items, "describing images")
    if not n_items:
        reason = f": {skipped[0][0]}: {skipped[0][1]}" if skipped else ""
        raise CollectionError(f"there are no items to build from{reason}")
    views, encoders = {}, {}
    if n_images:
        views["image"], encoders["image"] = images, image_encoder
    # The general model finds images by words even where no item has any.
    is_general = fit_general_model({**encoders, "text": text_encoder})
    with store.reading() as connection:
        is_said = has_texts(connection)
    if is_said or is_general:
        texts = (text for _, text, _ in _staged(store, 0, _FITTED_TEXTS))
        encoders["text"] = text_encoder.fit([text for text in texts if text])
        views["text"] = _stage_texts(staging, store, text_encoder, n_items, progress)
    return _gather(views, store, keep_empty=is_general), encoders


def _make_encoder(view: Literal["image", "text"], settings: BuildSettings, known: Encoders) -> Any:
    """Return the encoder of images or texts."""
    named = known.get(view, getattr(settings, f"{view}_encoder"))
    encoder = make_encoder(named, view=view, random_state=settings.random_state)
    # What cannot be stored or is not installed is better rejected before the work than after it.
    pack(encoder, HOMES, fitted=False)
    if hasattr(encoder, "check_installed"):
        encoder.check_installed()
    return encoder


def _gather(views: Mapping[str, StagedView], store: Store, *, keep_empty: bool) -> MultiViewData:
    """Return the items that have any view; `keep_empty`: also views that none of them has."""
    present = {view: staged.present() for view, staged in views.items()}
    present = {view: mask for view, mask in present.items() if keep_empty or mask.any()}
    if not present:
        raise CollectionError("no item has an image or a text that can be described")
    known = np.any([*present.values()], axis=0)
    return MultiViewData(
        {view: views[view].matrix(known) for view in present},
        present={view: mask[known] for view, mask in present.items()},
        **_numbered(store, np.flatnonzero(known)),
    )


def _numbered(store: Store, rows: Ints) -> dict[str, Any]:
    """Return ids of staged items, which are their numbers from 0, and their labels."""
    labels = [names for _, _, names in _staged(store)]
    known = sorted({name for each in labels for name in each})
    given = {"labels": [labels[row] for row in rows], "label_names": known} if known else {}
    return {"ids": rows, **given}


def _staged(store: Store, start: int = 0, n: int = 2**62) -> list[tuple[str, str, tuple[str, ...]]]:
    with store.reading() as connection:
        return read_staged(connection, start, n)


def _check_targets(targets: Mapping[str, Any] | None, has: frozenset[str] | None) -> None:
    """Refuse targets that no item can have, where it is known what they have."""
    for name in targets or ():
        if name not in ("labels", "image", "text"):
            raise CollectionError(
                f"`targets` are weights of labels, image and text, but one is {name!r}"
            )
        # Images are found by words even where no item has any.
        if has is not None and name not in has and not (name == "text" and "image" in has):
            raise CollectionError(
                f"`targets` has a weight for {name}, but no item has any; leave it out, or give "
                f"the manifest a column {name}"
            )


def left_in(items: Sequence[Item], stored: Sequence[str | None], skipped: Skipped) -> list[Item]:
    """Return the items that were stored; note the others, whose ids there are already."""
    pairs = list(zip(items, stored, strict=True))
    skipped += [
        (item.origin, f"there is an item {item.id!r} already") for item, id_ in pairs if id_ is None
    ]
    return [item for item, identifier in pairs if identifier is not None]


def _take_images(items: Iterator[Item]) -> tuple[list[Item], list[Any]]:
    """Return the first items, up to those with enough images to fit on, and their images."""
    first: list[Item] = []
    images: list[Any] = []
    for item in items:
        first.append(item)
        if item.image is not None:
            images.append(item.image)
        if len(images) == _FITTED_IMAGES:
            break
    return first, images


def _stage_texts(
    staging: Path, store: Store, encoder: Any, n_items: int, progress: Progress
) -> StagedView:
    staged = StagedView(staging / "text")
    for start in range(0, n_items, CHUNK_ROWS):
        texts = [text for _, text, _ in _staged(store, start, CHUNK_ROWS)]
        staged.append(*describe(encoder, "text", texts))
        progress(start + len(texts), n_items, "describing texts")
    return staged

"""Build a collection: items and features are staged in files until a model is trained.

Then each item is stored once, with its code. Thumbnails are stored immediately.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from acqh import __version__
from acqh._core.arrays import Array, Bools, Ints, Matrix, is_sparse, slices
from acqh._core.fields import FILE
from acqh._core.runtime import Progress
from acqh._core.store import pack
from acqh.collection.build.detect import with_tags
from acqh.collection.build.folder import Source
from acqh.collection.build.learn import expected_error, learn
from acqh.collection.build.sources import Skipped, data_items, label_sets, open_source, prepared
from acqh.collection.generations import ITEMS
from acqh.collection.model import (
    CHUNK_ROWS,
    IMAGE_BATCH,
    INDEX,
    MODEL,
    Coder,
    Encoders,
    Facts,
    encode_view,
    fit_builtin_model,
    read_facts,
    share_space,
    unrelated_queries,
    write_facts,
)
from acqh.collection.opened import IndexCache, Opened
from acqh.collection.store.file import Store, create_store, open_store
from acqh.collection.store.items import (
    carry_over,
    changes_since,
    changing,
    insert_thumbnails,
    read_all,
    read_thumbnail,
)
from acqh.collection.types import BuildSettings, Item
from acqh.data import MultiViewData
from acqh.encoders import make_encoder
from acqh.encoders.images import image_limit, working_image
from acqh.encoders.languages import check_language
from acqh.encoders.minilm import MiniLM
from acqh.encoders.network import batches
from acqh.encoders.ocr import check_ocr
from acqh.errors import AcqhError, CollectionError, DuplicateIdError, InvalidInputError
from acqh.methods.acqh import ACQH
from acqh.methods.registry import HOMES

# Number of first images that a trainable image encoder is fitted on.
_FITTED_IMAGES = 256
# Number of texts that a vocabulary is fitted on.
_FITTED_TEXTS = 200_000
_NOT_ENCODED = "it has no image, and no word of its text occurs in others"


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
    """Write a generation of a collection into an empty folder; return skipped items and reasons.

    `old`: the generation that the items come from. The new one reuses its encoders, thumbnails
    and tombstones.
    """
    create_store(folder / ITEMS, folder.name)
    store = open_store(folder / ITEMS, is_new=True)
    skipped: Skipped = []
    try:
        with (
            TemporaryDirectory(
                dir=folder, prefix="staging-", ignore_cleanup_errors=True
            ) as staging,
            image_limit(settings.max_pixels),
        ):
            model, trained = _fill(store, Path(staging), source, settings, skipped, old, progress)
        if old is not None:
            carry_over(old.store, store)
        coder = Coder.of(model)
        with store.reading() as connection:
            *_, codes, _ = changes_since(connection, 0, coder.code_bytes)
        asked_as = trained["asked_as"]
        unrelated = unrelated_queries(trained["encoders"], coder, codes, asked_as)
        facts = Facts(
            **trained,
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
    skipped: Skipped,
    old: Opened | None,
    progress: Progress,
) -> tuple[ACQH, dict[str, Any]]:
    """Encode the items of a source, train a model, and store them with their codes.

    Returns the model and the facts of its training. The files of features are closed when it
    returns, because Windows cannot remove open files.
    """
    items = open_source(source, settings.image_root, settings.label_separator)
    pages: Iterable[list[Item]]
    encoders: Encoders = {}
    if isinstance(items, MultiViewData):
        n_items, pages = len(items), map(data_items, items.chunks(CHUNK_ROWS))
        features = _features_of(items)
    else:
        # A copy of the encoders, since some are fitted.
        stored = {} if old is None else read_facts(old.lease.folder).encoders
        staged = StagedItems(staging / "items", store if old is None else None)
        features, encoders = stage_items(staged, items, settings, stored, skipped, progress)
        n_items, pages = len(staged), staged
    model, trained_on, asked_as = learn(features, encoders, settings, progress)
    error = expected_error(features, encoders, settings)
    for n_done in _store(store, pages, features, Coder.of(model), skipped, settings.strict):
        progress(n_done, n_items, "quantizing")
    return model, {
        "encoders": encoders,
        "trained_on": trained_on,
        "n_trained": len(features),
        "asked_as": asked_as,
        "expected_error": error,
    }


def _store(
    store: Store,
    pages: Iterable[list[Item]],
    features: MultiViewData,
    coder: Coder,
    skipped: Skipped,
    strict: bool,
) -> Iterator[int]:
    """Store items with their codes, except those that the model cannot encode.

    Yields the number of items done.
    """
    end = 0
    for page in pages:
        start, end = end, end + len(page)
        first, last = np.searchsorted(features.ids, [start, end])
        part = features.subset(slice(first, last)) if first < last else None
        item_features = features.ids[first:last] - start, part
        codes, encoded_from = coder.encode([item.labels for item in page], item_features)
        with changing(store) as writer:
            for item, code, by in zip(page, codes, encoded_from, strict=True):
                if by:
                    writer.insert(replace(item, encoded_from=by, code=code.tobytes()))
                    continue
                if strict:
                    raise CollectionError(f"item {item.id!r}: {_NOT_ENCODED}")
                writer.leave_out()
                skipped.append((f"item {item.id!r}", _NOT_ENCODED))
        yield end


def kept_items(store: Store) -> Iterator[Item]:
    """Yield all items with their images."""
    with store.reading() as connection:
        for _, item in read_all(connection):
            picture = read_thumbnail(connection, item.id) if item.has_thumbnail else None
            yield replace(item, image=kept_image(item, picture))


def kept_image(item: Item, thumbnail: bytes | None) -> Any:
    """Return the image of a stored item: its tracked file, or else its thumbnail."""
    if thumbnail is not None and item.folder:
        with suppress(AcqhError, OSError):
            return working_image(Path(item.folder, item.fields[FILE]))
    return thumbnail


class StagedItems:
    """Items without images, staged in a file until they are encoded.

    `path`: the file. `store`: receives thumbnails immediately, by the future numbers of items;
    None if thumbnails are copied from elsewhere.
    """

    def __init__(self, path: Path, store: Store | None) -> None:
        self.path = path
        self._out = store
        self._keys: set[object] = set()
        self.labels: list[tuple[str, ...]] = []
        self.has_texts = False

    def __len__(self) -> int:
        return len(self.labels)

    def choose(self, items: Iterable[Item], skipped: Skipped, *, strict: bool) -> list[Item]:
        """Return items with new ids and files, and record the others as skipped."""
        new = []
        for item in items:
            keys = {item.id, *([(item.folder, item.fields[FILE])] if item.folder else ())}
            if self._keys.isdisjoint(keys):
                self._keys |= keys
                new.append(item)
            elif strict:
                raise DuplicateIdError(f"{item.origin}: there is an item {item.id!r} already")
            else:
                skipped.append((item.origin, f"there is an item {item.id!r} already"))
        return new

    def append(self, items: Sequence[Item]) -> None:
        """Add items that were chosen."""
        if self._out is not None:
            insert_thumbnails(self._out, len(self), [item.thumbnail for item in items])
        rows = (
            [item.id, item.text, item.labels, item.fields, item.folder, item.detected]
            for item in items
        )
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
        self.labels += (tuple(item.labels) for item in items)
        self.has_texts = self.has_texts or any(item.text for item in items)

    def _rows(self) -> Iterator[list[Any]]:
        with self.path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)

    def texts(self) -> Iterator[str]:
        """Yield the texts of all items."""
        return (row[1] for row in self._rows())

    def __iter__(self) -> Iterator[list[Item]]:
        for page in batches(self._rows(), CHUNK_ROWS):
            yield [
                Item(None, text, labels, id_, fields, folder=folder, detected=detected)
                for id_, text, labels, fields, folder, detected in page
            ]


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

    def matrix(self, is_kept: Bools) -> Matrix:
        """Return the selected rows, and drop the others."""
        if self._sparse:
            return sp.csr_array(sp.vstack(self._sparse, format="csr"))[np.flatnonzero(is_kept)]
        rows: Array = np.memmap(self._path, dtype=np.float32, mode="r+").reshape(-1, self._width)
        if is_kept.all():
            return rows
        end = 0  # rows are moved within the file, since they may not fit into memory
        for span in slices(len(rows), CHUNK_ROWS):
            block = rows[span][is_kept[span]]
            rows[end : end + len(block)] = block
            end += len(block)
        return rows[:end]


def _features_of(data: MultiViewData) -> MultiViewData:
    """Return the views and labels of data with features, by row number."""
    views = [view for view, mask in data.present.items() if mask.any()]
    return MultiViewData(
        {view: data.views[view] for view in views},
        present={view: data.present[view] for view in views},
        **_numbered(np.arange(len(data)), label_sets(data)),
    )


def stage_items(
    staged: StagedItems,
    source: Source,
    settings: BuildSettings,
    stored: Encoders,
    skipped: Skipped,
    progress: Progress,
) -> tuple[MultiViewData, Encoders]:
    """Stage raw items and encode them.

    Returns the features and labels of the items that have features, by row number, and the
    encoders. `stored`: encoders to reuse; the others are created from `settings`.
    """
    text_encoder = _make_encoder("text", settings, stored)
    # Collections of texts need neither the default image encoder nor its packages.
    is_auto = stored.get("image", settings.image_encoder) == "auto"
    image_encoder = None if is_auto else _make_encoder("image", settings, stored)
    _check_targets(settings.targets, source.has)
    # Items of a collection that is retrained have their text.
    ocr = None if stored else settings.ocr
    if ocr is not None:
        check_ocr()
    usable = prepared(source.items, skipped, strict=settings.strict, ocr=ocr)
    if ocr is not None:
        usable = _counted(usable, source.n_items, progress)
    first, sample = _take_images(usable)
    if sample:
        if image_encoder is None:
            image_encoder = _make_encoder("image", settings, stored)
        image_encoder.fit(sample)
    folder = staged.path.parent
    images, has_images = StagedView(folder / "image"), False
    for batch in batches(chain(first, usable), IMAGE_BATCH):
        new: Sequence[Item] = staged.choose(batch, skipped, strict=settings.strict)
        if new and sample:
            encoded = encode_view(image_encoder, "image", [item.image for item in new])
            images.append(*encoded)
            new = with_tags(new, image_encoder, *encoded)
        staged.append(new)
        has_images = has_images or any(item.image is not None for item in new)
        progress(len(staged) + len(skipped), source.n_items, "encoding images")
    if not len(staged):
        reason = f": {skipped[0][0]}: {skipped[0][1]}" if skipped else ""
        raise CollectionError(f"there are no items to build from{reason}")
    views, encoders = {}, {}
    if has_images:
        views["image"], encoders["image"] = images, image_encoder
    # The built-in image-text model and CLIP find images by text even if no item has a text.
    both = {**encoders, "text": text_encoder}
    has_text_queries = fit_builtin_model(both) or share_space(both)
    if staged.has_texts or has_text_queries:
        sample = [text for text in islice(staged.texts(), _FITTED_TEXTS) if text]
        encoders["text"] = text_encoder.fit(sample)
        views["text"] = texts = StagedView(folder / "text")
        n_done = 0
        for page in batches(staged.texts(), CHUNK_ROWS):
            texts.append(*encode_view(text_encoder, "text", page))
            n_done += len(page)
            progress(n_done, len(staged), "encoding texts")
    return _gather(views, staged.labels, keep_empty=has_text_queries), encoders


def _counted(items: Iterator[Item], n_items: int | None, progress: Progress) -> Iterator[Item]:
    """Yield items, and report each: reading text takes a second or more."""
    for number, item in enumerate(items, start=1):
        progress(number, n_items, "reading images")
        yield item


def _make_encoder(view: Literal["image", "text"], settings: BuildSettings, stored: Encoders) -> Any:
    """Return the encoder of images or texts."""
    named = stored.get(view, getattr(settings, f"{view}_encoder"))
    encoder = make_encoder(named, view=view, random_state=settings.random_state)
    if view == "text" and check_language(settings.language) != "auto":
        if not isinstance(encoder, MiniLM):
            raise InvalidInputError(
                f"language={settings.language!r} is for the text encoder 'minilm', got {named!r}"
            )
        encoder.language = settings.language
    # Reject encoders that cannot be stored or are not installed before any work is done.
    pack(encoder, HOMES, fitted=False)
    if hasattr(encoder, "check_installed"):
        encoder.check_installed()
    return encoder


def _gather(
    views: Mapping[str, StagedView], labels: list[tuple[str, ...]], *, keep_empty: bool
) -> MultiViewData:
    """Return the items that have any view; `keep_empty`: also views that none of them has."""
    present = {view: staged.present() for view, staged in views.items()}
    present = {view: mask for view, mask in present.items() if keep_empty or mask.any()}
    if not present:
        raise CollectionError("no item has an image or a text that can be encoded")
    has_any = np.any([*present.values()], axis=0)
    return MultiViewData(
        {view: views[view].matrix(has_any) for view in present},
        present={view: mask[has_any] for view, mask in present.items()},
        **_numbered(np.flatnonzero(has_any), labels),
    )


def _numbered(rows: Ints, labels: list[tuple[str, ...]]) -> dict[str, Any]:
    """Return rows as ids, and the labels of these items; `labels`: of all items."""
    names = sorted({name for label_set in labels for name in label_set})
    return {"ids": rows} | (
        {"labels": [labels[row] for row in rows], "label_names": names} if names else {}
    )


def _check_targets(targets: Mapping[str, Any] | None, has: frozenset[str] | None) -> None:
    """Raise an error if no item has a target."""
    for name in targets or ():
        if name not in ("labels", "image", "text"):
            raise CollectionError(
                f"`targets` are weights of labels, image and text, but one is {name!r}"
            )
        # Images can be found by text even if no item has a text.
        if has is not None and name not in has and not (name == "text" and "image" in has):
            raise CollectionError(
                f"`targets` has a weight for {name}, but no item has any; leave it out, or give "
                f"the manifest a column {name}"
            )


def _take_images(items: Iterator[Item]) -> tuple[list[Item], list[Any]]:
    """Return the first items, until there are enough images to fit on, and their images."""
    first: list[Item] = []
    images: list[Any] = []
    for item in items:
        first.append(item)
        if item.image is not None:
            images.append(item.image)
        if len(images) == _FITTED_IMAGES:
            break
    return first, images

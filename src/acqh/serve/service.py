"""What the routes do, without HTTP: queries and changes of the live collection."""

import asyncio
import base64
import binascii
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, get_args
from urllib.parse import quote

from pydantic_core import to_json

from acqh._core.imports import require
from acqh.collection import Answer, Collection, Item
from acqh.collection.store.words import words_in_path
from acqh.collection.types import Mode
from acqh.encoders.images import image_formats, is_foreign, open_image
from acqh.errors import (
    AcqhError,
    CorruptBundleError,
    EncoderError,
    MissingExtraError,
    MissingItemError,
    ReplacedError,
)
from acqh.serve import schemas
from acqh.serve.live import Lane, Live
from acqh.serve.metrics import Metrics
from acqh.serve.schemas import ProblemError
from acqh.serve.settings import Limits, Settings
from acqh.web.originals import BROWSER_FORMATS, file_of, original_of
from acqh.web.overview import MapCache, examples_in

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
# What is written as JSON, and whatever is in it.
Written = dict[str, Any]

# A name on the map.
_NAME_CHARS = 80
# An image that can be decoded at reduced size may have this many times the pixels of another.
_REDUCED = 4


class Service:
    """Answers from the live collection, within the limits that are set.

    `writable`: whether clients with a token may change the collection.
    """

    def __init__(self, settings: Settings, limits: Limits, writable: bool) -> None:
        self.settings = settings
        self.limits = limits
        self.writable = writable
        self.metrics = Metrics()
        self.live = Live(settings, limits, self.metrics)
        self._maps = MapCache()
        self._examples: tuple[str, list[str]] = "", []  # of a build of the collection
        self._most_pixels = _REDUCED * settings.max_pixels

    async def search_images(self, uploads: list[bytes], query: schemas.ImagesQuery) -> bytes:
        """Find items by the images of a form, and what else is asked for in JSON."""
        return await self.search(query, uploads)

    async def search(self, query: schemas.Query, uploads: Sequence[bytes] = ()) -> bytes:
        """Find items by a text, an image, both, or an item."""
        started = time.perf_counter()
        in_base64 = [query.image] if isinstance(query.image, str) else query.image or []
        if in_base64 and uploads:
            raise ProblemError(422, "image: send images as files or in base64, not both ways")

        def work(collection: Collection) -> Written:
            images = [self._checked(each) for each in (*map(_decoded, in_base64), *uploads)]
            answer = collection.search(
                text=query.text,
                image=images or None,
                item=query.item,
                unlike=query.unlike,
                features=query.vector,
                weights=_weights(query, bool(images), collection),
                k=query.k,
                where=query.where,
                explain=query.explain,
                mode=query.mode,
                max_pixels=self._most_pixels,
            )
            self.metrics.count(answer)
            return self._answer(answer, collection, started)

        return await self._run(work, "image" if in_base64 or uploads else "quick")

    async def browse(self, asked: schemas.Browse) -> bytes:
        """Return items without a query."""
        started = time.perf_counter()

        def work(collection: Collection) -> Written:
            return self._answer(collection.browse(**asked.model_dump()), collection, started)

        return await self._run(work)

    async def map(self) -> bytes:
        """Return where items lie on a map, which takes a while when it is first asked for."""

        def work(collection: Collection) -> Written:
            made = self._maps.get(collection)
            pairs = zip(made.items, made.positions.tolist(), strict=True)
            points = [
                {
                    "id": item.id,
                    "name": (item.text or _name_of(item))[:_NAME_CHARS],
                    "x": round(x, 4),
                    "y": round(y, 4),
                    "label": item.labels[0] if item.labels else None,
                    "thumbnail": self._address("thumbnail", item) if item.has_thumbnail else None,
                }
                for item, (x, y) in pairs
            ]
            return {"points": points, "n_items": made.n_items}

        return await self._run(work, "map")

    async def original(self, identifier: str) -> tuple[Path, str]:
        """Return the file of an item's image, and its media type."""

        def work(collection: Collection) -> tuple[Path, str]:
            item = collection.item(identifier)
            root, name = self._root_of(item), file_of(item)
            if root is None or name is None:
                raise ProblemError(404, "the image of this item is not served as it was")
            try:
                return original_of(root, name)
            except FileNotFoundError as error:
                raise ProblemError(404, str(error)) from None

        return await self.live.run(_translating(work))

    async def item(self, identifier: str) -> bytes:
        """Return an item."""

        def work(collection: Collection) -> Written:
            item = collection.item(identifier)
            return item.to_dict() | self._addresses(item)

        return await self._run(work)

    async def thumbnail(self, identifier: str) -> bytes:
        """Return an item's small image."""
        return await self.live.run(_translating(lambda c: c.thumbnail(identifier)))

    async def labels(self) -> bytes:
        """Return all labels, the most frequent first."""

        def work(collection: Collection) -> Written:
            ordered = sorted(collection.labels().items(), key=lambda pair: (-pair[1], pair[0]))
            return {"labels": [{"name": name, "count": count} for name, count in ordered]}

        return await self._run(work)

    async def stats(self) -> bytes:
        """Return facts about the collection and the service."""
        limits = {
            "max_body_bytes": self.limits.max_body_bytes,
            "max_json_bytes": self.limits.max_json_bytes,
            "max_pixels": self.settings.max_pixels,
            "max_text_chars": schemas.MAX_TEXT_CHARS,
            "max_k": schemas.MAX_K,
        }
        own = {"modes": get_args(Mode), "limits": limits, "writable": self.writable}

        def work(collection: Collection) -> Written:
            named = {"name": collection.path.stem, "examples": self._examples_of(collection)}
            return asdict(collection.stats()) | own | named

        return await self._run(work)

    async def add_image(self, uploads: list[bytes], item: schemas.ImageItem) -> bytes:
        """Add one item, the image of a form, with what is said of it in JSON."""
        return await self._add([item], uploads)

    async def add(self, new: schemas.NewItems) -> bytes:
        """Add items."""
        return await self._add(new.items, [], replace=new.replace)

    async def _add(
        self, items: Sequence[schemas.NewItem], uploads: list[bytes], *, replace: bool = False
    ) -> bytes:
        """Add items; `uploads` are the images of the first ones."""
        given = [*uploads, *[None] * (len(items) - len(uploads))]
        for position, (item, upload) in enumerate(zip(items, given, strict=True)):
            if not item.text.strip() and item.image is None and upload is None:
                raise ProblemError(422, f"items.{position}: it has neither an image nor a text")
            if item.image is not None and upload is not None:
                raise ProblemError(422, "image: send it as a file or in base64, not both ways")

        def work(collection: Collection) -> Written:
            _check_writable(collection)
            new = []
            for position, (item, upload) in enumerate(zip(items, given, strict=True)):
                image = upload if item.image is None else _decoded(item.image)
                new.append(
                    Item(
                        image=None if image is None else self._checked(image),
                        text=item.text,
                        labels=item.labels,
                        id=item.id,
                        columns=item.columns,
                        origin=f"items.{position}",
                    )
                )
            put = collection.upsert if replace else collection.add
            report = put(new, max_pixels=self._most_pixels)
            self.metrics.items.set(len(collection))
            if not report.ids:
                raise ProblemError(422, "; ".join(f"{at}: {why}" for at, why in report.skipped[:5]))
            skipped = [{"where": where, "why": why} for where, why in report.skipped]
            return {"ids": report.ids, "skipped": skipped}

        has_image = bool(uploads) or any(item.image for item in items)
        lane: Lane = "image" if has_image else "quick"
        return await self.live.change(_translating(_written(work)), lane)

    async def remove(self, identifier: str) -> None:
        """Remove an item."""

        def work(collection: Collection) -> None:
            _check_writable(collection)
            collection.remove([identifier])
            self.metrics.items.set(len(collection))

        await self.live.change(_translating(work))

    async def ready(self) -> bytes:
        """Return whether the server can answer text and image queries."""
        try:
            await asyncio.to_thread(self.live.check)
        except AcqhError as error:
            _LOG.error("not ready: %s", error)
            detail = "a text or image query cannot be answered; the server's log says why"
            raise ProblemError(503, detail) from None
        problem = self.live.problem
        detail = problem or "text and image queries are answered where the collection has them"
        return to_json({"status": "stale" if problem else "ready", "detail": detail})

    async def _run(self, work: Callable[[Collection], Written], lane: Lane = "quick") -> bytes:
        """Return what work gives, written in its thread, however long that is."""
        return await self.live.run(_translating(_written(work)), lane)

    def _answer(self, answer: Answer, collection: Collection, started: float) -> Written:
        facts = answer.to_dict()
        for written, hit in zip(facts["hits"], answer.hits, strict=True):
            written |= self._addresses(hit)
        facts["bytes_per_item"] = collection.bytes_per_item
        facts["milliseconds"]["total"] = 1e3 * (time.perf_counter() - started)
        return facts

    def _examples_of(self, collection: Collection) -> list[str]:
        """Return what to try, found out once for each build of a collection."""
        if not self.settings.examples and self._examples[0] != collection.generation:
            self._examples = collection.generation, examples_in(collection)
        return self.settings.examples or self._examples[1]

    def _root_of(self, item: Item) -> Path | None:
        """Return the folder that an item's image file is named relative to, if it is served."""
        if self.settings.image_root is None and self.settings.is_private and item.folder:
            return Path(item.folder)
        return self.settings.image_root

    def _addresses(self, item: Item) -> Written:
        """Return what an item is called, and where its images are."""
        file, has_originals = file_of(item), self._root_of(item) is not None
        return {
            "name": _name_of(item),
            "file": file,
            "thumbnail": self._address("thumbnail", item) if item.has_thumbnail else None,
            "original": self._address("original", item) if file and has_originals else None,
        }

    def _address(self, what: str, item: Item) -> str:
        return f"{self.settings.root_path}/item/{what}?id={quote(item.id, safe='')}"

    def _checked(self, content: bytes) -> bytes:
        """Return an image whose header can be read and has few enough pixels."""
        images, most = require("PIL.Image"), self.settings.max_pixels
        # What telephones make is taken, too, where its decoder is installed.
        taken = [name for name in image_formats() if name in (*BROWSER_FORMATS, "HEIF")]
        detail = f"the image has more than {most:,} pixels; send a smaller one"
        too_large = ProblemError(413, detail)
        try:
            with open_image(content, taken) as image:
                width, height = image.size
                # Decoded at reduced size; but a progressive one is kept whole while it is decoded.
                is_reduced = image.format == "JPEG" and not image.info.get("progressive")
        except images.DecompressionBombError:
            raise too_large from None
        except Exception:  # damaged bytes make decoders raise anything
            detail = f"image: this is not an image in one of {', '.join(taken)}, or is damaged"
            if is_foreign(content):
                detail = "image: here is no decoder for HEIC (pillow-heif); send it as JPEG"
            raise ProblemError(422, detail) from None
        if width * height > (_REDUCED if is_reduced else 1) * most:
            raise too_large
        return content


def _name_of(item: Item) -> str:
    """Return the words in the name of an item's image file, or else in its id."""
    return words_in_path((file_of(item) or item.id).rpartition("/")[2])


def _decoded(text: str) -> bytes:
    """Return the bytes that a text in base64 stands for."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ProblemError(422, "image: this is not base64; send the file's bytes so") from None


def _check_writable(collection: Collection) -> None:
    if collection.opened.store.read_only:
        raise ProblemError(503, "the collection cannot be changed on this server; see its log")


def _weights(query: schemas.Query, has_images: bool, collection: Collection) -> dict[str, float]:
    """Return the weights of what is asked for; refuse those of what never could be."""
    parts = {"text": query.text, "item": query.item, "unlike": query.unlike}
    given = {name for name, value in parts.items() if value is not None} | set(query.vector or ())
    if has_images:
        given.add("image")
    if has_images and "image" in (query.vector or ()):
        raise ProblemError(422, "image: give an image or its vector, not both")
    possible = {*parts, "image", *collection.views}
    for name in query.weights or {}:
        if name not in possible:
            known = ", ".join(sorted(possible))
            raise ProblemError(422, f"weights: a query has no such part; it may have {known}")
    return {name: weight for name, weight in (query.weights or {}).items() if name in given}


def _written(work: Callable[[Collection], Written]) -> Callable[[Collection], bytes]:
    """Return work that ends with its answer as JSON."""
    return lambda collection: to_json(work(collection), inf_nan_mode="null")


def _translating(work: Callable[[Collection], T]) -> Callable[[Collection], T]:
    """Return work whose errors are problems for clients, where clients can do something."""

    def translated(collection: Collection) -> T:
        try:
            return work(collection)
        except MissingItemError as error:
            raise ProblemError(404, str(error)) from None
        except (CorruptBundleError, EncoderError, MissingExtraError, ReplacedError):
            raise  # our own trouble, not the client's
        except AcqhError as error:
            if isinstance(error.__cause__, sqlite3.Error):
                detail = "the collection is being changed by another process; try again soon"
                raise ProblemError(503, detail, {"Retry-After": "1"}) from error
            detail, folder = str(error), collection.path.absolute().parent
            for parent in (folder, folder.resolve()):  # nobody else's business
                detail = detail.replace(f"{parent}{os.sep}", "")
            raise ProblemError(422, detail) from error

    return translated

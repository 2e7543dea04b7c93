"""What the routes do, without HTTP: queries and changes of the live collection."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar, get_args

from pydantic_core import to_json

from acqh.collection import Answer, Collection, Item, Mode
from acqh.errors import (
    AcqhError,
    CorruptBundleError,
    MissingExtraError,
    MissingItemError,
    ReplacedError,
)
from acqh.serve import _schemas as schemas
from acqh.serve._answers import Addresses, answer_schema, file_of, item_schema, map_schema
from acqh.serve._bodies import listed
from acqh.serve._images import check_image, decode_base64, most_pixels, original_file
from acqh.serve._live import Live
from acqh.serve._map import MapCache
from acqh.serve._metrics import Metrics
from acqh.serve._problems import ProblemError
from acqh.serve._settings import Settings
from acqh.serve._work import Lane

T = TypeVar("T")


class Service:
    """Answers from the live collection, within the limits that are set.

    `writable`: whether clients with a token may change the collection.
    """

    def __init__(self, settings: Settings, writable: bool) -> None:
        self.settings = settings
        self.writable = writable
        self.metrics = Metrics()
        self.live = Live(settings, self.metrics)
        self._maps = MapCache()
        self._most_pixels = most_pixels(settings.max_pixels)
        self._addresses = Addresses(settings.root_path, settings.image_root is not None)
        self.query_schema = schemas.limited_search(settings)
        self.browse_schema = schemas.limited_browse(settings)
        self.items_schema, self.item_schema = schemas.limited_add(settings)

    async def parse(self, work: Callable[[], T]) -> T:
        """Return what is made of a request's body, which may take a while."""
        return await self.live.run(lambda _: work())

    async def search(self, query: schemas.SearchRequest, uploads: list[bytes]) -> bytes:
        """Answer a query; `uploads` are the images of a form."""
        started = time.perf_counter()
        in_base64 = listed(query.image)
        if in_base64 and uploads:
            raise ProblemError(422, "image: send images as files or in base64, not both ways")

        def work(collection: Collection) -> schemas.SearchAnswer:
            images = [self._image(text, None) for text in in_base64]
            images += [self._image(None, upload) for upload in uploads]
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
            self._count(answer)
            return self._answer(answer, collection, started)

        lane: Lane = "image" if in_base64 or uploads else "quick"
        return await self.live.run(_answering(work), lane)

    async def browse(self, asked: schemas.BrowseRequest) -> bytes:
        """Return items without a query."""
        started = time.perf_counter()

        def work(collection: Collection) -> schemas.SearchAnswer:
            answer = collection.browse(**asked.model_dump())
            return self._answer(answer, collection, started)

        return await self.live.run(_answering(work))

    async def map(self) -> bytes:
        """Return where items lie on a map, which takes a while when it is first asked for."""
        return await self.live.run(
            _answering(lambda c: map_schema(self._maps.get(c), self._addresses)), "map"
        )

    async def original(self, identifier: str) -> tuple[Path, str]:
        """Return the file of an item's image, and its media type."""
        root = self.settings.image_root

        def work(collection: Collection) -> tuple[Path, str]:
            name = file_of(collection.item(identifier))
            if root is None or name is None:
                raise ProblemError(404, "the image of this item is not served as it was")
            return original_file(root, name)

        return await self.live.run(_translating(work))

    async def item(self, identifier: str) -> bytes:
        """Return an item."""
        return await self.live.run(
            _answering(lambda c: item_schema(c.item(identifier), self._addresses))
        )

    async def thumbnail(self, identifier: str) -> bytes:
        """Return an item's small image."""
        return await self.live.run(_translating(lambda c: c.thumbnail(identifier)))

    async def labels(self) -> bytes:
        """Return all labels, the most frequent first."""

        def work(collection: Collection) -> schemas.Labels:
            ordered = sorted(collection.labels().items(), key=lambda pair: (-pair[1], pair[0]))
            return schemas.Labels(
                labels=[schemas.Label(name=name, count=count) for name, count in ordered]
            )

        return await self.live.run(_answering(work))

    async def stats(self) -> bytes:
        """Return facts about the collection and the service."""
        names = schemas.Limits.model_fields
        limits = schemas.Limits(**{name: getattr(self.settings, name) for name in names})

        def work(collection: Collection) -> schemas.Stats:
            facts = asdict(collection.stats())
            modes = list(get_args(Mode))
            return schemas.Stats(**facts, modes=modes, limits=limits, writable=self.writable)

        return await self.live.run(_answering(work))

    async def add(
        self, items: list[schemas.ItemRequest], uploads: list[bytes], *, replace: bool
    ) -> bytes:
        """Add items; `uploads` are the images of the first ones."""
        if len(uploads) > len(items):
            raise ProblemError(422, "image: an item has one image")
        given = [*uploads, *[None] * (len(items) - len(uploads))]
        pairs = list(zip(items, given, strict=True))
        _check_not_empty(pairs)

        def work(collection: Collection) -> schemas.AddAnswer:
            new = [
                Item(
                    image=self._image(item.image, upload),
                    text=item.text,
                    labels=item.labels,
                    id=item.id,
                    columns=item.columns,
                    origin=f"items.{position}",
                )
                for position, (item, upload) in enumerate(pairs)
            ]
            put = collection.upsert if replace else collection.add
            report = put(new, max_pixels=self._most_pixels)
            self.metrics.items.set(len(collection))
            if not report.ids:
                raise ProblemError(422, "; ".join(f"{at}: {why}" for at, why in report.skipped[:5]))
            skipped = [schemas.Skipped(where=where, why=why) for where, why in report.skipped]
            return schemas.AddAnswer(ids=list(report.ids), skipped=skipped)

        has_image = any(item.image or upload for item, upload in pairs)
        return await self.live.change(_answering(work), "image" if has_image else "quick")

    async def remove(self, identifier: str) -> None:
        """Remove an item."""

        def work(collection: Collection) -> None:
            collection.remove([identifier])
            self.metrics.items.set(len(collection))

        await self.live.change(_translating(work))

    def _image(self, in_base64: str | None, upload: bytes | None) -> bytes | None:
        content = decode_base64(in_base64) if in_base64 is not None else upload
        if content is not None:
            check_image(content, self.settings.max_pixels)
        return content

    def _answer(
        self, answer: Answer, collection: Collection, started: float
    ) -> schemas.SearchAnswer:
        spent = (time.perf_counter() - started) * 1000
        return answer_schema(answer, collection.bytes_per_item, spent, self._addresses)

    def _count(self, answer: Answer) -> None:
        self.metrics.search_seconds.observe(answer.milliseconds["search"] / 1000)
        self.metrics.encode_seconds.observe(answer.milliseconds["encode"] / 1000)
        self.metrics.items_seen.inc(answer.n_seen)
        self.metrics.items.set(answer.n_items)


def _weights(
    query: schemas.SearchRequest, has_images: bool, collection: Collection
) -> dict[str, float]:
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


def _check_not_empty(pairs: Sequence[tuple[schemas.ItemRequest, bytes | None]]) -> None:
    for position, (item, upload) in enumerate(pairs):
        if not item.text.strip() and item.image is None and upload is None:
            raise ProblemError(422, f"items.{position}: it has neither an image nor a text")


def _answering(work: Callable[[Collection], object]) -> Callable[[Collection], bytes]:
    """Return work that ends with the bytes of an answer, however long that is."""
    return _translating(lambda collection: to_json(work(collection), inf_nan_mode="null"))


def _translating(work: Callable[[Collection], T]) -> Callable[[Collection], T]:
    """Return work whose errors are problems for clients, where clients can do something."""

    def translated(collection: Collection) -> T:
        try:
            return work(collection)
        except MissingItemError as error:
            raise ProblemError(404, str(error)) from None
        except (CorruptBundleError, MissingExtraError, ReplacedError):
            raise  # our own trouble, not the client's
        except AcqhError as error:
            if isinstance(error.__cause__, sqlite3.Error):
                detail = "the collection is being changed by another process; try again soon"
                raise ProblemError(503, detail, {"Retry-After": "1"}) from error
            raise ProblemError(422, str(error)) from error

    return translated

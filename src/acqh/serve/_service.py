"""What the routes do, without HTTP: queries and changes of the live collection."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TypeVar

from pydantic import BaseModel

from acqh.collection import Answer, Collection, Item, Searchable
from acqh.errors import (
    AcqhError,
    CorruptBundleError,
    MissingExtraError,
    MissingItemError,
    ReplacedError,
)
from acqh.serve import _schemas as schemas
from acqh.serve._answers import answer_schema, item_schema
from acqh.serve._live import Live
from acqh.serve._metrics import Metrics
from acqh.serve._pictures import check_picture, decode_base64
from acqh.serve._problems import ProblemError
from acqh.serve._settings import Settings

T = TypeVar("T")


class Service:
    """Answers from the live collection, within the limits that are set.

    Parameters
    ----------
    settings : Settings
    writable : bool
        Whether clients with a token may change the collection.
    """

    def __init__(self, settings: Settings, writable: bool) -> None:
        self.settings = settings
        self.writable = writable
        self.metrics = Metrics()
        self.live = Live(settings, self.metrics)
        self.query_schema = schemas.limited_search(settings)
        self.items_schema, self.item_schema = schemas.limited_add(settings)

    async def parse(self, work: Callable[[], T]) -> T:
        """Return what is made of a request's body, which may take a while."""
        return await self.live.run(lambda _: work())

    async def search(self, query: schemas.SearchRequest, picture: bytes | None) -> bytes:
        """Answer a query."""
        started = time.perf_counter()
        if picture is not None and query.image is not None:
            raise ProblemError(422, "image: give one picture, not two")

        def work(collection: Searchable) -> schemas.SearchAnswer:
            image = self._picture(query.image, picture)
            given = {"text": query.text, "image": image, "item": query.item}
            weights = query.weights or schemas.Weights()
            answer = collection.search(
                text=query.text,
                image=image,
                item=query.item,
                weights={name: getattr(weights, name) for name in given if given[name] is not None},
                k=query.k,
                where=query.where,
                explain=query.explain,
            )
            self._count(answer)
            total = (time.perf_counter() - started) * 1000
            return answer_schema(answer, collection.bytes_per_item, total)

        has_image = picture is not None or query.image is not None
        return await self.live.run(_answering(work), "image" if has_image else "quick")

    async def item(self, identifier: str) -> bytes:
        """Return an item."""
        return await self.live.run(_answering(lambda c: item_schema(c.item(identifier))))

    async def thumbnail(self, identifier: str) -> bytes:
        """Return an item's small picture."""
        return await self.live.run(_translating(lambda c: c.thumbnail(identifier)))

    async def labels(self) -> bytes:
        """Return all labels, the most frequent first."""

        def work(collection: Searchable) -> schemas.Labels:
            ordered = sorted(collection.labels().items(), key=lambda pair: (-pair[1], pair[0]))
            return schemas.Labels(
                labels=[schemas.Label(name=name, count=count) for name, count in ordered]
            )

        return await self.live.run(_answering(work))

    async def stats(self) -> bytes:
        """Return facts about the collection and the service."""
        names = schemas.Limits.model_fields
        limits = schemas.Limits(**{name: getattr(self.settings, name) for name in names})

        def work(collection: Searchable) -> schemas.Stats:
            facts = asdict(collection.stats())
            return schemas.Stats(**facts, limits=limits, writable=self.writable)

        return await self.live.run(_answering(work))

    async def add(
        self, items: list[schemas.ItemRequest], picture: bytes | None, *, replace: bool
    ) -> bytes:
        """Add items; `picture` belongs to the first."""
        given = [picture, *[None] * (len(items) - 1)]
        pairs = list(zip(items, given, strict=True))
        _check_not_empty(pairs)

        def work(collection: Searchable) -> schemas.AddAnswer:
            new = [
                Item(
                    image=self._picture(item.image, upload),
                    text=item.text,
                    labels=item.labels,
                    id=item.id,
                    columns=item.columns,
                    origin=f"items.{position}",
                )
                for position, (item, upload) in enumerate(pairs)
            ]
            single = _writable(collection)
            report = (single.upsert if replace else single.add)(new)
            self.metrics.items.set(len(collection))
            if not report.ids:
                raise ProblemError(422, "; ".join(f"{at}: {why}" for at, why in report.skipped[:5]))
            skipped = [schemas.Skipped(where=where, why=why) for where, why in report.skipped]
            return schemas.AddAnswer(ids=list(report.ids), skipped=skipped)

        has_image = any(item.image or upload for item, upload in pairs)
        return await self.live.change(_answering(work), "image" if has_image else "quick")

    async def remove(self, identifier: str) -> None:
        """Remove an item."""

        def work(collection: Searchable) -> None:
            _writable(collection).remove([identifier])
            self.metrics.items.set(len(collection))

        await self.live.change(_translating(work))

    def _picture(self, in_base64: str | None, upload: bytes | None) -> bytes | None:
        content = decode_base64(in_base64) if in_base64 is not None else upload
        if content is not None:
            check_picture(content, self.settings.max_pixels)
        return content

    def _count(self, answer: Answer) -> None:
        self.metrics.search_seconds.observe(answer.milliseconds["search"] / 1000)
        self.metrics.encode_seconds.observe(answer.milliseconds["encode"] / 1000)
        self.metrics.items_seen.inc(answer.n_seen)
        self.metrics.items.set(answer.n_items)


def _check_not_empty(pairs: Sequence[tuple[schemas.ItemRequest, bytes | None]]) -> None:
    for position, (item, upload) in enumerate(pairs):
        if not item.text.strip() and item.image is None and upload is None:
            raise ProblemError(422, f"items.{position}: it has neither an image nor a text")


def _answering(work: Callable[[Searchable], BaseModel]) -> Callable[[Searchable], bytes]:
    """Return work that ends with the bytes of an answer, however long that is."""
    return _translating(lambda collection: work(collection).model_dump_json().encode())


def _writable(collection: Searchable) -> Collection:
    if isinstance(collection, Collection):
        return collection
    raise ProblemError(403, "several collections are served as one, which cannot be changed here")


def _translating(work: Callable[[Searchable], T]) -> Callable[[Searchable], T]:
    """Return work whose errors are problems for clients, where clients can do something."""

    def translated(collection: Searchable) -> T:
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

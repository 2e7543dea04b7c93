"""Handlers of the operations: queries and changes of the live collection."""

import asyncio
import base64
import binascii
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from acqh._core.fields import DATE, KIND, TAG
from acqh._core.imports import require
from acqh.collection import Answer, Collection, Item
from acqh.collection.search.query import TextQuery, is_faster_together, is_other_language
from acqh.collection.types import Mode
from acqh.encoders.images import image_formats, is_foreign, is_too_large, open_image
from acqh.errors import AcqhError, CollectionError
from acqh.serve import schemas
from acqh.serve.live import Lane, Live
from acqh.serve.metrics import METRICS_TYPE, Metrics
from acqh.serve.settings import Limits, Settings
from acqh.web.originals import BROWSER_FORMATS, file_of, name_of, original_of, preview_of, to_jpeg
from acqh.web.overview import as_rows, examples_in, make_map, most_frequent

_LOG = logging.getLogger(__name__)
# Age from which the map of a changed collection is computed again.
_MAP_SECONDS = 300.0
# Longest name on the map.
_NAME_CHARS = 80
# Marks that people give items in the web interface: boolean fields.
FLAGS = ("favourite", "hidden")
# Answers of more hits take longer.
_QUICK_K = 100
_CACHED = {"Cache-Control": "private, max-age=60"}


class Handlers:
    """Answers from the live collection, within limits.

    `writable`: whether clients with a token may change the collection.
    """

    def __init__(self, settings: Settings, limits: Limits, writable: bool) -> None:
        self.settings = settings
        self.limits = limits
        self.writable = writable
        self.metrics = Metrics()
        self.live = Live(settings, limits, self.metrics)
        self._examples: tuple[str, list[str]] = "", []  # of a generation
        self._max_pixels = settings.max_pixels
        self._is_private = settings.is_private

    async def search(self, query: schemas.Query, uploads: Sequence[bytes] = ()) -> bytes:
        """Find items by a text, images, items, vectors, or several of these.

        `uploads`: images of a form.
        """
        started = time.perf_counter()
        language = query.language or self.settings.language
        inline = [query.image] if isinstance(query.image, str) else query.image or []
        if inline and uploads:
            raise HTTPException(422, "image: send images as files or in base64, not both ways")

        def work(collection: Collection) -> bytes:
            images = [self._check_image(image) for image in (*map(_decode, inline), *uploads)]
            parts = dict(query) | {"image": images or None}
            parts["weights"] = _weights(query, bool(images), collection)
            parts["language"] = language
            answer = collection.search(**parts, max_pixels=self._max_pixels)
            self.metrics.count(answer)
            return self._answer(answer, collection, started)

        # The first text in another language loads an encoder, which takes seconds.
        opened = self.live.collection.opened
        if inline or uploads or is_other_language(opened, query.text, language):
            return await self.live.run(work, "image")
        if query.text is None:
            return await self.live.run(work)
        text = TextQuery(query.text, query.mode, language)
        may_be_quick = not (query.where or query.k > _QUICK_K or is_faster_together(opened))
        return await self.live.run(work, "text", text=text, may_be_quick=may_be_quick)

    async def browse(self, query: schemas.Browse) -> bytes:
        """Return items without a query."""
        started = time.perf_counter()
        return await self.live.run(
            lambda collection: self._answer(collection.browse(**dict(query)), collection, started)
        )

    def _answer(self, answer: Answer, collection: Collection, started: float) -> bytes:
        body = answer.to_dict()
        for hit, item in zip(body["hits"], answer.hits, strict=True):
            hit |= self._addresses(item)
        body["bytes_per_item"] = collection.bytes_per_item
        body["milliseconds"]["total"] = 1e3 * (time.perf_counter() - started)
        return _json(body)

    async def map(self) -> bytes:
        """Return a map of items; the first request takes seconds."""

        def work(collection: Collection) -> bytes:
            return self.live.shared.get(
                "map",
                collection.generation,
                collection.revision,
                _MAP_SECONDS,
                lambda: self._make_map(collection),
            )

        return await self.live.run(work, "map")

    def _make_map(self, collection: Collection) -> bytes:
        overview = make_map(collection)
        points = [
            {
                "id": item.id,
                "name": (item.text or name_of(item))[:_NAME_CHARS],
                "x": round(x, 4),
                "y": round(y, 4),
                "label": item.labels[0] if item.labels else None,
                "tag": next(iter(item.tags), None),
                "thumbnail": self._addresses(item)["thumbnail"],
            }
            for item, (x, y) in zip(overview.items, overview.positions.tolist(), strict=True)
            if item.fields.get("hidden") is not True
        ]
        return _json({"points": points, "n_items": overview.n_items})

    async def item(self, identifier: str) -> bytes:
        """Return an item."""

        def work(collection: Collection) -> bytes:
            item = collection.item(identifier)
            return _json(item.to_dict() | self._addresses(item))

        return await self.live.run(work)

    async def thumbnail(self, identifier: str) -> Response:
        """Return an item's thumbnail."""
        content = await self.live.run(lambda collection: collection.thumbnail(identifier))
        tag = f'"{sha256(content).hexdigest()[:16]}"'
        return Response(content, headers={"ETag": tag} | _CACHED, media_type="image/webp")

    async def original(self, identifier: str) -> Response:
        """Return an item's original image, if the server knows its folder.

        Formats that browsers do not show, such as HEIC and TIFF, are converted to JPEG.
        """
        path, kind = await self._find_original(identifier)
        if kind is not None:
            headers = {"Cache-Control": "private, no-cache"}
            return FileResponse(path, media_type=kind, headers=headers)
        return await self._as_jpeg(to_jpeg, path)

    async def preview(self, identifier: str) -> Response:
        """Return an item's original image as a JPEG of at most 480 pixels a side."""
        path, _ = await self._find_original(identifier)
        return await self._as_jpeg(preview_of, path)

    async def _find_original(self, identifier: str) -> tuple[Path, str | None]:
        """Return the path and the media type of an original; None if browsers do not show it."""

        def find(collection: Collection) -> tuple[Path, str | None]:
            item = collection.item(identifier)
            root, name = self._root_of(item), file_of(item)
            if root is None or name is None:
                raise HTTPException(404, "the original image of this item is not served")
            try:
                return original_of(root, name)
            except FileNotFoundError as error:
                raise HTTPException(404, str(error)) from None

        return await self.live.run(find)

    async def _as_jpeg(self, convert: Callable[[Path, int | None], bytes], path: Path) -> Response:
        content = await self.live.run(
            lambda collection: convert(path, collection.settings.max_pixels), "image"
        )
        return Response(content, headers=_CACHED, media_type="image/jpeg")

    async def labels(self) -> bytes:
        """Return labels, suggested tags and kinds, the most frequent first, and months."""

        def work(collection: Collection) -> bytes:
            facets = collection.facets()
            counts = {"labels": collection.labels(), "tags": facets[TAG], "kinds": facets[KIND]}
            ordered = {name: most_frequent(values) for name, values in counts.items()}
            return _json(ordered | {"months": as_rows(facets[DATE].items())})

        return await self.live.run(work)

    async def info(self) -> bytes:
        """Return facts about the collection and the server."""
        limits = {
            "max_body_bytes": self.limits.max_body_bytes,
            "max_json_bytes": self.limits.max_json_bytes,
            "max_megapixels": self.settings.max_megapixels,
            "max_text_chars": schemas.MAX_TEXT_CHARS,
            "max_k": schemas.MAX_K,
        }

        def work(collection: Collection) -> bytes:
            if not self.settings.examples and self._examples[0] != collection.generation:
                self._examples = collection.generation, examples_in(collection)
            facts = asdict(collection.info())
            del facts["folders"]  # of the machine
            return _json(
                facts
                | {
                    "name": collection.path.stem,
                    "modes": get_args(Mode),
                    "examples": self.settings.examples or self._examples[1],
                    "limits": limits,
                    "writable": self.writable,
                    "flags": {name: _count(collection, name) for name in FLAGS},
                }
            )

        return await self.live.run(work)

    async def add_image(self, item: schemas.NewItem, uploads: list[bytes]) -> bytes:
        """Add one item: the image of a form, with its metadata in JSON."""
        return await self.add(schemas.NewItems.model_construct(items=[item]), uploads)

    async def add(self, new: schemas.NewItems, uploads: Sequence[bytes] = ()) -> bytes:
        """Add items.

        `uploads`: images of the first ones.
        """
        items = new.items
        files = [*uploads, *[None] * (len(items) - len(uploads))]
        for position, (item, file) in enumerate(zip(items, files, strict=True)):
            if not item.text.strip() and item.image is None and file is None:
                raise HTTPException(422, f"items.{position}: send an image or a text")
            if item.image is not None and file is not None:
                raise HTTPException(422, "image: send it as a file or in base64, not both ways")

        def work(collection: Collection) -> bytes:
            added = []
            for position, (item, file) in enumerate(zip(items, files, strict=True)):
                image = file if item.image is None else _decode(item.image)
                if image is not None:
                    self._check_image(image)
                added.append(Item(**dict(item) | {"image": image}, origin=f"items.{position}"))
            put = collection.upsert if new.replace else collection.add
            report = put(added, max_pixels=self._max_pixels)
            self.metrics.items.set(len(collection))
            if not report.ids:
                lines = [f"{item}: {reason}" for item, reason in report.skipped[:5]]
                raise HTTPException(422, "; ".join(lines))
            skipped = [{"item": item, "reason": reason} for item, reason in report.skipped]
            return _json({"ids": report.ids, "skipped": skipped})

        has_image = bool(uploads) or any(item.image for item in items)
        lane: Lane = "image" if has_image else "quick"
        return await self.live.run(work, lane, changes=True)

    async def annotate(self, identifier: str, new: schemas.Annotation) -> bytes:
        """Set the caption, labels or fields of an item, and return the item."""

        def work(collection: Collection) -> bytes:
            collection.item(identifier)  # raises MissingItemError
            values = {name: value for name, value in new if value is not None}
            report = collection.annotate(Item(id=identifier, **values))
            for _, reason in report.skipped:
                raise HTTPException(422, reason)
            item = collection.item(identifier)
            return _json(item.to_dict() | self._addresses(item))

        return await self.live.run(work, changes=True)

    async def remove(self, identifier: str) -> Response:
        """Remove an item."""

        def work(collection: Collection) -> None:
            collection.remove([identifier])
            self.metrics.items.set(len(collection))

        await self.live.run(work, changes=True)
        return Response(status_code=204)

    async def health(self) -> bytes:
        """Return whether the server is alive."""
        return b'{"status":"ok"}'

    async def ready(self) -> bytes:
        """Return whether the server can answer text and image queries."""
        try:
            await asyncio.to_thread(self.live.check)
        except AcqhError as error:
            _LOG.error("not ready: %s", error)
            detail = "a text or image query cannot be answered; see the log of the server"
            raise HTTPException(503, detail) from None
        reload_error = self.live.reload_error
        detail = reload_error or "all kinds of queries that the collection supports are answered"
        return _json({"status": "stale" if reload_error else "ready", "detail": detail})

    async def scrape(self) -> Response:
        """Return metrics for Prometheus."""
        return Response(self.metrics.text(), media_type=METRICS_TYPE)

    def _root_of(self, item: Item) -> Path | None:
        """Return the folder that an item's image file is named relative to, if it is served."""
        if self.settings.originals is None and self._is_private and item.folder:
            return Path(item.folder)
        return self.settings.originals

    def _addresses(self, item: Item) -> dict[str, str | None]:
        """Return an item's name, its file, and the addresses of its images."""
        file, has_original = file_of(item), self._root_of(item) is not None
        prefix, query = f"{self.settings.root_path}/item", f"?id={_quoted(item.id)}"
        return {
            "name": name_of(item),
            "file": file,
            "thumbnail": f"{prefix}/thumbnail{query}" if item.has_thumbnail else None,
            "original": f"{prefix}/original{query}" if file and has_original else None,
        }

    def _check_image(self, content: bytes) -> bytes:
        """Return an image if its header can be read and has few enough pixels."""
        images, most = require("PIL.Image"), self._max_pixels
        # Photos of phones are accepted, too, if their decoder is installed.
        formats = [name for name in image_formats() if name in (*BROWSER_FORMATS, "HEIF")]
        too_large = HTTPException(413, f"the image has more than {most:,} pixels; send fewer")
        try:
            with open_image(content, formats) as image:
                is_large = is_too_large(image, most)
        except images.DecompressionBombError:
            raise too_large from None
        except Exception:  # damaged bytes make decoders raise anything
            detail = f"image: damaged, or not one of {', '.join(formats)}"
            if is_foreign(content):
                detail = "image: HEIC needs pillow-heif on the server; send it as JPEG"
            raise HTTPException(422, detail) from None
        if is_large:
            raise too_large
        return content


_quoted = lru_cache(4_096)(partial(quote, safe=""))
_json: Callable[[Any], bytes] = partial(to_json, inf_nan_mode="null")


def _count(collection: Collection, flag: str) -> int:
    """Return the number of items with a flag."""
    try:
        return collection.browse(where={flag: True}, k=1).n_candidates
    except CollectionError:
        return 0  # no item has such a field


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise HTTPException(422, "image: not base64; send the bytes of the file in it") from None


def _weights(query: schemas.Query, has_images: bool, collection: Collection) -> dict[str, float]:
    """Return the weights of the parts that a query has; reject those that no query can have."""
    vectors = set(query.vector or ())
    if has_images and "image" in vectors:
        raise HTTPException(422, "image: send an image or its vector, not both")
    parts = {"text": query.text, "item": query.item, "unlike": query.unlike}
    present = {name for name, value in parts.items() if value is not None} | vectors
    possible = {*parts, "image", *collection.views}
    weights = query.weights or {}
    if not possible.issuperset(weights):
        raise HTTPException(422, f"weights: a query may have {', '.join(sorted(possible))} only")
    present |= {"image"} if has_images else set()
    return {name: weight for name, weight in weights.items() if name in present}

"""Which address does what."""

from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from acqh.serve import _schemas as schemas
from acqh.serve._bodies import JSON, check_fields, check_json, media_type, read_form
from acqh.serve._guards import Guard
from acqh.serve._openapi import REQUEST_BODIES
from acqh.serve._problems import ProblemError, documented
from acqh.serve._service import Service
from acqh.serve._shield import item_id

M = TypeVar("M", bound=BaseModel)
# An id as a query parameter: any may be written so, also those that a path cannot hold.
AnyId = Annotated[str, Query(alias="id", min_length=1, max_length=schemas.MAX_ID_CHARS)]

_SMALL_BODY = 16 * 1024
STATIC = Path(__file__).parent / "static"
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Static(StaticFiles):
    """The page's files; browsers keep them but ask each time whether they are still good."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Return a file, or 304."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _json(answer: bytes, status: int = 200) -> Response:
    # Not made by FastAPI, which would check once more what is known to be right.
    return Response(answer, status, media_type=JSON)


async def _read(request: Request, service: Service, schema: type[M]) -> tuple[M, list[bytes]]:
    """Return what a request's body says, and the images of a form."""
    if media_type(request) == JSON:
        body = await request.body()
        if len(body) <= _SMALL_BODY:  # done sooner than a thread would begin
            return check_json(body, schema), []
        return await service.parse(lambda: check_json(body, schema)), []
    fields, images = await read_form(request, service.settings.max_json_bytes)
    return await service.parse(lambda: check_fields(fields, schema)), images


def open_routes(service: Service) -> APIRouter:
    """Return what anybody may read: the page, and whether the service is well."""
    router = APIRouter(tags=["service"])

    @router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Response:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    @router.get("/healthz", response_model=schemas.Health, responses=documented([400]))
    async def healthz() -> Response:
        """Say whether the service is well."""
        problem = service.live.problem
        detail = problem or "the collection on disk is served"
        health = schemas.Health(status="stale" if problem else "ok", detail=detail)
        return _json(health.model_dump_json().encode())

    return router


def search_routes(service: Service, guard: Guard) -> APIRouter:
    """Return what finds items."""
    router = APIRouter(tags=["read"], dependencies=guard.dependencies)
    usual = documented([400, 404, 429, 500, 503, *guard.statuses])

    @router.post(
        "/search",
        response_model=schemas.SearchAnswer,
        responses=usual | documented([408, 413, 415, 422]),
        openapi_extra=REQUEST_BODIES["search"],
    )
    async def search(request: Request) -> Response:
        """Find items by a text, an image, both, or an item."""
        query, images = await _read(request, service, service.query_schema)
        return _json(await service.search(query, images))

    @router.post(
        "/browse",
        response_model=schemas.SearchAnswer,
        responses=documented([400, 408, 413, 415, 422, 429, 500, 503, *guard.statuses]),
        openapi_extra=REQUEST_BODIES["browse"],
    )
    async def browse(request: Request) -> Response:
        """Return items without a query: all, or those of a filter."""
        if media_type(request) != JSON:
            raise ProblemError(415, f"send {JSON}, and say so in Content-Type")
        asked, _ = await _read(request, service, service.browse_schema)
        return _json(await service.browse(asked))

    return router


def item_routes(service: Service, guard: Guard) -> APIRouter:
    """Return what shows an item, its id in the path or, as any may be, in the query."""
    router = APIRouter(tags=["read"], dependencies=guard.dependencies)
    usual = documented([400, 404, 429, 500, 503, *guard.statuses])
    image: dict[int | str, dict[str, Any]] = {
        200: _IMAGE,
        304: {"description": "It has not changed."},
    }

    @router.get("/items/{id}", response_model=schemas.Item, responses=usual)
    async def item(id: str) -> Response:  # noqa: A002
        """Return an item."""
        return _json(await service.item(item_id(id)))

    @router.get("/items/{id}/thumbnail", response_class=Response, responses=usual | image)
    async def thumbnail(id: str, request: Request) -> Response:  # noqa: A002
        """Return an item's small image."""
        return _thumbnail(await service.thumbnail(item_id(id)), request)

    @router.get("/item", response_model=schemas.Item, responses=usual | documented([422]))
    async def item_of_any_id(identifier: AnyId) -> Response:
        """Return an item whose id need not fit into a path."""
        return _json(await service.item(identifier))

    @router.get(
        "/item/thumbnail",
        response_class=Response,
        responses=usual | documented([422]) | image,
    )
    async def thumbnail_of_any_id(identifier: AnyId, request: Request) -> Response:
        """Return the small image of an item whose id need not fit into a path."""
        return _thumbnail(await service.thumbnail(identifier), request)

    @router.get(
        "/item/original",
        response_class=Response,
        responses=usual | documented([422]) | {200: _IMAGE},
    )
    async def original(identifier: AnyId) -> Response:
        """Return an item's image as it was, where the service was told where images are."""
        path, kind = await service.original(identifier)
        return FileResponse(path, media_type=kind, headers={"Cache-Control": "private, no-cache"})

    return router


def fact_routes(service: Service, guard: Guard) -> APIRouter:
    """Return what tells about the collection and the service."""
    router = APIRouter(tags=["read"], dependencies=guard.dependencies)
    usual = documented([400, 429, 500, 503, *guard.statuses])

    @router.get("/labels", response_model=schemas.Labels, responses=usual)
    async def labels() -> Response:
        """Return all labels, the most frequent first."""
        return _json(await service.labels())

    @router.get("/map", response_model=schemas.Map, responses=usual)
    async def collection_map() -> Response:
        """Return where items lie on a map; made when it is first asked for, which takes seconds."""
        return _json(await service.map())

    @router.get("/stats", response_model=schemas.Stats, responses=usual)
    async def stats() -> Response:
        """Return facts about the collection and the service."""
        return _json(await service.stats())

    @router.get(
        "/metrics",
        response_class=Response,
        responses=documented([400, *guard.statuses]) | {200: {"content": {_METRICS_TYPE: {}}}},
    )
    async def metrics() -> Response:
        """Return counts for Prometheus."""
        return Response(service.metrics.page(), media_type=_METRICS_TYPE)

    return router


def write_routes(service: Service, guard: Guard) -> APIRouter:
    """Return what changes the collection."""
    router = APIRouter(tags=["write"], dependencies=guard.dependencies)
    usual = documented([400, 429, 500, 503, *guard.statuses])

    @router.post(
        "/items",
        status_code=201,
        response_model=schemas.AddAnswer,
        responses=usual | documented([408, 413, 415, 422]),
        openapi_extra=REQUEST_BODIES["add"],
    )
    async def add(request: Request) -> Response:
        """Add items: many in JSON, or one as a form."""
        if media_type(request) == JSON:
            items, _ = await _read(request, service, service.items_schema)
            return _json(await service.add(items.items, [], replace=items.replace), 201)
        item, images = await _read(request, service, service.item_schema)
        return _json(await service.add([item], images, replace=False), 201)

    @router.delete(
        "/items/{id}", status_code=204, response_class=Response, responses=usual | documented([404])
    )
    async def remove(id: str) -> Response:  # noqa: A002
        """Remove an item."""
        await service.remove(item_id(id))
        return Response(status_code=204)

    @router.delete(
        "/item", status_code=204, response_class=Response, responses=usual | documented([404, 422])
    )
    async def remove_of_any_id(identifier: AnyId) -> Response:
        """Remove an item whose id need not fit into a path."""
        await service.remove(identifier)
        return Response(status_code=204)

    return router


_IMAGE = {
    "description": "The image.",
    "content": {
        name: {} for name in ("image/bmp", "image/gif", "image/jpeg", "image/png", "image/webp")
    },
}


def _thumbnail(content: bytes, request: Request) -> Response:
    tag = f'"{sha256(content).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Cache-Control": "private, max-age=60"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type="image/webp")

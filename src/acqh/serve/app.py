"""The application: which address does what, who may use it, and what stands around it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, File, Form, Query, Request, UploadFile, params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import Json, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from acqh import __version__
from acqh.collection.types import MAX_ID_CHARACTERS
from acqh.serve import schemas
from acqh.serve.live import Live
from acqh.serve.middleware import LimitBody, Shield, allowed_names
from acqh.serve.schemas import ProblemError, documented, invalid
from acqh.serve.service import Service
from acqh.serve.settings import Limits, Settings, Tokens, read_tokens
from acqh.web import PAGE

# An id as a query parameter: any may be written so.
AnyId = Annotated[str, Query(alias="id", min_length=1, max_length=MAX_ID_CHARACTERS)]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]

JSON, FORM = "application/json", "multipart/form-data"
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BEARER = HTTPBearer(auto_error=False, description="The token in the file given to acqh serve.")
_BODIES = [408, 413, 415, 422]
_IMAGE = {
    "description": "The image.",
    "content": {
        name: {} for name in ("image/bmp", "image/gif", "image/jpeg", "image/png", "image/webp")
    },
}


def create_app(settings: Settings | None = None, *, limits: Limits | None = None) -> FastAPI:
    """Make the service for a collection, as an ASGI application.

    The collection is open when this returns, and closed when the application is shut down.

    Parameters
    ----------
    settings : Settings, optional
        Default: from the environment, such as ``ACQH_COLLECTION``. So any ASGI server can call
        this: ``uvicorn --factory acqh.serve:create_app``.
    limits : Limits, optional
        What else clients may ask for; for tests.

    Returns
    -------
    FastAPI

    Raises
    ------
    InvalidInputError
        Other machines could read without a token, or a token cannot be used.
    CorruptBundleError
        The collection is damaged.
    OSError
        The collection, or a file with a token, cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from acqh.collection import Collection, Item
    >>> words = ["cat", "car"] * 4
    >>> things = [Item(text=f"one {word}", labels=[word]) for word in words]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Collection.build(things, folder + "/things.acqh", n_components=2).close()
    ...     app = create_app(Settings(collection=folder + "/things.acqh"))
    ...     app.state.live.close()
    """
    settings = settings or Settings()  # type: ignore[call-arg]
    limits = limits or settings.limits
    tokens = read_tokens(settings)
    service = Service(settings, limits, tokens.write is not None)
    # No pages of FastAPI's own: they load scripts from elsewhere.
    app = FastAPI(
        title="acqh",
        version=__version__,
        lifespan=_lifespan(service.live),
        docs_url=None,
        redoc_url=None,
        servers=[{"url": settings.root_path}] if settings.root_path else None,
    )
    app.state.live = service.live
    for router in _routers(service, tokens):
        app.router.routes.extend(router.routes)  # as they are: including them costs each request
    app.mount("/static", Static(directory=PAGE), name="static")
    app.add_exception_handler(ProblemError, _problem)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _wrong)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _refused)  # type: ignore[arg-type]
    # The innermost first.
    app.add_middleware(LimitBody, limits=limits)
    names = allowed_names(settings.host, settings.is_loopback, settings.allowed_hosts)
    root, metrics = settings.root_path, service.metrics
    is_open = tokens.read is None and not settings.allowed_hosts
    app.add_middleware(Shield, hosts=names, root_path=root, metrics=metrics, is_open=is_open)
    return app


def _lifespan(live: Live) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(live.watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.to_thread(live.close)

    return lifespan


async def _problem(_: Request, error: ProblemError) -> Response:
    return error.response()


async def _wrong(_: Request, error: RequestValidationError) -> Response:
    return invalid(error.errors()).response()


async def _refused(request: Request, error: HTTPException) -> Response:
    if isinstance(error.__cause__, ClientDisconnect):
        raise error.__cause__  # there is nobody to answer
    status, detail, headers = error.status_code, str(error.detail), dict(error.headers or {})
    if status == 400 and error.__cause__ is not None:  # FastAPI could not read the body
        status, detail = 422, "the request cannot be used: its body is not JSON"
    elif status == 404:
        detail = "there is nothing at this address; /openapi.json lists what there is"
    elif status == 405:  # of all routes at the address, of which Starlette names one
        path = request.scope["path"].removeprefix(request.scope["root_path"])
        methods = request.app.openapi()["paths"].get(path, ("get", "head"))  # the page's files
        headers["Allow"] = ", ".join(sorted(map(str.upper, methods)))
        detail = f"this address takes {headers['Allow']} only"
    return ProblemError(status, detail, headers).response()


def _router(tag: str, may_pass: Callable[[str | None], bool] | None, what: str) -> APIRouter:
    """Return a router whose routes look at token and media type before they read a body."""

    class Guarded(APIRoute):
        def get_route_handler(self) -> Handler:
            answer, body = super().get_route_handler(), self.body_field
            is_form = body is not None and isinstance(body.field_info, params.Form)
            wanted = FORM if is_form else JSON
            # FastAPI would read JSON in Python, then check it.
            model: Any = None if body is None or is_form else body.field_info.annotation

            async def guarded(request: Request) -> Response:
                if may_pass is not None and not may_pass(_token(request)):
                    detail = f"{what} needs a token; send it as 'Authorization: Bearer TOKEN'"
                    raise ProblemError(401, detail, {"WWW-Authenticate": "Bearer"})
                kind = request.headers.get("content-type", "").partition(";")[0]
                if body is not None and kind.strip().lower() != wanted:
                    raise ProblemError(415, f"send {wanted}, and say so in Content-Type")
                if model is None:
                    return await answer(request)
                try:
                    query = model.model_validate_json(await request.body())
                except ValidationError as error:
                    raise invalid(error.errors()) from None
                answered: Response = await self.endpoint(query)
                return answered

            return guarded

    is_guarded = [] if may_pass is None else [Depends(_BEARER)]
    return APIRouter(tags=[tag], route_class=Guarded, dependencies=is_guarded)


def _token(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" else None


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


async def _contents(files: list[UploadFile]) -> list[bytes]:
    """Return the bytes of uploads; what a browser leaves empty was not chosen."""
    return [content for each in files if (content := await each.read())]


def _routers(service: Service, tokens: Tokens) -> list[APIRouter]:
    """Return all routes."""
    may_read = None if tokens.read is None else tokens.may_read
    reading = _router("read", may_read, "reading")
    for add in (_search_routes, _item_routes, _fact_routes):
        add(reading, service, [401] if may_read else [])
    made = [_open_routes(service), reading]
    if tokens.write is not None:
        made.append(_router("write", tokens.may_write, "changing the collection"))
        _write_routes(made[-1], service)
    return made


def _open_routes(service: Service) -> APIRouter:
    """Return what anybody may read: the page, and whether the service is well."""
    router = APIRouter(tags=["service"])

    @router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    @router.get("/healthz", response_model=schemas.Health, responses=documented([400, 403]))
    async def healthz() -> Response:
        """Return whether the server is alive."""
        return _json(b'{"status":"ok"}')

    @router.get("/readyz", response_model=schemas.Readiness, responses=documented([400, 403, 503]))
    async def readyz() -> Response:
        """Return whether the server can answer text and image queries."""
        return _json(await service.ready())

    return router


def _search_routes(router: APIRouter, service: Service, refusal: list[int]) -> None:
    """Add what finds items."""
    usual = documented([400, 403, 404, 429, 500, 503, *_BODIES, *refusal])
    uploads = File(min_length=1, max_length=schemas.MAX_IMAGES, description="Image files.")

    @router.post("/search", response_model=schemas.SearchAnswer, responses=usual)
    async def search(query: schemas.Query) -> Response:
        """Find items by a text, an image, both, or an item."""
        return _json(await service.search(query, []))

    @router.post("/search/images", response_model=schemas.SearchAnswer, responses=usual)
    async def search_images(
        image: Annotated[list[UploadFile], uploads],
        query: Annotated[Json[schemas.ImagesQuery] | None, Form()] = None,
    ) -> Response:
        """Find items by the images of a form, and what else is asked for in JSON."""
        return _json(await service.search(query or schemas.ImagesQuery(), await _contents(image)))

    @router.post("/browse", response_model=schemas.SearchAnswer, responses=usual)
    async def browse(asked: schemas.Browse) -> Response:
        """Return items without a query: all, or those of a filter."""
        return _json(await service.browse(asked))


def _item_routes(router: APIRouter, service: Service, refusal: list[int]) -> None:
    """Add what shows an item."""
    usual = documented([400, 403, 404, 422, 429, 500, 503, *refusal])

    @router.get("/item", response_model=schemas.Item, responses=usual)
    async def item(identifier: AnyId) -> Response:
        """Return an item."""
        return _json(await service.item(identifier))

    @router.get(
        "/item/thumbnail",
        response_class=Response,
        responses=usual | {200: _IMAGE, 304: {"description": "It has not changed."}},
    )
    async def thumbnail(identifier: AnyId, request: Request) -> Response:
        """Return an item's small image."""
        content = await service.thumbnail(identifier)
        tag = f'"{sha256(content).hexdigest()[:16]}"'
        headers = {"ETag": tag, "Cache-Control": "private, max-age=60"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="image/webp")

    @router.get("/item/original", response_class=Response, responses=usual | {200: _IMAGE})
    async def original(identifier: AnyId) -> Response:
        """Return an item's image as it was, where the service was told where images are."""
        path, kind = await service.original(identifier)
        return FileResponse(path, media_type=kind, headers={"Cache-Control": "private, no-cache"})


def _fact_routes(router: APIRouter, service: Service, refusal: list[int]) -> None:
    """Add what tells about the collection and the service."""
    usual = documented([400, 403, 429, 500, 503, *refusal])

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
        responses=documented([400, 403, *refusal]) | {200: {"content": {_METRICS_TYPE: {}}}},
    )
    async def metrics() -> Response:
        """Return counts for Prometheus."""
        return Response(service.metrics.page(), media_type=_METRICS_TYPE)


def _write_routes(router: APIRouter, service: Service) -> None:
    """Add what changes the collection."""
    usual = documented([400, 401, 403, 429, 500, 503, *_BODIES])

    @router.post("/items", status_code=201, response_model=schemas.AddAnswer, responses=usual)
    async def add(items: schemas.NewItems) -> Response:
        """Add items."""
        return _json(await service.add(items.items, [], replace=items.replace), 201)

    @router.post("/item", status_code=201, response_model=schemas.AddAnswer, responses=usual)
    async def add_image(
        image: Annotated[UploadFile, File(description="The image file.")],
        item: Annotated[Json[schemas.ImageItem] | None, Form()] = None,
    ) -> Response:
        """Add one item, the image of a form, with what is said of it in JSON."""
        new, content = item or schemas.ImageItem(), await _contents([image])
        return _json(await service.add([new], content, replace=False), 201)

    @router.delete(
        "/item",
        status_code=204,
        response_class=Response,
        responses=documented([400, 401, 403, 404, 422, 429, 500, 503]),
    )
    async def remove(identifier: AnyId) -> Response:
        """Remove an item."""
        await service.remove(identifier)
        return Response(status_code=204)

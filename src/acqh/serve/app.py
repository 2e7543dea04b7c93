"""`create_app`: the operations of the API, the web interface, and the middleware around them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from typing import Any

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from acqh.serve import schemas
from acqh.serve.middleware import LimitBody, Shield, allowed_names
from acqh.serve.operations import Form, Id, IdAndTag, Json, Operation, described, routes
from acqh.serve.schemas import ProblemError
from acqh.serve.service import Service
from acqh.serve.settings import Limits, Settings, Tokens, read_tokens
from acqh.web import PAGE

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NO_CACHE = {"Cache-Control": "no-cache"}  # browsers keep it but ask whether it has changed
_IMAGE = {
    "description": "The image.",
    "content": {f"image/{name}": {} for name in ("bmp", "gif", "jpeg", "png", "webp")},
}


def create_app(settings: Settings | None = None, *, limits: Limits | None = None) -> Starlette:
    """Make the server of a collection, as an ASGI application.

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
    Starlette

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
    operations = _operations(service, tokens)
    document = to_json(described(operations, settings.root_path))

    async def page(_: Request) -> Response:
        return FileResponse(PAGE / "index.html", headers=_NO_CACHE)

    async def openapi(_: Request) -> Response:
        return Response(document, media_type="application/json")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(service.live.watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.to_thread(service.live.close)

    shield = Middleware(
        Shield,
        hosts=allowed_names(settings.host, settings.is_loopback, settings.allowed_hosts),
        root_path=settings.root_path,
        metrics=service.metrics,
        is_open=tokens.read is None and not settings.allowed_hosts,
    )
    app = Starlette(
        routes=[
            *routes(operations),
            Route("/", page),
            Route("/openapi.json", openapi),
            Mount("/static", Static(directory=PAGE)),
        ],
        middleware=[shield, Middleware(LimitBody, limits=limits)],
        exception_handlers={HTTPException: _failed},
        lifespan=lifespan,
    )
    app.state.live = service.live
    return app


async def _failed(_: Request, error: Any) -> Response:
    """Return the error response for what the framework or an operation rejects."""
    if isinstance(error, ProblemError):
        return error.response()
    headers, detail = dict(error.headers or {}), str(error.detail)
    if error.status_code == 404:
        detail = "there is nothing at this address; /openapi.json lists what there is"
    elif error.status_code == 405:
        headers.setdefault("Allow", "GET, HEAD")  # files of the web interface
        detail = f"this address takes {headers['Allow']} only"
    return ProblemError(error.status_code, detail, headers).response()


class Static(StaticFiles):
    """The files of the web interface."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Return a file, or 304."""
        response = super().file_response(*args, **kwargs)
        response.headers.update(_NO_CACHE)
        return response


def _operations(service: Service, tokens: Tokens) -> list[Operation]:
    """Return the operations that the settings allow."""

    async def healthz() -> bytes:
        """Return whether the server is alive."""
        return b'{"status":"ok"}'

    async def thumbnail(identifier: str, known: str | None) -> Response:
        """Return an item's thumbnail."""
        content = await service.thumbnail(identifier)
        tag = f'"{sha256(content).hexdigest()[:16]}"'
        headers = {"ETag": tag, "Cache-Control": "private, max-age=60"}
        if known == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="image/webp")

    async def original(identifier: str) -> Response:
        """Return an item's original image, if the server knows its folder."""
        path, kind = await service.original(identifier)
        return FileResponse(path, media_type=kind, headers={"Cache-Control": "private, no-cache"})

    async def metrics() -> Response:
        """Return metrics for Prometheus."""
        return Response(service.metrics.page(), media_type=_METRICS_TYPE)

    async def remove(identifier: str) -> Response:
        """Remove an item."""
        await service.remove(identifier)
        return Response(status_code=204)

    form = Form("query", schemas.ImagesQuery, schemas.MAX_IMAGES)
    read = partial(Operation, tag="read", may_use=tokens.may_read if tokens.read else None)
    write = partial(Operation, tag="write", may_use=tokens.may_write)
    found, added = schemas.SearchAnswer, schemas.AddAnswer
    find = partial(read, answer=found, failures=(404, 429, 500, 503))  # 404: an item of the query
    counts = {"description": "The metrics.", "content": {_METRICS_TYPE: {}}}
    operations = [
        Operation("GET", "/healthz", healthz, "server", answer=schemas.Health, failures=()),
        Operation("GET", "/readyz", service.ready, "server", answer=schemas.Readiness),
        find("POST", "/search", service.search, takes=Json(schemas.Query)),
        find("POST", "/search/images", service.search_images, takes=form),
        read("POST", "/browse", service.browse, takes=Json(schemas.Browse), answer=found),
        read("GET", "/item", service.item, takes=Id(), answer=schemas.Item),
        read("GET", "/item/thumbnail", thumbnail, takes=IdAndTag(), answer=_IMAGE),
        read("GET", "/item/original", original, takes=Id(), answer=_IMAGE),
        read("GET", "/labels", service.labels, answer=schemas.Labels),
        read("GET", "/map", service.map, answer=schemas.Map),
        read("GET", "/stats", service.stats, answer=schemas.Stats),
        read("GET", "/metrics", metrics, answer=counts, failures=()),
    ]
    if tokens.write is None:
        return operations
    form = Form("item", schemas.ImageItem, 1)
    items = Json(schemas.NewItems)
    return [
        *operations,
        write("POST", "/items", service.add, takes=items, answer=added, status=201),
        write("POST", "/item", service.add_image, takes=form, answer=added, status=201),
        write("DELETE", "/item", remove, takes=Id(), status=204),
    ]

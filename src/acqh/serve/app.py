"""`create_app`: the operations of the API, the web interface, and the middleware around them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
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
from acqh.serve.handlers import Handlers
from acqh.serve.metrics import METRICS_TYPE
from acqh.serve.middleware import LimitBody, Shield, allowed_names
from acqh.serve.operations import Operation, openapi, routes
from acqh.serve.schemas import error_response
from acqh.serve.settings import Limits, Settings, Tokens, read_tokens
from acqh.web import PAGE
from acqh.web.originals import ORIGINAL_TYPES

_NO_CACHE = {"Cache-Control": "no-cache"}  # browsers keep files but ask whether they have changed


def create_app(settings: Settings | None = None, *, limits: Limits | None = None) -> Starlette:
    """Make the server of a collection, as an ASGI application.

    The collection is open when this returns, and closed when the application is shut down.

    Parameters
    ----------
    settings : Settings, optional
        Default: from the environment, such as ``ACQH_COLLECTION``. So any ASGI server can call
        this: ``uvicorn --factory acqh.serve:create_app``.
    limits : Limits, optional
        Limits on requests and connections; for tests.

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
    handlers = Handlers(settings, limits, tokens.write is not None)
    operations = _operations(handlers, tokens)
    document = to_json(openapi(operations, settings.root_path))

    async def page(_: Request) -> Response:
        return FileResponse(PAGE / "index.html", headers=_NO_CACHE)

    async def description(_: Request) -> Response:
        return Response(document, media_type="application/json")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(handlers.live.watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.to_thread(handlers.live.close)

    app = Starlette(
        routes=[
            *routes(operations),
            Route("/", page),
            Route("/openapi.json", description),
            Mount("/static", Static(directory=PAGE)),
        ],
        middleware=[
            Middleware(
                Shield,
                hosts=allowed_names(settings.host, settings.is_loopback, settings.allowed_hosts),
                root_path=settings.root_path,
                metrics=handlers.metrics,
                is_open=tokens.read is None and not settings.allowed_hosts,
            ),
            Middleware(LimitBody, limits=limits),
        ],
        exception_handlers={HTTPException: _failed},
        lifespan=lifespan,
    )
    app.state.live = handlers.live
    return app


async def _failed(_: Request, error: Any) -> Response:
    """Return the error response for a request that the framework or a handler rejects."""
    headers, detail = dict(error.headers or {}), error.detail
    if detail == HTTPStatus.NOT_FOUND.phrase:
        detail = "there is nothing at this address; see /openapi.json"
    elif error.status_code == 405:
        headers.setdefault("Allow", "GET, HEAD")  # files of the web interface
        detail = f"this address allows {headers['Allow']} only"
    return error_response(error.status_code, detail, headers)


class Static(StaticFiles):
    """The files of the web interface."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Return a file, or 304."""
        response = super().file_response(*args, **kwargs)
        response.headers.update(_NO_CACHE)
        return response


def _operations(handlers: Handlers, tokens: Tokens) -> list[Operation]:
    """Return the operations that the settings allow."""
    server = partial(Operation, tag="server")
    read = partial(Operation, tag="read", may_use=tokens.may_read if tokens.read else None)
    find = partial(read, "POST", answer=schemas.Answer)
    item = partial(read, "GET", has_id=True)
    write = partial(Operation, tag="write", may_use=tokens.may_write)
    add = partial(write, "POST", answer=schemas.Added, status=201)
    images = {"body": schemas.ImagesQuery, "form": "query", "max_images": schemas.MAX_IMAGES}
    operations = [
        server("GET", "/healthz", handlers.health, answer=schemas.Health),
        server("GET", "/readyz", handlers.ready, answer=schemas.Readiness),
        find("/search", handlers.search, body=schemas.Query),
        find("/search/images", handlers.search, **images),
        find("/browse", handlers.browse, body=schemas.Browse),
        item("/item", handlers.item, answer=schemas.Item),
        item("/item/thumbnail", handlers.thumbnail, answer=("image/webp",)),
        item("/item/preview", handlers.preview, answer=("image/jpeg",)),
        item("/item/original", handlers.original, answer=ORIGINAL_TYPES),
        read("GET", "/labels", handlers.labels, answer=schemas.Labels),
        read("GET", "/map", handlers.map, answer=schemas.Map),
        read("GET", "/info", handlers.info, answer=schemas.Info),
        read("GET", "/metrics", handlers.scrape, answer=(METRICS_TYPE,)),
    ]
    if tokens.write is None:
        return operations
    return [
        *operations,
        add("/items", handlers.add, body=schemas.NewItems),
        add("/item", handlers.add_image, body=schemas.ImageItem, form="item"),
        write(
            "PATCH",
            "/item",
            handlers.annotate,
            answer=schemas.Item,
            has_id=True,
            body=schemas.Annotation,
        ),
        write("DELETE", "/item", handlers.remove, has_id=True, status=204),
    ]

"""The application: everything put together."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route

from acqh import __version__
from acqh.serve._guards import reading, writing
from acqh.serve._limits import LimitBody
from acqh.serve._live import Live
from acqh.serve._metrics import Measure
from acqh.serve._openapi import document
from acqh.serve._problems import ProblemError, invalid
from acqh.serve._routes import (
    STATIC,
    Static,
    fact_routes,
    item_routes,
    open_routes,
    search_routes,
    write_routes,
)
from acqh.serve._service import Service
from acqh.serve._settings import Settings
from acqh.serve._shield import Shield, allowed_names
from acqh.serve._tokens import Tokens, read_tokens


def create_app(settings: Settings) -> FastAPI:
    """Make the service for a collection, as an ASGI application.

    The collection is open when this returns, and closed when the application is shut down.

    Parameters
    ----------
    settings : Settings

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
    tokens = read_tokens(settings)
    service = Service(settings, tokens.allows_writing)
    # No pages of FastAPI's own: they load scripts from elsewhere.
    app = FastAPI(
        title="acqh",
        version=__version__,
        lifespan=_lifespan(service.live),
        docs_url=None,
        redoc_url=None,
    )
    app.state.live = service.live
    routers = _routers(service, tokens)
    for router in routers:
        app.include_router(router)
    app.mount("/static", Static(directory=STATIC), name="static")
    _describe(app, service)
    _add_problems(app, [route for router in routers for route in router.routes])
    _add_limits(app, service)
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


def _routers(service: Service, tokens: Tokens) -> list[APIRouter]:
    readers = reading(tokens)
    routers = [open_routes(service)]
    routers += [make(service, readers) for make in (search_routes, item_routes, fact_routes)]
    if tokens.allows_writing:
        routers.append(write_routes(service, writing(tokens)))
    return routers


def _describe(app: FastAPI, service: Service) -> None:
    bodies: dict[str, type[BaseModel]] = {
        "Query": service.query_schema,
        "Browse": service.browse_schema,
    }
    forms: dict[str, type[BaseModel]] = {"QueryForm": service.query_schema}
    if service.writable:
        bodies["NewItems"], forms["NewItemForm"] = service.items_schema, service.item_schema
    app.openapi = lambda: document(app, bodies, forms, service.settings.root_path)  # type: ignore[method-assign]


def _add_limits(app: FastAPI, service: Service) -> None:
    """Add middleware, the innermost first."""
    settings = service.settings
    app.add_middleware(LimitBody, settings=settings)
    hosts = allowed_names(settings.host, settings.is_loopback, settings.allowed_hosts)
    app.add_middleware(Shield, hosts=hosts, root_path=settings.root_path)
    app.add_middleware(Measure, metrics=service.metrics)


def _add_problems(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Have every error answered with a problem."""

    @app.exception_handler(ProblemError)
    async def problem(_: Request, error: ProblemError) -> Response:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def wrong(_: Request, error: RequestValidationError) -> Response:
        return invalid(error.errors()).response()

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        detail = str(error.detail)
        if error.status_code == 404:
            detail = "there is nothing at this address; /openapi.json lists what there is"
        elif error.status_code == 405:
            headers["Allow"] = ", ".join(_methods_at(request, routes))
            detail = f"this address takes {headers['Allow']} only"
        return ProblemError(error.status_code, detail, headers).response()


def _methods_at(request: Request, routes: Sequence[BaseRoute]) -> list[str]:
    """Return the methods of all routes at a request's address, of which Starlette names one."""
    found = set()
    for route in routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found) or ["GET", "HEAD"]  # the page's files

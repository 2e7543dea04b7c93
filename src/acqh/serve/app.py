"""The application: everything put together."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from acqh import __version__
from acqh.serve.live import Live
from acqh.serve.middleware import LimitBody, Measure, Shield, allowed_names
from acqh.serve.routes import PAGE, Static, routers
from acqh.serve.schemas import ProblemError, invalid
from acqh.serve.service import Service
from acqh.serve.settings import Limits, Settings, read_tokens


def create_app(settings: Settings, *, limits: Limits | None = None) -> FastAPI:
    """Make the service for a collection, as an ASGI application.

    The collection is open when this returns, and closed when the application is shut down.

    Parameters
    ----------
    settings : Settings
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
    limits = limits or Limits()
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
    for router in routers(service, tokens):
        app.include_router(router)
    app.mount("/static", Static(directory=PAGE), name="static")
    app.add_exception_handler(ProblemError, _problem)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _wrong)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _refused)  # type: ignore[arg-type]
    # The innermost first.
    app.add_middleware(LimitBody, max_bytes=settings.max_body_bytes, limits=limits)
    names = allowed_names(settings.host, settings.is_loopback, settings.allowed_hosts)
    app.add_middleware(Shield, hosts=names, root_path=settings.root_path)
    app.add_middleware(Measure, metrics=service.metrics)
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

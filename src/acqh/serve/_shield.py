"""What stands between every request and the application: names, headers, and unexpected errors."""

import logging
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acqh.serve._problems import ProblemError

_LOG = logging.getLogger(__name__)

SECURITY_HEADERS = {
    # The page's own files and images it was given, nothing inline, nothing from elsewhere.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Shield:
    """ASGI middleware around everything else.

    It refuses requests that name another host (a page elsewhere whose name was made to lead to
    this machine), adds security headers to every answer, keeps the parts of a path apart, and
    turns whatever goes wrong into a problem that tells clients nothing about our insides.

    `hosts`: names by which clients may call; None allows any. `root_path`: what may stand before
    every path.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None, root_path: str = "") -> None:
        self.app = app
        self.hosts = hosts
        self.root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def add_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        host = host_name(Headers(scope=scope).get("host", ""))
        if self.hosts is not None and host not in self.hosts:
            detail = "this service does not go by the name in the Host header; see allowed_hosts"
            await ProblemError(400, detail).response()(scope, receive, add_headers)
            return
        scope["path"] = path_with_parts(scope)
        if self.root_path and scope["path"] == self.root_path:
            there = RedirectResponse(f"{self.root_path}/", 308)
            await there(scope, receive, add_headers)
            return
        if self.root_path and scope["path"].startswith(f"{self.root_path}/"):
            scope["path"] = scope["path"].removeprefix(self.root_path)
        try:
            await self.app(scope, receive, add_headers)
        except ClientDisconnect:
            return  # there is nobody to answer, and nothing is wrong here
        except Exception:
            _LOG.exception("%s failed", scope["method"])
            if started:
                raise
            detail = "something failed in the service; its log says what"
            await ProblemError(500, detail).response()(scope, receive, add_headers)


def allowed_names(host: str, is_loopback: bool, extra: list[str]) -> frozenset[str] | None:
    """Return the names by which clients may call, or None for any.

    On another address than loopback a token guards the collection, which pages elsewhere do not
    have; there names are checked only where some are given.
    """
    if not is_loopback and not extra:
        return None
    return _LOOPBACK_NAMES | {host.lower(), *(name.lower() for name in extra)}


def host_name(header: str) -> str:
    """Return the name in a Host header, without the port.

    Examples
    --------
    >>> host_name("localhost:8000"), host_name("[::1]:8000"), host_name("Example.org")
    ('localhost', '::1', 'example.org')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def path_with_parts(scope: Scope) -> str:
    """Return the path decoded but for ``%2F`` and ``%25``, so that ids may contain slashes.

    `item_id` undoes the rest.
    """
    raw: bytes | None = scope.get("raw_path")
    if not raw or b"%" not in raw:
        return str(scope["path"])
    kept = raw.decode("latin-1").replace("%25", "%2525").replace("%2F", "%252F")
    return unquote(kept.replace("%2f", "%252F"))


def item_id(part: str) -> str:
    """Return the id that a part of a path from `path_with_parts` stands for.

    Examples
    --------
    >>> item_id("holiday%2F100%25.jpg")
    'holiday/100%.jpg'
    """
    return unquote(part)

"""What the service counts, for Prometheus."""

import time

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A search takes microseconds, an image to describe tens of milliseconds.
_BUCKETS = [round(step * 10.0**power, 7) for power in range(-5, 1) for step in (1, 2.5, 5)]

# Others are counted together: clients can make up as many as they like.
_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE"})

# Not a status of HTTP, but counted as one where a client hung up and nothing was answered.
_CLIENT_GONE = 499


class Metrics:
    """Counts of one service, kept in a registry of its own so that services do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "acqh_requests", "Requests answered.", ["method", "route", "status"],
            registry=self.registry,
        )  # fmt: skip
        self.request_seconds = Histogram(
            "acqh_request_seconds", "Time from a request's header to its answer.", ["route"],
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.in_flight = Gauge(
            "acqh_requests_in_flight", "Requests being answered now.", registry=self.registry
        )
        self.search_seconds = Histogram(
            "acqh_search_seconds", "Time in the index alone.", buckets=_BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        self.encode_seconds = Histogram(
            "acqh_encode_seconds", "Time to turn a query into a vector.", buckets=_BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        self.items_seen = Counter(
            "acqh_items_seen", "Items that searches looked at.", registry=self.registry
        )
        self.items = Gauge("acqh_items", "Items in the collection.", registry=self.registry)
        self.reloads = Counter(
            "acqh_reloads", "Collections built again, and what became of them.", ["outcome"],
            registry=self.registry,
        )  # fmt: skip
        self.reload_failed = Gauge(
            "acqh_reload_failed",
            "1 while the collection on disk is damaged and the one before is served.",
            registry=self.registry,
        )

    def page(self) -> bytes:
        """Return all counts in Prometheus' text format."""
        return generate_latest(self.registry)


class Measure:
    """ASGI middleware that counts and times requests by route, never by what clients wrote."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = _CLIENT_GONE

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self.metrics.in_flight.track_inprogress():
            try:
                await self.app(scope, receive, note_status)
            finally:
                route = getattr(scope.get("route"), "path", None) or "other"
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self.metrics.requests.labels(method, route, status).inc()
                elapsed = time.perf_counter() - started
                self.metrics.request_seconds.labels(route).observe(elapsed)

"""Metrics of the server for Prometheus: of one process, or of all workers together."""

import os
from functools import partial

import prometheus_client as prometheus
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from acqh.collection import Answer

# Where workers write their metrics, if there are several; prometheus_client reads it on import.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
# A search takes microseconds, encoding an image tens of milliseconds.
_BUCKETS = [round(step * 10.0**power, 7) for power in range(-5, 1) for step in (1, 2.5, 5)]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Metrics in a registry of their own, so that servers in one process do not mix."""

    def __init__(self) -> None:
        self.registry = registry = prometheus.CollectorRegistry()
        self._is_shared = FOLDER in os.environ
        if not self._is_shared:
            prometheus.ProcessCollector(registry=registry)
        counter = partial(prometheus.Counter, registry=registry)
        gauge = partial(prometheus.Gauge, registry=registry)
        times = partial(prometheus.Histogram, buckets=_BUCKETS, registry=registry)
        self.requests = counter(
            "acqh_requests", "Requests answered.", ["method", "route", "status"]
        )
        self.request_seconds = times(
            "acqh_request_seconds", "Seconds from header to answer.", ["route"]
        )
        self.in_flight = gauge(
            "acqh_requests_in_flight", "Requests being answered now.", multiprocess_mode="livesum"
        )
        worker = gauge("acqh_worker_info", "Worker processes.", multiprocess_mode="liveall")
        worker.set(1)
        self.search_seconds = times("acqh_search_seconds", "Seconds of a search in the index.")
        self.encode_seconds = times("acqh_encode_seconds", "Seconds to encode a query.")
        self.items_scanned = counter("acqh_items_scanned", "Items scanned by searches.")
        self.items = gauge(
            "acqh_items", "Items in the collection.", multiprocess_mode="livemostrecent"
        )
        self.reloads = counter(
            "acqh_reloads", "Reloads of the collection, by outcome.", ["outcome"]
        )
        self.reload_failed = gauge(
            "acqh_reload_failed",
            "1 while the collection on disk cannot be opened.",
            multiprocess_mode="livemax",
        )

    def count(self, answer: Answer) -> None:
        """Count a search."""
        self.search_seconds.observe(answer.milliseconds["search"] / 1000)
        self.encode_seconds.observe(answer.milliseconds["encode"] / 1000)
        self.items_scanned.inc(answer.n_scanned)
        self.items.set(answer.n_items)

    def text(self) -> bytes:
        """Return the metrics of all workers in Prometheus' text format."""
        if not self._is_shared:
            return prometheus.generate_latest(self.registry)
        registry = prometheus.CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return prometheus.generate_latest(registry)


def mark_dead(process: int) -> None:
    """Drop the gauges of a worker that has ended; its counters stay."""
    mark_process_dead(process, os.environ[FOLDER])  # type: ignore[no-untyped-call]

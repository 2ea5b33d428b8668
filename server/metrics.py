"""Prometheus metrics, in a registry of each application's own."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.boards.metrics import BoardMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The service's metrics; what the database or the engine knows is read when they are asked for."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.trials = Counter(
            "tilefleet_trials", "Trials measured, by outcome.", ["outcome"], registry=self.registry
        )
        self.infrastructure_failures = Counter(
            "tilefleet_infrastructure_failures",
            "Trials that failed by the fault of a board, an upload or a killed compiler.",
            registry=self.registry,
        )
        self.jobs = Gauge("tilefleet_jobs", "Jobs by state.", ["state"], registry=self.registry)
        self.free = Gauge(
            "tilefleet_free_disk_bytes", "What is free on the state folder's disk.", registry=self.registry
        )
        self.undelivered = Gauge(
            "tilefleet_notices_undelivered",
            "Notices that a place was not told, after all tries.",
            registry=self.registry,
        )
        self.boards = BoardMetrics(self.registry)
        self.requests = Counter(
            "tilefleet_http_requests",
            "HTTP requests by operation and status.",
            ["operation", "status"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "tilefleet_http_request_seconds",
            "Seconds until the answer was complete, by operation; streams of events left out.",
            ["operation"],
            registry=self.registry,
        )

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self.registry)


class CountRequests:
    """Counts requests by their operation id, so that paths make no new series."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count it when it is answered."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500
        start = time.perf_counter()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            operation = getattr(scope.get("route"), "name", "none")
            self.metrics.requests.labels(operation, status).inc()
            if operation not in ("follow_job", "follow_boards"):
                self.metrics.request_seconds.labels(operation).observe(time.perf_counter() - start)

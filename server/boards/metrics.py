"""Prometheus metrics of the boards, as the database and the dispatcher know them when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge

from server.boards.schemas import Board
from worker.fleet.states import Activity, Health


class BoardMetrics:
    """Totals are kept in the database, so they go on over restarts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, what: str, *labels: str) -> Gauge:
            return Gauge(f"tilefleet_board_{name}", what, ["board", *labels], registry=registry)

        self._up = gauge("up", "Whether a board answers.")
        self._health = gauge("health", "1 for the health that a board is in.", "health")
        self._activity = gauge("activity", "1 for what a board does.", "activity")
        self._figures = {
            "utilisation": gauge("utilisation", "Share of the last 5 minutes inside the timer."),
            "busy_s": gauge("busy_seconds_total", "Seconds that a board has worked on trials."),
            "timed_s": gauge("timed_seconds_total", "Seconds that a board has been inside the timer."),
            "trials": gauge("trials_total", "Candidates that a board has measured."),
            "leases": gauge("leases_total", "Leases of a board that ended well."),
            "faults": gauge("faults_total", "Infrastructure errors and failed health checks of a board."),
            "reference_s": gauge("reference_seconds", "Time of the reference kernel in the last check."),
            "drift": gauge("drift", "That time over the best one."),
        }
        self._queue = Gauge("tilefleet_queue_length", "Batches that wait for a board.", registry=registry)

    def show(self, boards: Sequence[Board], waiting: int) -> None:
        """Take over what there is now; boards that are gone leave no series behind."""
        self._queue.set(waiting)
        for gauge in (self._up, self._health, self._activity, *self._figures.values()):
            gauge.clear()
        for board in boards:
            self._up.labels(board.id).set(board.activity is not Activity.OFFLINE)
            for health in Health:
                self._health.labels(board.id, health.value).set(board.health is health)
            for activity in Activity:
                self._activity.labels(board.id, activity.value).set(board.activity is activity)
            for name, figure in self._figures.items():
                value = getattr(board, name)
                if value is not None:
                    figure.labels(board.id).set(value)

"""What tuning gained, as the API tells it, or why nobody knows."""

from __future__ import annotations

from server.db.tables import JobRow
from server.jobs.built import BuiltModel, JobVerdict
from tuner.backend.check import Delivery
from tuner.states import JobState


def verdict_of(delivery: Delivery) -> JobVerdict | None:
    """The verdict of the race at a job's end; None where there was none."""
    found = delivery.verdict
    if found is None:
        return None
    return JobVerdict(
        untuned_ms=1e3 * found.untuned_s,
        delivered_ms=1e3 * found.delivered_s,
        gain=found.gain,
        low=found.low,
        high=found.high,
        difference=found.difference,
        rounds=found.rounds,
        same=found.same,
        peer=found.peer,
        peer_ms=None if found.peer_s is None else 1e3 * found.peer_s,
        text=str(found),
    )


def why_no_verdict(row: JobRow, built: BuiltModel | None) -> str:
    """Why a job that ended has no verdict; empty while it may still get one."""
    if not JobState(row.state).final:
        return ""
    if row.model_hash is None:
        ended = "it was cancelled" if row.state == JobState.CANCELLED else "an older version ended it"
        return row.message or f"its configs were not raced: {ended}"
    if built is None:
        return row.message or "its model was not built"
    if built.measured_ms is None:
        return "its built model is wrong"
    return "its model was not raced beside the untuned one: an older version of Tilefleet ended it"
